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
    NODE_NAME,
    REPELLING,
    Amounts,
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    Taint,
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


class _Entry(msgspec.Struct, eq=False):
    facts: NodeFacts | None = None
    since: float = 0.0
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
        self._skew = Skew()

    def adjust(self, skew: Skew) -> None:
        self._skew = skew
        self._touched.update(dict.fromkeys(self._entries))

    def node_changed(self, name: str, facts: NodeFacts | None) -> None:
        """The node came or changed; None: it has gone."""
        entry = self._entries.get(name) if facts is None else self._entries[name]
        if entry is None or entry.facts == facts:
            return
        if facts is not None and (
            entry.facts is None or _schedulable(entry.facts) != _schedulable(facts)
        ):
            entry.since = self._now()
        entry.facts = facts
        self._touched[name] = None
        self._on_change()

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
        passing = set[Taint]()
        stays = list[Taint]()
        for taint in facts.taints:
            if not taint.key.startswith(PASSING):
                stays.append(taint)
            elif taint.effect in REPELLING and taint.key not in SAID_OTHERWISE:
                passing.add(taint)
        node_class = self._terms.node_class({**facts.labels, NODE_NAME: facts.name}, stays)
        have = _in_order(facts)
        left = {
            resource: have.get(resource, 0) - entry.used.get(resource, 0) for resource in resources
        }
        ending = list[tuple[float, Amounts]]()
        for gone_by, amounts in sorted(entry.ending.items()):
            taken = tuple(amounts.get(resource, 0) for resource in resources)
            ending.append((self._skew.earliest(gone_by), taken))
        return Node(
            name=facts.name,
            node_class=self._classes.setdefault(node_class, node_class),
            allocatable=self._terms.whole(_when_well(facts)),
            free=tuple(left.values()) if ending else self._terms.whole(left),
            ending=tuple(ending),
            ready=facts.ready and not facts.unhealthy,
            cordoned=facts.unschedulable,
            since=entry.since,
            passing=tuple(sorted(passing)),
        )


def _load(record: PodRecord | None) -> tuple[str, Requests, float] | None:
    """The node of the pod, what it takes of it, and `PodRecord.deletion`. None where it takes
    nothing."""
    if record is None or not record.node or record.phase in ENDED:
        return None
    return record.node, record.requests, record.deletion


def _schedulable(facts: NodeFacts) -> bool:
    return facts.ready and not facts.unschedulable and not facts.unhealthy


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
