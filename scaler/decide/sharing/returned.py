"""Nodes that became usable: new, Ready again, uncordoned, a taint or label that kept pods off gone,
chips healed. They end a backoff early (3b.5f of the contract). Asks only: must not write."""

from __future__ import annotations

from scaler.decide.draft import Draft
from scaler.decide.nodes import Node, PodRequest, Where, accepts, tolerates
from scaler.decide.room.classes import NodeIndex
from scaler.decide.sharing.part import Part


def usable_since(nodes: NodeIndex, node: Node, where: Where) -> float:
    """When the node became usable to pods with these constraints; 0.0 = it is not, or was when the
    scaler began to watch."""
    if not nodes.takes(where, node):
        return 0.0
    for one in reversed(node.returns):
        if one.node_class is None:
            return one.at
        if not (accepts(where, one.node_class) and tolerates(where, one.passing)):
            return one.at
    return 0.0


def ends_backoff_at(part: Part, draft: Draft) -> float:
    """5f: when a node became usable last whose free room takes a pod of the service that is not
    bound; 0.0 = none did lately."""
    nodes = part.placement.nodes
    requests = _unbound(part, draft)
    found = 0.0
    for node in nodes.returned:
        if part.now - node.returns[-1].at >= part.policy.backoff_max:
            break  # no backoff is as old as that
        for request in requests:
            if part.placement.takes(request, node.free):
                found = max(found, usable_since(nodes, node, request.where))
    return found


def _unbound(part: Part, draft: Draft) -> set[PodRequest]:
    """The distinct requests of pods of the service that are not bound."""
    demand = draft.demand
    members = [*demand.irrevocable, *demand.with_the_scheduler]
    for candidates in demand.candidates.values():
        members += candidates
    requests = set()
    for pods in {member.instance.unbound for member in members}:
        requests.update([request for request, _ in part.understood(pods)])
    return requests
