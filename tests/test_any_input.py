"""Whatever stands in whatever object of a watched kind: the process lives, no fault of ours shows,
others are served.

Runs on every supported Python: `make pythons`."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from scaler import names
from scaler.clock import Clock
from scaler.decide.world import ServiceKey
from scaler.kube import api
from scaler.kube.api import Object, Resource
from scaler.names import GATE
from scaler.report.elastic_services import names_of
from scaler.serve import reviews
from scaler.sim.loop import run
from scaler.workloads import devices
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from scaler.workloads.stormservice import POD_SETS
from scaler.workloads.volcanojob import VOLCANO_JOBS
from tests.jobs import (
    NAMESPACE,
    TWO_P_ONE_D,
    held,
    job,
    node,
    rule_config_map,
    rule_document,
    template,
)
from tests.rig import START, Rig, controller, rig

FAULTS = {
    "decision failed",
    "service cannot be decided",
    "service cannot be read",
    "service cannot be reported",
    "plan cannot begin",
    "plan failed",
    "write failed",
    "missed event",
}
"""Lines of the log that say that our own code failed at something. What cannot be read is said by
others."""
DIGITS = "9" * 5000
NUMBERS = (0, 1, -1, 2, 7, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 64, 0.5, -0.0, 1e308, 1e-308)
NASTY = (
    DIGITS,
    f"-{DIGITS}",
    f"0.{DIGITS}",
    f"a{DIGITS}b{DIGITS}",
    f"{DIGITS}Ki",
    "9" * 400,
    "1e999",
    "1E400Ki",
    "٣",
    "½",
    "²",
    "[" * 3000,
    '{"a":' * 3000,
    "x" * 70_000,
    "é" * 300,
    "\x00",
    "\u2028",
    "//",
    "9999-12-31T23:59:59Z",
    "2026-01-01T00:00:00+99:99",
)
PLAIN = (
    "",
    "0",
    "1",
    "-1",
    "00",
    "1e-999",
    "0x10",
    "true",
    "null",
    "{}",
    "[]",
    "{",
    "NaN",
    "Infinity",
    "a/b/c/d",
    ".",
    "-",
    "2026-01-01",
    "0001-01-01T00:00:00Z",
    "2026-13-45T99:99:99Z",
    "rule",
    "odd",
    "mindie",
    "group0",
    "p0",
    "d0",
    "node-0",
    "Running",
    "Failed",
    "Succeeded",
    "True",
    "Always",
    "ExitCode",
    "Master",
    "Worker",
    "AscendJob",
    "mindxdl.gitee.com/v1",
    "volcano",
    GATE,
    "mind-cluster/",
    TWO_P_ONE_D,
)
TEXT = st.sampled_from(NASTY) | st.sampled_from(PLAIN)
DATES = st.sampled_from(
    [text for text in (*NASTY, *PLAIN) if (text[:1].isdigit() and "-" in text) or not text]
)


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"a": [value]}
    return value


SCALARS = st.none() | st.booleans() | st.sampled_from(NUMBERS) | TEXT | st.text(max_size=8)
WIDE = st.sampled_from(([[]] * 3000, {str(number): {} for number in range(3000)}, ["9"] * 3000))
DEEP = st.sampled_from((70, 100, 200)).map(lambda levels: nested("x", levels))
ANYTHING = (
    SCALARS
    | st.lists(SCALARS, max_size=3)
    | st.dictionaries(TEXT, SCALARS, max_size=3)
    | DEEP
    | WIDE
)
KEYS = (
    "mind-cluster/scaling-rule",
    "mind-cluster/group-name",
    "jobID",
    "app",
    "framework",
    "fault-scheduling",
    "fault-retry-times",
    "version",
    "mind-cluster/paused",
    "mind-cluster/trade",
    "mind-cluster/service-priority",
    "mind-cluster/managed-by",
    "mind-cluster/rounds",
    "scheduling.k8s.io/group-name",
    "pod-template-hash",
    "hccl/rankIndex",
    "sp-block",
    "leaderworkerset.sigs.k8s.io/name",
    "leaderworkerset.sigs.k8s.io/size",
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
    "storm-service-name",
    "role-name",
    "role-template-hash",
    "roleset-name",
    "stormservice.orchestration.aibrix.ai/role-replica-index",
    "infer.huawei.com/ascend-infer-operator",
    "group-name",
    "component-size",
    "deployment.kubernetes.io/revision",
    "scaleout-type",
    "fault-type",
    "accelerator-type",
)
OURS = (
    names.INSTANCE,
    names.INSTANCE_SIZE,
    names.MOVED_RULE,
    names.POD_GROUP,
    names.DELETION_COST,
    devices.RANK_INDEX,
    devices.CONFIGURATION,
    devices.CONFIGURATION_NPU,
    devices.REAL,
    devices.HARDWARE_TYPE,
    devices.SUPER_POD,
)
WORDS = st.dictionaries(st.sampled_from(OURS) | st.sampled_from(KEYS), TEXT, max_size=9)


def _labels(rule: str = "odd") -> dict[str, str]:
    return {
        "mind-cluster/scaling-rule": rule,
        "mind-cluster/group-name": "group0",
        "jobID": "odd",
        "app": "odd",
    }


def _owner(kind: str, version: str) -> list[Object]:
    return [
        {
            "apiVersion": version,
            "kind": kind,
            "name": "odd-1",
            "uid": "uid-odd-1",
            "controller": True,
        }
    ]


def _pod(name: str, kind: str = "ReplicaSet", version: str = "apps/v1") -> Object:
    pod = held(name, "group0", rule="odd", job_id="odd")
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "ascend",
                "restartCount": 1,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            },
            {"name": "ascend", "restartCount": 1, "state": {"terminated": {"exitCode": 137}}},
        ],
    }
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
            ]
        }
    }
    spec = {
        **pod["spec"],
        **template()["spec"],
        "nodeName": "node-0",
        "nodeSelector": {"a": "b"},
        "affinity": {"nodeAffinity": affinity},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        "initContainers": template()["spec"]["containers"],
        "overhead": {"cpu": "1"},
        "volumes": [{"configMap": {"name": "rings-config-odd"}}],
        "priority": 1,
    }
    meta = {
        **pod["metadata"],
        "ownerReferences": _owner(kind, version),
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    return {**pod, "metadata": meta, "spec": spec, "status": status}


def _job() -> Object:
    odd = job("odd", "group0", pods=2, rule="odd")
    spec = {
        **odd["spec"],
        "successPolicy": "AllWorkers",
        "runPolicy": {
            "backoffLimit": 3,
            "activeDeadlineSeconds": 100,
            "ttlSecondsAfterFinished": 100,
            "cleanPodPolicy": "All",
            "schedulingPolicy": {
                "minAvailable": 2,
                "priorityClass": "odd",
                "queue": "q",
                "minResources": {"cpu": "1"},
            },
        },
    }
    conditions = [
        {
            "type": "Failed",
            "status": "True",
            "reason": "x",
            "message": "y",
            "lastTransitionTime": "x",
        }
    ]
    counts = {"Master": {"active": 1, "failed": 1, "succeeded": 1}}
    return {
        **odd,
        "spec": spec,
        "status": {"conditions": conditions, "replicaStatuses": counts, "startTime": "x"},
    }


def _made(api_version: str, kind: str, spec: Object, **status: Any) -> Object:
    meta = {"name": "odd", "namespace": NAMESPACE, "labels": _labels(), "annotations": {"a": "b"}}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }


_TEMPLATE = {"metadata": {"labels": _labels()}, "spec": template()["spec"]}
_TASK = {
    "name": "t",
    "replicas": 2,
    "template": _TEMPLATE,
    "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
}
_DEVICES = '{"DeviceInfo":{"DeviceList":{}},"CheckCode":"x"}'


def _config_map(name: str, namespace: str = NAMESPACE, **data: str) -> Object:
    meta = {
        "name": name,
        "namespace": namespace,
        "labels": {"mind-cluster/managed-by": "scaler"},
        "annotations": {},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


_STATUS: Object = {
    "apiVersion": api.ELASTIC_SERVICES.api_version,
    "kind": "ElasticService",
    "metadata": {
        "name": "odd",
        "namespace": NAMESPACE,
        "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
    },
    "spec": {"rule": "rule", "jobID": "mindie"},
    "status": {
        "running": "1+1",
        "target": "1+1",
        "reason": "Complete",
        "since": "2026-01-01T00:00:00Z",
        "rule": {"inForce": "x", "paused": False},
        "ratios": [{"group0": 1}],
        "currentRatio": {"index": 0, "counts": {"group0": 1}},
        "targetRatio": {"index": 0, "counts": {"group0": 1}},
        "instances": [
            {
                "name": "p0",
                "uid": "u",
                "state": "Running",
                "reason": "Running",
                "message": "Runs.",
                "since": "2026-01-01T00:00:00Z",
                "nodes": ["n"],
            }
        ],
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "reason": "x",
                "message": "x",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    },
}
GOOD: tuple[tuple[Resource, Object], ...] = (
    (api.ASCEND_JOBS, _job()),
    (
        VOLCANO_JOBS,
        _made(
            "batch.volcano.sh/v1alpha1",
            "Job",
            {"tasks": [_TASK] * 2, "minAvailable": 2},
            state={"phase": "Running", "message": "x"},
            retryCount=1,
        ),
    ),
    (api.PODS, _pod("odd")),
    (api.PODS, _pod("odd-0", "StatefulSet")),
    (api.PODS, _pod("odd-master-0", "AscendJob", "mindxdl.gitee.com/v1")),
    (api.PODS, _pod("odd-t-0", "Job", "batch.volcano.sh/v1alpha1")),
    (api.PODS, _pod("odd-2", "PodSet", "orchestration.aibrix.ai/v1alpha1")),
    (api.PODS, _pod("odd-3", "RoleInstance", "workloads.x-k8s.io/v1")),
    (
        api.POD_GROUPS,
        _made("scheduling.volcano.sh/v1beta1", "PodGroup", {"minMember": 2}, phase="Running"),
    ),
    (api.SERVICES, _made("v1", "Service", {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]})),
    (api.CONFIG_MAPS, rule_config_map(name="odd", paused="true", service_priority="7")),
    (
        api.CONFIG_MAPS,
        _config_map(
            "rings-config-odd", **{"hccl.json": '{"status":"initializing"}', "version": "1"}
        ),
    ),
    (api.CONFIG_MAPS, _config_map("odd-status", **{"status.json": "{}"})),
    (
        api.CONFIG_MAPS,
        _config_map("mindx-dl-deviceinfo-node-0", "kube-system", DeviceInfoCfg=_DEVICES),
    ),
    (
        api.CONFIG_MAPS,
        _config_map("cluster-info-device-0", "cluster-system", cmInfo='{"node-0":{}}'),
    ),
    (api.CONFIG_MAPS, _config_map("vcjob-retry-cm", "volcano-system", jobs='{"a/b":{"retry":1}}')),
    (api.ELASTIC_SERVICES, _STATUS),
    (api.NODES, node("odd", roomy=True)),
    (
        api.PRIORITY_CLASSES,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "odd"},
            "value": 7,
        },
    ),
    (
        api.DEPLOYMENTS,
        _made("apps/v1", "Deployment", {"replicas": 2, "template": _TEMPLATE}, readyReplicas=1),
    ),
    (
        api.REPLICA_SETS,
        _made("apps/v1", "ReplicaSet", {"replicas": 2, "template": _TEMPLATE}, readyReplicas=1),
    ),
    (
        api.STATEFUL_SETS,
        _made("apps/v1", "StatefulSet", {"replicas": 2, "template": _TEMPLATE}, readyReplicas=1),
    ),
    (
        LEADER_WORKER_SETS,
        _made(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"replicas": 2, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 2}},
        ),
    ),
    (POD_SETS, _made("orchestration.aibrix.ai/v1alpha1", "PodSet", {"podGroupSize": 2})),
)
"""An object of each watched kind that means something here, and of pods of each sort."""
TIMES = ("creationTimestamp", "deletionTimestamp")


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in an object."""
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, inner in steps:
        yield (*at, step)
        yield from _places(inner, (*at, step))


