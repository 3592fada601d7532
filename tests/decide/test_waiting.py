"""Whoever has waited for `backoff_max` (5 min) goes next, once, whatever the order: 3b.2a, 3b.5d,
3b.5e and 3b.5g of the contract, and L5. Nothing is bound in these clusters but what a test says."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.memory import HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Service, ServiceKey
from tests.builders import NOW, Story, doings, on_nodes, world
from tests.decide.played import Played


def first(admissions: list[tuple[float, str]], uid: str) -> float:
    """When the instance was admitted first."""
    return next(time for time, admitted in admissions if admitted == uid)


def test_a_lower_minimum_goes_after_five_minutes_before_two_that_hand_the_room_to_each_other() -> (
    None
):
    """2a: who has waited `backoff_max` goes before all that have had an attempt, whatever the
    priorities. 5g: counted from when it began to wait, not from the start of an attempt."""
    cluster = (
        Played(nodes="a:8x1")
        .service("a", "1P", "p0", priority=1)
        .service("b", "1P", "p0", priority=1)
        .service("low", "1P", "p0")
    )
    assert cluster.decided().admitted == ["a-p0"]

    admissions = cluster.admissions(600)
    assert first(admissions, "b-p0") == 35
    assert 300 <= first(admissions, "low-p0") <= 310


@pytest.mark.parametrize("number", [3, 5, 12])
def test_it_goes_after_five_minutes_and_the_attempts_of_those_that_had_none(number: int) -> None:
    """2a, and what is not promised: each of several services of a higher priority that is never
    bound gets one attempt before."""
    cluster = Played(nodes="a:8x1")
    for stuck in range(number):
        cluster.service(f"s{stuck}", "1P", "p0", priority=1)
    cluster.service("low", "1P", "p0")
    admissions = cluster.decided().admissions(1200)
    assert first(admissions, "low-p0") <= 310 + max(0, number - 9) * 40


def test_when_its_own_attempt_ended_it_goes_behind_again() -> None:
    """2a: until its own attempt ends."""
    cluster = (
        Played(nodes="a:8x1")
        .service("a", "1P", "p0", priority=1)
        .service("b", "1P", "p0", priority=1)
        .service("low", "1P", "p0")
    )
    admissions = cluster.decided().admissions(900)
    begins = first(admissions, "low-p0")
    after = [uid for time, uid in admissions if begins < time < begins + 300]
    assert "low-p0" not in after
    assert {"a-p0", "b-p0"} <= set(after)


CROWD = 60
OLDEST = 100 * CROWD + 1000
CROWDS = [(1, OLDEST), (1, OLDEST // 2), (1, 0), (CROWD, OLDEST), (CROWD, 0)]


@pytest.mark.parametrize(("namespaces", "age"), CROWDS)
def test_a_crowd_that_nobody_binds_does_not_go_before_another_one_by_one(
    namespaces: int, age: float
) -> None:
    """2a: before all of its own priority of which nothing is bound (else a hundred services that
    nobody binds go first one by one)."""
    cluster = Played(nodes="a:8x1")
    for stuck in range(CROWD):
        key = ServiceKey(f"crowd-{stuck % namespaces}", "rule", f"s{stuck}")
        cluster.service(f"s{stuck}", "1P", "p0", key=key)
    cluster.service("other", "1P", "p0", age=age)
    admissions = [(0.0, uid) for uid in cluster.decided().admitted] + cluster.admissions(400)
    assert first(admissions, "other-p0") <= 380


WAITED = ServiceMemory(waiting_since=NOW - 300)
LOW = on_nodes("1P", "p0 held", name="low")


def remembered(high: Service, of_high: ServiceMemory) -> Memory:
    return Memory({str(high.key): of_high, str(LOW.key): WAITED})


GOLD = on_nodes("1P", "p0 held", name="gold", priority=1)
EQUAL = on_nodes("1P", "p0 held", name="equal", age=9)
PASSES = [
    ("2a: an attempt of it ended", GOLD, ServiceMemory(ended_at=NOW - 100), "low-p0"),
    ("2b: it had none, and its priority is higher", GOLD, ServiceMemory(), "gold-p0"),
    (
        "2a: an eviction was made for it",
        GOLD,
        ServiceMemory(ended_at=NOW - 100, has_evicted=True),
        "gold-p0",
    ),
    ("2a: nothing of it is bound, and its priority is the same", EQUAL, ServiceMemory(), "low-p0"),
    (
        "2a: it has waited as long, and is older",
        EQUAL,
        ServiceMemory(waiting_since=NOW - 300),
        "equal-p0",
    ),
    ("2a: it goes first until its attempt ends", EQUAL, ServiceMemory(goes_first=True), "equal-p0"),
    (
        "2a: not while it is in backoff",
        EQUAL,
        ServiceMemory(goes_first=True, backoff_until=NOW + 1, failures=1),
        "low-p0",
    ),
]


@pytest.mark.parametrize(("clause", "other", "before", "admitted"), PASSES)
def test_who_has_waited_for_five_minutes_passes_others(
    clause: str, other: Service, before: ServiceMemory, admitted: str
) -> None:
    made = decide(world(other, LOW, nodes="a:8", memory=remembered(other, before)))
    assert doings(made) == {admitted: "Admit"}, clause


def test_it_passes_none_of_its_priority_of_which_something_is_bound() -> None:
    """2a: before all of its own priority of which nothing is bound."""
    half = on_nodes("1P1D", "p0 on a1, d0 held", name="half", age=9)
    made = decide(world(half, LOW, nodes="a:8x2", memory=remembered(half, ServiceMemory())))
    assert doings(made) == {"half-d0": "Admit"}


AWAY = on_nodes("1P", "p0 held", name="low", priority=-1)
STUCK = on_nodes("1P", "p0 unbound", name="stuck", age=9)


def waiting_since(*services: Service, of: Service, nodes: str) -> float:
    """Seconds from the start at which the service began to wait, as a decision remembers it;
    -1 = it does not wait."""
    story = Story(nodes)
    story.at(0, *services)
    since = story.remembered(of).waiting_since
    return since - NOW if since else -1.0


WAITS = [
    ("2a: it could start, and would fit if nobody reserved", (STUCK, LOW), "a:8", 0.0),
    ("2a: it would not fit on what is free", (LOW,), "a:8, a0 used 8", -1.0),
    ("2a: it is released", (LOW,), "a:8", -1.0),
    (
        "2a: it is incomplete",
        (STUCK, on_nodes("2P", "p0 held", name="low")),
        "a:8x2",
        -1.0,
    ),
    (
        "2a: a scale-up waits",
        (STUCK, on_nodes("2P > 1P", "p0 on a1, p1 held", name="low")),
        "a:8x2",
        0.0,
    ),
    (
        "2a: a scale-up would not fit",
        (STUCK, on_nodes("2P > 1P", "p0 on a1, p1 held", name="low")),
        "a:8x2, a0 used 8",
        -1.0,
    ),
]


@pytest.mark.parametrize(("clause", "services", "nodes", "since"), WAITS)
def test_who_waits(clause: str, services: tuple[Service, ...], nodes: str, since: float) -> None:
    strangers = on_nodes("1P", "p0 on z0", name="z")
    assert waiting_since(*services, strangers, of=LOW, nodes=nodes) == since, clause


def test_it_waits_from_the_first_moment_on_whatever_becomes_of_others() -> None:
    """2a: counted from when it began to wait. A decision is due when the five minutes are over."""
    story = Story("a:8")
    story.at(0, STUCK, AWAY)
    story.at(100, STUCK, AWAY, bound=True)
    story.at(150, STUCK, AWAY)
    assert story.remembered(AWAY).waiting_since == NOW
    assert story.recheck_in == 300


def test_it_no_longer_waits_when_it_is_released() -> None:
    """2a: nothing of what it misses is released."""
    story = Story("a:8")
    story.at(0, STUCK, LOW)
    assert story.at(10, LOW) == {"low-p0": "Admit"}
    assert story.remembered(LOW).waiting_since == 0.0


SPARE = on_nodes("1P", "p0 held, p1 held", name="a", age=9)
TRIED = on_nodes("1P", "p0 unbound, p1 held", name="a", age=9)


@pytest.mark.parametrize(("waits_since", "swapped"), [(0, True), (NOW - 271, False)])
def test_other_candidates_are_swapped_in_while_nobody_has_waited_for_five_minutes(
    waits_since: float, swapped: bool
) -> None:
    """5d: while nobody has waited `backoff_max`. 5e: otherwise the attempt ends."""
    story = Story("a:8")
    story.at(0, SPARE, AWAY)
    service = story.remembered(AWAY)
    waited = msgspec.structs.replace(service, waiting_since=waits_since or service.waiting_since)
    services = {**story.memory.services, str(AWAY.key): waited}
    story.memory = msgspec.structs.replace(story.memory, services=services)
    story.at(1, TRIED, AWAY, bound=True)
    assert story.at(30, TRIED, AWAY) == {"a-p0": "Revoke"}
    assert story.remembered(SPARE).failures == (0 if swapped else 1)
    assert (story.at(31, SPARE, AWAY) == {"a-p1": "Admit"}) is swapped


def test_a_spare_that_had_its_attempt_and_does_not_fit_ends_no_attempt() -> None:
    """5e: a spare that fits or has not had its attempt."""
    tried = on_nodes("1P", "p0@a unbound, p1@b held", name="a")
    serves = on_nodes("1P", "p0 on b0", name="b")
    had = InstanceMemory(had_attempt=HadAttempt.FOR_GOOD)
    late = ServiceMemory({"a-p1": had}, began=NOW - 30)
    memory = Memory({str(tried.key): late}, last_bind=NOW - 20)
    made = decide(world(tried, serves, nodes="a:8 b:8", memory=memory, last_bind=NOW - 20))
    assert doings(made) == {}
    fits = decide(world(tried, serves, nodes="a:8 b:8x2", memory=memory, last_bind=NOW - 20))
    assert doings(fits) == {"a-p0": "Revoke"}


UP = on_nodes("2P > 1P", "p0 on a1, p1 held", name="low")
EQUAL_UP = on_nodes("2P > 1P", "p0 on a2, p1 held", name="equal", age=9)
GOLD_UP = on_nodes("2P > 1P", "p0 on a2, p1 held", name="gold", priority=1)
SINCE = NOW - 300
SCALE_UPS = [
    ("7a: the older", EQUAL_UP, 0, 0.0, "equal-p1"),
    ("7a: those whose attempt has ended go behind the others", EQUAL_UP, 1, 0.0, "low-p1"),
    ("7a: priority before that", GOLD_UP, 1, 0.0, "gold-p1"),
    ("2a: who has waited passes what had an attempt", GOLD_UP, 1, SINCE, "low-p1"),
    ("2a: not what had none, of a higher priority", GOLD_UP, 0, SINCE, "gold-p1"),
    ("2a: all of the same priority", EQUAL_UP, 0, SINCE, "low-p1"),
]


@pytest.mark.parametrize(("clause", "other", "failures", "since", "admitted"), SCALE_UPS)
def test_the_order_of_scale_ups(
    clause: str, other: Service, failures: int, since: float, admitted: str
) -> None:
    tried = {other.instances[1].uid: InstanceMemory(failures=failures)}
    services = {
        str(other.key): ServiceMemory(tried),
        str(UP.key): ServiceMemory(waiting_since=since),
    }
    made = decide(world(other, UP, nodes="a:8x3", memory=Memory(services)))
    assert doings(made) == {admitted: "Admit"}, clause


def test_a_scale_up_goes_after_five_minutes_beside_two_that_are_never_bound() -> None:
    """2a, 7a: scale-ups whose attempt has ended go behind the others."""
    cluster = Played(nodes="a:8x4")
    for number, name in enumerate(("a", "b", "good")):
        cluster.service(name, "2P > 1P", "p0", "p1").on(f"a{number}", runs=f"{name}-p0")
    assert cluster.decided().admitted == ["a-p1"]
    admissions = cluster.admissions(600)
    assert first(admissions, "b-p1") <= 340
    assert first(admissions, "good-p1") <= 340
