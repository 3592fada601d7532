"""What pods ask of nodes: requests as Kubernetes counts them, and what is understood of where they
may run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.nodes import NODE_NAME, PodRequest, Requirement, Toleration, Where
from scaler.kube.api import Object
from scaler.remembered import Remembered
from scaler.tools.plan.understood import is_understood
from scaler.workloads import pod_requests
from scaler.workloads.pod_requests import (
    MOST,
    PodResources,
    ascend_job_requests,
    pod_request_of,
    requests_of,
    whole_amount,
    whole_amounts,
)
from tests.jobs import job, template

NPU = "huawei.com/Ascend910"


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> Object:
    return {
        "name": "ascend",
        "resources": {"requests": requests or {}, "limits": limits or {}},
        **more,
    }


def asked(**spec: Any) -> dict[str, int]:
    return dict(pod_request_of(spec).requests)


def where(**spec: Any) -> Where:
    return pod_request_of(spec).where


def job_of(spec: Any) -> Object:
    return {"spec": {"replicaSpecs": {"Master": {"template": {"spec": spec}}}}}


def node_affinity(*terms: Any) -> Object:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
        }
    }


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("resource", "quantity", "amount"),
    [
        ("cpu", "2", 2000),
        ("cpu", "1500m", 1500),
        ("cpu", 0.1, 100),
        ("cpu", "0.0001", 1),
        ("cpu", "1e3", 1_000_000),
        ("memory", "128Mi", 128 << 20),
        ("memory", "1.5G", 1_500_000_000),
        ("memory", "1E", 10**18),
        ("memory", "123456789", 123_456_789),
        ("memory", "100m", 1),
        (NPU, "8", 8),
        (NPU, 8, 8),
        (NPU, "8k", 8000),
        (NPU, "-1", 0),
        (NPU, "9e999", MOST),
        (NPU, "eight", None),
        (NPU, "", None),
        (NPU, True, None),
        (NPU, None, None),
        (NPU, [8], None),
    ],
)
def test_every_notation_of_a_quantity_becomes_a_whole_number_rounded_up(
    resource: str, quantity: Any, amount: int | None
) -> None:
    assert whole_amount(resource, quantity) == amount


def test_amounts_that_are_none_are_left_out() -> None:
    assert whole_amounts({"cpu": "1", "memory": "much", "pods": "110"}) == {
        "cpu": 1000,
        "pods": 110,
    }


def test_containers_are_added_up_and_every_pod_counts_as_one() -> None:
    containers = [container({NPU: "8", "cpu": "4"}), container({"cpu": "500m"})]
    assert asked(containers=containers) == {"cpu": 4500, NPU: 8, "pods": 1}


def test_limits_stand_in_for_missing_requests() -> None:
    assert asked(containers=[container({"cpu": "1"}, {"cpu": "8", NPU: "8"})]) == {
        "cpu": 1000,
        NPU: 8,
        "pods": 1,
    }


def test_ordinary_init_containers_count_by_the_largest() -> None:
    inits = [container({"cpu": "9"}), container({"memory": "1Ki"})]
    assert asked(containers=[container({"cpu": "4"})], initContainers=inits) == {
        "cpu": 9000,
        "memory": 1024,
        "pods": 1,
    }


def test_sidecars_run_beside_the_containers_and_beside_the_init_containers_after_them() -> None:
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    assert asked(containers=[container({"cpu": "4"})], initContainers=[sidecar]) == {
        "cpu": 5000,
        "pods": 1,
    }
    after = [sidecar, container({"cpu": "6"})]
    before = [container({"cpu": "6"}), sidecar]
    assert asked(containers=[container({"cpu": "4"})], initContainers=after) == {
        "cpu": 7000,
        "pods": 1,
    }
    assert asked(containers=[container({"cpu": "4"})], initContainers=before) == {
        "cpu": 6000,
        "pods": 1,
    }


def test_resources_of_the_pod_replace_those_of_its_containers_and_overhead_comes_on_top() -> None:
    spec = {
        "containers": [container({"cpu": "4", NPU: "8"})],
        "resources": {"limits": {"cpu": "6"}},
    }
    assert asked(**spec, overhead={"cpu": "250m"}) == {"cpu": 6250, NPU: 8, "pods": 1}


def test_what_the_cache_decodes_of_a_pod_gives_the_same_requests_as_its_spec() -> None:
    spec = {
        "nodeName": "node-1",
        "containers": [container({"cpu": "4"}, {NPU: 8}, image="mindie:1")],
        "initContainers": [
            container({"cpu": "1"}, restartPolicy="Always"),
            container({"cpu": "6"}),
        ],
        "overhead": {"cpu": "250m"},
    }
    decoded = msgspec.json.decode(msgspec.json.encode(spec), type=PodResources)
    assert requests_of(decoded) is pod_request_of(spec).requests


class Placed(PodResources, frozen=True, rename="camel", gc=False):
    node_name: str = ""
    affinity: msgspec.Raw = msgspec.Raw()


@pytest.mark.parametrize(
    "also", [{}, {"initContainers": [container({"cpu": "6"})]}, {"overhead": {"cpu": "1"}}]
)
def test_the_requests_of_a_template_are_computed_once_wherever_its_pods_are(
    also: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[PodResources] = []

    def effective(pod: PodResources) -> pod_requests.Requests:
        computed.append(pod)
        return (("pods", 1),)

    monkeypatch.setattr(pod_requests, "_effective", effective)
    monkeypatch.setattr(pod_requests, "_read", Remembered(10_000))
    for number in range(3):
        spec = {
            "containers": [container({"cpu": "7919m"})],
            "nodeName": f"node-{number}",
            "affinity": {},
            **also,
        }
        requests_of(msgspec.json.decode(msgspec.json.encode(spec), type=Placed))
    assert len(computed) == 1


def test_selectors_affinity_and_tolerations_are_read_in_a_fixed_order() -> None:
    term = {
        **expression("zone", "In", "b", "a"),
        "matchFields": [{"key": NODE_NAME, "operator": "In", "values": []}],
    }
    assert where(
        nodeSelector={"type": "910b", "arch": "arm"},
        affinity=node_affinity(term),
        tolerations=[{"key": "npu", "value": "x"}, {"operator": "Exists"}],
    ) == Where(
        selector=(("arch", "arm"), ("type", "910b")),
        affinity=((Requirement(NODE_NAME, "In"), Requirement("zone", "In", ("a", "b"))),),
        tolerations=(Toleration("", "Exists"), Toleration("npu", "Equal", "x")),
    )


def test_a_pod_that_names_its_node_fits_only_there() -> None:
    assert where(nodeName="node-7").selector == ((NODE_NAME, "node-7"),)


def test_equal_needs_are_one_object() -> None:
    one, other = (pod_request_of(template()["spec"]) for _ in range(2))
    assert one is other
    assert one.where is pod_request_of({"containers": []}).where


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"volumes": [{"name": "model", "persistentVolumeClaim": {"claimName": "model"}}]},
        {"containers": [container(ports=[{"hostPort": 80}])]},
        {"resourceClaims": [{"name": "npu"}]},
        {"runtimeClassName": "ascend"},
        {"nodeSelector": {"type": 910}},
        {"containers": [container({NPU: "eight"})]},
        {"overhead": ["cpu"]},
        {"affinity": node_affinity(expression("type", "Near", "a"), expression("type", "In", "a"))},
        {"affinity": node_affinity({"matchPhase": "full moon"})},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "near"}}},
    ],
)
def test_what_is_not_understood_excludes_no_node_and_is_told(spec: Object) -> None:
    assert where(**spec) == Where()
    assert not is_understood(job_of(spec))


def test_the_rest_of_a_term_holds_beside_an_operator_that_is_not_understood() -> None:
    term = {
        "matchExpressions": [
            *expression("a", "Near", "1")["matchExpressions"],
            {"key": "b", "operator": "Exists"},
        ]
    }
    assert where(affinity=node_affinity(term)) == Where(affinity=((Requirement("b", "Exists"),),))
    assert not is_understood(job_of({"affinity": node_affinity(term)}))


@pytest.mark.parametrize(
    "spec",
    [
        {
            "affinity": {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
            }
        },
        {
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]
                }
            }
        },
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]},
    ],
)
def test_preferences_exclude_nothing_and_are_no_riddle(spec: Object) -> None:
    assert where(**spec) == Where()
    assert is_understood(job_of(spec))


def test_an_affinity_without_terms_matches_no_node() -> None:
    assert where(affinity=node_affinity()) == Where(affinity=((),))
    assert where(affinity=node_affinity({}, expression("a", "Exists"))).affinity == (
        (),
        (Requirement("a", "Exists"),),
    )


def test_each_pod_of_a_job_asks_for_what_its_replica_type_says() -> None:
    obj = job("p0", pods=4)
    obj["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {"type": "910b"}
    assert [need.where.selector for need in ascend_job_requests(obj)] == [
        (),
        *[(("type", "910b"),)] * 3,
    ]


def test_a_job_without_pods_needs_nothing() -> None:
    assert (
        ascend_job_requests({})
        == ascend_job_requests({"spec": {"replicaSpecs": {"Master": {"replicas": "two"}}}})
        == ()
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = [
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "affinity",
    "nodeAffinity",
    "nodeSelector",
]
FIELDS += [
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "matchExpressions",
    "values",
    "key",
]
FIELDS += [
    "tolerations",
    "overhead",
    "volumes",
    "topologySpreadConstraints",
    "cpu",
    "ports",
    "operator",
    "podAffinity",
]
wild = st.recursive(
    anything,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(wild)
def test_any_spec_gives_a_need(spec: Any) -> None:
    need = pod_request_of(spec)
    assert is_understood(job_of(spec)) in (True, False)
    assert isinstance(need, PodRequest)
    assert dict(need.requests)["pods"] >= 1
    assert all(0 < amount <= MOST for _, amount in need.requests)
    assert ascend_job_requests(job_of(spec)) == (need,)


def test_the_jobs_of_the_deployer_are_read_whole(real_data: Path) -> None:
    jobs = [
        obj
        for path in sorted((real_data / "motor").rglob("*.yaml"))
        for obj in yaml.safe_load_all(path.read_text())
        if isinstance(obj, dict) and obj.get("kind") == "AscendJob"
    ]
    servers = [
        obj for obj in jobs if "mind-cluster/scaling-rule" in obj["metadata"].get("labels", {})
    ]
    needs = {need for obj in servers for need in ascend_job_requests(obj)}
    assert len(servers) > 10
    for need in needs:
        assert any(name.startswith("huawei.com/Ascend") for name, _ in need.requests)
        assert dict(need.where.selector)["accelerator"] == "huawei-Ascend910"
