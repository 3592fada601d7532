"""What differs from the last decision is found as a comparison of all values finds it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.since_last import BLOCK, Followed, Moments

numbers = st.integers(0, 3 * BLOCK - 1)


@given(st.lists(st.sets(numbers, max_size=4), max_size=5))
def test_the_positions_of_other_objects_are_found(steps: list[set[int]]) -> None:
    values = [[number] for number in range(3 * BLOCK - 5)]
    followed = Followed[list[int]]()
    followed.follow(tuple(values))
    for number, step in enumerate(steps):
        changed = sorted(at for at in step if at < len(values))
        for at in changed:
            values[at] = [at, number]
        assert followed.follow(tuple(values)) == changed


def test_all_positions_of_a_tuple_of_another_length_count() -> None:
    followed = Followed[str]()
    assert followed.follow(("a", "b")) == [0, 1]
    assert followed.follow(("a",)) == [0]


def test_equal_objects_count_as_the_same() -> None:
    followed = Followed[list[int]]()
    followed.follow(([1], [2]))
    assert followed.follow(([1], [2])) == []
    assert followed.last == ([1], [2])


moments = st.tuples(st.integers(0, 5), st.sampled_from((0.0, 1.0, 2.0, 3.0)))


@given(st.lists(moments, max_size=200), st.sampled_from((0.0, 1.0, 2.0, 3.0)))
def test_the_first_moment_to_come_and_those_that_are_due_are_found(
    steps: list[tuple[int, float]], now: float
) -> None:
    found = Moments()
    known: dict[int, float] = {}
    for position, moment in steps:
        found.put(position, moment)
        known[position] = moment
        left = [one for one in known.values() if one > now]
        assert min(found.to_come(now), default=0.0) == min(left, default=0.0)
        assert found.due(now) == sorted(at for at, one in known.items() if 0.0 < one <= now)
    found.clear()
    assert not [*found.to_come(now), *found.due(now)]
