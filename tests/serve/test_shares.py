"""How a bounded number of places is shared out by address."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.serve.server import FullError, Shares


def shared(most: int) -> tuple[Shares[str], list[str]]:
    gone: list[str] = []
    return Shares(most, gone.append), gone


def test_who_holds_most_gives_way_oldest_first_and_is_refused_itself() -> None:
    shares, gone = shared(3)
    for name in ("f1", "f2", "f3"):
        shares.take("flood", name, 1)
    with pytest.raises(FullError):
        shares.take("flood", "f4", 1)
    shares.take("probe", "p1", 1)
    assert gone == ["f1"]
    shares.take("other", "o1", 1)
    assert gone == ["f1", "f2"]


def test_who_asks_for_more_than_the_others_have_takes_nothing_from_them() -> None:
    shares, gone = shared(10)
    shares.take("a", "a1", 6)
    with pytest.raises(FullError):
        shares.take("b", "b1", 7)
    shares.take("b", "b1", 4)
    with pytest.raises(FullError):
        shares.take("b", "b1", 3)
    assert gone == []


def test_what_is_given_back_is_free_for_anybody() -> None:
    shares, gone = shared(2)
    shares.take("a", "a1", 2)
    shares.give_back("a", "a1")
    shares.give_back("a", "a1")
    shares.take("b", "b1", 2)
    assert gone == []


Steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 5), st.booleans()),
    max_size=60,
)


@given(Steps)
def test_never_more_is_held_than_there_is_and_who_holds_least_keeps_it(
    steps: list[tuple[str, int, int, bool]],
) -> None:
    held: dict[tuple[str, str], int] = {}
    shares: Shares[tuple[str, str]] = Shares(
        8, lambda loser: evicted.append((loser, held.pop(loser)))
    )
    evicted: list[tuple[tuple[str, str], int]] = []
    for address, number, units, leaves in steps:
        holder = address, f"{address}{number}"
        if leaves:
            shares.give_back(address, holder)
            held.pop(holder, None)
            continue
        before = Counter[str]()
        for (owner, _), amount in held.items():
            before[owner] += amount
        evicted.clear()
        with suppress(FullError):
            shares.take(address, holder, units)
            held[holder] = held.get(holder, 0) + units
        assert sum(held.values()) <= 8
        for (owner, _), _amount in evicted:
            assert owner != address
            assert before[owner] >= before[address] + units
