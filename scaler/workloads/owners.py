"""What the objects that make pods know of their instances: how many pods, the newest revision, and who comes first.

A number or word of a shape that was not expected counts as absent: an odd object must not vanish with all that is right
in it.
Pure, never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.kube.metadata import LabelledMetadata, shared
from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.rules.values import as_count
from scaler.workloads.kind import OwnerFacts, identity, number_in

MAKERS = ("Deployment", "LeaderWorkerSet")
"""Kinds whose replicas are instances."""
LWS = "leaderworkerset.sigs.k8s.io/"
STORM, ROLE, ROLE_HASH = "storm-service-name", "role-name", "role-template-hash"
TEMPLATE_HASH = "pod-template-hash"


class _WorkerTemplate(msgspec.Struct, gc=False):
    size: Any = None


class _OwnerSpec(msgspec.Struct, rename="camel", gc=False):
    replicas: Any = None
    pod_group_size: Any = None
    startup_policy: Any = None
    leader_worker_template: _WorkerTemplate | None = None


class OwnerObject(msgspec.Struct, gc=False):
    """The part of an object that makes pods that the scaler reads."""

    metadata: LabelledMetadata
    spec: _OwnerSpec | None = None


def owner_facts(kind: str, obj: OwnerObject) -> OwnerFacts:
    """What `obj`, an object of this Kubernetes kind, tells; of an unknown kind only that it exists."""
    meta, spec = obj.metadata, obj.spec or _OwnerSpec()
    created = seconds_of(meta.creation_timestamp)
    maker, revision, rank = _revision(kind, meta, created)
    return OwnerFacts(
        kind=kind,
        namespace=shared(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        created=created,
        maker=shared(maker),
        revision=shared(revision),
        rank=rank,
        size=as_count(_size(kind, meta.labels, spec), MAX_PODS),
        wanted=as_count(spec.replicas, MAX_INSTANCES) if kind in MAKERS else 0,
        leader_first=kind == "LeaderWorkerSet" and spec.startup_policy == "LeaderReady",
    )


def _revision(kind: str, meta: LabelledMetadata, created: float) -> tuple[str, str, int]:
    """Maker, revision and rank; empty when the object tells nothing of revisions."""
    namespace, name, labels, owner = meta.namespace, meta.name, meta.labels, meta.owner
    if kind == "ReplicaSet" and owner.kind == "Deployment" and owner.name:
        rank = number_in(meta.annotations.get("deployment.kubernetes.io/revision", ""), largest=10**9)
        return identity("Deployment", namespace, owner.name), labels.get(TEMPLATE_HASH, ""), rank
    # The label of the leaders' StatefulSet follows the newest revision at once, before any pod is replaced.
    if kind == "StatefulSet" and name and labels.get(LWS + "name") == name:
        return identity("LeaderWorkerSet", namespace, name), labels.get(LWS + "template-revision-hash", ""), 0
    # Nothing numbers the templates of a role: the PodSet made last has the newest.
    if kind == "PodSet" and labels.get(STORM) and labels.get(ROLE):
        maker = identity("StormService", namespace, labels[STORM], labels[ROLE])
        return maker, labels.get(ROLE_HASH, ""), int(created)
    return "", "", 0


def _size(kind: str, labels: Mapping[str, str], spec: _OwnerSpec) -> Any:
    """Where this kind says how many pods an instance has; None where it does not say it."""
    match kind:
        case "LeaderWorkerSet":
            return spec.leader_worker_template and spec.leader_worker_template.size
        case "PodSet":
            return spec.pod_group_size
        case "Deployment" | "ReplicaSet":
            return spec.replicas
        case "StatefulSet" if not labels.get(LWS + "name"):
            # A LeaderWorkerSet's StatefulSets count groups or workers, not the pods of an instance.
            return spec.replicas
    return None
