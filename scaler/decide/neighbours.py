"""Which services share nodes: a static fact, whatever any of them is doing now.

Two services share nodes when some class of nodes could ever run pods of both. Must not look at what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scaler.decide.demand import Demand
from scaler.decide.draft import Draft
from scaler.decide.nodes import NodeClass, PodRequests
from scaler.decide.placement import Placement

Requests = frozenset[PodRequests]
"""What the instances of a service ask for, each once: equal for services of the same make."""


class Neighbours:
    """`demands` are those of all services that are weighed against each other, at rest or not."""

    def __init__(self, demands: Iterable[Demand], placement: Placement) -> None:
        self._placement = placement
        self._services = Counter(demand.requests for demand in demands)
        self._classes: dict[Requests, frozenset[NodeClass]] = {}
        self._alone: dict[Requests, bool] = {}
        self._share: dict[tuple[Requests, Requests], bool] = {}

    def classes(self, draft: Draft) -> frozenset[NodeClass]:
        """Classes of nodes that any of its instances may run on."""
        return self._of(draft.demand.requests)

    def share(self, one: Draft, other: Draft) -> bool:
        """Whether some node could run pods of both."""
        return self._meet(one.demand.requests, other.demand.requests)

    def is_alone(self, draft: Draft) -> bool:
        """Whether it shares nodes with no other service."""
        own = draft.demand.requests
        known = self._alone.get(own)
        if known is None:
            others = ((requests, number - (requests == own)) for requests, number in self._services.items())
            known = self._alone[own] = not any(number and self._meet(own, requests) for requests, number in others)
        return known

    def any_near(self, draft: Draft, others: Iterable[Draft]) -> bool:
        """Whether one of these shares nodes with it; it may be one of them."""
        return any(other is draft or self.share(draft, other) for other in others)

    def is_narrower(self, one: Draft, other: Draft) -> bool:
        """Whether it can use some of the nodes of another service, and no others."""
        return self._of(one.demand.requests) < self._of(other.demand.requests)

    def _meet(self, one: Requests, other: Requests) -> bool:
        known = self._share.get((one, other))
        if known is None:
            known = self._share[one, other] = not self._of(one).isdisjoint(self._of(other))
        return known

    def _of(self, requests: Requests) -> frozenset[NodeClass]:
        found = self._classes.get(requests)
        if found is None:
            classes = [self._placement.node_classes(each) for each in requests]
            found = self._classes[requests] = frozenset[NodeClass]().union(*classes)
        return found
