"""The PodGroup of one instance whose pods would otherwise share one with other instances. Pure.

Volcano puts the pods of a whole Deployment into one PodGroup, and MindCluster's plugin then starts
all of them or none: one held pod would keep all others from starting. The model is the PodGroup of
LeaderWorkerSet's own gang scheduling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from scaler.kube.api import POD_GROUPS, Object
from scaler.names import INSTANCE
from scaler.rules.values import as_text, at
from scaler.workloads.membership import Membership
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


# The value of an object, each of its parts by name.
def own_pod_group(  # noqa: PLR0913
    name: str,
    membership: Membership,
    pod: Object,
    *,
    size: int,
    leader_first: bool = False,
    others: Sequence[tuple[str, str]] = (),
) -> Object:
    """The PodGroup for the `size` pods of an instance. `pod` is the first of them (its leader, if
    it has one) as the API server returns it; the other pods count as requesting the same. `others`
    are names and uids of those that exist already: Kubernetes deletes the PodGroup with the last of
    all these pods."""
    meta = at(pod, "metadata")
    spec = at(pod, "spec")
    annotations = at(meta, "annotations")
    members = 1 if leader_first else max(size, 1)
    named = {"queue": annotations.get(QUEUE), "priorityClassName": spec.get("priorityClassName")}
    first = owner_reference(meta.get("name"), meta.get("uid"), first=True)
    metadata = {
        "name": name,
        "namespace": meta.get("namespace"),
        "ownerReferences": [first, *(owner_reference(other, uid) for other, uid in others)],
        "labels": _copied(at(meta, "labels"), _LABELS),
        "annotations": _copied(annotations, _ANNOTATIONS)
        | {MIN_AVAILABLE: str(members), INSTANCE: membership.name},
    }
    sizes = {"minMember": members, "minResources": amounts_together([(spec, max(size, 1))])}
    given = {field: value for field, value in named.items() if as_text(value)}
    return POD_GROUPS.object(metadata, spec=sizes | given)


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
