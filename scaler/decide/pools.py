"""The nodes as a trial placement sees them: by pool, sorted by what is free. What follows from the nodes alone."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from copy import copy
from itertools import compress
from operator import attrgetter, is_not
from typing import NamedTuple

from scaler.decide.nodes import Amounts, NodeClass, Nodes, Taint, Where, accepts, tolerates

MOST_KEPT = 1_000
"""When a cache holds sorted nodes for more different pods, it forgets them."""

Pools = frozenset[int]
Asked = tuple[tuple[int, int], ...]
"""Amounts of one pod: (index of the resource, positive amount)."""
Entry = tuple[Amounts, int]
"""Free amounts of a node, and its index."""
_lasting = attrgetter("name", "node_class", "passing", "allocatable")


def times(asked: Asked, free: Amounts) -> int:
    """How many such pods so much room holds."""
    least = -1
    for index, amount in asked:
        number = free[index] // amount
        if number <= 0:
            return 0
        if number < least or least < 0:
            least = number
    return max(least, 0)


def plus(amounts: Amounts, asked: Asked, sign: int) -> Amounts:
    changed = list(amounts)
    for index, amount in asked:
        changed[index] += sign * amount
    return tuple(changed)


class Fitting(NamedTuple):
    """The schedulable nodes of some pools that have room for one pod, sorted; and how many such pods they hold."""

    entries: list[Entry]
    places: int

    def after(self, asked: Asked, gone: Iterable[Entry], come: Iterable[Entry]) -> Fitting:
        """The same once some nodes of these pools have changed."""
        entries, places = self.entries.copy(), self.places
        for entry in gone:
            if not asked or times(asked, entry[0]):
                places -= times(asked, entry[0])
                del entries[bisect_left(entries, entry)]
        for entry in come:
            if not asked or times(asked, entry[0]):
                places += times(asked, entry[0])
                insort(entries, entry)
        return Fitting(entries, places)


class NodePools:
    """What follows from the nodes alone. A pool: the nodes of one class that have the same passing taints."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.resources = nodes.nodes, nodes.resources
        self.index = {name: index for index, name in enumerate(nodes.resources)}
        self.pools: dict[tuple[NodeClass, tuple[Taint, ...]], int] = {}
        self.pool_of = [self.pools.setdefault((node.node_class, node.passing), len(self.pools)) for node in self.nodes]
        self.size = Counter(self.pool_of)
        self.empty = {(pool, node.allocatable) for pool, node in zip(self.pool_of, self.nodes, strict=True)}
        free = sorted([(node.free, index) for index, node in enumerate(self.nodes) if node.schedulable])
        self._pools_for: dict[Where, Pools] = {}
        self._all = Pools(self.size)
        self._fitting = {(self._all, Asked()): Fitting(free, 0)}
        """As far as it was asked for."""

    def after(self, nodes: Nodes) -> NodePools:
        """The facts of these nodes: as of those, where they are the same objects."""
        if nodes.nodes is self.nodes and nodes.resources == self.resources:
            return self
        old, now = self.nodes, nodes.nodes
        changed = list(compress(range(len(old)), map(is_not, old, now)))
        alike = nodes.resources == self.resources and len(now) == len(old) and len(changed) <= len(old) // 8
        if not alike or any(_lasting(old[index]) != _lasting(now[index]) for index in changed):
            return NodePools(nodes)
        gone = [(old[index].free, index) for index in changed if old[index].schedulable]
        come = [(now[index].free, index) for index in changed if now[index].schedulable]
        new = copy(self)
        new.nodes = now
        kept = self._fitting if len(self._fitting) <= MOST_KEPT else {(self._all, ()): self.fitting(self._all, ())}
        new._fitting = {
            (pools, asked): fitting.after(asked, self._within(pools, gone), self._within(pools, come))
            for (pools, asked), fitting in kept.items()
        }
        return new

    def _within(self, pools: Pools, entries: Iterable[Entry]) -> list[Entry]:
        pool_of = self.pool_of
        return [entry for entry in entries if pool_of[entry[1]] in pools]

    def pools_for(self, where: Where) -> Pools:
        if where not in self._pools_for:
            self._pools_for[where] = frozenset([
                number for (node_class, passing), number in self.pools.items()
                if accepts(where, node_class) and tolerates(where, passing)
            ])  # fmt: skip
        return self._pools_for[where]

    def fitting(self, pools: Pools, asked: Asked) -> Fitting:
        known = self._fitting.get((pools, asked))
        if known is None and not asked:
            known = self._fitting[pools, asked] = Fitting(self._within(pools, self.fitting(self._all, ()).entries), 0)
        elif known is None:
            entries = self.fitting(pools, ()).entries
            if asked[0][0] == 0:
                entries = entries[bisect_left(entries, ((asked[0][1],), -1)) :]
            for at, amount in asked:
                entries = [entry for entry in entries if entry[0][at] >= amount]
            places = sum([times(asked, free) for free, _ in entries])
            known = self._fitting[pools, asked] = Fitting(entries, places)
        return known
