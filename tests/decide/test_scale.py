"""A limit from outside, `spec.replicas` of the ElasticService: section 3c of the contract, clause
by clause."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.decide.decide import decide
from scaler.decide.decision import NOBODY, Evict, Plan, State
from scaler.decide.explain import target_in_words, words
from scaler.decide.invariants import violations
from scaler.decide.memory import InstanceMemory, Memory
from scaler.decide.service import limit
from scaler.decide.service.limit import in_all
from scaler.decide.world import Instance, RestartBudget, Service
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.rules.rule import ALL, CountsFrom, Rule, RuleOptions
from tests.builders import (
    GROUPS,
    NOW,
    SIZE,
    Story,
    doings,
    instance,
    on_nodes,
    others,
    plan,
    reasons,
    remembering,
    rolling,
    rule,
    service,
    world,
)
from tests.strategies import rules

LADDER = "3P3D > 2P1D > 1P1D"
DELAYED = RuleOptions(scale_down_delay=300)


def with_instance(service: Service, changed: Instance) -> Service:
    """The service with the instance of the same uid exchanged."""
    swapped = tuple(changed if old.uid == changed.uid else old for old in service.instances)
    return msgspec.structs.replace(service, instances=swapped)


def said(made: Plan) -> dict[str, Reason]:
    return {uid.removeprefix("uid-"): reason for uid, reason in reasons(made).items()}


def test_a_spare_is_told_that_it_is_one_although_the_minimum_waits_for_room() -> None:
    waits = on_nodes("3P1D > 1P1D", "p0 held, p1 held, p2 held, p3 held, d0 held", name="a")
    limited = msgspec.structs.replace(waits, replicas=2)
    other = on_nodes("1P1D", "p0 held, d0 held", name="b", age=9)
    found = reasons(decide(world(limited, other, nodes="a:8x2")))
    assert (found["a-p0"], found["a-d0"]) == (Reason.MINIMUM_DOES_NOT_FIT,) * 2
    assert [found[f"a-p{number}"] for number in (1, 2, 3)] == [
        Reason.SCALED_DOWN,
        Reason.SCALED_DOWN,
        Reason.NOT_IN_RATIO,
    ]


# The ratio aimed at


@pytest.mark.parametrize(("replicas", "index"), [(9, 0), (4, 0), (3, 1), (2, 2), (1, 2)])
def test_the_service_stops_at_the_smallest_ratio_with_as_many_instances_as_are_wanted(
    replicas: int, index: int
) -> None:
    running = {
        0: "p0 Running, p1 Running, p2 Running, d0 Running, d1 Running, d2 Running",
        1: "p0 Running, p1 Running, d0 Running",
        2: "p0 Running, d0 Running",
    }[index]
    made = plan(service(LADDER, f"{running}, p7 Held, d7 Held", replicas=replicas))
    assert (made.target_index, made.complete, made.actions) == (index, True, ())


def test_on_the_way_up_one_ratio_follows_the_other_as_without_a_limit() -> None:
    made = plan(service(LADDER, "p0 Running, p1 Held, d0 Running, d1 Held", replicas=3))
    assert (made.target_index, made.target, doings(made)) == (
        1,
        {"group0": 2, "group1": 1},
        {"uid-p1": "Admit"},
    )


def test_held_beyond_the_limit_is_scaled_down_and_beyond_the_rule_is_a_spare() -> None:
    made = plan(service("2P1D > 1P1D", "p0 Running, p1 Held, p2 Held, d0 Running", replicas=2))
    assert said(made) == {
        "p0": Reason.RUNNING,
        "p1": Reason.SCALED_DOWN,
        "p2": Reason.NOT_IN_RATIO,
        "d0": Reason.RUNNING,
    }
    assert (
        words(made.verdicts[1], made)
        == "Not needed now: 2 instances are to run, 1 of group0, by spec.replicas of its"
        " ElasticService; raise that to run more."
    )


def test_a_ratio_beyond_the_jobs_is_said_only_where_it_is_wanted() -> None:
    found = "p0 Running, d0 Running"
    limited, free, more = (plan(service(LADDER, found, replicas=number)) for number in (2, 9, 3))
    assert limited.notes == ()
    assert [note.warning for note in (*free.notes, *more.notes)] == [Warning.TARGET_UNREACHABLE] * 2
    assert more.notes[0].message == "the ratio 2 group0 + 1 group1 needs 2 of group0, 1 exist"


def test_a_group_of_the_rule_is_known_whatever_is_wanted() -> None:
    made = plan(service("1P1D > 1P", "p0 Running, d0 Held", replicas=1))
    assert said(made)["d0"] is Reason.SCALED_DOWN


# Nothing wanted


def test_a_service_that_rests_wants_nothing_and_lacks_nothing() -> None:
    made = plan(service(LADDER, "p0 Held, d0 Held, d1 Held, d2 Held, d3 Held", replicas=0))
    assert (made.target_index, made.target, made.serves, made.complete) == (-1, {}, True, True)
    assert (made.actions, made.notes) == ((), ())
    assert said(made) == {
        **dict.fromkeys(("p0", "d0", "d1", "d2"), Reason.SCALED_DOWN),
        "d3": Reason.NOT_IN_RATIO,
    }
    assert "rests" in words(made.verdicts[0], made)
    assert "rests" in target_in_words(made)


def test_what_is_with_the_scheduler_is_revoked_when_nothing_is_wanted() -> None:
    made = plan(service("1P1D", "p0 Admitted, d0 Held", replicas=0))
    assert doings(made) == {"uid-p0": "Revoke"}
    assert made.verdicts[0].state is State.HELD


# What runs is drained


def drained(made: Plan) -> str:
    evicted = (action for action in made.actions if isinstance(action, Evict))
    return " ".join(
        sorted(
            action.uid.removeprefix("uid-") for action in evicted if action.beneficiary == NOBODY
        )
    )


WHOLE = "p0 Running, p1 Running, p2 Running, d0 Running, d1 Running, d2 Running"


@pytest.mark.parametrize(
    ("replicas", "gone"),
    [
        (ALL, ""),
        (7, ""),
        (6, ""),
        (4, ""),
        (3, "d1 d2 p2"),
        (2, "d1 d2 p1 p2"),
        (0, "d0 d1 d2 p0 p1 p2"),
    ],
)
def test_what_is_bound_beyond_the_ratio_wanted_is_deleted_whole_the_newest_of_each_group(
    replicas: int, gone: str
) -> None:
    made = plan(service(LADDER, WHOLE, replicas=replicas))
    assert drained(made) == gone
    assert made.complete
    leaving = {verdict.name for verdict in made.verdicts if verdict.reason is Reason.SCALED_DOWN}
    assert leaving == set(gone.split())
    assert all(
        verdict.state is State.TERMINATING for verdict in made.verdicts if verdict.name in leaving
    )


def test_what_is_on_a_lost_node_goes_before_what_starts_and_no_promise_is_broken_by_it() -> None:
    asked = on_nodes("2P1D > 1P1D", "p0 starts on a0, p1 on a1, d0 on a2", name="a", replicas=2)
    ill = msgspec.structs.replace(asked.instances[1], faulty=1)
    seen = world(with_instance(asked, ill), nodes="a:8x3, a1 lost 1")
    made = decide(seen)
    assert doings(made) == {"a-p1": "Evict"}
    assert violations(seen, made) == ()


def test_a_smaller_rule_alone_drains_nothing() -> None:
    for replicas in (ALL, 5):
        made = plan(service("2P1D > 1P1D", WHOLE, replicas=replicas))
        assert made.actions == ()
        assert said(made)["p2"] is Reason.SURPLUS_RUNNING
    assert drained(plan(service("2P1D > 1P1D", WHOLE, replicas=3))) == "d1 d2 p2"


def test_what_nobody_may_move_now_is_not_drained() -> None:
    paused = service(LADDER, WHOLE, replicas=2, options=RuleOptions(paused=True))
    assert plan(paused).actions == ()
    assert plan(service(LADDER, WHOLE, replicas=2, assumed=True)).actions == ()
    made = plan(paused)
    assert said(made)["p2"] is Reason.SURPLUS_RUNNING
    assert "is left alone because its rule is paused" in words(made.verdicts[2], made)


def test_of_no_use_goes_first_then_what_does_not_run_then_the_cheapest_then_the_newest() -> None:
    useless = InstanceMemory(broken_since=NOW - 61)
    states = "p0 Broken, p1 Starting, p2 Running, p3 Running, p4 Running, p5 Running"
    found = service("6P > 5P > 4P > 3P > 2P > 1P", states)
    found = with_instance(found, instance("p3", "Running", deletion_cost=-5))
    memory = remembering(found, ("uid-p0", useless))
    order = [
        drained(plan(msgspec.structs.replace(found, replicas=number), memory=memory))
        for number in (5, 4, 3, 2, 1)
    ]
    assert order == ["p0", "p0 p1", "p0 p1 p3", "p0 p1 p3 p5", "p0 p1 p3 p4 p5"]


@pytest.mark.parametrize("counts_from", CountsFrom)
def test_what_is_not_ready_goes_before_what_is_whatever_it_costs(counts_from: CountsFrom) -> None:
    """Of four prefill instances p0 is not Ready. An autoscaler asks for 2 instances in all."""
    states = "p0 Running, p1 Running, p2 Running, p3 Running, d0 Running"
    found = service(
        "4P1D > 3P1D > 2P1D > 1P1D", states, options=RuleOptions(counts_from=counts_from)
    )
    loads = instance("p0", "Running", ready=SIZE - 1, deletion_cost=9)
    found = with_instance(with_instance(found, loads), instance("p1", "Running", deletion_cost=-9))
    order = [drained(plan(msgspec.structs.replace(found, replicas=number))) for number in (4, 3, 2)]
    assert order == ["p0", "p0 p1", "p0 p1 p3"]


def test_a_group_never_falls_below_what_is_wanted_of_it_whatever_else_is_bound() -> None:
    """One decode runs and one is broken: neither is beyond the one wanted and the other is of no
    use."""
    made = plan(service("2P2D > 1P1D", "p0 Running, d0 Broken, d1 Running", replicas=2))
    assert drained(made) == "d0"
    made = plan(service("2P2D > 1P1D", "p0 Running, d0 Broken, d1 Held", replicas=2))
    assert drained(made) == ""


def test_unbound_ones_are_revoked_before_a_running_one_goes() -> None:
    made = plan(service("3P > 1P", "p0 Running, p1 Admitted, p2 Running", replicas=1))
    assert doings(made) == {"uid-p1": "Revoke", "uid-p2": "Evict"}
    made = plan(service("3P > 2P", "p0 Running, p1 Running, p2 Admitted", replicas=2))
    assert doings(made) == {"uid-p2": "Revoke"}


def test_a_restart_that_is_kept_for_faults_is_not_spent_and_the_words_say_so() -> None:
    spent = RestartBudget(4, 2)
    plenty = RestartBudget(100, 0)
    jobs = [
        instance("p0", "Running"),
        instance("p1", "Running", budget=spent),
        instance("p2", "Running", budget=plenty),
    ]
    found = service("3P > 2P > 1P", jobs)
    assert drained(plan(msgspec.structs.replace(found, replicas=2))) == "p0", "it costs nothing"
    made = plan(msgspec.structs.replace(found, replicas=1))
    assert drained(made) == "p0 p2"
    made = plan(msgspec.structs.replace(found, replicas=0))
    assert drained(made) == "p0 p2"
    assert said(made)["p1"] is Reason.REVOKE_WOULD_COST_RESTARTS
    assert "2 of its 4 restarts are used" in words(made.verdicts[1], made)


def test_nothing_that_runs_goes_in_place_of_one_that_cannot_be_spared() -> None:
    broken = instance("p2", "Broken", budget=RestartBudget(2, 2))
    made = plan(
        service(
            "3P > 2P", [instance("p0", "Running"), instance("p1", "Running"), broken], replicas=2
        )
    )
    assert doings(made) == {}
    assert said(made)["p2"] is Reason.REVOKE_WOULD_COST_RESTARTS


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"irreplaceable": True}, "nothing would make its pods again"),
        ({"unheld": SIZE}, "nothing would hold its pods"),
    ],
)
def test_what_would_not_come_again_or_not_be_held_is_left_alone_and_says_why(
    changes: dict[str, Any], why: str
) -> None:
    found = [others("p0", "Running"), others("p1", "Running", **changes)]
    made = plan(service("2P > 1P", found, replicas=0))
    assert drained(made) == "p0"
    assert said(made)["p1"] is Reason.SURPLUS_RUNNING
    assert why in words(made.verdicts[1], made)


def test_a_group_that_the_rule_does_not_name_is_not_drained() -> None:
    made = plan(service("1P", "p0 Running, decod Running", replicas=0))
    assert drained(made) == "p0"


@pytest.mark.parametrize(
    ("found", "replicas", "gone"),
    [
        ("p0 Running old, p1 Running old, p2 Running new", 2, ""),
        ("p0 Running old, p1 Running old, p2 Running new", 1, "p1"),
        ("p0 Running old, p2 Starting new", 1, ""),
        ("p0 Running old, p2 Running new, p3 Held new", 1, "p0"),
        ("p0 Running old, p1 Running old, p2 Admitted new", 1, "p1"),
    ],
)
def test_a_pair_of_revisions_counts_once_while_its_owner_has_something_to_do(
    found: str, replicas: int, gone: str
) -> None:
    """In the fourth the owner, which is told to have two, would wait for another one of the
    newest."""
    assert drained(plan(service("2P > 1P", rolling(found, wanted=2), replicas=replicas))) == gone


def test_until_it_is_gone_it_is_terminating_as_scaled_down_and_then_held_so() -> None:
    story = Story("a:8x2")
    running = on_nodes("2P > 1P", "p0 on a0, p1 on a1", replicas=1)
    assert story.at(0, running) == {"a-p1": "Evict"}
    ending = on_nodes("2P > 1P", "p0 on a0, p1 ends", replicas=1)
    held = on_nodes("2P > 1P", "p0 on a0, p1 held", replicas=1)
    assert story.at(1, ending) == {}
    assert story.reasons["a-p1"] == Reason.SCALED_DOWN
    assert story.at(2, held) == {}
    assert story.reasons["a-p1"] == Reason.SCALED_DOWN


def test_room_that_is_drained_goes_to_the_minimum_that_waits() -> None:
    other = on_nodes("1P", "p0 held", name="b")
    running = on_nodes("2P > 1P", "p0 on a0, p1 on a1", replicas=1)
    made = decide(world(running, other, nodes="a:8x2"))
    assert made.plans[0].actions == (Evict("a-p1", NOBODY),)
    assert reasons(made)["b-p0"] is Reason.WAITING_FOR_ROOM


# Any series of numbers


class Reached(NamedTuple):
    """Where a service comes to rest when all that is admitted runs and all that is deleted ends."""

    service: Service
    memory: Memory
    admitted: int
    evicted: int


def reached(seen: Service, memory: Memory, now: float) -> Reached:
    admitted = evicted = 0
    for _ in range(20):
        made = decide(world(seen, memory=memory, now=now))
        assert violations(world(seen, memory=memory, now=now), made) == ()
        memory = made.memory
        admitted += sum(kind == "Admit" for kind in doings(made).values())
        evicted += sum(kind == "Evict" for kind in doings(made).values())
        states = {"Admit": State.RUNNING, "Evict": State.HELD}
        for one in seen.instances:
            kind = doings(made).get(one.uid)
            if kind is not None:
                seen = with_instance(seen, instance(one.name, states[kind], leftovers=False))
        if not doings(made):
            return Reached(seen, memory, admitted, evicted)
    raise AssertionError("it never comes to rest")


def named(ladder: Rule) -> list[Instance]:
    """As many jobs as the rule names."""
    letters = {group: letter for letter, group in GROUPS.items()}
    return [
        instance(f"{letters[name]}{index}")
        for name in ladder.groups
        for index in range(ladder.largest.of(name))
    ]


@settings(max_examples=60, deadline=None)
@given(rules(), st.lists(st.integers(0, 13), min_size=1, max_size=6))
def test_any_series_of_numbers_causes_just_the_moves_that_it_orders(
    ladder: Rule, series: list[int]
) -> None:
    seen = service(ladder, named(ladder))
    memory = Memory()
    before = 0
    for step, number in enumerate(series):
        wanted = ladder.limited(number).largest.total
        seen = msgspec.structs.replace(seen, replicas=number)
        end = reached(seen, memory, NOW + 10 * step)
        assert (end.admitted, end.evicted) == (max(0, wanted - before), max(0, before - wanted))
        seen = end.service
        memory = end.memory
        before = wanted


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 13), st.integers(1, 400)), min_size=1, max_size=12))
def test_the_number_in_force_is_always_the_highest_within_the_delay(
    series: list[tuple[int, int]],
) -> None:
    ladder = rule("6P6D > 4P3D > 2P2D > 1P1D")
    now = NOW
    seen: limit.Wanted = ()
    found = service(ladder, named(ladder), options=DELAYED)
    history: list[tuple[float, int]] = []
    for number, seconds in series:
        history.append((now, in_all(ladder, number)))
        for moment in (now, now + seconds / 2):
            seen = limit.followed(seen, msgspec.structs.replace(found, replicas=number), moment)
            ends = [began for began, _ in history[1:]] + [moment + 1]
            recent = [n for (_, n), end in zip(history, ends, strict=True) if end > moment - 300]
            assert seen[0][0] == max(recent)
            assert len(seen) <= len(ladder.ratios) + 1, "each ratio, and nothing"
        now += seconds


# A lower number takes its time


def replicas(number: int, text: str = "p0 on a0, p1 on a1, p2 on a2") -> Service:
    return on_nodes("3P > 2P > 1P", text, replicas=number, options=DELAYED)


def test_a_lower_number_takes_effect_after_the_delay_and_a_higher_one_at_once() -> None:
    story = Story("a:8x4")
    assert story.at(0, replicas(3)) == {}
    assert story.at(10, replicas(1)) == {}
    assert story.recheck_in == 310
    assert story.reasons["a-p2"] == Reason.RUNNING
    assert story.at(309, replicas(1)) == {}
    assert story.at(310, replicas(1)) == {"a-p1": "Evict", "a-p2": "Evict"}
    down = Story("a:8x4")
    assert down.at(0, replicas(1, "p0 on a0, p1 held, p2 held")) == {}
    assert down.at(1, replicas(2, "p0 on a0, p1 held, p2 held")) == {"a-p1": "Admit"}


def test_the_highest_number_within_the_delay_counts() -> None:
    story = Story("a:8x4")
    story.at(0, replicas(3))
    assert story.at(10, replicas(1)) == {}
    assert story.at(20, replicas(2)) == {}
    assert story.at(30, replicas(1)) == {}
    assert story.at(310, replicas(1)) == {"a-p2": "Evict"}
    assert story.at(320, replicas(1, "p0 on a0, p1 on a1, p2 held")) == {}
    assert story.at(330, replicas(1, "p0 on a0, p1 on a1, p2 held")) == {"a-p1": "Evict"}


def test_a_number_that_comes_back_in_time_costs_nothing() -> None:
    story = Story("a:8x4")
    for second in range(0, 2000, 100):
        assert story.at(second, replicas(3 if second % 200 == 0 else 0)) == {}


def test_after_a_failover_nothing_is_drained_before_the_delay_has_passed_anew() -> None:
    story = Story("a:8x4")
    assert story.at(0, replicas(0)) == {}
    assert story.at(299, replicas(0)) == {}
    assert story.at(300, replicas(0)) == {"a-p0": "Evict", "a-p1": "Evict", "a-p2": "Evict"}


def test_nothing_is_remembered_without_a_delay() -> None:
    story = Story("a:8x4")
    story.at(0, replicas(3))
    assert story.remembered(replicas(3)).wanted == ((3, 0.0),)
    free = msgspec.structs.replace(replicas(1), options=RuleOptions())
    assert story.at(1, free) == {"a-p1": "Evict", "a-p2": "Evict"}
    assert story.remembered(free).wanted == ()
