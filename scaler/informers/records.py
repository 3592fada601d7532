"""What the cache keeps: partial structs that msgspec decodes, and compact records made of them.

Only declared fields are decoded; the rest of an object is skipped without building anything. A record must be small
and must never need a second look at the object. None of these values can be part of a cycle, so the garbage collector
need not look at them (`gc=False`): that is half the time of a large list. Pods and ConfigMaps: pods.py, config_maps.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.decide.nodes import PodRequest, Taint
from scaler.decide.world import Reason
from scaler.kube.api import Object
from scaler.kube.metadata import LabelledMetadata, Metadata, shared
from scaler.kube.wire import DEEPEST, TOO_DEEP
from scaler.names import CLASS_NAMESPACES, GROUP_LABEL, JOB_ID_LABEL, LAST_APPLIED, MOVED_RULE, RULE_LABEL
from scaler.rules.values import as_text, at, is_deeper
from scaler.workloads.ascendjob import APP_LABEL, is_foreign, read_job
from scaler.workloads.kind import LONGEST_NAME, NO_LABELS, Job, Labels, job_uid, labels_of
from scaler.workloads.pod_requests import ascend_job_requests, volcano_job_requests, whole_amounts
from scaler.workloads.volcanojob import read_volcano_job

_LARGEST_SELECTOR = 4096
"""Bytes of the selector of a PodDisruptionBudget: people write a few labels, and every budget is kept."""


class Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _OwnedSpec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0


class OwnedObject(msgspec.Struct, gc=False):
    """The part of a PodGroup or Service that the scaler reads."""

    metadata: LabelledMetadata
    spec: _OwnedSpec = _OwnedSpec()


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
    labels: Labels = NO_LABELS
    """Of a PodGroup: those that its job had when it was admitted."""


def owned_record(obj: OwnedObject) -> OwnedRecord:
    meta = obj.metadata
    return OwnedRecord(
        namespace=shared(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        owner_uid=shared(job_uid(meta.owner)),
        terminating=meta.deletion_timestamp is not None,
        members=obj.spec.min_member,
        labels=labels_of(meta.labels),
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
    """What is known of a node. Amounts are whole, as `workloads.pod_requests.whole_amounts` gives them."""

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = {}
    capacity: Mapping[str, int] = {}
    """With the devices that its kubelet does not count as allocatable because they are faulty."""
    ready: bool = True
    """Its condition Ready is True; unknown and missing count as not ready."""
    unschedulable: bool = False
    """Cordoned."""
    unhealthy: bool = False
    """Reported as faulty as a whole."""
    faulty: Mapping[str, int] = {}
    """Devices that are reported as faulty, by resource."""


class NodeRecord(msgspec.Struct, frozen=True, gc=False):
    """One node."""

    name: str
    uid: str
    resource_version: str
    facts: NodeFacts
    """As far as the node itself tells."""
    namespace: str = ""


def node_record(node: NodeObject) -> NodeRecord:
    meta, status = node.metadata, node.status
    name = shared(meta.name)
    facts = NodeFacts(
        name=name,
        labels=meta.labels,
        taints=tuple(
            Taint(*(as_text(one.get(part)) for part in ("key", "value", "effect"))) for one in node.spec.taints
        ),
        allocatable=whole_amounts(status.allocatable),
        capacity=whole_amounts(status.capacity),
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions),
        unschedulable=node.spec.unschedulable,
    )
    return NodeRecord(name, meta.uid, meta.resource_version, facts)


KUBERNETES_OWN = "system-"
"""How the names of classes begin that every cluster has, with the highest values of all: for nobody's jobs."""


class PriorityClassObject(msgspec.Struct, gc=False):
    """The part of a PriorityClass that the scaler reads."""

    metadata: LabelledMetadata
    value: int = 0


