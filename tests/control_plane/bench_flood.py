"""Floods the webhook and the metrics of a leader on a real API server, and prints how it kept its
Lease meanwhile.

python -m tests.control_plane.bench_flood --flood bodies --connections 1000 --addresses 1

The flood comes from a process of its own, from 127.0.0.2 on (`--addresses 0`: from 127.0.0.1, as
API server and kubelet do). Must not: assert."""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from scaler.kube.api import CONFIG_MAPS, LEASES, NAMESPACES, PODS, KubeApi, Object
from scaler.kube.errors import AlreadyExistsError, KubeError
from scaler.names import GATE, RULE_KEY
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions
from tests.control_plane.bench_gates import make, released
from tests.control_plane.bench_reaction import PLACE
from tests.control_plane.build import VERSIONS
from tests.control_plane.plane import ControlPlane, PlaneOptions, temporary
from tests.control_plane.programs import free_ports
from tests.control_plane.scaler_process import ACCOUNT, LEASE, NAMESPACE, ScalerProcess, scaler
from tests.control_plane.stage import until
from tests.control_plane.test_admission import HELD, configurations, gates, kustomization, pod
from tests.jobs import rule_config_map
from tests.serve.reviewing import request

BODY = 8 * 2**20
CHUNK = b'{"a":"' + b"x" * (2**16 - 6)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _bodies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body as large as may be, as fast as can be."""
    writer.write(b"POST /validate/rules HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % BODY)
    for _ in range(BODY // len(CHUNK)):
        writer.write(CHUNK)
        await writer.drain()
    await reader.read(2**16)


async def _slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body that never ends."""
    writer.write(b"POST /mutate/pods HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % BODY)
    while not reader.at_eof():
        writer.write(b"x" * 100)
        await writer.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(2**16), 0.5)


async def _chunked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body of which nobody knows how long it gets."""
    writer.write(b"POST /validate/rules HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(10 * BODY // len(CHUNK)):
        writer.write(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK))
        await writer.drain()


async def _header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A header that never ends."""
    writer.write(b"POST /mutate/pods HTTP/1.1\r\nHost: a\r\n")
    while not reader.at_eof():
        writer.write(b"x-a: b\r\n")
        await writer.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(2**16), 0.5)


