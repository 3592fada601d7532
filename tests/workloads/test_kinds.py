"""What every kind of workload promises of its instances, on pods as their owners make them."""

from __future__ import annotations

import itertools
import re
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.world import ServiceKey
from scaler.kube.metadata import Metadata, Owner
from scaler.reasons.reasons import Reason
from scaler.workloads.kind import look_into
from scaler.workloads.kinds import (
    KINDS,
    holding_impossible,
    membership_of,
    owner_facts,
    unknown_owner,
)
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS, LeaderWorkerSetObject
from scaler.workloads.membership import Membership
from tests.workloads import pods
from tests.workloads.pods import SAMPLES, Sample, facts

OBJECTS = {sample.name: sample.object for sample in SAMPLES}
every_kind = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


def memberships(sample: Sample, again: int = 0) -> list[list[Membership]]:
    """Of the pods of each instance."""
    found = []
    for instance in sample.make(sample.object, again):
        of_pods = [membership_of(facts(pod)) for pod in instance]
        found.append([membership for membership in of_pods if membership is not None])
    return found


def instances(sample: Sample, again: int = 0) -> list[set[str]]:
    named = []
    for instance in memberships(sample, again):
        named.append({membership.instance for membership in instance})
    return named


def test_every_kind_has_a_sample() -> None:
    of_pods = {kind.name for kind in KINDS if kind.membership is not None}
    assert of_pods - {"ReplicaSet"} == {sample.kind for sample in SAMPLES}


@every_kind
def test_a_pod_is_known_as_of_its_kind_and_service(sample: Sample) -> None:
    for membership in itertools.chain(*memberships(sample)):
        assert (membership.kind, membership.key) == (
            sample.kind,
            ServiceKey("mindie", "rule", "mindie"),
        )
        assert (membership.group, membership.label_problem) == ("group0", None)


@every_kind
def test_all_pods_of_an_instance_have_one_membership(sample: Sample) -> None:
    for instance in memberships(sample):
        assert len(instance) == sample.size
        assert len(set(instance)) == 1


@every_kind
def test_no_two_instances_are_in_one_place(sample: Sample) -> None:
    found = instances(sample)
    assert len(set().union(*found)) == len(found)
    names = [membership.name for instance in memberships(sample) for membership in instance[:1]]
    assert len(set(names)) == len(names)


@every_kind
def test_an_instance_outlives_its_pods_unless_it_is_mortal(sample: Sample) -> None:
    before = instances(sample)
    after = instances(sample, again=1)
    assert all(
        membership.mortal == sample.mortal for membership in itertools.chain(*memberships(sample))
    )
    assert (before == after) != sample.mortal
    assert not set().union(*before) & set().union(*after) or not sample.mortal


@every_kind
def test_an_instance_knows_its_size_or_whom_to_ask(sample: Sample) -> None:
    for pod in itertools.chain(*sample.make(sample.object)):
        membership = membership_of(facts(pod))
        assert membership is not None
        owner = facts(pod).owner
        if sample.told:
            assert membership.size == sample.size
        else:
            assert (membership.size, membership.described_by[0]) == (
                0,
                (owner.kind, "mindie", owner.name),
            )


@every_kind
def test_it_is_said_when_instances_would_share_a_pod_group(sample: Sample) -> None:
    for membership in itertools.chain(*memberships(sample)):
        assert membership.shares_pod_group == sample.shares_pod_group


@every_kind
@pytest.mark.parametrize(
    ("label", "value", "problem"),
    [
        ("jobID", None, Reason.JOB_ID_MISSING),
        ("jobID", "", Reason.JOB_ID_MISSING),
        ("mind-cluster/group-name", None, Reason.GROUP_LABEL_MISSING),
        ("mind-cluster/scaling-rule", "", Reason.RULE_MISSING),
    ],
)
def test_a_label_problem_has_its_name(
    sample: Sample, label: str, value: str | None, problem: Reason
) -> None:
    pod = sample.make(sample.object)[0][0]
    pod["metadata"]["labels"].pop(label)
    if value is not None:
        pod["metadata"]["labels"][label] = value
    membership = membership_of(facts(pod))
    assert membership is not None
    assert membership.label_problem is problem


@every_kind
def test_a_pod_without_a_rule_is_nobodys_business(sample: Sample) -> None:
    pod = sample.make(sample.object)[0][0]
    del pod["metadata"]["labels"]["mind-cluster/scaling-rule"]
    assert membership_of(facts(pod)) is None


@every_kind
def test_annotations_say_which_pods_belong_together_whatever_made_them(sample: Sample) -> None:
    found = set()
    for again in range(2):
        for pod in itertools.chain(*sample.make(sample.object, again)):
            pod["metadata"]["annotations"] |= {
                "mind-cluster/instance": "all",
                "mind-cluster/instance-size": "9",
            }
            membership = membership_of(facts(pod))
            assert membership is not None
            found.add((membership.kind, membership.instance, membership.size, membership.mortal))
    assert found == {(sample.kind, "pods/mindie/mindie/group0/all", 9, False)}


