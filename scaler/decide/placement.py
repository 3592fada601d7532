"""Trial placement: do these pods fit, beside everything that is reserved so far?

Room is reserved, not particular nodes: where pods fit only if reserved ones move, these are moved. "Does not fit" is
said only where no placement does it, or with `undecided` where the search was given up. The same calls in the same
order give the same answers. Must not know of services, ratios or instances, and must not raise on any request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, combinations

import msgspec

from scaler.decide.asks import Ask
from scaler.decide.nodes import PODS, Nodes, PodRequest, PodRequests, Room
from scaler.decide.pools import NodePools, Pools, times
from scaler.decide.seating import Seat, Seating
from scaler.decide.shortage import Shortage
from scaler.decide.spoiling import spoils

MOST_GROUPS = 8
"""So many sets of candidate nodes are summed up in every combination."""


class PlacementCache:
    """Saves sorting all nodes again for the next `Placement`. The answers are the same without it."""

    def __init__(self) -> None:
        self._pools = NodePools(Nodes())

    def pools(self, nodes: Nodes) -> NodePools:
        self._pools = self._pools.after(nodes)
        return self._pools


class Reservation(msgspec.Struct, eq=False):
    """Room for all of `pods`, until it is cancelled. Compared by identity."""

    pods: PodRequests
    room: Room
    seats: list[Seat]
    _seating: Seating

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it is placed on now."""
        return self._seating.names([seat.node for seat in self.seats])

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Those of them on which it needs room that is not free now."""
        return self._seating.names([seat.node for seat in self.seats if not self._seating.is_free_for(seat)])


class Placement:
    """The nodes' room in one decision. `due_back`: so many seconds late something may be and still counts as to come.

    The nodes must tell apart every request that is asked about.
    """

    def __init__(
        self, nodes: Nodes, *, now: float = 0.0, due_back: float = 0.0, cache: PlacementCache | None = None
    ) -> None:
        self._seating = Seating(cache.pools(nodes) if cache else NodePools(nodes), now=now, due_back=due_back)
        self._unfit: dict[tuple[PodRequests, Room], Shortage] = {}
        """What does not fit stays so until something is cancelled or granted."""

    def fits(self, pods: PodRequests, room: Room = Room.FREE) -> Shortage | None:
        """Why these pods do not fit beside what is reserved; None when they do. Reserves nothing."""
        found = self._try(pods, room)
        self._seating.undo()
        return found if isinstance(found, Shortage) else None

    def reserve(self, pods: PodRequests, room: Room = Room.FREE) -> Reservation | Shortage:
        """Reserve room for all of these pods; or for none, and say why."""
        found = self._try(pods, room)
        self._seating.keep()
        return found if isinstance(found, Shortage) else Reservation(pods, room, found, self._seating)

    def cancel(self, reservation: Reservation) -> None:
        """Its room is free again. A second time changes nothing."""
        for seat in reservation.seats:
            self._seating.put(seat, -1)
        reservation.seats = []
        self._unfit.clear()

    def grant(self, seats: Iterable[tuple[str, PodRequest]], sign: int = 1) -> None:
        """The room of these pods on these nodes counts as `FREED`; on nodes that are not schedulable it does not."""
        self._seating.grant(seats, sign)
        self._unfit.clear()

    def withdraw(self, seats: Iterable[tuple[str, PodRequest]]) -> None:
        """It does not count any more. Nothing may be reserved on it."""
        self.grant(seats, -1)

    def breadth(self, pods: PodRequests) -> int:
        """The number of nodes with free room for the most restricted of these pods, whatever is reserved there."""
        asks = [self._seating.ask(request) for request, _ in pods]
        return min([len(self._seating.pools.fitting(ask.pools, ask.asked).entries) for ask in asks], default=0)

    def sums_suffice(self, pods: PodRequests) -> bool:
        """Whether, for every set of candidate nodes, the sum of what is free and not reserved would do."""
        by_pools: dict[Pools, Counter[int]] = {}
        for request, count in pods:
            ask = self._seating.ask(request)
            by_pools.setdefault(ask.pools, Counter()).update({at: amount * count for at, amount in ask.asked})
        groups = list(by_pools.items())[:MOST_GROUPS]
        chosen = chain.from_iterable(combinations(groups, size) for size in range(1, len(groups) + 1))
        return all(map(self._sum_suffices, chosen))

    def spoils(
        self, pods: PodRequests, in_hands: Iterable[Iterable[tuple[PodRequest, int]]], *, own: bool = True
    ) -> bool:
        """Whether a scheduler that knows of no reservations may put some of these pods, or of those in its hands,
        where a reservation within reach of these pods cannot be kept any more; that of the pods themselves counts if
        `own`. All of them are reserved, at the least room of their kind. True when unsure."""
        return spoils(self._seating, self._seating.counted(pods), chain(pods, *in_hands), own=own)

    def _try(self, pods: PodRequests, room: Room) -> list[Seat] | Shortage:
        """Seats for all of these pods, or why there are none; then nothing has moved."""
        known = self._unfit.get((pods, room))
        if known is not None:
            return known
        seats, sure = self._seating.find(self._seating.counted(pods), room)
        if seats is None:
            shortage = self._unfit[pods, room] = self._shortage(pods, room, undecided=not sure)
            return shortage
        return seats

    # Words and sums

    def _shortage(self, pods: PodRequests, room: Room, *, undecided: bool) -> Shortage:
        """The first request that finds too few places even alone; else they do not fit together."""
        some = [(request, count) for request, count in pods if count > 0]
        for request, count in some:
            ask = self._seating.ask(request)
            there = self._there(ask, room, count)
            if there < count:
                resource = self._scarcest(request, room, count)
                return Shortage(request, count, there, resource, shared=self._is_shared(ask), undecided=undecided)
        request, count = some[0]
        resource = next((name for name, amount in request.requests if amount > 0), PODS)
        return Shortage(request, count, count, resource, together=True, undecided=undecided)

    def _there(self, ask: Ask, room: Room, most: int) -> int:
        """How many such pods find room beside what is reserved; counted up to so many."""
        there = 0
        for entry in self._seating.order(ask, room):
            if there >= most:
                break
            if self._seating.is_valid(entry, room):
                there += times(ask.asked, entry[0])
        return there

    def _scarcest(self, request: PodRequest, room: Room, count: int) -> str:
        """The first resource that too few such pods find enough of, were it all that they ask for."""
        asked, pools = self._seating.ask(request).asked, self._seating.pools.pools_for(request.where)
        unknown = [name for name, amount in request.requests if amount > 0 and name not in self._seating.pools.index]
        if unknown or not asked:
            return min(unknown, default=PODS)
        short = (
            index
            for index, amount in asked
            if self._there(self._seating.ask_for(((index, amount),), pools), room, count) < count
        )
        return self._seating.pools.resources[next(short, asked[0][0])]

    def _is_shared(self, ask: Ask) -> bool:
        """Whether some node, empty, would hold two such pods."""
        return any(pool in ask.pools and times(ask.asked, whole) > 1 for pool, whole in self._seating.pools.empty)

    def _sum_suffices(self, groups: Sequence[tuple[Pools, Counter[int]]]) -> bool:
        """All that these groups ask for is there on the nodes that take any of them."""
        pools = Pools().union(*[pools for pools, _ in groups])
        asked = sum((asked for _, asked in groups), Counter[int]())
        states, entries = self._seating.states, self._seating.pools.fitting(pools, ()).entries
        rest = [states[index].room[Room.FREE] if index in states else free for free, index in entries]
        return all(sum([free[at] for free in rest if free[at] > 0]) >= amount for at, amount in asked.items())
