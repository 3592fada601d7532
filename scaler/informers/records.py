"""The fields that msgspec decodes, and the cache keeps, of PodGroups, Services, nodes,
PriorityClasses, PodDisruptionBudgets.

A record must be small and must never need a second look at the object. None of these values can be
part of a cycle, so the garbage collector need not look at them (`gc=False`): that is half the time
of a large list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scaler.decide.nodes import HyperNode, Requirement, Taint, is_met
from scaler.kube.metadata import Metadata, Stored, shared
from scaler.names import CLASS_NAMESPACES
from scaler.remembered import Remembered
from scaler.rules.values import as_text
from scaler.timestamps import seconds_of
from scaler.workloads import scheduler_words
from scaler.workloads.kinds import job_uid
from scaler.workloads.membership import NO_LABELS, Labels, labels_of
from scaler.workloads.npu_rules import BASE_DEVICES
from scaler.workloads.pod_requests import whole_amounts

_LARGEST_SELECTOR = 4096
"""Bytes of the selector of a PodDisruptionBudget: people write a few labels, and every budget is
kept."""


_LONGEST_DEVICES = 64 * 1024
"""Characters of the annotation about the chips of a node; 16 chips have 1,000."""


_LONGEST_STATUS = 256 * 1024
"""Bytes of the status of a PodGroup: the scheduler has one condition for each of its reasons, with
the names of some nodes."""


class Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _OwnedSpec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0


class _PodGroupStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: list[scheduler_words.Condition] = []


class OwnedObject(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _OwnedSpec = _OwnedSpec()
    status: msgspec.Raw = msgspec.Raw()


class OwnedRecord(Stored, frozen=True, gc=False):
    """A PodGroup or Service: existence and owner are nearly all that matters."""

    owner_uid: str
    terminating: bool
    members: int = 0
    """PodGroup only: the pods that it asks for."""
    labels: Labels = NO_LABELS
    """PodGroup only: the labels that its job had when it was admitted."""
    said: str = ""
    """PodGroup only: why the scheduler does not start it, in words; "" where it says nothing."""
    is_refused: bool = False
    """PodGroup only: the scheduler says that it never starts, whatever is free."""


def owned_record(obj: OwnedObject) -> OwnedRecord:
    meta = obj.metadata
    said, is_refused = _said_in(obj.status)
    return OwnedRecord(
        *meta.identity,
        owner_uid=shared(job_uid(meta.owner)),
        terminating=meta.deletion_timestamp is not None,
        members=obj.spec.min_member,
        labels=labels_of(meta.labels),
        said=said,
        is_refused=is_refused,
    )


def says_the_same(one: OwnedRecord, other: OwnedRecord) -> bool:
    """Whether two versions of an object differ in nothing that is kept."""
    return msgspec.structs.replace(one, resource_version=other.resource_version) == other


def _said_in(raw: msgspec.Raw) -> tuple[str, bool]:
    """`said` and `is_refused` of a PodGroup with this status. A status that cannot be read says
    nothing: the PodGroup is there all the same."""
    if not 0 < memoryview(raw).nbytes <= _LONGEST_STATUS:
        return "", False
    try:
        status = msgspec.json.decode(raw, type=_PodGroupStatus)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return "", False
    if status.phase not in scheduler_words.WAITS:
        return "", False
    found = scheduler_words.said_of(status.conditions)
    if not found:
        return "", False
    return shared(found[0].for_status), found[0].is_final


class _NodeSpec(msgspec.Struct, frozen=True, gc=False):
    taints: list[dict[str, Any]] = []
    unschedulable: bool = False


class _NodeCondition(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _NodeStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_NodeCondition] = []
    allocatable: dict[str, Any] = {}
    capacity: dict[str, Any] = {}


class NodeObject(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class NodeFacts(msgspec.Struct, frozen=True, gc=False):
    """A node in the cache. Amounts are whole, as `workloads.pod_requests.whole_amounts` gives
    them."""

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = {}
    capacity: Mapping[str, int] = {}
    """Amounts that include faulty devices, which the kubelet does not count as allocatable."""
    ready: bool = True
    """Its condition Ready is True; unknown and missing count as not ready."""
    not_ready_since: float = 0.0
    """When its condition Ready ceased to be True, as it says; 0.0 = it is ready, or does not
    say."""
    unschedulable: bool = False
    unhealthy: bool = False
    """Reported as faulty as a whole."""
    faulty: Mapping[str, int] = {}
    """Devices that are reported as faulty, by resource."""
    chips: frozenset[str] = frozenset()
    """Names of its chips, as its annotation `baseDeviceInfos` has them; virtual ones left out."""
    super_pod: int = -1
    """As at `Node`, and so are `barred` and `hyper_nodes`."""
    barred: str = ""
    hyper_nodes: tuple[HyperNode, ...] = ()


class NodeRecord(Stored, frozen=True, gc=False):
    facts: NodeFacts
    """The facts that the node itself reports."""


def node_record(node: NodeObject) -> NodeRecord:
    meta = node.metadata
    status = node.status
    ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions)
    facts = NodeFacts(
        name=meta.name,
        labels=meta.labels,
        taints=tuple(map(_taint, node.spec.taints)),
        allocatable=whole_amounts(status.allocatable),
        capacity=whole_amounts(status.capacity),
        ready=ready,
        not_ready_since=0.0 if ready else _when_it_ceased(status.conditions),
        unschedulable=node.spec.unschedulable,
        chips=_chips_of(meta.annotations.get(BASE_DEVICES, "")),
    )
    return NodeRecord(*meta.identity, facts)


def _when_it_ceased(conditions: Sequence[_NodeCondition]) -> float:
    """When the condition Ready took its present value; 0.0 where it does not say."""
    for condition in conditions:
        if condition.type == "Ready":
            return seconds_of(condition.last_transition_time)
    return 0.0


_chips: Remembered[str, frozenset[str]] = Remembered(2**22)


def _chips_of(text: str) -> frozenset[str]:
    """The chips that an annotation names; none where it cannot be read. The nodes of one type have
    the same text."""
    if not text or len(text) > _LONGEST_DEVICES:
        return frozenset()
    known = _chips.get(text)
    return known if known is not None else _chips.keep(text, _read_chips(text))


def _read_chips(text: str) -> frozenset[str]:
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return frozenset()
    return frozenset([shared(name) for name in found if name.count("-") == 1])


def _taint(taint: Mapping[str, Any]) -> Taint:
    return Taint(
        key=as_text(taint.get("key")),
        value=as_text(taint.get("value")),
        effect=as_text(taint.get("effect")),
    )


KUBERNETES_OWN = "system-"
"""How the names of classes begin that every cluster has, with the highest values of all: no job may
have one."""


class PriorityObject(msgspec.Struct, gc=False):
    metadata: Metadata
    value: int = 0


class PriorityRecord(Stored, frozen=True, gc=False):
    value: int
    namespaces: frozenset[str] | None = None
    """Namespaces whose jobs may name it; None = all. Kubernetes checks that of pods only."""

    def worth(self, namespace: str) -> int:
        return self.value if self.namespaces is None or namespace in self.namespaces else 0


def priority_record(found: PriorityObject) -> PriorityRecord:
    meta = found.metadata
    names = meta.annotations.get(
        CLASS_NAMESPACES, "" if meta.name.startswith(KUBERNETES_OWN) else None
    )
    namespaces = None if names is None else frozenset(name.strip() for name in names.split(","))
    return PriorityRecord(*meta.identity, found.value, namespaces)


class _BudgetSpec(msgspec.Struct, frozen=True):
    selector: msgspec.Raw = msgspec.Raw(b"null")


class BudgetObject(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _BudgetSpec = _BudgetSpec()


class BudgetRecord(Stored, frozen=True, gc=False):
    selector: bytes
    """The selector as JSON; `{}`, which selects all pods of the namespace, where it was too large
    to keep."""

    def covers(self, labels: Mapping[str, Any]) -> bool:
        """Whether it is about a pod with these labels. What cannot be read is: then nothing is
        added to it."""
        try:
            return selects(msgspec.json.decode(self.selector), labels)
        except (AttributeError, KeyError, TypeError, RecursionError, msgspec.DecodeError):
            return True


def budget_record(obj: BudgetObject) -> BudgetRecord:
    meta = obj.metadata
    selector = bytes(obj.spec.selector)
    kept = selector if len(selector) <= _LARGEST_SELECTOR else b"{}"
    return BudgetRecord(*meta.identity, kept)


def selects(selector: Any, labels: Mapping[str, Any]) -> bool:
    """Whether a label selector of policy/v1 chooses what has these labels: an empty one all, none
    at all nothing."""
    if not isinstance(selector, dict):
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for one in selector.get("matchExpressions") or ():
        values = tuple(one.get("values") or ())
        if not is_met(Requirement(one["key"], one["operator"], values), labels):
            return False
    return True
