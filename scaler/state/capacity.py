"""The free room of each node, kept up to date event by event.

An event costs the same in a cluster of any size. Only when pod requests distinguish nodes by other
labels or resources than before, all nodes are built anew. Holds no pods. Must not raise on anything
that a node or pod says."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

import msgspec

from scaler.clock import Skew
from scaler.decide.nodes import (
    COUNTED_IN,
    HOUR,
    MOST_RETURNS,
    NODE_NAME,
    REPELLING,
    Amounts,
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    Return,
    Taint,
    Terms,
    amount_of,
    terms_of,
)
from scaler.informers.pods import ENDED, PodRecord
from scaler.informers.records import NodeFacts
from scaler.workloads.pod_requests import Requests

SAID_OTHERWISE = frozenset(
    {f"node.kubernetes.io/{word}" for word in ("not-ready", "unreachable", "unschedulable")}
)
"""Taints with which Kubernetes repeats that a node is not Ready or is cordoned."""
PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Keys of taints with which Kubernetes speaks of a condition begin so; they go by themselves."""
MOST_GONE = 1_000
"""The largest number of nodes that do not exist any more of which the past is kept. It is kept for
an hour, as no decision asks for older returns."""


class _Returned(msgspec.Struct, frozen=True):
    """As `Return`. `before`: the facts of the node before, where a label or a taint changed."""

    at: float
    after: float = 0.0
    before: NodeFacts | None = None


_Returns = tuple[_Returned, ...]


class _Entry(msgspec.Struct, eq=False):
    facts: NodeFacts | None = None
    since: float = 0.0
    away: list[tuple[float, str, int]] = []
    """Faulty devices, the oldest fault first: when it was first seen, the resource, how many."""
    returns: _Returns = ()
    used: dict[str, int] = {}
    """Requests of all bound pods that have not ended, terminating ones included."""
    ending: dict[float, dict[str, int]] = {}
    """Time at which terminating pods should be gone -> their requests."""
    node: Node | None = None
    """The node value that was made last."""


