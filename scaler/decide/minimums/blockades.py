"""Which waiting minimums block which climbs: one predicate for holding a climb and for taking it back.

A minimum blocks where the two share a node with room, and the minimum would fit on what is free, held by unbound climbs,
or due back. Looks at bare nodes, on which nothing is promised. Must not decide what becomes of a climb.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler.decide.minimums.parties import Minimum, Part, Party
from scaler.decide.minimums.patience import is_muted
from scaler.decide.minimums.rulings import Why
from scaler.decide.nodes import Capacity, PodRequests
from scaler.decide.room.placement import Board, emptied
from scaler.decide.room.shortage import Shortage
from scaler.decide.world import Reason


class Blockades:
    """All minimums that wait, in their order."""

    def __init__(self, waiting: Sequence[Party], capacity: Capacity) -> None:
        self._waiting = waiting
        self._capacity = capacity
        self._soon: Board | None = None
        self._empty: Board | None = None
        self._blocking: dict[PodRequests, Party] | None = None
        self._answers: dict[PodRequests, Why | None] = {}
        self._too_large: dict[PodRequests, Shortage | None] = {}

    def of(self, climb: Part) -> Why | None:
        """Why the climb has to yield: it names the first service whose minimum blocks it. None when none does."""
        needs = climb.needs
        if needs not in self._answers:
            self._answers[needs] = self._look_up(needs)
        return self._answers[needs]

    def too_large(self, minimum: Minimum) -> Shortage | None:
        """Why it would not fit even if all nodes were empty and well, bound pods of its own included."""
        if minimum.whole not in self._too_large:
            if self._empty is None:
                self._empty = emptied(self._capacity)
            self._too_large[minimum.whole] = self._empty.fits(minimum.whole)
        return self._too_large[minimum.whole]

    def _look_up(self, needs: PodRequests) -> Why | None:
        if self._blocking is None:
            self._blocking = self._find_blocking()
        board = self._board()
        for wanted, party in self._blocking.items():
            if board.contended(needs, wanted):
                return Reason.YIELDS_TO_MINIMUM, (party.name,)
        return None

    def _find_blocking(self) -> dict[PodRequests, Party]:
        """The first of those that ask for the same. Not those that no room would help, or that failed too often."""
        found: dict[PodRequests, Party] = {}
        for party in self._waiting:
            minimum = party.minimum
            if minimum is None or minimum.lacking or minimum.needs in found or is_muted(party.memory):
                continue
            if self._board().fits(minimum.needs) is None and not self.too_large(minimum):
                found[minimum.needs] = party
        return found

    def _board(self) -> Board:
        if self._soon is None:
            self._soon = Board(self._capacity, due_back=True)
        return self._soon
