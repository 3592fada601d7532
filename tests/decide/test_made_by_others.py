"""Instances whose pods others make: what can be decided for them, one promise at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Complete, Plan, Record, Revoke, State
from scaler.decide.explain import words
from scaler.decide.invariants import violations
from scaler.decide.memory import InstanceMemory
from scaler.decide.nodes import PodRequest
from scaler.decide.service.lifecycle import next_step
from scaler.decide.world import (
    FailedPod,
    Instance,
    Life,
    Policy,
    RestartBudget,
    RunPolicy,
    Service,
    ServiceKey,
    World,
)
from scaler.reasons.reasons import Reason
from tests.builders import NOW, SIZE, Story, on_nodes, others, plan, remembering, service, world

IN_A_BLOCK: dict[str, Any] = {
    "requests": ((PodRequest((("x/npu", 16), ("pods", 1)), block=SIZE), SIZE),),
    "seen_together": True,
}
"""An instance that takes one block."""


def decided(ratios: str, *found: Instance, **changes: Any) -> Plan:
    return decide(seen(ratios, *found, **changes)).plans[0]


def seen(
    ratios: str, *found: Instance, memory: InstanceMemory | None = None, **changes: Any
) -> World:
    """Every instance has the same memory."""
    one = service(ratios, found)
    remembered = remembering(one, *((each.uid, memory) for each in found if memory))
    return world(one, memory=remembered, **changes)


def said(made: Plan, name: str) -> tuple[State, Reason, str]:
    verdict = next(one for one in made.verdicts if one.name == name)
    return verdict.state, verdict.reason, words(verdict, made)


def test_a_held_instance_is_released_as_soon_as_one_of_its_pods_is_there() -> None:
    assert decided("1P", others("p0", pods=1, gated=1)).actions == (Admit("uid-p0"),)


def test_pods_that_take_blocks_are_released_when_all_of_them_are_there() -> None:
    """3.3: one session of the scheduler chooses blocks for the pods that it sees; those that come
    later get no rank in their super-pod."""
    part = decided("1P", others("p0", pods=1, gated=1, **IN_A_BLOCK))
    assert part.actions == ()
    state, reason, sentence = said(part, "p0")
    assert (state, reason) == (State.HELD, Reason.WAITING_FOR_SCHEDULER)
    assert "not all of its pods exist yet" in sentence
    whole = others("p0", **IN_A_BLOCK)
    assert decided("1P", whole).actions == (Admit("uid-p0"),)


def test_so_are_pods_of_blocks_of_one_node_and_of_blocks_that_may_be_anywhere() -> None:
    """3.3: their requests name no block, and the scheduler writes their ranks all the same."""
    part = decided("1P", others("p0", pods=1, gated=1, seen_together=True))
    assert part.actions == ()
    whole = others("p0", seen_together=True)
    assert decided("1P", whole).actions == (Admit("uid-p0"),)
    lost = others("p0", "Running", pods=2, gated=1, bound=1, running=1, seen_together=True)
    assert decided("1P", lost).actions == (Complete("uid-p0"),), "its other pods are bound"


def test_pods_of_blocks_that_come_when_others_are_ready_are_not_waited_for() -> None:
    first = others("p0", pods=1, gated=1, more_to_come=True, **IN_A_BLOCK)
    assert decided("1P", first).actions == (Admit("uid-p0"),)


def test_what_has_a_part_of_its_pods_of_blocks_leaves_its_place_to_what_has_all() -> None:
    part = others("p0", pods=1, gated=1, **IN_A_BLOCK)
    assert decided("1P", part, others("p1", **IN_A_BLOCK)).actions == (Admit("uid-p1"),)


def test_pods_that_arrive_later_are_released_in_the_same_pass() -> None:
    late = others("p0", "Running", pods=2, gated=1, bound=1, running=1, ready=1)
    assert decided("1P", late).actions == (Complete("uid-p0"),)


def test_missing_pods_and_pod_groups_are_their_makers_business() -> None:
    lost = others("p0", "Running", pods=1, bound=1, running=1, ready=1, stripped=True)
    assert decided("1P", lost).actions == ()


def test_what_has_no_pods_yet_leaves_its_place_to_what_has() -> None:
    made = decided("1P", others("p0", pods=0, gated=0), others("p1"))
    assert made.actions == (Admit("uid-p1"),)
    assert said(made, "p0")[:2] == (State.HELD, Reason.NOT_IN_RATIO)


def test_what_has_no_pods_yet_says_so_when_a_place_is_left_for_it() -> None:
    made = decided("2P", others("p0", pods=0, gated=0), others("p1"))
    state, reason, sentence = said(made, "p0")
    assert made.actions == (Admit("uid-p1"),)
    assert (state, reason) == (State.HELD, Reason.WAITING_FOR_SCHEDULER)
    assert "its pods do not exist yet" in sentence


def test_a_pod_group_of_theirs_is_never_tidied_away() -> None:
    assert decided("1P1D", others("p0", pods=0, gated=0, leftovers=True)).actions == ()


@pytest.mark.parametrize(("age", "state"), [(29.9, State.ADMITTED), (30, State.BROKEN)])
def test_a_missing_pod_is_expected_until_the_newest_one_is_as_old_as_an_attempt_lasts(
    age: float, state: State
) -> None:
    """The cluster alone says so: after a failover the answer is the same."""
    lacks = others("p0", "Running", pods=1, bound=1, running=1, ready=1, newest=NOW - age)
    made = decide(seen("1P", lacks))
    assert said(made.plans[0], "p0")[0] is state
    assert made.recheck_at == NOW + (30 - age or 60), "and then for the grace of what is broken"


def test_an_instance_made_by_others_that_loses_a_pod_is_broken_though_another_replica_led() -> None:
    lost = others("p0", "Running", pods=1, bound=1, running=1, ready=1, newest=NOW - 5000)
    assert said(decided("1P", lost), "p0")[0] is State.BROKEN


def test_an_owner_that_waits_for_the_first_pods_to_be_ready_may_take_its_time() -> None:
    leader = others(
        "p0", "Running", pods=1, bound=1, running=1, ready=0, newest=NOW - 500, more_to_come=True
    )
    assert said(decided("1P", leader), "p0")[0] is State.ADMITTED


@pytest.mark.parametrize(
    ("first_are_ready", "ran", "state"),
    [
        (False, False, State.ADMITTED),
        (False, True, State.ADMITTED),
        (True, False, State.ADMITTED),
        (True, True, State.BROKEN),
    ],
)
def test_what_is_made_later_is_on_its_way_until_the_instance_ran(
    first_are_ready: bool, ran: bool, state: State
) -> None:
    """2: "what its owner makes only later counts as there from the start". What ran has lost a pod,
    unless its first pods have to become ready again."""
    master = others(
        "p0",
        "Running",
        pods=1,
        bound=1,
        running=1,
        ready=int(first_are_ready),
        newest=NOW - 500,
        more_to_come=True,
        first_are_ready=first_are_ready,
    )
    made = decided("1P", master, memory=InstanceMemory(restarts=0, ran=ran))
    assert said(made, "p0")[0] is state


def _waits_for_its_rest(name: str = "a") -> Service:
    """A decode instance of two pods: the first starts on a0, the second is made when it is
    ready."""
    of = on_nodes("1D", "d0 starts on a0 + gone", others=True, name=name)
    waits = msgspec.structs.replace(of.instances[0], more_to_come=True, newest=NOW - 500)
    return msgspec.structs.replace(of, instances=(waits,))


@pytest.mark.parametrize("ratios", ["1P", "2P > 1P"])
def test_the_room_of_what_is_made_later_stays_reserved_without_a_clock(ratios: str) -> None:
    """2: "that room stays reserved, without a clock, while the first part is starting, at most
    start_timeout"."""
    story = Story("a:8x3", start_timeout=600)
    waiting = on_nodes(ratios, "p0 on a1, p1 held", name="b", age=9)
    if ratios == "1P":
        waiting = on_nodes(ratios, "p0 held 2", name="b", age=9)
    for time in (0, 40, 80, 400, 599):
        assert story.at(time, _waits_for_its_rest(), waiting) == {}, time
    assert story.reasons["a-d0"] == Reason.WAITING_FOR_SCHEDULER
    story.at(600, _waits_for_its_rest(), waiting)
    assert story.reasons["a-d0"] == Reason.BROKEN


