"""The rules of MindCluster's plugin in the stand-in: valid requests, chips, blocks."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.kube.api import Object
from scaler.sim.actors.npu_jobs import (
    NoBlocksError,
    NpuJob,
    chips_for,
    choose_blocks,
    npu_job,
    why_invalid,
    why_refused,
)
from scaler.sim.actors.npu_nodes import NpuNode

NPU = "huawei.com/Ascend910"
A2 = "module-910b-8"
A3 = "module-a3-16"
SUPER_POD = "module-a3-16-super-pod"
MINDIE = {"app": "mindie-ms-server", "jobID": "chat"}


def job(
    *requests: int,
    kind: str = "",
    block: int = 0,
    policy: str = "",
    fit: str = "",
    labels: dict[str, str] | None = None,
) -> NpuJob:
    """A job of pods with these requests, on nodes of this accelerator-type."""
    pods = []
    for rank, chips in enumerate(requests):
        resources = {"requests": {NPU: str(chips)}}
        spec: Object = {"containers": [{"name": "ascend", "resources": resources}]}
        if kind:
            spec["nodeSelector"] = {"accelerator-type": kind}
        notes = {"hccl/rankIndex": str(rank)}
        pods.append({"metadata": {"name": f"pod-{rank}", "annotations": notes}, "spec": spec})
    notes = {"sp-block": str(block), "huawei.com/schedule_policy": policy, "sp-fit": fit}
    notes = {key: value for key, value in notes.items() if value.strip("0")}
    meta: Object = {"name": "job", "labels": labels or {}, "annotations": notes}
    made = npu_job({"metadata": meta}, pods, sum(requests))
    assert made is not None
    return made


def node(name: str = "node-0", super_pod: int = 0, chips: Any = range(16), **more: Any) -> NpuNode:
    free = frozenset(chips)
    fields = {"capacity": 16, "idle": len(free), "listed": True, "available": free, **more}
    return NpuNode(name, NPU, super_pod=super_pod, **fields)


@pytest.mark.parametrize(
    ("one", "valid"),
    [
        (job(8, kind=A2), True),
        (job(3, kind=A2), True),
        (job(9, kind=A2), False),
        (job(3), False),  # no accelerator-type: the first Ascend 910
        (job(4), True),
        (job(1, kind=A3), True),
        (job(1, 1, kind=A3), False),
        (job(6, 6, kind=A3), True),
        (job(7, kind=A3), False),
        (job(16, 16, kind=SUPER_POD), True),
        (job(16, 16, kind=SUPER_POD, block=16), True),
        (job(16, 16, 16, 16, kind=SUPER_POD, block=48), False),
        (job(16, 16, kind=SUPER_POD, block=8), False),
        (job(8, 8, kind=SUPER_POD, block=16), False),
        (job(8, kind=SUPER_POD, block=8), True),
        (job(8, 8, kind=A2, block=16), False),
        (job(8, kind="module-of-tomorrow"), False),
        (
            job(8, 8, kind="module-of-tomorrow", policy="chip8-node8"),
            True,
        ),
    ],
)
def test_a_request_is_valid_or_the_job_never_starts(one: NpuJob, valid: bool) -> None:
    assert (why_invalid(one) == "") is valid


def test_a_node_gives_whole_cards_on_a3_and_any_chips_on_a2() -> None:
    left = [chip for chip in range(16) if chip not in (2, 5)]
    assert len(chips_for(job(14, kind=A3), left, 14)) == 12
    assert chips_for(job(2, kind=A3), [0, 3, 4, 5], 2) == {4, 5}
    assert chips_for(job(1, kind=A3), [0, 1, 3], 1) == {3}
    assert chips_for(job(3, kind=A2), [1, 4, 6, 7], 3) == {1, 4, 6}


def test_14_chips_with_two_bad_ones_of_different_cards_take_12() -> None:
    hurt = node(chips=[chip for chip in range(16) if chip not in (2, 5)])
    assert why_refused(job(14, kind=A3), hurt, 14)
    assert not why_refused(job(12, kind=A3), hurt, 12)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (node(listed=False), "not has"),
        (node(chips=range(16), idle=15), "not stable"),
        (node(idle=16, capacity=15), "not stable"),
        (node(faulty="node is unhealthy"), "node is unhealthy"),
        (node(super_pod=-1), "not super-pod node"),
        (node(chips=range(15)), "requires 16"),
    ],
)
def test_a_node_refuses_a_pod_of_a_super_pod_job(found: NpuNode, said: str) -> None:
    assert said in why_refused(job(16, 16, kind=SUPER_POD), found, 16)


def test_chips_without_network_are_no_use_to_a_job_of_several_pods_or_blocks() -> None:
    unlinked = node(unlinked=frozenset({7}))
    assert not why_refused(job(16, kind=A3), unlinked, 16)
    assert why_refused(job(16, 16, kind=A3), unlinked, 16)
    assert not why_refused(job(16, 16, kind=SUPER_POD), unlinked, 16)
    assert why_refused(job(16, 16, kind=SUPER_POD, block=16), unlinked, 16)


def test_a_sub_healthy_node_takes_only_who_ignores_it() -> None:
    tired = node(sub_healthy=True)
    assert not why_refused(job(16, kind=A3), tired, 16)
    strict = job(16, kind=A3, labels={"subHealthyStrategy": "graceExit"})
    assert "sub-healthy" in why_refused(strict, tired, 16)


def super_pods(*free: int) -> list[NpuNode]:
    """Wholly free nodes, so many in each super-pod."""
    found = []
    for number, count in enumerate(free):
        found += [node(f"node-{number}-{index}", number) for index in range(count)]
    return found


def chosen(one: NpuJob, *free: int, **more: Any) -> list[int]:
    """The super-pod of each block."""
    blocks = choose_blocks(one, super_pods(*free), **more)
    homes = []
    for block in blocks:
        (home,) = {int(name.split("-")[1]) for name in block}
        homes.append(home)
    return homes


TWO = (16, 16)
FOUR = (16, 16, 16, 16)


def test_a_job_needs_whole_blocks_and_several_may_share_a_super_pod() -> None:
    with pytest.raises(NoBlocksError, match="required 1, total 0"):
        choose_blocks(job(*FOUR, kind=SUPER_POD, labels=MINDIE), super_pods(3, 3))
    assert chosen(job(*FOUR, kind=SUPER_POD, block=32, labels=MINDIE), 4) == [0, 0]
    assert chosen(job(*FOUR, kind=SUPER_POD, block=32), 3, 3) in ([0, 1], [1, 0])


def test_super_pods_that_keep_two_nodes_come_first_then_the_fullest() -> None:
    two = job(*TWO, kind=SUPER_POD, labels=MINDIE)
    assert chosen(two, 2, 4, 3) == [1]
    assert chosen(two, 6, 4) == [1]
    assert chosen(two, 3, 2) == [1]
    idlest = job(*TWO, kind=SUPER_POD, labels=MINDIE, fit="idlest")
    assert chosen(idlest, 6, 4) == [0]
    assert chosen(idlest, 3, 2) == [0]


def test_three_prefills_spread_over_three_super_pods_and_leave_no_block_of_four() -> None:
    free = [4, 4, 4]
    for _ in range(3):
        free[chosen(job(*TWO, kind=SUPER_POD, labels=MINDIE), *free)[0]] -= 2
    assert free == [2, 2, 2]


def test_a_job_that_is_not_of_mindie_takes_the_emptiest_where_none_keeps_two_nodes() -> None:
    two = job(*TWO, kind=SUPER_POD)
    assert chosen(two, 2, 4, 3) == [1]
    assert chosen(two, 6, 4) == [1]
    assert chosen(two, 3, 2) == [0]


def test_the_label_of_an_inference_service_packs_it() -> None:
    two = job(*TWO, kind=SUPER_POD, labels={"inferserviceid": "a"})
    assert chosen(two, 4, 2, packed={1}) == [1]
    assert chosen(two, 2, 4) == [1]


def test_soft_affinity_breaks_blocks_of_jobs_that_are_not_of_mindie() -> None:
    soft = {"super-pod-affinity": "soft"}
    blocks = choose_blocks(job(*FOUR, kind=SUPER_POD, labels=soft), super_pods(3, 1))
    assert sorted(name for block in blocks for name in block) == [
        "node-0-0",
        "node-0-1",
        "node-0-2",
        "node-1-0",
    ]
    with pytest.raises(NoBlocksError):
        choose_blocks(job(*FOUR, kind=SUPER_POD, labels={**soft, **MINDIE}), super_pods(3, 1))
