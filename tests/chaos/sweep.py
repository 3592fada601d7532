"""The fault sweep: one reference history, and each of its writes in turn goes wrong in every way.

The reference is a cold start of 2P1D, a lost node, its return and the scale-up. A crash is followed by a new process.
After each fault the world must be at rest where the reference ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import msgspec

from tests.chaos.catalogue import Event
from tests.chaos.schedule import Schedule
from tests.chaos.stage import play
from tests.chaos.world import CPU_NODE, Service, World, nodes
from tests.faults import WRITES, Fault, Rule

REFERENCE = Schedule(
    seed=0,
    world=World(
        (Service("a", "mindie", "a", ladder=((2, 1), (1, 1)), jobs=(2, 1), pods=(2, 1), mindie=True),),
        (CPU_NODE, *nodes("a", 5)),
    ),
    storm=100.0,
    events=(Event(30.0, "instance killed", "a-d0"), Event(45.0, "node gone", "a-0"), Event(75.0, "node back", "a-0")),
)
WAYS = (
    Rule(fault=Fault.CRASH), Rule(fault=Fault.CRASH_AFTER), Rule(fault=Fault.LOST_REQUEST),
    Rule(fault=Fault.LOST_ANSWER), Rule(fault=Fault.REFUSED, status=409), Rule(fault=Fault.REFUSED, status=429),
)  # fmt: skip


def swept(*kinds: str) -> Iterator[list[str]]:
    """What is wrong, for every write (of objects of these kinds) and every way: nothing where it ends as it must."""
    expected = play(REFERENCE)
    assert expected.failures == []
    for way in WAYS:
        for number in count():
            rule = msgspec.structs.replace(way, verbs=WRITES, kinds=kinds, skip=number, times=1)
            result = play(msgspec.structs.replace(REFERENCE, one_fault=rule))
            if not result.counts[f"api fault: {way.fault.value}"]:
                break  # there is no write of this number
            ends = [] if result.said == expected.said else [f"ended with {result.said}, not {expected.said}"]
            yield [f"{way.fault.value} {way.status} of write {number}: {what}" for what in (*result.failures, *ends)]
