"""What ReplicaSets, StatefulSets, LeaderWorkerSets and PodSets tell of the instances they make."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.nodes import PodRequest
from scaler.kube.api import Object
from scaler.workloads.kinds import OWNER_SOURCES, owner_facts
from scaler.workloads.membership import Labels, LaterRole, OwnerFacts
from tests.workloads.test_run_policy import JSON

SOURCES = {resource.kind: resource for resource in OWNER_SOURCES}
KINDS = sorted(SOURCES)
LWS = "leaderworkerset.sigs.k8s.io"


def obj(
    name: str, spec: Any = None, *, controller: tuple[str, str] | None = None, **metadata: Any
) -> Object:
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        **metadata,
    }
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    if controller is not None:
        meta["ownerReferences"] = [
            {"kind": controller[0], "name": controller[1], "controller": True}
        ]
    return {"metadata": meta, "spec": spec}


def facts(kind: str, found: Object) -> OwnerFacts:
    """What the scaler reads of an object of this Kubernetes kind."""
    resource = SOURCES[kind]
    decode = OWNER_SOURCES[resource][0].decode
    return owner_facts(resource)(msgspec.json.decode(msgspec.json.encode(found), type=decode))


def test_all_who_read_an_object_read_the_same_watch() -> None:
    for sources in OWNER_SOURCES.values():
        assert len({(source.decode, source.label_selector) for source in sources}) == 1


def test_a_replica_set_stands_for_the_revision_of_its_deployment() -> None:
    found = facts(
        "ReplicaSet",
        obj(
            "p-5d9c",
            {"replicas": 3},
            controller=("Deployment", "p"),
            labels={"pod-template-hash": "5d9c"},
            annotations={"deployment.kubernetes.io/revision": "12"},
        ),
    )
    assert (found.owner, found.revision, found.rank, found.size) == (
        "Deployment/ns/p",
        "5d9c",
        12,
        3,
    )
    assert (found.name, found.uid, found.resource_version, found.created) == (
        "p-5d9c",
        "uid-p-5d9c",
        "7",
        1767225600.0,
    )


def test_a_replica_set_without_a_deployment_tells_nothing_of_revisions() -> None:
    assert facts("ReplicaSet", obj("p", labels={"pod-template-hash": "5d9c"})).owner == ""


def test_the_leaders_stateful_set_tells_the_newest_revision_and_no_size() -> None:
    labels = {f"{LWS}/name": "d", f"{LWS}/template-revision-hash": "r2"}
    found = facts(
        "StatefulSet", obj("d", {"replicas": 3}, labels=labels, controller=("LeaderWorkerSet", "d"))
    )
    assert (found.owner, found.revision, found.size) == ("LeaderWorkerSet/ns/d", "r2", 0)


def test_a_workers_stateful_set_tells_neither_revision_nor_size() -> None:
    labels = {f"{LWS}/name": "d", f"{LWS}/template-revision-hash": "r1", f"{LWS}/group-index": "0"}
    found = facts(
        "StatefulSet", obj("d-0", {"replicas": 3}, labels=labels, controller=("Pod", "d-0"))
    )
    assert (found.owner, found.revision, found.size) == ("", "", 0)


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "Deployment"])
def test_a_workload_that_is_one_instance_tells_its_size(kind: str) -> None:
    assert facts(kind, obj("svc-prefill-0", {"replicas": 4})).size == 4


@pytest.mark.parametrize(
    ("policy", "one_by_one"), [("OrderedReady", True), (None, True), ("Parallel", False)]
)
def test_a_stateful_set_tells_whether_it_makes_its_pods_one_by_one(
    policy: str | None, one_by_one: bool
) -> None:
    made = obj("svc-prefill-0", {"replicas": 2, "podManagementPolicy": policy})
    assert facts("StatefulSet", made).one_by_one is one_by_one


@pytest.mark.parametrize(
    ("policy", "first"), [("LeaderReady", True), ("LeaderCreated", False), (None, False)]
)
def test_a_leader_worker_set_tells_its_size_and_who_comes_first(
    policy: str | None, first: bool
) -> None:
    found = facts(
        "LeaderWorkerSet", obj("d", {"startupPolicy": policy, "leaderWorkerTemplate": {"size": 2}})
    )
    assert (found.size, found.leader_first) == (2, first)


def _template(npus: int, *, rule: str = "rule") -> dict[str, Any]:
    """A pod template whose pods request so many NPUs."""
    requests = {"resources": {"requests": {"huawei.com/Ascend910": str(npus)}}}
    labels = {"mind-cluster/scaling-rule": rule} if rule else {}
    return {"metadata": {"labels": labels}, "spec": {"containers": [requests]}}


def _npus(found: OwnerFacts) -> list[tuple[str, int, int, int]]:
    """Of each template its role, the NPUs of the first pod and of each other, and the size."""
    told = []
    for one in found.templates:
        first = dict(one.first.requests)["huawei.com/Ascend910"]
        others = dict(one.others.requests)["huawei.com/Ascend910"]
        told.append((one.role, first, others, one.size))
    return told


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_workload_tells_what_its_pods_request(kind: str) -> None:
    """3b.1c: only one whose pods name a rule."""
    assert _npus(facts(kind, obj("a", {"template": _template(8)}))) == [("", 8, 8, 0)]
    assert _npus(facts(kind, obj("a", {"template": _template(8, rule="")}))) == []
    assert _npus(facts(kind, obj("a", {"template": "odd"}))) == []


@pytest.mark.parametrize(
    ("templates", "told"),
    [
        ({"leaderTemplate": _template(1), "workerTemplate": _template(8)}, [("", 1, 8, 2)]),
        ({"workerTemplate": _template(8)}, [("", 8, 8, 2)]),
        ({"workerTemplate": None}, []),
    ],
)
def test_a_leader_worker_set_tells_what_leader_and_workers_request(
    templates: dict[str, Any], told: list[tuple[str, int, int, int]]
) -> None:
    """3b.1c: a leader without a template of its own has the template of the workers."""
    found = facts("LeaderWorkerSet", obj("d", {"leaderWorkerTemplate": {"size": 2, **templates}}))
    assert _npus(found) == told


def test_each_role_tells_what_its_pods_request() -> None:
    """3b.1c: of a StormService and a RoleBasedGroup; not where patches change the template."""
    roles = [
        {"name": "prefill", "podGroupSize": 2, "template": _template(8)},
        {"name": "router", "template": _template(1, rule="")},
    ]
    storm = facts("StormService", obj("s", {"template": {"spec": {"roles": roles}}}))
    assert _npus(storm) == [("prefill", 8, 8, 2)]
    pair = {"size": 2, "template": _template(8)}
    patched = {**pair, "workerTemplatePatch": {}}
    groups = [
        {"name": "prefill", "leaderWorkerPattern": pair},
        {"name": "decode", "leaderWorkerPattern": patched},
        {"name": "other", "standalonePattern": {"template": _template(4)}},
    ]
    found = facts("RoleBasedGroup", obj("s", {"roles": groups}))
    assert _npus(found) == [("prefill", 8, 8, 2), ("other", 4, 4, 0)]


def test_the_pod_set_made_last_stands_for_the_newest_template_of_its_role() -> None:
    labels = {"storm-service-name": "s", "role-name": "prefill", "role-template-hash": "abc"}
    found = facts("PodSet", obj("s-roleset-x-prefill-abc-0", {"podGroupSize": 2}, labels=labels))
    assert (found.owner, found.revision, found.size) == ("StormService/ns/s/prefill", "abc", 2)
    assert found.rank == int(found.created) > 0


@given(kind=st.sampled_from(KINDS), spec=JSON, labels=JSON, annotations=JSON, size=JSON)
def test_an_odd_object_is_still_seen(
    kind: str, spec: Any, labels: Any, annotations: Any, size: Any
) -> None:
    odd = obj("a", spec, labels=labels, annotations=annotations)
    with suppress(msgspec.ValidationError):  # such a one is refused, which is a finding about it
        assert facts(kind, odd).name == "a"
    template = {
        "replicas": size,
        "podGroupSize": size,
        "startupPolicy": size,
        "leaderWorkerTemplate": {"size": size},
    }
    assert facts(kind, obj("a", template)).uid == "uid-a"


@given(kind=st.sampled_from(KINDS), value=st.sampled_from([True, -1, 0, "3", 2.0, 10**9, None]))
def test_a_number_that_makes_no_sense_is_not_told(kind: str, value: Any) -> None:
    spec = {"replicas": value, "podGroupSize": value, "leaderWorkerTemplate": {"size": value}}
    assert facts(kind, obj("a", spec)).size == 0


def _role(name: str, **more: Any) -> dict[str, Any]:
    labels = {"mind-cluster/scaling-rule": "rule", "mind-cluster/group-name": name, "jobID": "s"}
    container = {"name": "c", "resources": {"limits": {"x/npu": 8}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {"name": name, "template": template, **more}


NPUS = PodRequest((("pods", 1), ("x/npu", 8)))


def test_a_storm_service_tells_the_roles_that_wait_for_others() -> None:
    """2: "one role when another is ready (StormService, RoleBasedGroup dependencies): what its
    owner makes only later counts as there from the start, by its template"."""
    decode = _role("decode", replicas=3, podGroupSize=2, dependencies=["prefill"])
    roles = [_role("prefill", replicas=2), decode, "odd", {"dependencies": 3}]
    found = facts("StormService", obj("s", {"replicas": 2, "template": {"spec": {"roles": roles}}}))
    labels = Labels("rule", "decode", "s")
    assert found.later == (LaterRole("decode", labels, 6, 2, NPUS, ("prefill",)),)


@pytest.mark.parametrize(
    ("pattern", "size"), [("leaderWorkerPattern", 4), ("standalonePattern", 1), ("", 1)]
)
def test_a_role_based_group_tells_the_roles_that_wait_for_others(pattern: str, size: int) -> None:
    role = _role("decode", replicas=3, dependencies=["prefill", "router"])
    if pattern:
        role[pattern] = {"size": size, "template": role.pop("template")}
    found = facts("RoleBasedGroup", obj("s", {"roles": [_role("prefill"), role]}))
    labels = Labels("rule", "decode", "s")
    assert found.later == (LaterRole("decode", labels, 3, size, NPUS, ("prefill", "router")),)
