"""The promises of a board, and moving them: what was promised some room may get other room that is as good.

Moving is bounded in effort for the whole life of a board; when that is spent, promises stay where they are. Must not
know what a need means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice

from scaler.plan.capacity import Needs
from scaler.plan.pools import Amounts, Ask, Pool
from scaler.plan.seating import Search, Seat, best, greedily, leave, sit, sit_again

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

    def __init__(self, needs: Needs, seats: list[Seat]) -> None:
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

    def move_for(self, pods: Sequence[Ask]) -> list[Seat] | None:
        """Seats for these pods where other promises make way; None, and nothing is moved, when that is no help."""
        pools = _reach(pods)
        if not _may_help(pods, pools):
            return None
        seats = _one_by_one(pods)
        if seats is not None or self.tired:
            return seats
        moved = self._in(pools)
        before = _lift(moved)
        seats = self._seated([*pods, *_asks(before)])
        if seats is None:
            _put_back(moved, before)
            return None
        own = _dealt(seats, [list(pods), *([seat.ask for seat in seats_of] for seats_of in before)])
        for placement, dealt in zip(moved, own[1:], strict=True):
            placement.seats = dealt
            _enter(dealt)
        return own[0]

    def disturbed_by(self, pods: Sequence[Ask]) -> bool:
        """Whether these promised pods can be bound so that what else is promised cannot be kept."""
        if _room_to_spare(pods) or _one_sort_of_seat(pods):
            return False
        pools = _reach(pods)
        if _all_alike(pools):
            return False
        if _takes_too_much(pods, pools):
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
            seats = self._seated(rest)
            if seats is None:
                landings.stop()
                return True
            leave(seats)
        return not landings.steps

    def _in(self, pools: set[Pool]) -> list[Placement]:
        return [placement for placement in self._all if any(seat.node.pool in pools for seat in placement.seats)]

    def _seated(self, pods: list[Ask]) -> list[Seat] | None:
        """All of these, however it can be done with the effort that is left."""
        pods.sort(key=lambda ask: ask.restriction)
        self._effort -= 1 + len(pods) ** 2 // 32
        seats = greedily(pods)
        if seats is None and not self.tired:
            steps = min(self._effort, SEARCH // len(pods))
            search = Search(pods, steps)
            seats = search.first()
            self._effort -= steps - search.steps
        return seats


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
            elsewhere = best(other)
            if elsewhere is None:
                continue
            for seat in islice(seats, MOST_TRIED):
                left = other.back_to(seat.node.free)
                if ask.times(left) and elsewhere != (seat.node.free, seat.node.pool):
                    _move(seat, *elsewhere)
                    return left, pool
    return None


def _move(seat: Seat, free: Amounts, pool: Pool) -> None:
    _forget([seat])
    node = pool.take(free, seat.ask)
    seat.node.pool.give_back(seat.node, seat.ask)
    seat.node, seat.before = node, free
    _enter([seat])


def _reach(pods: Iterable[Ask]) -> set[Pool]:
    """The pools of these pods, those of the pods that are promised seats there, and so on."""
    reached: set[Pool] = set()
    waiting = [pool for ask in pods for pool in ask.pools]
    while waiting:
        pool = waiting.pop()
        if pool not in reached:
            reached.add(pool)
            waiting.extend(other for ask in pool.occupants for other in ask.pools)
    return reached


def _may_help(pods: Sequence[Ask], pools: set[Pool]) -> bool:
    """False when moving is sure to be in vain: of some resource too little is left in all that can be reached, or
    there are too few seats for so much of it at once."""
    counts = Counter(pods)
    return all(
        _slots_suffice(*ask.amounts[0], counts, set(ask.pools))
        and _slots_suffice(*ask.amounts[0], counts, pools)
        and _sum_suffices(ask.amounts[0][0], counts, pools)
        for ask in counts
        if ask.amounts
    )


def _sum_suffices(index: int, counts: Mapping[Ask, int], pools: Iterable[Pool]) -> bool:
    asked = sum(ask.amount_of(index) * count for ask, count in counts.items())
    return asked <= sum(pool.sum(index) for pool in pools)


def _slots_suffice(index: int, amount: int, counts: Mapping[Ask, int], pools: set[Pool]) -> bool:
    """All pods that ask for at least so much and can sit nowhere else find a seat, were they alone."""
    promised = ((ask, len(seats)) for pool in pools for ask, seats in pool.occupants.items())
    asking = sum(
        count
        for ask, count in chain(counts.items(), promised)
        if ask.amount_of(index) >= amount and pools.issuperset(ask.pools)
    )
    return asking <= sum(pool.slots(index, amount) for pool in pools)


def _all_alike(pools: set[Pool]) -> bool:
    """Every promised pod may sit wherever the others may and asks for as much: whichever seat one of them gets, the
    others lose the same. On nodes of one kind it is enough that they ask for as much of what is scarcest."""
    asks = {ask for pool in pools for ask in pool.occupants}
    return len({(ask.pools, ask.amounts[: 1 if len(pools) == 1 else None]) for ask in asks}) <= 1


def _room_to_spare(pods: Sequence[Ask]) -> bool:
    """Of every sort of node that they could be bound to, enough are left that nothing was promised on."""
    for ask in set(pods):
        for pool in ask.pools:
            if any(ask.times(free) and pool.count(free) < len(pods) for free in pool.whole):
                return False
    return True


def _one_sort_of_seat(pods: Sequence[Ask]) -> bool:
    """They can only be bound to nodes of one sort, each to another node: which of them it is makes no difference."""
    sorts = {(pool, free) for ask in set(pods) for pool in ask.pools for free in pool.whole if ask.times(free)}
    indices = {ask.amounts[0][0] for ask in pods}
    if len(sorts) != 1 or len(indices) != 1:
        return False
    index, (_, free) = indices.pop(), sorts.pop()
    return all(2 * ask.amounts[0][1] > free[index] for ask in pods)


def _takes_too_much(pods: Sequence[Ask], pools: set[Pool]) -> bool:
    """The pods can be bound so that for some other promises there are too few seats, whatever their order."""
    counts = Counter(ask for pool in pools for ask, seats in pool.occupants.items() for _ in seats)
    counts.subtract(pods)
    asked = {ask.amounts[0] for ask, count in counts.items() if count > 0}
    return any(
        sum(count for ask, count in counts.items() if ask.amount_of(index) >= amount)
        > sum(pool.slots(index, amount) for pool in pools) - _most_lost(pods, index, amount)
        for index, amount in asked
    )


def _most_lost(pods: Sequence[Ask], index: int, amount: int) -> int:
    """Of so large seats, how many the pods take when each is bound to the node where it takes most."""
    lost, used = 0, Counter[tuple[Pool, Amounts]]()
    for ask in pods:
        own = ask.amount_of(index)
        options = (
            (free[index] // amount - (free[index] - own) // amount, pool.number, free, pool)
            for pool in ask.pools
            for free, count in pool.whole.items()
            if ask.times(free) and count > used[pool, free]
        )
        taken = max(options, key=lambda option: option[:3], default=None)
        if taken is not None:
            lost += taken[0]
            used[taken[3], taken[2]] += 1
    return lost


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
