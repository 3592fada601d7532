"""Trial placement: do these pods fit, beside everything that is reserved so far?

Room is reserved, not particular nodes: where pods fit only if reserved ones move, these are moved. "Does not fit" is
said only where no placement does it, or with `undecided` where the search was given up. The same calls in the same
order give the same answers. Must not know of services, ratios or instances, and must not raise on any request.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import chain, combinations, compress
from itertools import count as numbered
from operator import attrgetter, is_not
from typing import NamedTuple

import msgspec

from scaler.decide.nodes import (
    PODS,
    Amounts,
    Levels,
    NodeClass,
    Nodes,
    PodRequest,
    PodRequests,
    Room,
    Taint,
    Where,
    accepts,
    tolerates,
)
from scaler.decide.shortage import Shortage

MOST_PODS = 10_000
"""More pods than this are not placed one by one: they count as finding no place."""
STEPS = 2_000
"""So many ways to move pods are tried in one call."""
EFFORT = 1_000
"""So many in vain in the life of one `Placement`."""
MOST_AT_ONCE = 8
"""Of more pods than this it is worth while to see first whether there are places enough at all."""
SEARCHED = 24
"""Of so many pods at most every placement is tried; of more, only the one that takes the most restricted first."""
MOST_KEPT = 1_000
"""When a cache holds sorted nodes for more different pods, it forgets them."""
MOST_GROUPS = 8
"""So many sets of candidate nodes are summed up in every combination."""

Pools = frozenset[int]
Asked = tuple[tuple[int, int], ...]
"""Amounts of one pod: (index of the resource, positive amount)."""
Entry = tuple[Amounts, int]
"""Free amounts of a node, and its index."""
_lasting = attrgetter("name", "node_class", "passing", "allocatable")
_rank = attrgetter("rank")
_restriction = attrgetter("ask.rank", "room", "number")


def times(asked: Asked, free: Amounts) -> int:
    """How many such pods so much room holds."""
    least = -1
    for index, amount in asked:
        number = free[index] // amount
        if number <= 0:
            return 0
        if number < least or least < 0:
            least = number
    return max(least, 0)


def _plus(amounts: Amounts, asked: Asked, sign: int) -> Amounts:
    changed = list(amounts)
    for index, amount in asked:
        changed[index] += sign * amount
    return tuple(changed)


class _Slack(NamedTuple):
    """What pods must take to destroy places for another kind of pod."""

    most: float = math.inf
    """So many places are on a node at the most."""
    least: Mapping[int, float] = {}
    """By resource: what must be taken for each destroyed place at the least, on average."""


def _slack(there: int, amount: int, number: int) -> float:
    """The first of so many places costs what is left over as well, each further one such an amount."""
    over = there - number * amount
    return min(over, (over + (number - 1) * amount) / number)


class _Fitting(NamedTuple):
    """The schedulable nodes of some pools that have room for one pod, sorted; and how many such pods they hold."""

    entries: list[Entry]
    places: int

    def after(self, asked: Asked, gone: Iterable[Entry], come: Iterable[Entry]) -> _Fitting:
        """The same once some nodes of these pools have changed."""
        entries, places = self.entries.copy(), self.places
        for entry in gone:
            if not asked or times(asked, entry[0]):
                places -= times(asked, entry[0])
                del entries[bisect_left(entries, entry)]
        for entry in come:
            if not asked or times(asked, entry[0]):
                places += times(asked, entry[0])
                insort(entries, entry)
        return _Fitting(entries, places)


class _Facts:
    """What follows from the nodes alone. A pool: the nodes of one class that have the same passing taints."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.resources = nodes.nodes, nodes.resources
        self.index = {name: index for index, name in enumerate(nodes.resources)}
        self.pools: dict[tuple[NodeClass, tuple[Taint, ...]], int] = {}
        self.pool_of = [self.pools.setdefault((node.node_class, node.passing), len(self.pools)) for node in self.nodes]
        self.size = Counter(self.pool_of)
        self.empty = {(pool, node.allocatable) for pool, node in zip(self.pool_of, self.nodes, strict=True)}
        free = sorted([(node.free, index) for index, node in enumerate(self.nodes) if node.schedulable])
        self._pools_for: dict[Where, Pools] = {}
        self._all = Pools(self.size)
        self._fitting = {(self._all, Asked()): _Fitting(free, 0)}
        """As far as it was asked for."""

    def after(self, nodes: Nodes) -> _Facts:
        """The facts of these nodes: as of those, where they are the same objects."""
        if nodes.nodes is self.nodes and nodes.resources == self.resources:
            return self
        old, now = self.nodes, nodes.nodes
        changed = list(compress(range(len(old)), map(is_not, old, now)))
        alike = nodes.resources == self.resources and len(now) == len(old) and len(changed) <= len(old) // 8
        if not alike or any(_lasting(old[index]) != _lasting(now[index]) for index in changed):
            return _Facts(nodes)
        gone = [(old[index].free, index) for index in changed if old[index].schedulable]
        come = [(now[index].free, index) for index in changed if now[index].schedulable]
        new = copy(self)
        new.nodes = now
        kept = self._fitting if len(self._fitting) <= MOST_KEPT else {(self._all, ()): self.fitting(self._all, ())}
        new._fitting = {
            (pools, asked): fitting.after(asked, self._within(pools, gone), self._within(pools, come))
            for (pools, asked), fitting in kept.items()
        }
        return new

    def _within(self, pools: Pools, entries: Iterable[Entry]) -> list[Entry]:
        pool_of = self.pool_of
        return [entry for entry in entries if pool_of[entry[1]] in pools]

    def pools_for(self, where: Where) -> Pools:
        if where not in self._pools_for:
            self._pools_for[where] = frozenset([
                number for (node_class, passing), number in self.pools.items()
                if accepts(where, node_class) and tolerates(where, passing)
            ])  # fmt: skip
        return self._pools_for[where]

    def fitting(self, pools: Pools, asked: Asked) -> _Fitting:
        known = self._fitting.get((pools, asked))
        if known is None and not asked:
            known = self._fitting[pools, asked] = _Fitting(self._within(pools, self.fitting(self._all, ()).entries), 0)
        elif known is None:
            entries = self.fitting(pools, ()).entries
            if asked[0][0] == 0:
                entries = entries[bisect_left(entries, ((asked[0][1],), -1)) :]
            for at, amount in asked:
                entries = [entry for entry in entries if entry[0][at] >= amount]
            places = sum([times(asked, free) for free, _ in entries])
            known = self._fitting[pools, asked] = _Fitting(entries, places)
        return known


