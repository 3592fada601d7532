"""Which sets of nodes can take a block: several pods at once, one on each node, all on nodes of one
super-pod (Atlas A3, annotation `sp-block`).

A topology answers one question: which sets of nodes can take a request. Nodes without a topology
are the simplest one, where each node is such a set (`orders.py`). Here a set has as many nodes as a
block has, all of one super-pod and each with room for one of the pods. These ask for all NPUs of a
node, so such a node is wholly free.

An example: super-pods `a` and `b` have 4 nodes each. In `a` 3 nodes are free, in `b` all 4. A block
of 2 takes two nodes of `a`, the super-pod with the fewest free nodes that suffice: so `b` stays
whole for a block of 4.

The scheduler spreads instead: it prefers super-pods that keep free nodes beside the block. What it
may destroy by that is counted in `invalidation.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scaler.decide.nodes import Room
from scaler.decide.room.amounts import times
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.pods import NodeState, PodClass

Block = tuple[int, ...]
"""Indexes of nodes of one super-pod."""
BySuperPod = Mapping[int, frozenset[int]]
"""Super-pod -> indexes of its nodes with room for a pod."""


class _Known:
    """The nodes with room for a pod of one class at one level."""

    __slots__ = ("nodes", "read")

    def __init__(self, nodes: dict[int, frozenset[int]]) -> None:
        self.nodes = nodes
        self.read = 0
        """How much of the log the nodes have taken into account."""


class Blocks:
    """`states`: the nodes whose room differs from that in the index. `log`: indexes of nodes whose
    room changed, in order."""

    def __init__(
        self, nodes: NodeIndex, states: Mapping[int, NodeState], log: Sequence[int]
    ) -> None:
        self._nodes = nodes
        self._states = states
        self._log = log
        self._known: dict[tuple[PodClass, Room], _Known] = {}

    def best(self, pod_class: PodClass, room: Room) -> Block:
        """The nodes for a block: of the super-pod with the fewest nodes that suffice, the fullest
        ones; none where no super-pod has enough."""
        least: tuple[int, int] | None = None
        free = self.free(pod_class, room)
        for super_pod, nodes in free.items():
            number = (len(nodes), super_pod)
            if len(nodes) >= pod_class.block and (least is None or number < least):
                least = number
        if least is None:
            return ()
        fullest_first = sorted([(self._room(index, room), index) for index in free[least[1]]])
        return tuple([index for _, index in fullest_first[: pod_class.block]])

    def left(self, pod_class: PodClass, room: Room) -> int:
        """How many such blocks find room beside all reservations."""
        return _count(pod_class, self.free(pod_class, room))

    def places(self, pod_class: PodClass, room: Room) -> int:
        """How many such blocks would find room without reservations."""
        return _count(pod_class, self.whole(pod_class, room))

    def whole(self, pod_class: PodClass, room: Room) -> BySuperPod:
        """The nodes with room for a pod of the block, without reservations."""
        nodes = dict(self._base(pod_class))
        for index, state in self._states.items():
            if state.whole[room] is not state.whole[Room.FREE]:
                self._note(
                    nodes, index, pod_class, bool(times(pod_class.amounts, state.whole[room]))
                )
        return nodes

    def free(self, pod_class: PodClass, room: Room) -> BySuperPod:
        """The nodes with room for a pod of the block, less the reservations."""
        known = self._known.get((pod_class, room))
        if known is None:
            known = self._known[pod_class, room] = _Known(dict(self._base(pod_class)))
        if known.read < len(self._log):
            for index in set(self._log[known.read :]):
                has_room = bool(times(pod_class.amounts, self._states[index].room[room]))
                self._note(known.nodes, index, pod_class, has_room)
            known.read = len(self._log)
        return known.nodes

    def _base(self, pod_class: PodClass) -> BySuperPod:
        return self._nodes.by_super_pod(pod_class.classes, pod_class.amounts)

    def _note(
        self, nodes: dict[int, frozenset[int]], index: int, pod_class: PodClass, has_room: bool
    ) -> None:
        super_pod = self._nodes.super_pods[index]
        if super_pod < 0 or self._nodes.class_of[index] not in pod_class.classes:
            return
        before = nodes.get(super_pod, frozenset())
        nodes[super_pod] = before | {index} if has_room else before - {index}

    def _room(self, index: int, room: Room) -> tuple[int, ...]:
        state = self._states.get(index)
        return self._nodes.nodes[index].free if state is None else state.room[room]


def _count(pod_class: PodClass, free: BySuperPod) -> int:
    return sum([len(nodes) // pod_class.block for nodes in free.values()])


def blocks_taken(block: int, other: int) -> int:
    """The most blocks that one placed block of `other` nodes can take away, or one pod alone, which
    counts as a block of one."""
    return -(-max(1, other) // block)


def most_blocks_lost(block: int, spare: Iterable[int], takers: Mapping[int, int]) -> int:
    """The most blocks that are lost where the takers go wherever they like. `spare`: of each
    super-pod that has a block, the nodes beside its blocks. `takers`: nodes of one of them -> how
    many of them.

    A super-pod loses its first block with the first node beyond the spare ones, and every next one
    with as many nodes as a block has. An example: blocks of 4, super-pods with 4, 6 and 48 nodes.
    Two blocks of 2 may take one node too many from the first and from the last: two blocks are
    lost."""
    units = sum(takers.values())
    nodes = sum([size * number for size, number in takers.items()])
    lost = 0
    for number in sorted(spare)[:units]:
        if nodes <= number:
            return lost
        nodes -= number + 1
        lost += 1
    return lost + nodes // block if lost else 0