@st.composite
def hostile(draw: st.DrawFn) -> tuple[Resource, Object]:
    """A good object with a few places overwritten. What an API server insists on stays: identity,
    and texts as labels, annotations and times."""
    resource, good = draw(st.sampled_from(GOOD))
    obj = copy.deepcopy(good)
    meta = obj["metadata"]
    places = [place for place in _places(obj) if place[0] not in ("metadata", "apiVersion", "kind")]
    for place in draw(st.lists(st.sampled_from(places), max_size=3)) if places else ():
        holder: Any = obj
        for step in place[:-1]:
            holder = holder[step] if _has(holder, step) else None
        if _has(holder, place[-1]):
            holder[place[-1]] = draw(TEXT if place[0] == "data" else ANYTHING)
    meta["labels"] = {**meta.get("labels", {}), **draw(WORDS)}
    meta["annotations"] = {**meta.get("annotations", {}), **draw(WORDS)}
    meta |= draw(st.dictionaries(st.sampled_from(TIMES), DATES, max_size=2))
    for field in (
        draw(st.sets(st.sampled_from(("spec", "status")), max_size=1))
        if draw(st.booleans())
        else ()
    ):
        obj[field] = draw(ANYTHING)
    return resource, obj


def _has(holder: Any, step: Any) -> bool:
    if isinstance(holder, list):
        return isinstance(step, int) and step < len(holder)
    return isinstance(holder, dict) and step in holder


