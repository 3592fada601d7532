"""Section 3b of the contract, clause by clause: each fails without it."""

from __future__ import annotations

import msgspec
import pytest
from scaler.decide.arbiter import arbitrate
from scaler.decide.planner import plan
from scaler.decide.room.placement import Board
from scaler.decide.room.promises import Placement
from scaler.decide.room.shortage import Shortage

from scaler.decide import arbiter
from scaler.decide.nodes import PodRequests
from scaler.decide.world import ArbiterMemory, Policy, Reason, Revoke
from scaler.rules.rule import RuleOptions
from tests.builders import NOW
from tests.decide.arbitration.clauses import abouts, decide, doings, reasons, state
from tests.decide.arbitration.view import Setting, alone, capacity, controller
from tests.decide.arbitration.world import world

SMALL = "1P1D: p d"
LADDER = "2P1D > 1P1D: p p d"


# 1. what is admitted and unbound


def test_an_admitted_minimum_that_no_longer_fits_is_taken_back_whole() -> None:
    w = world((2,), SMALL, SMALL)
    outcome = decide(w, state(w, "0.p0 u, 0.d0 u", up=(1,), down=(1,)))
    assert doings(w, outcome) == {"0.p0": "Revoke", "0.d0": "Revoke"}
    assert reasons(w, outcome)["0.p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_an_admitted_minimum_goes_before_an_older_one_that_is_held() -> None:
    w = world((2,), SMALL, SMALL)
    outcome = decide(w, state(w, "1.p0 u, 1.d0 u"))
    assert doings(w, outcome) == {}
    assert reasons(w, outcome)["0.p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_an_admitted_minimum_needs_room_for_its_held_part_too() -> None:
    w = world((3,), SMALL, SMALL, "1P1D: p2 d")
    outcome = decide(w, state(w, "2.p0 0u, 2.d0 -", up=(1,)))
    assert doings(w, outcome) == {}, "a pod of it is bound: nothing may be taken back, and there is no room for more"
    outcome = decide(w, state(w, "0.p0 u", up=(1,)))
    assert doings(w, outcome) == {"0.p0": "Revoke"}


def test_what_is_left_of_a_minimum_that_was_begun_stays_reserved_until_it_serves() -> None:
    """Beside another operator its pods come one after the other; meanwhile an older service may have come."""
    w = world((2,), "1P: p", SMALL)
    begun = decide(w, state(w, "1.p0 u"))
    assert doings(w, begun) == {"1.d0": "Admit"}
    bound = state(w, "1.p0 0")
    assert doings(w, decide(w, bound, memory=begun.memory)) == {"1.d0": "Admit"}
    assert doings(w, decide(w, bound)) == {"0.p0": "Admit"}, "who was whole before, or is not known, waits for his turn"


# 2. minimums in order


def test_the_older_service_goes_first_and_only_whole() -> None:
    w = world((3,), SMALL, SMALL)
    outcome = decide(w, state(w, ""))
    assert doings(w, outcome) == {"0.p0": "Admit", "0.d0": "Admit"}
    assert reasons(w, outcome)["1.p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_the_words_say_what_is_missing() -> None:
    w = world((2,), SMALL, SMALL)
    assert abouts(w, decide(w, state(w, "")))["1.d0"] == "needs 2 nodes with 1 free x/npu, 0 there"


def test_a_smaller_minimum_goes_where_a_bigger_one_before_it_does_not_fit() -> None:
    w = world((2,), "1P1D: p2 d", SMALL)
    assert doings(w, decide(w, state(w, "", down=(1,)))) == {"1.p0": "Admit", "1.d0": "Admit"}


@pytest.mark.parametrize(
    ("annotations", "classes", "first"),
    [
        ((None, 5), (0, 0), "1"),
        ((7, 5), (0, 0), "0"),
        ((None, None), (0, 5), "1"),
        ((10, None), (0, 5), "0"),
        ((-1, None), (0, 0), "1"),
        ((100, 200), (0, 0), "0"),  # both are worth the most that is allowed
    ],
)
def test_priority_goes_before_age(annotations: tuple[int | None, ...], classes: tuple[int, ...], first: str) -> None:
    w = world((2,), SMALL, SMALL)
    options = tuple(RuleOptions(service_priority=each) for each in annotations)
    setting = Setting(options, classes, Policy(max_service_priority=100))
    assert doings(w, decide(w, state(w, ""), setting)) == {f"{first}.p0": "Admit", f"{first}.d0": "Admit"}


def test_alone_on_its_nodes_a_minimum_is_admitted_whether_it_fits_or_not() -> None:
    w = world((1,), SMALL)
    assert doings(w, decide(w, state(w, ""))) == {"0.p0": "Admit", "0.d0": "Admit"}


def test_sharing_is_a_static_fact_whatever_the_other_does_now() -> None:
    w = world((2, 2), "1P1D: p@0 d@0", "1P1D: p@01 d@1")
    assert (
        reasons(w, decide(w, state(w, "1.p0 1, 1.d0 1", up=(1, 2), down=(1, 0))))["0.p0"] is Reason.MINIMUM_DOES_NOT_FIT
    )


def test_a_minimum_without_all_its_jobs_is_held_blocks_nobody_and_gives_back_what_it_had() -> None:
    w = world((3,), "1P2D: p d", LADDER)
    outcome = decide(w, state(w, "0.p0 u, 1.p0 0, 1.d0 0"))
    assert reasons(w, outcome)["0.p0"] is Reason.MINIMUM_INCOMPLETE
    assert abouts(w, outcome)["0.d0"] == "group1 has 1 of 2"
    assert doings(w, outcome)["0.p0"] == "Revoke"
    outcome = decide(w, state(w, "1.p0 0, 1.d0 0"))
    assert doings(w, outcome) == {"1.p1": "Admit"}


def test_a_minimum_without_all_its_jobs_is_admitted_where_it_is_alone() -> None:
    w = world((3,), "1P2D: p d")
    assert doings(w, decide(w, state(w, ""))) == {"0.p0": "Admit", "0.d0": "Admit"}


def test_a_minimum_that_is_too_large_for_empty_nodes_is_held_and_blocks_nobody() -> None:
    w = world((3,), "1P1D: p2 d2", LADDER)
    outcome = decide(w, state(w, "1.p0 0, 1.d0 0"))
    assert doings(w, outcome) == {"1.p1": "Admit"}
    assert reasons(w, outcome)["0.p0"] is Reason.MINIMUM_TOO_LARGE


def test_a_minimum_that_empty_nodes_would_not_take_as_a_whole_blocks_nobody_though_the_rest_of_it_fits() -> None:
    w = world((5, 0), "1P1D: p@1 d", LADDER)
    outcome = decide(w, state(w, "0.p0 0, 0.d0 u, 1.p0 0, 1.d0 0"))  # the node of p0 was of kind 1 once
    assert doings(w, outcome) == {"1.p1": "Admit"}


def test_the_minimum_is_what_is_nearest_to_running() -> None:
    w = world((3,), "2P > 1P: p2 p2", "1P: p")
    s = state(w, "0.p0 u, 0.p1 0u")
    outcome = decide(w, s, Setting(policy=Policy(revoke=False)))
    assert doings(w, outcome) == {"1.p0": "Admit"}, "of the older service one pod is missing, not two"


def test_a_broken_instance_that_keeps_its_place_belongs_to_the_minimum() -> None:
    w = world((4,), SMALL, SMALL)
    s = state(w, "0.p0 0")
    (seen, _), other = alone(w, s)
    broken = msgspec.structs.replace(seen.instances[0], crashing=1)
    seen = msgspec.structs.replace(seen, instances=(broken, *seen.instances[1:]))
    pairs = [(seen, plan(seen)[0]), other]
    outcome = arbitrate(pairs, capacity(w, s), ArbiterMemory(), now=NOW, policy=Policy())
    assert doings(w, outcome) == dict.fromkeys(("0.d0", "1.p0", "1.d0"), "Admit")


def test_a_minimum_is_found_room_for_by_moving_what_is_promised() -> None:
    w = world((1, 1, 1), "1P: p@01", "1P: p@02", "1P: p@0")
    outcome = decide(w, state(w, ""))
    assert not {Reason.MINIMUM_DOES_NOT_FIT, Reason.MINIMUM_TOO_LARGE} & set(reasons(w, outcome).values())


def test_a_flexible_instance_waits_while_it_could_spoil_what_is_reserved() -> None:
    w = world((1, 1), "1P: p", "1P: p@0")
    outcome = decide(w, state(w, ""))
    assert doings(w, outcome) == {"1.p0": "Admit"}
    assert reasons(w, outcome)["0.p0"] is Reason.YIELDS_TO_MINIMUM
    assert doings(w, decide(w, state(w, "1.p0 0"))) == {"0.p0": "Admit"}


def test_of_those_that_could_go_one_by_one_the_most_restricted_go() -> None:
    w = world((1, 1, 1), "1P: p@01", "1P: p", "1P: p@12")
    assert doings(w, decide(w, state(w, ""))) == {"0.p0": "Admit", "2.p0": "Admit"}


def test_where_each_could_spoil_the_other_one_of_them_begins() -> None:
    w = world((1, 2, 1), "1P: p2@01", "1P: p2@12")
    outcome = decide(w, state(w, ""))
    assert list(doings(w, outcome).values()) == ["Admit"]
    assert sorted(reasons(w, outcome).values()) == [Reason.WAITING_FOR_SCHEDULER, Reason.YIELDS_TO_MINIMUM]


def test_a_flexible_instance_goes_at_once_where_there_is_room_to_spare() -> None:
    w = world((2, 1), "1P: p", "1P: p@0")
    assert doings(w, decide(w, state(w, ""))) == {"0.p0": "Admit", "1.p0": "Admit"}


# 3. climbs


def test_a_climb_is_admitted_only_as_far_as_it_fits() -> None:
    w = world((6,), "3P1D > 1P1D: p p p d", SMALL)
    outcome = decide(w, state(w, "0.p0 0, 0.d0 0, 1.p0 0, 1.d0 0", up=(5,)))
    assert doings(w, outcome) == {"0.p1": "Admit"}
    assert reasons(w, outcome)["0.p2"] is Reason.WAITING_FOR_CAPACITY


def test_a_climb_is_admitted_alone_on_its_nodes_whether_it_fits_or_not() -> None:
    w = world((2,), LADDER)
    assert doings(w, decide(w, state(w, "0.p0 0, 0.d0 0"))) == {"0.p1": "Admit"}


def test_an_unbound_climb_that_no_longer_fits_is_taken_back() -> None:
    w = world((4,), LADDER, SMALL)
    s = "0.p0 0, 0.d0 0, 1.p0 0, 1.d0 0, 0.p1 u"
    assert doings(w, decide(w, state(w, s))) == {"0.p1": "Revoke"}
    assert doings(w, decide(w, state(w, s, up=(5,)))) == {}, "its own reservation does not count against it"


@pytest.mark.parametrize(("climb", "doing"), [("-", None), ("u", "Revoke"), ("0", None)])
def test_a_waiting_minimum_blocks_a_climb_and_takes_it_back_unless_it_is_bound(climb: str, doing: str | None) -> None:
    w = world((4,), LADDER, SMALL)
    outcome = decide(w, state(w, f"0.p0 0, 0.d0 0, 0.p1 {climb}, 1.p0 u, 1.d0 u", up=(6,)))
    assert doings(w, outcome) == ({"0.p1": doing} if doing else {})
    if climb != "0":
        assert reasons(w, outcome)["0.p1"] is Reason.YIELDS_TO_MINIMUM
        assert abouts(w, outcome)["0.p1"] == "default/rule/s1"


def test_room_that_is_due_back_counts_for_the_minimum_that_waits_for_it() -> None:
    w = world((4,), LADDER, SMALL)
    s = "0.p0 0, 0.d0 0"
    assert reasons(w, decide(w, state(w, s, up=(3,), down=(1,))))["0.p1"] is Reason.YIELDS_TO_MINIMUM
    assert doings(w, decide(w, state(w, s, up=(3,)))) == {"0.p1": "Admit"}, "the minimum could not use the node"


def test_a_minimum_on_other_nodes_blocks_nobody() -> None:
    w = world((3, 2), "2P1D > 1P1D: p@0 p@0 d@0", "1P1D: p@1 d@1", "1P: p@0")
    outcome = decide(w, state(w, "0.p0 0, 0.d0 0, 1.p0 u, 1.d0 u, 2.p0 0", up=(4, 2)))
    assert doings(w, outcome) == {"0.p1": "Admit"}


def test_a_minimum_blocks_nobody_where_the_nodes_that_they_share_are_full() -> None:
    w = world((2, 2, 1), "1P1D: p@0 d@01", "2P1D > 1P1D: p@12 p@12 d@12", "1P: p@0")
    outcome = decide(w, state(w, "2.p0 0, 1.p0 1, 1.d0 1"))
    assert doings(w, outcome)["1.p1"] == "Admit"


# 4. taking back


def test_what_is_taken_back_keeps_its_room_for_the_minimum_until_it_is_gone() -> None:
    w = world((4,), LADDER, SMALL, "1P: p")
    made = controller(w, state(w, "0.p0 0, 0.d0 0, 0.p1 u"))
    assert doings(w, made.outcome) == {"0.p1": "Revoke"}
    assert reasons(w, made.outcome)["1.p0"] is reasons(w, made.outcome)["2.p0"] is Reason.MINIMUM_DOES_NOT_FIT
    assert doings(w, decide(w, made.after)) == {"1.p0": "Admit", "1.d0": "Admit"}


def test_missing_pods_of_a_bound_climb_wait_for_a_minimum_too() -> None:
    w = world((5,), "2P1D > 1P1D: p p2 d", SMALL)
    outcome = decide(w, state(w, "0.p0 0, 0.d0 0, 0.p1 0-"))
    assert doings(w, outcome) == {"1.p0": "Admit", "1.d0": "Admit"}
    assert reasons(w, outcome)["0.p1"] is Reason.YIELDS_TO_MINIMUM


def test_a_climb_with_a_bound_pod_is_never_taken_back_and_keeps_its_room() -> None:
    w = world((4,), "2P1D > 1P1D: p p2 d", SMALL)
    outcome = decide(w, state(w, "0.p0 0, 0.d0 0, 0.p1 0u", up=(5,)))
    assert doings(w, outcome) == {}
    assert reasons(w, outcome)["0.p1"] is Reason.WAITING_FOR_SCHEDULER
    assert reasons(w, outcome)["1.p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_nothing_is_taken_back_where_that_is_switched_off_and_it_keeps_its_room() -> None:
    w = world((4,), LADDER, SMALL)
    s = state(w, "0.p0 0, 0.d0 0, 0.p1 u")
    outcome = decide(w, s, Setting(policy=Policy(revoke=False)))
    assert doings(w, outcome) == {}
    assert reasons(w, outcome)["0.p1"] is Reason.WAITING_FOR_SCHEDULER
    assert reasons(w, outcome)["1.p0"] is Reason.MINIMUM_DOES_NOT_FIT


def test_what_would_cost_a_restart_too_many_stays_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arbiter, "may_be_taken_back", lambda *_: False)
    w = world((4,), LADDER, SMALL)
    outcome = decide(w, state(w, "0.p0 0, 0.d0 0, 0.p1 u"))
    assert doings(w, outcome) == {}
    assert reasons(w, outcome)["0.p1"] is Reason.REVOKE_WOULD_COST_RESTARTS
    assert reasons(w, outcome)["1.p0"] is Reason.MINIMUM_DOES_NOT_FIT


@pytest.mark.parametrize(
    ("pods", "up"), [("0.p0 u, 0.d0 u", 1), ("0.p0 0, 0.d0 0, 0.p1 u, 1.p0 0, 1.d0 0", 4)], ids=["minimum", "climb"]
)
def test_what_may_fit_after_all_is_not_taken_back(monkeypatch: pytest.MonkeyPatch, pods: str, up: int) -> None:
    """The search for a place is bounded; this one gave up."""

    def unsure(board: Board, needs: PodRequests) -> Placement | Shortage:
        found = place(board, needs)
        return msgspec.structs.replace(found, undecided=True) if isinstance(found, Shortage) else found

    w = world((4,), LADDER, SMALL)
    s = state(w, pods, up=(up,), down=(4 - up,))
    assert "Revoke" in doings(w, decide(w, s)).values()
    place = Board.place
    monkeypatch.setattr(Board, "place", unsure)
    assert doings(w, decide(w, s)) == {}


# 6. who takes part


def test_a_service_that_opted_out_is_neither_held_nor_heard() -> None:
    w = world((2,), SMALL, SMALL)
    setting = Setting((RuleOptions(arbitration=False), RuleOptions()))
    assert doings(w, decide(w, state(w, ""), setting)) == dict.fromkeys(("0.p0", "0.d0", "1.p0", "1.d0"), "Admit")


def test_a_paused_service_is_not_touched_and_what_it_has_admitted_keeps_its_room() -> None:
    w = world((3,), SMALL, SMALL)
    setting = Setting((RuleOptions(paused=True), RuleOptions()))
    outcome = decide(w, state(w, "0.p0 u, 0.d0 u"), setting)
    assert doings(w, outcome) == {}
    assert reasons(w, outcome)["1.p0"] is Reason.MINIMUM_DOES_NOT_FIT
    assert doings(w, decide(w, state(w, ""), setting)) == {"1.p0": "Admit", "1.d0": "Admit"}
    assert doings(w, decide(w, state(w, "0.p0 u, 0.d0 u", up=(1,), down=(2,)), setting)) == {}


def test_without_sight_of_the_nodes_each_decides_alone() -> None:
    w = world((1,), SMALL, SMALL)
    pairs = alone(w, state(w, ""))
    outcome = arbitrate(pairs, None, ArbiterMemory(), now=NOW, policy=Policy())
    assert outcome.plans == tuple(plan for _, plan in pairs)
    assert outcome.tally is None


# The plan that is left


def test_a_hold_lowers_the_count_of_admissions() -> None:
    w = world((2,), SMALL, SMALL)
    outcome = decide(w, state(w, ""))
    assert [group.admit for group in outcome.plans[1].groups.values()] == [0, 0]


def test_what_is_held_leaves_no_pod_group_behind() -> None:
    w = world((2,), SMALL, SMALL)
    s = state(w, "0.p0 0, 0.d0 0")
    first, (seen, made) = alone(w, s)
    left = msgspec.structs.replace(seen.instances[0], leftovers=True)
    seen = msgspec.structs.replace(seen, instances=(left, *seen.instances[1:]))
    outcome = arbitrate([first, (seen, made)], capacity(w, s), ArbiterMemory(), now=NOW, policy=Policy())
    assert outcome.plans[1].actions == (Revoke(left.uid),)


def test_the_tally_counts_who_serves_and_who_waits() -> None:
    w = world((5,), LADDER, SMALL, SMALL)
    tally = decide(w, state(w, "0.p0 0, 0.d0 0, 2.p0 0")).tally
    assert tally is not None
    assert (tally.serving, tally.minimums_waiting, tally.climbs_yielding) == (1, 2, 1)
    assert tally.idle == {"x/npu": 1, "pods": 1}