@every_kind
def test_a_size_alone_makes_no_companions_for_a_single_pod(sample: Sample) -> None:
    pod = sample.make(sample.object)[0][0]
    pod["metadata"]["annotations"] |= {"mind-cluster/instance-size": "9"}
    membership = membership_of(facts(pod))
    assert membership is not None
    assert membership.size == (1 if sample.size == 1 else 9)


KNOWN_OWNERS = (
    "apps/v1 ReplicaSet",
    "apps/v1 StatefulSet",
    "apps.kruise.io/v1 StatefulSet",
    "batch/v1 Job",
    "v1 Node",
    " ",
    "orchestration.aibrix.ai/v1alpha1 RoleSet",
    "orchestration.aibrix.ai/v1alpha1 PodSet",
    "workloads.x-k8s.io/v1alpha2 RoleInstance",
)
KEYS = sorted(
    {
        key
        for sample in SAMPLES
        for pod in sample.make(sample.object)[0]
        for key in (
            *pod["metadata"]["labels"],
            *pod["metadata"]["annotations"],
            "scheduling.k8s.io/group-name",
        )
    }
    - {"mind-cluster/instance"}
)
VALUES = st.sampled_from(
    ("a", "a-0", "a-0-1", "0", "1", "-1", "99999999999", "²", "true", "leader", "")
) | st.text(max_size=4)


@st.composite
def any_pod(draw: st.DrawFn) -> Metadata:
    labels = {**pods.LABELS, **draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))}
    version, kind = draw(st.sampled_from(KNOWN_OWNERS)).split(" ")
    owner = Owner(version, kind, draw(VALUES), draw(VALUES), controller=True)
    said = draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3))
    namespace = draw(st.sampled_from(("a", "b")))
    return Metadata(
        name=draw(VALUES),
        namespace=namespace,
        uid=f"uid-{draw(st.uuids())}",
        labels=labels,
        annotations=said,
        owner_references=[owner],
    )


@given(any_pod())
def test_any_pod_that_names_a_rule_is_in_some_place(pod: Metadata) -> None:
    membership = membership_of(pod)
    assert membership is not None
    assert membership.instance
    assert 0 <= membership.size <= 100_000
    assert (membership.instance == pod.uid) == membership.mortal


@given(any_pod(), any_pod())
def test_pods_of_two_namespaces_or_kinds_never_form_one_instance(
    one: Metadata, other: Metadata
) -> None:
    first = membership_of(one)
    second = membership_of(other)
    assert first is not None
    assert second is not None
    if first.instance == second.instance:
        assert (one.namespace, first.kind) == (other.namespace, second.kind)


def test_groups_are_the_same_before_and_after_the_set_s_own_webhook() -> None:
    seen, unseen = (sample for sample in SAMPLES if sample.kind == "LeaderWorkerSet")
    assert instances(seen) == instances(unseen)


def test_labels_of_a_group_make_no_member_of_a_pod_that_another_owner_has() -> None:
    pod = pods.leader_worker_set(OBJECTS["LeaderWorkerSet"])[0][0]
    pod["metadata"]["ownerReferences"][0]["name"] = "another"
    membership = membership_of(facts(pod))
    assert membership is not None
    assert membership.kind == "StatefulSet"


def test_a_group_with_gang_scheduling_has_a_pod_group_of_its_own() -> None:
    pod = pods.leader_worker_set(OBJECTS["LeaderWorkerSet"], revision="r1")[1][0]
    for name, shares in (
        ("vllm-1-r1", False),
        ("podgroup-uid-of-a-stateful-set", True),
        ("vllm-2-r1", True),
    ):
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name
        membership = membership_of(facts(pod))
        assert membership is not None
        assert membership.shares_pod_group is shares


def test_revisions_of_one_deployment_have_one_owner() -> None:
    found = [
        membership_of(facts(pods.deployment(OBJECTS["Deployment"], revision=r)[0][0]))
        for r in ("aa", "bb")
    ]
    places = [membership for membership in found if membership is not None]
    assert [(membership.owner, membership.revision) for membership in places] == [
        ("Deployment/mindie/p", "aa"),
        ("Deployment/mindie/p", "bb"),
    ]
    assert [membership.described_by for membership in places] == [
        (("ReplicaSet", "mindie", "p-aa"),),
        (("ReplicaSet", "mindie", "p-bb"),),
    ]


def test_a_replica_set_of_its_own_has_no_revisions() -> None:
    pod = pods.deployment(OBJECTS["Deployment"])[0][0]
    del pod["metadata"]["labels"]["pod-template-hash"]
    membership = membership_of(facts(pod))
    assert membership is not None
    owner = f"ReplicaSet/mindie/{pod['metadata']['ownerReferences'][0]['name']}"
    assert (membership.kind, membership.owner, membership.mortal) == ("ReplicaSet", owner, True)
    assert membership.revision == ""


