"""The writes of one instance start together, and nobody waits long for others."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.execute.bursts import MOST_AT_ONCE, PATIENCE, Bursts
from scaler.sim.loop import run

Burst = tuple[str, int, float]
"""Namespace, number of writes, and seconds until they are answered."""


class Played:
    """When each burst began, and how many writes were under way then."""

    def __init__(self, most: int) -> None:
        self.bursts = Bursts(most)
        self.most = most
        self.began: dict[int, float] = {}
        self.of_one: dict[str, int] = {}
        self.busiest = 0
        self.busiest_of_one = 0

    async def send(self, number: int, burst: Burst) -> None:
        namespace, writes, seconds = burst
        counted = min(writes, self.most)
        async with self.bursts.begun(namespace, writes):
            self.began[number] = asyncio.get_running_loop().time()
            self.of_one[namespace] = self.of_one.get(namespace, 0) + counted
            self.busiest = max(self.busiest, sum(self.of_one.values()))
            self.busiest_of_one = max(self.busiest_of_one, self.of_one[namespace])
            await asyncio.sleep(seconds)
            self.of_one[namespace] -= counted


def play(sent: list[Burst], most: int = MOST_AT_ONCE) -> Played:
    made: list[Played] = []

    async def main() -> None:
        made.append(Played(most))
        async with asyncio.TaskGroup() as tasks:
            for number, burst in enumerate(sent):
                tasks.create_task(made[0].send(number, burst))

    run(main())
    return made[0]


def test_an_instance_begins_when_all_its_writes_have_room() -> None:
    played = play([("a", 8, 0.1), ("b", 4, 0.05), ("c", 8, 0.1), ("d", 4, 0.1)])
    assert played.began == pytest.approx({0: 0.0, 1: 0.0, 2: 0.05, 3: 0.1})


def test_an_instance_with_more_pods_than_that_begins_when_nothing_else_is_under_way() -> None:
    played = play([("a", 4, 0.1), ("b", 40, 0.1), ("c", 1, 0.1)])
    assert played.began == pytest.approx({0: 0.0, 1: 0.1, 2: 0.2})


def test_a_namespace_whose_writes_hang_delays_others_by_the_patience_once() -> None:
    hanging: list[Burst] = [("a", 16, 10.0)] * 20
    played = play([*hanging, ("b", 4, 0.01)])
    assert played.began[20] == pytest.approx(PATIENCE)


bursts = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.sampled_from([0.01, 0.2])), max_size=30
)


@given(bursts, st.integers(1, 8))
def test_there_are_never_more_than_allowed_and_everybody_begins(
    sent: list[Burst], most: int
) -> None:
    played = play(sent, most)
    assert len(played.began) == len(sent)
    assert played.busiest <= most
    assert not played.bursts._slots._lanes, "a lane stays behind that nobody uses"


@given(bursts)
def test_a_namespace_never_has_more_under_way_also_where_they_hang(sent: list[Burst]) -> None:
    slow = [(namespace, writes, 20 * seconds) for namespace, writes, seconds in sent]
    played = play(slow, 8)
    assert len(played.began) == len(sent)
    assert played.busiest_of_one <= 8


async def test_who_gives_up_waiting_takes_nothing_along() -> None:
    bursts = Bursts(4)
    async with bursts.begun("a", 3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), bursts.begun("b", 2):
                raise AssertionError("five at once")
        async with bursts.begun("c", 1):
            pass
    async with bursts.begun("b", 4):
        pass
    assert not bursts._slots._lanes
