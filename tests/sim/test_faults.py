"""The stand-in for the fault plugin: whole instances go, or single pods, or nothing, as the labels
say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, NodeFate, exit_pod
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.loop import run
from tests.rig import Rig

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
    assert run(after_a_node_fault(labels, 20)) == left


@pytest.mark.parametrize(
    ("labels", "left"), [(FORCE, []), ({**FORCE, "pod-rescheduling": "on"}, ["g-0"])]
)
def test_where_the_pod_group_says_nothing_the_labels_of_the_pods_do(
    labels: dict[str, str], left: list[str]
) -> None:
    assert run(after_a_node_fault(labels, 20, on_pods=True)) == left


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
