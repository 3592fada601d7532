"""What is read from an AscendJob, whatever its shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.world import ServiceKey
from scaler.reasons.reasons import Reason
from scaler.workloads import ascendjob_objects
from scaler.workloads.ascendjob import read_job
from tests.jobs import job, template

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
)


def with_labels(**labels: Any) -> dict[str, Any]:
    made = job("p0", uid="u")
    made["metadata"]["labels"] = {
        key.replace("_", "-").replace("mind-cluster-", "mind-cluster/"): value
        for key, value in labels.items()
    }
    return made


def with_spec(**master: Any) -> dict[str, Any]:
    made = job("p0", uid="u")
    made["spec"]["replicaSpecs"]["Master"].update(master)
    return made


def test_a_labelled_job_belongs_to_the_service_of_its_namespace_rule_and_job_id() -> None:
    assert read_job(job("p0")).key == ServiceKey("mindie", "rule", "mindie")


def test_a_job_with_app_and_job_id_but_no_rule_waits_for_nothing() -> None:
    read = read_job(job("mindie-controller", rule=None))
    assert (read.key.rule, read.label_problem) == ("", None)


def test_the_rule_is_known_from_where_admission_has_moved_it() -> None:
    read = read_job(
        job(
            "p0",
            rule=None,
            annotations={"mind-cluster/moved-scaling-rule": "moved"},
            labels={
                "jobID": "mindie",
                "mind-cluster/group-name": "group0",
            },
        )
    )
    assert (read.key, read.group, read.label_problem) == (
        ServiceKey("mindie", "moved", "mindie"),
        "group0",
        None,
    )


@pytest.mark.parametrize("moved", ["", 7, "another"])
def test_the_label_itself_counts_more_than_where_it_was_moved_to(moved: Any) -> None:
    assert (
        read_job(job("p0", annotations={"mind-cluster/moved-scaling-rule": moved})).key.rule
        == "rule"
    )


@pytest.mark.parametrize(
    ("retries", "limit", "expected"),
    [("", None, None), ("5", None, 5), ("5", 3, 3), ("5", 0, None), ("x", None, None)],
)
def test_another_operator_gives_a_job_up_after_so_many_restarts(
    retries: str, limit: int | None, expected: int | None
) -> None:
    made = job("p0", uid="u")
    made["metadata"]["labels"]["fault-retry-times"] = retries
    made["spec"]["runPolicy"] = {"backoffLimit": limit}
    assert read_job(made).restart_limit == expected


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({}, Reason.NOT_SERVED),
        ({"app": "train"}, Reason.NOT_SERVED),
        ({"mind_cluster_scaling_rule": ""}, Reason.RULE_MISSING),
        (
            {"mind_cluster_scaling_rule": 7, "jobID": "a", "mind_cluster_group_name": "g"},
            Reason.RULE_MISSING,
        ),
        ({"mind_cluster_scaling_rule": "r", "mind_cluster_group_name": "g"}, Reason.JOB_ID_MISSING),
        ({"mind_cluster_scaling_rule": "r", "jobID": ""}, Reason.JOB_ID_MISSING),
        ({"mind_cluster_scaling_rule": "r", "jobID": "a"}, Reason.GROUP_LABEL_MISSING),
        (
            {"mind_cluster_scaling_rule": "r", "jobID": "a", "mind_cluster_group_name": ""},
            Reason.GROUP_LABEL_MISSING,
        ),
        ({"mind_cluster_scaling_rule": "r", "jobID": "a", "mind_cluster_group_name": "g"}, None),
    ],
)
def test_what_the_labels_lack_has_a_name(labels: dict[str, Any], problem: Reason | None) -> None:
    assert read_job(with_labels(**labels)).label_problem is problem


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ({"spec": {}}, "InvalidSpecs: spec.replicaSpecs is not set"),
        (
            {"spec": {"replicaSpecs": {"Worker": {"template": template()}}}},
            "InvalidReplicaType: spec.replicaSpecs has no",
        ),
        (
            {"spec": {"replicaSpecs": {"Chief": {}}}},
            'InvalidReplicaType: spec.replicaSpecs has "Chief"',
        ),
        (with_spec(replicas=-1), "InvalidReplicaSpec: Master has replicas -1"),
        (with_spec(replicas="1"), 'InvalidReplicaSpec: Master has replicas "1"'),
        (
            with_spec(replicas=2),
            "InvalidReplicaSpec: Master has replicas 2, there must be exactly 1",
        ),
        (
            with_spec(template={"spec": {"containers": "ascend"}}),
            "InvalidReplicaSpec: Master has no list of containers",
        ),
        (
            with_spec(template={"spec": {"containers": [{"name": "other", "image": "i"}]}}),
            "InvalidContainer: Master has",
        ),
        (
            with_spec(template={"spec": {"containers": [{"name": "ascend"}]}}),
            "InvalidContainer: the container ascend",
        ),
        ({"spec": {"successPolicy": "Some"}}, 'InvalidSuccessPolicy: spec.successPolicy is "Some"'),
        (with_labels(framework="caffe"), 'InvalidFramework: label framework is "caffe"'),
        (
            with_labels(framework="pytorch", scaleout_type="PCIE"),
            "InvalidScaleOutConfig: label scaleout-type",
        ),
    ],
)
def test_a_job_that_no_pods_can_be_made_from_says_why(broken: dict[str, Any], fault: str) -> None:
    read = read_job({"metadata": {"name": "p0", "uid": "u"}, **broken})
    assert any(found.startswith(fault) for found in read.faults)


def test_all_faults_are_named_at_once() -> None:
    made = with_spec(replicas=2, template={"spec": {"containers": [{"name": "main"}]}})
    made["metadata"]["labels"] = {}
    codes = [fault.split(":")[0] for fault in read_job(made).faults]
    assert codes == ["InvalidFramework", "InvalidReplicaSpec", "InvalidContainer"]


def test_the_pods_of_a_job_with_faults_are_known_as_long_as_their_number_is() -> None:
    assert read_job(with_spec(template={})).pods == ("p0-master-0",)
    assert read_job(with_spec(replicas="1")).pods == ()


def test_pods_have_fixed_names_with_the_leader_first() -> None:
    assert read_job(job("p0", pods=3)).pods == ("p0-master-0", "p0-worker-0", "p0-worker-1")


def test_a_condition_that_is_not_true_does_not_finish_a_job() -> None:
    failed = {"type": "Failed", "status": "False"}
    assert not read_job({**job("p0"), "status": {"conditions": [failed]}}).finished
    assert read_job({**job("p0"), "status": {"conditions": [failed | {"status": "True"}]}}).finished


def test_a_job_that_ascend_operator_could_not_read_has_not_finished() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "JobValidFailed"}
    assert not read_job({**job("p0"), "status": {"conditions": [failed]}}).finished


@given(obj=st.dictionaries(st.sampled_from(["metadata", "spec", "status", "kind"]), JSON))
def test_no_object_whatsoever_raises(obj: dict[str, Any]) -> None:
    assert read_job(obj).namespace == read_job(obj).key.namespace


@given(
    master=st.dictionaries(st.sampled_from(["replicas", "template", "restartPolicy"]), JSON),
    container=st.dictionaries(st.sampled_from(["env", "ports", "resources", "name"]), JSON),
    policy=JSON,
)
def test_whatever_passes_for_usable_gives_objects(master: Any, container: Any, policy: Any) -> None:
    made = job("p0", pods=2, uid="u")
    made["spec"]["runPolicy"] = {"schedulingPolicy": policy}
    made["spec"]["replicaSpecs"]["Worker"].update(master)
    made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"] += [container]
    made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0].update(
        container | {"name": "ascend"}
    )
    read = read_job(made)
    if not read.faults:
        assert tuple(ascendjob_objects.pods(read, made, "clusterd")) == read.pods
        assert ascendjob_objects.pod_group(read, made)["kind"] == "PodGroup"
        assert ascendjob_objects.service(read, made)["kind"] == "Service"
