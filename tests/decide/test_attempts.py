"""3b.5 of the contract, in the memory alone: an attempt, what happened, the attempt after that."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.attempts import after, evicts_from, remember_evictions
from scaler.decide.events import (
    AllMade,
    AwaitsOwner,
    BeganAgain,
    BoundAnywhere,
    BoundPods,
    Ended,
    Event,
    ExpectedInVain,
    ExpectsRoom,
    Fits,
    FitsNowhere,
    GoesFirst,
    GoesFirstNoLonger,
    HadAttempts,
    InstanceBeganAgain,
    InstanceEnded,
    InstancesReleased,
    InstancesStopped,
    JobsRead,
    LacksJobs,
    MinimumBound,
    NodeReturned,
    NotPlaced,
    PartEnded,
    ProbeBegan,
    ProbeEnded,
    Released,
    Revoked,
    RoomTaken,
    Serves,
    ServesNoMore,
    Stopped,
    SurplusTraded,
    Swapped,
    VictimsChosen,
    WaitIsPaused,
    Waits,
    WaitsNoLonger,
)
from scaler.decide.memory import (
    Evictions,
    HadAttempt,
    InstanceMemory,
    Memory,
    ServiceMemory,
)
from scaler.decide.world import Policy

POLICY = Policy(minimum_timeout=30.0, backoff=30.0, backoff_max=300.0, stable_after=30.0)
P0 = "p0"
D0 = "d0"
NOBODY_BOUND = InstanceMemory()
ONE_BOUND = InstanceMemory(most_bound=1)
PAUSED = {"failures": 1, "backoff_until": 80.0}
TRIED = InstanceMemory(had_attempt=HadAttempt.SINCE_LAST_BIND)


def remembered(*instances: InstanceMemory, **minimum: object) -> ServiceMemory:
    """The memory of a service with instances p0 and d0."""
    given = [*instances, NOBODY_BOUND, NOBODY_BOUND]
    return msgspec.structs.replace(ServiceMemory({P0: given[0], D0: given[1]}), **minimum)


def test_the_example_at_the_top_of_the_file() -> None:
    ended = Ended(150.0, tried=(D0,), in_part=(), others=(D0,))
    released = after(remembered(), [Released(100.0)], POLICY)
    bound = after(released, [BoundPods(((P0, 1),), unbound=(D0,)), Released(120.0)], POLICY)
    failed = after(bound, [ended], POLICY)
    again = after(failed, [Released(180.0), Ended(210.0, (D0,), (), (D0,))], POLICY)
    serves = after(again, [Released(270.0), BoundPods(((D0, 1),), unbound=())], POLICY)

    assert released == remembered(began=100.0)
    assert bound == remembered(ONE_BOUND, began=120.0)
    assert failed == remembered(ONE_BOUND, TRIED, failures=1, backoff_until=180.0, ended_at=150.0)
    assert (again.failures, again.backoff_until) == (2, 270.0)
    assert (serves.began, serves.failures, serves.backoff_until) == (0.0, 0, 0.0)


OF_A_MINIMUM = [
    ("5a: the clock begins once", {"began": 10.0}, Released(20.0), {"began": 10.0}),
    ("5a: it stops", {"began": 10.0, "made": False}, Stopped(), {}),
    (
        "5a: it waits for expected room since the first of these",
        {"began": 10.0, "made": False, "expects_since": 5.0, "expects_until": 305.0},
        ExpectsRoom(20.0, 400.0),
        {"made": False, "expects_since": 5.0, "expects_until": 400.0, "spent": 10.0},
    ),
    (
        "5a: it goes on to wait",
        {"expects_since": 5.0, "expects_until": 305.0, "spent": 10.0},
        ExpectsRoom(20.0, 305.0),
        {"expects_since": 5.0, "expects_until": 305.0, "spent": 10.0},
    ),
    (
        "5a: its clock runs on after that",
        {"expects_since": 5.0, "expects_until": 305.0, "spent": 10.0},
        Released(20.0),
        {"began": 10.0, "expects_since": 5.0, "expects_until": 305.0},
    ),
    (
        "5a: for a short time its room is free",
        {"expects_since": 5.0, "expects_until": 305.0},
        Released(20.0),
        {"began": 20.0, "expects_since": 5.0, "expects_until": 305.0},
    ),
    ("5a: it reserves nothing", {"expects_since": 5.0, "expects_until": 305.0}, Stopped(), {}),
    (
        "5a: an attempt is over",
        {"began": 10.0, "expects_since": 5.0, "expects_until": 305.0},
        BeganAgain(40.0),
        {"began": 40.0},
    ),
    (
        "5a: its room did not become free in time; 5h: no bind takes that back",
        {"expects_since": 5.0, "expects_until": 305.0, "failures": 1, "goes_first": True},
        ExpectedInVain(305.0, ()),
        {
            "failures": 2,
            "failures_before_bind": 2,
            "backoff_until": 365.0,
            "ended_at": 305.0,
            "expected_in_vain": True,
        },
    ),
    (
        "5e: nobody waits",
        {"began": 10.0, "failures": 1},
        BeganAgain(40.0),
        {"began": 40.0, "failures": 1},
    ),
    (
        "5i: an owner has pods to make",
        {"began": 10.0},
        AwaitsOwner(),
        {"began": 10.0, "made": False},
    ),
    (
        "5i: it has made them",
        {"began": 10.0, "made": False},
        AllMade(20.0),
        {"began": 20.0, "made": True},
    ),
    ("5i: it made them before the clock began", {"made": False}, AllMade(20.0), {"made": True}),
    (
        "5f: a node returned",
        {"failures": 1, "backoff_until": 80.0},
        NodeReturned(60.0, (P0,)),
        {"failures": 1},
    ),
    (
        "5f: before the backoff began",
        {"failures": 1, "backoff_until": 80.0},
        NodeReturned(50.0, (P0,)),
        {"failures": 1, "backoff_until": 80.0},
    ),
    (
        "5f: jobs changed",
        {"written": {P0: "a", D0: "a"}, **PAUSED, "was_reset": True},
        JobsRead({P0: "a", D0: "b"}, ()),
        {"written": {P0: "a", D0: "b"}, "failures": 1},
    ),
    (
        "5f: jobs are read for the first time",
        PAUSED,
        JobsRead({P0: "a"}, ()),
        {"written": {P0: "a"}, **PAUSED},
    ),
    (
        "5f: people wrote another job",
        {"written": {P0: "a"}, **PAUSED},
        JobsRead({P0: "a", D0: "a"}, ()),
        {"written": {P0: "a", D0: "a"}, "failures": 1},
    ),
    (
        "5c: the only pod of an owner is gone",
        {"written": {"decode": "a", P0: "a"}, **PAUSED},
        JobsRead({P0: "a"}, ()),
        {"written": {"decode": "a", P0: "a"}, **PAUSED},
    ),
    (
        "5c: its owner made it again",
        {"written": {"decode": "a", P0: "a"}, **PAUSED},
        JobsRead({P0: "a", "decode": "a"}, ()),
        {"written": {"decode": "a", P0: "a"}, **PAUSED},
    ),
    ("2a: it waits", {}, Waits(10.0), {"waiting_since": 10.0}),
    (
        "2a: it waits since it began to",
        {"waiting_since": 10.0},
        Waits(20.0),
        {"waiting_since": 10.0},
    ),
    ("2a: it waits no longer", {"waiting_since": 10.0}, WaitsNoLonger(), {}),
    ("2a: it is released", {"waiting_since": 10.0}, WaitIsPaused(30.0), {"waited": 20.0}),
    ("2a: and revoked again", {"waited": 20.0}, Waits(35.0), {"waiting_since": 15.0}),
    ("2a: its attempt has ended", {"waited": 20.0}, WaitsNoLonger(), {}),
    ("2a: it has waited, and has a reservation", {}, GoesFirst(), {"goes_first": True}),
    ("2a: it lost that", {"goes_first": True}, GoesFirstNoLonger(), {}),
    (
        "2a: it goes first until its own attempt ends",
        {"goes_first": True, "began": 10.0},
        Ended(40.0, (), (), ()),
        {"failures": 1, "backoff_until": 70.0, "ended_at": 40.0},
    ),
    (
        "2a: an eviction is made for it",
        {},
        VictimsChosen(("x",), 10.0),
        {"victims": ("x",), "has_evicted": True, "evictions": Evictions(1, 10.0)},
    ),
    (
        "2a: its attempt ended",
        {"has_evicted": True, "began": 10.0},
        Ended(40.0, (), (), ()),
        {"failures": 1, "backoff_until": 70.0, "ended_at": 40.0},
    ),
    (
        "5c, 7a: it serves, and a scale-up of it waits",
        {"waiting_since": 10.0, "goes_first": True, "has_evicted": True},
        Serves(400.0, (), trades=False),
        {"waiting_since": 10.0, "goes_first": True},
    ),
    (
        "5h: the clock ran out without a bind",
        {"began": 10.0},
        BoundAnywhere(60.0, 10.0, (P0, D0)),
        {"began": 60.0, "was_reset": True},
    ),
    (
        "5h: it has not run out",
        {"began": 40.0},
        BoundAnywhere(60.0, 10.0, (P0, D0)),
        {"began": 40.0},
    ),
    (
        "5h: something was bound since it began",
        {"began": 10.0},
        BoundAnywhere(60.0, 20.0, (P0, D0)),
        {"began": 10.0},
    ),
    (
        "5h: once only",
        {"began": 10.0, "was_reset": True},
        BoundAnywhere(60.0, 10.0, (P0, D0)),
        {"began": 10.0, "was_reset": True},
    ),
    (
        "5h: backoff and its count are taken back",
        {"failures": 3, "failures_before_bind": 1, "backoff_until": 99.0},
        BoundAnywhere(60.0, 10.0, (P0, D0)),
        {"failures": 1, "failures_before_bind": 1, "was_reset": True},
    ),
    (
        "5h: after that they count",
        {"failures": 3, "failures_before_bind": 1, "backoff_until": 99.0, "was_reset": True},
        BoundAnywhere(60.0, 10.0, (P0, D0)),
        {"failures": 3, "failures_before_bind": 3, "backoff_until": 99.0, "was_reset": True},
    ),
    (
        "5c: it serves",
        {"began": 10.0, "failures": 2, "backoff_until": 99.0, "trade_since": 5.0},
        Serves(400.0, (P0,), trades=False),
        {},
    ),
    (
        "3.6: it serves and trades",
        {"trade_since": 5.0},
        Serves(400.0, (P0,), trades=True),
        {"trade_since": 5.0},
    ),
    (
        "4e: an eviction is counted",
        {"evictions": Evictions(1, 100.0), "trade_since": 5.0},
        VictimsChosen(("x", "y"), 900.0),
        {"evictions": Evictions(2, 900.0), "victims": ("x", "y"), "has_evicted": True},
    ),
    (
        "4e: what was ordered and has not gone counts once",
        {"evictions": Evictions(1, 100.0), "victims": ("x", "y")},
        VictimsChosen(("y",), 101.0),
        {"evictions": Evictions(1, 100.0), "victims": ("y",), "has_evicted": True},
    ),
    (
        "1b: jobs of the minimum were deleted, and the first look counts",
        {"served": True, "lacks_jobs_since": 5.0},
        LacksJobs(9.0),
        {"served": True, "lacks_jobs_since": 5.0},
    ),
    (
        "1b: they are there again",
        {"served": True, "lacks_jobs_since": 5.0},
        Fits(),
        {"served": True},
    ),
    (
        "1b: they are there again, and fit nowhere",
        {"served": True, "lacks_jobs_since": 5.0},
        FitsNowhere(9.0),
        {"served": True, "fits_nowhere_since": 9.0},
    ),
    (
        "4e: others took the room of the last eviction: once more at once",
        {"evictions": Evictions(1, 100.0), "has_evicted": True},
        RoomTaken(was_late=False),
        {"evictions": Evictions(1, 100.0), "room_taken": True},
    ),
    (
        "4e: not where the scheduler had the time to bind it",
        {"evictions": Evictions(1, 100.0), "has_evicted": True},
        RoomTaken(was_late=True),
        {"evictions": Evictions(1, 100.0)},
    ),
    (
        "4e: not more often than six times since it served",
        {"evictions": Evictions(1, 100.0, 6), "has_evicted": True},
        RoomTaken(was_late=False),
        {"evictions": Evictions(1, 100.0, 6)},
    ),
    (
        "4e: what is made once more makes no pause longer",
        {"evictions": Evictions(2, 100.0, 1), "room_taken": True},
        VictimsChosen(("x",), 101.0),
        {"evictions": Evictions(2, 101.0, 2), "victims": ("x",), "has_evicted": True},
    ),
    (
        "4e: what is ordered again is not made once more",
        {"evictions": Evictions(2, 100.0), "room_taken": True, "victims": ("x",)},
        VictimsChosen(("x",), 101.0),
        {
            "evictions": Evictions(2, 100.0),
            "room_taken": True,
            "victims": ("x",),
            "has_evicted": True,
        },
    ),
    (
        "3.6: own surplus that a scale-up replaces is no eviction for a minimum",
        {},
        SurplusTraded(("x",)),
        {"victims": ("x",)},
    ),
    (
        "4e: an instance had its attempt, and the first one counts",
        {"tried_at": 100.0},
        HadAttempts(200.0),
        {"tried_at": 100.0},
    ),
    (
        "4e: it begins to serve",
        {"evictions": Evictions(2, 100.0), "tried_at": 90.0},
        Serves(400.0, (P0,), trades=False),
        {"evictions": Evictions(2, 100.0), "serves_since": 400.0},
    ),
    (
        "4e: it serves, not for stable_after yet",
        {"evictions": Evictions(2, 100.0), "serves_since": 371.0},
        Serves(400.0, (P0,), trades=False),
        {"evictions": Evictions(2, 100.0), "serves_since": 371.0},
    ),
    (
        "4e: it has served for stable_after",
        {"evictions": Evictions(2, 100.0), "serves_since": 370.0},
        Serves(400.0, (P0,), trades=False),
        {},
    ),
    (
        "4e: it served for a moment",
        {"evictions": Evictions(2, 100.0), "serves_since": 371.0},
        ServesNoMore(),
        {"evictions": Evictions(2, 100.0)},
    ),
    (
        "4e: edits do not reset evictions",
        {
            "written": {"": "a"},
            "evictions": Evictions(2, 100.0),
            "tried_at": 90.0,
            "backoff_until": 99.0,
        },
        JobsRead({"": "b"}, bound=()),
        {"written": {"": "b"}, "evictions": Evictions(2, 100.0)},
    ),
    (
        "its minimum is bound",
        {"began": 10.0, "failures": 1, "victims": ("x",)},
        MinimumBound(),
        {"failures": 1},
    ),
    (
        "9a: it fits nowhere",
        {"fits_nowhere_since": 5.0},
        FitsNowhere(10.0),
        {"fits_nowhere_since": 5.0},
    ),
    (
        "9a: a probe begins",
        {"fits_nowhere_since": 5.0},
        ProbeBegan(65.0),
        {"fits_nowhere_since": 5.0, "probe_began": 65.0},
    ),
    (
        "9a: a probe ends",
        {"fits_nowhere_since": 5.0, "probe_began": 65.0},
        ProbeEnded(95.0),
        {"fits_nowhere_since": 95.0, "probes": 1},
    ),
    (
        "1f: no room is looked for",
        {"fits_nowhere_since": 5.0, "probe_began": 65.0},
        NotPlaced(),
        {},
    ),
]


@pytest.mark.parametrize(("clause", "before", "event", "expected"), OF_A_MINIMUM)
def test_the_attempt_of_a_minimum(
    clause: str, before: dict[str, object], event: Event, expected: dict[str, object]
) -> None:
    assert after(remembered(**before), [event], POLICY) == remembered(**expected), clause


FOR_GOOD = HadAttempt.FOR_GOOD
OF_AN_INSTANCE = [
    (
        "7c: a scale-up is released",
        InstanceMemory(),
        InstancesReleased((P0,), 10.0),
        InstanceMemory(began=10.0),
    ),
    ("7c: it is bound", InstanceMemory(began=10.0), InstancesStopped((P0,)), InstanceMemory()),
    (
        "7c: nobody waits",
        InstanceMemory(began=10.0),
        InstanceBeganAgain(P0, 40.0),
        InstanceMemory(began=40.0),
    ),
    (
        "7c: its attempt ends",
        InstanceMemory(began=10.0),
        InstanceEnded(P0, 40.0),
        InstanceMemory(failures=1, backoff_until=70.0),
    ),
    (
        "5e: bound in part it is of no use",
        InstanceMemory(began=10.0),
        PartEnded(P0),
        InstanceMemory(gives_way=True),
    ),
    (
        "its admission is revoked",
        InstanceMemory(began=10.0),
        Revoked(P0, "why"),
        InstanceMemory(revoked="why"),
    ),
    (
        "5b: progress of a partner",
        InstanceMemory(gives_way=True),
        BoundPods(((D0, 1),), (P0,)),
        InstanceMemory(),
    ),
    (
        "5d: another is tried",
        InstanceMemory(),
        Swapped(40.0, (P0,)),
        InstanceMemory(gives_way=True, had_attempt=HadAttempt.SINCE_LAST_BIND),
    ),
    (
        "5d: it is tried again beside another",
        InstanceMemory(),
        Swapped(40.0, (P0, D0), (P0,)),
        InstanceMemory(had_attempt=HadAttempt.SINCE_LAST_BIND),
    ),
    (
        "5c: it had its attempt for good",
        InstanceMemory(had_attempt=FOR_GOOD),
        Ended(40.0, (P0,), (), (P0,)),
        InstanceMemory(had_attempt=FOR_GOOD),
    ),
    (
        "5e: bound in part when the attempt ends",
        InstanceMemory(),
        Ended(40.0, (P0,), (P0,), ()),
        InstanceMemory(gives_way=True, had_attempt=HadAttempt.SINCE_LAST_BIND),
    ),
    (
        "5h: that it had its attempt is not taken back",
        TRIED,
        BoundAnywhere(60.0, 10.0, (P0, D0)),
        InstanceMemory(had_attempt=FOR_GOOD),
    ),
    ("5c: the service serves", TRIED, Serves(400.0, (P0,), trades=False), InstanceMemory()),
    (
        "5c: jobs changed",
        InstanceMemory(had_attempt=FOR_GOOD, gives_way=True),
        JobsRead({P0: "b"}, bound=()),
        InstanceMemory(),
    ),
    (
        "5c: what is bound stays of no use",
        InstanceMemory(gives_way=True),
        JobsRead({P0: "b"}, bound=(P0,)),
        InstanceMemory(gives_way=True),
    ),
]


@pytest.mark.parametrize(("clause", "before", "event", "expected"), OF_AN_INSTANCE)
def test_the_attempt_of_an_instance(
    clause: str, before: InstanceMemory, event: Event, expected: InstanceMemory
) -> None:
    memory = after(remembered(before, written={P0: "a"}), [event], POLICY)
    assert memory.instances[P0] == expected, clause


def test_the_most_bound_pods_count_from_when_the_service_last_served() -> None:
    """5b: an instance with more bound pods than it ever had since its service last served."""
    bound = after(remembered(), [BoundPods(((P0, 1),), (D0,)), BoundPods(((P0, 2),), ())], POLICY)
    assert bound == remembered(InstanceMemory(most_bound=2))
    assert after(bound, [Serves(400.0, (), trades=False)], POLICY) == remembered()


def test_of_many_jobs_that_are_gone_the_last_are_known() -> None:
    """5c: memory is bounded."""
    memory = remembered(written={"": "rule"})
    for number in range(200):
        memory = after(memory, [JobsRead({"": "rule", f"job-{number}": "a"}, ())], POLICY)
    assert len(memory.written) <= 70
    assert {"", "job-199", "job-198"} <= memory.written.keys()


def test_each_backoff_is_twice_as_long_up_to_the_longest() -> None:
    memory = remembered()
    pauses = []
    for _ in range(6):
        memory = after(memory, [Ended(1000.0, (), (), ())], POLICY)
        pauses.append(memory.backoff_until - 1000.0)
    assert pauses == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]


def test_every_event_has_a_place_in_the_reducer() -> None:
    class Unknown(Event, frozen=True):
        pass

    with pytest.raises(AssertionError, match="no such event"):
        after(remembered(), [Unknown()], POLICY)


@pytest.mark.parametrize(
    ("number", "minutes"), [(0, 10), (1, 10), (2, 20), (3, 40), (10, 5120), (10**9, 10 * 2**64)]
)
def test_each_pause_between_evictions_is_twice_as_long_without_bound(
    number: int, minutes: float
) -> None:
    """3b.4e: eviction_pause after the attempt or eviction, doubling without bound."""
    memory = ServiceMemory(evictions=Evictions(number, 500.0), tried_at=500.0)
    assert evicts_from(memory, Policy()) == 500.0 + minutes * 60


def test_evictions_that_an_earlier_leader_counted_count_on() -> None:
    """Section 2: only how many evictions were made for a service is kept outside."""
    kept = Evictions(2, 500.0)
    memory = remember_evictions(Memory(), "ns/rule/a", kept)
    assert memory == Memory({"ns/rule/a": ServiceMemory(evictions=kept)})
    assert remember_evictions(memory, "ns/rule/a", Evictions(1, 100.0)) is memory, "it knows better"
    assert remember_evictions(memory, "ns/rule/b", Evictions()) is memory
