"""Which services share nodes: a static fact, whatever any of them is doing now.

Two needs share nodes when some kind of node could ever run pods of both. Must not look at what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from scaler.decide.nodes import NodeClass, PodRequests
from scaler.decide.room.placement import Board
from scaler.decide.world import ServiceKey

NodeClasses = frozenset[NodeClass]


class Asks(msgspec.Struct, frozen=True, cache_hash=True):
    """What the instances of a service need, each once where like follows like. Many services are of the same make."""

    needs: tuple[PodRequests, ...]


class Neighbours:
    """Every service that takes part, with the kinds of nodes that any of its jobs may run on."""

    def __init__(self, asks: Mapping[ServiceKey, Asks], board: Board) -> None:
        self._board = board
        self._kinds: dict[PodRequests, NodeClasses] = {}
        self._asks = asks
        makes = Counter(asks.values())
        self._of = {asked: self._union(asked) for asked in makes}
        self._counts: Counter[NodeClasses] = Counter()
        for asked, number in makes.items():
            self._counts[self._of[asked]] += number
        self._answers: dict[tuple[NodeClasses, PodRequests], bool] = {}

    def shares(self, key: ServiceKey, needs: PodRequests) -> bool:
        """Whether another service has a candidate node in common with these needs of this service."""
        asked = (self._of[self._asks[key]], needs)
        answer = self._answers.get(asked)
        if answer is None:
            answer = self._answers[asked] = self._look_up(*asked)
        return answer

    def _look_up(self, own: NodeClasses, needs: PodRequests) -> bool:
        kinds = self.kinds(needs)
        return any(
            not kinds.isdisjoint(theirs) and (number > 1 or theirs != own) for theirs, number in self._counts.items()
        )

    def kinds(self, needs: PodRequests) -> NodeClasses:
        """The candidate kinds of these needs."""
        kinds = self._kinds.get(needs)
        if kinds is None:
            kinds = self._kinds[needs] = self._board.candidates(needs)
        return kinds

    def _union(self, asks: Asks) -> NodeClasses:
        return frozenset[NodeClass]().union(*map(self.kinds, asks.needs))
