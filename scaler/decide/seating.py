"""Pods on nodes, as a trial placement puts them: where they sit, how they move, and the search for a place for more.

Must not know what is asked about and why; a search ends after a bounded number of steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from itertools import count as numbered
from operator import attrgetter

import msgspec

from scaler.decide.asks import Ask
from scaler.decide.nodes import Levels, PodRequest, Room
from scaler.decide.pools import Asked, Entry, NodePools, Pools, plus, times

MOST_PODS = 10_000
"""More pods than this are not placed one by one: they count as finding no place."""
STEPS = 2_000
"""So many ways to move pods are tried in one call."""
EFFORT = 1_000
"""So many in vain in the life of one `Seating`."""
MOST_AT_ONCE = 8
"""Of more pods than this it is worth while to see first whether there are places enough at all."""
SEARCHED = 24
"""Of so many pods at most every placement is tried; of more, only the one that takes the most restricted first."""

_rank = attrgetter("rank")
_restriction = attrgetter("ask.rank", "room", "number")


class NodeState:
    """A node that something is or was reserved on, or whose room is not the same at every level."""

    __slots__ = ("left", "room", "seats", "whole")

    def __init__(self, whole: Levels) -> None:
        self.whole = self.left = self.room = whole
        """With nothing reserved; less what is reserved; what a pod finds that needs the levels above as well."""
        self.seats: set[Seat] = set()
        self._narrow()

    def change(self, asked: Asked, level: int, sign: int) -> None:
        """Add these amounts at this level and above; with sign -1, take them."""
        left = self.left
        if level == Room.FREE and left[0] is left[3]:
            free = plus(left[0], asked, sign)
            self.left = self.room = (free, free, free, free)
        else:
            added = [plus(one, asked, sign) if at >= level else one for at, one in enumerate(left)]
            self.left = (added[0], added[1], added[2], added[3])
            self._narrow()

    def grant(self, asked: Asked, sign: int) -> None:
        free, *more = self.whole
        freed, to_come, away = (plus(one, asked, sign) for one in more)
        self.whole = (free, freed, to_come, away)
        self.change(asked, Room.FREED, sign)

    def _narrow(self) -> None:
        free, freed, to_come, away = self.left
        if free is not away:
            to_come = tuple(map(min, to_come, away))
            freed = tuple(map(min, freed, to_come))
            self.room = (tuple(map(min, free, freed)), freed, to_come, away)


class Seat(msgspec.Struct, eq=False):
    """One reserved pod."""

    ask: Ask
    room: Room
    number: int
    node: int = -1


class Seating:
    """The pods of one trial placement. `due_back`: so many seconds late something may be and counts as to come."""

    def __init__(self, pools: NodePools, *, now: float, due_back: float) -> None:
        self.pools = pools
        self._now, self._due_back = now, due_back
        self.asks: dict[tuple[Pools, Asked], Ask] = {}
        self._ask_of: dict[PodRequest, Ask] = {}
        self.states: dict[int, NodeState] = {}
        self._log: list[int] = []
        """The nodes whose room has changed, one after the other."""
        self._trail: list[tuple[Seat, int]] = []
        """Where pods were before they moved in this call."""
        self._opened = False
        self._numbers = numbered()
        self._steps, self._effort = 0, EFFORT

    # What was asked before

    def ask(self, request: PodRequest) -> Ask:
        """A resource that no node was counted for has no candidates."""
        if request not in self._ask_of:
            index, pools = self.pools.index, self.pools.pools_for(request.where)
            asked = tuple(sorted([(index.get(name, -1), amount) for name, amount in request.requests if amount > 0]))
            known = bool(asked) and asked[0][0] >= 0
            self._ask_of[request] = self.ask_for(asked, pools) if known else self.ask_for((), Pools())
        return self._ask_of[request]

    def ask_for(self, asked: Asked, pools: Pools) -> Ask:
        if (pools, asked) not in self.asks:
            self.asks[pools, asked] = Ask(asked, pools, sum([self.pools.size[pool] for pool in pools]))
        return self.asks[pools, asked]

    def counted(self, pods: Iterable[tuple[PodRequest, int]]) -> dict[Ask, int]:
        counts: dict[Ask, int] = {}
        for request, count in pods:
            if count > 0:
                ask = self.ask(request)
                counts[ask] = counts.get(ask, 0) + count
        return counts

    # Pods on nodes

    def _state(self, index: int) -> NodeState:
        if index not in self.states:
            self.states[index] = NodeState(self.pools.nodes[index].levels(self._now, self._due_back))
        return self.states[index]

    def grant(self, seats: Iterable[tuple[str, PodRequest]], sign: int) -> None:
        """The room of these pods on these nodes counts as `FREED`; with sign -1, no more."""
        nodes, index = self.pools.nodes, self.pools.index
        for name, request in seats:
            at = bisect_left(nodes, name, key=lambda node: node.name)
            if at < len(nodes) and nodes[at].name == name and nodes[at].schedulable:
                self._state(at).grant(tuple((index[what], n) for what, n in request.requests if what in index), sign)
                self._log.append(at)
        for ask in self.asks.values():
            ask.places, ask.slack = {}, {}

    def put(self, seat: Seat, to: int) -> None:
        """Take the pod off its node, if it has one, and put it on another; -1 = on none."""
        for index, sign in ((seat.node, 1), (to, -1)):
            if index >= 0:
                state = self._state(index)
                state.change(seat.ask.asked, seat.room, sign)
                (state.seats.discard if sign > 0 else state.seats.add)(seat)
                seat.ask.seated[seat.room] -= sign
                self._log.append(index)
        seat.node = to

    def _move(self, seat: Seat, to: int) -> None:
        """The same, so that it can be undone."""
        self._trail.append((seat, seat.node))
        self.put(seat, to)

    def keep(self) -> None:
        """What moved stays where it is."""
        self._trail.clear()

    def undo(self, start: int = 0) -> None:
        """Put back what moved and is not kept."""
        while len(self._trail) > start:
            self.put(*self._trail.pop())

    def order(self, ask: Ask, room: Room) -> list[Entry]:
        """Nodes with room for one such pod, the fullest first. Only the first entry is sure to be up to date."""
        order, log = ask.orders.get(room), self._log
        if order is None:
            order = ask.orders[room] = self.pools.fitting(ask.pools, ask.asked).entries.copy()
            ask.read[room] = 0
        if ask.read[room] < len(log):
            for index in set(log[ask.read[room] :]):
                entry = (self.states[index].room[room], index)
                if self.pools.pool_of[index] in ask.pools and times(ask.asked, entry[0]):
                    at = bisect_left(order, entry)
                    if at == len(order) or order[at] != entry:
                        order.insert(at, entry)
            ask.read[room] = len(log)
            gone = 0
            while gone < len(order) and not self.is_valid(order[gone], room):
                gone += 1
            del order[:gone]
        return order

    def _open_unusual(self, room: Room) -> None:
        """Consider the nodes that have more room at this level."""
        if room >= Room.TO_COME and not self._opened:
            self._opened = True
            unusual = [index for index, node in enumerate(self.pools.nodes) if node.ending or not node.schedulable]
            self._log.extend(index for index in unusual if self._state(index))

    def is_valid(self, entry: Entry, room: Room) -> bool:
        state = self.states.get(entry[1])
        return state is None or state.room[room] == entry[0]

    def places(self, ask: Ask, room: Room) -> int:
        """How many such pods all nodes hold with nothing reserved."""
        if room not in ask.places:
            pool_of = self.pools.pool_of
            ask.places[room] = self.pools.fitting(ask.pools, ask.asked).places + sum([
                times(ask.asked, state.whole[room]) - times(ask.asked, state.whole[Room.FREE])
                for index, state in self.states.items()
                if state.whole[room] is not state.whole[Room.FREE] and pool_of[index] in ask.pools
            ])  # fmt: skip
        return ask.places[room]

    def reach(self, asks: Iterable[Ask]) -> list[Ask]:
        """What is reserved on candidate nodes of these, on candidate nodes of that, and so on."""
        pools = Pools().union(*[ask.pools for ask in asks])
        found, rest = [], [ask for ask in self.asks.values() if any(ask.seated)]
        while near := [ask for ask in rest if not pools.isdisjoint(ask.pools)]:
            found += near
            rest = [ask for ask in rest if ask not in near]
            pools = pools.union(*[ask.pools for ask in near])
        return found

    def names(self, indices: Iterable[int]) -> tuple[str, ...]:
        """The names of these nodes, each once."""
        return tuple(self.pools.nodes[index].name for index in sorted(set(indices)))

    def is_free_for(self, seat: Seat) -> bool:
        """Whether room that is free now is enough for this pod and for those that were reserved there before it."""
        state = self.states[seat.node]
        free = state.left[Room.FREE]
        for other in sorted(state.seats, key=lambda one: one.number):
            if other.room > Room.FREE and times(other.ask.asked, free):
                if other is seat:
                    return True
                free = plus(free, other.ask.asked, -1)
        return seat.room == Room.FREE

    # Searching

    def find(self, wanted: Mapping[Ask, int], room: Room) -> tuple[list[Seat] | None, bool]:
        """Seats for all of these pods, while others move; or None, then nothing has moved, and whether that is sure."""
        self._open_unusual(room)
        total = sum(wanted.values())
        few = total <= MOST_AT_ONCE
        sure = not few and self._is_in_vain(wanted, room)
        if not sure and total <= MOST_PODS:
            asks = chain.from_iterable([ask] * wanted[ask] for ask in sorted(wanted, key=_rank))
            seats = [Seat(ask, room, next(self._numbers)) for ask in asks]
            if all(map(self._sit, seats)):
                return seats, True
            self.undo()
            sure = few and self._is_in_vain(wanted, room)
            if not sure:
                found, sure = self._rearranged(seats)
                if found:
                    return seats, True
                self.undo()
        return None, sure

    def _sit(self, seat: Seat) -> bool:
        """Put the pod on the fullest node that has room for it, if there is any."""
        order = self.order(seat.ask, seat.room)
        if order:
            self._move(seat, order[0][1])
        return bool(order)

    def _is_in_vain(self, wanted: Mapping[Ask, int], room: Room) -> bool:
        """Whether there are too few places on all candidate nodes for all pods that must sit there; each counts as
        the number of places that it takes at the least."""
        if not all(ask.pools for ask in wanted):
            return True
        seated = [ask for ask in self.asks.values() if any(ask.seated)]
        levels = [each for each in Room if each == room or (each > room and any(ask.seated[each] for ask in seated))]
        for level in levels:
            counts = Counter({ask: sum(ask.seated[: level + 1]) for ask in seated})
            counts.update(wanted)
            for unit in [unit for unit in counts if any(unit.share(ask) for ask in wanted)]:
                if sum([unit.share(ask) * number for ask, number in counts.items()]) > self.places(unit, level):
                    return True
        return False

    def _rearranged(self, seats: list[Seat]) -> tuple[bool, bool]:
        """Put these pods somewhere while others move; whether they could be, and whether that is sure."""
        self._steps = given = min(STEPS, self._effort)
        reached = self.reach({seat.ask for seat in seats})
        movable = any(ask.seated[room] and self.order(ask, room) for ask in reached for room in Room)
        found = sure = movable and all(self._seat(seat, set()) for seat in seats)
        if not found:
            self.undo()
            found, sure = self._repacked(seats, set(reached))
        if not found:
            self._effort -= given - max(self._steps, 0)
        return found, sure

    def _seat(self, seat: Seat, visited: set[int]) -> bool:
        """Put the pod on some node, if need be on one from which reserved pods can move. When it fails, nothing has
        moved."""
        if self._sit(seat):
            return True
        self._steps -= len(self.states) // 100
        asked, pools, pool_of = seat.ask.asked, seat.ask.pools, self.pools.pool_of
        for index in sorted([at for at, state in self.states.items() if state.seats and pool_of[at] in pools]):
            state, start = self.states[index], len(self._trail)
            if index in visited or not times(asked, state.whole[seat.room]):
                continue
            visited.add(index)
            self._steps -= 1
            taken = list[Seat]()
            others = [other for other in state.seats if other.ask is not seat.ask or other.room != seat.room]
            for other in sorted(others, key=_restriction, reverse=True):
                self._move(other, -1)
                taken.append(other)
                if times(asked, state.room[seat.room]):
                    self._move(seat, index)
                    if self._steps > 0 and all(self._seat(each, visited) for each in reversed(taken)):
                        return True
                    break
            self.undo(start)
            if self._steps <= 0:
                break
        return False

    def _repacked(self, seats: list[Seat], reached: set[Ask]) -> tuple[bool, bool]:
        """Take all pods in reach off their nodes and place them anew together with these; and whether that is sure."""
        moving = [seat for state in self.states.values() for seat in state.seats if seat.ask in reached]
        in_order = sorted([*moving, *seats], key=_restriction)
        if self._steps <= len(in_order):
            return False, False
        for seat in moving:
            self._move(seat, -1)
        if len(in_order) <= SEARCHED:
            return self._search(in_order, 0, set()), self._steps > 0
        self._steps -= len(in_order)
        return all(map(self._sit, in_order)), False

    def _search(self, seats: Sequence[Seat], at: int, dead: set[object]) -> bool:
        """Place the pods from this one on, in every way. Nodes of one pool with the same room are tried once."""
        if at == len(seats):
            return True
        mark = (at, tuple(sorted(map(self._alike, {seat.node for seat in seats[:at]}))))
        if mark in dead:
            return False
        seat, tried = seats[at], set[object]()
        for _, index in [each for each in self.order(seat.ask, seat.room) if self.is_valid(each, seat.room)]:
            if self._alike(index) not in tried:
                tried.add(self._alike(index))
                self._steps -= 1
                if self._steps <= 0:
                    return False
                self._move(seat, index)
                if self._search(seats, at + 1, dead):
                    return True
                self.undo(len(self._trail) - 1)
        dead.add(mark)
        return False

    def _alike(self, index: int) -> tuple[int, Levels, Levels]:
        """The same for nodes that are as good for everything."""
        free = self.pools.nodes[index].free
        state = self.states.get(index)
        same = (free, free, free, free)
        return self.pools.pool_of[index], *((state.whole, state.left) if state else (same, same))
