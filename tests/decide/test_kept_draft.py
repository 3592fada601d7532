"""A service that changed in what no other service can see costs no look at the others; whatever
else changed is read, and the decision is the same as without a cache."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scaler.decide.again import UNITS_OF_KEEPING, DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Decision
from scaler.decide.kept_draft import NOT_READ
from scaler.decide.memory import Memory
from scaler.decide.world import Life, Policy, Preempt, Service, World
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from tests.builders import doings, on_nodes, reasons, world

MANY = 30
EQUAL = Policy(preempt=Preempt.EQUAL_OR_HIGHER)


def at_rest(now: World) -> tuple[World, DecisionCache]:
    """The world when the decision about it changes no clock any more."""
    cache = DecisionCache()
    for _ in range(3):
        now = replace(now, memory=decide(now, cache).memory, now=now.now + 1.0)
    decide(now, cache)
    return now, cache


def edited(now: World, at: int, **changes: Any) -> World:
    """The first instance of one service is another object."""
    one = now.services[at]
    first = replace(one.instances[0], **changes)
    services = list(now.services)
    services[at] = replace(one, instances=(first, *one.instances[1:]))
    return replace(now, services=tuple(services), now=now.now + 1.0)


def decided(now: World, cache: DecisionCache) -> Decision:
    """The decision with the cache; it is the same without."""
    made = decide(now, cache)
    assert msgspec.json.encode(made) == msgspec.json.encode(decide(now))
    return made


def waiting(number: int) -> list[Service]:
    """Services that find no room."""
    return [on_nodes("1P", "p0 held", name=f"s{at:02}") for at in range(number)]


def work_of_an_edit(services: list[Service]) -> int:
    """Units of work of two decisions after an edit, as both read what it left in the memory."""
    now, cache = at_rest(world(*services, nodes="a:8x1"))
    before = cache.work.units
    made = decided(edited(now, 0, generation=7), cache)
    decided(replace(now, services=edited(now, 0, generation=7).services, memory=made.memory), cache)
    return cache.work.units - before


def test_an_edit_of_one_service_costs_no_look_at_the_others() -> None:
    """10c: each of the services that wait costs its place in a list, twice; a look at it costs some
    hundred units."""
    more = work_of_an_edit(waiting(10 * MANY)) - work_of_an_edit(waiting(MANY))
    assert more <= 2 * UNITS_OF_KEEPING * 9 * MANY


OTHERS: dict[str, Any] = {
    "kind": "LeaderWorkerSet",
    "generation": 3,
    "running": 0,
    "crashing": 1,
    "faulty": 1,
    "restarts": 1,
    "leftovers": True,
    "mislabelled": (Reason.GROUP_UNKNOWN, "words"),
    "trouble": "words",
    "life": Life(workers=1),
    "warnings": ((Warning.INSTANCE_SIZE_MISMATCH, "words"),),
    "revision": "2",
    "scheduler_says": "words",
    "asks": "words",
    "deletion_cost": 3,
}


@pytest.mark.parametrize("name", NOT_READ)
@pytest.mark.parametrize("policy", [Policy(), EQUAL])
@pytest.mark.parametrize(
    "text", ["p0 held, p1 held, d0 held", "p0 on a0, p1 on a1, d0 on a2", "p0 unbound, d0 on a0"]
)
def test_what_follows_from_a_field_that_is_not_read_is_seen(
    name: str, policy: Policy, text: str
) -> None:
    """S5: the state, the memory and the words of the instance are those of now."""
    one = on_nodes("2P1D > 1P1D", text, name="a")
    now, cache = at_rest(world(one, *waiting(2), nodes="a:8x3", policy=policy))
    now = edited(now, 0, **{name: OTHERS[name]})
    for _ in range(2):
        now = replace(now, memory=decided(now, cache).memory, now=now.now + 1.0)


def test_what_people_wrote_is_read_in_a_kept_draft_too() -> None:
    now, cache = at_rest(world(*waiting(2), nodes="a:8x1"))
    before = now.memory.services["default/rule/s00"].written
    now = edited(now, 0, generation=7)
    made = decided(now, cache)
    assert made.memory.services["default/rule/s00"].written != before


WAITS = on_nodes("1P", "p0@b held", name="b", priority=1)


def test_who_is_ready_is_read_where_victims_are_looked_for() -> None:
    """4b: so many stay that are Ready. Only the other one is in the way."""
    surplus = on_nodes("2P > 1P", "p0@a loads on a0, p1@b on b0", name="a")
    now, cache = at_rest(world(surplus, WAITS, nodes="a:8x1 b:8x1"))
    assert doings(decide(now)) == {}
    assert doings(decided(edited(now, 0, ready=1), cache)) == {"a-p1": "Evict"}


def test_how_long_a_victim_may_take_to_end_is_read() -> None:
    """4g: nobody is evicted whose pods would end too late."""
    surplus = on_nodes("2P > 1P", "p1@b on b0, p0@b on b1", name="a")
    slow = [replace(one, grace=1e9) for one in surplus.instances]
    now, cache = at_rest(world(replace(surplus, instances=tuple(slow)), WAITS, nodes="a:8x1 b:8x2"))
    assert doings(decide(now)) == {}
    assert doings(decided(edited(now, 0, grace=0.0), cache)) == {"a-p1": "Evict"}


def test_who_falls_to_a_lower_priority_may_be_evicted() -> None:
    """4a: nobody was looked at while each service had a higher priority."""
    services = (
        on_nodes("2P > 1P", "p0 on a0, p1 on a1", name="a"),
        on_nodes("1P", "p0 held", name="b"),
    )
    now, cache = at_rest(world(*services, nodes="a:8x2"))
    assert doings(decide(now)) == {}
    lower = on_nodes("2P > 1P", "p0 on a0, p1 on a1", name="a", priority=-1)
    now = replace(now, services=(lower, now.services[1]), now=now.now + 1.0)
    assert doings(decided(now, cache)) == {"a-p1": "Evict"}


def test_a_clock_begins_at_the_moment_of_the_decision() -> None:
    """5a, S5: the memory of before comes again, with an edit beside it."""
    now = world(on_nodes("1P", "p0 held", name="a"), nodes="a:8x1")
    cache = DecisionCache()
    decide(now, cache)
    later = edited(now, 0, generation=7)
    made = decided(later, cache)
    assert made.memory.services["default/rule/a"].began == later.now


def test_an_edit_that_is_taken_back_ends_no_backoff() -> None:
    """5f, S5: the memory of before the edit comes again, and the job as it was written then."""
    full = on_nodes("1P", "p0 on a0", name="b")
    now, cache = at_rest(world(on_nodes("1P", "p0 held", name="a"), full, nodes="a:8x1"))
    entries = now.memory.services
    waits = replace(entries["default/rule/a"], failures=1, backoff_until=now.now + 20.0)
    now = replace(now, memory=Memory({**entries, "default/rule/a": waits}))
    made = decided(edited(now, 0, generation=7), cache)
    assert made.memory.services["default/rule/a"].backoff_until == 0.0
    assert reasons(made)["a-p0"] is Reason.MINIMUM_DOES_NOT_FIT
    made = decided(edited(now, 0, trouble="words"), cache)
    assert reasons(made)["a-p0"] is Reason.MINIMUM_NOT_SCHEDULED
