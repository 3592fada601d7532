"""A cluster of any size that answers over HTTP, with ElasticServices as the controller would write
them.

    python -m tests.page.many_services SERVICES KUBECONFIG

It serves until its standard input ends. There `flip N` changes one service, and `node N` makes a
node NotReady. Each service has ten AscendJobs of one pod, each pod a node of its own. One service
in twenty has lost an instance with its node, one in fifty all of its decode instances."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from scaler.clock import Clock
from scaler.kube.api import (
    ASCEND_JOBS,
    ELASTIC_SERVICES,
    NODES,
    PODS,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.report.service_status import status_of
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import silence_logs
from scaler.tools.common.view import Cluster
from scaler.workloads.ascendjob import read_job
from scaler.workloads.ascendjob_objects import pods
from tests.jobs import job, manifest, node, rule_config_map, rule_document

RATIOS = rule_document(
    {"group0": 6, "group1": 4},
    {"group0": 4, "group1": 4},
    {"group0": 3, "group1": 2},
    {"group0": 1, "group1": 1},
)
RUNNING: Object = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NOT_READY: Object = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
JOBS = [f"p{number}" for number in range(6)] + [f"d{number}" for number in range(4)]


def lost(number: int) -> set[str]:
    """Jobs of a service whose nodes are gone."""
    return {"p3"} if number % 20 == 3 else set(JOBS[6:]) if number % 50 == 7 else set()


def objects(number: int) -> list[Object]:
    """One service with its jobs and nodes."""
    namespace = f"team-{number:04d}"
    made = [rule_config_map(RATIOS, namespace=namespace)]
    for name in JOBS:
        place = node(where(number, name))
        room = {"cpu": "192", "memory": "1Ti", "pods": "110", "huawei.com/Ascend910": "8"}
        place["status"] |= {"allocatable": room, "capacity": room}
        if name in lost(number):
            place["status"] |= NOT_READY
        made += [job(name, namespace=namespace), place]
    return made


def where(number: int, name: str) -> str:
    return f"npu-{number * len(JOBS) + JOBS.index(name):05d}"


def bound(number: int, found: Object) -> list[Object]:
    """The pods of a job as the API server has it."""
    name = found["metadata"]["name"]
    if name in lost(number):
        return []
    made = pods(read_job(found), found, "").values()
    return [pod | {"spec": pod["spec"] | {"nodeName": where(number, name)}} for pod in made]


async def fill(cluster: SimCluster, clock: Clock, services: int) -> None:
    """Everything at once, and an ElasticService for each service."""
    filler = cluster.client("filler", latency=0)
    for number in range(services):
        cluster.apply(objects(number))
        jobs = cluster.peek(ASCEND_JOBS, f"team-{number:04d}")
        for pod in [pod for found in jobs for pod in bound(number, found)]:
            cluster.apply([pod])
            await write_status(filler, PODS, pod, RUNNING)
    seen = Cluster(filler, clock)
    async with seen.watched():
        world, decision = seen.decision()
        for service, plan in zip(world.services, decision.plans, strict=True):
            status = status_of(seen.report(service, plan), {}, clock.timestamp())
            spec = {"rule": service.key.rule, "jobID": service.key.job_id}
            made = manifest(ELASTIC_SERVICES, "rule-mindie", service.key.namespace, spec=spec)
            cluster.apply([made])
            await write_status(filler, ELASTIC_SERVICES, made, status)


async def flip(cluster: SimCluster, number: int, message: str) -> None:
    """Say something else of one service."""
    condition = {
        "type": "Available",
        "status": "False",
        "reason": "Broken",
        "message": message,
        "lastTransitionTime": cluster.server.clock.timestamp(),
    }
    status = {"running": "5+4", "reason": "Broken", "message": message, "conditions": [condition]}
    about = manifest(ELASTIC_SERVICES, "rule-mindie", f"team-{number:04d}")
    await write_status(cluster, ELASTIC_SERVICES, about, status)


async def write_status(api: KubeApi, resource: Resource, obj: Object, status: Object) -> None:
    namespace = obj["metadata"].get("namespace")
    name = obj["metadata"]["name"]
    how = PatchType.MERGE
    await api.patch(
        resource, namespace, name, {"status": status}, patch_type=how, subresource="status"
    )


async def main(services: int, path: Path) -> None:
    silence_logs()
    clock = Clock()
    cluster = SimCluster(clock, history=200_000)
    await fill(cluster, clock, services)
    async with serve(cluster) as url:
        path.write_text(kubeconfig(url))  # noqa: ASYNC240 - once
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, number = line.split()[:2]
            if what == "node":
                await write_status(
                    cluster, NODES, manifest(NODES, f"npu-{int(number):05d}"), NOT_READY
                )
            else:
                await flip(cluster, int(number), line.strip())
            print(time.time(), flush=True)  # when it was written


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
