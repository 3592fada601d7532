"""Measures the scaler on a real API server and prints what docs/reference/performance.md quotes;
`make bench-reaction`.

The scaler runs as a process of its own with a stopwatch at the seam (timed_scaler.py); this process
plays scheduler and kubelet by writing bindings and pod statuses, so that nothing else takes time.
Must not: assert anything about speed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    KubeApi,
    Object,
    PatchType,
)
from scaler.kube.errors import KubeError, NotFoundError
from scaler.names import RULE_KEY
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions
from scaler.sim.apiserver.kinds import BINDINGS
from tests.control_plane.build import VERSIONS
from tests.control_plane.plane import ControlPlane, PlaneOptions, temporary
from tests.control_plane.programs import Program
from tests.control_plane.scaler_process import (
    ACCOUNT,
    LEASE,
    NAMESPACE,
    USER,
    ScalerProcess,
    install,
)
from tests.control_plane.stage import until
from tests.control_plane.timed_scaler import Note

PLACE = "bench"
PARALLEL = 64
_ROOT = Path(__file__).parents[2]


def rule(prefills: int, pods: int) -> Object:
    """From `prefills`P1D down to 1P1D."""

    def ratio(count: int) -> Object:
        numbers = {"group0": count, "group1": 1}
        return {
            "group_list": [
                {"group_name": name, "group_num": str(number), "server_num_per_group": str(pods)}
                for name, number in numbers.items()
            ]
        }

    document = {
        "version": "1.0",
        "elastic_scaling_list": [ratio(count) for count in range(prefills, 0, -1)],
    }
    return {"data": {RULE_KEY: json.dumps(document)}}


def job(service: str, name: str, group: str, pods: int) -> Object:
    """An instance of so many pods."""
    labels = {"app": "mindie-ms-server", "jobID": service, "framework": "pytorch"}
    labels |= {"mind-cluster/scaling-rule": service, "mind-cluster/group-name": group}
    template = {"spec": {"containers": [{"name": "ascend", "image": "none"}]}}
    counts = {"Master": 1, "Worker": pods - 1}
    replicas = {
        kind: {"replicas": count, "restartPolicy": "Never", "template": template}
        for kind, count in counts.items()
        if count
    }
    return {
        "apiVersion": ASCEND_JOBS.api_version,
        "kind": ASCEND_JOBS.kind,
        "metadata": {"name": f"{service}-{name}", "labels": labels},
        "spec": {"replicaSpecs": replicas},
    }


async def create_service(api: KubeApi, service: str, *, pods: int) -> None:
    """2P1D: p0, p1 and d0 with so many pods each."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": service}, **rule(2, pods)}
    await api.create(CONFIG_MAPS, PLACE, body)
    for name, group in (("p0", "group0"), ("d0", "group1"), ("p1", "group0")):
        await api.create(ASCEND_JOBS, PLACE, job(service, name, group, pods))


