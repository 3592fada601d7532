"""Own surplus gives way: 3.6, 3b.1e, 3b.3 and 3b.4 of the contract. What is to be evicted later
makes room once, and what gave way goes behind the one for which it did."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Evict
from scaler.decide.memory import HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Preempt, Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import RuleOptions, Trade
from tests.builders import NOW, Story, doings, on_nodes, reasons, world

EQUAL = Preempt.EQUAL_OR_HIGHER
SHORT = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 held", name="a", age=9)
"""Its p1 is to be evicted for d0, after a while."""


def others(text: str) -> Service:
    return on_nodes("1P", text, name="b")


@pytest.mark.parametrize("text", ["p0 held", "p0 unbound"])
def test_another_service_does_not_evict_it_for_room_that_is_reserved(text: str) -> None:
    made = decide(world(SHORT, others(text), nodes="a:8x2", preempt=EQUAL))
    assert not any(isinstance(action, Evict) for plan in made.plans for action in plan.actions)
    assert reasons(made)["a-d0"] is Reason.WAITING_FOR_ROOM
    assert doings(made) == ({"b-p0": "Revoke"} if text == "p0 unbound" else {})
    assert reasons(made)["b-p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_what_it_leaves_over_is_to_come_for_another_service() -> None:
    short = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1 + on a2, d0 held", name="a", age=9)
    made = decide(world(short, others("p0 held"), nodes="a:8x3", preempt=EQUAL))
    assert doings(made) == {}
    assert reasons(made) == {
        **dict.fromkeys(("a-p0", "a-p1"), Reason.RUNNING),
        **dict.fromkeys(("a-d0", "b-p0"), Reason.WAITING_FOR_ROOM),
    }


def test_what_goes_leaves_a_node_for_what_is_missing_whatever_a_spare_could_use() -> None:
    text = "p0@b held, d0@b starts on b0, d1@a starts on a0, d2@ab held"
    assert doings(decide(world(on_nodes("1P1D", text), others("p0 on a1"), nodes="a:8x2 b:8"))) == {
        "a-d0": "Evict"
    }


# 1e: what gave way goes behind


STRANGER = on_nodes("1P", "p0 on a1", name="b")


class Crashing:
    """One node for a service with two prefill instances, of which one crash-loops there."""

    def __init__(self, *, others: bool = False) -> None:
        self.story = Story("a:8x2")
        self.others = others

    def at(self, time: float, text: str, *, bound: bool = False, nodes: str = "") -> dict[str, str]:
        service = on_nodes("1P", text, name="a", others=self.others)
        return self.story.at(time, service, STRANGER, bound=bound, nodes=nodes)

    def behind(self, uid: str) -> tuple[str, ...]:
        """Uids of the instances that this one goes behind."""
        return self.story.memory.services["default/rule/a"].instances[uid].gave_way_for


@pytest.mark.parametrize("others", [False, True])
def test_the_spare_for_which_the_broken_one_was_evicted_gets_its_room(others: bool) -> None:
    played = Crashing(others=others)
    assert played.at(0, "p0 crashes on a0, p1 held") == {}
    assert played.at(60, "p0 crashes on a0, p1 held") == {"a-p0": "Evict"}
    assert played.at(61, "p0 ends, p1 held", nodes="a:8x2, a0 ending 8") == {}
    assert played.at(62, "p0 held, p1 held") == {"a-p1": "Admit"}


def test_what_gave_way_is_a_candidate_as_any_when_the_spare_has_had_its_attempt() -> None:
    """The scheduler never binds p1, and p0 waits for its room."""
    played = Crashing()
    played.at(0, "p0 crashes on a0, p1 held")
    played.at(60, "p0 crashes on a0, p1 held")
    assert played.at(62, "p0 held, p1 held") == {"a-p1": "Admit"}
    assert played.at(63, "p0 held, p1 unbound", bound=True) == {}
    assert played.at(400, "p0 held, p1 unbound") == {"a-p1": "Revoke"}
    assert played.at(401, "p0 held, p1 held") == {"a-p0": "Admit"}


def test_two_that_crash_again_and_again_are_evicted_for_each_other_ever_more_rarely() -> None:
    """Each runs for a moment and crashes. Whoever gave way goes behind the other."""
    played = Crashing()
    evictions = []
    time = 0.0
    runs = "p0"
    waits = "p1"
    for _ in range(100):
        first, second = sorted((f"{runs} crashes on a0", f"{waits} held"))
        if played.at(time, f"{first}, {second}").get(f"a-{runs}") == "Evict":
            evictions.append(time)
            assert played.at(time + 1, "p0 held, p1 held") == {f"a-{waits}": "Admit"}
            runs, waits = (waits, runs)
        time += 60
    assert evictions[0] == 60
    pauses = [later - before for before, later in pairwise(evictions)]
    assert len(pauses) > 2
    assert pauses == sorted(pauses)


def test_a_spare_that_runs_leaves_nobody_behind() -> None:
    played = Crashing()
    played.at(0, "p0 crashes on a0, p1 held")
    played.at(60, "p0 crashes on a0, p1 held")
    played.at(62, "p0 held, p1 held")
    assert played.behind("a-p0") == ("a-p1",)
    played.at(70, "p0 held, p1 on a0", bound=True)
    assert played.behind("a-p0") == ()


# 3.6, 4e: own surplus that does not run, for who has had its attempt


def tried(*uids: str, **changes: Any) -> Memory:
    """These instances of service a have had their attempt, a minute ago."""
    instances = {uid: InstanceMemory(had_attempt=HadAttempt.FOR_GOOD) for uid in uids}
    remembered = ServiceMemory(instances, tried_at=NOW - 60, **changes)
    return Memory({"default/rule/a": remembered})


@pytest.mark.parametrize(
    ("state", "evicts"), [("starts on", True), ("loads on", False), ("on", False)]
)
@pytest.mark.parametrize("neighbours", [[], [on_nodes("1P", "p0 on a2", name="b")]])
def test_own_surplus_that_does_not_run_gives_way_for_who_had_its_attempt(
    state: str, evicts: bool, neighbours: list[Service]
) -> None:
    """2P0D, whose decode instance was tried on a node that only seemed to fit. Also where the
    service is alone. What runs and is not Ready runs."""
    half = on_nodes("2P1D > 1P1D", f"p0 on a0, p1 {state} a1, d0 held", name="a")
    nodes = "a:8x3" if neighbours else "a:8x2"
    memory = tried("a-d0", trade_since=NOW - 900)
    made = decide(world(half, *neighbours, nodes=nodes, memory=memory))
    assert (doings(made).get("a-p1") == "Evict") is evicts
    assert made.memory.services["default/rule/a"].gave_way_once is evicts


# 3.6: free room that only seems to fit


def in_vain(**changes: Any) -> Memory:
    """An attempt of d0 of service a, on free room, has ended a minute ago. Its p0 and p1 are bound
    for longer."""
    instances = {
        "a-d0": InstanceMemory(had_attempt=HadAttempt.FOR_GOOD),
        "a-p0": InstanceMemory(most_bound=1),
        "a-p1": InstanceMemory(most_bound=1),
    }
    usual = {"failures": 1, "ended_at": NOW - 60, "tried_at": NOW - 60}
    return Memory({"default/rule/a": ServiceMemory(instances, **{**usual, **changes})})


@pytest.mark.parametrize("free", [1, 2, 5])
@pytest.mark.parametrize("neighbours", [[], [on_nodes("1P", "p0 on a0", name="b")]])
@pytest.mark.parametrize(("state", "evicts"), [("starts on", True), ("on", False)])
def test_own_surplus_gives_way_beside_free_room_on_which_nothing_was_bound(
    state: str, evicts: bool, neighbours: list[Service], free: int
) -> None:
    """3.6: "own surplus that does not run gives way also for an instance that has had its attempt":
    2P0D, whose free node goes on to seem to fit. What runs goes when the pause is over (4e)."""
    half = on_nodes("2P1D > 1P1D", f"p0 on a1, p1 {state} a2, d0 held", name="a")
    nodes = f"a:8x{3 + free}" + ("" if neighbours else ", a0 used 8")
    made = decide(world(half, *neighbours, nodes=nodes, memory=in_vain()))
    assert (doings(made).get("a-p1") == "Evict") is evicts
    later = in_vain(trade_since=NOW - 90, tried_at=NOW - 600)
    made = decide(world(half, *neighbours, nodes=nodes, memory=later))
    assert doings(made).get("a-p1") == "Evict"


def test_the_room_that_it_leaves_is_kept_beside_the_free_room() -> None:
    """A scale-up of a neighbour takes neither, before the attempt that follows has ended."""
    story = Story("a:8x5")
    story.memory = in_vain()
    other = on_nodes("2P > 1P", "p0 on a0, p1 held", name="b")

    def at(time: float, text: str, *, nodes: str = "", bound: bool = False) -> dict[str, str]:
        half = on_nodes("2P1D > 1P1D", text, name="a", age=-5)
        return story.at(time, half, other, nodes=nodes, bound=bound)

    full = "a:8x4"
    assert at(0, "p0 on a1, p1 starts on a2, d0 held", nodes=full) == {"a-p1": "Evict"}
    assert at(1, "p0 on a1, p1 ends, d0 held", nodes=f"{full}, a2 ending 8") == {}
    assert at(9, "p0 on a1, p1 held, d0 held", nodes=full) == {"a-d0": "Admit"}
    assert at(10, "p0 on a1, p1 held, d0 unbound", nodes=full) == {}
    assert at(38, "p0 on a1, p1 held, d0 unbound", nodes=full, bound=True) == {}
    ended = at(40, "p0 on a1, p1 held, d0 unbound", nodes=full)
    assert ended == {"a-d0": "Revoke", "b-p1": "Admit"}


@pytest.mark.parametrize(
    ("text", "options", "nodes"),
    [
        ("p0 on a1, p1 starts on a2, d0 held", RuleOptions(trade=Trade.OFF), "a:8x4"),
        ("p0@a on a1, p1@b starts on b0, d0@a held", RuleOptions(), "a:8x3 b:8"),
        ("p0 on a1, p1 held, d0 held", RuleOptions(), "a:8x3"),
    ],
    ids=["may not", "would not help", "nothing to give"],
)
def test_otherwise_it_is_tried_on_the_free_room_again(
    text: str, options: RuleOptions, nodes: str
) -> None:
    half = on_nodes("2P1D > 1P1D", text, name="a", options=options)
    other = on_nodes("1P", "p0 on a0", name="b")
    made = decide(world(half, other, nodes=nodes, memory=in_vain()))
    assert doings(made) == {"a-d0": "Admit"}


@pytest.mark.parametrize("changes", [{"failures": 0}, {"expected_in_vain": True}])
def test_it_stays_where_no_attempt_on_free_room_has_ended(changes: dict[str, Any]) -> None:
    half = on_nodes("2P1D > 1P1D", "p0 on a1, p1 starts on a2, d0 held", name="a")
    other = on_nodes("1P", "p0 on a0", name="b")
    made = decide(world(half, other, nodes="a:8x4", memory=in_vain(**changes)))
    assert doings(made) == {"a-d0": "Admit"}


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("neighbours", [[], [on_nodes("1P", "p0 on a0", name="b")]])
def test_an_attempt_ends_for_own_surplus_that_could_give_way(
    neighbours: list[Service], served: bool
) -> None:
    """5e: nobody else waits. What a service that served has lost ends after `backoff_max`."""
    story = Story("a:8x4" if neighbours else "a:8x4, a0 used 8")
    story.memory = Memory({"default/rule/a": ServiceMemory(served=served)})

    def at(time: float, d0: str, *, bound: bool = False) -> dict[str, str]:
        half = on_nodes("2P1D > 1P1D", f"p0 on a1, p1 starts on a2, d0 {d0}", name="a")
        return story.at(time, half, *neighbours, bound=bound)

    assert at(0, "held") == {"a-d0": "Admit"}
    assert at(1, "unbound", bound=True) == {}
    ends = 300 if served else 31
    assert at(ends - 1.1, "unbound", bound=True) == {}
    assert at(ends + 0.1, "unbound") == {"a-d0": "Revoke"}
    assert at(ends + 31, "held")["a-p1"] == "Evict"


def test_it_does_so_once_until_the_service_serves() -> None:
    half = on_nodes("2P1D > 1P1D", "p0 on a0, p1 starts on a1, d0 held", name="a")
    memory = tried("a-d0", gave_way_once=True)
    other = on_nodes("1P", "p0 on a2", name="b")
    assert doings(decide(world(half, other, nodes="a:8x3", memory=memory))) == {}
    serves = on_nodes("2P1D > 1P1D", "p0 on a0, p1 held, d0 on a1", name="a")
    made = decide(world(serves, other, nodes="a:8x3", memory=memory))
    assert not made.memory.services["default/rule/a"].gave_way_once


def test_nobody_else_is_evicted_with_it() -> None:
    """The minimum misses two instances. Own surplus leaves one node, and others no second one,
    because d0 has had its attempt."""
    half = on_nodes(
        "2P2D > 1P2D", "p0 on a0, p1 starts on a1, d0 held, d1 held", name="a", priority=1
    )
    low = on_nodes("2P > 1P", "p0 on a2, p1 on a3", name="b")
    assert doings(decide(world(half, low, nodes="a:8x4", memory=tried("a-d0")))) == {}
    assert doings(decide(world(half, low, nodes="a:8x4"))) == {"a-p1": "Evict", "b-p1": "Evict"}


def test_with_trade_always_nobody_gives_way_for_a_scale_up_whose_attempt_ended() -> None:
    """4e holds for scale-ups as well."""
    options = RuleOptions(trade=Trade.ALWAYS)
    serves = on_nodes(
        "3P2D > 2P2D > 1P1D",
        "p0 on a0, p1 on a1, p2 starts on a2, d0 on a3, d1 held",
        name="a",
        options=options,
    )
    other = on_nodes("1P", "p0 on a4", name="b")
    assert doings(decide(world(serves, other, nodes="a:8x5"))) == {"a-p2": "Evict"}
    failed = {"a-d1": InstanceMemory(failures=1)}
    memory = Memory({"default/rule/a": ServiceMemory(failed)})
    assert doings(decide(world(serves, other, nodes="a:8x5", memory=memory))) == {}


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("neighbours", [[], [on_nodes("1P", "p0 on a2", name="b")]])
def test_two_half_made_instances_do_not_hold_each_other(
    others: bool, neighbours: list[Service]
) -> None:
    """3.6: each is bound in part, and its attempt ended long ago. One gives way, and goes behind
    the other (1e)."""
    story = Story("a:8x3" if neighbours else "a:8x2")
    half_made = InstanceMemory(
        gives_way=True, had_attempt=HadAttempt.FOR_GOOD, broken_since=NOW - 300, restarts=0
    )
    instances = {"a-p0": half_made, "a-p1": half_made}
    story.memory = Memory({"default/rule/a": ServiceMemory(instances, tried_at=NOW - 60)})

    def at(time: float, text: str, *, bound: bool = False, nodes: str = "") -> dict[str, str]:
        service = on_nodes("1P", text, name="a", others=others)
        return story.at(time, service, *neighbours, bound=bound, nodes=nodes)

    ending = f"{story.nodes}, a1 ending 8"
    assert at(0, "p0 on a0 + unbound, p1 on a1 + unbound") == {"a-p1": "Evict"}
    assert at(1, "p0 on a0 + unbound, p1 ends + gated", nodes=ending) == {}
    assert at(2, "p0 on a0 + unbound, p1 held 2") == {}
    assert at(3, "p0 on a0 + on a1, p1 held 2", bound=True) == {}


def test_a_half_made_instance_is_not_asked_for_while_another_can_start() -> None:
    """3.6: the spare has not had its attempt, so one of those that are half made gives way to it,
    although the room that is free would do for the other pod of each."""
    half_made = InstanceMemory(
        gives_way=True, had_attempt=HadAttempt.FOR_GOOD, broken_since=NOW - 300, restarts=0
    )
    instances = {"a-p0": half_made, "a-p1": half_made}
    memory = Memory({"default/rule/a": ServiceMemory(instances, tried_at=NOW - 60)})
    service = on_nodes("1P", "p0 on a0 + unbound, p1 on a1 + unbound, p2 held 2", name="a")
    other = on_nodes("1P", "p0 on a2", name="b")
    made = decide(world(service, other, nodes="a:8x4", memory=memory))
    assert doings(made) == {"a-p1": "Evict"}


@pytest.mark.parametrize("d1", ["held", "unbound"])
@pytest.mark.parametrize(("p2", "evicts"), [("starts on", True), ("loads on", False)])
def test_with_trade_always_surplus_that_does_not_run_gives_way_where_the_service_is_alone(
    d1: str, p2: str, evicts: bool
) -> None:
    """3.6: the pods of d1 wait at the scheduler, and p2 is beyond the target."""
    service = on_nodes(
        "3P2D > 2P2D > 1P1D",
        f"p0 on a0, p1 on a1, p2 {p2} a2, d0 on a3, d1 {d1}",
        name="a",
        options=RuleOptions(trade=Trade.ALWAYS),
    )
    story = Story("a:8x4")
    done = [story.at(time, service).get("a-p2") for time in (0, 900)]
    assert done == (["Evict"] * 2 if evicts else [None] * 2)
