"""A rule as it is followed while fewer instances are wanted: `Rule.limited`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.rules.rule import ALL, Rule
from tests.builders import rule
from tests.strategies import rules

LADDER = rule("3P3D > 2P1D > 1P1D")


def counts(ladder: Rule) -> list[dict[str, int]]:
    return [dict(ratio.counts) for ratio in ladder.ratios]


@pytest.mark.parametrize(
    ("replicas", "first"), [(ALL, 0), (7, 0), (6, 0), (5, 0), (4, 0), (3, 1), (2, 2), (1, 2)]
)
def test_the_largest_ratio_left_is_the_smallest_with_so_many_instances(
    replicas: int, first: int
) -> None:
    assert counts(LADDER.limited(replicas)) == counts(LADDER)[first:]


def test_nothing_is_left_but_zeros_of_every_group_where_no_instance_is_wanted() -> None:
    assert counts(LADDER.limited(0)) == [{"group0": 0, "group1": 0}]


def test_a_group_that_the_ratios_left_do_not_name_has_zero_there_and_its_size_stays() -> None:
    left = rule("1P1D > 1P").limited(1)
    assert counts(left) == [{"group0": 1, "group1": 0}]
    assert left.largest.sizes == rule("1P1D").largest.sizes


@given(rules(), st.integers(0, 14))
def test_any_rule_keeps_its_groups_and_its_smallest_ratio_and_loses_only_ratios_that_are_too_large(
    ladder: Rule, replicas: int
) -> None:
    left = ladder.limited(replicas)
    assert left.groups == ladder.groups
    if not replicas:
        assert left.largest.total == 0
        return
    kept = ladder.ratios[-len(left.ratios) :]
    assert [ratio.of(name) for ratio in left.ratios for name in ladder.groups] == [
        ratio.of(name) for ratio in kept for name in ladder.groups
    ]
    assert left.largest.total >= min(replicas, ladder.largest.total)
    if len(left.ratios) > 1:
        assert left.ratios[1].total < replicas
    assert left is ladder or ladder.ratios[-len(left.ratios) - 1].total >= replicas


@given(rules(), st.integers(0, 14), st.integers(0, 14))
def test_who_wants_more_never_gets_less(ladder: Rule, one: int, other: int) -> None:
    few, many = (ladder.limited(number).largest for number in sorted((one, other)))
    assert all(few.of(name) <= many.of(name) for name in ladder.groups)
