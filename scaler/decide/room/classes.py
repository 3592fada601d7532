"""The nodes of a decision, by class and sorted by free room; which pods may run on them, and which
services share them.

Depends on nodes and pod requests alone. Must not reserve room, and must not look at the state of
services."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from copy import copy
from functools import cached_property
from itertools import compress
from operator import attrgetter, is_not
from typing import NamedTuple

from scaler.decide.nodes import (
    Amounts,
    Node,
    NodeClass,
    Nodes,
    PodRequests,
    Taint,
    Where,
    accepts,
    tolerates,
)

MOST_KEPT = 1_000
"""The largest number of sorted lists that an index keeps; beyond it all but one are dropped."""

Classes = frozenset[int]
"""Numbers of node classes in one index. Nodes of one `NodeClass` with other passing taints have
another number."""
PodAmounts = tuple[tuple[int, int], ...]
"""Amounts of one pod: (index of the resource, positive amount)."""
Entry = tuple[Amounts, int]
"""Free amounts of a node, and its index."""
_lasting = attrgetter("name", "node_class")
_alike = attrgetter("passing", "allocatable")


def times(pod: PodAmounts, free: Amounts) -> int:
    """How many such pods fit into the free amounts."""
    least = -1
    for index, amount in pod:
        number = free[index] // amount
        if number <= 0:
            return 0
        if number < least or least < 0:
            least = number
    return max(least, 0)


def plus(amounts: Amounts, pod: PodAmounts, sign: int) -> Amounts:
    changed = list(amounts)
    for index, amount in pod:
        changed[index] += sign * amount
    return tuple(changed)


class Fitting(NamedTuple):
    """Schedulable nodes of some classes with room for one pod, sorted by free amounts; and the sum
    of their places."""

    entries: list[Entry]
    places: int

    def after(self, pod: PodAmounts, gone: Iterable[Entry], come: Iterable[Entry]) -> Fitting:
        """The value after some nodes changed. `gone`: their entries before; `come`: their entries
        now."""
        entries = self.entries.copy()
        places = self.places
        for entry in gone:
            if not pod or times(pod, entry[0]):
                places -= times(pod, entry[0])
                del entries[bisect_left(entries, entry)]
        for entry in come:
            if not pod or times(pod, entry[0]):
                places += times(pod, entry[0])
                insort(entries, entry)
        return Fitting(entries, places)


class NodeIndex:
    def __init__(self, nodes: Nodes) -> None:
        self._all = nodes
        self.nodes = nodes.nodes
        self.resources = {name: index for index, name in enumerate(nodes.resources)}
        self.classes = frozenset([node.node_class for node in self.nodes])
        self.changed: frozenset[NodeClass] | None = None
        """Classes of nodes that changed since the index before; None = any class may have
        changed."""
        self._numbers: dict[tuple[NodeClass, tuple[Taint, ...]], int] = {}
        self.class_of = [
            self._numbers.setdefault((n.node_class, n.passing), len(self._numbers))
            for n in self.nodes
        ]
        """The number of the class of each node."""
        self.size = Counter(self.class_of)
        self.empty = {
            (number, node.allocatable)
            for number, node in zip(self.class_of, self.nodes, strict=True)
        }
        self._taking: dict[Where, Classes] = {}
        self._accepting: dict[Where, frozenset[NodeClass]] = {}
        free = sorted(
            [(node.free, index) for index, node in enumerate(self.nodes) if node.schedulable]
        )
        self._every = Classes(self.size)
        self._fitting = {(self._every, PodAmounts()): Fitting(free, 0)}

    def after(self, nodes: Nodes) -> NodeIndex:
        """The index of these nodes. Where possible the sorted lists of the old index are changed,
        not made anew."""
        old = self.nodes
        now = nodes.nodes
        changed = [] if now is old else list(compress(range(len(now)), map(is_not, old, now)))
        alike = nodes.resources == self._all.resources and len(now) == len(old)
        if not alike or any(_lasting(old[index]) != _lasting(now[index]) for index in changed):
            return NodeIndex(nodes)
        few = len(changed) <= len(old) // 8 and all(
            _alike(old[index]) == _alike(now[index]) for index in changed
        )
        new = copy(self) if few else NodeIndex(nodes)
        new.changed = frozenset([now[index].node_class for index in changed])
        if few and changed:
            gone = [(old[index].free, index) for index in changed if old[index].schedulable]
            come = [(now[index].free, index) for index in changed if now[index].schedulable]
            new._all = nodes
            new.nodes = now
            new._fitting = {
                (classes, pod): fitting.after(
                    pod, self._within(classes, gone), self._within(classes, come)
                )
                for (classes, pod), fitting in self._fitting.items()
            }
            for name in ("by_name", "unusual", "_since"):
                vars(new).pop(name, None)
        return new

    def _within(self, classes: Classes, entries: Iterable[Entry]) -> list[Entry]:
        return [entry for entry in entries if self.class_of[entry[1]] in classes]

    def fitting(self, classes: Classes, pod: PodAmounts) -> Fitting:
        """The nodes of these classes with free room for such a pod. Amounts: at least those of the
        pod."""
        known = self._fitting.get((classes, pod))
        if known is None and len(self._fitting) > MOST_KEPT:
            self._fitting = {(self._every, ()): self._fitting[self._every, ()]}
        if known is None and not pod:
            entries = self._within(classes, self.fitting(self._every, ()).entries)
            known = self._fitting[classes, pod] = Fitting(entries, 0)
        elif known is None:
            entries = self.fitting(classes, ()).entries
            if pod[0][0] == 0:
                entries = entries[bisect_left(entries, ((pod[0][1],), -1)) :]
            for at, amount in pod:
                entries = [entry for entry in entries if entry[0][at] >= amount]
            known = self._fitting[classes, pod] = Fitting(
                entries, sum([times(pod, free) for free, _ in entries])
            )
        return known

    @cached_property
    def emptied(self) -> NodeIndex:
        """The index of the same nodes, ready and empty: a pod that does not fit there never
        fits."""
        empty = (
            Node(node.name, node.node_class, node.allocatable, node.allocatable)
            for node in self.nodes
        )
        return NodeIndex(Nodes(self._all.resources, tuple(empty)))

    def taking(self, where: Where) -> Classes:
        """Numbers of the classes whose nodes accept such pods now, passing taints included."""
        if where not in self._taking:
            self._taking[where] = frozenset(
                [
                    number
                    for (node_class, passing), number in self._numbers.items()
                    if accepts(where, node_class) and tolerates(where, passing)
                ]
            )
        return self._taking[where]

    def classes_for(self, pods: PodRequests) -> frozenset[NodeClass]:
        """Classes of nodes on which some of these pods may run, whatever is free. Passing taints do
        not count."""
        wheres = {request.where for request, _ in pods}
        for where in wheres - self._accepting.keys():
            self._accepting[where] = frozenset([one for one in self.classes if accepts(where, one)])
        return frozenset().union(*[self._accepting[where] for where in wheres])

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def unusual(self) -> list[int]:
        """Indexes of nodes with terminating pods, and of nodes that are not schedulable."""
        return [at for at, node in enumerate(self.nodes) if node.ending or not node.schedulable]

    @cached_property
    def _since(self) -> dict[NodeClass, float]:
        found: dict[NodeClass, float] = {}
        for node in self.nodes:
            if node.schedulable and node.since > found.get(node.node_class, 0.0):
                found[node.node_class] = node.since
        return found

    def back_at(self, classes: Iterable[NodeClass]) -> float:
        """When a node of one of these classes last appeared or returned."""
        return max((self._since.get(each, 0.0) for each in classes), default=0.0)


Requests = frozenset[PodRequests]
"""The pod requests of the instances of a service, each once. Many services have equal ones."""


class Neighbours:
    """Services share nodes if nodes of some class could run pods of both. Those that share nodes,
    directly or through others, form one part of the cluster. `counts`: pod requests -> number of
    weighed services with these requests."""

    def __init__(self, counts: Counter[Requests], nodes: NodeIndex) -> None:
        self.service_counts = counts.copy()
        self.node_classes = nodes.classes
        self.classes = {
            each: frozenset[NodeClass]().union(*map(nodes.classes_for, each)) for each in counts
        }
        """Pod requests -> classes of nodes that services with these requests may use."""
        self.part: dict[Requests, int] = {}
        self.part_of_class: dict[NodeClass, int] = {}
        for number, (requests, own) in enumerate(self.classes.items()):
            joined = {self.part_of_class[one] for one in own if one in self.part_of_class}
            self.part |= {each: number for each, found in self.part.items() if found in joined}
            self.part[requests] = number
            self.part_of_class |= {
                each: number for each, found in self.part_of_class.items() if found in joined
            }
            self.part_of_class |= dict.fromkeys(own, number)
        self._services = Counter[int]()
        """Number of the part -> its weighed services."""
        for requests, number in counts.items():
            self._services[self.part[requests]] += number

    def shares(self, requests: Requests) -> bool:
        """Whether a service with these requests shares nodes with another service."""
        return bool(self.classes[requests]) and self._services[self.part[requests]] > 1