def test_the_clock_runs_for_what_is_made_already_and_not_bound() -> None:
    """5a: of a set that makes its pods one by one, the second is with the scheduler and the third
    does not exist yet."""
    of = on_nodes("1D", "d0 starts on a0 + unbound + gone", others=True)
    one = msgspec.structs.replace(of.instances[0], more_to_come=True)
    story = Story("a:8x4")
    of = msgspec.structs.replace(of, instances=(one,))
    story.at(0, of, on_nodes("1P", "p0 held 9", name="b"))
    assert story.remembered(of).began == NOW


@pytest.mark.parametrize("state", ["Held", "Running", "Admitted"])
def test_without_a_rule_nothing_is_ever_done(state: str) -> None:
    found = others("p0", state, kind="AscendJob", pods=1, gated=1)
    lone = world(
        service(None, (found, others("p1", state)), key=ServiceKey("default", "", "mindie"))
    )
    made = decide(lone)
    assert made.plans[0].actions == ()
    assert violations(lone, made) == ()


def test_without_a_rule_it_is_not_served() -> None:
    lone = service(None, [others("p0", pods=0, gated=0)], key=ServiceKey("default", "", "mindie"))
    assert said(plan(lone), "p0")[1] is Reason.NOT_SERVED


@pytest.mark.parametrize("made_by_us", [True, False])
def test_only_what_is_made_here_has_a_life_here(made_by_us: bool) -> None:
    life = Life(
        policy=RunPolicy(deadline=1, started_at=NOW - 9), version=0, failed=(FailedPod("p0-0", 3),)
    )
    whole = msgspec.structs.replace(others("p0", "Running"), life=life, made_by_us=made_by_us)
    assert (next_step(whole, NOW) is None) is not made_by_us
    quiet = msgspec.structs.replace(whole, life=Life(version=0))
    assert next_step(quiet, NOW) == (Record("uid-p0", 1) if made_by_us else None)


