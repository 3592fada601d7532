"""What is free on the nodes, kept up to date event by event: alike nodes are counted together.

Every event costs the same whatever the size of the cluster; only a change in what needs can tell nodes apart by looks
at all nodes once. Holds no pods: what a pod asks for is told again when it goes. Must not raise on anything that a
node or pod says, and must not decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from scaler.decide.nodes import NODE_NAME, REPELLING, Capacity, NodeClass, PodRequest, Room, Taint, Terms, terms_of
from scaler.workloads.needs import Requests

SAID_OTHERWISE = frozenset({f"node.kubernetes.io/{word}" for word in ("not-ready", "unreachable", "unschedulable")})
"""Taints with which Kubernetes repeats that a node is not Ready or is cordoned."""
PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Keys of taints with which Kubernetes speaks of a condition begin so; they go by themselves."""
_CHIP = re.compile(r"(.+)-[0-9]+")


class NodeFacts(msgspec.Struct, frozen=True, gc=False):
    """What is known of a node. Amounts are whole, as `workloads.needs.whole_amounts` gives them."""

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = {}
    capacity: Mapping[str, int] = {}
    """With the devices that its kubelet does not count as allocatable because they are faulty."""
    ready: bool = True
    unschedulable: bool = False
    """Cordoned."""
    unhealthy: bool = False
    """Reported as faulty as a whole."""
    faulty: Mapping[str, int] = {}
    """Devices that are reported as faulty, by resource."""


class PodLoad(msgspec.Struct, frozen=True, gc=False):
    """What a pod takes from a node. Without a node it takes nothing."""

    node: str
    requests: Requests
    terminating: bool = False
    ended: bool = False
    """Phase Succeeded or Failed: it takes nothing any more."""


def faulty_devices(chips: Iterable[str]) -> dict[str, int]:
    """Faulty chips as they are named in reports (`Ascend910-3`), counted by resource (`huawei.com/Ascend910`)."""
    names = (_CHIP.fullmatch(chip) for chip in chips)
    return dict(Counter(f"huawei.com/{found[1]}" for found in names if found))


class _Home(msgspec.Struct, frozen=True, gc=False):
    """What of a node its pods do not change."""

    kind: NodeClass
    allocatable: tuple[int, ...]
    have: Mapping[str, int]
    """Allocatable, less faulty devices."""
    schedulable: bool
    passing: tuple[Taint, ...]


class _Entry:
    """One node and what sits on it. `room` is where it is counted now."""

    __slots__ = ("facts", "home", "leaving", "room", "used")

    def __init__(self) -> None:
        self.facts: NodeFacts | None = None
        self.home: _Home | None = None
        self.used: dict[str, int] = {}
        """By all bound pods that have not ended, those that are terminating included."""
        self.leaving: dict[str, int] = {}
        """By the terminating ones of them."""
        self.room: Room | None = None


