"""What differs from the last decision, without a step of Python for each of ten thousand services.
It saves time only: a comparison of all values gives the same.

    Followed   which services are other objects than in the last decision
    Moments    of which services time alone may change the decision, and when"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import compress
from operator import is_not
from typing import Generic, TypeVar

Value = TypeVar("Value")

BLOCK = 128
"""Values that are compared by one comparison of two tuples."""
FEW = 64
"""So many entries that no longer hold are never in the way."""


class Followed(Generic[Value]):
    """A tuple of which the next decision has another one, mostly with the same objects in the same
    places. Two tuples are equal at once where they have the same objects, so the blocks without a
    change cost one comparison each."""

    def __init__(self) -> None:
        self.last: tuple[Value, ...] = ()
        self._blocks: list[tuple[Value, ...]] = []
        """`last`, cut into pieces of the same length."""

    def follow(self, now: tuple[Value, ...]) -> list[int]:
        """Take `now` as the last one. Returns the positions of other objects; those of equal
        objects may be left out. Of a tuple of another length: all positions."""
        if now is self.last:
            return []
        before = self._blocks
        is_as_long = len(now) == len(self.last)
        self.last = now
        self._blocks = [now[start : start + BLOCK] for start in range(0, len(now), BLOCK)]
        if not is_as_long:
            return list(range(len(now)))
        changed: list[int] = []
        for number, block in enumerate(self._blocks):
            if block != before[number]:
                positions = range(number * BLOCK, number * BLOCK + len(block))
                changed += compress(positions, map(is_not, before[number], block))
        return changed


class Moments:
    """Position of a service -> from when on it is looked at again. The first of all moments is
    known without a look at the others."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        """All moments, and some that no longer hold, which are taken out when they are the first,
        or too many. So the first one holds."""

    def put(self, position: int, moment: float) -> None:
        """The service at this position is looked at again at this moment, and at none that was put
        before; 0.0 = never."""
        if moment == self._until.get(position, 0.0):
            return
        if moment:
            self._until[position] = moment
            heappush(self._heap, (moment, position))
        else:
            del self._until[position]
        if len(self._heap) > 2 * len(self._until) + FEW:
            self._heap = [(until, at) for at, until in self._until.items()]
            heapify(self._heap)
        while self._heap and not self._holds(*self._heap[0]):
            heappop(self._heap)

    def clear(self) -> None:
        """Forget all moments."""
        self._until.clear()
        self._heap.clear()

    def due(self, now: float) -> list[int]:
        """The positions whose moment has come, in order."""
        if not self._heap or self._heap[0][0] > now:
            return []
        return sorted([at for at, until in self._until.items() if until <= now])

    def to_come(self, now: float) -> Iterator[float]:
        """Moments after `now`, the earliest of all among them; nothing if there is none."""
        if self._heap and self._heap[0][0] > now:
            yield self._heap[0][0]
        elif self._heap:
            yield from [until for until in self._until.values() if until > now]

    def _holds(self, moment: float, position: int) -> bool:
        return self._until.get(position) == moment
