"""The search for places: pods are put onto nodes in thought ("fits" in the words of 3b).

Four steps, from cheap to thorough. The first that knows the answer ends the search:

1. Place each pod, the most restricted first, on the fullest node that takes it: so what is empty
   stays empty for large pods.
2. Count. Each pod takes at least so many places for pods of one class; where these are more than
   the nodes have, no placement exists.
3. Make way: reserved pods move from a node to others, so that a pod gets their room.
4. Repack: all reserved pods within reach are placed anew, together with the new ones. Up to
   `SEARCHED` pods in every way; more of them, and blocks, only once, as in step 1: the largest
   blocks first, each in the super-pod with the fewest free nodes.

An example: node `a` has 4 free, node `b` has 8. A pod of 4 that may run on both is reserved, on the
fullest: `a`. Now a pod of 4 comes that may run on `a` only. Step 1 finds no place. Step 2: there
are three places for pods of 4, and two pods, so a placement may exist. Step 3: the reserved pod
moves to `b`, and the new one gets `a`. Then a pod of 8 comes. Step 2: it takes two of the three
places, the others take one each: 2 + 1 + 1 > 3, so no placement exists.

Must not know of services, ratios or instances. A search ends after a bounded number of steps."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import count
from operator import attrgetter

from scaler.decide.nodes import Amounts, Levels, PodRequest, Room, amount_of
from scaler.decide.room.amounts import PodAmounts, plus, times
from scaler.decide.room.blocks import Blocks
from scaler.decide.room.classes import Classes, Entry, NodeIndex
from scaler.decide.room.orders import Orders
from scaler.decide.room.pods import (
    ALONE,
    NodeState,
    PlacedPod,
    PodClass,
    Together,
    by_restriction,
)

MOST_PODS = 10_000
"""The largest number of pods that is placed in one call; more pods count as finding no place."""
STEPS = 2_000
"""The largest number of moves that one call tries."""
EFFORT = 1_000
"""The largest number of moves without success in the life of one `Trial`."""
SEARCHED = 24
"""Up to so many pods, every placement is tried; for more pods only one: the most restricted pod
first."""

_restriction = attrgetter("pod_class.rank", "room", "number")


class NoPlacement(Enum):
    """Why pods were not placed."""

    IMPOSSIBLE = "no placement exists"
    UNDECIDED = "the search was given up"


class Trial:
    """The pods that are placed in thought, those of reservations included."""

    def __init__(
        self, nodes: NodeIndex, *, now: float, due_back: float, flap_patience: float
    ) -> None:
        self.nodes = nodes
        self._now = now
        self._due_back = due_back
        self._flap_patience = flap_patience
        self.pod_classes: dict[tuple[Classes, PodAmounts, bool, Together], PodClass] = {}
        self._class_of: dict[PodRequest, PodClass] = {}
        self.states: dict[int, NodeState] = {}
        """By index: nodes with a reservation, now or before, or with expected room."""
        self._orders = Orders(nodes, self.states)
        self.blocks = Blocks(nodes, self.states, self._orders.log)
        self._moves: list[tuple[PlacedPod, int, tuple[int, ...]]] = []
        """Moved pods of this call, each with the index of its node before, -1 = none, and those of
        the other nodes of its block."""
        self._opened = False
        """The nodes with expected room are among the `states`."""
        self._numbers = count()
        self._steps = 0
        """Steps that are left to this call."""
        self._effort = EFFORT
        self.freed = 0
        """How often the room that victims leave has changed."""
        self.reserved: dict[PodClass, None] = {}
        """Classes with reserved pods."""
        self.reserved_version = 0
        """Another one when a class was reserved that had not been, or is no more."""
        self.touched: set[PodClass] = set()
        """Classes of which pods were put or taken away since `Invalidation` looked."""
        # Time savers. Their keys hold all that was read.
        self._places: dict[tuple[PodClass, Room, int], int] = {}
        self._places_of: dict[tuple[PodClass, PodClass], int] = {}
        self._alike_numbers: dict[tuple[int, Levels, Levels], int] = {}
        """Class of a node and its room -> a number for nodes that are alike."""

    # pods and their classes

    def pod_class(self, request: PodRequest) -> PodClass:
        """The class of pods with this request. A pod with an unknown resource has no candidate
        nodes."""
        found = self._class_of.get(request)
        if found is None:
            found = self._class_of[request] = self._classified(request)
        return found

    def _classified(self, request: PodRequest) -> PodClass:
        index = self.nodes.resources
        amounts = []
        for name, amount in request.requests:
            if amount > 0 and name not in index:
                return self.class_of((), Classes())
            if amount > 0:
                amounts.append((index[name], amount))
        if not amounts:
            return self.class_of((), Classes())
        classes = self.nodes.taking(request.where)
        together = self._together(request)
        if together is None:
            return self.class_of((), Classes())
        return self.class_of(
            tuple(sorted(amounts)), classes, rounded=request.rounded, together=together
        )

    def class_of(
        self,
        amounts: PodAmounts,
        classes: Classes,
        *,
        rounded: bool = False,
        together: Together = ALONE,
    ) -> PodClass:
        key = (classes, amounts, rounded, together)
        if key not in self.pod_classes:
            size = sum([self.nodes.size[each] for each in classes])
            self.pod_classes[key] = PodClass(
                amounts, classes, size, rounded=rounded, together=together
            )
        return self.pod_classes[key]

    def _together(self, request: PodRequest) -> Together | None:
        """How such pods are placed together; each alone where the topology is not known. None where
        the other pods of the instance are on a node that is in no set: no node takes it."""
        tier = request.tier
        if not request.block or (tier and not self.nodes.knows_tier(tier)):
            return ALONE
        if not request.beside:
            return Together(request.block, tier)
        position = self._index_of(request.beside)
        only = self.nodes.sets(tier)[position] if position >= 0 else -1
        return Together(request.block, tier, only) if only >= 0 else None

    def counted(self, pods: Iterable[tuple[PodRequest, int]]) -> dict[PodClass, int]:
        """Pod class -> number of these pods; of a class with blocks, of blocks."""
        counts = Counter[PodClass]()
        for request, number in pods:
            if number > 0:
                pod_class = self.pod_class(request)
                units = -(-number // pod_class.block) if pod_class.block else number
                counts[pod_class] += units
        return counts

    def single_pods(self, pods: Iterable[tuple[PodRequest, int]]) -> dict[PodClass, int]:
        """Pod class -> number of these pods, each alone."""
        return {one: number * max(1, one.block) for one, number in self.counted(pods).items()}

    def reach(self, classes: Classes) -> list[PodClass]:
        """Classes of reserved pods with candidate nodes of these classes, or that share candidate
        nodes with such pods, directly or through others."""
        found: list[PodClass] = []
        rest = list(self.reserved)
        while True:
            near = []
            far = []
            for each in rest:
                if classes.isdisjoint(each.classes):
                    far.append(each)
                else:
                    near.append(each)
            if not near:
                return found
            found += near
            rest = far
            for each in near:
                classes |= each.classes

    # room

    def _state(self, index: int) -> NodeState:
        if index not in self.states:
            self.states[index] = NodeState(self._levels(index))
        return self.states[index]

    def _levels(self, index: int) -> Levels:
        node = self.nodes.nodes[index]
        return node.levels(self._now, self._due_back, self._flap_patience)

    def _open(self) -> None:
        """Take the nodes into account that have more room than is free."""
        if not self._opened:
            self._opened = True
            for index in self.nodes.unusual:
                self._state(index)
                self._orders.log.append(index)

    def count_freed(self, pods: Iterable[tuple[str, PodRequest]], sign: int) -> None:
        """Count the room of these bound pods (node name, request) as `FREED`; with sign -1 no
        more."""
        for name, request in pods:
            position = self._position(name)
            if position >= 0:
                self._state(position).count_freed(self._amounts(request), sign)
                self._orders.log.append(position)
        self.freed += 1

    def places_gained(
        self, freed: Iterable[tuple[str, PodRequest]], pods: Mapping[PodClass, int], room: Room
    ) -> int:
        """How many more of these pods find places on the nodes of `freed` (node name, request) when
        those bound pods are gone."""
        amounts_on: dict[int, list[PodAmounts]] = {}
        for name, request in freed:
            position = self._position(name)
            if position >= 0:
                amounts_on.setdefault(position, []).append(self._amounts(request))
        gained = 0
        for position, all_amounts in amounts_on.items():
            before = self._room_of(position, room)
            after = before
            for amounts in all_amounts:
                after = plus(after, amounts, 1)
            gained += self._taken(pods, position, after) - self._taken(pods, position, before)
        return min(gained, sum(pods.values()))

    def _taken(self, pods: Mapping[PodClass, int], position: int, left: Amounts) -> int:
        """How many of these pods the node takes with so much room, the most restricted first."""
        taken = 0
        for pod in sorted(pods, key=by_restriction):
            if self.nodes.class_of[position] in pod.classes:
                number = min(pods[pod], times(pod.amounts, left))
                left = plus(left, pod.amounts, -number)
                taken += number
        return taken

    def _room_of(self, position: int, room: Room) -> Amounts:
        """The room of a node, less reservations."""
        state = self.states.get(position)
        if state is not None:
            return state.room[room]
        return self._levels(position)[room]

    def _position(self, name: str) -> int:
        """The index of a schedulable node; -1 where there is none of that name."""
        position = self._index_of(name)
        return position if position >= 0 and self.nodes.nodes[position].schedulable else -1

    def _index_of(self, name: str) -> int:
        """The index of the node of this name; -1 where there is none."""
        nodes = self.nodes.nodes
        position = bisect_left(nodes, name, key=lambda node: node.name)
        is_here = position < len(nodes) and nodes[position].name == name
        return position if is_here else -1

    def _amounts(self, request: PodRequest) -> PodAmounts:
        """What such a bound pod takes of a node: of each kind of a resource as much as of the
        resource."""
        asked = dict(request.requests)
        taken = []
        for name, index in self.nodes.resources.items():
            amount = amount_of(asked, name)
            if amount:
                taken.append((index, amount))
        return tuple(taken)

    def order(self, pod_class: PodClass, room: Room) -> list[Entry]:
        """Nodes with room for one such pod, the fullest first. Only the first entry is surely up to
        date; ask `is_valid` about the others."""
        return self._orders.of(pod_class, room)

    def is_valid(self, entry: Entry, room: Room) -> bool:
        return self._orders.is_valid(entry, room)

    def places(self, pod_class: PodClass, room: Room) -> int:
        """Places for such pods on all nodes, without reservations."""
        key = (pod_class, room, self.freed)
        if key not in self._places:
            if pod_class.block:
                self._places[key] = self.blocks.places(pod_class, room)
            else:
                self._places[key] = self._counted_places(pod_class, room)
        return self._places[key]

    def _counted_places(self, pod_class: PodClass, room: Room) -> int:
        amounts = pod_class.amounts
        places = self.nodes.fitting(pod_class.classes, amounts).places
        for index, state in self.states.items():
            free = state.whole[Room.FREE]
            whole = state.whole[room]
            if whole is not free and self.nodes.class_of[index] in pod_class.classes:
                places += times(amounts, whole) - times(amounts, free)
        return places

    def not_free_for(self, pod: PlacedPod) -> list[int]:
        """Indexes of those of its nodes whose free room does not suffice for this pod and for the
        pods that were reserved before it."""
        return [index for index in pod.nodes if not self._is_free_for(pod, index)]

    def _is_free_for(self, pod: PlacedPod, index: int) -> bool:
        state = self.states[index]
        free = state.left[Room.FREE]
        for other in sorted(state.pods, key=lambda one: one.number):
            number = other.nodes.count(index)
            if other.room > Room.FREE and times(other.pod_class.amounts, free) >= number:
                if other is pod:
                    return True
                free = plus(free, other.pod_class.amounts, -number)
        return pod.room == Room.FREE

    # moves

    def put(self, pod: PlacedPod, to: int, others: tuple[int, ...] = ()) -> None:
        """Move the pod from its node, if any, to the node with index `to`; -1 = to no node.
        `others`: indexes of the other nodes of a block."""
        self.nodes.work.units += 5
        if pod.node >= 0:
            for index in pod.nodes:
                state = self._state(index)
                state.change(pod.pod_class.amounts, pod.room, 1)
                state.pods.discard(pod)
                self._orders.log.append(index)
            self._count(pod, -1)
        pod.node = to
        pod.others = others
        if to >= 0:
            for index in pod.nodes:
                state = self._state(index)
                state.change(pod.pod_class.amounts, pod.room, -1)
                state.pods.add(pod)
                self._orders.log.append(index)
            self._count(pod, 1)

    def _count(self, pod: PlacedPod, sign: int) -> None:
        """Count a pod among the reserved ones; with sign -1, no more."""
        pod_class = pod.pod_class
        pod_class.reserved[pod.room] += sign
        self.touched.add(pod_class)
        if any(pod_class.reserved) == (pod_class in self.reserved):
            return
        self.reserved_version += 1
        if sign > 0:
            self.reserved[pod_class] = None
        else:
            del self.reserved[pod_class]

    def _move(self, pod: PlacedPod, to: int, others: tuple[int, ...] = ()) -> None:
        self._moves.append((pod, pod.node, pod.others))
        self.put(pod, to, others)

    def keep(self) -> None:
        self._moves.clear()

    def undo(self, start: int = 0) -> None:
        """Undo the moves that are not kept, except the first `start` moves."""
        while len(self._moves) > start:
            pod, before, others = self._moves.pop()
            self.put(pod, before, others)

    # the search

    def find(self, wanted: Mapping[PodClass, int], room: Room) -> list[PlacedPod] | NoPlacement:
        """Place all of these pods; reserved pods may move. Without success no pod has moved."""
        if room >= Room.EXPECTED:
            self._open()
        if sum(wanted.values()) > MOST_PODS:
            in_vain = self._is_in_vain(wanted, room)
            return NoPlacement.IMPOSSIBLE if in_vain else NoPlacement.UNDECIDED
        pods = self._new_pods(wanted, room)
        if self._place_all(pods):
            return pods
        self.undo()
        if self._is_in_vain(wanted, room):
            return NoPlacement.IMPOSSIBLE
        return self._rearranged(pods)

    def _new_pods(self, wanted: Mapping[PodClass, int], room: Room) -> list[PlacedPod]:
        pods = []
        for pod_class in sorted(wanted, key=by_restriction):
            for _ in range(wanted[pod_class]):
                pods.append(PlacedPod(pod_class, room, next(self._numbers)))
        return pods

    def _place_all(self, pods: Iterable[PlacedPod]) -> bool:
        """Place each pod on the fullest node that takes it, up to the first that finds no
        place."""
        return all(self._place(pod) for pod in pods)

    def _place(self, pod: PlacedPod) -> bool:
        if pod.pod_class.block:
            block = self.blocks.best(pod.pod_class, pod.room)
            if block:
                self._move(pod, block[0], block[1:])
            return bool(block)
        order = self.order(pod.pod_class, pod.room)
        if not order:
            return False
        self._move(pod, order[0][1])
        return True

    def _is_in_vain(self, wanted: Mapping[PodClass, int], room: Room) -> bool:
        """Whether the candidate nodes have too few places for all pods, if each takes as few places
        as it can. A pod takes room at its level and at all levels above."""
        if not all(each.classes for each in wanted):
            return True
        reserved = self.reserved
        for level in Room:
            above = level > room and any(each.reserved[level] for each in reserved)
            if level == room or above:
                counts = Counter({each: sum(each.reserved[: level + 1]) for each in reserved})
                counts.update(wanted)
                if self._takes_too_many(counts, wanted, level):
                    return True
        return False

    def _takes_too_many(
        self, counts: Mapping[PodClass, int], wanted: Iterable[PodClass], level: Room
    ) -> bool:
        """Whether all pods together take more places of some class than there are. Classes of which
        no wanted pod takes a place tell nothing new."""
        self.nodes.work.units += len(counts)
        for unit in counts:
            if not any(self._places_taken(unit, each) for each in wanted):
                continue
            taken = 0
            self.nodes.work.units += len(counts) // 2
            for each, number in counts.items():
                taken += self._places_taken(unit, each) * number
            if taken > self.places(unit, level):
                return True
        return False

    def _places_taken(self, unit: PodClass, other: PodClass) -> int:
        found = self._places_of.get((unit, other))
        if found is None:
            found = self._places_of[unit, other] = unit.places_of(other)
        return found

    def _rearranged(self, pods: list[PlacedPod]) -> list[PlacedPod] | NoPlacement:
        """Place these pods while reserved pods move."""
        given = min(STEPS, self._effort)
        if given <= 0:
            return NoPlacement.UNDECIDED
        self._steps = given
        reached = self.reach(Classes().union(*[pod.pod_class.classes for pod in pods]))
        if self._is_movable(reached) and all(self._place_or_move(pod, set()) for pod in pods):
            return pods
        self.undo()
        found = self._repacked(pods, set(reached))
        if isinstance(found, NoPlacement):
            self.undo()
            self._effort -= given - max(self._steps, 0)
        return found

    def _is_movable(self, reached: Iterable[PodClass]) -> bool:
        """Whether some reserved pod has another place to go to."""
        for pod_class in reached:
            for room in Room:
                if pod_class.reserved[room] and self._has_place(pod_class, room):
                    return True
        return False

    def _has_place(self, pod_class: PodClass, room: Room) -> bool:
        if pod_class.block:
            return bool(self.blocks.best(pod_class, room))
        return bool(self.order(pod_class, room))

    def _place_or_move(self, pod: PlacedPod, visited: set[int]) -> bool:
        """Place the pod, if necessary on a node from which reserved pods move away. On failure no
        pod has moved. `visited`: nodes from which pods have been moved for it already."""
        if self._place(pod):
            return True
        if pod.pod_class.block:
            return False
        self._steps -= len(self.states) // 100
        for index in self._with_reservations(pod.pod_class):
            state = self.states[index]
            if index in visited or not times(pod.pod_class.amounts, state.whole[pod.room]):
                continue
            visited.add(index)
            self._steps -= 1
            start = len(self._moves)
            if self._make_way(pod, index, visited):
                return True
            self.undo(start)
            if self._steps <= 0:
                break
        return False

    def _with_reservations(self, pod_class: PodClass) -> list[int]:
        """Candidate nodes with a reservation, in the order of the index."""
        class_of = self.nodes.class_of
        found = []
        for index, state in self.states.items():
            if state.pods and class_of[index] in pod_class.classes:
                found.append(index)
        return sorted(found)

    def _make_way(self, pod: PlacedPod, index: int, visited: set[int]) -> bool:
        """Take pods from this node, the least restricted first, until the pod has room there; then
        find places for them."""
        state = self.states[index]
        taken = list[PlacedPod]()
        for other in sorted(_unlike(state.pods, pod), key=_restriction, reverse=True):
            self._move(other, -1)
            taken.append(other)
            if times(pod.pod_class.amounts, state.room[pod.room]):
                self._move(pod, index)
                return self._steps > 0 and all(
                    self._place_or_move(each, visited) for each in reversed(taken)
                )
        return False

    def _repacked(
        self, pods: list[PlacedPod], reached: set[PodClass]
    ) -> list[PlacedPod] | NoPlacement:
        """Place all reserved pods in reach anew, together with these pods."""
        found: dict[PlacedPod, None] = {}
        for state in self.states.values():
            found.update(dict.fromkeys([pod for pod in state.pods if pod.pod_class in reached]))
        moving = list(found)  # a block is on several nodes
        in_order = sorted([*moving, *pods], key=_restriction)
        if self._steps <= len(in_order):
            return NoPlacement.UNDECIDED
        for pod in moving:
            self._move(pod, -1)
        has_blocks = any(pod.pod_class.block for pod in in_order)
        if len(in_order) > SEARCHED or has_blocks:
            self._steps -= len(in_order)
            return pods if self._place_all(in_order) else NoPlacement.UNDECIDED
        if self._search(in_order, 0, set()):
            return pods
        return NoPlacement.IMPOSSIBLE if self._steps > 0 else NoPlacement.UNDECIDED

    def _search(self, pods: Sequence[PlacedPod], first: int, dead: set[object]) -> bool:
        """Place the pods from index `first` on, in every way. Of nodes of one class with the same
        room one is tried. `dead`: what earlier pods made of the nodes, where the others found no
        place."""
        if first == len(pods):
            return True
        mark = (first, self._made_of_nodes(pods[:first]))
        if mark in dead:
            return False
        pod = pods[first]
        tried = set[int]()
        for index in self._nodes_for(pod):
            alike = self._alike(index)
            if alike in tried:
                continue
            tried.add(alike)
            self._steps -= 1
            if self._steps <= 0:
                return False
            self._move(pod, index)
            if self._search(pods, first + 1, dead):
                return True
            self.undo(len(self._moves) - 1)
        dead.add(mark)
        return False

    def _made_of_nodes(self, pods: Iterable[PlacedPod]) -> tuple[int, ...]:
        """What these pods left of their nodes. It is asked at each step."""
        numbers = []
        for index in {pod.node for pod in pods}:
            number = self.states[index].alike
            numbers.append(number if number >= 0 else self._alike(index))
        return tuple(sorted(numbers))

    def _nodes_for(self, pod: PlacedPod) -> list[int]:
        """The nodes with room for the pod, the fullest first."""
        order = self.order(pod.pod_class, pod.room)
        return [entry[1] for entry in order if self.is_valid(entry, pod.room)]

    def _alike(self, index: int) -> int:
        """A number that is the same for nodes on which every pod fits equally well."""
        state = self.states.get(index)
        if state is None:
            free = self.nodes.nodes[index].free
            same = (free, free, free, free, free)
            return self._numbered(index, same, same)
        if state.alike < 0:
            state.alike = self._numbered(index, state.whole, state.left)
        return state.alike

    def _numbered(self, index: int, whole: Levels, left: Levels) -> int:
        key = (self.nodes.class_of[index], whole, left)
        return self._alike_numbers.setdefault(key, len(self._alike_numbers))


def _unlike(placed: Iterable[PlacedPod], pod: PlacedPod) -> list[PlacedPod]:
    """The placed pods that are of another class or level: to move one of the same gains nothing."""
    found = []
    for other in placed:
        if other.pod_class is not pod.pod_class or other.room != pod.room:
            found.append(other)
    return found
