"""How soon admission answers: 500 pods per second over TLS, each of 6 KB, on connections that stay
open.

python -m tests.bench.bench_webhook

The server is another process. Requests are sent when they are due, whether or not earlier ones are
answered, and their time counts from when they were due: a server that stalls cannot hide it. By how
much the client itself was late is shown too; on a busy machine the server's CPU time per answer is
the firm figure."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import ssl
import statistics
import sys
import time

import aiohttp

from scaler.report.metrics import Metrics
from scaler.serve import certificates
from scaler.serve.server_certificate import ServerCertificate
from scaler.serve.webhook import webhook_server
from tests.bench.bench_ingest import pod_bytes, pod_template
from tests.jobs import rule_config_map

RATE = 500.0
SECONDS = 10.0
WARM_UP = 2.0
CONNECTIONS = 25
"""API servers open a further one while all others wait for an answer, and keep about as many."""
RULE = "mind-cluster/scaling-rule"


def review(obj: bytes, kind: str) -> bytes:
    request: dict[str, object] = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "namespace": "serving",
    }
    request |= {
        "kind": {"group": "", "version": "v1", "kind": kind},
        "userInfo": {"username": "system:admin"},
    }
    head = json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )
    return head[:-2].encode() + b',"object":' + obj + b"}}"


def held_pod() -> bytes:
    pod = json.loads(pod_bytes(pod_template(), 1, 1))
    pod["metadata"]["labels"] |= {
        RULE: "rule",
        "mind-cluster/group-name": "group0",
        "jobID": "mindie",
    }
    del pod["spec"]["nodeName"], pod["status"]
    return review(json.dumps(pod).encode(), "Pod")


BODIES = {
    "/mutate/pods": held_pod(),
    "/validate/labels": held_pod(),
    "/validate/rules": review(json.dumps(rule_config_map()).encode(), "ConfigMap"),
}


async def serve() -> None:
    keys = certificates.advance(None, "127.0.0.1", time.time())
    assert keys is not None
    shown = ServerCertificate("webhook")
    shown.use(keys.shown)
    gc.freeze()
    server = webhook_server(lambda _namespace, _rule: ("group0", "group1"), Metrics())
    async with server.served("127.0.0.1", 0, lambda: shown.context) as port:
        print(json.dumps({"port": port, "authorities": keys.trusted.decode()}), flush=True)
        await asyncio.Event().wait()


async def measure(url: str, authorities: str, path: str) -> tuple[list[float], list[float]]:
    """Milliseconds from when a request was due to its answer, and to when it was really begun."""
    context = ssl.create_default_context(cadata=authorities)
    connector = aiohttp.TCPConnector(ssl=context, limit=CONNECTIONS)
    loop = asyncio.get_running_loop()
    times: list[float] = []
    late: list[float] = []
    async with (
        aiohttp.ClientSession(url, connector=connector) as session,
        asyncio.TaskGroup() as tasks,
    ):

        async def ask(due: float, *, counted: bool) -> None:
            begun = loop.time()
            async with session.post(path, data=BODIES[path]) as answer:
                assert b'"allowed":true' in await answer.read()
            if counted:
                times.append((loop.time() - due) * 1e3)
                late.append((begun - due) * 1e3)

        start = loop.time() + 0.1
        for number in range(int(RATE * (WARM_UP + SECONDS))):
            due = start + number / RATE
            await asyncio.sleep(due - loop.time())
            tasks.create_task(ask(due, counted=number >= RATE * WARM_UP))
    return times, late


def shown(path: str, times: list[float], late: list[float]) -> str:
    cuts = statistics.quantiles(times, n=1000)
    p50 = cuts[499]
    p99 = cuts[989]
    p999 = cuts[998]
    late99 = statistics.quantiles(late, n=100)[98]
    return (
        f"{path:18} {len(times) / SECONDS:5.0f}/s  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  p99.9"
        f" {p999:6.2f} ms  max {max(times):7.2f} ms  client late p99 {late99:5.2f} ms"
    )


def cpu(pid: int) -> float:
    """Seconds of CPU time that a process has used."""
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main() -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __spec__.name, "serve", stdout=asyncio.subprocess.PIPE, limit=2**20
    )
    assert server.stdout is not None
    try:
        told = json.loads(await server.stdout.readline())
        gc.freeze()
        for path in BODIES:
            before = cpu(server.pid)
            times, late = await measure(
                f"https://127.0.0.1:{told['port']}", told["authorities"], path
            )
            used = (cpu(server.pid) - before) / (RATE * (WARM_UP + SECONDS))
            print(f"{shown(path, times, late)}  CPU {used * 1e3:5.2f} ms each", flush=True)
    finally:
        server.terminate()
        await server.wait()


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["serve"] else main())