async def _small(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Short requests, one after the other, for ever."""
    while not reader.at_eof():
        writer.write(b"POST /validate/labels HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
        await reader.read(2**16)


async def _rules(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Rules of nearly 1 MiB that are wrong all over, one after the other."""
    group = {"group_name": "g", "group_num": 1, "server_num_per_group": "x"}
    text = json.dumps({"version": 1, "elastic_scaling_list": [{"group_list": [group]}] * 11_000})
    body = request(rule_config_map(text))
    while not reader.at_eof():
        writer.write(
            b"POST /validate/rules HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )
        await reader.read(2**16)


async def _handshakes(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Nothing but new connections."""


def _gets(path: str) -> Talk:
    async def get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            await reader.read(2**16)

    return get


FLOODS: dict[str, Talk] = {
    "bodies": _bodies,
    "slow": _slow,
    "chunked": _chunked,
    "header": _header,
    "small": _small,
    "rules": _rules,
    "handshakes": _handshakes,
    "metrics": _gets("/metrics"),
    "snapshots": _gets("/snapshots/world"),
}


def flood(kind: str, port: int, connections: int, addresses: int) -> None:
    """For ever; the body of the flooding process."""
    # asyncio complains of every connection that is closed on it
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    tls = None if kind in ("metrics", "snapshots") else context

    async def one(number: int) -> None:
        local = f"127.0.0.{2 + number % addresses}" if addresses else "127.0.0.1"
        while True:
            with suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=tls, local_addr=(local, 0)
                )
                try:
                    await FLOODS[kind](reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.01)

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(connections)))

    asyncio.run(main())


class Watched:
    """What is seen from outside while a flood lasts; seconds."""

    def __init__(self, api: KubeApi, url: str) -> None:
        self.api = api
        self.url = url
        self.renewals: list[float] = []
        self.holders: set[str] = set()
        self.releases: list[float] = []
        self.held: list[float] = []
        self.not_held = 0
        self.probes: list[float] = []

    async def lease(self) -> None:
        """When the Lease was renewed."""
        last = None
        while True:
            with suppress(KubeError):
                spec = (await self.api.get(LEASES, NAMESPACE, "mind-cluster-scaler"))["spec"]
                self.holders.add(str(spec.get("holderIdentity")))
                if spec.get("renewTime") != last:
                    last = spec.get("renewTime")
                    self.renewals.append(time.monotonic())
            await asyncio.sleep(0.05)

    async def decisions(self) -> None:
        """How long it takes from a held pod to its release."""
        for left in (await self.api.list(PODS, PLACE)).items:
            await self.api.delete(PODS, PLACE, left["metadata"]["name"], grace_period_seconds=0)
        number = 0
        while True:
            number += 1
            began = time.monotonic()
            await make(self.api, "flooded", f"p{number}", "group0")
            name = f"flooded-p{number}"
            # Asked as often as that is the measure.
            while not await released(self.api, name):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            self.releases.append(time.monotonic() - began)
            await self.api.delete(PODS, PLACE, name, grace_period_seconds=0)
            await asyncio.sleep(0.2)

    async def admissions(self) -> None:
        """How long it takes to make a pod, and whether it is held."""
        number = 0
        while True:
            number += 1
            began = time.monotonic()
            body: Object = pod(f"probe-{number}")
            found = await self.api.create(PODS, "held", body)
            if GATE in gates(found):
                self.held.append(time.monotonic() - began)
            else:
                self.not_held += 1
            await self.api.delete(PODS, "held", f"probe-{number}", grace_period_seconds=0)
            await asyncio.sleep(0.2)

    async def health(self) -> None:
        """How long /healthz takes, asked by curl as a kubelet asks: one connection each."""
        while True:
            began = time.monotonic()
            curl = await asyncio.create_subprocess_exec(
                "curl", "-sf", "-m", "3", "-o", "/dev/null", f"{self.url}/healthz"
            )
            self.probes.append(time.monotonic() - began if await curl.wait() == 0 else 99.0)
            await asyncio.sleep(0.5)

    def show(self) -> str:
        gaps = [b - a for a, b in zip(self.renewals, self.renewals[1:], strict=False)]
        failed = sum(probe > 90 for probe in self.probes)
        return (
            f"renewals {len(gaps)}, longest gap {max(gaps, default=99):.2f} s, holders"
            f" {sorted(self.holders)}; releases {_row(self.releases)}; held {_row(self.held)}, not"
            f" held {self.not_held}; /healthz {_row(self.probes)}, failed {failed}"
        )


def _row(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    return (
        f"{len(seconds)} (median {statistics.median(seconds) * 1e3:.0f} ms, worst"
        f" {max(seconds) * 1e3:.0f} ms)"
    )


async def watched(api: KubeApi, url: str, seconds: float) -> Watched:
    seen = Watched(api, url)
    works = [seen.lease(), seen.decisions(), seen.admissions(), seen.health()]
    tasks = [asyncio.create_task(work) for work in works]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seen


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--flood", default="bodies", help=", ".join(FLOODS))
    options.add_argument("--connections", type=int, default=1000)
    options.add_argument("--addresses", type=int, default=1)
    options.add_argument("--seconds", type=float, default=30)
    chosen = options.parse_args()
    with temporary("bench-flood", VERSIONS[0], PlaneOptions(crds=definitions())) as plane:
        async with flooded(plane, plane.folder) as (api, process, port):
            print("before:", (await watched(api, process.url(""), 10)).show(), flush=True)
            target = process.port if chosen.flood in ("metrics", "snapshots") else port
            with flooding(chosen.flood, target, chosen.connections, chosen.addresses):
                await asyncio.sleep(3)
                print(
                    f"{chosen}:",
                    (await watched(api, process.url(""), chosen.seconds)).show(),
                    flush=True,
                )
            print("ended:", process.lines("ended"), "memory:", _memory(process.pid), flush=True)


@contextmanager
def flooding(kind: str, port: int, connections: int, addresses: int) -> Iterator[None]:
    """A flood for as long as the block lasts."""
    process = multiprocessing.get_context("spawn").Process(
        target=flood, args=(kind, port, connections, addresses), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


@asynccontextmanager
async def flooded(
    plane: ControlPlane, folder: Path
) -> AsyncIterator[tuple[KubeApi, ScalerProcess, int]]:
    """A leader, the port of its webhook, which holds pods of the namespace `held`, and something to
    decide."""
    (port,) = free_ports(1)
    rendered = plane.kubectl("kustomize", kustomization(folder, "admission-webhook"))
    plane.kubectl("apply", "-f", "-", text=configurations(rendered, port))
    account = plane.grant(NAMESPACE, ACCOUNT)
    flags = (*LEASE, "--webhook-service", "127.0.0.1", "--webhook-port", str(port))
    async with plane.client() as api, scaler(folder, account, flags=flags) as process:
        for place, labels in ((PLACE, {}), ("held", HELD)):
            metadata = {"name": place, "labels": labels}
            with suppress(AlreadyExistsError):
                await api.create(
                    NAMESPACES,
                    None,
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
                )
        group = {"group_name": "group0", "group_num": "1", "server_num_per_group": "1"}
        document = json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": [group]}]})
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "flooded"},
            "data": {RULE_KEY: document},
        }
        with suppress(AlreadyExistsError):
            await api.create(CONFIG_MAPS, PLACE, body)
        with suppress(AlreadyExistsError):
            await add_node(api, NodeSpec("npu-0", npu=8))
        await until(lambda: _held(plane), "the webhook holds pods")
        yield api, process, port


async def _held(plane: ControlPlane) -> bool:
    words = ("create", "-f", "-", "-n", "held", "--dry-run=server", "-o", "json")
    return GATE in gates(
        json.loads(await asyncio.to_thread(plane.kubectl, *words, text=json.dumps(pod("probe"))))
    )


def _memory(pid: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/status").read_text().split()
        return f"{int(words[words.index('VmHWM:') + 1]) // 1024} MiB at most"
    return "gone"


if __name__ == "__main__":
    asyncio.run(main())