SURPLUS = (others("p0", "Running"), others("d0", "Running"))


def unbound(limit: int, used: int, name: str = "p1") -> Instance:
    return others(name, "Admitted", budget=RestartBudget(limit, used))


@pytest.mark.parametrize(
    ("limit", "used", "reserve", "revoked"),
    [
        *[
            (6, 2, -1, True),
            (6, 3, -1, False),
            (5, 2, -1, True),
            (5, 3, -1, False),
            (3, 0, -1, True),
        ],
        *[(2, 0, -1, False), (2, 0, 1, True), (1, 0, 0, True), (1, 1, 0, False)],
    ],
)
def test_a_revocation_leaves_the_reserve_of_restarts(
    limit: int, used: int, reserve: int, revoked: bool
) -> None:
    made = decided("1P1D", *SURPLUS, unbound(limit, used), policy=Policy(restart_reserve=reserve))
    assert made.actions == ((Revoke("uid-p1"),) if revoked else ())
    expected = (
        (State.HELD, Reason.REVOKED)
        if revoked
        else (State.ADMITTED, Reason.REVOKE_WOULD_COST_RESTARTS)
    )
    assert said(made, "p1")[:2] == expected


def test_the_words_name_the_restarts() -> None:
    made = decided("1P1D", *SURPLUS, unbound(4, 2))
    assert "2 of its 4 restarts are used, 2 are kept for faults" in said(made, "p1")[2]


