"""Bare counts get the same answer as instances: the arithmetic of `scaler plan` is the
decision's."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.decision import Evict, State
from scaler.decide.world import Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import ALL, Rule, RuleOptions
from scaler.tools.common.counts import Case, CountsDecision, aimed_at, decide, unknown_groups
from tests.builders import instance, plan, rule, service
from tests.strategies import rules


@st.composite
def cases(draw: st.DrawFn) -> tuple[Rule, Case]:
    rule = draw(rules())
    counts = st.dictionaries(st.sampled_from(sorted(rule.groups)), st.integers(0, 5))
    replicas = st.integers(0, 20) | st.just(ALL)
    return rule, Case(draw(counts), draw(counts), draw(counts), draw(replicas))


@settings(max_examples=600, deadline=None)
@given(cases(), st.booleans())
def test_counts_are_decided_as_instances_are(drawn: tuple[Rule, Case], paused: bool) -> None:
    rule, case = drawn
    assert comparable(decide(rule, case, paused=paused)) == planned(as_service(rule, case, paused))


def comparable(decision: CountsDecision) -> object:
    groups = {
        name: (
            one.target,
            one.running,
            one.in_flight,
            one.held,
            one.admit,
            one.revoke,
            one.drain,
            one.reasons,
        )
        for name, one in decision.groups.items()
    }
    return decision.target.index, decision.target.counts, decision.complete, groups


def as_service(rule: Rule, case: Case, paused: bool) -> Service:
    counts = {State.RUNNING: case.running, State.ADMITTED: case.in_flight, State.HELD: case.held}
    found = tuple(
        instance(f"{state}-{name}-{number}", state, group=name)
        for state, numbers in counts.items()
        for name, most in numbers.items()
        for number in range(most)
    )
    return service(rule, found, options=RuleOptions(paused=paused), replicas=case.replicas)


def planned(seen: Service) -> object:
    made = plan(seen)
    was_held = {one.uid for one in seen.instances if not one.pods}
    kept = [one for one in made.verdicts if one.state is State.HELD and one.uid in was_held]
    groups_of = {one.uid: one.group for one in seen.instances}
    drained = Counter(groups_of[action.uid] for action in made.actions if isinstance(action, Evict))
    groups = {}
    for name, group in made.groups.items():
        groups[name] = (
            group.target,
            group.running,
            group.in_flight,
            group.held,
            group.admit,
            group.revoke,
            drained[name],
            dict(Counter(one.reason for one in kept if one.group == name)),
        )
    return made.target_index, made.target or dict.fromkeys(made.groups, 0), made.complete, groups


def test_the_answer_has_the_documented_shape() -> None:
    case = Case(running={"group0": 1}, in_flight={"group0": 0}, held={"group0": 1, "group1": 1})
    assert msgspec.to_builtins(decide(rule("2P1D > 1P1D"), case)) == {
        "target": {"index": 1, "counts": {"group0": 1, "group1": 1}},
        "complete": False,
        "groups": {
            "group0": {
                "target": 1,
                "running": 1,
                "in_flight": 0,
                "held": 1,
                "admit": 0,
                "revoke": 0,
                "reasons": {"WaitingForRatio": 1},
            },
            "group1": {
                "target": 1,
                "running": 0,
                "in_flight": 0,
                "held": 1,
                "admit": 1,
                "revoke": 0,
                "reasons": {},
            },
        },
    }


def test_groups_that_no_ratio_names_are_told_apart() -> None:
    assert unknown_groups(rule("1P"), Case(running={"group0": 1, "decode": 1}, held={"x": 1})) == (
        "decode",
        "x",
    )


@pytest.mark.parametrize(
    ("ladder", "aims"),
    [
        ("2P2D > 2P1D > 1P1D", [-1, 2, 2, 1, 0, 0, 0]),
        ("2P1D > 2P1D > 1P1D", [-1, 2, 2, 1, 0, 0, 0]),
        ("3P", [-1, 0, 0, 0, 0, 0, 0]),
        ("3P3D > 1P", [-1, 1, 0, 0, 0, 0, 0]),
    ],
)
def test_a_number_aims_at_the_smallest_ratio_with_so_many_instances(
    ladder: str, aims: list[int]
) -> None:
    assert [aimed_at(rule(ladder), number) for number in range(7)] == aims


def test_what_runs_beyond_the_number_wanted_is_drained_and_what_is_held_says_so() -> None:
    found = decide(
        rule("2P2D > 1P1D"), Case({"group0": 2, "group1": 1}, {}, {"group1": 2}, replicas=2)
    )
    assert (found.target.index, found.complete) == (1, True)
    assert (found.groups["group0"].drain, found.groups["group1"].drain) == (1, 0)
    assert found.groups["group1"].reasons == {Reason.SCALED_DOWN: 1, Reason.NOT_IN_RATIO: 1}


def test_a_service_that_rests_aims_at_nothing_and_drains_all() -> None:
    found = decide(rule("1P1D"), Case({"group0": 1}, {"group1": 1}, {}, replicas=0))
    assert (found.target.index, found.target.counts, found.complete) == (
        -1,
        {"group0": 0, "group1": 0},
        True,
    )
    assert (found.groups["group0"].drain, found.groups["group1"].revoke) == (1, 1)
    paused = decide(rule("1P1D"), Case({"group0": 1}, replicas=0), paused=True)
    assert paused.groups["group0"].drain == 0
