"""The documented examples, literally, and one test per promise that has an example of its own."""

from __future__ import annotations

import pytest

from scaler.decide.planner import plan
from scaler.decide.world import (
    Admit,
    Complete,
    InstanceMemory,
    Memory,
    Plan,
    Policy,
    Reason,
    Revoke,
    ServiceKey,
    Snapshot,
    State,
    Warning,
)
from tests.builders import NOW, instance, rule, service, snapshot


def admitted(made: Plan) -> str:
    return names(made, Admit)


def names(made: Plan, action: type) -> str:
    return " ".join(sorted(one.uid.removeprefix("uid-") for one in made.actions if isinstance(one, action)))


def reasons(made: Plan) -> dict[str, Reason]:
    return {verdict.name: verdict.reason for verdict in made.verdicts}


def decided(snapshot: Snapshot) -> Plan:
    return plan(snapshot)[0]


def test_nothing_runs_so_the_smallest_ratio_is_the_target_and_all_it_needs_is_admitted() -> None:
    made = decided(service("2P1D > 1P1D", "p0 Held, p1 Held, d0 Held"))
    assert made.target == {"group0": 1, "group1": 1}
    assert admitted(made) == "d0 p0"
    assert reasons(made)["p1"] is Reason.WAITING_FOR_RATIO