def test_a_new_revision_of_a_stateful_role_may_stand_beside_the_old_one() -> None:
    old = pods.storm(stateful=True)
    new = pods.storm(stateful=True, template=pods.template(version="2"))
    made = [membership_of(facts(pods.storm_service(storm)[0][0])) for storm in (old, new)]
    places = [membership for membership in made if membership is not None]
    assert places[0].owner == places[1].owner == "StormService/mindie/storm/prefill"
    assert places[0].instance != places[1].instance


def test_an_owner_that_is_not_known_is_named_unless_annotations_speak() -> None:
    pod = pods.plain(OBJECTS["pods"])[0][0]
    assert _unknown(pod) == ""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    assert "Job j (batch/v1) is no kind that is known here" in _unknown(pod)
    pod["metadata"]["annotations"]["mind-cluster/instance"] = "one"
    assert _unknown(pod) == ""


def _unknown(pod: Any) -> str:
    membership = membership_of(facts(pod))
    assert membership is not None
    return unknown_owner(facts(pod), membership)


def test_a_pod_group_of_a_whole_group_makes_holding_impossible() -> None:
    (one, *_), *_ = memberships(SAMPLES[-1])
    assert "PodGroup rbg wants 6 pods" in holding_impossible(one, "rbg", 6, 2)
    assert holding_impossible(one, "rbg", 2, 2) == ""
    (shared,), *_ = memberships(SAMPLES[0])
    assert holding_impossible(shared, "podgroup-u", 3, 1) == ""


# the page


def test_the_kind_that_the_page_shows_is_one() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "add-a-workload-kind.md"
    code = re.search(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert code is not None
    shown: dict[str, Any] = {}
    exec(textwrap.dedent(code[1]), shown)  # noqa: S102 - our own page
    pod = pods.plain(OBJECTS["pods"])[0][0]
    assert shown["KIND"].membership(facts(pod)) is None
    pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = "js"
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "js-d-0",
        "uid": "u",
        "controller": True,
    }
    pod["metadata"]["ownerReferences"] = [owner]
    assert shown["KIND"].membership(facts(pod)).instance == "JobSet/mindie/js-d-0"
    obj = {"spec": {"replicatedJobs": [{"name": "decode"}]}}
    (role,) = shown["KIND"].main.roles(look_into(obj))
    assert role.templates[0].name == "of role decode"


def test_the_page_says_what_each_kind_was_tried_with() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "kinds.md"
    said = page.read_text("utf-8")
    assert [kind.name for kind in KINDS if kind.tried not in said] == []


# real manifests


def _manifests(folder: Path, kind: str) -> list[tuple[str, Any]]:
    files = sorted(folder.rglob("*.yaml"))
    found = [
        (file.name, obj) for file in files for obj in yaml.safe_load_all(file.read_text()) if obj
    ]
    return [(name, obj) for name, obj in found if obj.get("kind") == kind]


def _label(template: Any) -> None:
    template.setdefault("metadata", {}).setdefault("labels", {}).update(pods.LABELS)


def _count(made: pods.Instances) -> tuple[int, set[str]]:
    """Instances that the pods of `made` form, and their kinds."""
    found = [
        membership for pod in itertools.chain(*made) if (membership := membership_of(facts(pod)))
    ]
    return len({membership.instance for membership in found}), {
        membership.kind for membership in found
    }


def test_groups_of_real_leader_worker_sets_have_the_size_that_their_set_tells(
    real_data: Path,
) -> None:
    manifests = _manifests(real_data / "workload_samples", "LeaderWorkerSet")
    for name, lws in manifests:
        spec = lws["spec"]["leaderWorkerTemplate"]
        for key in {"leaderTemplate", "workerTemplate"} & spec.keys():
            _label(spec[key])
        told = owner_facts(LEADER_WORKER_SETS)(msgspec.convert(lws, LeaderWorkerSetObject))
        made = pods.leader_worker_set(lws)
        assert told.size == spec["size"] == len(made[0]), name
        assert _count(made) == (lws["spec"]["replicas"], {"LeaderWorkerSet"}), name
    assert manifests


def test_real_storm_services_have_as_many_instances_as_their_roles_ask_for(real_data: Path) -> None:
    manifests = _manifests(real_data / "workload_samples", "StormService")
    for name, storm in manifests:
        roles = storm["spec"]["template"]["spec"]["roles"]
        for role in roles:
            _label(role["template"])
        wanted = storm["spec"]["replicas"] * sum(role["replicas"] for role in roles)
        assert _count(pods.storm_service(storm)) == (wanted, {"StormService"}), name
    assert manifests


def test_real_infer_service_sets_have_as_many_instances_as_their_roles_ask_for(
    real_data: Path,
) -> None:
    manifests = _manifests(real_data / "workload_samples", "InferServiceSet")
    for name, iss in manifests:
        roles = iss["spec"]["template"]["roles"]
        for role in roles:
            _label(role["spec"]["template"])
        wanted = iss["spec"]["replicas"] * sum(role["replicas"] for role in roles)
        assert _count(pods.infer_service_set(iss)) == (wanted, {"InstanceSet"}), name
    assert manifests
