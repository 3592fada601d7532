"""What the cache keeps: partial structs that msgspec decodes, and compact records made of them.

Only declared fields are decoded; the rest of an object is skipped without building anything. A record must be small
(a cluster has 50,000 pods) and must never need a second look at the object. None of these values can be part of a
cycle, so the garbage collector need not look at them (`gc=False`): that is half the time of a large list.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.kube.api import Object
from scaler.workloads.ascendjob import Job, read_job

RULE_KEY = "elastic_scaling.json"
ANNOTATION_PREFIX = "mind-cluster/"


class Owner(msgspec.Struct, gc=False):
    kind: str = ""
    uid: str = ""
    name: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[Owner] = []


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None


class _ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    restart_count: int = 0
    state: _ContainerState = _ContainerState()


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _Gate(msgspec.Struct, gc=False):
    name: str = ""


class _PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""
    scheduling_gates: list[_Gate] = []


class _PodStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    phase: str = ""
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []


class PodObject(msgspec.Struct, gc=False):
    """The part of a Pod that the scaler reads."""

    metadata: Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class PodRecord(msgspec.Struct, frozen=True, gc=False):
    """One pod. `owner_uid` is that of its controlling AscendJob, "" for pods of others."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    node: str
    phase: str
    created: float
    gated: bool
    """By a gate of our own: one of somebody else's is a matter between them and the scheduler."""
    terminating: bool
    ready: bool
    crashing: bool
    restarts: int


def pod_record(pod: PodObject) -> PodRecord:
    """The record of any pod; strings that repeat are shared."""
    meta, status = pod.metadata, pod.status
    return PodRecord(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        owner_uid=sys.intern(_controller_uid(meta, "AscendJob")),
        node=sys.intern(pod.spec.node_name),
        phase=sys.intern(status.phase),
        created=seconds_of(meta.creation_timestamp),
        gated=any(gate.name.startswith(ANNOTATION_PREFIX) for gate in pod.spec.scheduling_gates),
        terminating=meta.deletion_timestamp is not None,
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions),
        crashing=any(
            c.state.waiting is not None and c.state.waiting.reason == "CrashLoopBackOff"
            for c in status.container_statuses
        ),
        restarts=sum(c.restart_count for c in status.container_statuses),
    )


def _controller_uid(meta: Metadata, kind: str) -> str:
    return next((owner.uid for owner in meta.owner_references if owner.controller and owner.kind == kind), "")


class OwnedObject(msgspec.Struct, gc=False):
    """The metadata of a PodGroup or Service."""

    metadata: Metadata


class OwnedRecord(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup or Service: existence and owner are all that matters."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    terminating: bool


def owned_record(obj: OwnedObject) -> OwnedRecord:
    meta = obj.metadata
    return OwnedRecord(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        owner_uid=_controller_uid(meta, "AscendJob"),
        terminating=meta.deletion_timestamp is not None,
    )


class _NodeStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_Condition] = []


class NodeObject(msgspec.Struct, gc=False):
    """The part of a Node that the scaler reads."""

    metadata: Metadata
    status: _NodeStatus = _NodeStatus()


class NodeRecord(msgspec.Struct, frozen=True, gc=False):
    """One node; Ready means that the condition Ready is True, unknown and missing count as not ready."""

    name: str
    uid: str
    resource_version: str
    ready: bool
    namespace: str = ""


def node_record(node: NodeObject) -> NodeRecord:
    meta = node.metadata
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return NodeRecord(name=sys.intern(meta.name), uid=meta.uid, resource_version=meta.resource_version, ready=ready)


class _ConfigMapMetadata(Metadata):
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class ConfigMapObject(msgspec.Struct, rename="camel"):
    """A ConfigMap. Values are decoded and dropped at once unless they can be a rule or are our own."""

    metadata: _ConfigMapMetadata
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class ConfigMapRecord(msgspec.Struct, frozen=True):
    """A ConfigMap that may be a rule (its key names, and the value of the rule key only) or one of our own (whole)."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    keys: tuple[str, ...]
    binary_keys: tuple[str, ...]
    data: dict[str, str]
    annotations: dict[str, str]
    own: Object | None
    """The object itself, with labels and annotations as its metadata, when it is one that the scaler wrote."""


def config_map_record(cm: ConfigMapObject) -> ConfigMapRecord:
    meta = cm.metadata
    own = None
    if any(label.startswith(ANNOTATION_PREFIX) for label in meta.labels):
        named = {"labels": meta.labels, "annotations": meta.annotations}
        own = {"metadata": named, "data": cm.data, "binaryData": cm.binary_data}
    return ConfigMapRecord(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        keys=tuple(sorted(map(sys.intern, cm.data))),
        binary_keys=tuple(sorted(map(sys.intern, cm.binary_data))),
        data={key: value for key, value in cm.data.items() if key == RULE_KEY},
        annotations={k: v for k, v in meta.annotations.items() if k.startswith(ANNOTATION_PREFIX)},
        own=own,
    )


class JobRecord(msgspec.Struct, frozen=True):
    """An AscendJob: what was read from it, and the object itself, of which its pods are made."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    job: Job
    object: Object


def job_record(obj: dict[str, Any]) -> JobRecord | None:
    """None for an object without identity. Any other shape gives a record; what is wrong with it is in `job`."""
    job = read_job(obj)
    if not (job.name and job.uid):
        return None
    version = str(obj["metadata"].get("resourceVersion") or "")
    return JobRecord(job.namespace, job.name, job.uid, version, job, obj)


class _Replicas(msgspec.Struct, frozen=True):
    replicas: int = 0


class DeploymentObject(msgspec.Struct):
    """The part of a Deployment that tells whether Ascend Operator is here."""

    metadata: Metadata
    spec: _Replicas = _Replicas()


class DeploymentRecord(msgspec.Struct, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    resource_version: str
    replicas: int


def deployment_record(deployment: DeploymentObject) -> DeploymentRecord:
    meta = deployment.metadata
    return DeploymentRecord(meta.namespace, meta.name, meta.uid, meta.resource_version, deployment.spec.replicas)
