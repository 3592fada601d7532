"""Where pods would fit: a working copy of the nodes' room on which promises are made and given back.

A `Placement` promises room for all of its pods or does not exist. It promises room, not particular nodes: where
something else fits only so, the board moves what it has promised, so that "does not fit" is said only when no
placement does it. The same calls in the same order give the same answers. Must not know of services, ratios or
instances, and must not raise on any need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, combinations
from operator import add

import msgspec

from scaler.decide.nodes import (
    PODS,
    Capacity,
    NodeClass,
    PodRequest,
    PodRequests,
    Room,
    Taint,
    Where,
    accepts,
    tolerates,
)
from scaler.decide.room.pools import Amounts, Ask, Pool
from scaler.decide.room.promises import Placement, Promises
from scaler.decide.room.seating import Search, Seat, greedily
from scaler.decide.room.shortage import Shortage

MOST_PODS = 10_000
"""More pods than this are not placed one by one: they count as finding no place."""
MOST_AT_ONCE = 4
"""Of more pods than this it is worth while to see first whether there are seats enough at all."""
MOST_GROUPS = 8
"""So many sets of needs with candidates of their own are summed up in every combination."""
STEPS = 2_000
"""So many steps may be tried for one placement."""


class Board:
    """The nodes' room in one decision. With `due_back`, what comes back by itself counts as free already.

    The capacity must have been made for every need that is asked about.
    """

    def __init__(self, capacity: Capacity, *, due_back: bool = False) -> None:
        self._capacity = capacity
        self._due_back = due_back
        self._index = {name: index for index, name in enumerate(capacity.resources)}
        self._pools: dict[tuple[NodeClass, tuple[Taint, ...]], Pool] = {}
        self._asks: dict[PodRequest, Ask] = {}
        self._promises = Promises()
        self._kinds = frozenset([room.kind for room in capacity.rooms])
        self._candidates: dict[Where, frozenset[NodeClass]] = {}
        self._short_of: dict[PodRequests, Shortage] = {}
        """What did not fit stays so as long as nothing is given back."""
        for room in capacity.rooms:
            if room.schedulable or due_back:
                self._add(room)
        for pool in self._pools.values():
            pool.sort()

    def place(self, needs: PodRequests) -> Placement | Shortage:
        """Promise room for all of these pods; or for none, and say why."""
        known = self._short_of.get(needs)
        if known is not None:
            return known
        pods = self._pods(needs)
        seats = (greedily(pods) if len(pods) <= MOST_AT_ONCE else None) or self._with_effort(needs, pods)
        if isinstance(seats, Shortage):
            self._short_of[needs] = seats
            return seats
        placement = Placement(needs, seats)
        self._promises.add(placement)
        return placement

    def give_back(self, placement: Placement) -> None:
        """The promise is taken back and its room is free again. A second time changes nothing."""
        if self._promises.remove(placement):
            self._short_of = {}

    def fits(self, needs: PodRequests) -> Shortage | None:
        """Why these pods do not fit beside what is promised, None when they do. Promises nothing."""
        short_of = self._short_of
        found = self.place(needs)
        if isinstance(found, Shortage):
            return found
        self.give_back(found)
        self._short_of = short_of
        return None

    def candidates(self, needs: PodRequests) -> frozenset[NodeClass]:
        """The kinds of nodes that some of these pods may ever run on, whatever is free there: a static fact."""
        return frozenset[NodeClass]().union(*[self._accepting(need.where) for need, _ in needs])

    def _accepting(self, where: Where) -> frozenset[NodeClass]:
        known = self._candidates.get(where)
        if known is None:
            known = self._candidates[where] = frozenset([kind for kind in self._kinds if accepts(where, kind)])
        return known

    def contended(self, needs: PodRequests, others: PodRequests) -> bool:
        """Whether some node has room, beside what is promised, for one of these pods and for one of the others."""
        return any(_meet(self._ask(one), self._ask(other)) for one, _ in needs for other, _ in others)

    def sums_suffice(self, needs: PodRequests) -> bool:
        """Whether, for every set of kinds, the sum of what is free and not promised would do for these pods."""
        by_pools: dict[tuple[Pool, ...], Counter[int]] = {}
        for need, count in needs:
            ask = self._ask(need)
            asked = by_pools.setdefault(ask.pools, Counter())
            asked.update({index: amount * count for index, amount in ask.amounts})
        groups = list(by_pools.items())[:MOST_GROUPS]
        chosen = (combinations(groups, size) for size in range(1, len(groups) + 1))
        return all(map(_sum_suffices, chain.from_iterable(chosen)))

    def disturbs(self, needs: PodRequests) -> bool:
        """Whether these pods, which are promised room, could be bound so that the other promises could not be kept:
        a scheduler does not know of promises and may choose any node. True when unsure."""
        return self._promises.disturbed_by(self._pods(needs))

    def _add(self, room: Room) -> None:
        key = (room.kind, () if self._due_back else room.passing)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(len(self._pools))
        pool.add(_soon(room) if self._due_back else room.free, room.allocatable, room.count)

    def _ask(self, need: PodRequest) -> Ask:
        known = self._asks.get(need)
        if known is None:
            known = self._asks[need] = self._new_ask(need)
        return known

    def _new_ask(self, need: PodRequest) -> Ask:
        """A resource that no node was counted for has no pools."""
        amounts = tuple(sorted((self._index.get(name, -1), amount) for name, amount in need.requests if amount > 0))
        pools: tuple[Pool, ...] = ()
        if amounts and amounts[0][0] >= 0:
            where, kinds = need.where, self._accepting(need.where)
            pools = tuple([
                pool for (kind, passing), pool in self._pools.items() if kind in kinds and tolerates(where, passing)
            ])  # fmt: skip
        first = (amounts[0][1],) if amounts and amounts[0][0] == 0 else ()
        restriction = (len(pools), tuple((index, -amount) for index, amount in amounts), need)
        return Ask(need, amounts, pools, first, restriction)

    def _pods(self, needs: PodRequests) -> list[Ask]:
        """Each pod, the most restricted first."""
        asks = [(self._ask(need), count) for need, count in needs if count > 0]
        if len(asks) > 1:
            asks.sort(key=lambda pair: pair[0].restriction)
        return [ask for ask, count in asks for _ in range(min(count, MOST_PODS + 1))]

    def _with_effort(self, needs: PodRequests, pods: list[Ask]) -> list[Seat] | Shortage:
        """Seats that are not found in the simplest way; or why there are none."""
        if not pods:
            return []
        short = self._short(needs)
        if len(pods) > MOST_PODS:
            return short or msgspec.structs.replace(_together(needs), undecided=True)
        seats, tried = self._searched(pods) if short is None else (None, True)
        if seats is not None:
            return seats
        seats, sure = self._promises.move_for(pods)
        if seats is not None:
            return seats
        return msgspec.structs.replace(short or _together(needs), undecided=not (tried and sure))

    @staticmethod
    def _searched(pods: list[Ask]) -> tuple[list[Seat] | None, bool]:
        """Seats beside what is promised; and whether None is sure."""
        seats = greedily(pods)
        if seats is not None:
            return seats, True
        search = Search(pods, STEPS)
        return search.first(), search.steps > 0

    def _short(self, needs: PodRequests) -> Shortage | None:
        """The first need that finds too few seats even alone."""
        for need, count in needs:
            ask = self._ask(need)
            there = sum(pool.seats(ask) for pool in ask.pools)
            if there < count:
                return Shortage(need, count, there, self._scarcest(ask), shared=_shared(ask))
        return None

    def _scarcest(self, ask: Ask) -> str:
        """The resource that fewest such pods find enough of, were it all that they ask for."""
        unknown = [name for name, amount in ask.need.requests if amount > 0 and name not in self._index]
        if unknown or not ask.amounts:
            return min(unknown, default=PODS)
        fewest, _ = min(ask.amounts, key=lambda asked: sum(pool.portions(*asked) for pool in ask.pools))
        return self._capacity.resources[fewest]


def emptied(capacity: Capacity) -> Board:
    """The board of the same nodes, all of them empty and well."""
    counts: Counter[tuple[NodeClass, Amounts]] = Counter()
    for room in capacity.rooms:
        counts[room.kind, room.allocatable] += room.count
    rooms = (Room(kind, whole, whole, count=count) for (kind, whole), count in counts.items())
    return Board(Capacity(capacity.resources, tuple(rooms)))


def _soon(room: Room) -> Amounts:
    back = room.due_back or (0,) * len(room.free)
    return tuple(map(add, room.free, back)) if room.schedulable else back


def _meet(one: Ask, other: Ask) -> bool:
    """Some node has room for a pod of either."""
    return any(pool.meets(one, other) for pool in one.pools if pool in other.pools)


def _sum_suffices(groups: Sequence[tuple[tuple[Pool, ...], Counter[int]]]) -> bool:
    """All that these groups ask for is there in the pools that take any of them."""
    pools = set(chain.from_iterable(pools for pools, _ in groups))
    asked = sum((asked for _, asked in groups), Counter[int]())
    return all(sum(pool.sum(index) for pool in pools) >= amount for index, amount in asked.items())


def _shared(ask: Ask) -> bool:
    """Some node, empty, would hold two such pods."""
    return any(ask.times(allocatable) > 1 for pool in ask.pools for allocatable in pool.empty)


def _together(needs: PodRequests) -> Shortage:
    need, count = needs[0]
    return Shortage(need, count, count, need.requests[0][0], together=True)
