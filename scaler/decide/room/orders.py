"""Nodes with room for one pod of a class, sorted: the fullest first. It saves time only: sorting
all nodes for each pod gives the same order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from scaler.decide.nodes import Room
from scaler.decide.room.amounts import times
from scaler.decide.room.classes import Entry, NodeIndex
from scaler.decide.room.pods import NodeState, PodClass


class _Order:
    """The sorted nodes of one pod class at one level of room."""

    __slots__ = ("entries", "read")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        """Some may be out of date: the room of the node is another now."""
        self.read = 0
        """How much of the log the entries have taken into account."""


class Orders:
    """`states`: the nodes whose room differs from that in the index."""

    def __init__(self, nodes: NodeIndex, states: Mapping[int, NodeState]) -> None:
        self._nodes = nodes
        self._states = states
        self._orders: dict[tuple[PodClass, Room], _Order] = {}
        self.log: list[int] = []
        """Indexes of nodes whose room changed, in order."""

    def of(self, pod_class: PodClass, room: Room) -> list[Entry]:
        """Nodes with room for one such pod, the fullest first. Only the first entry is surely up to
        date; ask `is_valid` about the others."""
        order = self._orders.get((pod_class, room))
        if order is None:
            fitting = self._nodes.fitting(pod_class.classes, pod_class.amounts)
            order = self._orders[pod_class, room] = _Order(fitting.entries.copy())
            self._nodes.work.units += 20 + len(fitting.entries) // 64
        if order.read < len(self.log):
            self._catch_up(order, pod_class, room)
        return order.entries

    def is_valid(self, entry: Entry, room: Room) -> bool:
        state = self._states.get(entry[1])
        return state is None or state.room[room] == entry[0]

    def _catch_up(self, order: _Order, pod_class: PodClass, room: Room) -> None:
        """Add the nodes that changed since, and drop entries that are out of date from the
        front."""
        entries = order.entries
        changed = set(self.log[order.read :])
        self._nodes.work.units += len(changed)
        for index in changed:
            free = self._states[index].room[room]
            takes = self._nodes.class_of[index] in pod_class.classes
            if takes and times(pod_class.amounts, free):
                entry = (free, index)
                position = bisect_left(entries, entry)
                if position == len(entries) or entries[position] != entry:
                    entries.insert(position, entry)
        order.read = len(self.log)
        gone = 0
        while gone < len(entries) and not self.is_valid(entries[gone], room):
            gone += 1
        self._nodes.work.units += gone // 2
        del entries[:gone]
