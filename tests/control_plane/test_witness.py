"""The outside witness notices what must not happen, and keeps quiet about what may."""

from __future__ import annotations

import asyncio

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, PODS, Object, PatchType
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node, change_node
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.sim.stories.manifests import apply, read_manifests
from tests.control_plane.stage import EXAMPLE
from tests.control_plane.witness import Orders, Witness
from tests.jobs import manifest


def test_an_admission_above_the_target_is_noticed() -> None:
    (broken,) = run(_told(["mindie-server-p0", "mindie-server-p1"]))
    assert broken.startswith(
        "S1: mindie/scaling-rule/mindie mindie-server-p1 is admitted as number 2 of group0"
    )


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
                await change_node(sim, NodeSpec("npu-0"), NodeFate.NOT_READY)
            await asyncio.sleep(5)
        await change_node(sim, NodeSpec("npu-0"), NodeFate.READY)
        await asyncio.sleep(1)
        watching.cancel()
        assert witness.most["mindie/scaling-rule/mindie"]["group0"] == 2
        return witness.broken

    assert run(story()) == []


def test_what_was_ordered_away_may_go_and_nothing_else() -> None:
    assert run(_ordered(2, "mindie-server-p1")) == []
    found = run(_ordered(3, "mindie-server-p1"))
    assert any(
        said.startswith("mindie-server-p1-master-0 was deleted, {'group0': 1") for said in found
    )
    assert "1 pods of group0 were drained, ordered were 0" in found


def test_what_falls_below_the_ratio_ordered_is_noticed() -> None:
    found = run(_ordered(2, "mindie-server-p1", "mindie-server-p0"))
    assert "{'group0': 0, 'group1': 1} runs, and {'group0': 1, 'group1': 1} was ordered" in found


async def _ordered(replicas: int, *deleted: str) -> list[str]:
    """What is said when 2P1D runs, so many instances are ordered and these jobs lose their pods."""
    sim = SimCluster(Clock(1.7e9))
    for obj in read_manifests(EXAMPLE):
        await apply(sim, obj)
    about = {"rule": "scaling-rule", "jobID": "mindie", "replicas": 3}
    await sim.create(ELASTIC_SERVICES, "mindie", manifest(ELASTIC_SERVICES, "chat", spec=about))
    for number, name in enumerate(("mindie-server-p0", "mindie-server-p1", "mindie-server-d0")):
        await add_node(sim, NodeSpec(f"npu-{number}"))
        job = await sim.get(ASCEND_JOBS, "mindie", name)
        await sim.create(PODS, "mindie", _pod(job, node=f"npu-{number}"))
        await _patch(sim, f"{name}-master-0", {"phase": "Running"})
    orders = Orders(
        sim, "mindie/scaling-rule/mindie", {"group0": 1, "group1": 1}, ((3, 1), (2, 1), (1, 1))
    )
    watching = asyncio.create_task(orders.run())
    await asyncio.sleep(60)
    wanted = {"spec": {"replicas": replicas}}
    await sim.patch(
        ELASTIC_SERVICES, "mindie", "chat", wanted, patch_type=PatchType.MERGE, subresource="scale"
    )
    for name in deleted:
        await asyncio.sleep(1)
        await sim.delete(PODS, "mindie", f"{name}-master-0", grace_period_seconds=0)
    await asyncio.sleep(10)
    watching.cancel()
    return orders.settle()


async def _patch(sim: SimCluster, pod: str, status: Object) -> None:
    await sim.patch(
        PODS, "mindie", pod, {"status": status}, patch_type=PatchType.MERGE, subresource="status"
    )


async def _told(jobs: list[str], end: str = "") -> list[str]:
    """What the witness says when pods of these jobs are created, one after the other, and come to
    this end."""
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
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-master-0",
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "containers": [{"name": "ascend", "image": "none"}],
            **({"nodeName": node} if node else {}),
        },
    }
