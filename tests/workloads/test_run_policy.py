"""What a job says about restarts and its end, and Volcano's count of retries, whatever stands
there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.world import CleanPods
from scaler.workloads.ascendjob import final_condition, read_retries, read_run_policy, rounds_patch
from tests.jobs import job

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=5,
)


def policy(retries: str = "", **run_policy: Any) -> Any:
    made = job("p0", uid="u")
    made["metadata"]["labels"]["fault-retry-times"] = retries
    made["spec"]["runPolicy"] = run_policy
    return read_run_policy(made)


@pytest.mark.parametrize(
    ("label", "limit", "expected"),
    [
        ("", None, 0),
        ("5", None, 5),
        ("5", 3, 3),
        ("5", 0, 0),
        ("five", None, 0),
        ("-1", None, 0),
        ("9" * 17, None, 10**9),
    ],
)
def test_the_limit_is_that_of_the_run_policy_else_that_of_the_label(
    label: str, limit: int | None, expected: int
) -> None:
    assert policy(label, backoffLimit=limit).backoff_limit == expected


def test_pods_of_a_job_without_a_clean_policy_stop_with_it() -> None:
    assert [policy(cleanPodPolicy=value).clean for value in (None, "All", "None", "Sometimes")] == [
        CleanPods.RUNNING,
        CleanPods.ALL,
        CleanPods.NONE,
        CleanPods.NONE,
    ]


@pytest.mark.parametrize(
    ("reason", "clean"), [("PodFailed", CleanPods.RUNNING), ("JobFailed", CleanPods.NONE)]
)
def test_pods_of_a_job_that_ascend_operator_ended_run_on_as_it_left_them(
    reason: str, clean: CleanPods
) -> None:
    failed = {"type": "Failed", "status": "True", "reason": reason}
    assert read_run_policy({**job("p0"), "status": {"conditions": [failed]}}).clean is clean


def test_rounds_are_read_back_from_the_job_that_they_were_written_on_only() -> None:
    annotations = rounds_patch("u", 3)["metadata"]["annotations"]
    assert read_run_policy(job("p0", uid="u", annotations=annotations)).rounds == 3
    assert read_run_policy(job("p0", uid="v", annotations=annotations)).rounds == 0


def test_a_failure_without_completion_time_finished_when_its_condition_says() -> None:
    failed = {"type": "Failed", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}
    assert read_run_policy({**job("p0"), "status": {"conditions": [failed]}}).finished_at == 60.0


def test_volcanos_count_is_read_entry_by_entry() -> None:
    text = json.dumps(
        {"ns/p0-u": {"UUID": "u", "Times": 2}, "ns/p1-u": {"Times": "x"}, "ns/p2-u": 3}
    )
    assert read_retries(text) == {"ns/p0-u": 2}


@given(metadata=JSON, spec=JSON, status=JSON, text=JSON.map(json.dumps) | st.text(max_size=20))
def test_nothing_raises(metadata: Any, spec: Any, status: Any, text: str) -> None:
    for obj in (
        {"metadata": metadata, "spec": spec, "status": status},
        {"metadata": {"labels": metadata, "annotations": metadata}, "spec": {"runPolicy": spec}},
        {
            "spec": {
                "runPolicy": {
                    "backoffLimit": spec,
                    "cleanPodPolicy": spec,
                    "ttlSecondsAfterFinished": spec,
                }
            }
        },
        {"status": {"conditions": status, "startTime": status}},
    ):
        assert read_run_policy(obj).rounds == 0
        final_condition(obj)
    assert isinstance(read_retries(text), dict)