class PriorityRecord(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str
    resource_version: str
    value: int
    namespaces: frozenset[str] | None = None
    """Whose jobs may name it; None = anybody's. Kubernetes asks that of pods only."""
    namespace: str = ""

    def worth(self, namespace: str) -> int:
        """Of a job in this namespace."""
        return self.value if self.namespaces is None or namespace in self.namespaces else 0


def priority_record(found: PriorityClassObject) -> PriorityRecord:
    meta = found.metadata
    names = meta.annotations.get(CLASS_NAMESPACES, "" if meta.name.startswith(KUBERNETES_OWN) else None)
    namespaces = None if names is None else frozenset(name.strip() for name in names.split(","))
    return PriorityRecord(meta.name, meta.uid, meta.resource_version, found.value, namespaces)


class _BudgetSpec(msgspec.Struct, frozen=True):
    selector: msgspec.Raw = msgspec.Raw(b"null")


class BudgetObject(msgspec.Struct, gc=False):
    """The part of a PodDisruptionBudget that the scaler reads."""

    metadata: Metadata
    spec: _BudgetSpec = _BudgetSpec()


class BudgetRecord(msgspec.Struct, frozen=True, gc=False):
    """One budget."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    selector: bytes
    """As JSON; `{}`, which is about all pods of the namespace, where it was too large to keep."""

    def covers(self, labels: Mapping[str, Any]) -> bool:
        """Whether it is about a pod with these labels. What cannot be read is: then nothing is added to it."""
        try:
            return selects(msgspec.json.decode(self.selector), labels)
        except (AttributeError, KeyError, TypeError, RecursionError, msgspec.DecodeError):
            return True


def budget_record(obj: BudgetObject) -> BudgetRecord:
    meta, selector = obj.metadata, bytes(obj.spec.selector)
    kept = selector if len(selector) <= _LARGEST_SELECTOR else b"{}"
    return BudgetRecord(meta.namespace, meta.name, meta.uid, meta.resource_version, kept)


def selects(selector: Any, labels: Mapping[str, Any]) -> bool:
    """Whether a label selector of policy/v1 chooses what has these labels: an empty one all, none at all nothing."""
    if not isinstance(selector, dict):
        return False
    wanted = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return wanted and all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    return bool(
        {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(expression["operator"], True)
    )


class JobObject(msgspec.Struct, gc=False):
    """An AscendJob or Volcano Job. Most are none of ours, so what may be large is decoded only where it matters."""

    metadata: LabelledMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


MOST_KEPT = 128 * 1024
"""Bytes of a job, without managedFields and the copy that kubectl keeps of it: twenty times what ordinary ones have.
One that is larger is refused: its pods cannot be made without keeping all of it."""
_MOST_STATUS = 16 * 1024

_ESSENTIAL = frozenset({RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL, APP_LABEL})
_RULE_LABEL = RULE_LABEL.encode()


class JobRecord(msgspec.Struct, frozen=True, gc=False):
    """An AscendJob or Volcano Job, and what was read from it. Of one that is none of ours nothing but its identity."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    job: Job
    text: bytes = b""
    """An AscendJob of ours as JSON, compressed: its pods are made of it. Without what nobody reads."""
    kind: str = "AscendJob"
    needs: tuple[PodRequest, ...] = ()
    """What each of its expected pods asks of a node, in the order of `job.pods`."""
    priority_class: str = ""

    @property
    def object(self) -> Object:
        """The job as its pods are made of it, decoded anew."""
        found: Object = msgspec.json.decode(zlib.decompress(self.text)) if self.text else {}
        return found

    @property
    def is_foreign(self) -> bool:
        """Nothing is known of it but that it exists."""
        return self.job is _FOREIGN


_FOREIGN = read_job({})


def _refuse_deep(obj: dict[str, Any]) -> None:
    """Objects that are kept whole are copied, compared and encoded later, which recurses."""
    if is_deeper(obj, DEEPEST):
        raise ValueError(TOO_DEEP)


def job_record(obj: JobObject) -> JobRecord | None:
    """None for an object without identity. Any other shape gives a record; what is wrong with it is in `job`."""
    meta = obj.metadata
    if not (meta.name and meta.uid):
        return None
    namespace, version = shared(meta.namespace), meta.resource_version
    if is_foreign(meta.labels, meta.annotations):
        return JobRecord(namespace, meta.name, meta.uid, version, _FOREIGN)
    size = _size(obj)
    if size > MOST_KEPT:
        return _refused(obj, size)
    text = _kept(obj)
    found = msgspec.json.decode(text)
    _refuse_deep(found)
    job = read_job(found)
    needs = ascend_job_requests(found) if job.key.rule else ()
    scheduling = at(found, "spec", "runPolicy", "schedulingPolicy")
    priority_class = as_text(scheduling.get("priorityClass")) if job.key.rule else ""
    packed = zlib.compress(text, 1)
    return JobRecord(namespace, job.name, job.uid, version, job, packed, needs=needs, priority_class=priority_class)


def read_job_record(obj: Object) -> JobRecord | None:
    """The record of an AscendJob as the API server answers it."""
    return job_record(msgspec.json.decode(msgspec.json.encode(obj), type=JobObject))


def _size(obj: JobObject) -> int:
    """In bytes, nearly."""
    words = (*obj.metadata.labels.items(), *obj.metadata.annotations.items())
    texts = sum(len(key) + len(value) for key, value in words if key != LAST_APPLIED)
    return texts + memoryview(obj.spec).nbytes + memoryview(obj.status).nbytes


def _kept(obj: JobObject) -> bytes:
    """As `JobRecord.text`, not compressed yet."""
    return msgspec.json.encode({"metadata": _metadata(obj), "spec": obj.spec, "status": obj.status})


def _metadata(obj: JobObject) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(obj.metadata)
    found["annotations"].pop(LAST_APPLIED, None)
    return {key: value for key, value in found.items() if value and key != "ownerReferences"}


def _refused(obj: JobObject, size: int) -> JobRecord:
    """Of a job that is too large only its identity and, unless that is too large, its status are kept."""
    meta = obj.metadata
    labels = {key: value for key, value in meta.labels.items() if key in _ESSENTIAL}
    moved = {key: value for key, value in meta.annotations.items() if key == MOVED_RULE and len(value) <= LONGEST_NAME}
    small = msgspec.structs.replace(meta, labels=labels, annotations=moved)
    status = obj.status if memoryview(obj.status).nbytes <= _MOST_STATUS else msgspec.Raw(b"{}")
    text = _kept(JobObject(small, status=status))
    job = msgspec.structs.replace(read_job(msgspec.json.decode(text)), faults=(_too_large(size),))
    kept = zlib.compress(text, 1) if status is obj.status else b""
    return JobRecord(shared(meta.namespace), meta.name, meta.uid, meta.resource_version, job, kept)


def volcano_job_record(obj: JobObject) -> JobRecord | None:
    """None for a job whose pods name no rule, which is most of them."""
    meta = obj.metadata
    if not (meta.name and meta.uid) or not (RULE_LABEL in meta.labels or _RULE_LABEL in bytes(obj.spec)):
        return None
    size = _size(obj)
    large = size > MOST_KEPT
    found = msgspec.json.decode(_kept(obj) if not large else msgspec.json.encode(_outline(obj)))
    _refuse_deep(found)
    job = read_volcano_job(found)
    if job.label_problem is Reason.NOT_SERVED:
        return None
    if large:
        job = msgspec.structs.replace(job, replicas=(), faults=(_too_large(size),))
    needs, priority_class = volcano_job_requests(found), as_text(at(found, "spec").get("priorityClassName"))
    return JobRecord(
        shared(meta.namespace), job.name, job.uid, meta.resource_version, job, kind="Job", needs=needs,
        priority_class=priority_class,
    )  # fmt: skip


class _Labels(msgspec.Struct, frozen=True, gc=False):
    labels: dict[str, str] = {}


class _Template(msgspec.Struct, frozen=True, gc=False):
    metadata: _Labels = _Labels()


class _Task(msgspec.Struct, frozen=True, gc=False):
    template: _Template = _Template()


class _Tasks(msgspec.Struct, gc=False):
    tasks: list[_Task] = []


def _outline(obj: JobObject) -> dict[str, Any]:
    """A Volcano Job that is too large: whose it is, and nothing else."""
    tasks = msgspec.json.decode(obj.spec, type=_Tasks).tasks
    found = [task.template.metadata.labels for task in tasks if RULE_LABEL in task.template.metadata.labels]
    labels = [
        {key: value for key, value in one.items() if key in _ESSENTIAL} for one in (obj.metadata.labels, *found[:1])
    ]
    metadata = _metadata(obj) | {"labels": labels[0], "annotations": {}}
    return {
        "metadata": metadata,
        "spec": {"tasks": [{"template": {"metadata": {"labels": one}}} for one in labels[1:]]},
    }


def _too_large(size: int) -> str:
    return f"JobTooLarge: the job has {size} bytes, more than {MOST_KEPT}; take out what its pods do not need"
