"""Evictions that did not help become rarer: 3b.4e of the contract, in situations and their events.
What the memory makes of each event stands in `test_attempts.py`."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.attempts import remember_evictions
from scaler.decide.decide import decide
from scaler.decide.decision import Evict
from scaler.decide.invariants import violations
from scaler.decide.memory import Evictions, HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Service
from tests.builders import NOW, Story, doings, on_nodes, world

MINUTE = 60.0
FULL = on_nodes("2P > 1P", "p0 on a0, p1 on a1", name="low")
GOING = on_nodes("2P > 1P", "p0 on a0, p1 ends", name="low")
GONE = on_nodes("2P > 1P", "p0 on a0, p1 held", name="low")
GOLD = "default/rule/gold"
NODES = "a:8x2"
MOST_DECISIONS = 20_000
"""In a story of days: a decision that looks again each second is wrong, too."""


def gold(where: str = "p0 held", *, others: bool = False) -> Service:
    return on_nodes("1P", where, name="gold", priority=1, others=others)


class NeverBound:
    """Two nodes, a service with a scale-up, and gold, which the scheduler never binds. All else is
    bound, runs and ends at once."""

    def __init__(self) -> None:
        self.story = Story(NODES)
        self.low = "on a1"
        self.gold = "held"
        self.time = 0.0
        self.evictions: list[float] = []
        """When low lost its scale-up, in minutes."""

    def play(self, hours: float) -> None:
        for _ in range(MOST_DECISIONS):
            if self.time >= hours * 3600:
                return
            self._decide()
        raise AssertionError(f"{MOST_DECISIONS} decisions in {self.time / 3600:.1f} hours")

    def _decide(self) -> None:
        is_bound = self.low == "unbound"
        self.low = "on a1" if is_bound else self.low
        low = on_nodes("2P > 1P", f"p0 on a0, p1 {self.low}", name="low")
        done = self.story.at(self.time, low, gold(f"p0 {self.gold}"), bound=is_bound)
        match done.get("low-p1"):
            case "Evict":
                self.low = "held"
                self.evictions.append(self.time / MINUTE)
            case "Admit":
                self.low = "unbound"
            case "Revoke":
                self.low = "held"
        match done.get("gold-p0"):
            case "Admit":
                self.gold = "unbound"
            case "Revoke":
                self.gold = "held"
        if not done:
            self.time = max(self.time + 1, self.story.recheck_in)


def test_evictions_for_what_is_never_bound_become_ever_rarer() -> None:
    """4e: after eviction_pause once more, then after twice as long, without bound. L4: nothing else
    is evicted in four days."""
    played = NeverBound()
    played.play(hours=96)
    pauses = [
        later - earlier
        for earlier, later in zip(played.evictions, played.evictions[1:], strict=False)
    ]
    assert len(pauses) == 9
    for number, pause in enumerate(pauses):
        assert pause == pytest.approx(10 * 2**number, abs=6), (
            "a pause ends in the middle of a backoff of five minutes at most"
        )


def test_a_service_whose_owner_was_away_gets_its_place_after_the_pause() -> None:
    """4e: so a service whose operator was away is not shut out for good."""
    story = Story(NODES)
    assert story.at(0, FULL, gold(others=True)) == {"low-p1": "Evict"}
    assert story.at(1, GONE, gold(others=True)) == {"gold-p0": "Admit"}
    story.at(31, GONE, gold("p0 unbound", others=True))
    assert story.at(40, FULL, gold(others=True)) == {}
    assert story.at(9 * MINUTE, FULL, gold(others=True)) == {}
    assert story.at(10 * MINUTE, FULL, gold(others=True)) == {"low-p1": "Evict"}
    assert story.at(10 * MINUTE + 1, GONE, gold(others=True)) == {"gold-p0": "Admit"}


def test_somebody_is_told_until_when_and_why_and_the_moment_is_named() -> None:
    memory = Memory({GOLD: ServiceMemory(evictions=Evictions(3, NOW - 60))})
    made = decide(world(FULL, gold(), nodes=NODES, memory=memory))
    plan = next(plan for plan in made.plans if plan.key.job_id == "gold")
    assert plan.verdicts[0].about[1] == (
        "nobody is evicted for it before 1970-01-12 14:25:40 UTC: others were evicted for it 3"
        " times since it served"
    )
    assert made.recheck_at <= NOW - 60 + 40 * MINUTE


@pytest.mark.parametrize(
    ("served", "evicts"),
    [(0, False), (29, False), (30, True)],
)
def test_it_is_forgotten_when_the_service_has_served_for_stable_after(
    served: float, evicts: bool
) -> None:
    """4e: nor again for a service for which an eviction was made, until it has served for
    stable_after."""
    story = Story(NODES)
    assert story.at(0, FULL, gold()) == {"low-p1": "Evict"}
    story.at(1, GONE, gold("p0 on a1"))
    story.at(1 + served, GONE, gold("p0 on a1"))
    assert story.at(60, FULL, gold()) == ({"low-p1": "Evict"} if evicts else {})


def test_it_has_to_serve_all_that_time() -> None:
    story = Story(NODES)
    assert story.at(0, FULL, gold()) == {"low-p1": "Evict"}
    lost = on_nodes("2P > 1P", "p0 on a0, p1 unbound", name="low")
    for time, low, where in (
        (1, GONE, "p0 on a1"),
        (21, GONE, "p0 on a1"),
        (25, lost, "p0 held"),
        (26, GONE, "p0 on a1"),
        (46, GONE, "p0 on a1"),
    ):
        story.at(time, low, gold(where))
    assert story.at(60, FULL, gold()) == {}


def test_who_serves_names_the_moment_from_which_nothing_is_remembered() -> None:
    story = Story(NODES)
    story.at(0, FULL, gold())
    story.at(1, GONE, gold("p0 on a1"))
    assert story.recheck_in == 31
    story.at(31, GONE, gold("p0 on a1"))
    assert story.remembered(gold()).evictions == Evictions()


def test_edits_do_not_reset_it() -> None:
    """4e: edits do not reset it."""
    story = Story(NODES)
    assert story.at(0, FULL, gold()) == {"low-p1": "Evict"}
    story.at(2, GOING, gold(), nodes="a:8x2, a1 ending 8")
    story.at(3, GONE, gold("p0 unbound"))
    story.at(33, GONE, gold("p0 held"))
    edited = gold()
    edited = msgspec.structs.replace(
        edited, instances=(msgspec.structs.replace(edited.instances[0], generation=7),)
    )
    assert story.at(60, FULL, edited) == {}


def test_an_eviction_that_did_not_come_to_pass_is_ordered_again_and_counts_once() -> None:
    """4e: once more, all that its missing minimum needs: a deletion that the API server refused
    belongs to it."""
    three = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 on a2", name="low")
    half = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 ends", name="low")
    left = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 held", name="low")
    two = on_nodes("2P", "p0 held, p1 held", name="gold", priority=1)
    both = {"low-p1": "Evict", "low-p2": "Evict"}
    story = Story("a:8x3")
    assert story.at(0, three, two) == both
    assert story.at(1, three, two) == both
    assert story.remembered(two).evictions == Evictions(1, NOW)
    assert story.at(2, half, two, nodes="a:8x3, a2 ending 8") == {}, "its room is expected"
    assert story.at(9, left, two) == {"low-p1": "Evict"}
    assert story.remembered(two).evictions == Evictions(1, NOW)


def test_own_running_surplus_whose_deletion_failed_is_ordered_again_too() -> None:
    lost = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 held", name="a")
    stranger = on_nodes("1P", "p0 on a2", name="b")
    story = Story("a:8x3")
    times = (0, 90, 91, 181)
    assert [story.at(time, lost, stranger) for time in times] == [
        {},
        {"a-p1": "Evict"},
        {},
        {"a-p1": "Evict"},
    ], "trade_after begins anew"
    assert story.remembered(lost).evictions == Evictions(1, NOW + 90)


def test_what_came_back_after_its_eviction_is_not_the_same_eviction() -> None:
    """4e: it is another one, which is made at once because the first one's room was taken."""
    story = Story(NODES)
    assert story.at(0, FULL, gold()) == {"low-p1": "Evict"}
    story.at(1, GOING, gold(), nodes="a:8x2, a1 ending 8")
    assert story.at(2, GONE, STRANGER, gold()) == {}
    assert story.at(3, FULL, gold()) == {"low-p1": "Evict"}
    assert story.remembered(gold()).evictions == Evictions(1, NOW + 3, 1)


