"""Pods and nodes of a trial placement: pods with equal requests are one class, and a node knows
what is left of it at each level of room."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import msgspec

from scaler.decide.nodes import Amounts, Levels, Room
from scaler.decide.room.amounts import PodAmounts, plus
from scaler.decide.room.classes import Classes

by_restriction = attrgetter("rank")
"""Sort key of pod classes: the most restricted first."""


class Together(NamedTuple):
    """How pods are placed together."""

    block: int = 0
    """So many of them are placed as one, on nodes of one set; 0 = each alone."""
    tier: str = ""
    """The topology whose sets of nodes take a block, as at `PodRequest`."""
    only: int = -1
    """The number of the only set that may take it; negative = any."""


ALONE = Together()


class PodClass:
    """Pods with the same amounts and the same candidate nodes, at any `Room`. Compared by
    identity."""

    def __init__(
        self,
        amounts: PodAmounts,
        classes: Classes,
        size: int,
        *,
        rounded: bool = False,
        together: Together = ALONE,
    ) -> None:
        """`size`: the number of candidate nodes. `rounded`: such a pod may request less (10c)."""
        self.rounded = rounded
        self.block = together.block
        self.tier = together.tier
        self.only = together.only
        self.amounts = amounts
        self.classes = classes
        self.by_resource = dict(amounts)
        self.rank = (
            size,
            -together.block,
            together,
            tuple((index, -amount) for index, amount in amounts),
            tuple(sorted(classes)),
            rounded,
        )
        """Sort key, the most restricted first: the fewest candidate nodes, then the largest blocks,
        then the largest amounts."""
        self.reserved = [0] * len(Room)
        """Reserved pods of this class, by `Room`; of a class with blocks, blocks."""

    def allows(self, number: int) -> bool:
        """Whether a block may be in the set of nodes with this number."""
        return self.only < 0 or self.only == number

    def places_of(self, other: PodClass) -> int:
        """The least number of places for such pods that one pod of the other class takes, on any
        node. A pod of 8 takes two places for pods of 4; one that may run on nodes where such pods
        may not takes none for sure. A block takes a place for each of its pods. Of the places for
        blocks, which are blocks, a block of so many pods takes one; a smaller one takes none for
        sure, nor does one that may be in several sets or in other ones."""
        if not other.classes <= self.classes:
            return 0
        shares = [other.by_resource.get(index, 0) // amount for index, amount in self.amounts]
        on_node = min(shares, default=0)
        if self.block and (other.tier != self.tier or (self.tier and other.only != self.only)):
            return 0
        if self.block and self.tier:
            return on_node * other.block // self.block
        if self.block:
            return max(1, other.block) // self.block if on_node else 0
        return on_node * max(1, other.block)


class PlacedPod(msgspec.Struct, eq=False):
    """A pod of a trial placement, or a block of several. `node`: index of its node; -1 = none."""

    pod_class: PodClass
    room: Room
    number: int
    """In the order of reservations."""
    node: int = -1
    others: tuple[int, ...] = ()
    """Indexes of the other nodes of a block."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """Indexes of all its nodes; none as long as it has no node."""
        return (self.node, *self.others) if self.node >= 0 else ()


class NodeState:
    """A node with a reservation, now or before, or with different room at different levels
    (`Room`)."""

    __slots__ = ("alike", "left", "pods", "room", "whole")

    def __init__(self, whole: Levels) -> None:
        self.whole = whole
        """Without reservations."""
        self.left = whole
        """Less the reservations."""
        self.room = whole
        """What a pod may take at each level: the least of `left` there and at all levels above. A
        pod on free room takes from what victims leave and from expected room, too."""
        self.pods: set[PlacedPod] = set()
        self.alike = -1
        """A number for nodes with the same room; -1 = none since the room changed."""
        self._narrow()

    def change(self, amounts: PodAmounts, level: int, sign: int) -> None:
        """Add the amounts at this level and all levels above; with sign -1, subtract them."""
        self.alike = -1
        left = self.left
        if level == Room.FREE and left[Room.FREE] is left[Room.AWAY]:
            free = plus(left[Room.FREE], amounts, sign)
            self.left = (free, free, free, free, free)
            self.room = self.left
            return
        self.left = (
            plus(left[0], amounts, sign) if level <= 0 else left[0],
            plus(left[1], amounts, sign) if level <= 1 else left[1],
            plus(left[2], amounts, sign) if level <= 2 else left[2],
            plus(left[3], amounts, sign) if level <= 3 else left[3],
            plus(left[4], amounts, sign),
        )
        self._narrow()

    def count_freed(self, amounts: PodAmounts, sign: int) -> None:
        free, freed, expected, returning, away = self.whole
        self.whole = (
            free,
            plus(freed, amounts, sign),
            plus(expected, amounts, sign),
            plus(returning, amounts, sign),
            plus(away, amounts, sign),
        )
        self.change(amounts, Room.FREED, sign)

    def _narrow(self) -> None:
        free, freed, expected, returning, away = self.left
        if free is away:
            self.room = self.left
            return
        returning = _least(returning, away)
        expected = _least(expected, returning)
        freed = _least(freed, expected)
        self.room = (_least(free, freed), freed, expected, returning, away)


def _least(one: Amounts, other: Amounts) -> Amounts:
    return tuple(map(min, one, other))
