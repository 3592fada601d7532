"""Pod requests and nodes: frozen values only. Must not know of services, ratios or instances.

Amounts are whole numbers: cpu in millicores, memory in bytes, everything else in units; every pod
requests one of the resource `pods`. A constraint of a pod that is not understood counts as met: to
hold a pod that the scheduler would bind is worse than a pod that waits for the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import chain
from math import gcd

import msgspec

PODS = "pods"
Amounts = tuple[int, ...]
NODE_NAME = "metadata.name"
"""The only field that a node selector term may name. Treated as a label with this key."""
OTHER = "*"
"""Stands for all label values that no pod request names. `*` is no valid label value."""
REPELLING = frozenset({"NoSchedule", "NoExecute"})


class Requirement(msgspec.Struct, frozen=True, gc=False, order=True):
    """One expression of a node selector term. A requirement with an unknown operator counts as
    met."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Toleration(msgspec.Struct, frozen=True, gc=False, order=True):
    """A pod's toleration. An empty key with `Exists` tolerates every taint, an empty effect every
    effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(msgspec.Struct, frozen=True, gc=False, order=True):
    """A taint that repels pods. PreferNoSchedule repels no pod and is left out."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Where(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """Node constraints of a pod. Equal values should be one object: candidate classes are computed
    once per object."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Terms of the required affinity. A node has to meet all requirements of one term; an empty
    term matches no node. () = no required affinity."""
    tolerations: tuple[Toleration, ...] = ()


class PodRequest(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """Resources and node constraints of one pod: positive amounts, by resource name."""

    requests: tuple[tuple[str, int], ...] = ((PODS, 1),)
    where: Where = Where()
    rounded: bool = False
    """Rounded up (3b.10c): the pod itself may request less, and fit where this does not."""
    block: int = 0
    """So many of these pods are placed together: on as many nodes of one super-pod, or, with a
    `tier`, on any nodes of one HyperNode. 0 = each pod takes any node."""
    tier: str = ""
    """The highest tier that such a HyperNode may have: a number, or `=` and the name of a tier; ""
    = the topology is that of super-pods."""
    beside: str = ""
    """With a `tier`: a node on which a pod of the same instance is bound; the HyperNode has to
    contain it. "" = any HyperNode."""


COUNTED_IN = "#"
"""Between the name of a resource of Kubernetes and a kind of it that MindCluster's scheduler
counts by rules of its own (`huawei.com/Ascend910#cards`, see `workloads.npu_rules`). No name of
Kubernetes has it."""


def resource_of(name: str) -> str:
    """The resource of Kubernetes that this is a kind of; mostly the same name."""
    return name.partition(COUNTED_IN)[0]


def amount_of(amounts: Mapping[str, int], name: str) -> int:
    """How much a pod with these requests takes of a resource: of each kind of a resource as much as
    of the resource."""
    return amounts.get(name if name in amounts else resource_of(name), 0)


PodRequests = tuple[tuple[PodRequest, int], ...]
"""Several pods: (request, number of pods with this request)."""


class NodeClass(msgspec.Struct, frozen=True, gc=False, order=True, cache_hash=True):
    """Labels and lasting taints that nodes of one class have in common: the labels that pod
    requests name."""

    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()


class Room(IntEnum):
    """Which room counts. Each level includes the levels before."""

    FREE = 0
    """Free on schedulable nodes."""
    FREED = 1
    """Room that victims leave (`Placement.count_freed`)."""
    EXPECTED = 2
    """Room that terminating pods on schedulable nodes leave, unless the pods are overdue."""
    RETURNING = 3
    """Room of nodes and chips that are away for less than the patience of their node: nobody is
    evicted for what fits here."""
    AWAY = 4
    """Room of nodes that are not schedulable now and of faulty chips, if they may return soon."""

    __hash__ = int.__hash__


Levels = tuple[Amounts, Amounts, Amounts, Amounts, Amounts]
"""Amounts for each `Room`."""


HOUR = 3600.0
"""Seconds that a node has to stay until its earlier returns are forgotten."""
MOST_RETURNS = 64
"""The largest number of returns that are kept of a node, the newest ones."""


class Return(msgspec.Struct, frozen=True, gc=False):
    """A node, or chips of it, became usable."""

    at: float
    after: float = 0.0
    """Seconds that the node or the chips were away, as far as the scaler saw; 0.0 = they were not:
    the node or the chips are new, or a label or a taint changed."""
    node_class: NodeClass | None = None
    """The class of the node before, where a label or a taint changed. None = the node became
    usable to everybody."""
    passing: tuple[Taint, ...] = ()
    """`Node.passing` before, where a label or a taint changed."""


class HyperNode(msgspec.Struct, frozen=True, gc=False, order=True):
    """A HyperNode of Volcano: nodes between which the network has some speed."""

    tier: int
    """The lower, the faster."""
    name: str
    tier_name: str = ""


class Node(msgspec.Struct, frozen=True, gc=False):
    """One node at one moment. Amounts are aligned with `Nodes.resources`."""

    name: str
    node_class: NodeClass
    allocatable: Amounts
    """Amounts of the empty node, faulty chips included."""
    free: Amounts
    """Allocatable, less faulty chips and all bound pods that have not ended, terminating ones too;
    may be negative."""
    ending: tuple[tuple[float, Amounts], ...] = ()
    """Terminating pods: the time when they should be gone (with their grace period), and the
    amounts that they take."""
    ready: bool = True
    """Ready, and not reported as faulty as a whole."""
    cordoned: bool = False
    since: float = 0.0
    """Since when the node has been schedulable, or not schedulable, as far as the scaler saw."""
    passing: tuple[Taint, ...] = ()
    """Taints of a temporary condition (memory pressure, ...)."""
    away: tuple[tuple[float, Amounts], ...] = ()
    """Faulty chips, the oldest fault first: when the fault was first seen, and the amounts."""
    returns: tuple[Return, ...] = ()
    """When the node or chips of it became usable, the oldest first. They are forgotten when the
    node leaves after it had stayed for an hour. What the first list showed is no return."""
    super_pod: int = -1
    """The super-pod that the node is in, as MindCluster's scheduler sees it; negative = in none."""
    hyper_nodes: tuple[HyperNode, ...] = ()
    """The HyperNodes of Volcano that contain the node, the lowest tier first."""
    not_ready_since: float = 0.0
    """For people: when the node ceased to be Ready, as it says itself; 0.0 = it is, or does not
    say."""
    barred: str = ""
    """Why MindCluster's scheduler gives none of its NPUs to a new pod, in words; "" when it
    does."""

    @property
    def schedulable(self) -> bool:
        return self.ready and not self.cordoned

    def levels(self, now: float, due_back: float, flap_patience: float) -> Levels:
        """The room of the node. `due_back`: seconds that overdue room still counts as expected.
        `flap_patience`: of a node that never returned, in seconds."""
        expected = self._when_pods_have_ended(now, due_back)
        patience = self.patience(due_back, flap_patience)
        returning = self._with_chips_back(expected, now, patience)
        away = self._with_chips_back(expected, now, due_back)
        if self.schedulable:
            return self.free, self.free, expected, returning, away
        none = (0,) * len(self.free)
        if now >= self.since + patience:
            returning = none
        if now >= self.since + due_back:
            away = none
        return none, none, none, returning, away

    def patience(self, due_back: float, flap_patience: float) -> float:
        """3b.4f: seconds that the node or chips of it may be away until somebody is evicted for
        that: doubled each time that they returned within `due_back`."""
        return min(flap_patience * 2.0 ** self.quick_returns(due_back), due_back)

    def _when_pods_have_ended(self, now: float, due_back: float) -> Amounts:
        """What is free, and what its terminating pods take. On a node that is not ready no kubelet
        can end them; on a schedulable one they count until they are overdue."""
        if not self.ready:
            return self.free
        expected = self.free
        for deadline, amounts in self.ending:
            if not self.schedulable or deadline + due_back > now:
                expected = _sum(expected, amounts)
        return expected

    def _with_chips_back(self, expected: Amounts, now: float, due_back: float) -> Amounts:
        """This room, and that of the faulty chips that are not overdue."""
        for since, amounts in self.away:
            if now < since + due_back:
                expected = _sum(expected, amounts)
        return expected

    @property
    def at_best(self) -> Amounts:
        """The room of the node when its terminating pods have ended and its chips are healthy,
        however long that takes."""
        best = self.free
        for _, amounts in chain(self.ending, self.away):
            best = _sum(best, amounts)
        return best

    def overdue_from(self, due_back: float, flap_patience: float) -> list[float]:
        """The times at which expected room on this node stops to count, at any level."""
        patience = self.patience(due_back, flap_patience)
        away = [since for since, _ in self.away]
        if not self.schedulable:
            away.append(self.since)
        moments = [deadline + due_back for deadline, _ in self.ending]
        moments += [since + due_back for since in away]
        return moments + [since + patience for since in away]

    def quick_returns(self, due_back: float) -> int:
        """How often the node, or chips of it, returned within `due_back` seconds."""
        return len([one for one in self.returns if 0 < one.after <= due_back])


