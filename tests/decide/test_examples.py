"""The documented examples, literally, and one test per promise that has an example of its own."""

from __future__ import annotations

import msgspec
import pytest

from scaler.decide.decision import Admit, Complete, Plan, Revoke, State
from scaler.decide.memory import InstanceMemory
from scaler.decide.world import Policy, ServiceKey
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from tests.builders import NOW, decision, instance, instances, plan, remembering, service


def admitted(made: Plan) -> str:
    return names(made, Admit)


def names(made: Plan, action: type) -> str:
    return " ".join(
        sorted(one.uid.removeprefix("uid-") for one in made.actions if isinstance(one, action))
    )


def reasons(made: Plan) -> dict[str, Reason]:
    return {verdict.name: verdict.reason for verdict in made.verdicts}


def test_nothing_runs_so_the_smallest_ratio_is_the_target_and_all_it_needs_is_admitted() -> None:
    made = plan(service("2P1D > 1P1D", "p0 Held, p1 Held, d0 Held"))
    assert made.target == {"group0": 1, "group1": 1}
    assert admitted(made) == "d0 p0"
    assert reasons(made)["p1"] is Reason.WAITING_FOR_RATIO


def test_one_prefill_runs_and_no_decode_so_only_the_decode_is_admitted() -> None:
    made = plan(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"))
    assert admitted(made) == "d0"
    waiting = next(verdict for verdict in made.verdicts if verdict.name == "p1")
    assert (waiting.reason, waiting.about) == (Reason.WAITING_FOR_RATIO, ("group1",))


@pytest.mark.parametrize(
    ("running", "target", "starts"),
    [
        ("p0 Held, p1 Held, d0 Held", 1, "d0 p0"),
        ("p0 Running, p1 Held, d0 Held", 1, "d0"),
        ("p0 Running, p1 Held, d0 Running", 0, "p1"),
        ("p0 Running, p1 Running, p2 Held, d0 Running", 0, ""),
        ("p0 Running, p1 Running, p2 Held, d0 Held", 1, "d0"),
    ],
)
def test_the_table_measured_with_the_real_functions_comes_out(
    running: str, target: int, starts: str
) -> None:
    made = plan(service("2P1D > 1P1D", running))
    assert (made.target_index, admitted(made)) == (target, starts)


def test_a_service_serves_at_its_minimum_and_is_complete_at_the_largest_ratio() -> None:
    part = "p0 Running, p1 Held, d0 Held"
    serving = "p0 Running, p1 Held, d0 Running"
    whole = "p0 Running, p1 Running, d0 Running"
    made = [plan(service("2P1D > 1P1D", text)) for text in (part, serving, whole)]
    assert [(each.serves, each.complete) for each in made] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_a_group_missing_in_the_smallest_ratio_waits_instead_of_crashing() -> None:
    made = plan(service("2P1D > 1P", "p0 Held, d0 Held"))
    assert admitted(made) == "p0"
    assert reasons(made)["d0"] is Reason.WAITING_FOR_RATIO


def test_a_misspelt_group_is_named_and_takes_nobody_down() -> None:
    made = plan(service("1P", "p0 Held, prefil Held"))
    assert admitted(made) == "p0"
    assert reasons(made)["prefil"] is Reason.GROUP_UNKNOWN


def test_jobs_applied_together_do_not_exceed_the_target_while_they_start() -> None:
    made = plan(service("2P1D > 1P1D", "p0 Admitted, p1 Held, p2 Held, d0 Starting"))
    assert made.actions == ()


def test_p2_comes_before_p10_when_both_are_of_one_age() -> None:
    jobs = tuple(instance(name, created=NOW) for name in ("p10", "p2"))
    assert admitted(plan(service("1P", jobs))) == "p2"


@pytest.mark.parametrize("prefill", ["Terminating", "Held", "Admitted"])
def test_where_nodes_are_not_known_an_unbound_scale_up_is_revoked_when_the_smallest_ratio_breaks(
    prefill: str,
) -> None:
    """A ladder of 1P1D and 1P2D: the second decode waits unbound when the prefill dies. Nobody
    knows whether there is room for both."""
    made = plan(service("1P2D > 1P1D", f"p0 {prefill}, d0 Running, d1 Admitted"))
    assert (names(made, Revoke), reasons(made)["d1"]) == ("d1", Reason.REVOKED)


@pytest.mark.parametrize("decode", ["Starting", "Running"])
def test_unbound_instances_beyond_the_largest_ratio_are_revoked_the_newest_admission_first(
    decode: str,
) -> None:
    made = plan(
        service("2P1D > 1P1D", f"p0 Running, p1 Admitted, p2 Admitted, p3 Admitted, d0 {decode}")
    )
    assert names(made, Revoke) == "p2 p3"
    assert reasons(made)["p3"] is Reason.REVOKED
    early = instance("p1", "Admitted", admitted_at=NOW - 1)
    made = plan(
        service(
            "2P1D > 1P1D", (*service(None, "p0 Running, p2 Admitted, d0 Running").instances, early)
        )
    )
    assert names(made, Revoke) == "p1"


def test_beyond_counts_from_the_largest_ratio_that_has_enough_jobs() -> None:
    made = plan(service("3P2D > 1P1D", "p0 Running, p1 Admitted, d0 Running"))
    assert names(made, Revoke) == "p1", "3P2D needs jobs that do not exist"


def test_an_instance_with_a_bound_pod_is_never_revoked() -> None:
    half_bound = instance("p1", "Admitted", bound=1)
    made = plan(service("1P1D", (instance("p0", "Running"), half_bound, instance("d0", "Held"))))
    assert names(made, Revoke) == ""


def test_nothing_is_revoked_where_revoking_is_off() -> None:
    made = plan(service("1P1D", "p0 Running, p1 Admitted, d0 Running"), policy=Policy(revoke=False))
    assert made.actions == ()


def test_a_ratio_beyond_the_jobs_that_exist_is_skipped_and_said() -> None:
    made = plan(service("2P2D > 2P1D > 1P1D", "p0 Running, p1 Running, d0 Running"))
    assert (made.target_index, made.complete) == (1, True)
    assert [note.warning for note in made.notes] == [Warning.TARGET_UNREACHABLE]


def test_without_jobs_enough_for_any_ratio_the_smallest_is_the_target() -> None:
    made = plan(service("2P1D > 1P1D", "p0 Held"))
    assert (made.target_index, made.complete, admitted(made)) == (1, False, "p0")


def test_a_broken_instance_keeps_its_slot_for_the_grace_and_then_loses_it() -> None:
    seen = service("1P", "p0 Broken, p1 Held")
    first = decision(seen)
    assert (admitted(first.plans[0]), first.recheck_at) == ("", NOW + 60)
    assert admitted(plan(seen, memory=first.memory, now=NOW + 59.9)) == ""
    assert admitted(plan(seen, memory=first.memory, now=NOW + 60)) == "p1"


def test_what_never_runs_is_broken_after_the_start_timeout_and_then_gives_way_to_a_spare() -> None:
    seen = service("1P", "p0 Starting, p1 Held")
    first = decision(seen)
    assert first.recheck_at == NOW + 1800
    early = plan(seen, memory=first.memory, now=NOW + 1799)
    assert (reasons(early)["p0"], admitted(early)) == (Reason.STARTING, "")
    late = decision(seen, memory=first.memory, now=NOW + 1800)
    assert (reasons(late.plans[0])["p0"], admitted(late.plans[0])) == (Reason.BROKEN, "")
    assert admitted(plan(seen, memory=late.memory, now=NOW + 1860)) == "p1"


def test_an_instance_that_runs_again_when_it_is_one_too_many_is_surplus() -> None:
    made = plan(service("1P", "p0 Running, p1 Running"))
    assert reasons(made) == {"p0": Reason.RUNNING, "p1": Reason.SURPLUS_RUNNING}
    assert made.actions == ()


def test_a_restart_makes_an_instance_broken_until_it_is_stable() -> None:
    once, again = (service("1P", [instance("p0", "Running", restarts=number)]) for number in (1, 2))
    made = decision(again, memory=decision(once).memory)
    assert (made.plans[0].verdicts[0].state, made.recheck_at) == (State.BROKEN, NOW + 30)
    assert plan(again, memory=made.memory, now=NOW + 30).verdicts[0].state is State.RUNNING


def test_a_restart_count_seen_for_the_first_time_is_no_restart() -> None:
    made = plan(service("1P", [instance("p0", "Running", restarts=7)]))
    assert made.verdicts[0].state is State.RUNNING


def test_a_half_made_instance_is_completed_while_its_slot_is_its_own() -> None:
    half = instance("p0", "Admitted", pods=1)
    assert names(plan(service("1P", [half])), Complete) == "p0"


def test_a_half_made_instance_above_the_largest_ratio_is_undone() -> None:
    half = instance("p1", "Admitted", pods=1)
    assert names(plan(service("1P", (instance("p0", "Running"), half))), Revoke) == "p1"


def test_a_half_made_instance_above_the_target_is_undone() -> None:
    """It can neither be completed nor be of use as it is: a crash in the middle is completed or
    undone (S2)."""
    half = instance("p1", "Admitted", pods=1)
    made = plan(
        service("2P1D > 1P1D", (instance("p0", "Running"), half, instance("d0", "Terminating")))
    )
    assert names(made, Revoke) == "p1"


def test_healing_an_instance_that_lost_its_slot_takes_the_place_of_a_new_admission() -> None:
    broken = instance("p0", "Broken", pods=1, bound=1, running=1)
    seen = service("1P", (broken, instance("p1", "Held")))
    late = remembering(seen, (broken.uid, InstanceMemory(broken_since=NOW - 100)))
    made = plan(seen, memory=late)
    assert (names(made, Complete), admitted(made)) == ("p0", "")


def test_a_job_that_is_being_deleted_does_not_keep_a_ratio_within_reach() -> None:
    leaving = instance("p1", "Running", owner_deleting=True)
    made = plan(
        service("2P1D > 1P1D", (instance("p0", "Running"), leaving, instance("d0", "Running")))
    )
    assert (made.target_index, made.complete) == (1, True)


def test_a_job_that_is_not_ours_is_not_touched_whatever_it_lacks() -> None:
    training = instance("p0", "Broken", pods=1, bound=1, running=1, label_problem=Reason.NOT_SERVED)
    ours = instance("controller", "Held", group=None)
    made = plan(service(None, (training, ours), key=ServiceKey("default", "", "")))
    assert [action.uid for action in made.actions] == [ours.uid]


def test_a_running_job_that_is_not_ours_says_so_and_counts_for_nobody() -> None:
    training = instance("p0", "Running", label_problem=Reason.NOT_SERVED)
    made = plan(service("1P", (training, instance("p1", "Held"))))
    assert (admitted(made), reasons(made)["p0"]) == ("p1", Reason.NOT_SERVED)


def test_a_job_that_no_pods_can_be_made_from_never_counts_as_running() -> None:
    shapeless = instance(
        "p0", "Held", expected=0, faults=("InvalidSpecs: spec.replicaSpecs is not set",)
    )
    seen = service("1P", (shapeless, instance("p1", "Held")))
    first = decision(seen)
    again = plan(seen, memory=first.memory)
    assert (admitted(first.plans[0]), admitted(again)) == ("p1", "p1")
    assert reasons(again)["p0"] is Reason.JOB_INVALID


def test_trouble_shows_in_every_pass_not_only_in_the_first() -> None:
    for trouble in ("crashing", "faulty", "terminating"):
        memory = decision(service("1P", "p0 Running")).memory
        seen = service("1P", [instance("p0", "Running", **{trouble: 1})])
        assert plan(seen, memory=memory).verdicts[0].state is State.BROKEN


def test_while_writes_are_under_way_nothing_is_done_to_a_service() -> None:
    seen = msgspec.structs.replace(
        service("2P1D > 1P1D", "p0 Held, p1 Held, d0 Held"), assumed=True
    )
    assert plan(seen).actions == ()


def test_a_creation_that_was_refused_is_tried_again_alone() -> None:
    seen = service("2P1D > 1P1D", "p0 Held, d0 Held")
    refused = InstanceMemory(refused="exceeded quota", refused_until=NOW - 1, refused_times=1)
    made = plan(seen, memory=remembering(seen, ("uid-p0", refused)))
    assert admitted(made) == "p0"
    made = plan(
        service("2P1D > 1P1D", "p0 Admitted, d0 Held"),
        memory=remembering(seen, ("uid-p0", refused)),
    )
    assert admitted(made) == "d0"


@pytest.mark.parametrize(("assumed", "times"), [(True, 3), (False, 0)], ids=["assumed", "seen"])
def test_pods_that_are_only_assumed_do_not_end_the_pauses_after_refusals(
    assumed: bool, times: int
) -> None:
    """Other services are decided about while an instance is created, and its refusal comes after
    that."""
    seen = msgspec.structs.replace(service("1P1D", "p0 Admitted, d0 Held"), assumed=assumed)
    refused = InstanceMemory(refused="exceeded quota", refused_until=NOW - 1, refused_times=3)
    after = decision(seen, memory=remembering(seen, ("uid-p0", refused))).memory
    assert after.services[str(seen.key)].instances["uid-p0"].refused_times == times


def test_a_refused_creation_leaves_its_place_to_the_next_of_its_group() -> None:
    seen = service("1P1D", "p0 Held, p1 Held, d0 Held")
    refused = InstanceMemory(refused="exceeded quota", refused_until=NOW + 9, refused_times=1)
    made = plan(seen, memory=remembering(seen, ("uid-p0", refused)))
    assert (admitted(made), reasons(made)["p0"]) == ("d0 p1", Reason.CREATE_REFUSED)


@pytest.mark.parametrize(
    ("until", "target", "goes", "waits"),
    [(NOW + 9, 1, "", Reason.CREATE_REFUSED), (NOW - 1, 0, "p1", None)],
    ids=["pauses", "is due"],
)
def test_a_ratio_that_only_a_refused_creation_could_fill_is_not_aimed_at(
    until: float, target: int, goes: str, waits: Reason | None
) -> None:
    """1, live; 3.7: when it is due again, it is tried alone."""
    seen = service("2P2D > 1P1D", "p0 Running, d0 Running, p1 Held, d1 Held")
    refused = InstanceMemory(refused="exceeded quota", refused_until=until, refused_times=1)
    made = plan(seen, memory=remembering(seen, ("uid-p1", refused)))
    assert (made.target_index, admitted(made)) == (target, goes)
    assert reasons(made)["d1"] is Reason.WAITING_FOR_RATIO
    assert waits is None or reasons(made)["p1"] is waits


def test_a_partner_of_a_refused_creation_is_revoked() -> None:
    """1, live; 3.5: without it the partner is beyond the largest ratio."""
    seen = service("2P2D > 1P1D", "p0 Running, d0 Running, p1 Held, d1 Admitted")
    refused = InstanceMemory(refused="exceeded quota", refused_until=NOW + 9, refused_times=1)
    made = plan(seen, memory=remembering(seen, ("uid-p1", refused)))
    assert [type(one).__name__ for one in made.actions] == ["Revoke"]


def test_a_job_that_is_invalid_is_not_live_and_no_ratio_counts_on_it() -> None:
    spoilt = instance(
        "p1", "Held", faults=("InvalidContainer: there is no container named ascend",)
    )
    made = plan(service("2P1D > 1P1D", (*instances("p0 Running, d0 Running"), spoilt)))
    assert (made.target_index, made.complete) == (1, True)
    assert reasons(made)["p1"] is Reason.JOB_INVALID