MINIMUM_OF_TWO = on_nodes("2P", "p0 held, p1 held", name="gold", priority=1)
STRANGER = on_nodes("1P", "p0 on a1", name="other")
TRAINING = on_nodes("1P", "p0 on a3", name="training")


def four(words: str) -> Service:
    return on_nodes("4P > 1P", f"p0 on a0, p1 on a1, {words}", name="low")


def test_an_eviction_whose_room_others_took_is_made_once_more_at_once() -> None:
    """4e: victims end one after the other; a training job that waits takes the first node before
    the minimum could be released. No pause of 10, 20, 40 minutes follows."""
    story = Story("a:8x4")
    both = {"low-p2": "Evict", "low-p3": "Evict"}
    assert story.at(0, four("p2 on a2, p3 on a3"), MINIMUM_OF_TWO) == both
    assert story.remembered(MINIMUM_OF_TWO).evictions == Evictions(1, NOW)
    ends = "a:8x4, a2 ending 8"
    half = (four("p2 ends, p3 held"), TRAINING, MINIMUM_OF_TWO)
    assert story.at(2, *half, nodes=ends) == {}, "4d: what still ends may be of use"
    done = story.at(3, four("p2 held, p3 held"), TRAINING, MINIMUM_OF_TWO)
    assert done == {"low-p1": "Evict"}, "a2 is free: one more suffices"
    assert story.remembered(MINIMUM_OF_TWO).evictions == Evictions(1, NOW + 3, 1)


