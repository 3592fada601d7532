"""What the objects that make pods know of their instances: how many pods, the newest revision, and who comes first.

One partial struct decodes a ReplicaSet, StatefulSet, Deployment, LeaderWorkerSet or PodSet. A field of a shape that was
not expected counts as absent: an odd object must not vanish with all that is right in it. Pure, never raises.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.workloads.kind import LARGEST, OwnerFacts, identity, number_in

"""Pods of one instance; a larger number is a mistake."""
MAKERS = ("Deployment", "LeaderWorkerSet")
"""Kinds whose replicas are instances."""
LEADER_READY = "LeaderReady"
_REVISION = "deployment.kubernetes.io/revision"

Other = str | int | float | bool | list[Any] | None
"""JSON that is no object, where one was expected."""


class _Labels(msgspec.Struct, gc=False):
    template_hash: Any = msgspec.field(name="pod-template-hash", default="")
    lws: Any = msgspec.field(name="leaderworkerset.sigs.k8s.io/name", default="")
    lws_revision: Any = msgspec.field(name="leaderworkerset.sigs.k8s.io/template-revision-hash", default="")
    storm: Any = msgspec.field(name="storm-service-name", default="")
    role: Any = msgspec.field(name="role-name", default="")
    role_hash: Any = msgspec.field(name="role-template-hash", default="")


class _Annotations(msgspec.Struct, gc=False):
    revision: Any = msgspec.field(name=_REVISION, default="")


class _Reference(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    labels: _Labels | Other = None
    annotations: _Annotations | Other = None
    owner_references: list[_Reference | Other] | None = None


class _GroupTemplate(msgspec.Struct, gc=False):
    size: Any = 0


class _Spec(msgspec.Struct, rename="camel", gc=False):
    replicas: Any = 0
    pod_group_size: Any = 0
    startup_policy: Any = ""
    leader_worker_template: _GroupTemplate | Other = None


class OwnerObject(msgspec.Struct, gc=False):
    """The part of any object that makes pods, or makes their makers, that the scaler reads."""

    metadata: _Metadata
    spec: _Spec | Other = None


def owner_facts(kind: str, obj: OwnerObject) -> OwnerFacts:
    """What `obj`, an object of this Kubernetes kind, tells; of an unknown kind only that it exists."""
    meta = obj.metadata
    maker, revision, rank = _revision(kind, meta)
    spec = obj.spec if isinstance(obj.spec, _Spec) else _Spec()
    return OwnerFacts(
        kind=kind,
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        created=seconds_of(meta.creation_timestamp),
        maker=sys.intern(maker),
        revision=sys.intern(revision),
        rank=rank,
        size=_size(kind, meta, spec),
        wanted=_count(spec.replicas) if kind in MAKERS else 0,
        leader_first=kind == "LeaderWorkerSet" and spec.startup_policy == LEADER_READY,
    )


def _revision(kind: str, meta: _Metadata) -> tuple[str, str, int]:
    """Maker, revision and rank; empty when the object tells nothing of revisions."""
    labels = meta.labels if isinstance(meta.labels, _Labels) else _Labels()
    if kind == "ReplicaSet" and (deployment := _controller(meta, "Deployment")):
        return identity("Deployment", meta.namespace, deployment), _text(labels.template_hash), _rank(meta)
    # The label of the leaders' StatefulSet follows the newest revision at once, before any pod is replaced.
    if kind == "StatefulSet" and meta.name and labels.lws == meta.name:
        return identity("LeaderWorkerSet", meta.namespace, meta.name), _text(labels.lws_revision), 0
    # Nothing numbers the templates of a role: the PodSet made last has the newest.
    storm, role = _text(labels.storm), _text(labels.role)
    if kind == "PodSet" and storm and role:
        maker = identity("StormService", meta.namespace, storm, role)
        return maker, _text(labels.role_hash), int(seconds_of(meta.creation_timestamp))
    return "", "", 0


def _size(kind: str, meta: _Metadata, spec: _Spec) -> int:
    template = spec.leader_worker_template
    if kind == "LeaderWorkerSet":
        return _count(template.size) if isinstance(template, _GroupTemplate) else 0
    if kind == "PodSet":
        return _count(spec.pod_group_size)
    labels = meta.labels if isinstance(meta.labels, _Labels) else _Labels()
    # A LeaderWorkerSet's StatefulSets count groups or workers, not the pods of an instance.
    whole = kind in ("Deployment", "ReplicaSet") or (kind == "StatefulSet" and not labels.lws)
    return _count(spec.replicas) if whole else 0


def _controller(meta: _Metadata, kind: str) -> str:
    references = [owner for owner in meta.owner_references or () if isinstance(owner, _Reference)]
    return next((owner.name for owner in references if owner.controller and owner.kind == kind), "")


def _rank(meta: _Metadata) -> int:
    text = _text(meta.annotations.revision) if isinstance(meta.annotations, _Annotations) else ""
    return number_in(text, largest=10**9)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
