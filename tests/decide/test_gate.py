"""With nothing in flight and all jobs live, the same groups may start as in Ascend Operator's gate.

The gate is written down here from the description of its behaviour. Wanted differences: a group
that the target does not name crashes there and waits here (W1); an allowed group gets any number of
jobs there and only the missing ones here (W2). The others (W9, W10, W13) are about what counts as
running, which bare counts cannot show."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.decision import Admit
from scaler.decide.world import Service
from scaler.rules.rule import Rule
from tests.builders import instance, plan, rule, service
from tests.strategies import rules


class GateCrashError(Exception):
    """The nil dereference of W1."""


def may_start(rule: Rule, running: dict[str, int], group: str) -> bool:
    for ratio in reversed(rule.ratios):
        if any(running.get(name, 0) < number for name, number in ratio.counts.items()):
            if group not in ratio.counts:
                raise GateCrashError(group)
            return ratio.counts[group] > running.get(group, 0)
    return False  # "arrived"


def admitted_groups(seen: Service) -> set[str | None]:
    groups = {one.uid: one.group for one in seen.instances}
    return {groups[action.uid] for action in plan(seen).actions if isinstance(action, Admit)}


def all_jobs_live(rule: Rule, running: dict[str, int]) -> Service:
    """As many held jobs beside the running ones as the largest ratio needs, and one spare."""
    return service(
        rule,
        tuple(
            instance(
                f"{group}-{number}",
                "Running" if number < running.get(group, 0) else "Held",
                group=group,
            )
            for group in rule.groups
            for number in range(max(rule.largest.of(group), running.get(group, 0)) + 1)
        ),
    )


def assert_same_as_the_gate(rule: Rule, running: dict[str, int]) -> None:
    ours = admitted_groups(all_jobs_live(rule, running))
    for group in rule.groups:
        try:
            assert (group in ours) == may_start(rule, running, group)
        except GateCrashError:
            assert group not in ours


@settings(max_examples=500, deadline=None)
@given(rules(), st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_the_groups_that_may_start_are_the_gates(rule: Rule, numbers: list[int]) -> None:
    assert_same_as_the_gate(rule, dict(zip(("group0", "group1", "group2"), numbers, strict=True)))


@pytest.mark.parametrize(
    "ladder", ["2P1D > 1P1D", "3P2D > 2P2D > 1P1D", "2P1D > 1P", "2P0D > 1P0D", "1P1D > 1P1D"]
)
def test_the_groups_that_may_start_are_the_gates_in_every_state(ladder: str) -> None:
    for prefill, decode in itertools.product(range(5), range(4)):
        assert_same_as_the_gate(rule(ladder), {"group0": prefill, "group1": decode})
