"""Nodes by kind: what is free, used, held to no use and asked for, and who waits for it. Values only.

Counted from what the decision sees: nothing here decides. Amounts are of devices (resources with a `/`), where there
are none of pods.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scaler.decide.explain import amount_in_words, where_in_words, words
from scaler.decide.nodes import NODE_NAME, PODS, Node, NodeClass, Nodes, PodRequest, accepts
from scaler.decide.world import Decision, Instance, Plan, Reason, Service, State, World
from scaler.tools.cluster.detail import node_trouble
from scaler.tools.cluster.reading import Cluster

MOST_GUESTS = 12
"""Services that are named of one node."""
WAITS = frozenset(
    {
        Reason.MINIMUM_DOES_NOT_FIT,
        Reason.MINIMUM_TOO_LARGE,
        Reason.MINIMUM_NOT_SCHEDULED,
        Reason.WAITING_FOR_ROOM,
        Reason.WAITING_FOR_CAPACITY,
        Reason.WAITING_FOR_SCHEDULER,
        Reason.PREEMPTED,
    }
)
"""Reasons that are about room."""
RESERVED = frozenset({Reason.WAITING_FOR_ROOM, Reason.WAITING_FOR_SCHEDULER})
"""Room is kept for these."""
Row = dict[str, Any]


Takes = tuple[bool, Counter[str]]
"""Whether the service serves, and what its pods take of a node."""


class _Seen(NamedTuple):
    """What was counted of a service."""

    service: Service
    serves: bool
    nodes: tuple[str, ...]


class Rooms:
    """Call `look` after a change: three tables of rows by name. What has not changed is not counted again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._services: dict[str, _Seen] = {}
        self._guests: defaultdict[str, dict[str, Takes]] = defaultdict(dict)
        """By node, then by service."""
        self._moved: set[str] = set()
        """Nodes of which the guests are others than when they were counted."""
        self._known: dict[str, Node] = {}
        self._nodes: dict[str, Row] = {}

    def look(self) -> dict[str, dict[str, Row]]:
        """`kinds`, `nodes` and `waiting`, as they are now."""
        world, decision = self._cluster.decision()
        nodes = world.nodes or _seen(self._cluster, world)
        self._count_guests(world, decision)
        self._count_nodes(nodes)
        waiting = dict(_waiting(world, decision))
        return {"kinds": _kinds(nodes, self._nodes, waiting), "nodes": self._nodes, "waiting": waiting}

    def _count_guests(self, world: World, decision: Decision) -> None:
        gone = set(self._services)
        for service, plan in zip(world.services, decision.plans, strict=True):
            key = str(service.key)
            gone.discard(key)
            known = self._services.get(key)
            if known is None or known.service is not service or known.serves != plan.serves:
                self._forget(key)
                self._count(key, service, serves=plan.serves)
        for key in gone:
            self._forget(key)

    def _count(self, key: str, service: Service, *, serves: bool) -> None:
        seats = [seat for instance in service.instances for seat in instance.seats]
        for node, need in seats:
            self._guests[node].setdefault(key, (serves, Counter()))[1].update(dict(need.requests))
        self._services[key] = _Seen(service, serves, tuple({node for node, _ in seats}))
        self._moved.update(self._services[key].nodes)

    def _forget(self, key: str) -> None:
        known = self._services.pop(key, None)
        for node in known.nodes if known else ():
            self._guests[node].pop(key, None)
            self._moved.add(node)

    def _count_nodes(self, nodes: Nodes) -> None:
        for node in nodes.nodes:
            if self._known.get(node.name) is not node or node.name in self._moved:
                self._known[node.name] = node
                self._nodes[node.name] = _node(self._cluster, node, nodes, self._guests.get(node.name, {}))
        self._moved = set()
        if len(self._nodes) != len(nodes.nodes):
            for name in self._nodes.keys() - {node.name for node in nodes.nodes}:
                del self._nodes[name], self._known[name]


def _seen(cluster: Cluster, world: World) -> Nodes:
    """Where services are not weighed against each other, the nodes are shown all the same."""
    asked = {need for one in world.services for instance in one.instances for need, _ in instance.needs}
    return cluster.state.capacity.nodes(frozenset(asked))


def _devices(resources: Iterable[str]) -> list[str]:
    return [name for name in resources if "/" in name] or [PODS]


