"""Which services share nodes: a static fact, whatever any of them is doing now.

Two needs share nodes when some kind of node could ever run pods of both. Must not look at what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from scaler.plan.model import ServiceKey
from scaler.plan.room.capacity import Kind, Needs
from scaler.plan.room.placement import Board

Kinds = frozenset[Kind]


class Neighbours:
    """Every service that takes part, with the kinds of nodes that any of its jobs may run on."""

    def __init__(self, asks: Mapping[ServiceKey, tuple[Needs, ...]], board: Board) -> None:
        """`asks`: what the jobs of each service need."""
        self._board = board
        self._kinds: dict[Needs, Kinds] = {}
        unions = {asked: self._union(asked) for asked in set(asks.values())}
        self._of = {key: unions[asked] for key, asked in asks.items()}
        self._counts = Counter(self._of.values())
        self._answers: dict[tuple[Kinds, Needs], bool] = {}

    def shares(self, key: ServiceKey, needs: Needs) -> bool:
        """Whether another service has a candidate node in common with these needs of this service."""
        asked = (self._of[key], needs)
        answer = self._answers.get(asked)
        if answer is None:
            answer = self._answers[asked] = self._look_up(*asked)
        return answer

    def _look_up(self, own: Kinds, needs: Needs) -> bool:
        kinds = self.kinds(needs)
        return any(
            not kinds.isdisjoint(theirs) and (number > 1 or theirs != own) for theirs, number in self._counts.items()
        )

    def kinds(self, needs: Needs) -> Kinds:
        """The candidate kinds of these needs."""
        kinds = self._kinds.get(needs)
        if kinds is None:
            kinds = self._kinds[needs] = self._board.candidates(needs)
        return kinds

    def _union(self, asks: Iterable[Needs]) -> Kinds:
        return frozenset[Kind]().union(*map(self.kinds, asks))
