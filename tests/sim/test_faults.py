"""The stand-in for the fault plugin: whole instances go, or single pods, or nothing, as the labels
say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler.kube.api import PODS, PatchType
from scaler.sim.actors.devices import (
    PRE_SEPARATE,
    report_chips,
    report_network,
    report_node,
    report_sub_health,
)
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import (
    Kubelet,
    KubeletTimings,
    NodeFate,
    NodeSpec,
    add_node,
    exit_pod,
)
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.rig import Rig
from tests.sim.manifests import NPU

FORCE = {"fault-scheduling": "force", "fault-retry-times": "3"}

TIMINGS = KubeletTimings(start=(1, 1), ready=(1, 1), stop=(2, 2))


async def after_a_node_fault(
    labels: dict[str, str], seconds: float, *, on_pods: bool = False
) -> list[str]:
    """What is left of a running gang of two, so long after one of its two nodes was lost."""
    on = Rig()
    on.nodes("n0", "n1")
    await on.gang("g", members=2, **{"pod_labels" if on_pods else "labels": labels})
    actors: list[Any] = [
        GangScheduler(on.cluster),
        Kubelet(on.cluster, on.clock, timings=TIMINGS),
        FaultActor(on.cluster, on.clock, detection=5),
    ]
    await on.play(10, *actors)
    await on.node("n1", NodeFate.NOT_READY)
    await on.play(seconds, *actors)
    return sorted(on.phases())


@pytest.mark.parametrize(
    ("labels", "left"),
    [
        (FORCE, []),
        ({"fault-scheduling": "off"}, ["g-0", "g-1"]),
        ({}, ["g-0", "g-1"]),
        ({"fault-scheduling": "external-force"}, ["g-0", "g-1"]),
        ({**FORCE, "app": "mindie-ms-controller"}, ["g-0"]),
        ({**FORCE, "pod-rescheduling": "on"}, ["g-0"]),
    ],
)
def test_the_labels_say_what_is_deleted_on_a_lost_node(
    labels: dict[str, str], left: list[str]
) -> None:
    assert run(after_a_node_fault(labels, 10)) == left


@pytest.mark.parametrize(
    ("labels", "left"), [(FORCE, []), ({**FORCE, "pod-rescheduling": "on"}, ["g-0"])]
)
def test_where_the_pod_group_says_nothing_the_labels_of_the_pods_do(
    labels: dict[str, str], left: list[str]
) -> None:
    assert run(after_a_node_fault(labels, 10, on_pods=True)) == left


def test_nothing_is_deleted_before_the_fault_is_detected() -> None:
    assert run(after_a_node_fault(FORCE, 4)) == ["g-0", "g-1"]


def test_grace_waits_for_the_processes_and_is_forced_when_overdue() -> None:
    grace = {"fault-scheduling": "grace"}
    # its node is silent: nobody ends the process
    assert run(after_a_node_fault(grace, 60)) == ["g-1"]
    assert run(after_a_node_fault(grace, 1000)) == []


def test_an_exit_code_costs_one_retry_until_none_is_left() -> None:
    async def main() -> list[int]:
        on = Rig()
        on.nodes("n0")
        await on.gang("g", labels={"fault-scheduling": "force", "fault-retry-times": "2"})
        actors: list[Any] = [
            GangScheduler(on.cluster),
            Kubelet(on.cluster, on.clock, timings=TIMINGS),
        ]
        actor = FaultActor(on.cluster, on.clock, detection=1)
        survivors = []

        async def script() -> None:
            for _ in range(4):
                await exit_pod(on.cluster, on.pod_object("g-0"), now=on.clock.now(), code=1)
                await asyncio.sleep(10)
                survivors.append(len(on.phases()))
                if not on.phases():
                    await on.pod("g-0", group="g")
                    await asyncio.sleep(10)

        await on.play(10, *actors)
        await on.play(200, *actors, actor, script=script())
        return survivors

    assert run(main()) == [0, 0, 1, 1]


SUPER_POD = {"sp-block": "32"}


async def with_device_data(
    labels: dict[str, str], fault: str, seconds: float, *, spare: bool = False
) -> list[str]:
    """What is left of the pods of a running super-pod job of two blocks of two nodes, so long after
    a fault on the node of its second pod. `spare`: another super-pod has a free block."""
    on = Rig()
    clock = on.clock
    for number in range(3 if spare else 2):
        for index in range(2):
            name = f"n{number}{index}"
            spec = NodeSpec(name, npu=16, device_data=True, super_pod=number)
            on.machines[name] = spec
            await add_node(on.cluster, spec, clock)
    await on.gang(
        "g", members=4, labels=labels, annotations=SUPER_POD, minResources={NPU: "64"}, npu=16
    )
    actors: list[Any] = [
        GangScheduler(on.cluster, devices=True, clock=clock),
        Kubelet(on.cluster, clock, timings=TIMINGS),
        FaultActor(on.cluster, clock, detection=1.5),
    ]
    await on.play(10, *actors)
    assert on.group_phases() == {"g": "Running"}
    node = on.nodes_by_pod()["g-1"]
    if fault == "not-ready":
        await on.node(node, NodeFate.NOT_READY)
    elif fault == "network":
        await report_network(on.cluster, clock, node, [3])
    elif fault == "sub-healthy":
        await report_sub_health(on.cluster, clock, node, [3])
    elif fault == "pre-separate":
        await report_node(on.cluster, clock, node, healthy=False, status=PRE_SEPARATE)
    else:
        await report_chips(on.cluster, clock, node, [3], healthy=False)
    await on.play(seconds, *actors)
    return sorted(on.phases())


ALL = ["g-0", "g-1", "g-2", "g-3"]


@pytest.mark.parametrize(
    ("labels", "fault", "left"),
    [
        (FORCE, "chip", []),
        (FORCE, "not-ready", []),
        (FORCE, "network", ALL),
        (FORCE, "pre-separate", ALL),
        (FORCE, "sub-healthy", ALL),
        ({**FORCE, "subHealthyStrategy": "ignore"}, "sub-healthy", ALL),
        ({**FORCE, "subHealthyStrategy": "forceExit"}, "sub-healthy", []),
        ({"subHealthyStrategy": "forceExit"}, "sub-healthy", ALL),
        ({}, "chip", ALL),
    ],
)
def test_within_two_seconds_of_a_fault_all_pods_go_or_none(
    labels: dict[str, str], fault: str, left: list[str]
) -> None:
    assert run(with_device_data(labels, fault, 2)) == left


def test_a_grace_exit_leaves_the_pods_their_own_time() -> None:
    labels = {**FORCE, "subHealthyStrategy": "graceExit"}
    assert run(with_device_data(labels, "sub-healthy", 2)) == ALL
    assert run(with_device_data(labels, "sub-healthy", 5)) == []


def test_a_pod_that_is_replaced_alone_takes_its_block_and_then_its_job_with_it() -> None:
    alone = {**FORCE, "pod-rescheduling": "on"}
    assert run(with_device_data(alone, "chip", 3)) == ["g-0", "g-2", "g-3"]
    assert run(with_device_data(alone, "chip", 9)) == ["g-2", "g-3"]
    assert run(with_device_data(alone, "chip", 15)) == []


def test_the_first_pod_of_a_job_is_never_replaced_alone() -> None:
    async def main() -> list[str]:
        on = Rig()
        on.nodes("n0", "n1")
        await on.gang("g", members=2, labels={**FORCE, "pod-rescheduling": "on"})
        for rank, name in enumerate(("g-0", "g-1")):
            note = {"metadata": {"annotations": {"hccl/rankIndex": str(1 - rank)}}}
            await on.cluster.patch(PODS, "default", name, note, patch_type=PatchType.MERGE)
        actors: list[Any] = [
            GangScheduler(on.cluster),
            Kubelet(on.cluster, on.clock, timings=TIMINGS),
            FaultActor(on.cluster, on.clock, detection=1),
        ]
        await on.play(10, *actors)
        await on.node("n1", NodeFate.NOT_READY)
        await on.play(5, *actors)
        return sorted(on.phases())

    assert run(main()) == []
