"""Which of the instances that room is promised to may be let go to the scheduler, which knows of no promises.

It may bind what is loose in any order on any node that takes it. Must not decide what is promised.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations
from operator import ge
from typing import Any

from scaler.decide.minimums.neighbours import Neighbours
from scaler.decide.nodes import Capacity, NodeClass, PodRequest, PodRequests, Room, joined
from scaler.decide.room.placement import Board

MOST_SORTS = 5
"""With more different needs loose at once, no further one is let go that could get in their way."""
MOST_CHECKS = 40
"""After so many checks in one arbitration nothing more is let go that would need one; the next one goes on."""


class Loose:
    """Pods in the scheduler's hands, of minimums that room is promised to."""

    def __init__(
        self, board: Board, neighbours: Neighbours, capacity: Capacity, promised: Iterable[PodRequests]
    ) -> None:
        self._board = board
        self._resources = capacity.resources
        self._rooms: dict[NodeClass, list[Room]] = {}
        for room in capacity.rooms:
            if room.schedulable:
                self._rooms.setdefault(room.kind, []).append(room)
        self._sorts = {need: neighbours.kinds(((need, 1),)) for need in {n for needs in promised for n, _ in needs}}
        self._in_the_way = {need for need in self._sorts if self._meets_others(need)}
        self._loose: dict[PodRequest, int] = {}
        self._checks = MOST_CHECKS

    def let_go(self, needs: PodRequests) -> None:
        """They are in the scheduler's hands from now on."""
        for need, count in needs:
            self._loose[need] = self._loose.get(need, 0) + count

    def let_go_of(self, waiting: dict[PodRequests, list[Any]]) -> None:
        """Take out of `waiting`, instances by what each needs, all that may be let go: the most restricted first.

        Where nothing is loose somebody has to begin, and the most restricted does.
        """
        most_restricted_first = sorted(waiting, key=lambda needs: (self._breadth(needs), needs))
        for needs in most_restricted_first:
            while waiting[needs] and (number := self._safe_number(needs, len(waiting[needs]))):
                self.let_go(_times(needs, number))
                del waiting[needs][:number]
        for needs in most_restricted_first:
            if waiting[needs] and not self._near(needs):
                self.let_go(needs)
                del waiting[needs][0]

    def _breadth(self, needs: PodRequests) -> int:
        """How many nodes have room for the most restricted of these pods."""
        return min(map(self._seats, (need for need, _ in needs)))

    def _seats(self, need: PodRequest) -> int:
        asked = dict(need.requests)
        amounts = [asked.get(name, 0) for name in self._resources]
        rooms = (room for kind in self._sorts[need] for room in self._rooms.get(kind, ()))
        return sum(room.count for room in rooms if all(map(ge, room.free, amounts)))

    def _meets_others(self, need: PodRequest) -> bool:
        """Some other sort of pod is promised room that this one could be put into."""
        kinds = self._sorts[need]
        return any(other != need and not kinds.isdisjoint(theirs) for other, theirs in self._sorts.items())

    def _safe_number(self, needs: PodRequests, most: int) -> int:
        """How many instances are found to be safe at once: none, one, or all."""
        if not any(need in self._in_the_way for need, _ in needs):
            return most
        if not self._is_safe(needs):
            return 0
        return most if most == 1 or self._is_safe(_times(needs, most)) else 1

    def _is_safe(self, needs: PodRequests) -> bool:
        """Whether every promise can still be kept wherever these pods and what is loose already land: any sorts of
        what is loose may be bound before the others, so each choice of them is looked at."""
        near = self._near(needs)
        if len(near) > MOST_SORTS or self._checks <= 0:
            return False
        choices = chain.from_iterable(combinations(near, count) for count in range(len(near) + 1))
        return not any(self._disturbs(joined(first, needs)) for first in choices)

    def _disturbs(self, needs: PodRequests) -> bool:
        self._checks -= 1
        return self._board.disturbs(needs)

    def _near(self, needs: PodRequests) -> list[tuple[PodRequest, int]]:
        kinds = frozenset().union(*(self._sorts[need] for need, _ in needs))
        return [each for each in self._loose.items() if not kinds.isdisjoint(self._sorts[each[0]])]


def _times(needs: PodRequests, number: int) -> PodRequests:
    return tuple((need, count * number) for need, count in needs)
