"""The promises of a board, and moving them: what was promised some room may get other room that is as good.

Moving is bounded in effort for the whole life of a board; when that is spent, promises stay where they are. Must not
know what a need means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from itertools import islice

from scaler.decide.nodes import PodRequests
from scaler.decide.room.pools import Amounts, Ask, Pool
from scaler.decide.room.proofs import all_alike, may_help, one_sort_of_seat, reach, room_to_spare, takes_too_much
from scaler.decide.room.seating import Search, Seat, best, greedily, leave, sit, sit_again

EFFORT = 5_000
"""What may be spent on moving promises in the life of one board: some tens of milliseconds at the most."""
SEARCH = 20_000
"""Steps of one search, times the pods in it: the more pods, the dearer is a step."""
MOST_TRIED = 16
"""So many promised pods that ask for the same are looked at before the next sort is."""
LANDINGS = 64
"""So many different ways to bind pods are looked at."""


class Placement:
    """A promise of room for all of `needs`. Compared by identity; good until it is given back."""

    __slots__ = ("needs", "seats")

    def __init__(self, needs: PodRequests, seats: list[Seat]) -> None:
        self.needs = needs
        self.seats = seats


class Promises:
    """All placements that are good, in the order in which they were made."""

    def __init__(self) -> None:
        self._all: dict[Placement, None] = {}
        self._effort = EFFORT

    @property
    def tired(self) -> bool:
        """Nothing will be moved any more."""
        return self._effort <= 0

    def add(self, placement: Placement) -> None:
        """Its pods are seated already."""
        self._all[placement] = None
        _enter(placement.seats)

    def remove(self, placement: Placement) -> bool:
        """Its pods leave their seats; False for one that is not good any more."""
        if placement not in self._all:
            return False
        del self._all[placement]
        _forget(placement.seats)
        leave(placement.seats)
        return True

    def move_for(self, pods: Sequence[Ask]) -> tuple[list[Seat] | None, bool]:
        """Seats for these pods where other promises make way, or None and nothing is moved; and whether that is sure,
        or was given up."""
        pools = reach(pods)
        if not may_help(pods, pools):
            return None, True
        seats = _one_by_one(pods)
        if seats is not None or self.tired:
            return seats, seats is not None
        moved = self._in(pools)
        before = _lift(moved)
        found, sure = self._seated([*pods, *_asks(before)])
        if found is None:
            _put_back(moved, before)
            return None, sure
        own = _dealt(found, [list(pods), *([seat.ask for seat in seats_of] for seats_of in before)])
        for placement, dealt in zip(moved, own[1:], strict=True):
            placement.seats = dealt
            _enter(dealt)
        return own[0], True

    def disturbed_by(self, pods: Sequence[Ask]) -> bool:
        """Whether these promised pods can be bound so that what else is promised cannot be kept."""
        if room_to_spare(pods) or one_sort_of_seat(pods):
            return False
        pools = reach(pods)
        if all_alike(pools):
            return False
        if takes_too_much(pods, pools):
            return True
        if self.tired:
            return True
        moved = self._in(pools)
        before = _lift(moved)
        rest = _without(_asks(before), pods)
        disturbed = self._disturbed(pods, rest)
        _put_back(moved, before)
        return disturbed

    def _disturbed(self, pods: Sequence[Ask], rest: list[Ask]) -> bool:
        """Try all ways to bind the pods; what could not be tried counts as disturbing."""
        landings = Search(pods, LANDINGS * (len(pods) + 1))
        for _ in landings:
            seats, _ = self._seated(rest)
            if seats is None:
                landings.stop()
                return True
            leave(seats)
        return not landings.steps

    def _in(self, pools: set[Pool]) -> list[Placement]:
        return [placement for placement in self._all if any(seat.node.pool in pools for seat in placement.seats)]

    def _seated(self, pods: list[Ask]) -> tuple[list[Seat] | None, bool]:
        """All of these, however it can be done with the effort that is left; and whether None is sure."""
        pods.sort(key=lambda ask: ask.restriction)
        self._effort -= 1 + len(pods) ** 2 // 32
        seats = greedily(pods)
        if seats is not None or self.tired:
            return seats, seats is not None
        steps = min(self._effort, SEARCH // len(pods))
        search = Search(pods, steps)
        found = search.first()
        self._effort -= steps - search.steps
        return found, search.steps > 0


def _one_by_one(pods: Sequence[Ask]) -> list[Seat] | None:
    """Each pod on a free seat, or on one that a single promised pod can leave for another."""
    seats: list[Seat] = []
    for ask in pods:
        found = best(ask) or _make_way(ask)
        if found is None:
            leave(seats)
            return None
        seats.append(sit(ask, *found))
    return seats


def _make_way(ask: Ask) -> tuple[Amounts, Pool] | None:
    """Move one promised pod so that this one can sit: where it can now; None when no single move is enough."""
    for pool in ask.pools:
        for other, seats in pool.occupants.items():
            free_seats = _two_best(other)
            for seat in islice(seats, MOST_TRIED if free_seats else 0):
                left = other.back_to(seat.node.free)
                elsewhere = next((one for one in free_seats if one != (seat.node.free, seat.node.pool)), None)
                if elsewhere is not None and ask.times(left):
                    _move(seat, *elsewhere)
                    return left, pool
    return None


def _two_best(ask: Ask) -> list[tuple[Amounts, Pool]]:
    """The two seats that would be chosen first: one of them is not on the node where the pod sits."""
    options = ((free, -pool.count(free), pool.number, pool) for pool in ask.pools for free in pool.fitting(ask))
    return [(free, pool) for free, _, _, pool in nsmallest(2, options)]


def _move(seat: Seat, free: Amounts, pool: Pool) -> None:
    _forget([seat])
    node = pool.take(free, seat.ask)
    seat.node.pool.give_back(seat.node, seat.ask)
    seat.node, seat.before = node, free
    _enter([seat])


def _lift(placements: Sequence[Placement]) -> list[list[Seat]]:
    """Take all of these pods off their seats; the seats they had."""
    before = [list(placement.seats) for placement in placements]
    for placement in reversed(placements):
        _forget(placement.seats)
        leave(placement.seats)
    return before


def _put_back(placements: Sequence[Placement], before: Sequence[list[Seat]]) -> None:
    for placement, seats in zip(placements, before, strict=True):
        sit_again(seats)
        _enter(seats)
        placement.seats = seats


def _dealt(seats: Iterable[Seat], parts: Iterable[list[Ask]]) -> list[list[Seat]]:
    """Each part gets seats of the pods that it consists of."""
    stock: dict[Ask, list[Seat]] = {}
    for seat in seats:
        stock.setdefault(seat.ask, []).append(seat)
    return [[stock[ask].pop() for ask in part] for part in parts]


def _asks(seats: Iterable[Iterable[Seat]]) -> list[Ask]:
    return [seat.ask for part in seats for seat in part]


def _without(all_pods: list[Ask], pods: Iterable[Ask]) -> list[Ask]:
    rest = list(all_pods)
    for ask in pods:
        if ask in rest:
            rest.remove(ask)
    return rest


def _enter(seats: Iterable[Seat]) -> None:
    for seat in seats:
        seat.node.pool.occupants.setdefault(seat.ask, {})[seat] = None


def _forget(seats: Iterable[Seat]) -> None:
    for seat in seats:
        occupants = seat.node.pool.occupants
        del occupants[seat.ask][seat]
        if not occupants[seat.ask]:
            del occupants[seat.ask]