class CapacityIndex:
    """Nodes by name and by room. Feed it every node and every pod, of whatever namespace."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._needs: frozenset[PodRequest] = frozenset()
        self._terms = terms_of(())
        self._kinds: dict[NodeClass, NodeClass] = {}
        self._rooms: dict[Room, int] = {}
        self._capacity: Capacity | None = None
        self._overcommitted: dict[str, None] = {}
        self._touched: dict[str, None] = {}
        """Nodes that are to be counted anew before anybody asks: a burst about one node counts it once."""

    def node_changed(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        """The node has come, has become another, or has gone."""
        facts = new or old
        if facts is None or old == new:
            return
        entry = self._entry(facts.name)
        entry.facts = new
        entry.home = self._home(new) if new is not None else None
        self._touched[facts.name] = None

    def pod_changed(self, old: PodLoad | None, new: PodLoad | None) -> None:
        """The pod has come, has become another, or has gone; `old` is what was told of it last."""
        if old == new:
            return
        touched = [load.node for load in (old, new) if load is not None and load.node and not load.ended]
        for load, sign in ((old, -1), (new, 1)):
            if load is not None and load.node in touched and not load.ended:
                self._load(self._entry(load.node), load, sign)
        self._touched.update(dict.fromkeys(touched))

    def capacity(self, needs: Collection[PodRequest]) -> Capacity:
        """All nodes as far as these needs can tell them apart; the same value as long as nothing changes."""
        self._recount()
        wanted = frozenset(needs)
        if wanted != self._needs:
            self._needs = wanted
            self._tell_apart_by(terms_of(wanted))
        if self._capacity is None:
            rooms = (msgspec.structs.replace(room, count=count) for room, count in self._rooms.items())
            self._capacity = Capacity(self._terms.resources, tuple(sorted(rooms)))
        return self._capacity

    def home(self, node: str) -> Room | None:
        """The room as one of which this node is counted, by itself; None for a node that is not known."""
        self._recount()
        entry = self._entries.get(node)
        return entry.room if entry is not None else None

    @property
    def is_stale(self) -> bool:
        """Whether something may have changed since `capacity` was asked last."""
        return self._capacity is None or bool(self._touched)

    @property
    def problems(self) -> dict[str, str]:
        """Node name -> what does not add up there, in words."""
        self._recount()
        found = {name: "; ".join(_exceeded(self._entries[name])) for name in self._overcommitted}
        unknown = (name for name, entry in self._entries.items() if entry.facts is None)
        return found | dict.fromkeys(unknown, "pods are bound to it, but there is no such node")

    def _recount(self) -> None:
        touched, self._touched = self._touched, {}
        for name in touched:
            self._count(name, self._entries[name])

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _Entry()
        return entry

    def _tell_apart_by(self, terms: Terms) -> None:
        if terms == self._terms:
            return
        self._terms = terms
        self._capacity = None
        self._rooms.clear()
        self._kinds.clear()
        for name, entry in self._entries.items():
            entry.room = None
            entry.home = self._home(entry.facts) if entry.facts is not None else None
            self._count(name, entry)

    @staticmethod
    def _load(entry: _Entry, load: PodLoad, sign: int) -> None:
        _add(entry.used, load.requests, sign)
        if load.terminating:
            _add(entry.leaving, load.requests, sign)

    def _count(self, name: str, entry: _Entry) -> None:
        """Count the node where it belongs now, and forget it when nothing is known of it."""
        room = self._room(entry.home, entry) if entry.home is not None else None
        if room is None and not entry.used:
            del self._entries[name]
        if room != entry.room:
            self._move(entry.room, room)
            entry.room = room
        if _exceeded(entry):
            self._overcommitted[name] = None
        else:
            self._overcommitted.pop(name, None)

    def _move(self, old: Room | None, new: Room | None) -> None:
        self._capacity = None
        if old is not None:
            self._rooms[old] -= 1
            if not self._rooms[old]:
                del self._rooms[old]
        if new is not None:
            self._rooms[new] = self._rooms.get(new, 0) + 1

    def _home(self, facts: NodeFacts) -> _Home:
        passing = tuple(taint for taint in facts.taints if taint.key.startswith(PASSING))
        stays = (taint for taint in facts.taints if taint not in passing)
        kind = self._terms.kind({**facts.labels, NODE_NAME: facts.name}, stays)
        return _Home(
            kind=self._kinds.setdefault(kind, kind),
            allocatable=self._terms.whole(_when_well(facts)),
            have=_in_order(facts),
            schedulable=facts.ready and not facts.unschedulable and not facts.unhealthy,
            passing=tuple(sorted({t for t in passing if t.effect in REPELLING and t.key not in SAID_OTHERWISE})),
        )

    def _room(self, home: _Home, entry: _Entry) -> Room:
        free, due_back = [], []
        for name, grain in zip(self._terms.resources, self._terms.grains, strict=True):
            left = home.have.get(name, 0) - entry.used.get(name, 0)
            soon = (left + entry.leaving.get(name, 0)) // grain * grain
            now = left // grain * grain if home.schedulable else 0
            free.append(now)
            due_back.append(soon - now)
        return Room(home.kind, home.allocatable, tuple(free), tuple(due_back), home.schedulable, home.passing)


def _when_well(facts: NodeFacts) -> Mapping[str, int]:
    """What it has with every device in order; of cpu and memory the system keeps a part."""
    if facts.capacity == facts.allocatable:
        return facts.allocatable
    return {**facts.allocatable, **{name: amount for name, amount in facts.capacity.items() if "/" in name}}


def _in_order(facts: NodeFacts) -> Mapping[str, int]:
    """What is allocatable, less the faulty devices that the kubelet still counts."""
    have = facts.allocatable
    for name, number in facts.faulty.items():
        allocatable = facts.allocatable.get(name, 0)
        detected = max(0, facts.capacity.get(name, allocatable) - allocatable)
        have = {**have, name: allocatable - max(0, number - detected)}
    return have


def _exceeded(entry: _Entry) -> list[str]:
    """The resources of which pods ask for more than the node has, in words."""
    if entry.facts is None:
        return []
    have = entry.facts.allocatable
    return [
        f"{name}: {amount} asked for, {have.get(name, 0)} allocatable"
        for name, amount in entry.used.items()
        if amount > have.get(name, 0)
    ]


def _add(amounts: dict[str, int], requests: Requests, sign: int) -> None:
    for name, amount in requests:
        total = amounts.get(name, 0) + sign * amount
        if total:
            amounts[name] = total
        else:
            amounts.pop(name, None)