def test_one_prefill_runs_and_no_decode_so_only_the_decode_is_admitted() -> None:
    made = decided(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"))
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
def test_the_table_measured_with_the_real_functions_comes_out(running: str, target: int, starts: str) -> None:
    made = decided(service("2P1D > 1P1D", running))
    assert (made.target_index, admitted(made)) == (target, starts)


def test_a_group_missing_in_the_smallest_ratio_waits_instead_of_crashing() -> None:
    made = decided(service("2P1D > 1P", "p0 Held, d0 Held"))
    assert admitted(made) == "p0"
    assert reasons(made)["d0"] is Reason.WAITING_FOR_RATIO


def test_a_misspelt_group_is_named_and_takes_nobody_down() -> None:
    made = decided(service("1P", "p0 Held, prefil Held"))
    assert admitted(made) == "p0"
    assert reasons(made)["prefil"] is Reason.GROUP_UNKNOWN


def test_jobs_applied_together_do_not_exceed_the_target_while_they_start() -> None:
    made = decided(service("2P1D > 1P1D", "p0 Admitted, p1 Held, p2 Held, d0 Starting"))
    assert made.actions == ()


def test_p2_comes_before_p10_when_both_are_of_one_age() -> None:
    jobs = tuple(instance(name, created=NOW) for name in ("p10", "p2"))
    assert admitted(decided(snapshot(rule("1P"), jobs))) == "p2"


def test_the_unbound_climb_gives_way_when_the_smallest_ratio_breaks() -> None:
    """A ladder of 1P1D and 1P2D on two nodes: the second decode waits unbound when the prefill dies."""
    lost = decided(service("1P2D > 1P1D", "p0 Terminating, d0 Running, d1 Admitted"))
    assert (names(lost, Revoke), reasons(lost)["d1"]) == ("d1", Reason.REVOKEED)
    replaced = decided(service("1P2D > 1P1D", "p0 Admitted, d0 Running, d1 Admitted"))
    assert names(replaced, Revoke) == "d1"


def test_the_newest_admission_is_taken_back_first() -> None:
    made = decided(service("3P1D > 1P1D", "p0 Running, p1 Admitted, p2 Admitted, d0 Held", policy=Policy()))
    assert names(made, Revoke) == "p1 p2"
    made = decided(service("4P1D > 2P1D", "p0 Running, p1 Admitted, p2 Admitted, d0 Held"))
    assert names(made, Revoke) == "p2"


def test_an_instance_with_a_bound_pod_is_never_taken_back() -> None:
    half_bound = instance("p1", "Admitted", bound=1)
    made = decided(snapshot(rule("2P1D > 1P1D"), (instance("p0", "Running"), half_bound, instance("d0", "Held"))))
    assert names(made, Revoke) == ""


def test_surplus_stays_when_nothing_is_missing_or_revoking_is_off() -> None:
    assert decided(service("1P1D", "p0 Running, p1 Admitted, d0 Running")).actions == ()
    off = decided(service("2P1D > 1P1D", "p0 Running, p1 Admitted, d0 Held", policy=Policy(revoke=False)))
    assert names(off, Revoke) == ""


def test_a_ratio_beyond_the_jobs_that_exist_is_skipped_and_said() -> None:
    made = decided(service("2P2D > 2P1D > 1P1D", "p0 Running, p1 Running, d0 Running"))
    assert (made.target_index, made.complete) == (1, True)
    assert [note.warning for note in made.notes] == [Warning.TARGET_UNREACHABLE]


def test_without_jobs_enough_for_any_ratio_the_smallest_is_the_target() -> None:
    made = decided(service("2P1D > 1P1D", "p0 Held"))
    assert (made.target_index, made.complete, admitted(made)) == (1, False, "p0")


def test_a_broken_instance_keeps_its_slot_for_the_grace_and_then_loses_it() -> None:
    before = service("1P", "p0 Broken, p1 Held")
    first, memory = plan(before)
    assert (admitted(first), first.recheck_at) == ("", NOW + 60)
    assert admitted(decided(service("1P", "p0 Broken, p1 Held", memory=memory, now=NOW + 59.9))) == ""
    assert admitted(decided(service("1P", "p0 Broken, p1 Held", memory=memory, now=NOW + 60))) == "p1"


def test_an_instance_that_runs_again_when_it_is_one_too_many_is_surplus() -> None:
    made = decided(service("1P", "p0 Running, p1 Running"))
    assert reasons(made) == {"p0": Reason.RUNNING, "p1": Reason.SURPLUS_RUNNING}
    assert made.actions == ()


def test_a_restart_makes_an_instance_broken_until_it_is_stable() -> None:
    once = (instance("p0", "Running", restarts=1),)
    _, memory = plan(snapshot(rule("1P"), once))
    again = (instance("p0", "Running", restarts=2),)
    made, memory = plan(snapshot(rule("1P"), again, memory=memory))
    assert (made.verdicts[0].state, made.recheck_at) == (State.BROKEN, NOW + 30)
    assert decided(snapshot(rule("1P"), again, memory=memory, now=NOW + 30)).verdicts[0].state is State.RUNNING


def test_a_restart_count_seen_for_the_first_time_is_no_restart() -> None:
    made = decided(snapshot(rule("1P"), (instance("p0", "Running", restarts=7),), memory=Memory()))
    assert made.verdicts[0].state is State.RUNNING


def test_a_half_made_instance_is_completed_while_its_slot_is_its_own() -> None:
    half = instance("p0", "Admitted", pods=1)
    assert names(decided(snapshot(rule("1P"), (half,))), Complete) == "p0"


def test_a_half_made_instance_above_the_target_is_undone() -> None:
    half = instance("p1", "Admitted", pods=1)
    assert names(decided(snapshot(rule("1P"), (instance("p0", "Running"), half))), Revoke) == "p1"


def test_healing_an_instance_that_lost_its_slot_takes_the_place_of_a_new_admission() -> None:
    broken = instance("p0", "Broken", pods=1, bound=1, running=1)
    jobs = (broken, instance("p1", "Held"))
    late = Memory({broken.uid: InstanceMemory(broken_since=NOW - 100)})
    made = decided(snapshot(rule("1P"), jobs, memory=late))
    assert (names(made, Complete), admitted(made)) == ("p0", "")


def test_a_job_that_is_being_deleted_does_not_keep_a_ratio_within_reach() -> None:
    leaving = instance("p1", "Running", owner_deleting=True)
    made = decided(snapshot(rule("2P1D > 1P1D"), (instance("p0", "Running"), leaving, instance("d0", "Running"))))
    assert (made.target_index, made.complete) == (1, True)


def test_a_job_that_is_not_ours_is_not_touched_whatever_it_lacks() -> None:
    training = instance("p0", "Broken", pods=1, bound=1, running=1, label_problem=Reason.NOT_SERVED)
    ours = instance("controller", "Held", group=None)
    made = decided(snapshot(None, (training, ours), key=ServiceKey("default", "", "")))
    assert [action.uid for action in made.actions] == [ours.uid]


def test_a_running_job_that_is_not_ours_says_so_and_counts_for_nobody() -> None:
    training = instance("p0", "Running", label_problem=Reason.NOT_SERVED)
    made = decided(snapshot(rule("1P"), (training, instance("p1", "Held"))))
    assert (admitted(made), reasons(made)["p0"]) == ("p1", Reason.NOT_SERVED)


def test_a_job_that_no_pods_can_be_made_from_never_counts_as_running() -> None:
    shapeless = instance("p0", "Held", expected=0, faults=("InvalidSpecs: spec.replicaSpecs is not set",))
    seen = snapshot(rule("1P"), (shapeless, instance("p1", "Held")))
    first, memory = plan(seen)
    again, _ = plan(snapshot(rule("1P"), seen.instances, memory=memory))
    assert (admitted(first), admitted(again)) == ("p1", "p1")
    assert reasons(again)["p0"] is Reason.JOB_INVALID


def test_trouble_shows_in_every_pass_not_only_in_the_first() -> None:
    for trouble in ("crashing", "faulty", "terminating"):
        seen = snapshot(rule("1P"), (instance("p0", "Running", **{trouble: 1}),))
        _, memory = plan(snapshot(rule("1P"), (instance("p0", "Running"),)))
        assert decided(snapshot(rule("1P"), seen.instances, memory=memory)).verdicts[0].state is State.BROKEN
