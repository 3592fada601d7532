"""The PodGroup that one instance gets for itself."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import Object
from scaler.workloads.kinds import membership_of
from scaler.workloads.membership import Membership
from scaler.workloads.podgroups import Gang, own_pod_group, own_pod_group_name
from tests.workloads.pods import LABELS, deployment, facts, obj, template
from tests.workloads.test_run_policy import JSON


def pod(labels: Any = None, **annotations: str) -> Object:
    made = obj("p", replicas=1, template=template(LABELS | (labels or {}), **annotations))
    return deployment(made)[0][0]


def membership(of: Object) -> Membership:
    found = membership_of(facts(of))
    assert found is not None
    return found


def group(of: Object, size: int = 1, *, leader_first: bool = False) -> Object:
    return own_pod_group("p-1234", of, Gang(membership(of).name, size, leader_first))


def test_it_goes_with_the_last_of_its_pods_and_the_first_controls_it() -> None:
    made = own_pod_group("n", pod(), Gang("p-0", 2, others=(("p-1", "u1"),)))
    meta = pod()["metadata"]
    assert (made["kind"], made["metadata"]["name"], made["metadata"]["namespace"]) == (
        "PodGroup",
        "n",
        "mindie",
    )
    first = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    other = {"apiVersion": "v1", "kind": "Pod", "name": "p-1", "uid": "u1", "controller": False}
    assert made["metadata"]["ownerReferences"] == [first, other]


def test_it_wants_all_pods_of_the_instance_and_what_they_request() -> None:
    assert group(pod(), size=3)["spec"] == {
        "minMember": 3,
        "minResources": {"huawei.com/Ascend910": "24"},
    }


def test_where_the_leader_comes_first_it_wants_one_pod_and_room_for_all() -> None:
    spec = group(pod(), size=3, leader_first=True)["spec"]
    assert (spec["minMember"], spec["minResources"]) == (1, {"huawei.com/Ascend910": "24"})


def test_queue_and_priority_are_those_of_the_pod() -> None:
    queued = pod(**{"scheduling.volcano.sh/queue-name": "infer"})
    queued["spec"]["priorityClassName"] = "high"
    assert {"queue": "infer", "priorityClassName": "high"}.items() <= group(queued)["spec"].items()


def test_it_carries_what_mind_cluster_reads_and_nothing_that_is_the_pods_own() -> None:
    labels = {"fault-scheduling": "force", "pod-rescheduling": "on", "team": "a"}
    said = {
        "sp-block": "16",
        "huawei.com/schedule_policy": "chip2-node16-sp",
        "note": "x",
        "huawei.com/AscendReal": "0",
    }
    metadata = group(pod(labels, **said))["metadata"]
    assert metadata["labels"] == {
        "fault-scheduling": "force",
        "pod-rescheduling": "on",
        "jobID": "mindie",
    }
    assert metadata["annotations"].keys() == {
        "sp-block",
        "huawei.com/schedule_policy",
        "huawei.com/schedule_minAvailable",
        "mind-cluster/instance",
    }


def test_the_plugin_waits_for_this_instance_only_whatever_the_template_says() -> None:
    replicas = pod(**{"huawei.com/schedule_minAvailable": "8"})
    assert group(replicas)["metadata"]["annotations"]["huawei.com/schedule_minAvailable"] == "1"


def test_an_instance_that_starts_anew_gets_another_one() -> None:
    assert own_pod_group_name("p-0", "uid-1") != own_pod_group_name("p-0", "uid-2")


@given(st.text(max_size=300), st.text(max_size=40))
def test_its_name_is_one_that_kubernetes_takes(instance: str, uid: str) -> None:
    name = own_pod_group_name(instance, uid)
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= 253


@given(JSON, JSON, st.integers(-1, 3))
def test_any_shape_makes_some_pod_group(spec: Any, resources: Any, size: int) -> None:
    odd = {
        "containers": [
            spec,
            {"resources": resources},
            {"resources": {"requests": resources, "limits": resources}},
        ]
    }
    for shape in (spec, odd):
        made = own_pod_group("n", {"metadata": pod()["metadata"], "spec": shape}, Gang("p-0", size))
        assert made["spec"]["minMember"] == max(size, 1)
