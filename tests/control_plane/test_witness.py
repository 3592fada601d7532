"""The outside witness notices what must not happen, and keeps quiet about what may."""

from __future__ import annotations

import asyncio

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, PODS, Object, PatchType
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node, befall
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


def test_an_instance_whose_node_comes_back_is_not_admitted_by_that() -> None:
    async def story() -> list[str]:
        sim = SimCluster(Clock(1.7e9))
        witness = Witness(sim)
        watching = asyncio.create_task(witness.run())
        for obj in read_manifests(EXAMPLE):
            await apply(sim, obj)
        for number in range(2):
            name = f"mindie-server-p{number}"
            await add_node(sim, NodeSpec(f"npu-{number}"))
            job = await sim.get(ASCEND_JOBS, "mindie", name)
            await sim.create(PODS, "mindie", _pod(job, node=f"npu-{number}"))
            await _patch(sim, f"{name}-master-0", {"phase": "Running"})
            if number == 0:
                await befall(sim, NodeSpec("npu-0"), NodeFate.NOT_READY)
            await asyncio.sleep(5)
        await befall(sim, NodeSpec("npu-0"), NodeFate.READY)
        await asyncio.sleep(1)
        watching.cancel()
        assert witness.most["mindie/scaling-rule/mindie"]["group0"] == 2
        return witness.broken

    assert run(story()) == []


async def _patch(sim: SimCluster, pod: str, status: Object) -> None:
    await sim.patch(PODS, "mindie", pod, {"status": status}, patch_type=PatchType.MERGE, subresource="status")


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
        await sim.create(PODS, "mindie", _pod(job, node="npu-0" if end else ""))
        await asyncio.sleep(1)
        if end:
            await _patch(sim, f"{name}-master-0", {"phase": end})
            await asyncio.sleep(1)
    watching.cancel()
    return witness.settle()


def _pod(job: Object, *, node: str) -> Object:
    metadata = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{metadata['name']}-master-0", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"containers": [{"name": "ascend", "image": "none"}], **({"nodeName": node} if node else {})},
    }
