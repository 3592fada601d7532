"""What the cache keeps: partial structs that msgspec decodes, and compact records made of them.

Only declared fields are decoded; the rest of an object is skipped without building anything. A record must be small
and must never need a second look at the object. None of these values can be part of a cycle, so the garbage collector
need not look at them (`gc=False`): that is half the time of a large list. Pods and ConfigMaps: pods.py, config_maps.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.decide.nodes import PodRequest, Taint
from scaler.decide.world import Reason
from scaler.kube.api import Object
from scaler.kube.metadata import LabelledMetadata, Metadata
from scaler.kube.shallow import DEEPEST, TOO_DEEP
from scaler.rules.values import as_text, at, is_deeper
from scaler.workloads.ascendjob import Job, read_job
from scaler.workloads.kind import job_uid
from scaler.workloads.needs import ascend_job_needs, ascend_job_priority, volcano_job_needs, whole_amounts
from scaler.workloads.volcanojob import read_volcano_job


class Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class OwnedObject(msgspec.Struct, gc=False):
    """The metadata of a PodGroup or Service."""

    metadata: Metadata


class _PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0


class PodGroupObject(OwnedObject):
    """The part of a PodGroup that the scaler reads."""

    spec: _PodGroupSpec = _PodGroupSpec()


class OwnedRecord(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup or Service: existence and owner are nearly all that matters."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    terminating: bool
    members: int = 0
    """Of a PodGroup: the pods that it asks for."""


def pod_group_record(group: PodGroupObject) -> OwnedRecord:
    return msgspec.structs.replace(owned_record(group), members=group.spec.min_member)


def owned_record(obj: OwnedObject) -> OwnedRecord:
    meta = obj.metadata
    return OwnedRecord(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        owner_uid=job_uid(meta.owner),
        terminating=meta.deletion_timestamp is not None,
    )


class _NodeSpec(msgspec.Struct, frozen=True, gc=False):
    taints: list[dict[str, Any]] = []
    unschedulable: bool = False


class _NodeStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: list[Condition] = []
    allocatable: dict[str, Any] = {}
    capacity: dict[str, Any] = {}


class NodeObject(msgspec.Struct, gc=False):
    """The part of a Node that the scaler reads."""

    metadata: LabelledMetadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class NodeFacts(msgspec.Struct, frozen=True, gc=False):
    """What is known of a node. Amounts are whole, as `workloads.needs.whole_amounts` gives them."""

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = {}
    capacity: Mapping[str, int] = {}
    """With the devices that its kubelet does not count as allocatable because they are faulty."""
    ready: bool = True
    unschedulable: bool = False
    """Cordoned."""
    unhealthy: bool = False
    """Reported as faulty as a whole."""
    faulty: Mapping[str, int] = {}
    """Devices that are reported as faulty, by resource."""


class NodeRecord(msgspec.Struct, frozen=True, gc=False):
    """One node; Ready means that the condition Ready is True, unknown and missing count as not ready."""

    name: str
    uid: str
    resource_version: str
    ready: bool
    namespace: str = ""
    facts: NodeFacts | None = None
    """What it has for pods, as far as the node itself tells."""


def node_record(node: NodeObject) -> NodeRecord:
    meta, status = node.metadata, node.status
    ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions)
    name = sys.intern(meta.name)
    facts = NodeFacts(
        name=name,
        labels=meta.labels,
        taints=tuple(_taint(taint) for taint in node.spec.taints),
        allocatable=whole_amounts(status.allocatable),
        capacity=whole_amounts(status.capacity),
        ready=ready,
        unschedulable=node.spec.unschedulable,
    )
    return NodeRecord(name=name, uid=meta.uid, resource_version=meta.resource_version, ready=ready, facts=facts)


def _taint(taint: dict[str, Any]) -> Taint:
    key, value, effect = (as_text(taint.get(field)) for field in ("key", "value", "effect"))
    return Taint(key, value, effect)


class PriorityClassObject(msgspec.Struct, gc=False):
    """The part of a PriorityClass that the scaler reads."""

    metadata: Metadata
    value: int = 0


class PriorityRecord(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str
    resource_version: str
    value: int
    namespace: str = ""


def priority_record(found: PriorityClassObject) -> PriorityRecord:
    meta = found.metadata
    return PriorityRecord(name=meta.name, uid=meta.uid, resource_version=meta.resource_version, value=found.value)


class JobRecord(msgspec.Struct, frozen=True):
    """An AscendJob or Volcano Job: what was read from it, and the object itself: an AscendJob's pods are made of it."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    job: Job
    object: Object
    kind: str = "AscendJob"
    needs: tuple[PodRequest, ...] = ()
    """What each of its expected pods asks of a node, in the order of `job.pods`."""
    priority_class: str = ""


def _refuse_deep(obj: dict[str, Any]) -> None:
    """Objects that are kept whole are copied, compared and encoded later, which recurses."""
    if is_deeper(obj, DEEPEST):
        raise ValueError(TOO_DEEP)


def job_record(obj: dict[str, Any]) -> JobRecord | None:
    """None for an object without identity. Any other shape gives a record; what is wrong with it is in `job`."""
    job = read_job(obj)
    if not (job.name and job.uid):
        return None
    version = str(obj["metadata"].get("resourceVersion") or "")
    if job.label_problem is not Reason.NOT_SERVED:
        _refuse_deep(obj)
    needs = ascend_job_needs(obj) if job.key.rule else ()
    priority_class = ascend_job_priority(obj) if job.key.rule else ""
    return JobRecord(job.namespace, job.name, job.uid, version, job, obj, needs=needs, priority_class=priority_class)


def volcano_job_record(obj: dict[str, Any]) -> JobRecord | None:
    """None for a job whose pods name no rule, which is most of them."""
    job = read_volcano_job(obj)
    if not (job.name and job.uid) or job.label_problem is Reason.NOT_SERVED:
        return None
    _refuse_deep(obj)
    version = str(obj["metadata"].get("resourceVersion") or "")
    needs, priority_class = volcano_job_needs(obj), as_text(at(obj, "spec").get("priorityClassName"))
    return JobRecord(
        job.namespace, job.name, job.uid, version, job, obj, kind="Job", needs=needs, priority_class=priority_class
    )
