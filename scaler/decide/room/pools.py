"""Nodes of one kind in a working copy: which amounts are free on how many of them, and taking and giving back.

Nodes with the same free amounts are interchangeable and only counted; one that something was taken from is kept apart,
so that what was taken can be given back to it. Must not know why something is taken, nor whether it may run here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

import msgspec

from scaler.decide.nodes import PodRequest

Amounts = tuple[int, ...]


class Ask(msgspec.Struct, frozen=True, eq=False):
    """A need in terms of one board: its amounts by index of resource, and the pools that take it."""

    need: PodRequest
    amounts: tuple[tuple[int, int], ...]
    pools: tuple[Pool, ...]
    first: Amounts
    """Where to start in a sorted list of free amounts: what is before has too little of the scarcest resource."""
    restriction: tuple[Any, ...]
    """Sorts the most restricted first: of few pools, then the largest."""

    def amount_of(self, index: int) -> int:
        for place, amount in self.amounts:
            if place == index:
                return amount
        return 0

    def left_of(self, free: Amounts) -> Amounts:
        """What is free after one such pod."""
        left = list(free)
        for index, amount in self.amounts:
            left[index] -= amount
        return tuple(left)

    def back_to(self, free: Amounts) -> Amounts:
        """What is free without one such pod."""
        back = list(free)
        for index, amount in self.amounts:
            back[index] += amount
        return tuple(back)

    def times(self, free: Amounts) -> int:
        """How many such pods a node with so much free holds."""
        least = None
        for index, amount in self.amounts:
            number = free[index] // amount
            if number <= 0:
                return 0
            if least is None or number < least:
                least = number
        return least or 0


class Node:
    """A node that something was taken from. Compared by identity."""

    __slots__ = ("free", "pool")

    def __init__(self, pool: Pool, free: Amounts) -> None:
        self.pool = pool
        self.free = free


Choice = tuple[Amounts, int, int, "Pool"]
"""Free amounts that hold a pod, less so many nodes with them, the pool's number and the pool: the least goes first, and
among equals the pool with most such nodes, as others may need it."""


class Pool:
    """Nodes that the same pods may run on."""

    __slots__ = ("_best", "_order", "_slots", "_touched", "_untouched", "empty", "number", "occupants", "whole")

    def __init__(self, number: int) -> None:
        self.number = number
        self._order: list[Amounts] = []
        """Sorted; every key of the other two that counts any node."""
        self._untouched: dict[Amounts, int] = {}
        self._touched: dict[Amounts, dict[Node, None]] = {}
        self.whole: dict[Amounts, int] = {}
        """What was free on how many nodes before anything was taken."""
        self.empty: set[Amounts] = set()
        """What is allocatable on any of them."""
        self.occupants: dict[Ask, dict[Any, None]] = {}
        """The seats here that are promised, by what sits there; kept by the promises."""
        self._slots: dict[tuple[int, int], int] = {}
        self._best: dict[Ask, Choice | None] = {}
        """Answers that are good until something is taken or given back."""

    def add(self, free: Amounts, allocatable: Amounts, count: int) -> None:
        """So many more nodes; nothing is taken yet. To be followed by `sort`."""
        self.whole[free] = self.whole.get(free, 0) + count
        self.empty.add(allocatable)

    def sort(self) -> None:
        """All nodes are known."""
        self._untouched = dict(self.whole)
        self._order = sorted(self.whole)

    def best(self, ask: Ask) -> Choice | None:
        """The least free amounts that hold the pod; None when no node does."""
        if ask not in self._best:
            free = self._least(ask)
            self._best[ask] = None if free is None else (free, -self.count(free), self.number, self)
        return self._best[ask]

    def _least(self, ask: Ask) -> Amounts | None:
        order, amounts = self._order, ask.amounts
        for position in range(bisect_left(order, ask.first), len(order)):
            free = order[position]
            for index, amount in amounts:
                if free[index] < amount:
                    break
            else:
                return free
        return None

    def fitting(self, ask: Ask) -> Iterator[Amounts]:
        """All different free amounts that hold the pod, least first."""
        for free in self._order[bisect_left(self._order, ask.first) :]:
            if ask.times(free):
                yield free

    def count(self, free: Amounts) -> int:
        """How many nodes have exactly so much free."""
        touched = self._touched.get(free)
        return self._untouched.get(free, 0) + (len(touched) if touched else 0)

    def seats(self, ask: Ask) -> int:
        """How many such pods all nodes together hold, were they alone."""
        return sum(self.count(free) * ask.times(free) for free in self.fitting(ask))

    def portions(self, index: int, amount: int) -> int:
        """How many portions of one resource all nodes together hold."""
        return sum(self.count(free) * (free[index] // amount) for free in self._order if free[index] >= amount)

    def sum(self, index: int) -> int:
        """What is free of one resource on all nodes together."""
        return sum(self.count(free) * free[index] for free in self._order if index >= 0 and free[index] > 0)

    def meets(self, one: Ask, other: Ask) -> bool:
        """Whether some node has room for a pod of either."""
        return any(one.times(free) for free in self.fitting(other))

    def slots(self, index: int, amount: int) -> int:
        """How many portions of one resource all nodes would hold with nothing taken."""
        known = self._slots.get((index, amount))
        if known is None:
            known = sum(count * (free[index] // amount) for free, count in self.whole.items() if free[index] > 0)
            self._slots[index, amount] = known
        return known

    def take(self, free: Amounts, ask: Ask) -> Node:
        """Put the pod on a node with exactly so much free (there is one)."""
        touched = self._touched.get(free)
        if touched:
            node = touched.popitem()[0]
        else:
            self._untouched[free] -= 1
            node = Node(self, free)
        self._drop_if_none(free)
        self._enter(node, ask.left_of(free))
        return node

    def give_back(self, node: Node, ask: Ask) -> None:
        """Take the pod off its node."""
        self._move(node, ask.back_to(node.free))

    def take_again(self, node: Node, ask: Ask) -> None:
        """Put the pod on this very node, which has the room."""
        self._move(node, ask.left_of(node.free))

    def _move(self, node: Node, free: Amounts) -> None:
        del self._touched[node.free][node]
        self._drop_if_none(node.free)
        self._enter(node, free)

    def _enter(self, node: Node, free: Amounts) -> None:
        if not self.count(free):
            insort(self._order, free)
        node.free = free
        self._best = {}
        self._touched.setdefault(free, {})[node] = None

    def _drop_if_none(self, free: Amounts) -> None:
        if not self.count(free):
            self._untouched.pop(free, None)
            self._touched.pop(free, None)
            del self._order[bisect_left(self._order, free)]
