"""What the whole controller costs: 1,000 services and 5,000 full nodes that are all unlike; 200
minimums and 800 scale-ups wait; 200 pods a second change, and now and then nodes become free.

    python -m tests.bench.bench_controller [SECONDS]

`cpu`: of this process, without what changes the pods; the simulated API server's watches are in it.
`write`: real time from two free nodes to the first object that is created for a minimum that waited
for them."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from typing import NamedTuple

from scaler.app import App
from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, PODS, Object, PatchType
from scaler.settings import Settings
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import silence_logs
from scaler.workloads.ascendjob import read_job
from scaler.workloads.ascendjob_objects import pod_group, pods, service
from tests.jobs import NAMESPACE, job, rule_config_map, rule_document

SERVICES = 1000
WAITING = 200
NODES = 5000
CLASSES = 20
EVENTS_PER_SECOND = 200
FREED_EVERY = 0.5


class Writes(Interceptor):
    """When something was created, and of which class of nodes its service is."""

    def __init__(self) -> None:
        self.created: list[tuple[float, int]] = []

    async def before(self, request: Request) -> None:
        if request.verb == "create" and request.resource.plural in ("pods", "podgroups"):
            self.created.append(
                (time.perf_counter(), int(request.body["metadata"]["name"][1:5]) % CLASSES)
            )


class Stage(NamedTuple):
    cluster: SimCluster
    running: list[str]
    strangers: dict[int, list[str]]
    """Of each class of nodes."""


def node(number: int) -> Object:
    room = {
        "cpu": f"{192_000 + 13 * number}m",
        "memory": str((1024 << 30) + 4096 * number),
        "pods": "110",
    }
    room["huawei.com/Ascend910"] = "8"
    labels = {"kubernetes.io/hostname": f"node-{number:04}", "class": f"c{number % CLASSES}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:04}", "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": room,
            "capacity": room,
        },
    }


def jobs_of(number: int) -> list[Object]:
    """2P2D, each of one pod."""
    found = []
    for name, group in (("p0", "group0"), ("d0", "group1"), ("p1", "group0"), ("d1", "group1")):
        made = job(f"s{number:04}{name}", group, rule=f"rule-{number}")
        made["metadata"]["labels"]["jobID"] = f"s{number:04}"
        for replica in made["spec"]["replicaSpecs"].values():
            replica["template"]["spec"]["nodeSelector"] = {"class": f"c{number % CLASSES}"}
        found.append(made)
    return found


def runs(pod: Object, on: int) -> Object:
    spec = {**pod["spec"], "nodeName": f"node-{on:04}"}
    return {
        **pod,
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def waits(number: int) -> bool:
    return (number + number // CLASSES) % (SERVICES // WAITING) == 0


def stage(cluster: SimCluster) -> Stage:
    """Four fifths of the services run 1P1D; all other nodes are full of strangers."""
    document = rule_document({"group0": 2, "group1": 2}, {"group0": 1, "group1": 1})
    cluster.apply(map(node, range(NODES)), NAMESPACE)
    cluster.apply(
        [rule_config_map(document, name=f"rule-{number}") for number in range(SERVICES)], NAMESPACE
    )
    cluster.apply([made for number in range(SERVICES) for made in jobs_of(number)], NAMESPACE)
    free = {number: list(range(number, NODES, CLASSES)) for number in range(CLASSES)}
    running: list[str] = []
    stranger: Object = {}
    for obj in cluster.peek(ASCEND_JOBS, NAMESPACE):
        name = obj["metadata"]["name"]
        if name.endswith("1") or waits(int(name[1:5])):
            continue
        read = read_job(obj)
        made = [
            runs(pod, free[int(name[1:5]) % CLASSES].pop()) for pod in pods(read, obj, "").values()
        ]
        cluster.apply([pod_group(read, obj), service(read, obj), *made], NAMESPACE)
        running += [pod["metadata"]["name"] for pod in made]
        stranger = stranger or made[0]
    strangers = {}
    for number, left in free.items():
        strangers[number] = [f"x{on:04}" for on in left]
        cluster.apply(
            [{**runs(stranger, on), "metadata": {"name": f"x{on:04}"}} for on in left], NAMESPACE
        )
    return Stage(cluster, running, strangers)


async def change(on: Stage, name: str, *, ready: bool) -> None:
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}
    await on.cluster.patch(
        PODS, NAMESPACE, name, patch, patch_type=PatchType.MERGE, subresource="status"
    )


async def measure(on: Stage, writes: Writes, seconds: float) -> dict[str, float]:
    dice = random.Random(1)
    freed = list[tuple[float, int]]()
    began = time.perf_counter()
    cpu = time.process_time()
    own = 0.0
    next_free = 0.0
    for number in range(int(seconds * EVENTS_PER_SECOND)):
        at = number / EVENTS_PER_SECOND
        started = time.process_time()
        await change(on, on.running[dice.randrange(len(on.running))], ready=number % 2 == 1)
        if at >= next_free:
            next_free += FREED_EVERY
            kind = len(freed) % CLASSES
            freed.append((time.perf_counter(), kind))
            for _ in range(2):
                await on.cluster.delete(
                    PODS, NAMESPACE, on.strangers[kind].pop(), grace_period_seconds=0
                )
        own += time.process_time() - started
        await asyncio.sleep(max(0.0, began + at + 1 / EVENTS_PER_SECOND - time.perf_counter()))
    took = time.perf_counter() - began
    used = time.process_time() - cpu
    await asyncio.sleep(1.0)
    delays = []
    for moment, kind in freed:
        after = [at for at, of in writes.created if of == kind and at >= moment]
        delays.append((min(after) - moment) * 1e3 if after else float("inf"))
    delays.sort()
    return {
        "events_per_s": seconds * EVENTS_PER_SECOND / took,
        "cpu_percent": 100 * (used - own) / took,
        "changes_percent": 100 * own / took,
        "minimums_freed": len(delays),
        "write_ms_p50": delays[len(delays) // 2],
        "write_ms_p99": delays[min(len(delays) - 1, len(delays) * 99 // 100)],
        "write_ms_worst": delays[-1],
    }


async def main(seconds: float) -> None:
    clock = Clock(time.time())
    writes = Writes()
    on = stage(SimCluster(clock, latency=0.0))
    settings = Settings(leader_election=False, http_port=0)
    api = on.cluster.client("scaler", writes)
    running = asyncio.create_task(App(api, settings, clock, seed=0).run())
    before = -1
    while before != len(on.cluster.audit):  # until it has nothing more to say at the start
        before = len(on.cluster.audit)
        await asyncio.sleep(5.0)
    gc.collect()
    gc.freeze()
    assert not writes.created, "a full cluster has room for nobody"
    for name, value in (await measure(on, writes, seconds)).items():
        print(f"controller_{name} {value:.2f}")
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


if __name__ == "__main__":
    silence_logs()
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0))