class Kubelet:
    """Lets pods run, at once and in this order."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def run(self, names: Sequence[str]) -> None:
        """Wait until the pods exist, bind them, and let them run; the last one alone and last."""
        for name in names:
            await until(lambda n=name: self._exists(n), f"pod {name} exists")  # type: ignore[misc]
        await asyncio.gather(*(self._bind(name) for name in names))
        await asyncio.gather(*(self._start(name) for name in names[:-1]))
        await self._start(names[-1])

    async def exist(self, names: Sequence[str]) -> None:
        for name in names:
            await until(lambda n=name: self._exists(n), f"pod {name} exists")  # type: ignore[misc]

    async def vanish(self, names: Sequence[str]) -> None:
        """Wait until the scaler has taken them back."""
        for name in names:
            await until(lambda n=name: self._is_gone(n), f"pod {name} is gone")  # type: ignore[misc]

    async def lose(self, names: Iterable[str]) -> None:
        await asyncio.gather(
            *(self._api.delete(PODS, PLACE, name, grace_period_seconds=0) for name in names)
        )

    async def _is_gone(self, name: str) -> bool:
        return not await self._exists(name)

    async def _exists(self, name: str) -> bool:
        try:
            return bool(await self._api.get(PODS, PLACE, name))
        except NotFoundError:
            return False

    async def _bind(self, name: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"name": "bench"},
        }
        body["target"] = {"apiVersion": "v1", "kind": "Node", "name": "bench"}
        await self._api.create(BINDINGS, PLACE, body)

    async def _start(self, name: str) -> None:
        patch = {"status": {"phase": "Running"}}
        await self._api.patch(
            PODS, PLACE, name, patch, patch_type=PatchType.MERGE, subresource="status"
        )


def pods_of(job_name: str, pods: int) -> list[str]:
    return [f"{job_name}-master-0", *(f"{job_name}-worker-{number}" for number in range(pods - 1))]


@asynccontextmanager
async def timed(plane: ControlPlane, folder: Path) -> AsyncIterator[list[Note]]:
    """The scaler under the stopwatch; the list holds its notes when the block has ended."""
    output = folder / f"notes-{time.monotonic_ns()}.json"
    kubeconfig = plane.grant(NAMESPACE, ACCOUNT)
    command = [
        sys.executable,
        "-m",
        "tests.control_plane.timed_scaler",
        str(kubeconfig),
        str(output),
    ]
    process = Program(
        "timed", command, folder, environment={**os.environ, "PYTHONPATH": str(_ROOT)}
    )
    notes: list[Note] = []
    process.start()
    try:
        yield notes
    finally:
        await asyncio.to_thread(process.stop, signal.SIGTERM)
    notes += msgspec.json.decode(output.read_bytes(), type=list[Note])


class Climb(msgspec.Struct, frozen=True):
    """One reaction, in milliseconds: from the watch event to the last pod's acceptance, and whose
    time it was."""

    total: float
    api: float
    own: float
    queue: float


async def climbs(
    plane: ControlPlane, api: KubeApi, folder: Path, *, pods: int, count: int
) -> list[Climb]:
    """A service that loses its decode instance, has its second prefill instance taken back, and
    climbs again."""
    service = f"climb{pods}x{time.monotonic_ns() % 10**6}"
    kubelet = Kubelet(api)
    p0, p1, d0 = (pods_of(f"{service}-{name}", pods) for name in ("p0", "p1", "d0"))
    async with timed(plane, folder) as notes:
        await create_service(api, service, pods=pods)
        await kubelet.run(p0)
        for _ in range(count):
            await kubelet.run(d0)
            await kubelet.exist(p1)
            await asyncio.sleep(0.05)  # what is written about it is no part of the next climb
            await kubelet.lose(d0)
            await kubelet.vanish(p1)
    await delete_service(api, service)
    return _climbs(notes, f"{service}-p1", d0[-1], pods)


async def delete_service(api: KubeApi, service: str) -> None:
    for name in ("p0", "p1", "d0"):
        await api.delete(ASCEND_JOBS, PLACE, f"{service}-{name}", propagation_policy="Background")
    await api.delete(CONFIG_MAPS, PLACE, service)


def _climbs(notes: Sequence[Note], name: str, trigger: str, pods: int) -> list[Climb]:
    """Each burst of creations for the instance `name`, seen from the last change of the pod
    `trigger` before it."""
    found: list[Climb] = []
    burst: list[Note] = []
    event = 0.0
    for note in notes:
        if note.what == "event" and note.verb == "MODIFIED" and note.name == trigger and not burst:
            event = note.at
        if (
            note.verb == "create"
            and note.name.startswith(name)
            and note.resource in ("pods", "podgroups")
        ):
            burst.append(note)
        accepted = [n for n in burst if n.what == "answer" and n.resource == "pods"]
        if len(accepted) == pods:
            found.append(_climb(event, burst))
            burst = []
    return found


def _climb(event: float, burst: Sequence[Note]) -> Climb:
    """The API server's share is the critical path: the PodGroup, where one is made, then the
    slowest of the pods."""
    groups = {n.what: n.at for n in burst if n.resource == "podgroups"}
    sends = [n.at for n in burst if n.resource == "pods" and n.what == "send"]
    end = max(n.at for n in burst if n.resource == "pods" and n.what == "answer")
    first = groups.get("send", sends[0])
    api = (groups["answer"] - groups["send"] if groups else 0.0) + end - sends[-1]
    queue = sends[-1] - sends[0]
    total = end - event
    own = total - api - queue
    return Climb(total * 1e3, api * 1e3, max(own, first - event) * 1e3, queue * 1e3)


def row(what: str, values: Sequence[float]) -> str:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return f"| {what} | {statistics.median(ordered):.2f} | {p99:.2f} | {ordered[-1]:.2f} |"


async def fill(api: KubeApi, count: int) -> None:
    """Other people's pods, of 4 KB each."""
    padding = {"padding": "x" * 3000}
    slots = asyncio.Semaphore(PARALLEL)

    async def one(number: int) -> None:
        name = f"other-{number}"
        spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "nobody"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": padding},
            "spec": spec,
        }
        async with slots:
            await api.create(PODS, "default", body)

    await asyncio.gather(*(one(number) for number in range(count)))