class PlacementCache:
    """Saves sorting all nodes again for the next `Placement`. The answers are the same without it."""

    def __init__(self) -> None:
        self._facts = _Facts(Nodes())

    def facts(self, nodes: Nodes) -> _Facts:
        self._facts = self._facts.after(nodes)
        return self._facts


class _Ask:
    """Pods with the same candidate nodes and amounts, at any room."""

    def __init__(self, asked: Asked, pools: Pools, size: int) -> None:
        self.asked, self.pools, self.amounts = asked, pools, dict(asked)
        self.rank = (size, tuple((index, -amount) for index, amount in asked), tuple(sorted(pools)))
        """Sorts the most restricted first: of few nodes, then the largest."""
        self.orders: dict[Room, list[Entry]] = {}
        """Nodes with room for it now, sorted. Some entries may be out of date."""
        self.read: dict[Room, int] = {}
        """So much of the log is considered in `orders`."""
        self.seated = [0, 0, 0, 0]
        """Reserved pods, by room."""
        self.places: dict[Room, int] = {}
        self.slack: dict[Room, _Slack] = {}
        self._losses: dict[_Ask, float] = {}
        self._shares: dict[_Ask, int] = {}

    def share(self, pod: _Ask) -> int:
        """How many places for this ask such a pod takes at the least, wherever it sits."""
        if pod not in self._shares:
            shares = [pod.amounts.get(index, 0) // amount for index, amount in self.asked]
            self._shares[pod] = min(shares, default=0) if pod.pools <= self.pools else 0
        return self._shares[pod]

    def lost(self, foreign: Mapping[_Ask, int], slack: _Slack | None = None) -> int:
        """How many places for this ask these pods destroy at the most, wherever they sit."""
        return int(sum([self._loss(pod, slack) * count for pod, count in foreign.items()]) + 1e-9)

    def _loss(self, pod: _Ask, slack: _Slack | None) -> float:
        """Those of one pod. Pods that take less than the slack share the loss of a place."""
        if slack is None and pod in self._losses:
            return self._losses[pod]
        most, least = slack or _Slack()
        losses = [0.0]
        for index, takes in pod.asked if not self.pools.isdisjoint(pod.pools) else ():
            if index in self.amounts:
                whole = min(most, -(-takes // self.amounts[index]))
                losses.append(takes / least[index] if takes < least.get(index, 0) else whole)
        if slack is None:
            self._losses[pod] = max(losses)
        return max(losses)


class _State:
    """A node that something is or was reserved on, or whose room is not the same at every level."""

    __slots__ = ("left", "room", "seats", "whole")

    def __init__(self, whole: Levels) -> None:
        self.whole = self.left = self.room = whole
        """With nothing reserved; less what is reserved; what a pod finds that needs the levels above as well."""
        self.seats: set[_Seat] = set()
        self._narrow()

    def change(self, asked: Asked, level: int, sign: int) -> None:
        """Add these amounts at this level and above; with sign -1, take them."""
        left = self.left
        if level == Room.FREE and left[0] is left[3]:
            free = _plus(left[0], asked, sign)
            self.left = self.room = (free, free, free, free)
        else:
            added = [_plus(one, asked, sign) if at >= level else one for at, one in enumerate(left)]
            self.left = (added[0], added[1], added[2], added[3])
            self._narrow()

    def grant(self, asked: Asked, sign: int) -> None:
        free, *more = self.whole
        freed, to_come, away = (_plus(one, asked, sign) for one in more)
        self.whole = (free, freed, to_come, away)
        self.change(asked, Room.FREED, sign)

    def _narrow(self) -> None:
        free, freed, to_come, away = self.left
        if free is not away:
            to_come = tuple(map(min, to_come, away))
            freed = tuple(map(min, freed, to_come))
            self.room = (tuple(map(min, free, freed)), freed, to_come, away)


class _Seat(msgspec.Struct, eq=False):
    """One reserved pod."""

    ask: _Ask
    room: Room
    number: int
    node: int = -1


class Reservation(msgspec.Struct, eq=False):
    """Room for all of `pods`, until it is cancelled. Compared by identity."""

    pods: PodRequests
    room: Room
    seats: list[_Seat]
    _placement: Placement

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it is placed on now."""
        return self._placement.names([seat.node for seat in self.seats])

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Those of them on which it needs room that is not free now."""
        return self._placement.names([seat.node for seat in self.seats if not self._placement.is_free_for(seat)])


class Placement:
    """The nodes' room in one decision. `due_back`: so many seconds late something may be and still counts as to come.

    The nodes must tell apart every request that is asked about.
    """

    def __init__(
        self, nodes: Nodes, *, now: float = 0.0, due_back: float = 0.0, cache: PlacementCache | None = None
    ) -> None:
        self._facts = cache.facts(nodes) if cache else _Facts(nodes)
        self._now, self._due_back = now, due_back
        self._asks: dict[tuple[Pools, Asked], _Ask] = {}
        self._ask_of: dict[PodRequest, _Ask] = {}
        self._states: dict[int, _State] = {}
        self._log: list[int] = []
        """The nodes whose room has changed, one after the other."""
        self._trail: list[tuple[_Seat, int]] = []
        """Where pods were before they moved in this call."""
        self._unfit: dict[tuple[PodRequests, Room], Shortage] = {}
        """What does not fit stays so until something is cancelled or granted."""
        self._opened = False
        self._numbers = numbered()
        self._steps, self._effort = 0, EFFORT

    # What is asked

    def fits(self, pods: PodRequests, room: Room = Room.FREE) -> Shortage | None:
        """Why these pods do not fit beside what is reserved; None when they do. Reserves nothing."""
        found = self._try(pods, room)
        self._undo()
        return found if isinstance(found, Shortage) else None

    def reserve(self, pods: PodRequests, room: Room = Room.FREE) -> Reservation | Shortage:
        """Reserve room for all of these pods; or for none, and say why."""
        found = self._try(pods, room)
        self._trail.clear()
        return found if isinstance(found, Shortage) else Reservation(pods, room, found, self)

    def cancel(self, reservation: Reservation) -> None:
        """Its room is free again. A second time changes nothing."""
        for seat in reservation.seats:
            self._put(seat, -1)
        reservation.seats = []
        self._unfit.clear()

    def grant(self, seats: Iterable[tuple[str, PodRequest]], sign: int = 1) -> None:
        """The room of these pods on these nodes counts as `FREED`; on nodes that are not schedulable it does not."""
        nodes, index = self._facts.nodes, self._facts.index
        for name, request in seats:
            at = bisect_left(nodes, name, key=lambda node: node.name)
            if at < len(nodes) and nodes[at].name == name and nodes[at].schedulable:
                self._state(at).grant(tuple((index[what], n) for what, n in request.requests if what in index), sign)
                self._log.append(at)
        for ask in self._asks.values():
            ask.places, ask.slack = {}, {}
        self._unfit.clear()

    def withdraw(self, seats: Iterable[tuple[str, PodRequest]]) -> None:
        """It does not count any more. Nothing may be reserved on it."""
        self.grant(seats, -1)

    def breadth(self, pods: PodRequests) -> int:
        """The number of nodes with free room for the most restricted of these pods, whatever is reserved there."""
        asks = [self._ask(request) for request, _ in pods]
        return min([len(self._facts.fitting(ask.pools, ask.asked).entries) for ask in asks], default=0)

    def sums_suffice(self, pods: PodRequests) -> bool:
        """Whether, for every set of candidate nodes, the sum of what is free and not reserved would do."""
        by_pools: dict[Pools, Counter[int]] = {}
        for request, count in pods:
            ask = self._ask(request)
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
        mine = self._counted(pods)
        involved = self._reach(mine)
        if len(involved) > 1:
            hands, before = self._counted(chain(pods, *in_hands)), dict[_Ask, int]()
            for ask in sorted(involved, key=_rank):
                later = {hand: count for hand, count in hands.items() if hand not in before and hand is not ask}
                if not self._is_safe(ask, before, later, less=0 if own else mine.get(ask, 0)):
                    return True
                before[ask] = sum(ask.seated)
        return False

    # What was asked before, and what follows from the nodes

    def _ask(self, request: PodRequest) -> _Ask:
        """A resource that no node was counted for has no candidates."""
        if request not in self._ask_of:
            facts = self._facts
            pools = facts.pools_for(request.where)
            asked = tuple(
                sorted([(facts.index.get(name, -1), amount) for name, amount in request.requests if amount > 0])
            )
            known = bool(asked) and asked[0][0] >= 0
            self._ask_of[request] = self._ask_for(asked, pools) if known else self._ask_for((), Pools())
        return self._ask_of[request]

    def _ask_for(self, asked: Asked, pools: Pools) -> _Ask:
        if (pools, asked) not in self._asks:
            self._asks[pools, asked] = _Ask(asked, pools, sum([self._facts.size[pool] for pool in pools]))
        return self._asks[pools, asked]

    def _counted(self, pods: Iterable[tuple[PodRequest, int]]) -> dict[_Ask, int]:
        counts: dict[_Ask, int] = {}
        for request, count in pods:
            if count > 0:
                ask = self._ask(request)
                counts[ask] = counts.get(ask, 0) + count
        return counts

    # Putting pods on nodes

    def _state(self, index: int) -> _State:
        if index not in self._states:
            self._states[index] = _State(self._facts.nodes[index].levels(self._now, self._due_back))
        return self._states[index]

    def _put(self, seat: _Seat, to: int) -> None:
        """Take the pod off its node, if it has one, and put it on another; -1 = on none."""
        for index, sign in ((seat.node, 1), (to, -1)):
            if index >= 0:
                state = self._state(index)
                state.change(seat.ask.asked, seat.room, sign)
                (state.seats.discard if sign > 0 else state.seats.add)(seat)
                seat.ask.seated[seat.room] -= sign
                self._log.append(index)
        seat.node = to

    def _move(self, seat: _Seat, to: int) -> None:
        """The same, so that it can be undone."""
        self._trail.append((seat, seat.node))
        self._put(seat, to)

    def _undo(self, start: int = 0) -> None:
        while len(self._trail) > start:
            self._put(*self._trail.pop())

    def _order(self, ask: _Ask, room: Room) -> list[Entry]:
        """Nodes with room for one such pod, the fullest first. Only the first entry is sure to be up to date."""
        order, log = ask.orders.get(room), self._log
        if order is None:
            order = ask.orders[room] = self._facts.fitting(ask.pools, ask.asked).entries.copy()
            ask.read[room] = 0
        if ask.read[room] < len(log):
            for index in set(log[ask.read[room] :]):
                entry = (self._states[index].room[room], index)
                if self._facts.pool_of[index] in ask.pools and times(ask.asked, entry[0]):
                    at = bisect_left(order, entry)
                    if at == len(order) or order[at] != entry:
                        order.insert(at, entry)
            ask.read[room] = len(log)
            gone = 0
            while gone < len(order) and not self._is_valid(order[gone], room):
                gone += 1
            del order[:gone]
        return order

    def _open_unusual(self, room: Room) -> None:
        """Consider the nodes that have more room at this level."""
        if room >= Room.TO_COME and not self._opened:
            self._opened = True
            unusual = [index for index, node in enumerate(self._facts.nodes) if node.ending or not node.schedulable]
            self._log.extend(index for index in unusual if self._state(index))

    def _is_valid(self, entry: Entry, room: Room) -> bool:
        state = self._states.get(entry[1])
        return state is None or state.room[room] == entry[0]

    # Searching

    def _try(self, pods: PodRequests, room: Room) -> list[_Seat] | Shortage:
        """Seats for all of these pods, or why there are none; then nothing has moved."""
        known = self._unfit.get((pods, room))
        if known is not None:
            return known
        self._open_unusual(room)
        wanted = self._counted(pods)
        total = sum(wanted.values())
        few = total <= MOST_AT_ONCE
        sure = not few and self._is_in_vain(wanted, room)
        if not sure and total <= MOST_PODS:
            asks = chain.from_iterable([ask] * wanted[ask] for ask in sorted(wanted, key=_rank))
            seats = [_Seat(ask, room, next(self._numbers)) for ask in asks]
            if all(map(self._sit, seats)):
                return seats
            self._undo()
            sure = few and self._is_in_vain(wanted, room)
            if not sure:
                found, sure = self._rearranged(seats)
                if found:
                    return seats
                self._undo()
        shortage = self._unfit[pods, room] = self._shortage(pods, room, undecided=not sure)
        return shortage

    def _sit(self, seat: _Seat) -> bool:
        """Put the pod on the fullest node that has room for it, if there is any."""
        order = self._order(seat.ask, seat.room)
        if order:
            self._move(seat, order[0][1])
        return bool(order)

    def _is_in_vain(self, wanted: Mapping[_Ask, int], room: Room) -> bool:
        """Whether there are too few places on all candidate nodes for all pods that must sit there; each counts as
        the number of places that it takes at the least."""
        if not all(ask.pools for ask in wanted):
            return True
        seated = [ask for ask in self._asks.values() if any(ask.seated)]
        levels = [each for each in Room if each == room or (each > room and any(ask.seated[each] for ask in seated))]
        for level in levels:
            counts = Counter({ask: sum(ask.seated[: level + 1]) for ask in seated})
            counts.update(wanted)
            for unit in [unit for unit in counts if any(unit.share(ask) for ask in wanted)]:
                if sum([unit.share(ask) * number for ask, number in counts.items()]) > self._places(unit, level):
                    return True
        return False

    def _places(self, ask: _Ask, room: Room) -> int:
        """How many such pods all nodes hold with nothing reserved."""
        if room not in ask.places:
            pool_of = self._facts.pool_of
            ask.places[room] = self._facts.fitting(ask.pools, ask.asked).places + sum([
                times(ask.asked, state.whole[room]) - times(ask.asked, state.whole[Room.FREE])
                for index, state in self._states.items()
                if state.whole[room] is not state.whole[Room.FREE] and pool_of[index] in ask.pools
            ])  # fmt: skip
        return ask.places[room]

    def _reach(self, asks: Iterable[_Ask]) -> list[_Ask]:
        """What is reserved on candidate nodes of these, on candidate nodes of that, and so on."""
        pools = Pools().union(*[ask.pools for ask in asks])
        found, rest = [], [ask for ask in self._asks.values() if any(ask.seated)]
        while near := [ask for ask in rest if not pools.isdisjoint(ask.pools)]:
            found += near
            rest = [ask for ask in rest if ask not in near]
            pools = pools.union(*[ask.pools for ask in near])
        return found

    def _rearranged(self, seats: list[_Seat]) -> tuple[bool, bool]:
        """Put these pods somewhere while others move; whether they could be, and whether that is sure."""
        self._steps = given = min(STEPS, self._effort)
        reached = self._reach({seat.ask for seat in seats})
        movable = any(ask.seated[room] and self._order(ask, room) for ask in reached for room in Room)
        found = sure = movable and all(self._seat(seat, set()) for seat in seats)
        if not found:
            self._undo()
            found, sure = self._repacked(seats, set(reached))
        if not found:
            self._effort -= given - max(self._steps, 0)
        return found, sure

    def _seat(self, seat: _Seat, visited: set[int]) -> bool:
        """Put the pod on some node, if need be on one from which reserved pods can move. When it fails, nothing has
        moved."""
        if self._sit(seat):
            return True
        self._steps -= len(self._states) // 100
        asked, pools, pool_of = seat.ask.asked, seat.ask.pools, self._facts.pool_of
        for index in sorted([at for at, state in self._states.items() if state.seats and pool_of[at] in pools]):
            state, start = self._states[index], len(self._trail)
            if index in visited or not times(asked, state.whole[seat.room]):
                continue
            visited.add(index)
            self._steps -= 1
            taken = list[_Seat]()
            others = [other for other in state.seats if other.ask is not seat.ask or other.room != seat.room]
            for other in sorted(others, key=_restriction, reverse=True):
                self._move(other, -1)
                taken.append(other)
                if times(asked, state.room[seat.room]):
                    self._move(seat, index)
                    if self._steps > 0 and all(self._seat(each, visited) for each in reversed(taken)):
                        return True
                    break
            self._undo(start)
            if self._steps <= 0:
                break
        return False

    def _repacked(self, seats: list[_Seat], reached: set[_Ask]) -> tuple[bool, bool]:
        """Take all pods in reach off their nodes and place them anew together with these; and whether that is sure."""
        moving = [seat for state in self._states.values() for seat in state.seats if seat.ask in reached]
        in_order = sorted([*moving, *seats], key=_restriction)
        if self._steps <= len(in_order):
            return False, False
        for seat in moving:
            self._move(seat, -1)
        if len(in_order) <= SEARCHED:
            return self._search(in_order, 0, set()), self._steps > 0
        self._steps -= len(in_order)
        return all(map(self._sit, in_order)), False

    def _search(self, seats: Sequence[_Seat], at: int, dead: set[object]) -> bool:
        """Place the pods from this one on, in every way. Nodes of one pool with the same room are tried once."""
        if at == len(seats):
            return True
        mark = (at, tuple(sorted(map(self._alike, {seat.node for seat in seats[:at]}))))
        if mark in dead:
            return False
        seat, tried = seats[at], set[object]()
        for _, index in [each for each in self._order(seat.ask, seat.room) if self._is_valid(each, seat.room)]:
            if self._alike(index) not in tried:
                tried.add(self._alike(index))
                self._steps -= 1
                if self._steps <= 0:
                    return False
                self._move(seat, index)
                if self._search(seats, at + 1, dead):
                    return True
                self._undo(len(self._trail) - 1)
        dead.add(mark)
        return False

    def _alike(self, index: int) -> tuple[int, Levels, Levels]:
        """The same for nodes that are as good for everything."""
        free = self._facts.nodes[index].free
        state = self._states.get(index)
        same = (free, free, free, free)
        return self._facts.pool_of[index], *((state.whole, state.left) if state else (same, same))

    # Words, sums and losses

    def _shortage(self, pods: PodRequests, room: Room, *, undecided: bool) -> Shortage:
        """The first request that finds too few places even alone; else they do not fit together."""
        some = [(request, count) for request, count in pods if count > 0]
        for request, count in some:
            ask = self._ask(request)
            there = self._there(ask, room, count)
            if there < count:
                resource = self._scarcest(request, room, count)
                return Shortage(request, count, there, resource, shared=self._is_shared(ask), undecided=undecided)
        request, count = some[0]
        resource = next((name for name, amount in request.requests if amount > 0), PODS)
        return Shortage(request, count, count, resource, together=True, undecided=undecided)

    def _there(self, ask: _Ask, room: Room, most: int) -> int:
        """How many such pods find room beside what is reserved; counted up to so many."""
        there = 0
        for entry in self._order(ask, room):
            if there >= most:
                break
            if self._is_valid(entry, room):
                there += times(ask.asked, entry[0])
        return there

    def _scarcest(self, request: PodRequest, room: Room, count: int) -> str:
        """The first resource that too few such pods find enough of, were it all that they ask for."""
        asked, pools = self._ask(request).asked, self._facts.pools_for(request.where)
        unknown = [name for name, amount in request.requests if amount > 0 and name not in self._facts.index]
        if unknown or not asked:
            return min(unknown, default=PODS)
        short = (
            index
            for index, amount in asked
            if self._there(self._ask_for(((index, amount),), pools), room, count) < count
        )
        return self._facts.resources[next(short, asked[0][0])]

    def _is_shared(self, ask: _Ask) -> bool:
        """Whether some node, empty, would hold two such pods."""
        return any(pool in ask.pools and times(ask.asked, whole) > 1 for pool, whole in self._facts.empty)

    def names(self, indices: Iterable[int]) -> tuple[str, ...]:
        """The names of these nodes, each once."""
        return tuple(self._facts.nodes[index].name for index in sorted(set(indices)))

    def is_free_for(self, seat: _Seat) -> bool:
        """Whether room that is free now is enough for this pod and for those that were reserved there before it."""
        state = self._states[seat.node]
        free = state.left[Room.FREE]
        for other in sorted(state.seats, key=lambda one: one.number):
            if other.room > Room.FREE and times(other.ask.asked, free):
                if other is seat:
                    return True
                free = _plus(free, other.ask.asked, -1)
        return seat.room == Room.FREE

    def _sum_suffices(self, groups: Sequence[tuple[Pools, Counter[int]]]) -> bool:
        """All that these groups ask for is there on the nodes that take any of them."""
        pools = Pools().union(*[pools for pools, _ in groups])
        asked = sum((asked for _, asked in groups), Counter[int]())
        states, entries = self._states, self._facts.fitting(pools, ()).entries
        rest = [states[index].room[Room.FREE] if index in states else free for free, index in entries]
        return all(sum([free[at] for free in rest if free[at] > 0]) >= amount for at, amount in asked.items())

    def _is_safe(self, ask: _Ask, before: Mapping[_Ask, int], hands: Mapping[_Ask, int], *, less: int) -> bool:
        """Whether these pods find their places, wherever those in hands sit on what is free, beside those that are
        placed before them. No more than `less` of them: nobody counts on their places."""
        everybody = {**before, **hands}
        for room in [room for room in Room if ask.seated[room]]:
            wanted = sum(ask.seated[: room + 1])
            spare = self._places(ask, room) - wanted
            if wanted <= less or ask.lost(everybody) <= spare:
                continue
            within = self._within_reach(ask, room, hands)
            slack = self._slack(ask, room)
            if ask.lost(before) + min(within, ask.lost(hands)) > spare and ask.lost(everybody, slack) > spare:
                return False
        return True

    def _within_reach(self, ask: _Ask, room: Room, hands: Iterable[_Ask]) -> int:
        """Places for such pods on nodes on which one of those in hands finds room that is free now."""
        closed = (
            times(ask.asked, state.whole[room])
            for index, state in self._states.items()
            if state.whole[room] is not state.whole[Room.FREE] and self._facts.pool_of[index] in ask.pools
            and not any(times(hand.asked, state.whole[Room.FREE]) for hand in hands)
        )  # fmt: skip
        return self._places(ask, room) - sum(closed)

    def _slack(self, ask: _Ask, room: Room) -> _Slack:
        if room not in ask.slack:
            states, pool_of = self._states, self._facts.pool_of
            wholes = [free for free, at in self._facts.fitting(ask.pools, ask.asked).entries if at not in states]
            wholes += [state.whole[room] for at, state in states.items() if pool_of[at] in ask.pools]
            counted = [(whole, number) for whole in wholes if (number := times(ask.asked, whole))]
            ask.slack[room] = _Slack(max([number for _, number in counted], default=0), {
                index: min([_slack(whole[index], amount, number) for whole, number in counted], default=0.0)
                for index, amount in ask.asked
            })  # fmt: skip
        return ask.slack[room]
