"""Which instances are kept from evictions: exactly the minimum, away from cordoned nodes, and no
move without need."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scaler.execute.budgets import RunningInstance, to_keep
from scaler.rules.rule import Ratio

GROUPS = ("group0", "group1")
RATIOS = st.builds(
    lambda *counts: Ratio(dict(zip(GROUPS, counts, strict=True)), {}), *[st.integers(0, 3)] * 2
)
RUNS = st.lists(
    st.builds(
        RunningInstance,
        st.sampled_from("abcdefgh"),
        st.sampled_from((*GROUPS, "other")),
        st.booleans(),
        st.booleans(),
    ),
    unique_by=lambda one: one.uid,
)


def in_group(running: list[RunningInstance], group: str) -> list[RunningInstance]:
    return [one for one in running if one.group == group]


@given(RATIOS, RUNS)
def test_as_many_are_kept_as_the_smallest_ratio_needs_or_none(
    smallest: Ratio, running: list[RunningInstance]
) -> None:
    kept = to_keep(smallest, running)
    serves = all(
        len(in_group(running, group)) >= number for group, number in smallest.counts.items()
    )
    found = Counter(one.group for one in running if one.uid in kept)
    assert found == Counter(smallest.counts if serves else {})


@given(RATIOS, RUNS)
def test_nothing_on_a_cordoned_node_is_kept_while_another_could_be(
    smallest: Ratio, running: list[RunningInstance]
) -> None:
    kept = to_keep(smallest, running)
    for group in GROUPS:
        cordoned = any(one.uid in kept and not one.settled for one in in_group(running, group))
        free = any(one.uid not in kept and one.settled for one in in_group(running, group))
        assert not (cordoned and free)


@given(RATIOS, RUNS)
def test_what_is_kept_stays_so_as_long_as_nothing_changes(
    smallest: Ratio, running: list[RunningInstance]
) -> None:
    kept = to_keep(smallest, running)
    after = [one._replace(kept=one.uid in kept) for one in running]
    assert to_keep(smallest, after) == kept
    assert to_keep(smallest, after[::-1]) == kept


@given(RATIOS, RUNS, st.booleans())
def test_one_more_instance_moves_nothing_unless_one_is_on_a_cordoned_node(
    smallest: Ratio, running: list[RunningInstance], settled: bool
) -> None:
    kept = to_keep(smallest, running)
    after = [one._replace(kept=one.uid in kept) for one in running]
    more = to_keep(smallest, [*after, RunningInstance("0", "group0", settled, False)])
    if kept and all(one.settled for one in running if one.uid in kept):
        assert more == kept
