"""What the controller keeps of a cluster that is mostly somebody else's, and of objects that are
made to hurt.

    python -m tests.bench.bench_memory [ordinary] [one kind of HOSTILE ...]

The whole controller runs in a process of its own, as in a pod, on a server that can list and little
else. There are 20,000 training jobs of 6.5 KB with their pods, PodGroups and rank tables, 100,000
pods in all, beside 1,000 services of ours with ten instances of two pods each. `memory` is the
resident set in MiB when everything has been listed, decided and reported; `peak` the highest it
ever was. Then the same with 100 objects of 1.3 MB of one kind in a cluster that is empty else: what
they add to it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from scaler.app import App
from scaler.clock import Clock
from scaler.defaults import Mode
from scaler.kube import configuration
from scaler.kube.api import Resource
from scaler.kube.client import connect
from scaler.report.log import configure
from scaler.report.metrics import Metrics
from scaler.settings import Settings
from scaler.workloads.ascendjob import read_job
from scaler.workloads.ascendjob_objects import pod_group, pods, service
from tests.jobs import job, rule_config_map, rule_document, template

SERVICES = 1_000
JOBS = 10
PODS_PER_JOB = 2
TRAINING = 20_000
TRAINING_PODS = 4
NODES = 5_000
JOB_BYTES = 6_500
HOSTILE_OBJECTS = 100
HOSTILE_BYTES = 1_300_000
SETTLED = 15.0
"""Seconds without a decision or a write: all is reported."""
TIME = "2026-11-21T07:36:00Z"
VERSION = "1000000"
Made = Iterator[dict[str, Any]]


def mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


# What there is


def meta(obj: dict[str, Any], uid: str) -> dict[str, Any]:
    managed = {
        "manager": "kubectl",
        "operation": "Update",
        "apiVersion": "v1",
        "time": TIME,
        "fieldsType": "FieldsV1",
    }
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:label-{i}": {} for i in range(10)}}}
    more = {
        "uid": uid,
        "resourceVersion": VERSION,
        "creationTimestamp": TIME,
        "managedFields": [managed | {"fieldsV1": fields}],
    }
    obj["metadata"] |= more
    obj["metadata"].setdefault("namespace", "mindie")
    return obj


def our_job(number: int) -> dict[str, Any]:
    at, index = divmod(number, JOBS)
    made = job(
        f"s{at}-{'pd'[index % 2]}{index}",
        f"group{index % 2}",
        pods=PODS_PER_JOB,
        namespace=f"team-{at % 50}",
    )
    made["metadata"]["labels"] |= {"jobID": f"s{at}", "mind-cluster/scaling-rule": f"rule-{at}"}
    made["metadata"]["annotations"] = {"mind-cluster/scaler-rounds": f"1.job-{number}"}
    return filled(made, f"job-{number}")


def training_job(number: int) -> dict[str, Any]:
    made = job(
        f"train-{number}",
        pods=TRAINING_PODS,
        rule=None,
        namespace=f"lab-{number % 50}",
        labels={"framework": "pytorch"},
    )
    return filled(made, f"train-{number}")


def filled(made: dict[str, Any], uid: str) -> dict[str, Any]:
    """Up to JOB_BYTES, with variables as real ones have them."""
    meta(made, uid)
    rooms = [
        spec["template"]["spec"]["containers"][0] for spec in made["spec"]["replicaSpecs"].values()
    ]
    missing = (JOB_BYTES - len(json.dumps(made))) // len(rooms) // 70
    for room in rooms:
        room["env"] = [
            {"name": f"VARIABLE_{i}", "value": f"value-of-variable-{uid}-{i}"}
            for i in range(max(0, missing))
        ]
    return made


def pods_of(made: dict[str, Any], first_node: int) -> Made:
    for index, (name, pod) in enumerate(pods(read_job(made), made, "").items()):
        meta(pod, f"pod-{name}")
        pod["metadata"]["labels"]["version"] = "0"  # of the round that the job counts as whole
        pod["metadata"]["namespace"] = made["metadata"]["namespace"]
        at = (first_node + index) % NODES
        pod["spec"]["nodeName"] = f"node-{at:06}"
        chips = [
            {
                "device_id": str(i),
                "device_ip": f"10.{at % 250}.{index}.{i}",
                "super_device_id": str(at * 8 + i),
            }
            for i in range(8)
        ]
        told = {
            "pod_name": name,
            "server_id": f"10.0.{at // 250}.{at % 250}",
            "host_ip": f"10.0.{at // 250}.{at % 250}",
            "devices": chips,
        }
        pod["metadata"]["annotations"] |= {
            "ascend.kubectl.kubernetes.io/ascend-910-configuration": json.dumps(told),
            "huawei.com/AscendReal": ",".join(f"Ascend910-{i}" for i in range(8)),
        }
        ready = {"type": "Ready", "status": "True"}
        pod["status"] = {
            "phase": "Running",
            "podIP": f"10.1.{at // 250}.{at % 250}",
            "conditions": [ready],
        }
        yield pod


def ours_and_theirs() -> Made:
    yield from map(our_job, range(SERVICES * JOBS))
    yield from map(training_job, range(TRAINING))


def all_pods() -> Made:
    for number, made in enumerate(ours_and_theirs()):
        yield from pods_of(made, number * 3)


def config_maps() -> Made:
    document = rule_document(
        {"group0": 5, "group1": 5}, {"group0": 1, "group1": 1}, pods=PODS_PER_JOB
    )
    for at in range(SERVICES):
        yield meta(rule_config_map(document, f"rule-{at}", f"team-{at % 50}"), f"rule-{at}")
    for number, made in enumerate(ours_and_theirs()):
        name = "rings-config-" + made["metadata"]["name"]
        namespace = made["metadata"]["namespace"]
        text = json.dumps(
            {
                "status": "completed",
                "server_list": [
                    {
                        "device": [
                            {"device_id": str(i), "device_ip": f"10.9.{i}.{number}"}
                            for i in range(16)
                        ]
                    }
                ],
            }
        )
        yield meta(
            {"metadata": {"name": name, "namespace": namespace}, "data": {"hccl.json": text}},
            f"cm-{name}",
        )


def nodes() -> Made:
    room = {"cpu": "192", "memory": "1500Gi", "pods": "110", "huawei.com/Ascend910": "800"}
    for number in range(NODES):
        labels = {f"label.example/{i}": f"value-{i}" for i in range(20)} | {
            "kubernetes.io/hostname": f"node-{number:06}"
        }
        made: dict[str, Any] = {"metadata": {"name": f"node-{number:06}", "labels": labels}}
        made["status"] = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": room,
            "capacity": room,
        }
        meta(made, f"node-{number}")["metadata"]["namespace"] = ""
        yield made


def made_for_jobs(make: Callable[[dict[str, Any]], dict[str, Any]]) -> Made:
    for made in ours_and_theirs():
        yield meta(make(made), f"of-{made['metadata']['uid']}")


ORDINARY: dict[str, Callable[[], Made]] = {
    "ascendjobs": ours_and_theirs,
    "pods": all_pods,
    "podgroups": lambda: made_for_jobs(lambda made: pod_group(read_job(made), made)),
    "services": lambda: made_for_jobs(lambda made: service(read_job(made), made)),
    "configmaps": config_maps,
    "nodes": nodes,
}


# What is made to hurt


def hostile(obj: dict[str, Any], number: int, room: list[Any] | dict[str, Any]) -> dict[str, Any]:
    """`room` is the part of it that is filled up."""
    meta(obj, f"hostile-{number}")["metadata"]["name"] = f"hostile-{number}"
    missing = HOSTILE_BYTES - len(json.dumps(obj))
    if isinstance(room, list):
        room += [{"name": f"V{number}X{i}", "value": "x" * 20} for i in range(missing // 50)]
    else:
        room |= {f"key-{number}-{i}": "x" * 20 for i in range(missing // 42)}
    return obj


def hostile_job(number: int, **changes: Any) -> dict[str, Any]:
    made = job(f"hostile-{number}", "group0", **changes)
    env: list[Any] = []
    made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"] = env
    return hostile(made, number, env)


def hostile_pod(number: int, part: str) -> dict[str, Any]:
    labels = {
        "mind-cluster/scaling-rule": "rule",
        "jobID": "s",
        "mind-cluster/group-name": "group0",
    }
    made: dict[str, Any] = {
        "metadata": {"labels": labels, "annotations": {}},
        "spec": template()["spec"],
        "status": {"phase": "Pending"},
    }
    if part == "annotations":
        made["metadata"]["annotations"] |= {"mind-cluster/instance": "x" * 200_000 + str(number)}
        return meta(made, f"h-{number}") | {
            "metadata": made["metadata"] | {"name": f"hostile-{number}"}
        }
    if part == "requests":
        amounts: dict[str, Any] = {}
        made["spec"]["containers"][0]["resources"] = {"requests": amounts}
        return _numbers(made, number, amounts)
    selector: dict[str, Any] = {}
    made["spec"]["nodeSelector"] = selector
    return hostile(made, number, selector)


def _numbers(made: dict[str, Any], number: int, amounts: dict[str, Any]) -> dict[str, Any]:
    hostile(made, number, [])
    amounts |= {f"example.com/resource-{number}-{i}": "1" for i in range(HOSTILE_BYTES // 40)}
    return made


def hostile_volcano_job(number: int) -> dict[str, Any]:
    room: list[Any] = []
    labels = {
        "mind-cluster/scaling-rule": "rule",
        "jobID": "s",
        "mind-cluster/group-name": "group0",
    }
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "env": room}]}}
    made = {"metadata": {}, "spec": {"tasks": [{"name": "t", "replicas": 1, "template": pod}]}}
    return hostile(made, number, room)


def hostile_config_map(number: int, kind: str) -> dict[str, Any]:
    labels = (
        {"mind-cluster/scaler-rule": "r", "app.kubernetes.io/managed-by": "mind-cluster-scaler"}
        if kind == "own"
        else {}
    )
    data: dict[str, Any] = {"elastic_scaling.json": "{" + "x" * 1_000_000} if kind == "rule" else {}
    made = hostile({"metadata": {"labels": labels}, "data": data}, number, data)
    if kind == "table":
        made["metadata"]["name"] = f"rings-config-hostile-{number}"
        made["data"] = {
            "hccl.json": json.dumps({"status": "completed", "server_list": ["x" * 1000] * 1200})
        }
    return made


def labelled(made: dict[str, Any], number: int) -> dict[str, Any]:
    annotations: dict[str, Any] = {}
    made["metadata"]["annotations"] = annotations
    return hostile(made, number, annotations)


HOSTILE: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "ascendjob-ours": ("ascendjobs", hostile_job),
    "ascendjob-foreign": ("ascendjobs", lambda n: hostile_job(n, rule=None, labels={})),
    "ascendjob-20000-pods": (
        "ascendjobs",
        lambda n: meta(job(f"h-{n}", "group0", pods=20_000), f"h-{n}"),
    ),
    "pod-selector": ("pods", lambda n: hostile_pod(n, "selector")),
    "pod-annotations": ("pods", lambda n: hostile_pod(n, "annotations")),
    "pod-requests": ("pods", lambda n: hostile_pod(n, "requests")),
    "volcano-job": ("jobs", hostile_volcano_job),
    "configmap-foreign": ("configmaps", lambda n: hostile_config_map(n, "")),
    "configmap-rule": ("configmaps", lambda n: hostile_config_map(n, "rule")),
    "configmap-own": ("configmaps", lambda n: hostile_config_map(n, "own")),
    "configmap-table": ("configmaps", lambda n: hostile_config_map(n, "table")),
    "podgroup": ("podgroups", lambda n: labelled({"metadata": {}, "spec": {}}, n)),
    "statefulset": (
        "statefulsets",
        lambda n: labelled({"metadata": {}, "spec": {"replicas": 1}}, n),
    ),
}


# The server


def certificate(folder: Path) -> None:
    """A self-signed one of 127.0.0.1."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    files = ["-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt"), "-days", "2"]
    subject = ["-subj", "/CN=ca", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *files, *subject], check=True, capture_output=True)