class Hostile:
    """Puts objects into the simulated store, past every check of its API server."""

    def __init__(self, on: Rig) -> None:
        self._on = on
        self._number = 0

    def put(self, resource: Resource, obj: Object, *, deep: int = 0) -> None:
        """`deep`: with something nested so deep that no encoder makes it."""
        meta = {**obj["metadata"]}
        self._number += 1
        namespace = meta.get("namespace", NAMESPACE) if resource.namespaced else ""
        known = self._on.cluster.server.store.table(resource).records.get((namespace, meta["name"]))
        meta["uid"] = (
            known.object["metadata"]["uid"] if known else f"uid-{meta['name']}-{self._number}"
        )
        meta.setdefault("creationTimestamp", "2023-11-14T22:13:20Z")
        stored = {**obj, "metadata": meta | ({"namespace": namespace} if namespace else {})}
        record = self._on.cluster.server.store.put(
            resource, (namespace, meta["name"]), stored, START
        )
        if deep:
            nested = b'"deep":' + b'{"a":' * deep + b"1" + b"}" * deep
            record.raw = record.raw.replace(b'"spec":{', b'"spec":{' + nested + b",", 1)


@asynccontextmanager
async def beside_a_healthy_service(**changes: Any) -> AsyncIterator[tuple[Rig, Hostile]]:
    """In the end the healthy service runs as before, a new one is served, and both are after a
    restart among all that was put there."""
    first = [node("roomy", roomy=True), rule_config_map(), job("p0"), job("d0")]
    with capture_logs() as lines:
        async with rig(*first, **changes) as on:
            await on.start("p0", "d0")
            before = set(_pods(on))
            yield on, Hostile(on)
            await on.settle(3)
            await _serves(on, "q0", before)
        async with controller(on, Clock(START + 100), **changes):
            await on.settle(3)
            await _serves(on, "r0", before)
    said = [line for line in lines if line["event"] in FAULTS]
    assert said == []


