"""A minimum may preempt scale-ups: 3.6 and 3b.4 of the contract, clause by clause."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Evict
from scaler.decide.invariants import violations
from scaler.decide.memory import HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Preempt, RestartBudget, Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import CountsFrom, RuleOptions, Trade
from tests.builders import NOW, Story, doings, on_nodes, reasons, world

EQUAL = Preempt.EQUAL_OR_HIGHER
NEVER = Preempt.NEVER


def done(*services: Service, nodes: str, **changes: object) -> dict[str, str]:
    return doings(decide(world(*services, nodes=nodes, **changes)))


SURPLUS = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 on a2", name="a")
HIGHER = on_nodes("1P", "p0 held", name="b", priority=1)
EQUALS = on_nodes("1P", "p0 held", name="b")


# of others


def test_a_minimum_of_a_higher_priority_evicts_the_newest_scale_up() -> None:
    made = decide(world(SURPLUS, HIGHER, nodes="a:8x3"))
    assert doings(made) == {"a-p1": "Evict"}
    assert reasons(made) == {
        **dict.fromkeys(("a-p0", "a-d0"), Reason.RUNNING),
        "a-p1": Reason.PREEMPTED,
        "b-p0": Reason.WAITING_FOR_ROOM,
    }
    assert next(action for plan in made.plans for action in plan.actions) == Evict(
        "a-p1", "default/rule/b"
    )


@pytest.mark.parametrize(
    ("preempt", "beneficiary", "evicts"),
    [
        (Preempt.HIGHER_PRIORITY, EQUALS, False),
        (EQUAL, EQUALS, True),
        (EQUAL, on_nodes("1P", "p0 held", name="b", priority=-1), False),
        (NEVER, HIGHER, False),
    ],
)
def test_the_setting_says_whose_scale_ups_may_be_evicted(
    preempt: Preempt, beneficiary: Service, evicts: bool
) -> None:
    assert bool(done(SURPLUS, beneficiary, nodes="a:8x3", preempt=preempt)) is evicts


@pytest.mark.parametrize(("most", "evicts"), [(None, False), (0, False), (1, True)])
def test_a_tenant_evicts_nobody_by_an_annotation_unless_the_administrator_allows_it(
    most: int | None, evicts: bool
) -> None:
    raised = on_nodes("1P", "p0 held", name="b", options=RuleOptions(service_priority=10**9))
    assert bool(done(SURPLUS, raised, nodes="a:8x3", max_service_priority=most)) is evicts


@pytest.mark.parametrize(("honoured", "evicts"), [(True, False), (False, True)])
def test_a_rule_may_protect_its_service_unless_the_administrator_says_otherwise(
    honoured: bool, evicts: bool
) -> None:
    protected = msgspec.structs.replace(SURPLUS, options=RuleOptions(preemptable=False))
    assert bool(done(protected, HIGHER, nodes="a:8x3", honour_preemptable=honoured)) is evicts


def test_no_group_that_has_its_minimum_loses_it() -> None:
    small = on_nodes("1P1D", "p0 on a0, d0 on a1", name="a")
    assert done(small, HIGHER, nodes="a:8x2") == {}


def test_nobody_is_evicted_unless_that_places_the_whole_minimum() -> None:
    two = on_nodes("1P1D", "p0 held, d0 held", name="b", priority=1)
    assert done(SURPLUS, two, nodes="a:8x3") == {}
    assert done(SURPLUS, two, nodes="a:8x4") == {"a-p1": "Evict"}
    assert done(SURPLUS, on_nodes("1P", "p0 held 2", name="b", priority=1), nodes="a:8x3") == {}


@pytest.mark.parametrize(
    "changes",
    [{"preempted_for": "default/rule/b"}, {"had_attempt": HadAttempt.FOR_GOOD}, {"failures": 2}],
)
def test_what_runs_on_was_not_evicted_and_nothing_is_held_against_it(
    changes: dict[str, Any],
) -> None:
    runs = on_nodes("1P", "p0 on a0", name="a")
    seen = InstanceMemory(restarts=0, ran=True)
    memory = Memory(
        {"default/rule/a": ServiceMemory({"a-p0": msgspec.structs.replace(seen, **changes)})}
    )
    made = decide(world(runs, nodes="a:8x1", memory=memory))
    assert made.memory.services["default/rule/a"].instances["a-p0"] == seen
    ends = on_nodes("1P", "p0 ends", name="a")
    assert reasons(decide(world(ends, nodes="a:8x1", memory=made.memory))) == {
        "a-p0": Reason.TERMINATING
    }


def test_an_eviction_that_failed_and_is_decided_again_is_remembered_again() -> None:
    starts = on_nodes("2P > 1P", "p0 on a0, p1 starts on a1", name="a")
    first = decide(world(starts, HIGHER, nodes="a:8x2"))
    again = decide(world(starts, HIGHER, nodes="a:8x2", memory=first.memory))
    assert doings(again) == doings(first) == {"a-p1": "Evict"}
    assert (
        again.memory.services["default/rule/a"].instances["a-p1"].preempted_for == "default/rule/b"
    )


GOLD = on_nodes("1P", "p0 held", name="b", priority=2)


def with_instance(service: Service, name: str, **changes: Any) -> Service:
    """The service with another instance of that name."""
    instances = []
    for one in service.instances:
        instances.append(msgspec.structs.replace(one, **changes) if one.name == name else one)
    return msgspec.structs.replace(service, instances=tuple(instances))


@pytest.mark.parametrize(
    ("instances", "victim"),
    [
        ("p0 on a0, p1 starts on a1, p2 on a2", "a-p1"),
        ("p0 on a0, p1 loads on a1, p2 on a2", "a-p1"),
        ("p0 loads on a0, p1 starts on a1, p2 loads on a2", "a-p1"),
        ("p0 loads on a0, p1 loads on a1, p2 on a2", "a-p1"),
        ("p0 on a0, p1 on a1, p2 on a2", "a-p2"),
    ],
)
@pytest.mark.parametrize("counts_from", CountsFrom)
def test_not_running_goes_before_running_and_not_ready_before_ready(
    instances: str, victim: str, counts_from: CountsFrom
) -> None:
    """4c: within one priority, whatever `counts-from` says; then the newest."""
    options = RuleOptions(counts_from=counts_from)
    low = on_nodes("3P > 1P", instances, name="a", options=options)
    assert done(low, GOLD, nodes="a:8x3") == {victim: "Evict"}


def test_a_group_that_has_its_minimum_of_ready_instances_keeps_it() -> None:
    """4b: the one that is not Ready would not help, and the one that is Ready stays."""
    low = on_nodes("2P > 1P", "p0@a on a0, p1@b loads on b0", name="a")
    assert done(low, on_nodes("1P", "p0@a held", name="b", priority=2), nodes="a:8 b:8") == {}


def test_lower_priority_goes_before_higher_whatever_runs() -> None:
    """4c."""
    for state in ("on", "starts on", "loads on"):
        middle = on_nodes("2P > 1P", f"p0 on a0, p1 {state} a1", name="a", priority=1)
        low = on_nodes("2P > 1P", "p0 on a2, p1 on a3", name="c", priority=0)
        assert done(middle, low, GOLD, nodes="a:8x4") == {"c-p1": "Evict"}


def test_any_instance_beyond_the_minimum_may_be_the_victim() -> None:
    """4b: the node of p1 is shared with a stranger and takes no pod of 8 when p1 is gone."""
    low = on_nodes("2P > 1P", "p0:4 on a0, p1:4 on a1", name="a")
    assert done(low, GOLD, nodes="a:8x2, a1 used 4") == {"a-p0": "Evict"}


def test_older_instances_go_together_where_only_that_makes_room() -> None:
    """4b: neither helps alone, and the newest of both services do not help."""
    one = on_nodes("2P > 1P", "p0:4 on a0, p1:4 on a1", name="a")
    other = on_nodes("2P > 1P", "p0:4 on a0, p1:4 on a2", name="c")
    nodes = "a:8x3, a1 used 4, a2 used 4"
    assert done(one, other, GOLD, nodes=nodes) == {"a-p0": "Evict", "c-p0": "Evict"}


def test_other_victims_are_tried_where_the_newest_of_each_service_do_not_help() -> None:
    """4b: a0 has an older instance of both services, a1 the newest of one and the older of the
    other, so that the newest of both leave no node."""
    one = on_nodes("2P > 1P", "p0:4 on a0, p1:4 on a1", name="a")
    other = on_nodes("2P > 1P", "p0:4 on a1, p1:4 on a0", name="c")
    assert done(one, other, GOLD, nodes="a:8x2") == {"a-p1": "Evict", "c-p0": "Evict"}


def test_two_of_many_are_found_that_share_a_node() -> None:
    """4b: at most 16 sets are tried, and of each service one instance of ten may go."""
    ladder = "10P > 9P"
    mine = ", ".join(f"p{number}:4 on a{number}" for number in range(10))
    theirs = ", ".join(f"p{number}:4 on a{9 + number}" for number in range(10))
    strangers = ", ".join(f"a{number} used 4" for number in range(19) if number != 9)
    one = on_nodes(ladder, mine, name="a")
    other = on_nodes(ladder, theirs, name="c")
    assert done(one, other, GOLD, nodes=f"a:8x19, {strangers}") == {
        "a-p9": "Evict",
        "c-p0": "Evict",
    }


def test_one_that_helps_alone_goes_before_two_that_help_together() -> None:
    """4c."""
    one = on_nodes("2P > 1P", "p0 on a0, p1:4 on a1", name="a")
    other = on_nodes("2P > 1P", "p0:2 on a2, p1:4 on a1", name="c")
    assert done(one, other, GOLD, nodes="a:8x3, a2 used 6") == {"a-p0": "Evict"}


def test_of_those_that_help_equally_the_one_with_the_shorter_grace_goes_then_the_newest() -> None:
    """4c."""
    low = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 on a2", name="a")
    for grace, victim in ((30.0, "a-p2"), (600.0, "a-p1")):
        slow = with_instance(with_instance(low, "p2", grace=grace), "p1", grace=30.0)
        assert done(with_instance(slow, "p0", grace=600.0), GOLD, nodes="a:8x3") == {
            victim: "Evict"
        }


def test_nobody_is_evicted_whose_pods_take_too_long_to_end() -> None:
    """4b: `start_timeout` less `due_back` is the longest grace period; the next victim is tried."""
    low = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 on a2", name="a")
    for grace, victim in ((1500.0, "a-p2"), (1500.1, "a-p1")):
        slow = with_instance(with_instance(low, "p2", grace=grace), "p1", grace=1500.0)
        slow = with_instance(slow, "p0", grace=1500.0)
        assert done(slow, GOLD, nodes="a:8x3") == {victim: "Evict"}
    slow = low
    for name in ("p0", "p1", "p2"):
        slow = with_instance(slow, name, grace=86400.0)
    assert done(slow, GOLD, nodes="a:8x3") == {}


def test_beside_an_operator_that_counts_an_eviction_leaves_the_restarts_that_are_kept() -> None:
    """4g: as a revocation (3.5); the next victim is tried."""
    low = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 on a2", name="a")
    low = with_instance(low, "p0", budget=RestartBudget(4, used=2))
    for used, evicts in ((1, {"a-p2": "Evict"}), (2, {"a-p1": "Evict"})):
        spent = with_instance(low, "p2", budget=RestartBudget(4, used=used))
        assert done(spent, GOLD, nodes="a:8x3") == evicts
    for name in ("p1", "p2"):
        low = with_instance(low, name, budget=RestartBudget(4, used=2))
    assert done(low, GOLD, nodes="a:8x3") == {}
    assert done(low, GOLD, nodes="a:8x3", restart_reserve=1) == {"a-p2": "Evict"}


def test_own_surplus_costs_no_restarts_that_are_kept_for_faults() -> None:
    """4g."""
    starts = on_nodes("2P1D > 1P1D", "p0 on a0, p1 starts on a1, d0 held", name="a")
    spent = with_instance(starts, "p1", budget=RestartBudget(4, used=2))
    assert done(spent, STRANGER, nodes="a:8x3") == {}


def test_those_that_can_be_spared_are_spared() -> None:
    mixed = on_nodes("3P > 1P", "p0 on a0, p1@a on a1, p2@b on b0", name="a")
    restricted = on_nodes("1P", "p0@a held", name="b", priority=1)
    assert done(mixed, restricted, nodes="a:8x2 b:8") == {"a-p1": "Evict"}


def test_an_older_scale_up_goes_where_the_newest_does_not_help() -> None:
    """Of two prefill instances one is beyond the minimum, whichever it is."""
    mixed = on_nodes("2P > 1P", "p0 on a0, p1 on b0", name="a")
    assert done(mixed, on_nodes("1P", "p0@a held", name="b", priority=1), nodes="a:8 b:8") == {
        "a-p0": "Evict"
    }


def test_what_is_bound_on_a_node_that_is_not_ready_is_neither_a_victim_nor_spares_one() -> None:
    lost = on_nodes("1P1D", "p0 held, d0 crashes on a0, d1 starts on a1", name="a")
    assert done(lost, on_nodes("1P", "p0 on a2", name="b"), nodes="a:8x3, a0 lost 10") == {}


def test_while_a_victims_room_is_to_come_its_beneficiary_evicts_nobody_else() -> None:
    story = Story("a:8x3")
    three = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 on a2", name="a")
    assert story.at(0, three, HIGHER) == {"a-p2": "Evict"}
    going = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 ends", name="a")
    assert story.at(5, going, HIGHER, nodes="a:8x3, a2 ending 8") == {}
    gone = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 held", name="a")
    assert story.at(9, gone, HIGHER) == {"b-p0": "Admit"}


def test_after_a_preemption_whose_victims_node_dies_is_a_pause() -> None:
    """3b.4e: nor again for a service for which an eviction was made; but eviction_pause after it
    once more."""
    story = Story("a:8x3")
    three = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 on a2", name="a")
    assert story.at(0, three, HIGHER) == {"a-p2": "Evict"}
    going = on_nodes("3P > 1P", "p0 on a0, p1 on a1, p2 ends", name="a")
    found = msgspec.structs.replace(going.instances[2], ends_by=-1.0)
    dead = msgspec.structs.replace(going, instances=(*going.instances[:2], found))
    died = "a:8x3, a2 ending 8, a2 lost 1"
    assert [story.at(time, dead, HIGHER, nodes=died) for time in (5, 599)] == [{}, {}]
    assert story.at(600, dead, HIGHER, nodes=died) == {"a-p1": "Evict"}


@pytest.mark.parametrize("had_attempt", [HadAttempt.SINCE_LAST_BIND, HadAttempt.FOR_GOOD])
def test_nobody_is_evicted_for_an_instance_that_has_had_its_attempt(
    had_attempt: HadAttempt,
) -> None:
    remembered = ServiceMemory(instances={"b-p0": InstanceMemory(had_attempt=had_attempt)})
    memory = Memory({"default/rule/b": remembered})
    assert done(SURPLUS, HIGHER, nodes="a:8x3", memory=memory) == {}
    spare = on_nodes("1P", "p0 held, p1 held", name="b", priority=1)
    assert done(SURPLUS, spare, nodes="a:8x3", memory=memory) == {"a-p1": "Evict"}, (
        "but for its spare"
    )


def test_a_scale_up_preempts_nobody() -> None:
    climbs = on_nodes("2P > 1P", "p0 on a3, p1 held", name="b", priority=9)
    assert done(SURPLUS, climbs, nodes="a:8x4") == {}


def test_an_eviction_that_helps_nobody_is_a_broken_promise() -> None:
    """S11, of decisions that were made for another world."""
    seen = world(SURPLUS, HIGHER, nodes="a:8x3")
    made = decide(seen)
    assert violations(seen, made) == ()
    small = world(SURPLUS, HIGHER, nodes="a:4x3")
    assert [words[:28] for words in violations(small, made)] == ["S11: what is evicted for def"]
    slow = world(with_instance(SURPLUS, "p1", grace=86400.0), HIGHER, nodes="a:8x3")
    assert "may take 86400.0 s" in " ".join(violations(slow, made))
    spent = with_instance(SURPLUS, "p1", budget=RestartBudget(4, used=3))
    assert "cannot spare a restart" in " ".join(violations(world(spent, HIGHER), made))
    tried = ServiceMemory({"b-p0": InstanceMemory(had_attempt=HadAttempt.FOR_GOOD)}, tried_at=NOW)
    memory = Memory({"default/rule/b": tried})
    paused = msgspec.structs.replace(seen, memory=memory)
    again = msgspec.structs.replace(made, memory=memory)
    assert "has had its attempt" in " ".join(violations(paused, again))


# own surplus


LOST = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 held", name="a")
STRANGER = on_nodes("1P", "p0 on a2", name="b")


def test_own_running_surplus_goes_so_that_the_service_can_serve_but_not_too_soon() -> None:
    story = Story("a:8x3")
    assert [story.at(time, LOST, STRANGER) for time in (0, 89.9, 90)] == [{}, {}, {"a-p1": "Evict"}]


def test_own_surplus_that_does_not_run_goes_at_once() -> None:
    starts = on_nodes("2P1D > 1P1D", "p0 on a0, p1 starts on a1, d0 held", name="a")
    assert done(starts, STRANGER, nodes="a:8x3") == {"a-p1": "Evict"}


def test_alone_on_its_nodes_a_service_gives_up_surplus_as_well() -> None:
    story = Story("a:8x2")
    assert [story.at(time, LOST) for time in (0, 90)][1] == {"a-p1": "Evict", "a-d0": "Admit"}, (
        "its pods may wait"
    )


@pytest.mark.parametrize("stranger", [[], [on_nodes("1P", "p0 on a3", name="b")]])
def test_an_instance_that_is_healed_is_not_evicted_for_its_own_missing_pod(
    stranger: list[Service],
) -> None:
    """It lost its slot and has a pod on one node of two; the other node went to a scale-up
    meanwhile."""
    ran = on_nodes("2P1D > 1P1D", "p0 on a0, p1 held, d0 on a1 + on a2, d1 held 2", name="a")
    broken = on_nodes("2P1D > 1P1D", "p0 on a0, p1 on a1, d0 on a2 + gone, d1 held 2", name="a")
    paused = msgspec.structs.replace(broken, options=RuleOptions(paused=True))
    story = Story("a:8x4" if stranger else "a:8x3")
    story.at(0, ran, *stranger)
    story.at(1, paused, *stranger)
    assert "Evict" not in [
        *story.at(91, broken, *stranger).values(),
        *story.at(180, broken, *stranger).values(),
    ]
    assert story.at(181, broken, *stranger)["a-p1"] == "Evict"


def test_the_annotation_switches_it_off_for_all_own_surplus() -> None:
    story = Story("a:8x3")
    off = RuleOptions(trade=Trade.OFF)
    lost = msgspec.structs.replace(LOST, options=off)
    assert [story.at(time, lost, STRANGER) for time in (0, 90, 900)] == [{}, {}, {}]
    starts = on_nodes("2P1D > 1P1D", "p0 on a0, p1 starts on a1, d0 held", name="a", options=off)
    assert done(starts, STRANGER, nodes="a:8x3") == {}


@pytest.mark.parametrize(
    ("trade", "evicts"), [(Trade.WHEN_NOT_SERVING, {}), (Trade.ALWAYS, {"a-p2": "Evict"})]
)
def test_a_service_that_serves_gives_up_surplus_only_where_told(
    trade: Trade, evicts: dict[str, str]
) -> None:
    serves = on_nodes(
        "3P2D > 2P2D > 1P1D",
        "p0 on a0, p1 on a1, p2 on a2, d0 on a3, d1 held",
        name="a",
        options=RuleOptions(trade=trade),
    )
    story = Story("a:8x5")
    stranger = on_nodes("1P", "p0 on a4", name="b")
    assert [story.at(time, serves, stranger) for time in (0, 90)] == [{}, evicts]


ALWAYS = RuleOptions(trade=Trade.ALWAYS)


@pytest.mark.parametrize("state", ["starts", "loads", "crashes"])
def test_what_the_target_has_a_place_for_is_no_surplus(state: str) -> None:
    """3.6: p1 is within the target, whatever its state, so it does not give way to p2."""
    serves = on_nodes(
        "3P1D > 1P1D", f"p0 on a0, p1 {state} on a1, p2 held, d0 on a2", name="a", options=ALWAYS
    )
    story = Story("a:8x4")
    stranger = on_nodes("1P", "p0 on a3", name="b")
    assert [story.at(time, serves, stranger) for time in (0, 59)] == [{}, {}]


def test_no_more_than_the_surplus_of_the_target_goes_for_one_instance() -> None:
    """3.6: d1 needs two nodes, and the target has no place for p2 alone."""
    serves = on_nodes(
        "3P2D > 2P2D > 1P1D",
        "p0 on a0, p1 on a1, p2 on a2, d0 on a3, d1 held 2",
        name="a",
        options=ALWAYS,
    )
    story = Story("a:8x5")
    stranger = on_nodes("1P", "p0 on a4", name="b")
    assert [story.at(time, serves, stranger) for time in (0, 90, 900)] == [{}, {}, {}]


def test_no_surplus_is_given_up_where_that_would_not_help() -> None:
    story = Story("a:8x2 b:8")
    elsewhere = on_nodes("2P1D > 1P1D", "p0@a on a0, p1@a on a1, d0@b held", name="a")
    assert [
        story.at(time, elsewhere, on_nodes("1P", "p0 on b0", name="b")) for time in (0, 90, 900)
    ] == [{}, {}, {}]


def test_the_time_to_wait_is_a_setting() -> None:
    story = Story("a:8x3", trade_after=5)
    assert [story.at(time, LOST, STRANGER) for time in (0, 5)] == [{}, {"a-p1": "Evict"}]