async def serve(what: str, mounted: Path) -> None:
    if what == "ordinary":
        made: dict[str, Callable[[], Made]] = ORDINARY
    else:
        plural, make = HOSTILE.get(what, ("", hostile_job))
        made = {plural: lambda: map(make, range(HOSTILE_OBJECTS))}
    kept = {}
    for name, objects in made.items():
        kept[name] = [json.dumps(obj, separators=(",", ":")).encode() for obj in objects()]

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            body = json.loads(await request.read() or b"{}")
            body.setdefault("metadata", {}).update(
                {"resourceVersion": VERSION, "uid": body["metadata"].get("uid", "u")}
            )
            return web.json_response(body)
        if "watch" in request.query:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await asyncio.sleep(3600)
            return response
        plural = request.path.rpartition("/")[2]
        if "limit" not in request.query:
            return web.json_response(
                {"kind": "Status", "code": 404, "reason": "NotFound"}, status=404
            )
        found = kept.get(plural, [])
        first = int(request.query.get("continue", 0))
        limit = int(request.query["limit"])
        more = str(first + limit) if first + limit < len(found) else ""
        head = json.dumps({"metadata": {"resourceVersion": VERSION, "continue": more}})[
            :-1
        ].encode()
        text = head + b',"items":[' + b",".join(found[first : first + limit]) + b"]}"
        return web.Response(body=text, content_type="application/json")

    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(mounted / "ca.crt", mounted / "ca.key")
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


