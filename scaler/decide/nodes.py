"""Pod requests and nodes: frozen values only.

A `PodRequest` is what one pod requests, `Nodes` are all nodes at one moment. Amounts are whole numbers: cpu in
millicores, memory in bytes, everything else in units; every pod requests one of the resource `pods`.
Where something of a pod is not understood, it counts as fitting: holding back what a scheduler would have bound is
worse than a pod that waits. Must not know of services, ratios or instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from itertools import chain
from math import gcd

import msgspec

PODS = "pods"
Amounts = tuple[int, ...]
NODE_NAME = "metadata.name"
"""The only field that a node selector term may name; treated as a label of that name."""
OTHER = "*"
"""Stands for a label value that no pod request names: no label value can be spelt so."""
REPELLING = frozenset({"NoSchedule", "NoExecute"})


class Requirement(msgspec.Struct, frozen=True, gc=False, order=True):
    """One expression of a node selector term. An operator that is not known here counts as met."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Toleration(msgspec.Struct, frozen=True, gc=False, order=True):
    """A pod's toleration. An empty key with `Exists` tolerates every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(msgspec.Struct, frozen=True, gc=False, order=True):
    """A taint that keeps pods away; PreferNoSchedule never does, and is left out."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Where(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """Which nodes a pod may run on. Equal ones should be one object: candidate classes are found once for each."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Any of these, each all of its requirements; an empty one matches no node. () = no required affinity at all."""
    tolerations: tuple[Toleration, ...] = ()
    opaque: bool = False
    """It has another constraint, which is not understood here. Users are warned; nothing is decided on it, since
    what is not understood counts as fitting."""


