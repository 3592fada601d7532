"""Jobs whose pods have to be in one HyperNode of Volcano, and what the HyperNodes contain. Pure.

A HyperNode is a set of nodes with a network of some speed: the lower its tier, the faster. It has
nodes or other HyperNodes as members. A PodGroup with `networkTopology` and mode `hard` has all its
pods in one HyperNode, of at most the tier `highestTierAllowed`. In mode `soft`, and without a tier,
its pods may be anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from scaler.decide.nodes import PodRequest, PodRequests
from scaler.rules.values import as_text

MODE = "volcano.sh/network-topology-mode"
"""Annotation of a pod for which Volcano makes a PodGroup."""
HIGHEST_TIER = "volcano.sh/network-topology-highest-tier"
BY_NAME = "="
"""How `PodRequest.tier` begins where it is the name of a tier."""
_LONGEST_NAME = 253
_LARGEST_TIER = 999_999_999


def tier_of(topology: Mapping[str, Any]) -> str:
    """`PodRequest.tier` of a field `networkTopology`; "" where its pods may be anywhere."""
    if topology.get("mode", "hard") != "hard":
        return ""
    tier = topology.get("highestTierAllowed")
    if isinstance(tier, int) and not isinstance(tier, bool):
        return str(tier) if 0 <= tier <= _LARGEST_TIER else ""
    name = as_text(topology.get("highestTierName"))
    return f"{BY_NAME}{name}" if 0 < len(name) <= _LONGEST_NAME else ""


def topology_in(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The field `networkTopology` that Volcano gives to the PodGroup of a pod with these
    annotations; empty for none."""
    mode = as_text(annotations.get(MODE)).lower()
    tier = as_text(annotations.get(HIGHEST_TIER))
    if MODE not in annotations and HIGHEST_TIER not in annotations:
        return {}
    topology: dict[str, Any] = {"mode": "soft" if mode == "soft" else "hard"}
    if tier.isascii() and tier.isdigit() and int(tier[:10]) <= _LARGEST_TIER:
        topology["highestTierAllowed"] = int(tier)
    return topology


def together(pods: PodRequests, tier: str) -> dict[PodRequest, PodRequest]:
    """Request of a pod -> that request where all pods of the instance have to be in one HyperNode.
    `pods`: all pods of the instance.

    Pods that ask for the same resources and the same nodes count as the largest of them. Others are
    placed apart: that they have to be in the same HyperNode is not seen."""
    alike: dict[object, Counter[PodRequest]] = {}
    for request, number in pods:
        if request.block:  # MindCluster's scheduler has a topology of its own
            continue
        names = tuple(sorted([name for name, _ in request.requests]))
        alike.setdefault((names, request.where), Counter())[request] += number
    found = {}
    for counts in alike.values():
        largest = _largest(list(counts))
        block = replace(largest, block=counts.total(), tier=tier)
        found.update(dict.fromkeys(counts, block))
    return found


def _largest(requests: Sequence[PodRequest]) -> PodRequest:
    if len(requests) == 1:
        return requests[0]
    amounts: Counter[str] = Counter()
    for request in requests:
        amounts |= Counter(dict(request.requests))
    return replace(requests[0], requests=tuple(sorted(amounts.items())), rounded=True)