async def _serves(on: Rig, name: str, before: set[str]) -> None:
    document = rule_document({"group0": 1})
    on.apply(
        rule_config_map(document, name=f"rule-{name}"), job(name, "group0", rule=f"rule-{name}")
    )
    await on.settle(3)
    pods = _pods(on)
    assert before <= pods.keys()
    assert name in pods.values()


def _pods(on: Rig) -> dict[str, str]:
    """Uid -> name of the controlling owner; also of pods that nobody can read."""
    metas = [
        record.object["metadata"]
        for record in on.cluster.server.store.table(api.PODS).records.values()
    ]
    return {meta["uid"]: (meta.get("ownerReferences") or [{}])[0].get("name", "") for meta in metas}


def has_keys(obj: Object) -> bool:
    """No API server stores conditions whose type is no text under our definition, or could apply to
    them afterwards."""
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    return not isinstance(found, list) or all(
        isinstance(one, dict) and isinstance(one.get("type"), str) for one in found
    )


def play(objects: list[tuple[Resource, Object]]) -> None:
    """They come one after the other, are fixed, and come all at once."""
    objects = [
        (resource, obj)
        for resource, obj in objects
        if resource != api.ELASTIC_SERVICES or has_keys(obj)
    ]

    async def story() -> None:
        async with beside_a_healthy_service() as (on, attacker):
            attacker.put(*GOOD[10])
            for resource, obj in objects:
                attacker.put(resource, obj)
                await on.settle()
            for resource, good in GOOD:  # ... and is fixed, or was right all the time
                attacker.put(resource, copy.deepcopy(good))
            await on.settle(2)
            for resource, obj in objects:
                attacker.put(resource, obj)

    run(story())


SEVERAL = st.lists(hostile(), min_size=1, max_size=4)


@settings(max_examples=40)
@given(SEVERAL)
def test_any_object_leaves_the_others_served(objects: list[tuple[Resource, Object]]) -> None:
    play(objects)