class PodRequest(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """Resources and node constraints of one pod: positive amounts, by resource name."""

    requests: tuple[tuple[str, int], ...] = ((PODS, 1),)
    where: Where = Where()


PodRequests = tuple[tuple[PodRequest, int], ...]
"""Several pods: each request, and how many pods have it."""


class NodeClass(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """What nodes that are alike have in common: the labels that matter, and lasting taints."""

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()


class Room(IntEnum):
    """What room counts. Each includes the ones before."""

    FREE = 0
    """Free on schedulable nodes."""
    FREED = 1
    """What victims leave, as granted."""
    TO_COME = 2
    """What terminating pods on schedulable nodes leave, unless that is overdue."""
    AWAY = 3
    """Nodes that are not schedulable and may soon be again."""

    __hash__ = int.__hash__


Levels = tuple[Amounts, Amounts, Amounts, Amounts]
"""Amounts for each `Room`."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """One node at one moment. Amounts are aligned with `Nodes.resources`."""

    name: str
    node_class: NodeClass
    allocatable: Amounts
    """Of an empty node, faulty chips included."""
    free: Amounts
    """Allocatable, less faulty chips and the requests of all bound pods that have not ended, terminating ones
    included; may be negative."""
    ending: tuple[tuple[float, Amounts], ...] = ()
    """Of its terminating pods: when they should be gone (their grace period included), and what they take."""
    ready: bool = True
    """Ready, and not reported as faulty as a whole."""
    cordoned: bool = False
    since: float = 0.0
    """Since when it has been schedulable, or not, as far as we saw."""
    passing: tuple[Taint, ...] = ()
    """Taints of a condition that will pass (memory pressure, ...): they repel as long as they last."""

    @property
    def schedulable(self) -> bool:
        return self.ready and not self.cordoned

    def levels(self, now: float, due_back: float) -> Levels:
        """Its room. `due_back`: so many seconds late something may be and still counts as to come."""
        ending = [amounts for deadline, amounts in self.ending if not self.schedulable or deadline + due_back > now]
        to_come = tuple(map(sum, zip(self.free, *ending, strict=True))) if ending and self.ready else self.free
        if self.schedulable:
            return self.free, self.free, to_come, to_come
        none = (0,) * len(self.free)
        return none, none, none, none if now >= self.since + due_back else to_come


class Nodes(msgspec.Struct, frozen=True, gc=False):
    """All nodes at one moment, sorted by name, as far as the pod requests that they were made for tell them apart."""

    resources: tuple[str, ...] = (PODS,)
    """In the order in which they get scarce: devices first."""
    nodes: tuple[Node, ...] = ()
    """One that is as it was is the same object."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """What pod requests can tell nodes apart by: the more it says, the more classes and amounts of room there are."""

    resources: tuple[str, ...] = (PODS,)
    grains: tuple[int, ...] = (1,)
    """Aligned: every requested amount is a multiple of it, so room is counted in whole grains without any loss."""
    labels: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Label keys that pod requests name, with the values; None where the value is compared as a number."""

    def node_class(self, labels: Mapping[str, str], taints: Iterable[Taint]) -> NodeClass:
        """The class of a node; `labels` are to hold its name under `NODE_NAME`."""
        seen = []
        for key, named in self.labels:
            value = labels.get(key)
            if value is not None:
                seen.append((key, value if named is None or value in named else OTHER))
        return NodeClass(tuple(seen), tuple(sorted({taint for taint in taints if taint.effect in REPELLING})))

    def whole(self, amounts: Mapping[str, int]) -> tuple[int, ...]:
        """The amounts of the resources that matter, rounded down to whole grains."""
        return tuple(
            amounts.get(name, 0) // grain * grain for name, grain in zip(self.resources, self.grains, strict=True)
        )


def terms_of(requests: Iterable[PodRequest]) -> Terms:
    """What these pod requests can tell nodes apart by."""
    distinct = set(requests)
    grains: dict[str, int] = {PODS: 1}
    for request in distinct:
        for name, amount in request.requests:
            grains[name] = gcd(grains.get(name, 0), amount) or 1
    values: dict[str, set[str] | None] = {}
    for where in {request.where for request in distinct}:
        selected = [Requirement(key, "In", (value,)) for key, value in where.selector]
        for requirement in chain(selected, *where.affinity):
            known = values.setdefault(requirement.key, set())
            if requirement.operator in ("Gt", "Lt"):
                values[requirement.key] = None
            elif known is not None:
                known.update(requirement.values)
    # Devices before cpu and memory, the number of pods last.
    names = sorted(grains, key=lambda name: (2 if name == PODS else 0 if "/" in name else 1, name))
    labels = ((key, None if named is None else tuple(sorted(named))) for key, named in sorted(values.items()))
    return Terms(tuple(names), tuple(grains[name] for name in names), tuple(labels))


@lru_cache(maxsize=1 << 16)
def accepts(where: Where, node_class: NodeClass) -> bool:
    """Whether nodes of this class take such pods at all, whatever is free on them now."""
    labels = dict(node_class.labels)
    selected = all(labels.get(key) == value for key, value in where.selector)
    terms = [term for term in where.affinity if term and all(_met(requirement, labels) for requirement in term)]
    return selected and (not where.affinity or bool(terms)) and tolerates(where, node_class.taints)


def _met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compared(value, requirement.values) > 0
        case "Lt":
            return _compared(value, requirement.values) < 0
        case _:
            return True


def _compared(value: str | None, values: tuple[str, ...]) -> int:
    """The sign of the value less the requirement's, as integers; 0 when either is none (then neither Gt nor Lt)."""
    try:
        return 0 if value is None else int(value) - int(values[0])
    except (ValueError, IndexError):
        return 0


@lru_cache(maxsize=1 << 14)
def tolerates(where: Where, taints: tuple[Taint, ...]) -> bool:
    """Whether none of the taints keeps such pods away."""
    return all(
        any(_tolerated(taint, one) for one in where.tolerations) for taint in taints if taint.effect in REPELLING
    )


def _tolerated(taint: Taint, toleration: Toleration) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator not in ("Exists", "Equal", ""):
        return not toleration.key or toleration.key == taint.key
    if not toleration.key:
        return toleration.operator == "Exists"
    return toleration.key == taint.key and (toleration.operator == "Exists" or toleration.value == taint.value)


def joined(*parts: PodRequests) -> PodRequests:
    """All of these pods together, in a fixed order."""
    counts: dict[PodRequest, int] = {}
    for part in parts:
        for request, count in part:
            counts[request] = counts.get(request, 0) + count
    return tuple(sorted((request, count) for request, count in counts.items() if count > 0))
