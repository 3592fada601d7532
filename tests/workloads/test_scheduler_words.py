"""What holds of the conditions of a PodGroup, and in which words."""

from __future__ import annotations

import random

import pytest

from scaler.workloads.scheduler_words import LONGEST_WORDS, Condition, Said, said_of


def unschedulable(
    reason: str, message: str, session: str, at: str, status: str = "True"
) -> Condition:
    return Condition("Unschedulable", status, reason, message, session, at)


EARLY = "2026-11-28T10:00:00Z"
LATE = "2026-11-28T10:05:00Z"
TOO_FEW = "require npu num is 32, but cluster npu num is 31"
NO_BLOCK = "not enough virtual super-pod to schedule"


def reasons(*conditions: Condition) -> list[str]:
    return [one.reason for one in said_of(conditions)]


def test_a_condition_of_an_earlier_session_does_not_hold() -> None:
    enqueue = unschedulable("JobEnqueueFailed", TOO_FEW, "7", EARLY)
    order = unschedulable("BatchOrderFailed", NO_BLOCK, "9", LATE)
    assert said_of([enqueue, order]) == (Said("BatchOrderFailed", NO_BLOCK),)


def test_a_condition_without_words_gives_way_to_one_with_words() -> None:
    order = unschedulable("BatchOrderFailed", NO_BLOCK, "9", LATE)
    nothing = unschedulable("NodePredicateFailed", " ", "9", LATE)
    assert reasons(order, nothing) == ["BatchOrderFailed"]
    assert said_of([nothing]) == (Said("NodePredicateFailed", ""),)


def test_a_job_that_is_not_valid_says_most() -> None:
    conditions = [
        unschedulable("NotEnoughResources", "1/3 pods", "9", LATE),
        unschedulable("NodePredicateFailed", "no", "9", LATE),
        unschedulable("SomethingNew", "no", "9", LATE),
        unschedulable("JobValidateFailed", "sp-block 48 of 64", "9", LATE),
    ]
    random.Random(1).shuffle(conditions)
    assert reasons(*conditions) == [
        "JobValidateFailed",
        "NodePredicateFailed",
        "NotEnoughResources",
        "SomethingNew",
    ]


def test_reasons_of_nodes_are_said_without_nodes_and_in_one_order() -> None:
    words = (
        "Predicated-Nodes count: 2, nodes: [a b]...,  Reason: not stable, such as: [c d]... Reason:"
        " no device data, such as: [e]..."
    )
    other = (
        "Predicated-Nodes count: 2, nodes: [b a]...,  Reason: no device data, such as: [e]..."
        " Reason: not stable, such as: [d c]..."
    )
    first = said_of([unschedulable("NodePredicateFailed", words, "9", LATE)])
    assert first == (Said("NodePredicateFailed", "no device data; not stable"),)
    assert first == said_of([unschedulable("NodePredicateFailed", other, "9", LATE)])


@pytest.mark.parametrize(
    "condition",
    [
        unschedulable("JobEnqueueFailed", TOO_FEW, "9", LATE, status="False"),
        Condition("Scheduled", "True", "tasks in gang are ready to be scheduled", "", "9", LATE),
    ],
)
def test_what_is_no_refusal_says_nothing(condition: Condition) -> None:
    assert said_of([condition]) == ()


def test_words_are_cut_and_a_cure_stands_beside_the_reasons_of_the_plugin() -> None:
    (said,) = said_of([unschedulable("BatchOrderFailed", "x" * 10_000, "9", LATE)])
    assert len(said.words) == LONGEST_WORDS
    assert "super-pod" in said.cure
    assert Said("NotEnoughResources", "").cure == ""
    assert str(Said("NotEnoughResources", "")) == "NotEnoughResources"
