"""Which nodes Volcano tries for a gang that has to be in one HyperNode. Pure.

Modelled as Volcano does it with its plugin network-topology-aware: HyperNodes of the lowest tier
first; where pods are bound, only those around them. Soft mode, and a tier that nobody knows, leave
the gang free. Among HyperNodes of one tier the first by name is tried first, or any with a
`tie`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

from scaler.kube.api import HYPER_NODES, Object
from scaler.sim.actors import objects
from scaler.sim.actors.placement import matches


def hyper_node(name: str, tier: int, *, nodes: str = "", members: Sequence[str] = ()) -> Object:
    """A HyperNode. `nodes`: a pattern for the names of its nodes; `members`: names of HyperNodes in
    it."""
    found: list[Object] = []
    if nodes:
        found.append({"type": "Node", "selector": {"regexMatch": {"pattern": nodes}}})
    for member in members:
        found.append({"type": "HyperNode", "selector": {"exactMatch": {"name": member}}})
    return HYPER_NODES.object({"name": name}, spec={"tier": tier, "members": found})


def tried(
    group: Object | None,
    hyper_nodes: Sequence[Object],
    nodes: Sequence[Object],
    bound: Iterable[str],
    tie: random.Random | None = None,
) -> list[frozenset[str]] | None:
    """The sets of nodes that are tried in turn for this PodGroup; None where it may be anywhere.
    `bound`: the nodes of its bound pods."""
    topology = objects.spec(group).get("networkTopology") if group else None
    if not topology or topology.get("mode", "hard") != "hard" or not hyper_nodes:
        return None
    highest = topology.get("highestTierAllowed")
    if highest is None:
        named = topology.get("highestTierName")
        tiers = [_tier(one) for one in hyper_nodes if named and _tier_name(one) == named]
        if not tiers:
            return None
        highest = max(tiers)
    allowed = [one for one in hyper_nodes if _tier(one) <= highest]
    if tie is not None:
        tie.shuffle(allowed)
    found = []
    for one in sorted(allowed, key=_tier):
        inside = _nodes_in(one, hyper_nodes, nodes, frozenset())
        if inside.issuperset(bound):
            found.append(inside)
    return found


def _tier(hyper: Object) -> int:
    return int(objects.spec(hyper).get("tier") or 0)


def _tier_name(hyper: Object) -> str:
    return str(objects.spec(hyper).get("tierName") or "")


def _nodes_in(
    hyper: Object, hyper_nodes: Sequence[Object], nodes: Sequence[Object], above: frozenset[str]
) -> frozenset[str]:
    """The names of the nodes in a HyperNode. `above`: the HyperNodes that contain it."""
    found: set[str] = set()
    for member in objects.spec(hyper).get("members") or []:
        selector = member.get("selector") or {}
        exact = (selector.get("exactMatch") or {}).get("name", "")
        if member.get("type") == "HyperNode":
            for one in hyper_nodes:
                if objects.name(one) == exact and exact not in above:
                    found |= _nodes_in(one, hyper_nodes, nodes, above | {objects.name(hyper)})
            continue
        pattern = (selector.get("regexMatch") or {}).get("pattern", "")
        for node in nodes:
            name = objects.name(node)
            is_named = name == exact or (pattern and re.search(pattern, name))
            if is_named or matches(selector.get("labelMatch"), objects.labels_of(node)):
                found.add(name)
    return frozenset(found)
