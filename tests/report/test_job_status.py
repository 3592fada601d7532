"""The status of an AscendJob: what the State column prints, what is kept, when nothing is
written."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.decision import State, Verdict
from scaler.decide.world import Life, RunPolicy
from scaler.kube.api import ASCEND_JOBS, Object
from scaler.reasons.reasons import Reason
from scaler.report.job_status import already_says, final_patch, merge_diff, status_patch
from scaler.report.service_reports import InstanceReport, Subject
from scaler.sim.apiserver.patches import merge_patch
from tests.builders import instance, plan, service
from tests.report.fakes import job

NOW = "2026-11-21T07:00:00Z"
LATER = "2026-11-21T08:00:00Z"
PLAN = plan(service("1P", "p0 Held"))


# A value.
def told(
    state: State, reason: Reason, life: Life | None = None, **replicas: dict[str, int]
) -> InstanceReport:
    verdict = Verdict("uid-p0", "p0", "group0", state, reason)
    shown = instance("p0", state, life=life or Life())
    subject = Subject(ASCEND_JOBS, "default", "p0", "uid-p0")
    return InstanceReport(PLAN, verdict, shown, subject, replicas=replicas)


def patch_of(obj: Object, moment: InstanceReport, now: str) -> dict[str, Any] | None:
    return status_patch(obj, moment, moment.instance.admitted_at, now)


HELD = told(State.HELD, Reason.WAITING_FOR_RATIO)
RUNNING = told(State.RUNNING, Reason.RUNNING)
BROKEN = told(State.BROKEN, Reason.BROKEN)
ENDING = ("Failed", "PodFailed", "words")


def written(obj: Object, *history: InstanceReport, now: str = NOW) -> Object:
    """The job after the patches for `history` were applied one after another."""
    obj = copy.deepcopy(obj)
    for moment in history:
        patch = patch_of(obj, moment, now)
        if patch is not None:
            obj = merge_patch(obj, patch)
    return obj


def conditions(obj: Object) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c["reason"]) for c in obj["status"]["conditions"]]


def test_a_held_job_is_created_and_says_why() -> None:
    assert conditions(written(job("p0"), HELD)) == [("Created", "True", "WaitingForRatio")]


def test_a_running_job_has_running_last_for_the_state_column() -> None:
    after = written(job("p0"), HELD, RUNNING)
    assert conditions(after) == [
        ("Created", "True", "JobCreated"),
        ("Running", "True", "JobRunning"),
    ]


def test_running_is_false_and_no_longer_last_once_it_does_not_run() -> None:
    after = written(job("p0"), HELD, RUNNING, BROKEN)
    assert conditions(after) == [
        ("Created", "True", "JobCreated"),
        ("Running", "False", "Broken"),
        ("Restarting", "True", "Broken"),
    ]


def test_an_instance_that_waits_for_its_place_again_is_created_and_not_restarting() -> None:
    after = written(job("p0"), RUNNING, BROKEN, HELD)
    assert conditions(after) == [
        ("Running", "False", "WaitingForRatio"),
        ("Created", "True", "WaitingForRatio"),
    ]


def test_a_job_that_starts_for_the_first_time_is_created_also_when_all_its_pods_are_bound() -> None:
    bound = told(State.STARTING, Reason.STARTING, life=Life(policy=RunPolicy(rounds=1), version=0))
    assert conditions(written(job("p0"), HELD, bound)) == [("Created", "True", "Starting")]


def test_a_later_round_is_restarting_until_it_runs() -> None:
    again = told(
        State.ADMITTED,
        Reason.WAITING_FOR_SCHEDULER,
        life=Life(policy=RunPolicy(rounds=1), version=1),
    )
    assert conditions(written(job("p0"), again))[-1][0] == "Restarting"
    assert [kind for kind, _, _ in conditions(written(job("p0"), again, RUNNING))] == [
        "Created",
        "Running",
    ]


def test_a_job_that_ends_has_its_ending_last_and_runs_no_more() -> None:
    running = written(job("p0"), RUNNING)
    running = merge_patch(running, final_patch(running, ENDING, {}, 0.0, LATER))
    assert conditions(running)[1:] == [
        ("Running", "False", "PodFailed"),
        ("Failed", "True", "PodFailed"),
    ]
    assert running["status"]["completionTime"] == LATER
    assert patch_of(running, BROKEN, LATER) is None


def test_the_last_patch_says_what_was_not_told_before() -> None:
    after = merge_patch(
        job("p0"), final_patch(job("p0"), ENDING, {"Master": {"failed": 1}}, 1_000_000.0, LATER)
    )
    assert after["status"]["replicaStatuses"] == {"Master": {"failed": 1}}
    assert after["status"]["startTime"] == "1970-01-12T13:46:40Z"


def test_the_last_patch_keeps_the_start_and_replaces_the_counts() -> None:
    before = written(job("p0"), told(State.RUNNING, Reason.RUNNING, Master={"active": 1}))
    after = merge_patch(
        before, final_patch(before, ENDING, {"Master": {"failed": 1}}, 1_000_000.0, LATER)
    )
    assert after["status"]["replicaStatuses"] == {"Master": {"failed": 1}}
    assert after["status"]["startTime"] == before["status"]["startTime"]


def test_what_ascend_operator_called_a_failure_for_its_shape_is_lifted() -> None:
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "JobValidFailed",
        "message": "InvalidSpecs: ...",
    }
    assert (
        conditions(written(job("p0", conditions=[failed], replicaStatuses={}), HELD))[-1][0]
        == "Created"
    )


def test_recovery_puts_running_last_again() -> None:
    assert conditions(written(job("p0"), RUNNING, BROKEN, RUNNING))[-1] == (
        "Running",
        "True",
        "JobRunning",
    )


def test_conditions_of_others_stay_as_they_are() -> None:
    foreign = {"type": "Audited", "status": "True", "reason": "Fine", "extra": 1}
    after = written(job("p0", conditions=[foreign], replicaStatuses={}), RUNNING, BROKEN)
    assert after["status"]["conditions"][0] == foreign


def test_nothing_is_written_when_the_status_already_says_so() -> None:
    after = written(job("p0"), HELD)
    assert patch_of(after, HELD, LATER) is None


def test_the_transition_time_moves_only_with_the_status() -> None:
    before = written(job("p0"), HELD)
    after = written(before, told(State.HELD, Reason.PAUSED), now=LATER)
    (created,) = after["status"]["conditions"]
    assert (created["lastTransitionTime"], created["lastUpdateTime"]) == (NOW, LATER)


def test_the_start_time_is_the_admission_and_never_changes() -> None:
    assert "startTime" not in written(job("p0"), HELD)["status"]
    first = written(job("p0"), told(State.ADMITTED, Reason.WAITING_FOR_SCHEDULER))
    assert first["status"]["startTime"] == "1970-01-12T13:45:00Z"
    assert (
        written(first, HELD, RUNNING, now=LATER)["status"]["startTime"]
        == first["status"]["startTime"]
    )


def test_counts_that_became_zero_disappear() -> None:
    many = told(State.RUNNING, Reason.RUNNING, Master={"active": 1}, Worker={"active": 3})
    fewer = told(State.BROKEN, Reason.BROKEN, Master={"failed": 1}, Worker={})
    after = written(job("p0"), many, fewer)
    assert after["status"]["replicaStatuses"] == {"Master": {"failed": 1}, "Worker": {}}


def test_the_patch_fails_rather_than_overwrite_a_newer_object() -> None:
    patch = patch_of(job("p0"), HELD, NOW)
    assert patch is not None
    assert patch["metadata"] == {"uid": "uid-p0", "resourceVersion": "1"}


def test_a_job_that_goes_or_has_finished_is_left_as_it_is() -> None:
    going = job("p0")
    going["metadata"]["deletionTimestamp"] = NOW
    assert patch_of(going, HELD, NOW) is None
    assert patch_of(job("p0"), told(State.FINISHED, Reason.FINISHED), NOW) is None


@pytest.mark.parametrize("state", list(State))
def test_what_was_written_counts_as_told_after_a_failover(state: State) -> None:
    now = told(state, Reason.RUNNING if state is State.RUNNING else Reason.BROKEN)
    after = written(job("p0"), now)
    assert already_says(after, now.verdict) is (state is not State.FINISHED)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
_flat = st.dictionaries(
    st.sampled_from("abc"), st.integers() | st.dictionaries(st.sampled_from("xyz"), st.integers())
)


@given(before=_flat, after=_flat)
def test_a_merge_diff_turns_the_old_value_into_the_new_one(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    merged = merge_patch(before, merge_diff(before, after))
    assert {key: merged[key] for key in after} == after
    assert merge_diff(merged, after) == {}


@given(
    status=_json,
    conditions=_json,
    state=st.sampled_from(list(State)),
    reason=st.sampled_from(list(Reason)),
)
def test_any_status_that_somebody_left_there_is_mended_and_never_raises(
    status: Any, conditions: Any, state: State, reason: Reason
) -> None:
    moment = told(state, reason)
    odd = {"conditions": [conditions, {"type": conditions}], "replicaStatuses": conditions}
    for found in (status, {"conditions": conditions}, odd):
        after = written(job("p0") | {"status": found}, moment)
        assert patch_of(after, moment, LATER) is None


def test_what_the_operator_wrote_is_taken_over(real_data: Path) -> None:
    for path in sorted((real_data / "ao_objects").glob("*/ascendjobs.json")):
        for recorded in json.loads(path.read_text()):
            after = written(recorded, BROKEN, RUNNING)
            assert conditions(after)[-1] == ("Running", "True", "JobRunning")
            assert after["status"]["startTime"] == recorded["status"]["startTime"]
            assert set(after["status"]) == set(recorded["status"])