def _sum(amounts: Amounts, more: Amounts) -> Amounts:
    return tuple(map(sum, zip(amounts, more, strict=True)))


class Nodes(msgspec.Struct, frozen=True, gc=False):
    """All nodes at one moment, sorted by name, with the labels and resources that the pod requests
    name."""

    resources: tuple[str, ...] = (PODS,)
    """Resource names; the resource that is usually scarce first: devices."""
    nodes: tuple[Node, ...] = ()
    """An unchanged node is the same object as before."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """By what pod requests can tell nodes apart. More terms make more node classes and more
    different amounts."""

    resources: tuple[str, ...] = (PODS,)
    grains: tuple[int, ...] = (1,)
    """For each resource: every requested amount is a multiple of the grain, so room is counted in
    whole grains."""
    labels: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Label keys that pod requests name, with the values; None where the value is compared as a
    number."""

    def node_class(self, labels: Mapping[str, str], taints: Iterable[Taint]) -> NodeClass:
        """The class of a node; `labels` has to hold the name of the node under `NODE_NAME`."""
        seen = []
        for key, named in self.labels:
            if key in labels:
                value = labels[key]
                seen.append((key, value if named is None or value in named else OTHER))
        repelling = {taint for taint in taints if taint.effect in REPELLING}
        return NodeClass(tuple(seen), tuple(sorted(repelling)))

    def whole(self, amounts: Mapping[str, int]) -> Amounts:
        """The amounts of the resources that matter, rounded down to whole grains."""
        grains = zip(self.resources, self.grains, strict=True)
        return tuple(amounts.get(name, 0) // grain * grain for name, grain in grains)


def terms_of(requests: Iterable[PodRequest]) -> Terms:
    distinct = set(requests)
    grains = _grains(distinct)
    names = sorted(grains, key=_usual_scarcity)
    labels = []
    for key, named in sorted(_named_labels({request.where for request in distinct}).items()):
        labels.append((key, None if named is None else tuple(sorted(named))))
    return Terms(tuple(names), tuple(grains[name] for name in names), tuple(labels))


def _grains(requests: Iterable[PodRequest]) -> dict[str, int]:
    """Resource -> the largest amount of which every request is a multiple."""
    grains: dict[str, int] = {PODS: 1}
    for request in requests:
        for name, amount in request.requests:
            grains[name] = gcd(grains.get(name, 0), amount) or 1
    return grains


def _usual_scarcity(name: str) -> tuple[int, str]:
    """Sort key of resources: devices before cpu and memory, the number of pods last."""
    if name == PODS:
        return 2, name
    return (0 if "/" in name else 1), name


def _named_labels(wheres: Iterable[Where]) -> dict[str, set[str] | None]:
    """Label key -> the values that constraints name; None where a value is compared as a
    number."""
    values: dict[str, set[str] | None] = {}
    for where in wheres:
        selected = [Requirement(key, "In", (value,)) for key, value in where.selector]
        for requirement in chain(selected, *where.affinity):
            known = values.setdefault(requirement.key, set())
            if requirement.operator in ("Gt", "Lt"):
                values[requirement.key] = None
            elif known is not None:
                known.update(requirement.values)
    return values


def accepts(where: Where, node_class: NodeClass) -> bool:
    """Whether nodes of this class accept such pods, whatever is free on the nodes. Remembers
    nothing: `NodeIndex.taking` does, for as long as there are such pods."""
    if where.selector or where.affinity:
        labels = dict(node_class.labels)
        for key, value in where.selector:
            if labels.get(key) != value:
                return False
        if where.affinity and not any(_meets_term(term, labels) for term in where.affinity):
            return False
    return tolerates(where, node_class.taints)


def class_asked_for(where: Where) -> NodeClass:
    """The class of a node with the labels that such pods ask for: of each requirement of the first
    term the first value, and no taint."""
    labels = dict(where.selector)
    for requirement in where.affinity[0] if where.affinity else ():
        if requirement.operator == "In" and requirement.values:
            labels.setdefault(requirement.key, requirement.values[0])
    return NodeClass(tuple(sorted(labels.items())))


def _meets_term(term: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether these labels meet all requirements of a term; an empty term matches no node."""
    return bool(term) and all(is_met(requirement, labels) for requirement in term)


def is_met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether these labels have what is required; an unknown operator requires nothing."""
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
    """The sign of (value - required value), as integers; 0 when one of them is no integer: then
    neither Gt nor Lt."""
    try:
        return 0 if value is None else int(value) - int(values[0])
    except (ValueError, IndexError):
        return 0


def tolerates(where: Where, taints: tuple[Taint, ...]) -> bool:
    """Whether none of the taints repels such pods."""
    for taint in taints:
        repels = taint.effect in REPELLING
        if repels and not any(_tolerated(taint, one) for one in where.tolerations):
            return False
    return True


def _tolerated(taint: Taint, toleration: Toleration) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator not in ("Equal", ""):  # Exists, or an operator that is not known
        return True
    return bool(toleration.key) and toleration.value == taint.value


def joined(*parts: PodRequests) -> PodRequests:
    """All of these pods, in a fixed order."""
    counts: dict[PodRequest, int] = {}
    for request, count in chain.from_iterable(parts):
        counts[request] = counts.get(request, 0) + count
    return tuple(sorted([(request, count) for request, count in counts.items() if count > 0]))
