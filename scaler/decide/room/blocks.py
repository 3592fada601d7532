"""Which sets of nodes can take a block: several pods at once, all on nodes of one set. A set is a
super-pod (Atlas A3, annotation `sp-block`) or a HyperNode of Volcano (`networkTopology`, hard).

A topology answers one question: which sets of nodes can take a request. Nodes without a topology
are the simplest one, where each node is such a set (`orders.py`). Of a super-pod each node takes
one pod: these ask for all NPUs of a node, so such a node is wholly free. Of a HyperNode a node
takes all pods that have room.

An example: super-pods `a` and `b` have 4 nodes each. In `a` 3 nodes are free, in `b` all 4. A block
of 2 takes two nodes of `a`, the super-pod with the fewest free nodes that suffice: so `b` stays
whole for a block of 4.

The scheduler spreads instead: it prefers super-pods that keep free nodes beside the block. What it
may destroy by that is counted in `invalidation.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scaler.decide.nodes import Room
from scaler.decide.room.classes import NodeIndex, NodeSets, places_on_node
from scaler.decide.room.pods import NodeState, PodClass

Block = tuple[int, ...]
"""Indexes of nodes of one set; a node that takes several of the pods stands there so often."""


class _Known:
    """The places for pods of one class at one level."""

    __slots__ = ("of_node", "read", "sets")

    def __init__(self, sets: NodeSets) -> None:
        self.sets = sets
        self.of_node: dict[int, int] = {}
        """Places of the nodes whose room changed."""
        self.read = 0
        """How much of the log the places have taken into account."""


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
        """The nodes for a block: of the set with the fewest places that suffice, the fullest ones;
        none where no set has enough."""
        least: tuple[int, int] | None = None
        free = self.free(pod_class, room)
        for number, places in free.places.items():
            suffices = places >= pod_class.block and pod_class.allows(number)
            if suffices and (least is None or (places, number) < least):
                least = (places, number)
        if least is None:
            return ()
        fullest_first = sorted([(self._room(index, room), index) for index in free.nodes[least[1]]])
        block: list[int] = []
        for amounts, index in fullest_first:
            block += [index] * places_on_node(pod_class.amounts, amounts, pod_class.tier)
            if len(block) >= pod_class.block:
                break
        return tuple(block[: pod_class.block])

    def left(self, pod_class: PodClass, room: Room) -> int:
        """How many such blocks find room beside all reservations."""
        return blocks_in(pod_class, self.free(pod_class, room))

    def places(self, pod_class: PodClass, room: Room) -> int:
        """How many such blocks would find room without reservations."""
        return blocks_in(pod_class, self.whole(pod_class, room))

    def whole(self, pod_class: PodClass, room: Room, tier: str | None = None) -> NodeSets:
        """The places for pods of the block, without reservations. `tier`: that of another topology
        whose sets are asked about."""
        tier = pod_class.tier if tier is None else tier
        sets = self._base(pod_class, tier).copy()
        for index, state in self._states.items():
            now = state.whole[room]
            before = state.whole[Room.FREE]
            if now is not before:
                number = self._set_of(index, pod_class, tier)
                places = places_on_node(pod_class.amounts, before, tier)
                sets.note(number, index, places, places_on_node(pod_class.amounts, now, tier))
        return sets

    def free(self, pod_class: PodClass, room: Room) -> NodeSets:
        """The places for pods of the block, less the reservations."""
        tier = pod_class.tier
        known = self._known.get((pod_class, room))
        if known is None:
            known = self._known[pod_class, room] = _Known(self._base(pod_class, tier).copy())
        if known.read < len(self._log):
            for index in set(self._log[known.read :]):
                state = self._states[index]
                number = self._set_of(index, pod_class, tier)
                before = known.of_node.get(index)
                if before is None:  # as in the index
                    before = places_on_node(pod_class.amounts, state.whole[Room.FREE], tier)
                now = places_on_node(pod_class.amounts, state.room[room], tier)
                known.of_node[index] = now
                known.sets.note(number, index, before, now)
            known.read = len(self._log)
        return known.sets

    def _base(self, pod_class: PodClass, tier: str) -> NodeSets:
        return self._nodes.by_set(pod_class.classes, pod_class.amounts, tier)

    def _set_of(self, index: int, pod_class: PodClass, tier: str) -> int:
        """The set that the node is in; negative where the node takes no such pods."""
        accepted = self._nodes.class_of[index] in pod_class.classes
        return self._nodes.sets(tier)[index] if accepted else -1

    def _room(self, index: int, room: Room) -> tuple[int, ...]:
        state = self._states.get(index)
        return self._nodes.nodes[index].free if state is None else state.room[room]


def blocks_in(pod_class: PodClass, sets: NodeSets) -> int:
    """How many such blocks have places in these sets."""
    found = 0
    for number, places in sets.places.items():
        found += places // pod_class.block if pod_class.allows(number) else 0
    return found


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
