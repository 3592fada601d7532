"""The PodGroup of one instance whose pods would otherwise share one with other instances. Pure.

Volcano puts the pods of a whole Deployment into one PodGroup, and MindCluster's plugin then starts
all of them or none: one held pod would keep all others from starting. The model is the PodGroup of
LeaderWorkerSet's own gang scheduling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from scaler.kube.api import POD_GROUPS, Object
from scaler.names import INSTANCE
from scaler.rules.values import as_text, at
from scaler.workloads.hyper_nodes import topology_in
from scaler.workloads.pod_requests import amounts_together

QUEUE = "scheduling.volcano.sh/queue-name"
MIN_AVAILABLE = "huawei.com/schedule_minAvailable"
"""How many pods MindCluster's plugin waits for, whatever minMember says; users set it to a
Deployment's replicas."""
LONGEST_NAME = 200
"""Characters of an instance's name that its PodGroup's name keeps; the whole name may have 253."""
_LABELS = (
    "app",
    "elastic-scheduling",
    "fault-retry-times",
    "fault-scheduling",
    "framework",
    "grace-over-time",
    "inferserviceid",
    "jobID",
    "ome.io/inferenceservice",
    "pod-rescheduling",
    "process-recover-enable",
    "ring-controller.atlas",
    "subHealthyStrategy",
    "super-pod-affinity",
    "tor-affinity",
)
"""Labels of a PodGroup that MindCluster's plugin and ClusterD read."""
_ANNOTATIONS = ("ra-block", "recover-strategy", "sp-block", "sp-fit", "wait-reschedule-timeout")
_PREFIXES = ("huawei.com/", "volcano.sh/")
_OF_THE_POD = re.compile(r"huawei\.com/(Ascend.*|kltDev|pod-status|npu)")
"""Annotations that describe the chips of one pod."""


def own_pod_group_name(instance: str, uid: str) -> str:
    """The name of the PodGroup of an instance whose first pod has this uid: a new name at each
    start."""
    readable = re.sub(r"[^a-z0-9]+", "-", instance.lower()[:LONGEST_NAME]).strip("-")
    return f"{readable or 'instance'}-{sha256(uid.encode()).hexdigest()[:8]}"


class Gang(msgspec.Struct, frozen=True):
    """The pods of an instance that start together."""

    instance: str
    """Name of the instance, for people."""
    size: int
    leader_first: bool = False
    """The others are created only when the first pod is ready."""
    others: tuple[tuple[str, str], ...] = ()
    """Names and uids of those that exist already, besides the first."""


def own_pod_group(name: str, pod: Object, gang: Gang) -> Object:
    """The PodGroup of an instance. `pod` is the first of its pods (its leader, if it has one) as
    the API server returns it; the other pods count as requesting the same. Kubernetes deletes the
    PodGroup with the last of all these pods."""
    meta = at(pod, "metadata")
    spec = at(pod, "spec")
    annotations = at(meta, "annotations")
    pods = max(gang.size, 1)
    members = 1 if gang.leader_first else pods
    named = {"queue": annotations.get(QUEUE), "priorityClassName": spec.get("priorityClassName")}
    owners = [owner_reference(meta.get("name"), meta.get("uid"), first=True)]
    owners += [owner_reference(other, uid) for other, uid in gang.others]
    metadata = {
        "name": name,
        "namespace": meta.get("namespace"),
        "ownerReferences": owners,
        "labels": _copied(at(meta, "labels"), _LABELS),
        "annotations": _copied(annotations, _ANNOTATIONS)
        | {MIN_AVAILABLE: str(members), INSTANCE: gang.instance},
    }
    sizes = {"minMember": members, "minResources": amounts_together([(spec, pods)])}
    given = {field: value for field, value in named.items() if as_text(value)}
    topology = topology_in(annotations)
    within = {"networkTopology": topology} if topology else {}
    return POD_GROUPS.object(metadata, spec=sizes | given | within)


def owner_reference(name: Any, uid: Any, *, first: bool = False) -> Object:
    """An owner reference to a pod. `controller` must be set: MindCluster's plugin reads it without
    checking for it."""
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": first}


def _copied(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {
        key: value
        for key, value in found.items()
        if key in names or (key.startswith(_PREFIXES) and not _OF_THE_POD.fullmatch(key))
    }
