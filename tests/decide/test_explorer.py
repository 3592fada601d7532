"""Small worlds in which every order of events is played with the real decision; see tests/decide/explorer.py.

The worlds that are visited whole in about a second each; the others are played by `make explore`.
"""

from __future__ import annotations

import pytest

from tests.decide.alike import representative
from tests.decide.catalogue import chosen, endless
from tests.decide.explorer import Explorer
from tests.decide.moves import moves
from tests.decide.small_worlds import Shape, initial, shape

MOST = 1500
"""States of the largest of them, with something to spare."""

QUICK = (
    "two minimums on room for one",
    "two minimums on room for one and a half",
    "a big one and small ones",
    "gangs of two",
    "gangs bound one by one",
    "two kinds of nodes",
    "two kinds, chains of choices",
    "two kinds, a scale-up that could spoil",
    "a scale-up and two kinds",
    "gates, room for one",
    "a stale decision, two minimums",
    "two stale decisions",
    "half a minimum never bound, beside a ladder",
    "half a minimum never bound, two kinds",
    "half a gang bound",
    "half a gang bound, one by one",
    "never made, beside a ladder",
    "never made, scarce",
    "a scale-up never made",
    "made slowly, scarce",
    "a gang made slowly",
    "refused",
    "refused, a spare",
    "a scale-up refused, a spare",
    "the first never bound, a spare",
    "the first of the second group never bound, a spare",
    "a scale-up never bound, a spare",
    "never runs, a spare",
    "never runs, no spare",
    "a scale-up that never runs, a minimum late",
    "two never bound and one that is",
    "never made and never runs, equals preempt",
    "restarts are few, beside a minimum",
    "restarts are few, never bound",
    "surplus that never ends",
    "preempts one",
    "preempts, never bound",
    "the victim never ends",
    "evicting would not do",
    "preempts, refused",
    "protected",
    "preempts never",
    "preempts, a stale decision",
    "preempts a gang",
    "preempts on one of two kinds",
    "halves and wholes",
    "a whole one preempts two halves",
    "a half never bound",
    "alone, the oldest scale-up fits nowhere",
    "alone, room for one, a spare",
    "alone, a minimum, a spare",
    "alone, no room",
    "alone, own surplus",
    "alone, never bound",
    "alone, trade always",
    "two that are alone",
    "scaled down, up and to nothing",
    "scaled in two groups",
    "scaled down and up, beside a minimum that waits",
    "two that are scaled",
    "scaled, a stale decision",
    "scaled, a failover",
    "scaled, few restarts",
    "scaled, a gang",
    "scaled, one never runs",
    "scaled, one never ends",
    "scaled, preempted",
)


@pytest.mark.parametrize("of", [of for of in chosen() if of.name in QUICK], ids=lambda of: of.name)
def test_every_state_keeps_the_promises_and_every_end_is_a_good_one(of: Shape) -> None:
    result = Explorer(of, most=MOST, seconds=60).run()
    assert not result.found, "\n".join(result.traces)
    assert result.whole


def test_a_cache_changes_no_answer() -> None:
    for of in (of for of in chosen() if of.name in ("preempts one", "halves and wholes", "two kinds of nodes")):
        assert not Explorer(of, most=1500, cached=True).run().found


def test_random_worlds_are_drawn_the_same_for_a_seed() -> None:
    first, second = endless(7), endless(7)
    assert [next(first) for _ in range(20)] == [next(second) for _ in range(20)]


def test_a_world_in_which_nothing_can_move_has_one_state_for_all_orders() -> None:
    of = shape("idle", "a:1x3", "1P: p*2", "1P: p")
    assert not list(moves(of, initial(of)))
    assert representative(of, initial(of)) == initial(of)
