"""Which waiting floors block which climbs: one predicate for holding a climb and for taking it back.

A floor blocks where the two share a node with room, and the floor would fit on what is free, held by unbound climbs,
or due back. Looks at bare nodes, on which nothing is promised. Must not decide what becomes of a climb.
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler.plan.floors.parties import Floor, Part, Party
from scaler.plan.floors.patience import is_muted
from scaler.plan.floors.rulings import Why
from scaler.plan.model import Reason
from scaler.plan.room.capacity import Capacity, Needs
from scaler.plan.room.placement import Board, emptied
from scaler.plan.room.shortage import Shortage


class Blockades:
    """All floors that wait, in their order."""

    def __init__(self, waiting: Sequence[Party], capacity: Capacity) -> None:
        self._waiting = waiting
        self._capacity = capacity
        self._soon: Board | None = None
        self._empty: Board | None = None
        self._blocking: dict[Needs, Party] | None = None
        self._answers: dict[Needs, Why | None] = {}
        self._too_large: dict[Needs, Shortage | None] = {}

    def of(self, climb: Part) -> Why | None:
        """Why the climb has to yield: it names the first service whose floor blocks it. None when none does."""
        needs = climb.needs
        if needs not in self._answers:
            self._answers[needs] = self._look_up(needs)
        return self._answers[needs]

    def too_large(self, floor: Floor) -> Shortage | None:
        """Why it would not fit even if all nodes were empty and well, bound pods of its own included."""
        if floor.whole not in self._too_large:
            if self._empty is None:
                self._empty = emptied(self._capacity)
            self._too_large[floor.whole] = self._empty.fits(floor.whole)
        return self._too_large[floor.whole]

    def _look_up(self, needs: Needs) -> Why | None:
        if self._blocking is None:
            self._blocking = self._find_blocking()
        board = self._board()
        for wanted, party in self._blocking.items():
            if board.contended(needs, wanted):
                return Reason.YIELDS_TO_FLOOR, (party.name,)
        return None

    def _find_blocking(self) -> dict[Needs, Party]:
        """The first of those that ask for the same. Not those that no room would help, or that failed too often."""
        found: dict[Needs, Party] = {}
        for party in self._waiting:
            floor = party.floor
            if floor is None or floor.lacking or floor.needs in found or is_muted(party.memory):
                continue
            if self._board().fits(floor.needs) is None and not self.too_large(floor):
                found[floor.needs] = party
        return found

    def _board(self) -> Board:
        if self._soon is None:
            self._soon = Board(self._capacity, due_back=True)
        return self._soon
