"""Instances and nodes as they will be once the writes under way are done. Pure; it decides nothing.

Until a write has come back through the watch, what the cache shows is older. Without this the next decision would give
the room of pods that are being created to somebody else, and would not see the room that an eviction is making.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scaler.decide.nodes import Amounts, Node, Nodes
from scaler.decide.world import Admit, Complete, Evict, Instance, Revoke, SlotAction

GRACE = 30.0
"""Seconds until an evicted pod is taken to be gone, as long as its deletionTimestamp has not been seen: the default of
Kubernetes."""


def foreseen(instance: Instance, action: SlotAction, since: float) -> Instance:
    """The instance after this was done to it; `since` is when it began."""
    match action:
        case Admit() | Complete():
            return _admitted(instance, since)
        case Revoke():
            return _revoked(instance)
        case Evict():
            return _evicted(instance, since)


def _admitted(instance: Instance, since: float) -> Instance:
    """With all pods, where they are made here; without gates."""
    return msgspec.structs.replace(
        instance,
        pods=instance.expected if instance.made_by_us else instance.pods,
        gated=0,
        admitted_at=instance.admitted_at or since,
        newest=instance.newest or since,
        leftovers=instance.leftovers or instance.made_by_us,
    )


def _revoked(instance: Instance) -> Instance:
    """Without its unbound pods, or with gated ones where somebody else makes them again."""
    if instance.made_by_us:
        left = instance.admitted_at if instance.bound else 0.0
        newest = instance.newest if instance.bound else 0.0
        return msgspec.structs.replace(
            instance, pods=instance.bound, gated=0, admitted_at=left, newest=newest, leftovers=False
        )
    return msgspec.structs.replace(instance, gated=instance.pods - instance.bound)


def _evicted(instance: Instance, since: float) -> Instance:
    """Only terminating; unbound pods vanish at once."""
    ends_by = instance.ends_by
    if instance.bound and ends_by >= 0:
        ends_by = max(ends_by, since + GRACE)
    return msgspec.structs.replace(
        instance,
        pods=0,
        gated=0,
        bound=0,
        running=0,
        ready=0,
        ended=0,
        crashing=0,
        faulty=0,
        terminating=instance.terminating + instance.bound,
        admitted_at=0.0,
        newest=0.0,
        ends_by=ends_by,
        unbound=instance.needs,
        seats=(),
    )


def with_evictions(nodes: Nodes, evicted: Iterable[tuple[Instance, float]]) -> Nodes:
    """The nodes with the bound pods of these instances as ending. Each comes with the time from which it is evicted."""
    added: dict[str, list[tuple[float, Amounts]]] = {}
    for instance, since in evicted:
        for name, request in instance.seats:
            amounts = dict(request.requests)
            taken = tuple(amounts.get(resource, 0) for resource in nodes.resources)
            added.setdefault(name, []).append((since + GRACE, taken))
    return msgspec.structs.replace(
        nodes, nodes=tuple(_ending(node, added[node.name]) if node.name in added else node for node in nodes.nodes)
    )


def _ending(node: Node, more: list[tuple[float, Amounts]]) -> Node:
    by_deadline = dict(node.ending)
    for gone_by, amounts in more:
        known = by_deadline.get(gone_by)
        by_deadline[gone_by] = amounts if known is None else tuple(map(sum, zip(known, amounts, strict=True)))
    return msgspec.structs.replace(node, ending=tuple(sorted(by_deadline.items())))
