"""Nodes by kind: what is free, used, held to no use and asked for, and who waits for it. Values only.

Counted from what the decision sees: nothing here decides. Amounts are of devices (resources with a `/`), where there
are none of pods.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scaler.decide.explain import amount_in_words, where_in_words, words
from scaler.decide.nodes import NODE_NAME, PODS, Node, Nodes, PodRequest, accepts
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


class Rooms(NamedTuple):
    """Rows by name, for three tables."""

    kinds: dict[str, Row]
    nodes: dict[str, Row]
    waiting: dict[str, Row]


def rooms(cluster: Cluster) -> Rooms:
    """As it is now."""
    world, decision = cluster.decision()
    nodes = world.nodes or _seen(cluster, world)
    guests = _guests(world, decision)
    rows = {node.name: _node(cluster, node, nodes, guests.get(node.name, {})) for node in nodes.nodes}
    waiting = dict(_waiting(world, decision))
    return Rooms(_kinds(nodes, rows, waiting), rows, waiting)


def _seen(cluster: Cluster, world: World) -> Nodes:
    """Where services are not weighed against each other, the nodes are shown all the same."""
    asked = {need for one in world.services for instance in one.instances for need, _ in instance.needs}
    return cluster.state.capacity.nodes(frozenset(asked))


def _guests(world: World, decision: Decision) -> dict[str, dict[str, tuple[bool, Counter[str]]]]:
    """Node -> service -> whether it serves, and what its pods take there."""
    found: dict[str, dict[str, tuple[bool, Counter[str]]]] = defaultdict(dict)
    for service, plan in zip(world.services, decision.plans, strict=True):
        for instance in service.instances:
            for node, need in instance.seats:
                taken = found[node].setdefault(str(service.key), (plan.serves, Counter()))[1]
                taken.update(dict(need.requests))
    return found


def _devices(resources: Iterable[str]) -> list[str]:
    return [name for name in resources if "/" in name] or [PODS]


def _node(cluster: Cluster, node: Node, nodes: Nodes, guests: Mapping[str, tuple[bool, Counter[str]]]) -> Row:
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
    classes = defaultdict(set)
    for node in nodes.nodes:
        row = rows[node.name]
        kind = found.setdefault(row["kind"], {"nodes": 0, "ready": 0, "cordoned": 0, "notReady": 0, "amounts": {}})
        kind["nodes"] += 1
        kind[row["state"]] += 1
        classes[row["kind"]].add(node.node_class)
        for name, (most, free, serving, idle) in row["amounts"].items():
            sums = kind["amounts"].setdefault(name, [0] * 6)
            shut = row["state"] != "ready"
            for index, amount in enumerate((most, 0 if shut else free, serving, idle, free if shut else 0)):
                sums[index] += amount
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
