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
from scaler.observe.faults import FaultReport, read_report
from scaler.rules.jobspec import CONTAINER
from scaler.workloads import devices, retries
from scaler.workloads.ascendjob import Job, read_job
from scaler.workloads.devices import PodDevices
from scaler.workloads.ranktable import KEY as RANK_TABLE_KEY
from scaler.workloads.ranktable import PREFIX as RANK_TABLE_PREFIX
from scaler.workloads.ranktable import VERSION_KEY
from scaler.workloads.rings import Rings

RULE_KEY = "elastic_scaling.json"
_DISRUPTIONS = frozenset({"Evicted", "NodeShutdown", "Shutdown", "Terminated", "NodeLost", "UnexpectedAdmissionError"})
"""Values of a pod's status.reason that the kubelet gives to pods which it ends or refuses."""
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


class _Terminated(msgspec.Struct, frozen=True, rename="camel", gc=False):
    exit_code: int = 0


class _ContainerState(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
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


class _PodAnnotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations that describe a pod's chips; the others are skipped."""

    rank_index: str = msgspec.field(name=devices.RANK_INDEX, default="")
    configuration: str = msgspec.field(name=devices.CONFIGURATION, default="")
    configuration_npu: str = msgspec.field(name=devices.CONFIGURATION_NPU, default="")
    real: str = msgspec.field(name=devices.REAL, default="")
    hardware_type: str = msgspec.field(name=devices.HARDWARE_TYPE, default="")
    super_pod: str = msgspec.field(name=devices.SUPER_POD, default="")


class _PodLabels(msgspec.Struct, frozen=True, gc=False):
    fault_type: str = msgspec.field(name="fault-type", default="")
    version: str = ""


class _PodMetadata(Metadata):
    annotations: _PodAnnotations = _PodAnnotations()
    labels: _PodLabels = _PodLabels()


class _PodStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = msgspec.field(name="containerStatuses", default_factory=list)
    pod_ip: str = msgspec.field(name="podIP", default="")


class PodObject(msgspec.Struct, gc=False):
    """The part of a Pod that the scaler reads."""

    metadata: _PodMetadata
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
    version: int = 0
    """The round of its job that it belongs to."""
    exit_code: int = -1
    """Of its container `ascend` once that has ended; -1 before, or when it left none."""
    disrupted: bool = False
    """It was ended by the cluster, and not by itself."""
    devices: PodDevices | None = None
    """Its chips; None for pods of others, which are most and must stay small."""


def pod_record(pod: PodObject) -> PodRecord:
    """The record of any pod; strings that repeat are shared."""
    meta, status = pod.metadata, pod.status
    owner_uid = _controller_uid(meta, "AscendJob")
    return PodRecord(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        owner_uid=sys.intern(owner_uid),
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
        version=int(version) if len(version := meta.labels.version) < 10 and version.isdecimal() else 0,
        exit_code=next((_exit_code(c) for c in status.container_statuses if c.name == CONTAINER), -1),
        disrupted=status.reason in _DISRUPTIONS
        or any(c.type == "DisruptionTarget" and c.status == "True" for c in status.conditions),
        devices=_devices(pod) if owner_uid else None,
    )


def _exit_code(container: _ContainerStatus) -> int:
    return container.state.terminated.exit_code if container.state.terminated is not None else -1


def _devices(pod: PodObject) -> PodDevices:
    told = pod.metadata.annotations
    return PodDevices(
        rank_index=told.rank_index,
        configuration=told.configuration or told.configuration_npu,
        real=told.real,
        hardware_type=sys.intern(told.hardware_type),
        super_pod=sys.intern(told.super_pod),
        ip=pod.status.pod_ip,
        separated=pod.metadata.labels.fault_type == "Separate",
    )


def _controller_uid(meta: Metadata, kind: str) -> str:
    return next((owner.uid for owner in meta.owner_references if owner.controller and owner.kind == kind), "")


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
    immutable: bool | None = None


class ConfigMapRecord(msgspec.Struct, frozen=True):
    """A ConfigMap that may be a rule (its key names, and the value of the rule key only), one of our own (whole), or
    that of a rank table."""

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
    rings: Rings | None = None
    """What matters for a rank table, when its name says that it is for one."""
    retries: dict[str, int] | None = None
    """Volcano's count of retries per job, when it is the ConfigMap that holds it."""
    faults: FaultReport | None = None
    """What it reports, when it is one of MindCluster's fault reports."""


def config_map_record(cm: ConfigMapObject) -> ConfigMapRecord:
    meta = cm.metadata
    own = None
    rings = _rings(cm) if meta.name.startswith(RANK_TABLE_PREFIX) else None
    if rings is None and any(label.startswith(ANNOTATION_PREFIX) for label in meta.labels):
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
        rings=rings,
        retries=_retries(cm),
        faults=read_report(meta.namespace, meta.name, cm.data),
    )


def _retries(cm: ConfigMapObject) -> dict[str, int] | None:
    known = cm.metadata.name == retries.CONFIG_MAP and cm.metadata.namespace == retries.NAMESPACE
    return retries.read_retries(cm.data.get(retries.KEY, "")) if known else None


def _rings(cm: ConfigMapObject) -> Rings:
    meta = cm.metadata
    owner = next((owner for owner in meta.owner_references if owner.controller), Owner())
    others = [len(v.encode()) for k, v in cm.data.items() if k not in (RANK_TABLE_KEY, VERSION_KEY)]
    return Rings(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        text=cm.data.get(RANK_TABLE_KEY),
        version=cm.data.get(VERSION_KEY, ""),
        immutable=bool(cm.immutable),
        binary=RANK_TABLE_KEY in cm.binary_data,
        controller=f"{owner.kind} {owner.name}" if owner.uid else "",
        controller_uid=owner.uid,
        other_bytes=sum(others) + sum(map(len, cm.binary_data.values())),
        labels=meta.labels,
    )


def read_rings(obj: Object) -> Rings:
    """The ConfigMap of a rank table as the API server answers it."""
    return _rings(msgspec.convert(obj, ConfigMapObject))


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