def _node(cluster: Cluster, node: Node, nodes: Nodes, guests: Mapping[str, Takes]) -> Row:
    """`amounts`: resource -> all, free, used by services that serve, held to no use."""
    amounts = {}
    for name in _devices(nodes.resources):
        at = nodes.resources.index(name)
        if node.allocatable[at]:
            serving = sum(taken[name] for serves, taken in guests.values() if serves)
            idle = sum(taken[name] for serves, taken in guests.values() if not serves)
            amounts[name] = [node.allocatable[at], max(0, node.free[at]), serving, idle]
    state = "notReady" if not node.ready else "cordoned" if node.cordoned else "ready"
    return {
        "kind": _kind(node),
        "state": state,
        "trouble": node_trouble(cluster, node.name),
        "amounts": amounts,
        "guests": [[key, serves] for key, (serves, _) in sorted(guests.items())][:MOST_GUESTS],
    }


def _kind(node: Node) -> str:
    """The labels that pods choose nodes by; "" when nobody chooses."""
    labels = [f"{key}={value}" for key, value in node.node_class.labels if key != NODE_NAME]
    taints = [f"{taint.key}:{taint.effect}" for taint in node.node_class.taints]
    return ", ".join([*labels, *taints])


def _kinds(nodes: Nodes, rows: Mapping[str, Row], waiting: Mapping[str, Row]) -> dict[str, Row]:
    """`amounts`: resource -> all, free, used by services that serve, held to no use, free on nodes that take no pods
    now, and what at the most is asked for by those for whom room is kept."""
    found: dict[str, Row] = {}
    classes: dict[str, set[NodeClass]] = {}
    for node in nodes.nodes:
        row = rows[node.name]
        name, state = row["kind"], row["state"]
        kind = found.get(name)
        if kind is None:
            kind = found[name] = {"nodes": 0, "ready": 0, "cordoned": 0, "notReady": 0, "amounts": {}}
            classes[name] = set()
        kind["nodes"] += 1
        kind[state] += 1
        classes[name].add(node.node_class)
        for resource, (most, free, serving, idle) in row["amounts"].items():
            sums = kind["amounts"].setdefault(resource, [0] * 6)
            sums[0] += most
            sums[1 if state == "ready" else 4] += free
            sums[2] += serving
            sums[3] += idle
    for kind_name, kind in found.items():
        for need, count in (one for row in waiting.values() if row["reserved"] for one in row["pods"]):
            if any(accepts(need.where, one) for one in classes[kind_name]):
                for name, amount in need.requests:
                    if name in kind["amounts"]:
                        kind["amounts"][name][5] += amount * count
    for row in waiting.values():
        del row["pods"]
    return found


def _waiting(world: World, decision: Decision) -> Iterator[tuple[str, Row]]:
    for service, plan in zip(world.services, decision.plans, strict=True):
        if not plan.complete:
            row = _waits(service, plan)
            if row is not None:
                yield str(service.key), row


def _waits(service: Service, plan: Plan) -> Row | None:
    """What a service waits for, for the first reason that it gives."""
    instances = {instance.uid: instance for instance in service.instances}
    found = [one for one in plan.verdicts if one.reason in WAITS and one.state is not State.RUNNING]
    if not found:
        return None
    first = min(found, key=lambda one: (one.reason not in RESERVED, one.name))
    alike = [instances[one.uid] for one in found if one.reason is first.reason and one.uid in instances]
    pods = _pods(alike)
    return {
        "serves": plan.serves,
        "reserved": first.reason in RESERVED,
        "reason": first.reason.value,
        "message": words(first, plan),
        "instances": [instance.name for instance in alike][:MOST_GUESTS],
        "number": len(alike),
        "asks": [f"{count} × {_need_in_words(need)}" for need, count in pods.items()],
        "pods": list(pods.items()),
    }


def _pods(instances: Iterable[Instance]) -> Counter[PodRequest]:
    found: Counter[PodRequest] = Counter()
    for instance in instances:
        for need, count in instance.unbound or instance.needs:
            found[need] += count
    return found


def _need_in_words(need: PodRequest) -> str:
    asked = dict(need.requests)
    amounts = ", ".join(
        amount_in_words(name, asked[name]).replace(" free ", " ") for name in _devices(asked) if asked.get(name)
    )
    return amounts + where_in_words(need.where)
