"""A scale-up that has waited for `backoff_max` goes next, once, before minimums that had their
attempt: 3b.2a and 3b.7a of the contract, and L5. Each crowd here is of one tenant, and nobody binds
it. A pod of somebody else is bound each minute, so that the scheduler is there."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.decide.decide import decide
from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Service, ServiceKey
from tests.builders import NOW, Story, doings, on_nodes, reasons, world
from tests.decide.played import Played

WAITED = ServiceMemory(waiting_since=NOW - 300)
UP = on_nodes("2P > 1P", "p0 on a1, p1 held", name="up", key=ServiceKey("other", "rule", "up"))


def crowd_beside_a_scale_up(number: int, **changes: Any) -> Played:
    """So many services that miss one node each, one free node, and a service that may scale up."""
    cluster = Played(nodes="a:8x2")
    for stuck in range(number):
        key = ServiceKey("crowd", "rule", f"s{stuck}")
        cluster.service(f"s{stuck}", "1P", "p0", key=key, **changes)
    key = ServiceKey("other", "rule", "up")
    return cluster.service("up", "2P > 1P", "p0", "p1", key=key).on("a0", runs="up-p0")


@pytest.mark.parametrize("priority", [0, -1])
@pytest.mark.parametrize("number", [2, 12])
def test_a_crowd_of_minimums_that_nobody_binds_holds_up_no_scale_up_for_ever(
    number: int, priority: int
) -> None:
    """L5: whoever has waited `backoff_max` because of it alone goes next, whatever the order."""
    cluster = crowd_beside_a_scale_up(number, priority=priority)
    assert admitted_first(cluster, "up-p1", 400) <= 310


@pytest.mark.parametrize("number", [2, 5])
def test_it_goes_before_those_of_a_higher_priority_that_had_an_attempt(number: int) -> None:
    """2a: all that have had an attempt, whatever the priorities; each of them gets one before."""
    cluster = crowd_beside_a_scale_up(number, priority=1)
    assert admitted_first(cluster, "up-p1", 900) <= 310 + number * 35


def admitted_first(cluster: Played, uid: str, seconds: int) -> float:
    """When the instance is admitted first, in seconds from the start."""
    for time in range(0, seconds, 5):
        cluster.decided(bound=time % 60 == 0)
        if uid in cluster.admitted:
            return time
        cluster.after("5 s")
        if uid in cluster.admitted:
            return time + 5
    raise AssertionError(f"{uid} is not admitted in {seconds} s")


def test_it_keeps_its_room_until_its_own_attempt_has_ended() -> None:
    """2a: until its own attempt ends. Then it waits for five minutes once more."""
    cluster = crowd_beside_a_scale_up(4)
    begins = admitted_first(cluster, "up-p1", 400)
    ends = None
    for seconds in range(5, 300, 5):
        cluster.after("5 s")
        if "up-p1" in cluster.revoked:
            ends = ends or seconds
        assert "up-p1" not in cluster.admitted, (begins, seconds)
    assert ends == 30


def minimum(name: str = "min", where: str = "p0 held", **changes: Any) -> Service:
    return on_nodes("1P", where, name=name, **{"age": 9, **changes})


TRIED = ServiceMemory(ended_at=NOW - 100)
ORDER = [
    ("7a: a minimum that had no attempt and has a higher priority", 1, ServiceMemory(), "min-p0"),
    ("7a: one of its priority that was there before it waited", 0, ServiceMemory(), "min-p0"),
    ("7a: that waits for expected room since then", 0, ServiceMemory(expects_since=NOW), "up-p1"),
    ("2a: one that had an attempt, whatever the priorities", 1, TRIED, "up-p1"),
    (
        "2a: one for which an eviction was made",
        0,
        ServiceMemory(ended_at=NOW - 100, has_evicted=True),
        "min-p0",
    ),
    ("2a: one that has waited as long", 0, WAITED, "min-p0"),
    (
        "2a: one that has waited as long, after an attempt of its own",
        0,
        ServiceMemory(waiting_since=NOW - 300, ended_at=NOW - 400),
        "up-p1",
    ),
    (
        "2a: one that has waited, until its attempt ends",
        0,
        ServiceMemory(goes_first=True),
        "min-p0",
    ),
]


@pytest.mark.parametrize(("clause", "priority", "before", "admitted"), ORDER)
def test_whom_it_passes(clause: str, priority: int, before: ServiceMemory, admitted: str) -> None:
    other = minimum(priority=priority)
    memory = Memory({str(other.key): before, str(UP.key): WAITED})
    made = decide(world(other, UP, nodes="a:8x2", memory=memory))
    assert doings(made) == {admitted: "Admit"}, clause


@pytest.mark.parametrize(("priority", "admitted"), [(0, "up-p1"), (-1, "up-p1"), (1, "min-p0")])
def test_it_passes_what_came_after_it_began_to_wait(priority: int, admitted: str) -> None:
    """7a: so services that somebody deletes and applies again do not hold it up for ever."""
    late = minimum(priority=priority, age=-800)
    made = decide(world(late, UP, nodes="a:8x2", memory=Memory({str(UP.key): WAITED})))
    assert doings(made) == {admitted: "Admit"}


def test_of_one_namespace_not_one_after_the_other_goes_before_it() -> None:
    """2a: of those that waited as long, those in whose namespace the fewest attempts have ended."""
    tried = minimum("tried", key=ServiceKey("crowd", "rule", "tried"))
    other = minimum(key=ServiceKey("crowd", "rule", "min"))
    services = {
        str(tried.key): ServiceMemory(ended_at=NOW - 30, backoff_until=NOW + 30, failures=2),
        str(other.key): WAITED,
        str(UP.key): WAITED,
    }
    made = decide(world(tried, other, UP, nodes="a:8x2", memory=Memory(services)))
    assert doings(made) == {"up-p1": "Admit"}


def test_after_an_attempt_of_both_the_one_that_ended_first_goes_first() -> None:
    failed = InstanceMemory(failures=1, backoff_until=NOW - 320)  # it ended 350 s ago
    waited = ServiceMemory({"up-p1": failed}, waiting_since=NOW - 300)
    for ended, admitted in ((360, "min-p0"), (340, "up-p1")):
        again = ServiceMemory(waiting_since=NOW - 300, ended_at=NOW - ended)
        memory = Memory({str(minimum().key): again, str(UP.key): waited})
        made = decide(world(minimum(), UP, nodes="a:8x2", memory=memory))
        assert doings(made) == {admitted: "Admit"}, ended


def test_a_minimum_for_which_there_is_room_beside_it_is_admitted_too() -> None:
    memory = Memory({str(minimum().key): TRIED, str(UP.key): WAITED})
    made = decide(world(minimum(), UP, nodes="a:8x3", memory=memory))
    assert doings(made) == {"min-p0": "Admit", "up-p1": "Admit"}


def test_a_minimum_that_could_take_its_node_waits_as_well() -> None:
    """7b: wherever the scheduler puts it, no reservation is invalidated: so none is made that it
    could invalidate."""
    other = on_nodes("1P", "p0@b held", name="min", age=9)
    memory = Memory({str(other.key): TRIED, str(UP.key): WAITED})
    made = decide(world(other, UP, nodes="a:8x2 b:8", memory=memory))
    assert doings(made) == {"up-p1": "Admit"}


def test_a_minimum_takes_no_blame_for_what_others_reserve() -> None:
    """It leaves room for the scale-up only where there was some before it reserved."""
    firm = on_nodes("2P", "p0@a on a2, p1@a held", name="firm")
    other = on_nodes("1P", "p0@ab held", name="min", age=9)
    up = on_nodes("2P > 1P", "p0@a on a1, p1@a held", name="up", key=UP.key)
    memory = Memory({str(other.key): TRIED, str(UP.key): WAITED})
    made = decide(world(firm, other, up, nodes="a:8x3 b:8", memory=memory))
    assert doings(made) == {"firm-p1": "Admit"}
    assert reasons(made)["min-p0"] == "WaitingForRoom", "it is reserved"


def test_what_is_revoked_a_moment_later_goes_on_waiting() -> None:
    """2a: waiting counts while nothing of it is released. An edit ends the backoff of a minimum, so
    a scale-up that is admitted in between may be revoked before it is bound, each time."""
    with_scheduler = on_nodes("2P > 1P", "p0 on a1, p1 unbound", name="up", key=UP.key)
    stuck = minimum(where="p0 unbound")
    story = Story("a:8x2")
    story.at(0, stuck, UP)
    assert story.at(20, stuck, UP, bound=True) == {}
    assert story.at(30, stuck, UP) == {"min-p0": "Revoke"}
    assert story.at(31, minimum(), UP) == {"up-p1": "Admit"}
    assert story.remembered(UP).waited == 31
    assert story.at(60, minimum(), with_scheduler) == {"up-p1": "Revoke"}
    assert story.at(61, minimum(), UP) == {"min-p0": "Admit"}
    assert story.remembered(UP).waiting_since == NOW + 61 - 31


def test_a_scale_up_that_is_bound_begins_to_wait_anew() -> None:
    more = on_nodes("3P > 1P", "p0 on a1, p1 held, p2 held", name="up", key=UP.key)
    bound = on_nodes("3P > 1P", "p0 on a1, p1 on a2, p2 held", name="up", key=UP.key)
    stuck = minimum()
    memory = Memory({str(stuck.key): TRIED, str(UP.key): WAITED})
    first = decide(world(stuck, more, nodes="a:8x3, a2 used 8", memory=memory))
    assert doings(first) == {"up-p1": "Admit"}
    second = decide(world(stuck, bound, nodes="a:8x3", memory=first.memory, now=NOW + 1))
    assert doings(second) == {"min-p0": "Admit"}
