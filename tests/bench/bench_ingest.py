"""How fast the cluster is taken in: cold sync of 50,000 pods of 6 KB, and watch events decoded and
cached on one core.

python -m tests.bench.bench_ingest

The whole path is measured: HTTP over loopback, decoding, records, cache. The server is another
process, on another core where there is one. CPU time is the firm figure on a busy machine; wall
time includes waiting for the server."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator

from scaler.informers.informer import Informer
from scaler.informers.pods import PodObject, PodRecord, pod_record
from scaler.informers.store import Store
from scaler.kube.api import PODS
from scaler.kube.client import connect

PODS_IN_CLUSTER = 50_000
POD_BYTES = 6_000
EVENTS = 200_000
LISTED_AT = 1_000_000
CHUNK = 64


def pod_template() -> bytes:
    """A pod of POD_BYTES with %d in place of its number (four times) and its resourceVersion."""
    env = [{"name": f"VARIABLE_{i}", "value": f"value-of-variable-{i}"} for i in range(40)]
    container = {
        "name": "server",
        "image": "registry.example/mindie:2.1",
        "env": env,
        "command": ["/bin/sh", "-c", "x"],
    }
    owner = {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "name": "job",
        "uid": "u-%d",
        "controller": True,
    }
    pod = {
        "metadata": {
            "name": "pod-%d",
            "namespace": "serving",
            "uid": "00000000-0000-4000-8000-%d",
            "resourceVersion": "%d",
            "creationTimestamp": "2026-11-21T07:36:00Z",
            "labels": {f"label.example/{i}": f"value-{i}" for i in range(12)},
            "annotations": {"padding": ""},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": "node-%d",
            "containers": [container],
            "tolerations": [{"operator": "Exists"}] * 5,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True"}
                for kind in ("Initialized", "Ready", "PodScheduled")
            ],
            "containerStatuses": [
                {"name": "server", "restartCount": 0, "state": {"running": {}}, "ready": True}
            ],
        },
    }
    pod["metadata"]["annotations"]["padding"] = "x" * (POD_BYTES - len(json.dumps(pod)))  # type: ignore[index]
    return json.dumps(pod, separators=(",", ":")).encode()


def pod_bytes(template: bytes, number: int, version: int) -> bytes:
    return template % (number, number, version, number // 8, number % 1000)


# The server


def page(template: bytes, first: int, limit: int) -> bytes:
    last = min(first + limit, PODS_IN_CLUSTER)
    more = str(last) if last < PODS_IN_CLUSTER else ""
    meta = json.dumps(
        {"metadata": {"resourceVersion": str(LISTED_AT), "continue": more}, "kind": "PodList"}
    )
    items = b",".join(pod_bytes(template, number, number + 1) for number in range(first, last))
    return meta[:-1].encode() + b',"items":[' + items + b"]}"


def event_chunks(template: bytes) -> Iterator[bytes]:
    for first in range(0, EVENTS, CHUNK):
        lines = [
            b'{"type":"MODIFIED","object":'
            + pod_bytes(template, n % PODS_IN_CLUSTER, LISTED_AT + 1 + n)
            + b"}\n"
            for n in range(first, first + CHUNK)
        ]
        yield b"".join(lines)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    template = pod_template()
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        query = dict(part.split("=") for part in head.split(" ")[1].partition("?")[2].split("&"))
        common = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        if "watch" not in query:
            body = page(template, int(query.get("continue", 0)), int(query["limit"]))
            writer.write(common + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            continue
        writer.write(common + b"Transfer-Encoding: chunked\r\n\r\n")
        for chunk in event_chunks(template):
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()
        await asyncio.Event().wait()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# The measurement


async def longest_stall(worst: list[float]) -> None:
    """Keep in `worst[0]` the longest time (ms) that this task was not given a turn when it was
    due."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        worst[0] = max(worst[0], (time.perf_counter() - before - 0.001) * 1e3)


def memory() -> tuple[float, float]:
    """Resident set now and at its highest, MiB."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        now = int(statm.read().split()[1]) * resource.getpagesize() / 2**20
    return now, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(port: int) -> dict[str, float]:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        async with connect(kubeconfig=file.name) as api:
            store: Store[PodRecord] = Store(lambda _old, _new: None)
            informer = Informer(
                api,
                PODS,
                store,
                record=pod_record,
                decode=PodObject,
                namespaces=None,
                rng=random.Random(1),
            )
            return await timed(informer, store)


async def timed(
    informer: Informer[PodObject, PodRecord], store: Store[PodRecord]
) -> dict[str, float]:
    gc.collect()
    base = memory()[0]
    worst = [0.0]
    watching = asyncio.create_task(longest_stall(worst))
    wall = time.perf_counter()
    cpu = time.process_time()
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()
    synced = time.perf_counter() - wall
    synced_cpu = time.process_time() - cpu
    now, peak = memory()
    stall = worst[0]
    wall = time.perf_counter()
    cpu = time.process_time()
    # An event would be a cost of its own.
    while store.version < LISTED_AT + EVENTS:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    events = time.perf_counter() - wall
    events_cpu = time.process_time() - cpu
    for task in (running, watching):
        task.cancel()
    await asyncio.wait({running, watching})
    assert len(store) == PODS_IN_CLUSTER
    return {
        "sync_s": synced,
        "sync_cpu_s": synced_cpu,
        "sync_longest_stall_ms": stall,
        "memory_before_mib": base,
        "memory_after_mib": now,
        "memory_peak_mib": peak,
        "events_per_s": EVENTS / events,
        "events_per_cpu_s": EVENTS / events_cpu,
    }


async def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __spec__.name, "serve", stdout=asyncio.subprocess.PIPE
    )
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[:1])
        os.sched_setaffinity(server.pid, cores[1:2])
    assert server.stdout is not None
    try:
        results = await measure(int(await server.stdout.readline()))
    finally:
        server.terminate()
        await server.wait()
    for name, value in results.items():
        print(f"{name:24} {value:12.2f}")


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["serve"] else main())
