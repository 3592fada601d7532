"""Which of the instances that room is promised to may be let go to the scheduler, which knows of no promises.

It may bind what is loose in any order on any node that takes it. Must not decide what is promised.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

from scaler.plan.capacity import Need, Needs, joined
from scaler.plan.neighbours import Neighbours
from scaler.plan.placement import Board

MOST_SORTS = 5
"""With more different needs loose at once, no further one is let go that could get in their way."""


class Loose:
    """Pods in the scheduler's hands, of floors that room is promised to."""

    def __init__(self, board: Board, neighbours: Neighbours, promised: Iterable[Needs]) -> None:
        self._board = board
        self._neighbours = neighbours
        self._sorts = {need: neighbours.kinds(((need, 1),)) for needs in promised for need, _ in needs}
        self._loose: Needs = ()
        self._answers: dict[tuple[Needs, Needs], bool] = {}

    def let_go(self, needs: Needs) -> None:
        """They are in the scheduler's hands from now on."""
        self._loose = joined(self._loose, needs)

    def is_safe_with(self, needs: Needs) -> bool:
        """Whether every promise can still be kept wherever these pods and what is loose already land.

        With nothing loose always: somebody has to begin, and the most restricted does.
        """
        if not self._loose or not any(map(self._is_in_the_way, (need for need, _ in needs))):
            return True
        asked = (self._loose, needs)
        if asked not in self._answers:
            self._answers[asked] = self._look_up(needs)
        return self._answers[asked]

    def _is_in_the_way(self, need: Need) -> bool:
        """Some other sort of pod is promised room that this one could be put into."""
        kinds = self._sorts[need]
        return any(other != need and not kinds.isdisjoint(theirs) for other, theirs in self._sorts.items())

    def _look_up(self, needs: Needs) -> bool:
        """Any sorts of what is loose may be bound before the others, so each choice of them is looked at."""
        kinds = frozenset().union(*(self._sorts[need] for need, _ in needs))
        near = [each for each in self._loose if not kinds.isdisjoint(self._sorts[each[0]])]
        if len(near) > MOST_SORTS:
            return False
        choices = chain.from_iterable(combinations(near, count) for count in range(len(near) + 1))
        return not any(self._board.disturbs(joined(first, needs)) for first in choices)