def test_who_can_pay_gives_way_before_who_cannot() -> None:
    made = decided("2P1D", *SURPLUS, unbound(9, 0), unbound(2, 2, "p2"))
    assert made.actions == (Revoke("uid-p1"),)
    assert said(made, "p2")[1] is Reason.WAITING_FOR_SCHEDULER


def test_nothing_says_so_while_nothing_would_be_revoked() -> None:
    assert said(decided("2P", SURPLUS[0], unbound(2, 2)), "p1")[1] is Reason.WAITING_FOR_SCHEDULER


def test_a_decision_that_oversteps_is_found_out() -> None:
    before = seen("1P1D", *SURPLUS, unbound(2, 2), others("p3", pods=0, gated=0))
    made = decide(before)
    for action, name in [
        (Revoke("uid-p1"), "cannot spare a restart"),
        (Admit("uid-p3"), "has no pod to release"),
        (Record("uid-p0", 1), "which others make and mind"),
        (Revoke("uid-p3"), "none of its pods was released"),
    ]:
        wrong = msgspec.structs.replace(
            made, plans=(msgspec.structs.replace(made.plans[0], actions=(action,)),)
        )
        assert any(name in found for found in violations(before, wrong)), name


def test_who_may_use_any_node_waits_for_pods_of_who_may_not_as_long_as_an_attempt_lasts() -> None:
    unmade = on_nodes("1P", "p0@b gone", others=True, name="b")
    picky = on_nodes("1P", "p0@b held", others=True, name="b")
    easy = on_nodes("1P", "p0@ab held", others=True, name="a")
    story = Story("a:8 b:8")
    assert story.at(0, unmade, easy) == {}
    assert story.at(1, picky, easy) == {"b-p0": "Admit"}
    never = Story("a:8 b:8")
    assert [never.at(time, unmade, easy) for time in (0, 29, 30)] == [{}, {}, {"a-p0": "Admit"}]


def _with_a_later_role(prefill: str, *, bound_at: float = 0.0) -> Service:
    """1P1D, whose decode instance of two pods is made only when prefill is ready."""
    of = on_nodes("1P1D", f"p0 {prefill}, d0 gone + gone", others=True, name="a", age=9)
    prefill_instance, decode = of.instances
    later = msgspec.structs.replace(decode, more_to_come=True, newest=bound_at)
    return msgspec.structs.replace(of, instances=(prefill_instance, later))


OTHER = on_nodes("1P", "p0 held 2", name="b")


def test_the_first_role_is_released_when_there_is_room_for_both() -> None:
    """2: "one role when another is ready: what its owner makes only later counts as there from the
    start, by its template. The first part is released when room for all is reserved"."""
    made = decide(world(_with_a_later_role("held"), OTHER, nodes="a:8x3"))
    assert {each.uid for each in made.plans[0].actions} == {"a-p0"}
    assert said(made.plans[0], "d0")[1] is Reason.WAITING_FOR_SCHEDULER
    assert made.plans[1].actions == ()
    crowded = decide(world(_with_a_later_role("held"), OTHER, nodes="a:8x2"))
    assert crowded.plans[0].actions == ()
    assert [type(each) for each in crowded.plans[1].actions] == [Admit]


def test_the_room_of_a_later_role_stays_reserved_without_a_clock_for_start_timeout() -> None:
    """2: "that room stays reserved, without a clock, while the first part is starting, at most
    start_timeout"."""
    story = Story("a:8x3", start_timeout=600)
    starting = _with_a_later_role("on a0", bound_at=NOW)
    for time in (0, 40, 80, 400, 599):
        assert story.at(time, starting, OTHER, bound=True) == {}, time
        assert not story.remembered(starting).began
    assert story.at(600, starting, OTHER) == {}
    assert story.remembered(starting).began == NOW + 600, "then it is not made in time"
    story.at(630, starting, OTHER)
    story.at(630.1, starting, OTHER)
    assert story.remembered(starting).backoff_until > NOW + 630
    assert story.reasons["b-p0"] == Reason.WAITING_FOR_SCHEDULER