async def reaction(
    plane: ControlPlane, api: KubeApi, folder: Path, others: int, count: int
) -> None:
    print(
        f"\n### Reaction, {others} other pods, {count} climbs (ms)\n\n| | p50 | p99 | max"
        " |\n|---|---|---|---|"
    )
    for pods in (1, 4):
        found = await climbs(plane, api, folder, pods=pods, count=count)
        shares: dict[str, Callable[[Climb], float]] = {
            "event to last pod accepted": lambda climb: climb.total,
            "... of it API server": lambda climb: climb.api,
            "... own": lambda climb: climb.own,
            "... between first and last request of one batch": lambda climb: climb.queue,
        }
        for name, share in shares.items():
            print(
                row(
                    f"{pods} pod(s), {len(found)} climbs: {name}", [share(climb) for climb in found]
                )
            )


async def burst(plane: ControlPlane, api: KubeApi, folder: Path, services: int) -> None:
    """All services are there before the scaler starts; what it then creates is their smallest
    ratio, two pods each."""
    names = [f"burst{number}" for number in range(services)]
    slots = asyncio.Semaphore(16)

    async def one(name: str) -> None:
        async with slots:
            await create_service(api, name, pods=1)

    await asyncio.gather(*(one(name) for name in names))
    async with timed(plane, folder) as notes:
        await until(lambda: _count(api, "burst", 2 * services), f"{2 * services} pods", seconds=300)
    pods = [note for note in notes if note.resource == "pods" and note.verb == "create"]
    lasted = max(n.at for n in pods) - min(n.at for n in notes if n.verb == "create")
    print(
        f"\n{services} services at once: {2 * services} pods in {lasted:.2f} s ="
        f" {2 * services / lasted:.0f} pods/s"
    )
    for name in names:
        await delete_service(api, name)


async def _count(api: KubeApi, prefix: str, wanted: int) -> bool:
    page = await api.list(PODS, PLACE)
    names = [str(pod["metadata"]["name"]) for pod in page.items]
    return sum(name.startswith(prefix) for name in names) >= wanted


async def wide(plane: ControlPlane, api: KubeApi, folder: Path, pods: int) -> None:
    """One instance of many pods, against the round trip of one."""
    service = "wide"
    async with timed(plane, folder) as notes:
        await create_service(api, service, pods=pods)
        await until(lambda: _count(api, f"{service}-p0", pods), f"{pods} pods", seconds=120)
    mine = [n for n in notes if n.name.startswith(f"{service}-p0") and n.verb == "create"]
    group = [n.at for n in mine if n.resource == "podgroups"]
    spent = max(n.at for n in mine if n.resource == "pods") - min(group)
    trip = group[1] - group[0]
    print(
        f"\n{pods} pods of one instance: {spent * 1e3:.0f} ms; one write alone took"
        f" {trip * 1e3:.1f} ms"
    )
    await delete_service(api, service)


