"""Trial placement: pods on nodes, how they move, and the search for a place for more.

Must not know of services, ratios or instances; a search ends after a bounded number of steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from itertools import count as numbered
from operator import attrgetter

import msgspec

from scaler.decide.node_classes import Classes, Entry, NodeIndex, PodAmounts, plus, times
from scaler.decide.nodes import Levels, PodRequest, Room

MOST_PODS = 10_000
"""More pods than this are not placed one by one: they count as finding no place."""
STEPS = 2_000
"""So many ways to move pods are tried in one call."""
EFFORT = 1_000
"""So many in vain in the life of one `Trial`."""
SEARCHED = 24
"""Of so many pods at most every placement is tried; of more, only the one that takes the most restricted first."""

by_restriction = attrgetter("rank")
_restriction = attrgetter("pod_class.rank", "room", "number")


class PodClass:
    """Pods with the same amounts and candidate nodes, at any room. Compared by identity."""

    def __init__(self, amounts: PodAmounts, classes: Classes, size: int) -> None:
        self.amounts, self.classes, self.by_resource = amounts, classes, dict(amounts)
        self.rank = (size, tuple((index, -amount) for index, amount in amounts), tuple(sorted(classes)))
        """Sorts the most restricted first: of few nodes, then the largest."""
        self.orders: dict[Room, list[Entry]] = {}
        """Nodes with room for it now, sorted. Some entries may be out of date."""
        self.read: dict[Room, int] = {}
        """So much of the log is considered in `orders`."""
        self.reserved = [0, 0, 0, 0]
        """Reserved pods, by room."""
        self.places: dict[Room, int] = {}
        """Places for such pods on all nodes with nothing reserved, as far as they were counted."""
        self.losses: dict[PodClass, float] = {}
        """How many places for such pods a pod of another class destroys at the most, as far as that was counted."""
        self._shares: dict[PodClass, int] = {}

    def share(self, other: PodClass) -> int:
        """How many places for such pods a pod of the other class takes at the least, wherever it is put."""
        if other not in self._shares:
            shares = [other.by_resource.get(index, 0) // amount for index, amount in self.amounts]
            self._shares[other] = min(shares, default=0) if other.classes <= self.classes else 0
        return self._shares[other]


class NodeState:
    """A node that something is or was reserved on, or whose room is not the same at every level."""

    __slots__ = ("left", "pods", "room", "whole")

    def __init__(self, whole: Levels) -> None:
        self.whole = self.left = self.room = whole
        """With nothing reserved; less what is reserved; what a pod finds that needs the levels above as well."""
        self.pods: set[PlacedPod] = set()
        self._narrow()

    def change(self, amounts: PodAmounts, level: int, sign: int) -> None:
        """Add these amounts at this level and above; with sign -1, take them."""
        left = self.left
        if level == Room.FREE and left[0] is left[3]:
            free = plus(left[0], amounts, sign)
            self.left = self.room = (free, free, free, free)
        else:
            added = [plus(one, amounts, sign) if at >= level else one for at, one in enumerate(left)]
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
    """One reserved pod."""

    pod_class: PodClass
    room: Room
    number: int
    node: int = -1


class Trial:
    """The pods of one trial placement. `due_back`: so many seconds late something may be and counts as to come."""

    def __init__(self, nodes: NodeIndex, *, now: float, due_back: float) -> None:
        self.nodes = nodes
        self._now, self._due_back = now, due_back
        self.pod_classes: dict[tuple[Classes, PodAmounts], PodClass] = {}
        self._class_of: dict[PodRequest, PodClass] = {}
        self.states: dict[int, NodeState] = {}
        self._log: list[int] = []
        """The nodes whose room has changed, one after the other."""
        self._moves: list[tuple[PlacedPod, int]] = []
        """Where pods were before they moved in this call."""
        self._opened = False
        self._numbers = numbered()
        self._steps, self._effort = 0, EFFORT

    # Classes of pods

    def pod_class(self, request: PodRequest) -> PodClass:
        """A resource that no node was counted for has no candidates."""
        if request not in self._class_of:
            index, classes = self.nodes.resources, self.nodes.taking(request.where)
            amounts = tuple(sorted([(index.get(name, -1), amount) for name, amount in request.requests if amount > 0]))
            known = bool(amounts) and amounts[0][0] >= 0
            self._class_of[request] = self.class_of(amounts, classes) if known else self.class_of((), Classes())
        return self._class_of[request]

    def class_of(self, amounts: PodAmounts, classes: Classes) -> PodClass:
        if (classes, amounts) not in self.pod_classes:
            size = sum([self.nodes.size[each] for each in classes])
            self.pod_classes[classes, amounts] = PodClass(amounts, classes, size)
        return self.pod_classes[classes, amounts]

    def counted(self, pods: Iterable[tuple[PodRequest, int]]) -> dict[PodClass, int]:
        counts: dict[PodClass, int] = {}
        for request, count in pods:
            if count > 0:
                pod_class = self.pod_class(request)
                counts[pod_class] = counts.get(pod_class, 0) + count
        return counts

    # Pods on nodes

    def _state(self, index: int) -> NodeState:
        if index not in self.states:
            self.states[index] = NodeState(self.nodes.nodes[index].levels(self._now, self._due_back))
        return self.states[index]

    def count_freed(self, pods: Iterable[tuple[str, PodRequest]], sign: int) -> None:
        """The room of these pods on these nodes counts as `FREED`; with sign -1, no more."""
        nodes, index = self.nodes.nodes, self.nodes.resources
        for name, request in pods:
            at = bisect_left(nodes, name, key=lambda node: node.name)
            if at < len(nodes) and nodes[at].name == name and nodes[at].schedulable:
                amounts = tuple((index[what], n) for what, n in request.requests if what in index)
                self._state(at).count_freed(amounts, sign)
                self._log.append(at)
        for pod_class in self.pod_classes.values():
            pod_class.places = {}

    def put(self, pod: PlacedPod, to: int) -> None:
        """Take the pod off its node, if it has one, and put it on another; -1 = on none."""
        for index, sign in ((pod.node, 1), (to, -1)):
            if index >= 0:
                state = self._state(index)
                state.change(pod.pod_class.amounts, pod.room, sign)
                (state.pods.discard if sign > 0 else state.pods.add)(pod)
                pod.pod_class.reserved[pod.room] -= sign
                self._log.append(index)
        pod.node = to

    def _move(self, pod: PlacedPod, to: int) -> None:
        """The same, so that it can be undone."""
        self._moves.append((pod, pod.node))
        self.put(pod, to)

    def keep(self) -> None:
        """What moved stays where it is."""
        self._moves.clear()

    def undo(self, start: int = 0) -> None:
        """Put back what moved and is not kept."""
        while len(self._moves) > start:
            self.put(*self._moves.pop())

    def order(self, pod_class: PodClass, room: Room) -> list[Entry]:
        """Nodes with room for one such pod, the fullest first. Only the first entry is sure to be up to date."""
        order, log = pod_class.orders.get(room), self._log
        if order is None:
            entries = self.nodes.fitting(pod_class.classes, pod_class.amounts).entries
            order = pod_class.orders[room] = entries.copy()
            pod_class.read[room] = 0
        if pod_class.read[room] < len(log):
            for index in set(log[pod_class.read[room] :]):
                entry = (self.states[index].room[room], index)
                if self.nodes.class_of[index] in pod_class.classes and times(pod_class.amounts, entry[0]):
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
        """How many such pods all nodes hold with nothing reserved."""
        if room not in pod_class.places:
            amounts, class_of = pod_class.amounts, self.nodes.class_of
            pod_class.places[room] = self.nodes.fitting(pod_class.classes, amounts).places + sum([
                times(amounts, state.whole[room]) - times(amounts, state.whole[Room.FREE])
                for index, state in self.states.items()
                if state.whole[room] is not state.whole[Room.FREE] and class_of[index] in pod_class.classes
            ])  # fmt: skip
        return pod_class.places[room]

    def reach(self, pod_classes: Iterable[PodClass]) -> list[PodClass]:
        """What is reserved on candidate nodes of these, on candidate nodes of that, and so on."""
        classes = Classes().union(*[each.classes for each in pod_classes])
        found, rest = [], [each for each in self.pod_classes.values() if any(each.reserved)]
        while near := [each for each in rest if not classes.isdisjoint(each.classes)]:
            found += near
            rest = [each for each in rest if each not in near]
            classes = classes.union(*[each.classes for each in near])
        return found

    def is_free_for(self, pod: PlacedPod) -> bool:
        """Whether room that is free now is enough for this pod and for those that were reserved there before it."""
        state = self.states[pod.node]
        free = state.left[Room.FREE]
        for other in sorted(state.pods, key=lambda one: one.number):
            if other.room > Room.FREE and times(other.pod_class.amounts, free):
                if other is pod:
                    return True
                free = plus(free, other.pod_class.amounts, -1)
        return pod.room == Room.FREE

    # Searching

    def find(self, wanted: Mapping[PodClass, int], room: Room) -> tuple[list[PlacedPod] | None, bool]:
        """Put all of these pods on nodes while others move; or None, nothing has moved then, and whether it is sure."""
        if room >= Room.TO_COME and not self._opened:
            self._opened = True  # consider the nodes that have more room at this level
            self._log.extend(index for index in self.nodes.unusual if self._state(index))
        total = sum(wanted.values())
        if total > MOST_PODS:
            return None, self._is_in_vain(wanted, room)
        in_order = chain.from_iterable([each] * wanted[each] for each in sorted(wanted, key=by_restriction))
        pods = [PlacedPod(each, room, next(self._numbers)) for each in in_order]
        if all(map(self._place, pods)):
            return pods, True
        self.undo()
        if self._is_in_vain(wanted, room):
            return None, True
        found, sure = self._rearranged(pods)
        if found:
            return pods, True
        self.undo()
        return None, sure

    def _place(self, pod: PlacedPod) -> bool:
        """Put the pod on the fullest node that has room for it, if there is any."""
        order = self.order(pod.pod_class, pod.room)
        if order:
            self._move(pod, order[0][1])
        return bool(order)

    def _is_in_vain(self, wanted: Mapping[PodClass, int], room: Room) -> bool:
        """Whether there are too few places on all candidate nodes for all pods that must be there; each counts as the
        number of places that it takes at the least."""
        if not all(each.classes for each in wanted):
            return True
        reserved = [each for each in self.pod_classes.values() if any(each.reserved)]
        levels = [
            level for level in Room if level == room or (level > room and any(r.reserved[level] for r in reserved))
        ]
        for level in levels:
            counts = Counter({each: sum(each.reserved[: level + 1]) for each in reserved})
            counts.update(wanted)
            for unit in [unit for unit in counts if any(unit.share(each) for each in wanted)]:
                if sum([unit.share(each) * number for each, number in counts.items()]) > self.places(unit, level):
                    return True
        return False

    def _rearranged(self, pods: list[PlacedPod]) -> tuple[bool, bool]:
        """Put these pods somewhere while others move; whether they could be, and whether that is sure."""
        self._steps = given = min(STEPS, self._effort)
        reached = self.reach({pod.pod_class for pod in pods})
        movable = any(each.reserved[room] and self.order(each, room) for each in reached for room in Room)
        found = sure = movable and all(self._place_or_move(pod, set()) for pod in pods)
        if not found:
            self.undo()
            found, sure = self._repacked(pods, set(reached))
        if not found:
            self._effort -= given - max(self._steps, 0)
        return found, sure

    def _place_or_move(self, pod: PlacedPod, visited: set[int]) -> bool:
        """Put the pod on some node, if need be where reserved pods can move away. When it fails, nothing has moved."""
        if self._place(pod):
            return True
        self._steps -= len(self.states) // 100
        amounts, classes, class_of = pod.pod_class.amounts, pod.pod_class.classes, self.nodes.class_of
        for index in sorted([at for at, state in self.states.items() if state.pods and class_of[at] in classes]):
            state, start = self.states[index], len(self._moves)
            if index in visited or not times(amounts, state.whole[pod.room]):
                continue
            visited.add(index)
            self._steps -= 1
            taken = list[PlacedPod]()
            others = [other for other in state.pods if other.pod_class is not pod.pod_class or other.room != pod.room]
            for other in sorted(others, key=_restriction, reverse=True):
                self._move(other, -1)
                taken.append(other)
                if times(amounts, state.room[pod.room]):
                    self._move(pod, index)
                    if self._steps > 0 and all(self._place_or_move(each, visited) for each in reversed(taken)):
                        return True
                    break
            self.undo(start)
            if self._steps <= 0:
                break
        return False

    def _repacked(self, pods: list[PlacedPod], reached: set[PodClass]) -> tuple[bool, bool]:
        """Take all pods in reach off their nodes and place them anew together with these; and whether that is sure."""
        moving = [pod for state in self.states.values() for pod in state.pods if pod.pod_class in reached]
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
        """Place the pods from this one on, in every way. Nodes of one class with the same room are tried once."""
        if at == len(pods):
            return True
        mark = (at, tuple(sorted(map(self._alike, {pod.node for pod in pods[:at]}))))
        if mark in dead:
            return False
        pod, tried = pods[at], set[object]()
        for _, index in [each for each in self.order(pod.pod_class, pod.room) if self.is_valid(each, pod.room)]:
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
        """The same for nodes that are as good for everything."""
        free = self.nodes.nodes[index].free
        state = self.states.get(index)
        same = (free, free, free, free)
        return self.nodes.class_of[index], *((state.whole, state.left) if state else (same, same))