class RoomIsAlwaysTaken:
    """Gold evicts. What was evicted is gone, and a stranger has the node, until low has it."""

    def __init__(self) -> None:
        self.story = Story(NODES)
        self.evictions: list[float] = []

    def play(self, minutes: float) -> None:
        time = 0.0
        while time < minutes * MINUTE:
            if self.story.at(time, FULL, gold()):
                self.evictions.append(time / MINUTE)
                self.story.at(time + 1, GOING, gold(), nodes="a:8x2, a1 ending 8")
                self.story.at(time + 2, GONE, STRANGER, gold())
            time += 30


def test_where_somebody_always_takes_the_room_evictions_become_ever_rarer() -> None:
    """4e: six times it is made once more at once, and then after 10, 20, 40 minutes."""
    played = RoomIsAlwaysTaken()
    played.play(minutes=200)
    assert played.evictions == [0, 0.5, 1, 1.5, 2, 2.5, 3, 13, 33, 73, 153]


def test_an_eviction_whose_attempt_ended_counts() -> None:
    """4e: it was released, nothing bound it, and its attempt ended: nobody took its room."""
    story = Story(NODES)
    assert story.at(0, FULL, gold()) == {"low-p1": "Evict"}
    assert story.at(1, GONE, gold()) == {"gold-p0": "Admit"}
    assert story.at(5, GONE, gold("p0 unbound"), bound=True) == {}
    assert story.at(31, GONE, gold("p0 unbound"))["gold-p0"] == "Revoke"
    assert story.at(40, GONE, STRANGER, gold()) == {}
    assert not story.remembered(gold()).room_taken
    assert story.at(90, FULL, gold()) == {}


def test_a_new_leader_does_not_make_it_once_more() -> None:
    """Section 2: whether others took the room is not kept: that costs a pause, never an eviction
    more."""
    story = Story(NODES)
    assert story.at(0, FULL, gold()) == {"low-p1": "Evict"}
    story.at(1, GOING, gold(), nodes="a:8x2, a1 ending 8")
    story.at(2, GONE, STRANGER, gold())
    kept = story.remembered(gold()).evictions
    story.memory = remember_evictions(Memory(), GOLD, kept)
    assert story.at(20, FULL, gold()) == {}


def test_nobody_is_evicted_for_an_instance_that_was_tried_until_the_pause_is_over() -> None:
    """4e: eviction_pause after the attempt, where no eviction was made."""
    had = ServiceMemory({"gold-p0": InstanceMemory(had_attempt=HadAttempt.FOR_GOOD)})
    story = Story(NODES)
    story.memory = Memory({GOLD: had})
    assert [story.at(time, FULL, gold()) for time in (0, 599)] == [{}, {}]
    assert story.at(600, FULL, gold()) == {"low-p1": "Evict"}
    assert story.remembered(gold()).evictions == Evictions(1, NOW + 600)


def test_a_new_leader_does_not_evict_once_more() -> None:
    """Section 2: how many evictions were made, and when the last, is kept outside: else each
    failover allows one more for what is never bound."""
    story = Story(NODES)
    assert story.at(0, FULL, gold()) == {"low-p1": "Evict"}
    kept = story.remembered(gold()).evictions
    story.memory = remember_evictions(Memory(), GOLD, kept)
    assert story.at(20, FULL, gold()) == {}
    assert story.recheck_in <= 600
    assert story.at(600, FULL, gold()) == {"low-p1": "Evict"}


def test_the_pause_is_a_setting() -> None:
    memory = Memory({GOLD: ServiceMemory(evictions=Evictions(1, NOW - 5))})
    for pause, evicts in ((5, {"low-p1": "Evict"}), (6, {})):
        made = decide(world(FULL, gold(), nodes=NODES, memory=memory, eviction_pause=pause))
        assert doings(made) == evicts


def test_counted_evictions_of_one_service_are_in_the_way_of_no_other() -> None:
    """What needs the same room is asked once (`again.py`), but not for these."""
    silver = on_nodes("1P", "p0 held", name="silver", priority=1, age=-9)
    memory = Memory({GOLD: ServiceMemory(evictions=Evictions(1, NOW - 5))})
    made = decide(world(FULL, gold(), silver, nodes=NODES, memory=memory))
    beneficiaries = []
    for plan in made.plans:
        beneficiaries += [one.beneficiary for one in plan.actions if isinstance(one, Evict)]
    assert beneficiaries == ["default/rule/silver"]


def test_an_eviction_in_the_pause_breaks_a_promise() -> None:
    """S11 and L4: nobody is evicted but by what 3b.4e allows ever more rarely."""
    plain = world(FULL, gold(), nodes=NODES)
    evicts = decide(plain)
    assert violations(plain, evicts) == ()
    for number, minutes, broken in ((1, 9, True), (1, 10, False), (3, 39, True), (3, 40, False)):
        counted = Evictions(number, NOW - minutes * MINUTE)
        memory = Memory({GOLD: ServiceMemory(evictions=counted)})
        found = violations(msgspec.structs.replace(plain, memory=memory), evicts)
        assert bool(found) is broken
    ordered = ServiceMemory(evictions=Evictions(1, NOW - 1), victims=("low-p1",))
    again = msgspec.structs.replace(plain, memory=Memory({GOLD: ordered}))
    assert violations(again, evicts) == (), "its deletion failed"