class CapacityIndex:
    """Feed it every node and every pod, of whatever namespace. `now`: seconds since the epoch, for
    `Node.since`. `on_change` is called when a node is new, or when a pod takes something else."""

    def __init__(
        self, now: Callable[[], float] = lambda: 0.0, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._now = now
        self._on_change = on_change
        self._entries: defaultdict[str, _Entry] = defaultdict(_Entry)
        self._requests: frozenset[PodRequest] = frozenset()
        self._terms = terms_of(())
        self._classes: dict[NodeClass, NodeClass] = {}
        self._names: list[str] = []
        """Names of the existing nodes, sorted."""
        self._nodes: Nodes | None = None
        self._touched: dict[str, None] = {}
        """Nodes that are built anew before the next answer. A burst of events of one node builds it
        once."""
        self._gone: dict[str, _Returns] = {}
        """What nodes that do not exist any more have done, in the order in which they went: a node
        may be deleted and made again."""
        self._skew = Skew()

    def adjust(self, skew: Skew) -> None:
        self._skew = skew
        self._touched.update(dict.fromkeys(self._entries))

    def node_changed(self, name: str, facts: NodeFacts | None, *, listed: bool = False) -> None:
        """The node came or changed; None: it has gone. `listed`: the first list shows it, so it may
        have been so for long."""
        entry = self._entries.get(name) if facts is None else self._entries[name]
        if entry is None or entry.facts == facts:
            return
        if facts is None:
            self._keep_past(name, entry)
        else:
            self._note_past(name, entry, facts, listed=listed)
        entry.facts = facts
        self._touched[name] = None
        self._on_change()

    def _keep_past(self, name: str, entry: _Entry) -> None:
        """The node has gone."""
        if entry.returns:
            self._gone[name] = entry.returns
        entry.returns = ()
        entry.away = []
        while self._gone:
            oldest = next(iter(self._gone))
            is_old = self._now() - self._gone[oldest][-1].at >= HOUR
            if not is_old and len(self._gone) <= MOST_GONE:
                break
            del self._gone[oldest]

    def _note_past(self, name: str, entry: _Entry, facts: NodeFacts, *, listed: bool) -> None:
        """Note since when the node or chips of it are away, and when they return."""
        now = self._now()
        before = entry.facts
        if before is None:
            entry.returns = self._gone.pop(name, ())
        leaves = before is not None and _has_less(before, facts)
        if leaves and entry.returns and now - entry.returns[-1].at >= HOUR:
            entry.returns = ()
        returned = None if listed else self._returned(entry, facts, now)
        if returned is not None:
            entry.returns = (*entry.returns, returned)[-MOST_RETURNS:]
        if before is None or _schedulable(before) != _schedulable(facts):
            entry.since = now
        entry.away = _away_after(entry.away, facts, now)

    def _returned(self, entry: _Entry, facts: NodeFacts, now: float) -> _Returned | None:
        """What became usable by this change of a node; None: nothing did."""
        before = entry.facts
        if not _schedulable(facts):
            return None
        if before is None:
            return _Returned(now)
        if not _schedulable(before):
            return _Returned(now, now - entry.since)
        if _more_devices(before, facts):
            return _Returned(now, now - _healed_since(entry.away, facts, now))
        if _is_kept_off(before, facts, self._terms):
            return _Returned(now, before=before)
        return None

    def pod_changed(self, old: PodRecord | None, new: PodRecord | None) -> None:
        """`old` is what was given of the pod last."""
        before = _load(old)
        after = _load(new)
        if before == after:
            return
        for load, sign in ((before, -1), (after, 1)):
            if load is not None:
                node, requests, deletion = load
                entry = self._entries[node]
                _add(entry.used, requests, sign)
                if deletion:
                    ending = entry.ending.setdefault(deletion, {})
                    _add(ending, requests, sign)
                    if not ending:
                        del entry.ending[deletion]
                self._touched[node] = None
        self._on_change()

    def nodes(self, requests: Collection[PodRequest]) -> Nodes:
        """All nodes, with what these requests distinguish nodes by. The same value as long as
        nothing changes."""
        wanted = requests if isinstance(requests, frozenset) else frozenset(requests)
        if wanted is not self._requests and wanted != self._requests:
            self._requests = wanted
            terms = terms_of(wanted)
            if terms != self._terms:
                self._terms = terms
                self._nodes = None
                self._classes.clear()
                self._touched.update(dict.fromkeys(self._entries))
        touched = self._touched
        self._touched = {}
        for name in touched:
            self._look_at(name, self._entries[name])
        if self._nodes is None:
            found = [self._entries[name].node for name in self._names]
            there = tuple(node for node in found if node is not None)
            self._nodes = Nodes(self._terms.resources, there)
        return self._nodes

    def _look_at(self, name: str, entry: _Entry) -> None:
        """Make the node's value anew unless it is as it was, and forget a node of which nothing is
        known."""
        node = self._node(entry.facts, entry) if entry.facts is not None else None
        if node is None and not entry.used:
            del self._entries[name]
        if node != entry.node:
            self._nodes = None
            if entry.node is None:
                insort(self._names, name)
            elif node is None:
                self._names.remove(name)
            entry.node = node

    def _node(self, facts: NodeFacts, entry: _Entry) -> Node:
        """The node with what the present requests distinguish nodes by. Amounts are rounded down to
        whole grains, which loses nothing, unless amounts are added later."""
        resources = self._terms.resources
        have = _in_order(facts)
        left = {
            resource: have.get(resource, 0) - amount_of(entry.used, resource)
            for resource in resources
        }
        ending = list[tuple[float, Amounts]]()
        for gone_by, amounts in sorted(entry.ending.items()):
            taken = tuple(amount_of(amounts, resource) for resource in resources)
            ending.append((self._skew.earliest(gone_by), taken))
        away = list[tuple[float, Amounts]]()
        for since, faulty, number in entry.away:
            if faulty in resources:
                away.append((since, tuple(number * (faulty == each) for each in resources)))
        return Node(
            name=facts.name,
            node_class=self._class_of(facts),
            allocatable=self._terms.whole(_when_well(facts)),
            free=tuple(left.values()) if ending or away else self._terms.whole(left),
            ending=tuple(ending),
            ready=facts.ready and not facts.unhealthy,
            cordoned=facts.unschedulable,
            not_ready_since=facts.not_ready_since,
            since=entry.since,
            passing=_passing(facts),
            away=tuple(away),
            super_pod=facts.super_pod,
            hyper_nodes=facts.hyper_nodes,
            barred=facts.barred,
            returns=tuple([self._as_return(one) for one in entry.returns]),
        )

    def _class_of(self, facts: NodeFacts) -> NodeClass:
        node_class = _class_by(self._terms, facts)
        return self._classes.setdefault(node_class, node_class)

    def _as_return(self, one: _Returned) -> Return:
        if one.before is None:
            return Return(one.at, one.after)
        return Return(one.at, one.after, self._class_of(one.before), _passing(one.before))


def _load(record: PodRecord | None) -> tuple[str, Requests, float] | None:
    """The node of the pod, what it takes of it, and `PodRecord.deletion`. None where it takes
    nothing."""
    if record is None or not record.node or record.phase in ENDED:
        return None
    return record.node, record.requests, record.deletion


def _schedulable(facts: NodeFacts) -> bool:
    return facts.ready and not facts.unschedulable and not facts.unhealthy


def _has_less(before: NodeFacts, after: NodeFacts) -> bool:
    """Whether the node, or devices of it, went away by this change."""
    if _schedulable(before) and not _schedulable(after):
        return True
    return _more_devices(after, before)


def _more_devices(before: NodeFacts, after: NodeFacts) -> bool:
    """Whether the node has more devices in order after this change."""
    had = _in_order(before)
    for name, number in _in_order(after).items():
        is_told_anew = COUNTED_IN in name and name not in had
        if "/" in name and number > had.get(name, 0) and not is_told_anew:
            return True
    return False


def _away_after(
    away: list[tuple[float, str, int]], facts: NodeFacts, now: float
) -> list[tuple[float, str, int]]:
    """Faulty devices after a change. Those that were faulty last are taken to return first, as long
    as there are fewer than before."""
    left = _faulty(facts)
    after = []
    for since, name, number in away:
        still = min(number, left.get(name, 0))
        if still:
            left[name] -= still
            after.append((since, name, still))
    for name, number in sorted(left.items()):
        if number:
            after.append((now, name, number))
    return after


def _healed_since(away: list[tuple[float, str, int]], facts: NodeFacts, now: float) -> float:
    """Since when the devices were faulty that are not any more; `now` where none were."""
    left = _faulty(facts)
    for since, name, number in away:
        if number > left.get(name, 0):
            return since
        left[name] -= number
    return now


def _faulty(facts: NodeFacts) -> dict[str, int]:
    """The devices that are there and not in order, by resource."""
    in_order = _in_order(facts)
    faulty = {}
    for name, number in _when_well(facts).items():
        if "/" in name and number > in_order.get(name, 0):
            faulty[name] = number - in_order.get(name, 0)
    return faulty


def _is_kept_off(before: NodeFacts, after: NodeFacts, terms: Terms) -> bool:
    """Whether a label or a taint that goes with this change may have kept pods off the node."""
    if not set(_passing(before)) <= set(_passing(after)):
        return True
    if before.labels == after.labels and set(before.taints) <= set(after.taints):
        return False
    old = _class_by(terms, before)
    new = _class_by(terms, after)
    return old.labels != new.labels or not set(old.taints) <= set(new.taints)


def _class_by(terms: Terms, facts: NodeFacts) -> NodeClass:
    """The class of a node: its lasting taints, and the labels that pod requests name."""
    lasting = [taint for taint in facts.taints if not taint.key.startswith(PASSING)]
    return terms.node_class({**facts.labels, NODE_NAME: facts.name}, lasting)


def _passing(facts: NodeFacts) -> tuple[Taint, ...]:
    """Taints of a temporary condition that no other field of `Node` says."""
    passing = set()
    for taint in facts.taints:
        is_condition = taint.key.startswith(PASSING) and taint.key not in SAID_OTHERWISE
        if is_condition and taint.effect in REPELLING:
            passing.add(taint)
    return tuple(sorted(passing))


def _when_well(facts: NodeFacts) -> Mapping[str, int]:
    """Allocatable amounts of a node whose devices are all healthy; the system reserves a part of
    cpu and memory."""
    if facts.capacity == facts.allocatable:
        return facts.allocatable
    devices = {name: amount for name, amount in facts.capacity.items() if "/" in name}
    return {**facts.allocatable, **devices}


def _in_order(facts: NodeFacts) -> Mapping[str, int]:
    """Allocatable amounts, less the faulty devices that the kubelet still counts."""
    have = facts.allocatable
    for name, number in facts.faulty.items():
        allocatable = facts.allocatable.get(name, 0)
        detected = max(0, facts.capacity.get(name, allocatable) - allocatable)
        have = {**have, name: allocatable - max(0, number - detected)}
    return have


def _add(amounts: dict[str, int], requests: Requests, sign: int) -> None:
    for name, amount in requests:
        total = amounts.get(name, 0) + sign * amount
        if total:
            amounts[name] = total
        else:
            amounts.pop(name, None)