async def at_rest(plane: ControlPlane, folder: Path, others: int, seconds: float = 30.0) -> None:
    process = ScalerProcess("resting", folder, plane.grant(NAMESPACE, ACCOUNT), LEASE)
    process.start()
    try:
        await process.ready(120)
        await asyncio.sleep(12)
        before = len(plane.audit_events(USER))
        cpu = _cpu(process.pid)
        await asyncio.sleep(seconds)
        used = _cpu(process.pid) - cpu
        memory = _memory(process.pid)
        asked = plane.audit_events(USER)[before:]
    finally:
        await asyncio.to_thread(process.stop, signal.SIGTERM)
    writes = [event for event in asked if event["verb"] not in ("get", "list", "watch")]
    kinds = sorted({f"{event['verb']} {event['objectRef']['resource']}" for event in writes})
    print(
        f"\nAt rest with {others} other pods: {used / seconds:.2%} of a core, {memory:.0f} MB;"
        f" {len(writes)} writes in {seconds:.0f} s: {', '.join(kinds)}"
    )


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    line = next(
        x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


async def failover(
    plane: ControlPlane, api: KubeApi, folder: Path, number: signal.Signals, times: int
) -> None:
    """From the signal to the moment at which the other replica holds the Lease."""
    lasted: list[float] = []
    kubeconfig = plane.grant(NAMESPACE, ACCOUNT)
    leader = await _replica(folder, kubeconfig, f"{number.name.lower()}-0")
    await until(lambda: _holds(api, leader.name), "a leader", seconds=60)
    for turn in range(1, times + 1):
        standby = await _replica(folder, kubeconfig, f"{number.name.lower()}-{turn}")
        await asyncio.sleep(2)
        started = time.monotonic()
        leader.signal(number)
        # A watch would be one more thing to wait for.
        while not await _holds(api, standby.name):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        lasted.append(time.monotonic() - started)
        leader.stop()
        leader = standby
    await asyncio.to_thread(leader.stop, signal.SIGTERM)
    print(f"\nFailover after {number.name}: {', '.join(f'{seconds:.2f}' for seconds in lasted)} s")


async def _replica(folder: Path, kubeconfig: Path, name: str) -> ScalerProcess:
    process = ScalerProcess(name, folder, kubeconfig, LEASE)
    process.start()
    await process.ready(120)
    return process


async def _holds(api: KubeApi, name: str) -> bool:
    try:
        lease = await api.get(LEASES, NAMESPACE, "mind-cluster-scaler")
    except KubeError:
        return False
    return bool(lease["spec"].get("holderIdentity") == name)


async def measure(plane: ControlPlane, folder: Path, arguments: argparse.Namespace) -> None:
    install(plane)
    async with plane.client() as api:
        await api.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}}
        )
        await add_node(api, NodeSpec("bench", cpu=10_000, memory="100Ti", pods=10_000))
        await api.get(NODES, None, "bench")
        await reaction(plane, api, folder, 0, arguments.climbs)
        await wide(plane, api, folder, 64)
        await burst(plane, api, folder, arguments.services)
        await failover(plane, api, folder, signal.SIGKILL, arguments.failovers)
        await failover(plane, api, folder, signal.SIGTERM, arguments.failovers)
        await fill(api, arguments.others)
        await at_rest(plane, folder, arguments.others)
        await reaction(plane, api, folder, arguments.others, arguments.climbs)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the scaler on a real API server.")
    parser.add_argument("--climbs", type=int, default=200)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--others", type=int, default=10_000)
    parser.add_argument("--failovers", type=int, default=5)
    arguments = parser.parse_args()
    with temporary(
        "bench-reaction", VERSIONS[0], PlaneOptions(crds=definitions(), audit=True)
    ) as plane:
        print(
            f"Kubernetes {plane.binaries.version}, Python {platform.python_version()},"
            f" {os.cpu_count()} CPUs"
        )
        asyncio.run(measure(plane, plane.folder, arguments))


if __name__ == "__main__":
    main()
