"""The pods of a trial placement: on which nodes they are, how they move, and the search for places
for more pods.

Must not know of services, ratios or instances. A search ends after a bounded number of steps."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from operator import attrgetter

import msgspec

from scaler.decide.nodes import Levels, PodRequest, Room
from scaler.decide.room.classes import Classes, Entry, NodeIndex, PodAmounts, plus, times

MOST_PODS = 10_000
"""The largest number of pods that is placed in one call; more pods count as finding no place."""
STEPS = 2_000
"""The largest number of moves that one call tries."""
EFFORT = 1_000
"""The largest number of moves without success in the life of one `Trial`."""
SEARCHED = 24
"""Up to so many pods, every placement is tried; for more pods only one: the most restricted pod
first."""

by_restriction = attrgetter("rank")
_restriction = attrgetter("pod_class.rank", "room", "number")


class PodClass:
    """Pods with the same amounts and the same candidate nodes, at any `Room`. Compared by
    identity."""

    def __init__(self, amounts: PodAmounts, classes: Classes, size: int) -> None:
        self.amounts = amounts
        self.classes = classes
        self.by_resource = dict(amounts)
        self.rank = (
            size,
            tuple((index, -amount) for index, amount in amounts),
            tuple(sorted(classes)),
        )
        """Sort key, the most restricted first: the fewest candidate nodes, then the largest
        amounts."""
        self.orders: dict[Room, list[Entry]] = {}
        """Room -> nodes with room for such a pod, sorted. Some entries may be out of date."""
        self.read = [0] * len(Room)
        """Length of the log that `orders` has taken into account, by `Room`."""
        self.reserved = [0] * len(Room)
        self.places: dict[Room, int] = {}
        """Room -> places for such pods on all nodes without reservations. Filled on demand."""
        self.losses: dict[PodClass, float] = {}
        """Other class -> the most places for such pods that one pod of the other class takes away.
        Filled on demand."""
        self._shares: dict[PodClass, int] = {}

    def share(self, other: PodClass) -> int:
        """The least number of places for such pods that one pod of the other class takes, on any
        node."""
        if other not in self._shares:
            shares = [other.by_resource.get(index, 0) // amount for index, amount in self.amounts]
            self._shares[other] = min(shares, default=0) if other.classes <= self.classes else 0
        return self._shares[other]


class NodeState:
    """A node with a reservation, now or before, or with different room at different levels
    (`Room`)."""

    __slots__ = ("left", "pods", "room", "whole")

    def __init__(self, whole: Levels) -> None:
        self.whole = self.left = self.room = whole
        """`whole`: without reservations; `left`: less reservations; `room`: at each level the least
        of it and above."""
        self.pods: set[PlacedPod] = set()
        self._narrow()

    def change(self, amounts: PodAmounts, level: int, sign: int) -> None:
        """Add the amounts at this level and all levels above; with sign -1, subtract them."""
        left = self.left
        if level == Room.FREE and left[0] is left[3]:
            free = plus(left[0], amounts, sign)
            self.left = self.room = (free, free, free, free)
        else:
            added = [
                plus(one, amounts, sign) if at >= level else one for at, one in enumerate(left)
            ]
            self.left = (added[0], added[1], added[2], added[3])
            self._narrow()

    def count_freed(self, amounts: PodAmounts, sign: int) -> None:
        free, *more = self.whole
        freed, to_come, away = (plus(one, amounts, sign) for one in more)
        self.whole = (free, freed, to_come, away)
        self.change(amounts, Room.FREED, sign)

    def _narrow(self) -> None:
        free, freed, to_come, away = self.left
        if free is not away:
            to_come = tuple(map(min, to_come, away))
            freed = tuple(map(min, freed, to_come))
            self.room = (tuple(map(min, free, freed)), freed, to_come, away)


class PlacedPod(msgspec.Struct, eq=False):
    pod_class: PodClass
    room: Room
    number: int
    node: int = -1


class Trial:
    def __init__(self, nodes: NodeIndex, *, now: float, due_back: float) -> None:
        self.nodes = nodes
        self._now = now
        self._due_back = due_back
        self.pod_classes: dict[tuple[Classes, PodAmounts], PodClass] = {}
        self._class_of: dict[PodRequest, PodClass] = {}
        self.states: dict[int, NodeState] = {}
        self._log: list[int] = []
        """Indexes of nodes whose room changed, in order."""
        self._moves: list[tuple[PlacedPod, int]] = []
        """Moved pods of this call, each with the index of its node before; -1 = none."""
        self._opened = False
        self._numbers = count()
        self._steps = 0
        self._effort = EFFORT

    def pod_class(self, request: PodRequest) -> PodClass:
        """The class of pods with this request. A pod with an unknown resource has no candidate
        nodes."""
        if request not in self._class_of:
            index = self.nodes.resources
            classes = self.nodes.taking(request.where)
            amounts = tuple(
                sorted(
                    [
                        (index.get(name, -1), amount)
                        for name, amount in request.requests
                        if amount > 0
                    ]
                )
            )
            known = bool(amounts) and amounts[0][0] >= 0
            self._class_of[request] = (
                self.class_of(amounts, classes) if known else self.class_of((), Classes())
            )
        return self._class_of[request]

    def class_of(self, amounts: PodAmounts, classes: Classes) -> PodClass:
        if (classes, amounts) not in self.pod_classes:
            size = sum([self.nodes.size[each] for each in classes])
            self.pod_classes[classes, amounts] = PodClass(amounts, classes, size)
        return self.pod_classes[classes, amounts]

    def counted(self, pods: Iterable[tuple[PodRequest, int]]) -> dict[PodClass, int]:
        counts = Counter[PodClass]()
        for request, number in pods:
            if number > 0:
                counts[self.pod_class(request)] += number
        return counts

    def _state(self, index: int) -> NodeState:
        if index not in self.states:
            self.states[index] = NodeState(
                self.nodes.nodes[index].levels(self._now, self._due_back)
            )
        return self.states[index]

    def count_freed(self, pods: Iterable[tuple[str, PodRequest]], sign: int) -> None:
        nodes = self.nodes.nodes
        index = self.nodes.resources
        for name, request in pods:
            at = bisect_left(nodes, name, key=lambda node: node.name)
            if at < len(nodes) and nodes[at].name == name and nodes[at].schedulable:
                amounts = tuple((index[what], n) for what, n in request.requests if what in index)
                self._state(at).count_freed(amounts, sign)
                self._log.append(at)
        for pod_class in self.pod_classes.values():
            pod_class.places = {}

    def put(self, pod: PlacedPod, to: int) -> None:
        """Move the pod from its node, if any, to the node with index `to`; -1 = to no node."""
        for index, sign in ((pod.node, 1), (to, -1)):
            if index >= 0:
                state = self._state(index)
                state.change(pod.pod_class.amounts, pod.room, sign)
                (state.pods.discard if sign > 0 else state.pods.add)(pod)
                pod.pod_class.reserved[pod.room] -= sign
                self._log.append(index)
        pod.node = to

    def _move(self, pod: PlacedPod, to: int) -> None:
        self._moves.append((pod, pod.node))
        self.put(pod, to)

    def keep(self) -> None:
        self._moves.clear()

    def undo(self, start: int = 0) -> None:
        """Undo the moves that are not kept, except the first `start` moves."""
        while len(self._moves) > start:
            self.put(*self._moves.pop())

    def order(self, pod_class: PodClass, room: Room) -> list[Entry]:
        """Nodes with room for one such pod, the fullest first. Only the first entry is surely up to
        date."""
        order = pod_class.orders.get(room)
        log = self._log
        if order is None:
            order = pod_class.orders[room] = self.nodes.fitting(
                pod_class.classes, pod_class.amounts
            ).entries.copy()
        if pod_class.read[room] < len(log):
            for index in set(log[pod_class.read[room] :]):
                entry = (self.states[index].room[room], index)
                if self.nodes.class_of[index] in pod_class.classes and times(
                    pod_class.amounts, entry[0]
                ):
                    at = bisect_left(order, entry)
                    if at == len(order) or order[at] != entry:
                        order.insert(at, entry)
            pod_class.read[room] = len(log)
            gone = 0
            while gone < len(order) and not self.is_valid(order[gone], room):
                gone += 1
            del order[:gone]
        return order

    def is_valid(self, entry: Entry, room: Room) -> bool:
        state = self.states.get(entry[1])
        return state is None or state.room[room] == entry[0]

    def places(self, pod_class: PodClass, room: Room) -> int:
        if room not in pod_class.places:
            amounts = pod_class.amounts
            class_of = self.nodes.class_of
            pod_class.places[room] = self.nodes.fitting(pod_class.classes, amounts).places + sum(
                [
                    times(amounts, state.whole[room]) - times(amounts, state.whole[Room.FREE])
                    for index, state in self.states.items()
                    if state.whole[room] is not state.whole[Room.FREE]
                    and class_of[index] in pod_class.classes
                ]
            )
        return pod_class.places[room]

    def reach(self, pod_classes: Iterable[PodClass]) -> list[PodClass]:
        """Classes of reserved pods that share candidate nodes with these classes, directly or
        through others."""
        classes = Classes().union(*[each.classes for each in pod_classes])
        found = []
        rest = [each for each in self.pod_classes.values() if any(each.reserved)]
        while near := [each for each in rest if not classes.isdisjoint(each.classes)]:
            found += near
            rest = [each for each in rest if each not in near]
            classes = classes.union(*[each.classes for each in near])
        return found

    def is_free_for(self, pod: PlacedPod) -> bool:
        """Whether the free room of the node suffices for this pod and for the pods that were
        reserved before it."""
        state = self.states[pod.node]
        free = state.left[Room.FREE]
        for other in sorted(state.pods, key=lambda one: one.number):
            if other.room > Room.FREE and times(other.pod_class.amounts, free):
                if other is pod:
                    return True
                free = plus(free, other.pod_class.amounts, -1)
        return pod.room == Room.FREE

    def find(
        self, wanted: Mapping[PodClass, int], room: Room
    ) -> tuple[list[PlacedPod] | None, bool]:
        """Place all of these pods; reserved pods may move. Or None, then no pod has moved. And
        whether it is sure."""
        if room >= Room.TO_COME and not self._opened:
            self._opened = True  # log the nodes that have more room at this level
            self._log.extend(index for index in self.nodes.unusual if self._state(index))
        if sum(wanted.values()) > MOST_PODS:
            return None, self._is_in_vain(wanted, room)
        in_order = chain.from_iterable(
            [each] * wanted[each] for each in sorted(wanted, key=by_restriction)
        )
        pods = [PlacedPod(each, room, next(self._numbers)) for each in in_order]
        if all(map(self._place, pods)):
            return pods, True
        self.undo()
        if self._is_in_vain(wanted, room):
            return None, True
        found, sure = self._rearranged(pods)
        return (pods if found else None), sure

    def _place(self, pod: PlacedPod) -> bool:
        order = self.order(pod.pod_class, pod.room)
        if order:
            self._move(pod, order[0][1])
        return bool(order)

    def _is_in_vain(self, wanted: Mapping[PodClass, int], room: Room) -> bool:
        """Whether the candidate nodes have too few places for all pods, if each takes as few places
        as it can."""
        if not all(each.classes for each in wanted):
            return True
        reserved = [each for each in self.pod_classes.values() if any(each.reserved)]
        levels = [
            at
            for at in Room
            if at == room or (at > room and any(each.reserved[at] for each in reserved))
        ]
        for level in levels:
            counts = Counter({each: sum(each.reserved[: level + 1]) for each in reserved})
            counts.update(wanted)
            for unit in [unit for unit in counts if any(unit.share(each) for each in wanted)]:
                if sum(
                    [unit.share(each) * number for each, number in counts.items()]
                ) > self.places(unit, level):
                    return True
        return False

    def _rearranged(self, pods: list[PlacedPod]) -> tuple[bool, bool]:
        """Place these pods while reserved pods move. Returns whether all are placed, and whether
        that is sure."""
        self._steps = given = min(STEPS, self._effort)
        reached = self.reach({pod.pod_class for pod in pods})
        movable = any(
            each.reserved[room] and self.order(each, room) for each in reached for room in Room
        )
        if movable and all(self._place_or_move(pod, set()) for pod in pods):
            return True, True
        self.undo()
        found, sure = self._repacked(pods, set(reached))
        if not found:
            self.undo()
            self._effort -= given - max(self._steps, 0)
        return found, sure

    def _place_or_move(self, pod: PlacedPod, visited: set[int]) -> bool:
        """Place the pod, if necessary on a node from which reserved pods move away. On failure no
        pod has moved."""
        if self._place(pod):
            return True
        self._steps -= len(self.states) // 100
        amounts = pod.pod_class.amounts
        classes = pod.pod_class.classes
        class_of = self.nodes.class_of
        for index in sorted(
            [at for at, state in self.states.items() if state.pods and class_of[at] in classes]
        ):
            state = self.states[index]
            start = len(self._moves)
            if index in visited or not times(amounts, state.whole[pod.room]):
                continue
            visited.add(index)
            self._steps -= 1
            taken = list[PlacedPod]()
            others = [
                other
                for other in state.pods
                if other.pod_class is not pod.pod_class or other.room != pod.room
            ]
            for other in sorted(others, key=_restriction, reverse=True):
                self._move(other, -1)
                taken.append(other)
                if times(amounts, state.room[pod.room]):
                    self._move(pod, index)
                    if self._steps > 0 and all(
                        self._place_or_move(each, visited) for each in reversed(taken)
                    ):
                        return True
                    break
            self.undo(start)
            if self._steps <= 0:
                break
        return False

    def _repacked(self, pods: list[PlacedPod], reached: set[PodClass]) -> tuple[bool, bool]:
        """Place all reserved pods in reach anew, together with these pods. Returns success, and
        whether it is sure."""
        moving = [
            pod for state in self.states.values() for pod in state.pods if pod.pod_class in reached
        ]
        in_order = sorted([*moving, *pods], key=_restriction)
        if self._steps <= len(in_order):
            return False, False
        for pod in moving:
            self._move(pod, -1)
        if len(in_order) <= SEARCHED:
            return self._search(in_order, 0, set()), self._steps > 0
        self._steps -= len(in_order)
        return all(map(self._place, in_order)), False

    def _search(self, pods: Sequence[PlacedPod], at: int, dead: set[object]) -> bool:
        """Place the pods from index `at` on, in every way. Of nodes of one class with the same room
        one is tried."""
        if at == len(pods):
            return True
        mark = (at, tuple(sorted(map(self._alike, {pod.node for pod in pods[:at]}))))
        if mark in dead:
            return False
        pod = pods[at]
        tried = set[object]()
        for _, index in [
            each for each in self.order(pod.pod_class, pod.room) if self.is_valid(each, pod.room)
        ]:
            if self._alike(index) not in tried:
                tried.add(self._alike(index))
                self._steps -= 1
                if self._steps <= 0:
                    return False
                self._move(pod, index)
                if self._search(pods, at + 1, dead):
                    return True
                self.undo(len(self._moves) - 1)
        dead.add(mark)
        return False

    def _alike(self, index: int) -> tuple[int, Levels, Levels]:
        """A key that is equal for nodes on which every pod fits equally well."""
        free = self.nodes.nodes[index].free
        state = self.states.get(index)
        same = (free, free, free, free)
        return self.nodes.class_of[index], *((state.whole, state.left) if state else (same, same))
