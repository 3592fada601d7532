"""Nodes by kind: free, used, used without serving, and reserved amounts, and waiting services.
Values only.

Counted from the input of the decision: nothing is decided here. Amounts are of devices (resources
with a `/`), or of pods where there are no devices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scaler.decide.decision import Decision, Plan, State
from scaler.decide.explain import amount_in_words, where_in_words, words
from scaler.decide.nodes import NODE_NAME, PODS, Node, NodeClass, Nodes, PodRequest, accepts
from scaler.decide.world import Instance, Service, World
from scaler.tools.common.detail import node_trouble
from scaler.tools.common.view import Cluster

MOST_GUESTS = 12
"""Services that are named per node."""
Row = dict[str, Any]


Takes = tuple[bool, Counter[str]]
"""Whether the service serves, and the amounts that its pods use on a node."""


class _Seen(NamedTuple):
    """The counts of one service."""

    service: Service
    plan: Plan
    nodes: tuple[str, ...]
    waits: Row | None
    asks: Counter[PodRequest]
    """Pods with reserved room."""


class _Kind:
    """Sums over the nodes of one kind."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.classes: Counter[NodeClass] = Counter()
        self.amounts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * 5)
        self.super_pods: Counter[int] = Counter()
        """Nodes of each super-pod."""
        self.whole: Counter[int] = Counter()
        """Those of them that are wholly free."""

    def count(self, row: Row, node_class: NodeClass, sign: int) -> None:
        """Add a node, or with -1 subtract it."""
        self.states[row["state"]] += sign
        self.classes[node_class] += sign
        if row["superPod"] >= 0:
            self.super_pods[row["superPod"]] += sign
            self.whole[row["superPod"]] += sign if _is_whole(row) else 0
        for resource, (most, free, serving, idle) in row["amounts"].items():
            sums = self.amounts[resource]
            sums[0] += sign * most
            sums[1 if row["state"] == "ready" else 4] += sign * free
            sums[2] += sign * serving
            sums[3] += sign * idle

    def row(self, asks: Mapping[PodRequest, int]) -> Row:
        """`amounts`: resource -> all, free, used by services that serve, used without serving, free
        on nodes that take no pods now, and at most requested by those with reserved room.
        `superPods`: number, nodes and wholly free nodes of each."""
        amounts = {}
        for resource, sums in sorted(self.amounts.items()):
            if sums[0]:
                amounts[resource] = [*sums, 0]
        classes = [one for one, count in self.classes.items() if count]
        for need, count in asks.items():
            if any(accepts(need.where, one) for one in classes):
                for name, amount in need.requests:
                    if name in amounts:
                        amounts[name][5] += amount * count
        states = {name: self.states[name] for name in ("ready", "cordoned", "notReady")}
        pods = [one for one, count in sorted(self.super_pods.items()) if count]
        return {
            "nodes": self.states.total(),
            **states,
            "amounts": amounts,
            "superPods": [[one, self.super_pods[one], self.whole[one]] for one in pods],
            "blocks": self._blocks(pods),
        }

    def _blocks(self, pods: Iterable[int]) -> list[list[int]]:
        """(nodes of a block, how many such blocks are free) for blocks of 1, 2, 4 and so on, up to
        the largest super-pod."""
        found = []
        size = 1
        largest = max((self.super_pods[one] for one in pods), default=0)
        while size <= largest:
            found.append([size, sum(self.whole[one] // size for one in pods)])
            size *= 2
        return found


class NodeKinds:
    """Call `look` after a change: three tables of rows by name. Unchanged parts are not counted
    again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._services: dict[str, _Seen] = {}
        self._guests: defaultdict[str, dict[str, Takes]] = defaultdict(dict)
        """By node, then by service."""
        self._moved: set[str] = set()
        """Nodes whose services differ from the last count."""
        self._known: dict[str, Node] = {}
        self._nodes: dict[str, Row] = {}
        self._kinds: defaultdict[str, _Kind] = defaultdict(_Kind)
        self._last: Nodes | None = None

    def look(self) -> dict[str, dict[str, Row]]:
        """The present `kinds`, `nodes` and `waiting`."""
        world, decision = self._cluster.decision()
        self._count_guests(world, decision)
        self._count_nodes(world.nodes or _seen(self._cluster, world))
        seen = self._services.items()
        asks: Counter[PodRequest] = Counter()
        for _, one in seen:
            if one.asks:
                asks.update(one.asks)
        kinds = {name: kind.row(asks) for name, kind in self._kinds.items()}
        return {
            "kinds": kinds,
            "nodes": self._nodes,
            "waiting": {key: one.waits for key, one in seen if one.waits},
        }

    def _count_guests(self, world: World, decision: Decision) -> None:
        gone = set(self._services)
        for service, plan in zip(world.services, decision.plans, strict=True):
            key = str(service.key)
            gone.discard(key)
            known = self._services.get(key)
            if known is None or known.service is not service or known.plan is not plan:
                self._count(key, service, plan)
        for key in gone:
            self._forget(key)

    def _count(self, key: str, service: Service, plan: Plan) -> None:
        known = self._services.get(key)
        waits, asks = _waits(service, plan)
        if known is not None and known.service is service and known.plan.serves == plan.serves:
            self._services[key] = _Seen(service, plan, known.nodes, waits, asks)
            return
        self._forget(key)
        bound_pods = [
            bound_pod for instance in service.instances for bound_pod in instance.bound_pods
        ]
        for node, need in bound_pods:
            self._guests[node].setdefault(key, (plan.serves, Counter()))[1].update(
                dict(need.requests)
            )
        nodes = tuple({node for node, _ in bound_pods})
        self._services[key] = _Seen(service, plan, nodes, waits, asks)
        self._moved.update(nodes)

    def _forget(self, key: str) -> None:
        known = self._services.pop(key, None)
        for node in known.nodes if known else ():
            self._guests[node].pop(key, None)
            self._moved.add(node)

    def _count_nodes(self, nodes: Nodes) -> None:
        if nodes is self._last and not self._moved:
            return
        for node in nodes.nodes:
            if self._known.get(node.name) is not node or node.name in self._moved:
                self._leave(node.name)
                row = _node(self._cluster, node, nodes, self._guests.get(node.name, {}))
                self._known[node.name] = node
                self._nodes[node.name] = row
                self._kinds[row["kind"]].count(row, node.node_class, 1)
        self._last = nodes
        self._moved = set()
        if len(self._nodes) != len(nodes.nodes):
            for name in self._nodes.keys() - {node.name for node in nodes.nodes}:
                self._leave(name)
                del self._nodes[name], self._known[name]

    def _leave(self, name: str) -> None:
        """Subtract what was counted of a node."""
        row = self._nodes.get(name)
        if row is not None:
            kind = self._kinds[row["kind"]]
            kind.count(row, self._known[name].node_class, -1)
            if not kind.states.total():
                del self._kinds[row["kind"]]


def _seen(cluster: Cluster, world: World) -> Nodes:
    """The nodes; also shown if services are not weighed against each other."""
    asked = set()
    for one in world.services:
        for instance in one.instances:
            for need, _ in instance.requests:
                asked.add(need)
    return cluster.state.capacity.nodes(frozenset(asked))


def _devices(resources: Iterable[str]) -> list[str]:
    """Resources of Kubernetes that count devices; not those by which MindCluster's scheduler counts
    (`...#cards`)."""
    return [name for name in resources if "/" in name and "#" not in name] or [PODS]


def _node(cluster: Cluster, node: Node, nodes: Nodes, guests: Mapping[str, Takes]) -> Row:
    """`amounts`: resource -> all, free, used by services that serve, used without serving."""
    amounts = {}
    for name in _devices(nodes.resources):
        at = nodes.resources.index(name)
        if node.allocatable[at]:
            serving = 0
            idle = 0
            for serves, taken in guests.values():
                if serves:
                    serving += taken[name]
                else:
                    idle += taken[name]
            amounts[name] = [node.allocatable[at], max(0, node.free[at]), serving, idle]
    state = "ready"
    if not node.ready:
        state = "notReady"
    elif node.cordoned:
        state = "cordoned"
    return {
        "kind": _kind(node),
        "state": state,
        "trouble": node_trouble(cluster, node.name) or node.barred,
        "superPod": node.super_pod,
        "amounts": amounts,
        "guests": [[key, serves] for key, (serves, _) in sorted(guests.items())][:MOST_GUESTS],
    }


def _is_whole(row: Row) -> bool:
    """Whether nothing of the node is used or out of order."""
    if row["state"] != "ready" or row["trouble"]:
        return False
    return all(most == free for most, free, _, _ in row["amounts"].values())


def _kind(node: Node) -> str:
    """The labels in node selectors of pods; "" if no pod selects the node by labels."""
    labels = []
    for key, value in node.node_class.labels:
        if key != NODE_NAME:
            labels.append(f"{key}={value}")
    taints = [f"{taint.key}:{taint.effect}" for taint in node.node_class.taints]
    return ", ".join([*labels, *taints])


def _waits(service: Service, plan: Plan) -> tuple[Row | None, Counter[PodRequest]]:
    """What a service waits for, for the first reason in its plan, and the pods with reserved
    room."""
    found = []
    for one in plan.verdicts:
        if one.reason.row.room_may_end_it and one.state is not State.RUNNING:
            found.append(one)
    if plan.complete or not found:
        return None, Counter()
    instances = {instance.uid: instance for instance in service.instances}
    first = min(found, key=lambda one: (not one.reason.row.room_is_kept, one.name))
    alike = []
    for one in found:
        if one.reason is first.reason and one.uid in instances:
            alike.append(instances[one.uid])
    pods = _pods(alike)
    reserved = first.reason.row.room_is_kept
    row = {
        "serves": plan.serves,
        "reserved": reserved,
        "reason": first.reason.value,
        "message": words(first, plan),
        "instances": [instance.name for instance in alike][:MOST_GUESTS],
        "number": len(alike),
        "asks": [f"{count} × {_need_in_words(need)}" for need, count in pods.items()],
    }
    return row, pods if reserved else Counter()


def _pods(instances: Iterable[Instance]) -> Counter[PodRequest]:
    found: Counter[PodRequest] = Counter()
    for instance in instances:
        for need, count in instance.unbound or instance.requests:
            found[need] += count
    return found


def _need_in_words(need: PodRequest) -> str:
    asked = dict(need.requests)
    found = []
    for name in _devices(asked):
        if asked.get(name):
            found.append(amount_in_words(name, asked[name]).replace(" free ", " "))
    amounts = ", ".join(found)
    return amounts + where_in_words(need.where)
