"""The outside witness notices what must not happen, and keeps quiet about what may."""

from __future__ import annotations

import asyncio

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, PODS, Object, PatchType
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.sim.stories.manifests import apply, read_manifests
from tests.control_plane.stage import EXAMPLE
from tests.control_plane.witness import Witness


def test_an_admission_above_the_target_is_noticed() -> None:
    (broken,) = run(_told(["mindie-server-p0", "mindie-server-p1"]))
    assert broken.startswith("S1: mindie/scaling-rule/mindie mindie-server-p1 is admitted as number 2 of group0")


def test_the_smallest_ratio_may_be_admitted() -> None:
    assert run(_told(["mindie-server-p0", "mindie-server-d0"])) == []


def test_an_instance_that_lost_a_pod_is_noticed_at_rest() -> None:
    (broken,) = run(_told(["mindie-server-d0"], end="Failed"))
    assert broken == "S2: mindie/scaling-rule/mindie mindie-server-d0 is broken at rest"


async def _told(jobs: list[str], end: str = "") -> list[str]:
    """What the witness says when pods of these jobs are created, one after the other, and come to this end."""
    sim = SimCluster(Clock(1.7e9))
    witness = Witness(sim)
    watching = asyncio.create_task(witness.run())
    await add_node(sim, NodeSpec("npu-0"))
    for obj in read_manifests(EXAMPLE):
        await apply(sim, obj)
    for name in jobs:
        job = await sim.get(ASCEND_JOBS, "mindie", name)
        await sim.create(PODS, "mindie", _pod(job, bound=bool(end)))
        await asyncio.sleep(1)
        if end:
            patch = {"status": {"phase": end}}
            place = ("mindie", f"{name}-master-0")
            await sim.patch(PODS, *place, patch, patch_type=PatchType.MERGE, subresource="status")
            await asyncio.sleep(1)
    watching.cancel()
    return witness.settle()


def _pod(job: Object, *, bound: bool) -> Object:
    metadata = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{metadata['name']}-master-0", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"containers": [{"name": "ascend", "image": "none"}], **({"nodeName": "npu-0"} if bound else {})},
    }
