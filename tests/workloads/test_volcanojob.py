"""Volcano Jobs: which service, which pods, and what a deleted pod costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.world import ServiceKey
from scaler.kube.api import Object
from scaler.reasons.reasons import Reason
from scaler.rules.limits import MAX_PODS
from scaler.workloads.membership import LaterPods
from scaler.workloads.volcanojob import read_volcano_job
from tests.workloads.pods import LABELS, template
from tests.workloads.test_run_policy import JSON

RESTART = {"event": "PodEvicted", "action": "RestartJob"}


def vcjob(*tasks: Object, labels: Any = None, status: Any = None, **spec: Any) -> Object:
    metadata = {
        "name": "d0",
        "namespace": "mindie",
        "uid": "u1",
        "labels": labels or {},
        "generation": 3,
    }
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {"tasks": list(tasks) or [task()], **spec},
        "status": status,
    }


def task(name: str = "server", replicas: Any = 2, labels: Any = LABELS, **more: Any) -> Object:
    return {"name": name, "replicas": replicas, "template": template(labels), **more}


def test_an_instance_is_all_pods_of_all_tasks() -> None:
    job = read_volcano_job(vcjob(task("leader", 1), task("", 2)))
    assert job.pods == ("d0-leader-0", "d0-default1-0", "d0-default1-1")
    assert (job.key, job.group, job.label_problem) == (
        ServiceKey("mindie", "rule", "mindie"),
        "group0",
        None,
    )
    assert (job.pod_group, job.members, job.generation, job.created) == (
        "d0-u1",
        3,
        3,
        1767225600.0,
    )
    assert (job.faults, job.finished, job.deleting) == ((), False, False)


def test_its_pod_group_wants_what_min_available_says() -> None:
    assert read_volcano_job(vcjob(task(replicas=4), minAvailable=3)).members == 3


def test_a_job_without_the_labels_is_nobodys_business() -> None:
    assert read_volcano_job(vcjob(task(labels={}))).label_problem is Reason.NOT_SERVED


def test_labels_on_the_job_alone_reach_no_pod() -> None:
    job = read_volcano_job(vcjob(task(labels={}), labels=LABELS))
    assert (job.key.rule, job.group, job.label_problem) == ("rule", "group0", None)
    (fault,) = job.faults
    assert (
        fault
        == "LabelsNotOnTasks: the labels are on the job itself, which does not pass them on to its"
        " pods; put mind-cluster/scaling-rule, mind-cluster/group-name, jobID into"
        " metadata.labels of every task's template"
    )


def test_tasks_that_disagree_are_named() -> None:
    job = read_volcano_job(
        vcjob(task("a"), task("b", labels=LABELS | {"jobID": "other"}), task("c", labels={}))
    )
    assert job.key.job_id == "mindie"
    assert [fault.partition(" in task ")[0] for fault in job.faults] == [
        'TasksDisagree: label jobID is "other"',
        "TasksDisagree: label mind-cluster/scaling-rule is null",
        "TasksDisagree: label mind-cluster/group-name is null",
        "TasksDisagree: label jobID is null",
    ]


@pytest.mark.parametrize(
    ("label", "problem"),
    [("jobID", Reason.JOB_ID_MISSING), ("mind-cluster/group-name", Reason.GROUP_LABEL_MISSING)],
)
def test_a_label_problem_has_its_name(label: str, problem: Reason) -> None:
    labels = {key: value for key, value in LABELS.items() if key != label}
    assert read_volcano_job(vcjob(task(labels=labels))).label_problem is problem


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted"])
def test_a_job_that_has_ended_is_finished(phase: str) -> None:
    job = read_volcano_job(vcjob(status={"state": {"phase": phase, "message": "It is over."}}))
    assert (job.finished, job.ending) == (True, "It is over")


@pytest.mark.parametrize(
    "phase", ["", "Pending", "Running", "Restarting", "Aborting", "Terminating", "Completing"]
)
def test_a_job_on_its_way_is_not_finished(phase: str) -> None:
    assert not read_volcano_job(vcjob(status={"state": {"phase": phase}})).finished


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ({}, None),
        ({"maxRetry": 5}, None),
        ({"policies": [{"event": "PodFailed", "action": "RestartJob"}]}, 2),
        ({"policies": [{"event": "PodFailed", "action": "RestartJob"}], "maxRetry": 0}, 0),
        ({"policies": [{"event": "PodFailed", "action": "TerminateJob"}]}, 0),
        ({"policies": [RESTART, {"event": "PodFailed", "action": "AbortJob"}]}, 0),
        ({"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}, 0),
        ({"policies": [{"exitCode": 137, "action": "RestartJob"}]}, 2),
        ({"policies": [{"event": "PodPending", "action": "RestartJob"}]}, None),
        ({"policies": [{"event": "PodEvicted", "action": "SyncJob"}]}, None),
        ({"policies": [RESTART]}, 2),
        ({"policies": [RESTART], "maxRetry": 0}, 0),  # no webhook of Volcano changed it
        ({"policies": [RESTART], "maxRetry": 1}, 0),
        ({"policies": [RESTART], "maxRetry": 10**9}, MAX_PODS - 1),
        ({"policies": [RESTART], "maxRetry": 10}, 9),
        ({"policies": [{"events": ["PodFailed", "PodEvicted"], "action": "RestartTask"}]}, 2),
        ({"policies": [{"event": "*", "action": "RestartPod"}]}, 2),
        ({"policies": [{"event": "*", "action": "SyncJob"}, RESTART]}, None),
        ({"policies": [{"event": "PodEvicted", "action": "AbortJob"}]}, 0),
        ({"policies": [{"event": "*", "action": "CompleteJob"}], "maxRetry": 10}, 0),
    ],
)
def test_a_deleted_pod_costs_what_the_policies_say(spec: dict[str, Any], limit: int | None) -> None:
    job = read_volcano_job(vcjob(**spec, status={"retryCount": 1}))
    assert (job.restart_limit, job.restarts) == (limit, 1)


def test_policies_of_a_task_come_before_those_of_its_job() -> None:
    spared = task(policies=[{"event": "PodEvicted", "action": "SyncJob"}])
    assert read_volcano_job(vcjob(spared, policies=[RESTART])).restart_limit is None
    assert read_volcano_job(vcjob(spared, task("b", policies=[RESTART]))).restart_limit == 2


@given(JSON, JSON, JSON, JSON)
def test_any_shape_is_read(metadata: Any, spec: Any, status: Any, part: Any) -> None:
    assert read_volcano_job({"metadata": metadata, "spec": spec, "status": status}).faults == ()
    odd = {"name": part, "replicas": part, "template": part, "policies": part}
    assert (
        read_volcano_job(vcjob(odd, policies=part, labels=part, status={"state": part})).name
        == "d0"
    )


@given(st.sampled_from([-1, True, 10**9, "2", None, 2.5]))
def test_a_number_of_replicas_that_makes_no_sense_makes_no_pods(replicas: Any) -> None:
    assert read_volcano_job(vcjob(task(replicas=replicas))).pods == ()


def test_a_real_job_is_served_once_its_tasks_carry_the_labels(real_data: Path) -> None:
    text = (
        real_data / "workload_samples" / "mindcluster-deploy" / "infer-vcjob-910.yaml"
    ).read_text()
    obj = next(obj for obj in yaml.safe_load_all(text) if obj["kind"] == "Job")
    assert read_volcano_job(obj).label_problem is Reason.NOT_SERVED
    obj["spec"]["tasks"][0]["template"]["metadata"]["labels"] |= LABELS
    job = read_volcano_job(obj)
    assert (job.pods, job.members, job.restart_limit) == (
        ("mindx-infer-test-default-test-0",),
        1,
        2,
    )
    assert (job.faults, job.label_problem) == ((), None)


def test_a_task_that_depends_on_others_is_made_later() -> None:
    """2: "what its owner makes only later counts as there from the start, by its template"."""
    master = task("master", 2, minAvailable=1)
    worker = task("worker", 4, dependsOn={"name": ["master"]})
    tail = task("tail", 1, dependsOn={"name": ["master", "worker", "nobody"], "iteration": "any"})
    job = read_volcano_job(vcjob(master, worker, tail))
    assert job.later == (
        LaterPods("d0-worker-", (("d0-master-", 1),)),
        LaterPods("d0-tail-", (("d0-master-", 1), ("d0-worker-", 4)), after_any=True),
    )
    assert len(job.pods) == 7


@pytest.mark.parametrize("depends", [None, {}, [], {"name": None}, {"name": [3, "nobody"]}, "x"])
def test_what_depends_on_nothing_known_is_made_at_once(depends: Any) -> None:
    job = read_volcano_job(vcjob(task("master", 1), task("worker", 1, dependsOn=depends)))
    assert job.later == ()
