"""Waiting minimums gather nodes: 3b.7d of the contract. Asks only: must not write.

Nodes return, or are added, one by one. A scale-up needs one of them, a minimum perhaps two: without
this clause scale-ups take them singly. So a node that became usable takes no scale-up for `gather`
seconds while a minimum that could use it misses room. For example a minimum needs two nodes,
`gather` is 60 s:

    at   0 s   node a returns     it is kept until 60 s: a scale-up waits
    at  40 s   node b returns     the minimum gets both
    at 100 s   node c returns     no minimum waits: a scale-up gets it at once

Each node is kept for `backoff_max` in any hour at most, so one that comes and goes all the time
holds up nobody for long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from scaler.decide.draft import Draft, requests_of
from scaler.decide.nodes import HOUR, MOST_RETURNS, Node, PodRequest
from scaler.decide.service.states import Member
from scaler.decide.sharing.part import Gatherers, Part
from scaler.decide.sharing.returned import usable_since
from scaler.decide.world import Policy


class Kept(msgspec.Struct, frozen=True, eq=False):
    """A node that takes no scale-up until that time, for the minimum of that service."""

    node: Node
    until: float
    minimum: Draft

    def __str__(self) -> str:
        until = datetime.fromtimestamp(self.until, UTC).strftime("%H:%M:%S UTC")
        return (
            f"node {self.node.name} became usable lately; until {until} it is kept for the minimum"
            f" of {self.minimum.demand.service.key.shown}"
        )


def gathers(part: Part, draft: Draft) -> Gatherers:
    """The minimums that gather, this one included, unless it has had its attempt. Of those that
    miss pods with the same requests one stands for all: one of the highest priority."""
    missing = [*draft.demand.bound_in_part, *draft.demand.first_candidates()]
    if any(draft.memory_of(member.uid).had_its_attempt for member in missing):
        return part.gatherers
    requests = frozenset([request for request, _ in requests_of(missing)])
    known = part.gatherers.get(requests)
    if known is not None and known.demand.priority >= draft.demand.priority:
        return part.gatherers
    return {**part.gatherers, requests: draft}


def kept_from(part: Part, draft: Draft, member: Member) -> Kept | None:
    """A node on which the scheduler could bind a pod of this scale-up, and which is kept for a
    minimum of the same or a higher priority."""
    if not part.gatherers:
        return None
    requests = [request for request, _ in part.understood(member.instance.unbound)]
    for node in _came_lately(part):
        if any(_may_land(part, node, request) for request in requests):
            for missing, minimum in part.gatherers.items():
                if minimum.demand.priority >= draft.demand.priority:
                    until = _kept_until(part, node, missing)
                    if part.now < until:
                        return Kept(node, until, minimum)
    return None


def moments(part: Part) -> Iterator[float]:
    """The times at which nodes cease to be kept."""
    for missing in part.gatherers:
        for node in _came_lately(part):
            yield _kept_until(part, node, missing)


def most_kept_until(node: Node, policy: Policy) -> float:
    """Until when the node is kept for anybody after it became usable last: for `gather`, and in any
    hour for no longer than `backoff_max`."""
    if not node.returns or len(node.returns) >= MOST_RETURNS:
        return 0.0
    *earlier, last = node.returns
    kept = 0.0
    counted = last.at - HOUR
    for one in earlier:
        ends = min(one.at + policy.gather, last.at)
        if ends > counted:
            kept += ends - max(one.at, counted)
            counted = ends
    return last.at + max(0.0, min(policy.gather, policy.backoff_max - kept))


def _came_lately(part: Part) -> Iterator[Node]:
    for node in part.placement.nodes.returned:
        if part.now >= node.returns[-1].at + part.policy.gather:
            return
        if part.now < most_kept_until(node, part.policy):
            yield node


def _may_land(part: Part, node: Node, request: PodRequest) -> bool:
    """Whether the scheduler could bind such a pod on the node now."""
    return part.placement.accepts(request, node) and part.placement.takes(request, node.free)


def _kept_until(part: Part, node: Node, missing: Iterable[PodRequest]) -> float:
    """Until when the node is kept for a minimum that misses such pods; 0.0 = it could not use the
    node. What ends there, and chips that are away, count as room: chips may return one by one,
    too."""
    since = 0.0
    for request in missing:
        if part.placement.takes(request, node.at_best):
            since = max(since, usable_since(part.placement.nodes, node, request.where))
    return min(since + part.policy.gather, most_kept_until(node, part.policy)) if since else 0.0
