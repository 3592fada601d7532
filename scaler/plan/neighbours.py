"""Which services share nodes: a static fact, whatever any of them is doing now.

Two needs share nodes when some kind of node could ever run pods of both. Must not look at what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scaler.plan.capacity import Kind, Needs
from scaler.plan.model import ServiceKey, Snapshot
from scaler.plan.placement import Board

Kinds = frozenset[Kind]
_NO_KINDS: Kinds = frozenset()


class Neighbours:
    """Every service that takes part, with the kinds of nodes that any of its jobs may run on."""

    def __init__(self, snapshots: Iterable[Snapshot], board: Board) -> None:
        self._board = board
        self._kinds: dict[Needs, Kinds] = {}
        self._of = {snapshot.key: self._union(snapshot) for snapshot in snapshots}
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

    def _union(self, snapshot: Snapshot) -> Kinds:
        """Instances of a group come one after the other and are nearly always alike."""
        union, last = _NO_KINDS, None
        for instance in snapshot.instances:
            needs = instance.needs
            if needs is not last:
                last = needs
                kinds = self._kinds.get(needs) or self.kinds(needs)
                if not kinds <= union:
                    union = kinds | union if union else kinds
        return union
