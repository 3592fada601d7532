"""What the objects that make pods know of their instances: how many pods, the newest revision, and who comes first.

A field of a shape that was not expected counts as absent: an odd object must not vanish with all that is right in it.
Pure, never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.kube.api import Object
from scaler.kube.metadata import LabelledMetadata, shared
from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.rules.values import as_count, as_list, as_text, at
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


def facts_of(kind: str, obj: OwnerObject) -> OwnerFacts:
    """As `owner_facts`."""
    return owner_facts(kind, msgspec.to_builtins(obj))


def owner_facts(kind: str, obj: Object) -> OwnerFacts:
    """What `obj`, an object of this Kubernetes kind, tells; of an unknown kind only that it exists."""
    meta, spec = at(obj, "metadata"), at(obj, "spec")
    name, namespace = as_text(meta.get("name")), as_text(meta.get("namespace"))
    created = seconds_of(as_text(meta.get("creationTimestamp")))
    maker, revision, rank = _revision(kind, namespace, name, meta, created)
    return OwnerFacts(
        kind=kind,
        namespace=shared(namespace),
        name=name,
        uid=as_text(meta.get("uid")),
        resource_version=as_text(meta.get("resourceVersion")),
        created=created,
        maker=shared(maker),
        revision=shared(revision),
        rank=rank,
        size=as_count(_size(kind, at(meta, "labels"), spec), MAX_PODS),
        wanted=as_count(spec.get("replicas"), MAX_INSTANCES) if kind in MAKERS else 0,
        leader_first=kind == "LeaderWorkerSet" and spec.get("startupPolicy") == "LeaderReady",
    )


def _revision(kind: str, namespace: str, name: str, meta: Mapping[str, Any], created: float) -> tuple[str, str, int]:
    """Maker, revision and rank; empty when the object tells nothing of revisions."""
    labels = {key: text for key, text in at(meta, "labels").items() if isinstance(text, str)}
    if kind == "ReplicaSet" and (deployment := _deployment(meta)):
        rank = number_in(as_text(at(meta, "annotations").get("deployment.kubernetes.io/revision")), largest=10**9)
        return identity("Deployment", namespace, deployment), labels.get(TEMPLATE_HASH, ""), rank
    # The label of the leaders' StatefulSet follows the newest revision at once, before any pod is replaced.
    if kind == "StatefulSet" and name and labels.get(LWS + "name") == name:
        return identity("LeaderWorkerSet", namespace, name), labels.get(LWS + "template-revision-hash", ""), 0
    # Nothing numbers the templates of a role: the PodSet made last has the newest.
    if kind == "PodSet" and labels.get(STORM) and labels.get(ROLE):
        maker = identity("StormService", namespace, labels[STORM], labels[ROLE])
        return maker, labels.get(ROLE_HASH, ""), int(created)
    return "", "", 0


def _size(kind: str, labels: Mapping[str, Any], spec: Mapping[str, Any]) -> Any:
    """Where this kind says how many pods an instance has; None where it does not say it."""
    match kind:
        case "LeaderWorkerSet":
            return at(spec, "leaderWorkerTemplate").get("size")
        case "PodSet":
            return spec.get("podGroupSize")
        case "Deployment" | "ReplicaSet":
            return spec.get("replicas")
        case "StatefulSet" if not labels.get(LWS + "name"):
            # A LeaderWorkerSet's StatefulSets count groups or workers, not the pods of an instance.
            return spec.get("replicas")
    return None


def _deployment(meta: Mapping[str, Any]) -> str:
    owners = [at(owner) for owner in as_list(meta.get("ownerReferences"))]
    names = [owner.get("name") for owner in owners if owner.get("controller") and owner.get("kind") == "Deployment"]
    return as_text(names[0]) if names else ""
