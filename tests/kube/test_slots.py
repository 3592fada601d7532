"""Who may send when: as many as allowed, no more of one namespace, and nobody behind what hangs."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.slots import PATIENCE, Slots
from scaler.sim.loop import run

Request = tuple[str, float]
"""Namespace, and seconds that its answer takes."""


class Server:
    """Who was let through when, and how many there were at once."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self.slots = Slots(most, most_of_one=most_of_one)
        self.sent: dict[int, float] = {}
        self.young: set[int] = set()
        self.by_namespace: Counter[str] = Counter()
        self.busiest = 0
        self.busiest_of_one = 0

    async def send(self, number: int, request: Request) -> None:
        namespace, seconds = request
        loop = asyncio.get_running_loop()
        async with self.slots.taken(namespace):
            self.sent[number] = loop.time()
            self.by_namespace[namespace] += 1
            self.young = {
                each for each in self.young if loop.time() - self.sent[each] < PATIENCE - 1e-6
            } | {number}
            self.busiest = max(self.busiest, len(self.young))
            self.busiest_of_one = max(self.busiest_of_one, *self.by_namespace.values())
            await asyncio.sleep(seconds)
            self.young.discard(number)
            self.by_namespace[namespace] -= 1

    async def all(self, requests: list[Request]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, request in enumerate(requests):
                tasks.create_task(self.send(number, request))


def play(requests: list[Request], *, most: int = 4, most_of_one: int = 2) -> Server:
    made: list[Server] = []

    async def main() -> None:
        made.append(Server(most, most_of_one))
        await made[0].all(requests)

    run(main())
    return made[0]


def test_a_namespace_in_which_everything_hangs_keeps_nobody_waiting() -> None:
    hanging: list[Request] = [("a", 100.0)] * 50
    server = play([*hanging, *[("b", 0.01)] * 5])
    assert max(server.sent[number] for number in range(50, 55)) < 0.1


def test_where_many_namespaces_hang_another_waits_for_slots_and_not_for_answers() -> None:
    hanging: list[Request] = [(f"n{number % 8}", 100.0) for number in range(80)]
    server = play([*hanging, ("b", 0.01)])
    assert server.sent[80] <= 4 * PATIENCE


requests = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([0.01, 0.5, 3.0])), max_size=40
)


@given(requests, st.integers(1, 5), st.integers(1, 3))
def test_there_are_never_more_than_allowed_and_everybody_is_served(
    sent: list[Request], most: int, most_of_one: int
) -> None:
    server = play(sent, most=most, most_of_one=most_of_one)
    assert len(server.sent) == len(sent)
    assert server.busiest <= most
    assert server.busiest_of_one <= most_of_one
    assert not server.slots._lanes, "a lane stays behind that nobody uses"


async def test_who_gives_up_waiting_takes_nothing_along() -> None:
    slots = Slots(1, most_of_one=1)
    async with slots.taken("a"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), slots.taken("b"):
                raise AssertionError("two at once")
    async with slots.taken("b"):
        pass
    assert not slots._lanes
