"""The nodes of a decision, by class and sorted by free room; which pods may run on them, and which
services share them.

Depends on nodes and pod requests alone. Must not reserve room, and must not look at the state of
services."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from itertools import chain, compress
from operator import attrgetter, is_not
from typing import NamedTuple

from msgspec.structs import replace

from scaler.decide.nodes import (
    COUNTED_IN,
    PODS,
    Amounts,
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    PodRequests,
    Taint,
    Where,
    accepts,
    class_asked_for,
    tolerates,
)
from scaler.decide.room.amounts import PodAmounts, Slack, slack_of, times
from scaler.decide.work import Work

FEW = 64
"""Node constraints that an index may remember although no pod has them."""
UNITS_OF_ACCEPTING = 4
"""The work of asking whether the nodes of a class accept a pod."""
MOST_KEPT = 1_200
"""The largest number of sorted lists that an index keeps; beyond it all but one are dropped."""

Classes = frozenset[int]
"""Numbers of node classes in one index. Nodes of one `NodeClass` with other passing taints have
another number."""
Entry = tuple[Amounts, int]
"""Free amounts of a node, and its index."""
_lasting = attrgetter("name", "node_class")
_alike = attrgetter("passing", "allocatable", "super_pod", "hyper_nodes")


def places_on_node(pod: PodAmounts, free: Amounts, tier: str) -> int:
    """How many such pods a node takes: of a block of a super-pod one, of a HyperNode all that have
    room."""
    number = times(pod, free)
    return number if tier else min(number, 1)


class NodeSets(NamedTuple):
    """Nodes with room for a pod, by the set that they are in: a super-pod or a HyperNode."""

    nodes: dict[int, frozenset[int]]
    """Number of the set -> indexes of its nodes."""
    places: dict[int, int]
    """Number of the set -> so many pods have room on its nodes."""

    def copy(self) -> NodeSets:
        return NodeSets(dict(self.nodes), dict(self.places))

    def note(self, number: int, index: int, before: int, now: int) -> None:
        """The node took so many pods before, and takes so many now. `number`: of its set; negative
        = it is in none."""
        if number < 0:
            return
        nodes = self.nodes.get(number, frozenset())
        self.nodes[number] = nodes | {index} if now else nodes - {index}
        self.places[number] = self.places.get(number, 0) + now - before


class Fitting:
    """Schedulable nodes of some classes with room for one pod, sorted by free amounts; and the sum
    of their places. Not changed after it is made."""

    def __init__(self, pod: PodAmounts, entries: list[Entry], places: int) -> None:
        self._pod = pod
        self.entries = entries
        self.places = places
        self._by_set: dict[str, NodeSets] = {}

    def by_set(self, tier: str, set_of: Sequence[int]) -> NodeSets:
        """These nodes by the set that they are in. `set_of`: the set of each node of the index, in
        the topology of this tier; negative for nodes that are in none."""
        if tier not in self._by_set:
            nodes: dict[int, list[int]] = {}
            places: dict[int, int] = {}
            for free, index in self.entries:
                number = set_of[index]
                if number >= 0:
                    nodes.setdefault(number, []).append(index)
                    more = places_on_node(self._pod, free, tier)
                    places[number] = places.get(number, 0) + more
            sets = {number: frozenset(found) for number, found in nodes.items()}
            self._by_set[tier] = NodeSets(sets, places)
        return self._by_set[tier]

    @cached_property
    def slack(self) -> Slack:
        """What these nodes have left over beside the places."""
        return slack_of(self._pod, [free for free, _ in self.entries])

    def after(self, gone: Iterable[Entry], come: Iterable[Entry]) -> Fitting:
        """The value after some nodes changed; the same object where none of them had or has room.
        `gone`: their entries before; `come`: their entries now."""
        gone = self._with_room(gone)
        come = self._with_room(come)
        if not (gone or come):
            return self
        entries = self.entries.copy()
        places = self.places
        for entry in gone:
            places -= times(self._pod, entry[0])
            del entries[bisect_left(entries, entry)]
        for entry in come:
            places += times(self._pod, entry[0])
            insort(entries, entry)
        return Fitting(self._pod, entries, places)

    def _with_room(self, entries: Iterable[Entry]) -> list[Entry]:
        return [entry for entry in entries if not self._pod or times(self._pod, entry[0])]


class NodeIndex:
    def __init__(self, nodes: Nodes, work: Work | None = None) -> None:
        """`work`: where the work of reading the nodes is counted."""
        self.work = work or Work()
        self._all = nodes
        self.nodes = nodes.nodes
        self.resources = {name: index for index, name in enumerate(nodes.resources)}
        self.classes = frozenset([node.node_class for node in self.nodes])
        self.changed: frozenset[NodeClass] | None = None
        """Classes of nodes that changed since the index before; None = any class may have
        changed."""
        self._numbers: dict[tuple[NodeClass, tuple[Taint, ...]], int] = {}
        self.class_of: list[int] = []
        """The number of the class of each node."""
        self.empty: set[tuple[int, Amounts]] = set()
        """The amounts of empty nodes, with the number of their class."""
        for node in self.nodes:
            key = (node.node_class, node.passing)
            number = self._numbers.setdefault(key, len(self._numbers))
            self.class_of.append(number)
            self.empty.add((number, node.allocatable))
        self.size = Counter(self.class_of)
        self.super_pods = [node.super_pod for node in self.nodes]
        """The super-pod of each node; negative where it is in none."""
        self._hyper_nodes: dict[str, list[int]] = {}
        self._taking: dict[Where, Classes] = {}
        self._accepting: dict[Where, frozenset[NodeClass]] = {}
        self._most_remembered = FEW
        """The number of node constraints from which it is looked which of them pods still have."""
        free = [(node.free, index) for index, node in enumerate(self.nodes) if node.schedulable]
        free.sort()
        self._every = Classes(self.size)
        self._fitting = {(self._every, PodAmounts()): Fitting((), free, 0)}

    def after(self, nodes: Nodes) -> NodeIndex:
        """The index of these nodes. Where possible the sorted lists of the old index are changed,
        not made anew."""
        old = self.nodes
        now = nodes.nodes
        changed = [] if now is old else list(compress(range(len(now)), map(is_not, old, now)))
        if nodes.resources != self._all.resources or len(now) != len(old):
            return NodeIndex(nodes, self.work)
        if any(_lasting(old[index]) != _lasting(now[index]) for index in changed):
            return NodeIndex(nodes, self.work)
        few = len(changed) <= len(old) // 8
        if few and all(_alike(old[index]) == _alike(now[index]) for index in changed):
            new = self._with_free(nodes, changed) if changed else copy(self)
        else:
            new = NodeIndex(nodes, self.work)
        new.changed = frozenset([now[index].node_class for index in changed])
        return new

    def _with_free(self, nodes: Nodes, changed: Iterable[int]) -> NodeIndex:
        """A copy in which these nodes have other free amounts, or are schedulable or not."""
        gone: list[Entry] = []
        come: list[Entry] = []
        for index in changed:
            before = self.nodes[index]
            after = nodes.nodes[index]
            if before.schedulable:
                gone.append((before.free, index))
            if after.schedulable:
                come.append((after.free, index))
        new = copy(self)
        new._all = nodes
        new.nodes = nodes.nodes
        new._fitting = {}
        for (classes, pod), fitting in self._fitting.items():
            new._fitting[classes, pod] = fitting.after(
                self._within(classes, gone), self._within(classes, come)
            )
        for name in ("by_name", "unusual", "returned"):
            vars(new).pop(name, None)
        return new

    def _within(self, classes: Classes, entries: Iterable[Entry]) -> list[Entry]:
        return [entry for entry in entries if self.class_of[entry[1]] in classes]

    def fitting(self, classes: Classes, pod: PodAmounts) -> Fitting:
        """The nodes of these classes with free room for such a pod. Amounts: at least those of the
        pod."""
        known = self._fitting.get((classes, pod))
        if known is None:
            if len(self._fitting) > MOST_KEPT:
                self._fitting = {(self._every, ()): self._fitting[self._every, ()]}
            known = self._fitting[classes, pod] = self._found_fitting(classes, pod)
        return known

    def by_set(self, classes: Classes, pod: PodAmounts, tier: str) -> NodeSets:
        """The nodes of these classes with free room for such a pod, by the set that they are in."""
        return self.fitting(classes, pod).by_set(tier, self.sets(tier))

    def sets(self, tier: str) -> list[int]:
        """The set that each node is in, as a number; negative where it is in none. A topology says
        which sets of nodes can take a request: with no `tier` these are the super-pods, else the
        largest HyperNodes of a tier that is no higher. A node that is in several of them is in the
        one of the highest tier, as HyperNodes form a tree."""
        if not tier:
            return self.super_pods
        if tier not in self._hyper_nodes:
            highest = self._highest(tier)
            numbers: dict[str, int] = {}
            found = []
            for node in self.nodes:
                allowed = [one for one in node.hyper_nodes if one.tier <= highest]
                name = max(allowed).name if allowed else ""
                found.append(numbers.setdefault(name, len(numbers)) if name else -1)
            self._hyper_nodes[tier] = found
        return self._hyper_nodes[tier]

    def knows_tier(self, tier: str) -> bool:
        """Whether there are HyperNodes, and the tier is a number or the name of one of theirs.
        Otherwise the constraint is not understood, and counts as met."""
        return bool(self._tiers) and self._highest(tier) >= 0

    def tiers_up_to(self, tier: str) -> list[int]:
        """The tiers of HyperNodes that are no higher, the lowest first."""
        highest = self._highest(tier)
        found = set()
        for chain_of_node in {node.hyper_nodes for node in self.nodes}:
            found.update([one.tier for one in chain_of_node if one.tier <= highest])
        return sorted(found)

    def _highest(self, tier: str) -> int:
        """The number of this tier; negative where it is not known."""
        if tier.startswith("="):
            return self._tiers.get(tier[1:], -1)
        return int(tier) if tier.isascii() and tier.isdigit() and len(tier) < 10 else -1

    @cached_property
    def _tiers(self) -> dict[str, int]:
        """Name of a tier -> the tier; "" for tiers without a name."""
        found: dict[str, int] = {}
        for chain_of_node in {node.hyper_nodes for node in self.nodes}:
            for one in chain_of_node:
                found[one.tier_name] = max(one.tier, found.get(one.tier_name, one.tier))
        return found

    def _found_fitting(self, classes: Classes, pod: PodAmounts) -> Fitting:
        if not pod:
            return Fitting((), self._within(classes, self.fitting(self._every, ()).entries), 0)
        entries = self.fitting(classes, ()).entries
        if pod[0][0] == 0:  # sorted by this resource: skip the nodes that have too little of it
            entries = entries[bisect_left(entries, ((pod[0][1],), -1)) :]
        for position, amount in pod:
            entries = [entry for entry in entries if entry[0][position] >= amount]
            self.work.units += 1 + len(entries) // 8
        self.work.units += len(entries)
        return Fitting(pod, entries, sum([times(pod, free) for free, _ in entries]))

    @cached_property
    def offered(self) -> frozenset[str]:
        """Resources that a node offers when it is empty. `pods` is always one of them: every node
        offers it. So are the kinds of NPUs that MindCluster's scheduler counts: they are understood
        where no node has such NPUs."""
        found = {PODS}
        for name, index in self.resources.items():
            is_kind_of_npus = COUNTED_IN in name
            if is_kind_of_npus or any(allocatable[index] > 0 for _, allocatable in self.empty):
                found.add(name)
        return frozenset(found)

    def understood(self, pods: PodRequests) -> PodRequests:
        """3b.1f, 3b.7b, 3b.9a: these pods without the resources that no node offers. A scheduler
        plugin may keep account of such a resource by itself, as HAMi does of the memory of a
        shared NPU."""
        offered = self.offered
        found: list[tuple[PodRequest, int]] = []
        for request, number in pods:
            known = tuple([one for one in request.requests if one[0] in offered])
            if len(known) == len(request.requests):
                found.append((request, number))
            else:
                found.append((replace(request, requests=known), number))
        return tuple(found)

    @cached_property
    def emptied(self) -> NodeIndex:
        """The index of the same nodes, ready and empty: a pod that does not fit there never
        fits."""
        empty = []
        for node in self.nodes:
            empty.append(
                Node(
                    node.name,
                    node.node_class,
                    node.allocatable,
                    node.allocatable,
                    super_pod=node.super_pod,
                    hyper_nodes=node.hyper_nodes,
                )
            )
        return NodeIndex(Nodes(self._all.resources, tuple(empty)), self.work)

    def taking(self, where: Where) -> Classes:
        """Numbers of the classes whose nodes accept such pods now, passing taints included."""
        if where not in self._taking:
            found = []
            for (node_class, passing), number in self._numbers.items():
                if accepts(where, node_class) and tolerates(where, passing):
                    found.append(number)
            self._taking[where] = frozenset(found)
        return self._taking[where]

    def takes(self, where: Where, node: Node) -> bool:
        """Whether this node of the index takes such pods now, whatever is free on it."""
        return self._numbers[node.node_class, node.passing] in self.taking(where)

    def forget_others(self, named: Iterable[Requests]) -> None:
        """Forget the node constraints that are in none of these requests, once they are many:
        whoever edits a job gives its pods new ones each time."""
        if max(len(self._taking), len(self._accepting)) <= self._most_remembered:
            return
        wheres = {request.where for pods in chain.from_iterable(named) for request, _ in pods}
        self._taking = {one: found for one, found in self._taking.items() if one in wheres}
        self._accepting = {one: found for one, found in self._accepting.items() if one in wheres}
        self._most_remembered = FEW + 2 * len(wheres)

    def classes_for(self, pods: Iterable[tuple[PodRequest, int]]) -> frozenset[NodeClass]:
        """Classes of nodes on which some of these pods may run, whatever is free. Passing taints do
        not count. A pod that no node of the index may run counts for a node as it asks for: who
        asks for the same will share it."""
        wheres = {request.where for request, _ in pods}
        for where in wheres - self._accepting.keys():
            self.work.units += UNITS_OF_ACCEPTING * len(self.classes)
            found = [one for one in self.classes if accepts(where, one)]
            self._accepting[where] = frozenset(found or [class_asked_for(where)])
        if len(wheres) == 1:
            return self._accepting[wheres.pop()]
        return frozenset().union(*[self._accepting[where] for where in wheres])

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def unusual(self) -> list[int]:
        """Indexes of nodes with terminating pods or faulty chips, and of nodes that are not
        schedulable."""
        unusual = []
        for index, node in enumerate(self.nodes):
            if node.ending or node.away or not node.schedulable:
                unusual.append(index)
        return unusual

    @cached_property
    def returned(self) -> list[Node]:
        """The schedulable nodes that became usable while the scaler watched, the last one first."""
        returned = [node for node in self.nodes if node.returns and node.schedulable]
        return sorted(returned, key=lambda node: node.returns[-1].at, reverse=True)


Requests = frozenset[PodRequests]
"""The pod requests of the instances of a service, each once. Many services have equal ones."""


class Neighbours:
    """Services share nodes if nodes of some class could run pods of both, or if both ask for nodes
    of a class that no node has yet. Those that share nodes, directly or through others, form one
    part of the cluster.

    An example: service `a` may use nodes of class 1, `b` of 1 and 2, `c` of 2, `d` of 3. `a` and
    `c` have no class in common, but both share one with `b`: `a`, `b` and `c` form one part, and
    `d` is alone in another."""

    def __init__(self, counts: Counter[Requests], nodes: NodeIndex) -> None:
        """`counts`: pod requests -> number of weighed services with these requests."""
        self.service_counts = counts.copy()
        self.node_classes = nodes.classes
        self.classes: dict[Requests, frozenset[NodeClass]] = {}
        """Pod requests -> classes of nodes that services with these requests may use."""
        joined = _Joined()
        for number, requests in enumerate(counts):
            own = nodes.classes_for(chain.from_iterable(requests))
            self.classes[requests] = own
            joined.join(number, own)
        self.part: dict[Requests, int] = {}
        for number, requests in enumerate(counts):
            self.part[requests] = joined.part_of(number)
        self.part_of_class: dict[NodeClass, int] = {}
        for one, number in joined.first_of_class.items():
            self.part_of_class[one] = joined.part_of(number)
        self._services = Counter[int]()
        """Number of the part -> its weighed services."""
        for requests, services in counts.items():
            self._services[self.part[requests]] += services

    def shares(self, requests: Requests) -> bool:
        """Whether a service with these requests shares nodes with another service."""
        return self._services[self.part[requests]] > 1


class _Joined:
    """Numbers that are joined to parts, because they use a class of nodes in common. Each number
    knows another one of its part, up to the number of the part, which knows itself."""

    def __init__(self) -> None:
        self._next: list[int] = []
        self.first_of_class: dict[NodeClass, int] = {}
        """The first number that uses the class."""
        self._first_of_classes: dict[frozenset[NodeClass], int] = {}
        """The first number that uses just these classes."""

    def join(self, number: int, own: frozenset[NodeClass]) -> None:
        """Make one part of the next number, which uses these classes, and of all parts that use one
        of them."""
        self._next.append(number)
        alike = self._first_of_classes.setdefault(own, number)
        if alike != number and own:
            self._next[self.part_of(alike)] = number
            return
        for one in own:
            other = self.first_of_class.setdefault(one, number)
            self._next[self.part_of(other)] = number

    def part_of(self, number: int) -> int:
        """The number of its part."""
        found = number
        while self._next[found] != found:
            found = self._next[found]
        while self._next[number] != found:
            after = self._next[number]
            self._next[number] = found
            number = after
        return found