def test_a_spec_that_is_no_object_is_about_another_service() -> None:
    async def story() -> None:
        async with beside_a_healthy_service() as (on, attacker):
            first, second = names_of(ServiceKey(NAMESPACE, "rule", "mindie"))
            attacker.put(
                api.ELASTIC_SERVICES, api.ELASTIC_SERVICES.object({"name": first}, spec=True)
            )
            await on.settle(3)
            assert await on.cluster.get(api.ELASTIC_SERVICES, NAMESPACE, second)

    run(story())


@pytest.mark.long("four minutes")
@settings(max_examples=300)
@given(SEVERAL)
def test_many_more_objects_leave_the_others_served(objects: list[tuple[Resource, Object]]) -> None:
    play(objects)


def deep_job(on: Hostile) -> None:
    on.put(api.ASCEND_JOBS, job("odd", rule="odd"), deep=2000)


def deep_pod(on: Hostile) -> None:
    on.put(api.PODS, _pod("odd"), deep=20_000)


def digits(on: Hostile) -> None:
    pod = held("odd", "group0", rule="odd", annotations={"mind-cluster/instance": DIGITS})
    on.put(api.PODS, pod)


def digits_of_a_service_that_is_ours(on: Hostile) -> None:
    on.put(api.PODS, held("p9", "group0", annotations={"mind-cluster/instance": f"p{DIGITS}"}))


def large_rules(on: Hostile) -> None:
    for number in range(4):
        ladder = [{"group0": 9999 - size} for size in range(9_999)]
        on.put(api.CONFIG_MAPS, rule_config_map(rule_document(*ladder), name=f"odd-{number}"))
        on.put(api.ASCEND_JOBS, job(f"odd-{number}", "group0", rule=f"odd-{number}"))


def many_pods(on: Hostile) -> None:
    tasks = [{**_TASK, "replicas": 1 << 30}] * 50
    on.put(VOLCANO_JOBS, _made("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks}))
    on.put(api.ASCEND_JOBS, job("odd", "group0", rule="odd", pods=1 << 30))
    pod = held("odd", "group0", rule="odd", annotations={"mind-cluster/instance-size": "100000"})
    on.put(api.PODS, pod)


def nothing_but_types(on: Hostile) -> None:
    for resource, good in GOOD:
        on.put(resource, {**good, "spec": [], "status": "x", "data": 7, "value": "y"})


@pytest.mark.parametrize(
    "attack",
    [
        deep_job,
        deep_pod,
        digits,
        digits_of_a_service_that_is_ours,
        large_rules,
        many_pods,
        nothing_but_types,
    ],
)
@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_known_attacks_leave_the_others_served(
    attack: Callable[[Hostile], None], pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pause` 0: whatever may let the loop turn does it every time."""
    monkeypatch.setattr("scaler.clock.SLICE", pause)

    async def story() -> None:
        async with beside_a_healthy_service() as (on, attacker):
            attacker.put(api.CONFIG_MAPS, rule_config_map(name="odd"))
            attack(attacker)
            await on.settle(2)

    run(story())


def test_an_object_that_cannot_be_read_is_named_in_an_event_and_in_the_status_of_its_service() -> (
    None
):
    async def story() -> None:
        async with rig(node("roomy", roomy=True), rule_config_map(), job("p0"), job("d0")) as on:
            await on.start("p0", "d0")
            Hostile(on).put(api.ASCEND_JOBS, job("p1"), deep=5000)
            await on.settle(5)
            assert ("p1", "ObjectUnreadable") in {
                (event["involvedObject"]["name"], event["reason"])
                for event in on.cluster.peek(api.EVENTS)
            }
            assert "AscendJob p1 cannot be read: nested more than 128 deep" in json.dumps(on.said())

    run(story())


@given(hostile(), st.sampled_from(("CREATE", "UPDATE", "DELETE", "")), ANYTHING)
def test_admission_answers_whatever_it_is_asked(
    found: tuple[Resource, Object], operation: str, odd: Any
) -> None:
    resource, obj = found
    kind = {"kind": resource.kind}
    request = {
        "uid": "u",
        "operation": operation,
        "namespace": NAMESPACE,
        "kind": kind,
        "object": obj,
    }
    for asked in (request, request | {"oldObject": odd}, request | {"object": odd}, odd):
        body = json.dumps({"request": asked}).encode()
        for review in (
            reviews.review_pod,
            reviews.review_ascend_job,
            reviews.review_rule,
            _review_labels,
        ):
            answer = reviews.answer_to(body, review)
            assert answer.uid in ("u", "")
            assert reviews.encode(answer)


def _review_labels(request: reviews.Request) -> reviews.Response:
    return reviews.review_labels(request, lambda _namespace, _rule: ("group0",))