# The measurement


class Busy(Metrics):
    """Keeps when the decision loop turned last, or anything was written."""

    last = 0.0

    def observe(self, *_: Any) -> None:
        self.last = asyncio.get_running_loop().time()

    def write(self, verb: str, resource: Resource, outcome: str) -> None:
        self.observe()
        super().write(verb, resource, outcome)


async def control(port: int, mounted: Path) -> None:
    """Run the controller until it has nothing to do; print its memory."""
    os.environ |= {configuration.HOST: "127.0.0.1", configuration.PORT: str(port)}
    configuration.MOUNTED = mounted
    clock = Clock()
    busy = Busy()
    configure("json", "error", timestamp=clock.micro_timestamp, stream=sys.stderr)
    async with connect() as api:
        chosen = Settings(leader_election=False, http_port=0, mode=Mode.CREATE)
        app = App(api, chosen, clock, observer=busy.observe, seed=1, metrics=busy)
        running = asyncio.create_task(app.run())
        base = mib()
        while app.missing() and not running.done():  # noqa: ASYNC110 - no event tells of both
            await asyncio.sleep(0.01)
        gc.collect()
        gc.freeze()
        listed = mib()
        busy.last = asyncio.get_running_loop().time()
        while not running.done() and asyncio.get_running_loop().time() - busy.last < SETTLED:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        now = mib()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        gc.collect()
        print(
            json.dumps(
                {"before": base, "listed": listed, "memory": now, "collected": mib(), "peak": peak}
            )
        )
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def measure(what: str) -> dict[str, float]:
    command = (sys.executable, "-m", __spec__.name)
    with tempfile.TemporaryDirectory() as mounted:
        certificate(Path(mounted))
        (Path(mounted) / "token").write_text("t")
        server = await asyncio.create_subprocess_exec(
            *command, "serve", what, mounted, stdout=asyncio.subprocess.PIPE
        )
        assert server.stdout is not None
        try:
            port = (await server.stdout.readline()).decode().strip()
            child = await asyncio.create_subprocess_exec(
                *command, "control", port, mounted, stdout=asyncio.subprocess.PIPE
            )
            answer, _ = await child.communicate()
        finally:
            server.terminate()
            await server.wait()
    found: dict[str, float] = json.loads(answer)
    return found


async def main(names: list[str]) -> None:
    empty = await measure("empty")
    for what in names or ["ordinary", *HOSTILE]:
        found = await measure(what)
        shown = {
            key: value - (0 if what == "ordinary" else empty[key]) for key, value in found.items()
        }
        print(what, " ".join(f"{key} {value:.1f}" for key, value in shown.items()), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", what, mounted]:
            asyncio.run(serve(what, Path(mounted)))
        case ["control", port, mounted]:
            asyncio.run(control(int(port), Path(mounted)))
        case names:
            asyncio.run(main(names))
