"""Pods as those who make them do: what stands in labels, annotations, owners and names decides
about instances.

One function for each kind of workload gives the pods of one of its objects, instance by instance.
`again` counts how often they were all made anew before: uids differ, names where the owner draws
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.kube.metadata import Metadata

NAMESPACE = "mindie"
LABELS = {
    "mind-cluster/scaling-rule": "rule",
    "mind-cluster/group-name": "group0",
    "jobID": "mindie",
}
LWS = "leaderworkerset.sigs.k8s.io"
STORM = "stormservice.orchestration.aibrix.ai"
RBG = "rbg.workloads.x-k8s.io"
INFER = "infer.huawei.com"

Instances = list[list[Object]]
"""Pods of each instance."""


def template(labels: Mapping[str, str] = LABELS, **annotations: str) -> Object:
    npus = {"huawei.com/Ascend910": "8"}
    container = {
        "name": "server",
        "image": "server:1",
        "resources": {"requests": npus, "limits": npus},
    }
    return {
        "metadata": {"labels": dict(labels), "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }


def obj(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def facts(pod: Object) -> Metadata:
    """What the scaler looks at."""
    return msgspec.convert(pod["metadata"], Metadata)


def plain(pods: Object, again: int = 0) -> Instances:
    """spec.replicas pods that a person applied; with spec.size so many pods each, whose annotations
    say it."""
    spec = pods["spec"]
    name = pods["metadata"]["name"]
    made = []
    for instance in [f"{name}-{i}" for i in range(spec["replicas"])]:
        said = {"mind-cluster/instance": instance, "mind-cluster/instance-size": str(spec["size"])}
        names = [f"{instance}-{n}" for n in range(spec["size"])]
        if spec["size"] == 1:
            said = {}
            names = [instance]
        made.append([_pod(spec["template"], pod, "", again, annotations=said) for pod in names])
    return made


def deployment(deployment: Object, again: int = 0, revision: str = "5d9c7f6b4") -> Instances:
    spec = deployment["spec"]
    name = deployment["metadata"]["name"]
    owner = f"apps/v1 ReplicaSet {name}-{revision}"
    hashed = {"pod-template-hash": revision}
    names = [
        f"{name}-{revision}-{_random(f'{name}{again}{i}', 5)}" for i in range(spec["replicas"])
    ]
    return [[_pod(spec["template"], pod, owner, again, labels=hashed)] for pod in names]


def stateful_set(set_: Object, again: int = 0) -> Instances:
    spec = set_["spec"]
    name = set_["metadata"]["name"]
    labels = {"controller-revision-hash": f"{name}-6b"}
    return [
        [_numbered(spec["template"], name, i, again, labels=labels)]
        for i in range(spec["replicas"])
    ]


def leader_worker_set(
    lws: Object, again: int = 0, revision: str = "6c8d", *, webhook: bool = True
) -> Instances:
    """Without `webhook` as they are before its own admission webhook has seen them."""
    return [
        _group(lws, index, again, revision, webhook) for index in range(lws["spec"]["replicas"])
    ]


def _group(lws: Object, index: int, again: int, revision: str, webhook: bool) -> list[Object]:
    spec = lws["spec"]["leaderWorkerTemplate"]
    name = lws["metadata"]["name"]
    leader = f"{name}-{index}"
    size = {f"{LWS}/size": str(spec["size"])}
    base = {f"{LWS}/name": name, f"{LWS}/template-revision-hash": revision}
    grouped = {f"{LWS}/group-index": str(index), f"{LWS}/group-key": _random(leader, 40)}
    first = base | {f"{LWS}/worker-index": "0"} | (grouped if webhook else {})
    leaders = spec.get("leaderTemplate") or spec["workerTemplate"]
    pods = [_numbered(leaders, name, index, again, labels=first, annotations=size)]
    for worker in range(1, spec["size"]):
        labels = base | grouped | ({f"{LWS}/worker-index": str(worker)} if webhook else {})
        said = size | {f"{LWS}/leader-name": leader}
        workers = spec["workerTemplate"]
        pods.append(_numbered(workers, leader, worker, again, labels=labels, annotations=said))
    return pods


def storm_service(storm: Object, again: int = 0) -> Instances:
    """Of every role of every RoleSet."""
    name = storm["metadata"]["name"]
    spec = storm["spec"]
    return [
        pods
        for index in range(spec.get("replicas", 1))
        for role in spec["template"]["spec"]["roles"]
        for replica in range(role.get("replicas", 1))
        for pods in [
            _role_replica(
                name, f"{name}-roleset-{_random(f'{name}{index}', 5)}", role, replica, again
            )
        ]
    ]


def _role_replica(storm: str, role_set: str, role: Object, index: int, again: int) -> list[Object]:
    revision = _random(str(role["template"]), 8)
    size = role.get("podGroupSize", 1)
    labels = {"storm-service-name": storm, "roleset-name": role_set, "role-name": role["name"]}
    labels["role-template-hash"] = revision
    stateful = role.get("stateful", False)
    indexed = {f"{STORM}/role-replica-index": str(index)} if stateful else {}
    drawn = _random(f"{role_set}{role['name']}{index}" + (str(again) if size == 1 else ""), 5)
    made = f"{role_set}-{role['name']}-" + (f"{revision}-{index}" if stateful else drawn)
    if size == 1:
        owner = f"orchestration.aibrix.ai/v1alpha1 RoleSet {role_set}"
        return [
            _pod(role["template"], made, owner, again, labels=labels | indexed, annotations=indexed)
        ]
    owner = f"orchestration.aibrix.ai/v1alpha1 PodSet {made}"
    grouped = labels | indexed | {f"{STORM}/podset-name": made}
    return [
        _pod(
            role["template"],
            f"{made}-{n}",
            owner,
            again,
            labels={**grouped, f"{STORM}/pod-group-index": str(n)},
        )
        for n in range(size)
    ]


def infer_service_set(iss: Object, again: int = 0) -> Instances:
    """Every workload of every InstanceSet of every InferService."""
    name = iss["metadata"]["name"]
    spec = iss["spec"]
    return [
        _workload(f"{name}-{service}", role, index, again)
        for service in range(spec.get("replicas", 1))
        for role in spec["template"]["roles"]
        for index in range(role.get("replicas", 1))
    ]


def _workload(service: str, role: Object, index: int, again: int) -> list[Object]:
    labels = {f"{INFER}/inferservice-name": service, f"{INFER}/instanceset-name": role["name"]}
    labels |= {f"{INFER}/instanceset-index": str(index), f"{INFER}/ascend-infer-operator": "true"}
    named = {**role["spec"]["template"]["metadata"]["labels"], **labels}
    made = {
        **role["spec"]["template"],
        "metadata": {**role["spec"]["template"]["metadata"], "labels": named},
    }
    workload = obj(
        f"{service}-{role['name']}-{index}", replicas=role["spec"]["replicas"], template=made
    )
    make = stateful_set if role["workload"]["kind"] == "StatefulSet" else deployment
    return [pod for pods in make(workload, again) for pod in pods]


def role_based_group(rbg: Object, again: int = 0) -> Instances:
    """Stateful roles; with spec.size a leader and workers, else single pods."""
    name = rbg["metadata"]["name"]
    spec = rbg["spec"]
    labels = {
        f"{RBG}/group-name": name,
        f"{RBG}/role-name": spec["role"],
        "controller-revision-hash": "7d",
    }
    size = spec.get("size", 1)
    made = []
    labels[f"{RBG}/component-size"] = str(size)
    for instance in [f"{name}-{spec['role']}-{index}" for index in range(spec["replicas"])]:
        owner = f"workloads.x-k8s.io/v1alpha2 RoleInstance {instance}"
        parts = (
            [("", spec["role"])]
            if size == 1
            else [(f"-{n}", "worker" if n else "leader") for n in range(size)]
        )
        named = {**labels, f"{RBG}/role-instance-name": instance}
        made.append(
            [
                _pod(
                    spec["template"],
                    instance + end,
                    owner,
                    again,
                    labels={**named, f"{RBG}/component-name": part},
                )
                for end, part in parts
            ]
        )
    return made


def _pod(
    template: Object,
    name: str,
    owner: str,
    again: int,
    **given: Mapping[str, str],
) -> Object:
    """`owner` is `apiVersion kind name`, or "" for none; `given` are `labels` and `annotations`
    besides those of the template."""
    meta = template.get("metadata") or {}
    made: Object = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}-{again}",
        "labels": {**(meta.get("labels") or {}), **given.get("labels", {})},
        "annotations": {**(meta.get("annotations") or {}), **given.get("annotations", {})},
    }
    if owner:
        version, kind, named = owner.split()
        reference = {
            "apiVersion": version,
            "kind": kind,
            "name": named,
            "uid": f"uid-{named}",
            "controller": True,
        }
        made["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}


def _numbered(
    template: Object,
    set_: str,
    index: int,
    again: int,
    **given: Mapping[str, str],
) -> Object:
    """The pod of a StatefulSet that has this number; `given` as of `_pod`."""
    name = f"{set_}-{index}"
    labels = {
        **given.pop("labels"),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(index),
    }
    owner = f"apps/v1 StatefulSet {set_}"
    return _pod(template, name, owner, again, labels=labels, **given)


def _random(seed: str, length: int) -> str:
    """What looks drawn, the same every time."""
    return sha256(seed.encode()).hexdigest()[:length]


class Sample(msgspec.Struct, frozen=True):
    """One kind as the conformance test sees it."""

    name: str
    kind: str
    make: Callable[..., Instances]
    object: Object
    size: int
    """Pods of an instance, whoever tells."""
    told: bool = True
    """The pods themselves tell the size."""
    mortal: bool = False
    shares_pod_group: bool = True


def storm(**role: Any) -> Object:
    roles = [
        {"name": name, "replicas": 2, "template": template(), **role}
        for name in ("prefill", "decode")
    ]
    return obj("storm", replicas=2, template={"spec": {"roles": roles}})


def _infer(kind: str) -> Object:
    spec = {"replicas": 3, "template": template()}
    roles = [
        {"name": name, "replicas": 2, "workload": {"kind": kind}, "spec": spec}
        for name in ("prefill", "decode")
    ]
    return obj("qwen", replicas=2, template={"roles": roles})


_SETS = obj("p", replicas=3, size=1, template=template())
_GROUPS = obj("p", replicas=3, size=2, template=template())
_LWS = obj("vllm", replicas=3, leaderWorkerTemplate={"size": 3, "workerTemplate": template()})
_UNSEEN = partial(leader_worker_set, webhook=False)
_ROLE = obj("rbg", role="prefill", replicas=2, template=template())
_PAIRS = storm(podGroupSize=2, stateful=True)
_SET: dict[str, bool] = {"told": False, "shares_pod_group": False}
"""Of instances whose controller makes a set of each."""
_TWO = obj("rbg", role="decode", replicas=2, size=2, template=template())

SAMPLES = (
    Sample("pods", "Pod", plain, _SETS, size=1, mortal=True),
    Sample("annotated pods", "Pod", plain, _GROUPS, size=2),
    Sample("Deployment", "Deployment", deployment, _SETS, size=1, mortal=True),
    Sample("StatefulSet", "StatefulSet", stateful_set, _SETS, size=1),
    Sample("LeaderWorkerSet", "LeaderWorkerSet", leader_worker_set, _LWS, size=3),
    Sample("LeaderWorkerSet unseen by its webhook", "LeaderWorkerSet", _UNSEEN, _LWS, size=3),
    Sample("StormService", "StormService", storm_service, storm(), size=1, mortal=True),
    Sample("stateful StormService", "StormService", storm_service, storm(stateful=True), size=1),
    Sample(
        "StormService of PodSets",
        "StormService",
        storm_service,
        storm(podGroupSize=2),
        size=2,
        **_SET,
    ),
    Sample(
        "stateful StormService of PodSets", "StormService", storm_service, _PAIRS, size=2, **_SET
    ),
    Sample(
        "InferServiceSet of StatefulSets",
        "InstanceSet",
        infer_service_set,
        _infer("StatefulSet"),
        size=3,
        **_SET,
    ),
    Sample(
        "InferServiceSet of Deployments",
        "InstanceSet",
        infer_service_set,
        _infer("Deployment"),
        size=3,
        **_SET,
    ),
    Sample(
        "RoleBasedGroup", "RoleBasedGroup", role_based_group, _ROLE, size=1, shares_pod_group=False
    ),
    Sample(
        "RoleBasedGroup of leaders",
        "RoleBasedGroup",
        role_based_group,
        _TWO,
        size=2,
        shares_pod_group=False,
    ),
)
