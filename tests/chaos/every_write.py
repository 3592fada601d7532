"""The systematic part: one reference history, and every write of it in turn goes wrong in every way.

The reference is a cold start of 2P1D, a lost node, its return and the scale-up. A crash is followed by a fresh life.
After each plan the world must be at rest where the reference ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler.sim.apiserver.client import Request
from tests.chaos import things
from tests.chaos.one_fault import How, OneFault, Plan
from tests.chaos.schedule import Event, Schedule
from tests.chaos.stage import Result, play
from tests.chaos.things import CPU_NODE, Service, World

SERVICE = Service("a", "mindie", "a", ladder=((2, 1), (1, 1)), jobs=(2, 1), pods=(2, 1), mindie=True)
NODES = (CPU_NODE, *things.nodes("a", 5))
STORY = (Event(30.0, "instance killed", "a-d0"), Event(45.0, "node gone", "a-0"), Event(75.0, "node back", "a-0"))
REFERENCE = Schedule(seed=0, world=World((SERVICE,), NODES), storm=100.0, events=STORY)


def reference() -> tuple[Result, list[Request]]:
    """How it ends when nothing goes wrong but the story itself, and every write of it."""
    one_fault = OneFault(None)
    return play(REFERENCE, one_fault=one_fault), one_fault.writes


def plans(writes: list[Request], *, only: frozenset[str] = frozenset()) -> Iterator[Plan]:
    """Every write (of these kinds of objects), wrong in every way."""
    for number, request in enumerate(writes):
        if not only or request.resource.kind in only:
            yield from (Plan(number, how) for how in How)


def differences(plan: Plan, expected: Result) -> list[str]:
    """What is wrong after this plan."""
    result = play(REFERENCE, one_fault=OneFault(plan))
    found = [f"{plan.how} of write {plan.number}: {failure}" for failure in result.failures]
    if result.said != expected.said:
        found.append(f"{plan.how} of write {plan.number}: ended with {result.said}, not {expected.said}")
    return found
