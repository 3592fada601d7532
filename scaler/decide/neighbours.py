"""Which services share nodes: a static fact, whatever any of them is doing now.

Two services share nodes when some class of nodes could ever run pods of both. Services that share nodes, directly or
through others, form one part of the cluster: parts are arbitrated apart. Must not look at what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from scaler.decide.draft import Draft
from scaler.decide.nodes import NodeClass, PodRequests

Requests = frozenset[PodRequests]
"""What the instances of a service ask for, each once: equal for services of the same make."""


class Neighbours:
    """`makes`: how many services there are of each make, at rest or not, of those that are weighed against each
    other. `classes_for`: those of the classes of nodes that some of these pods may run on."""

    def __init__(
        self,
        makes: Counter[Requests],
        classes_of_nodes: frozenset[NodeClass],
        classes_for: Callable[[PodRequests], frozenset[NodeClass]],
    ) -> None:
        self.makes, self.classes_of_nodes = makes.copy(), classes_of_nodes
        self._classes = {
            requests: frozenset[NodeClass]().union(*[classes_for(each) for each in requests]) for requests in makes
        }
        self._alone: dict[Requests, bool] = {}
        self.part, self._part_of_class = _parts(self._classes)
        """The number of the part that services of each make belong to."""

    def classes(self, draft: Draft) -> frozenset[NodeClass]:
        """Classes of nodes that any of its instances may run on."""
        return self._classes[draft.demand.requests]

    def parts_on(self, classes: Iterable[NodeClass]) -> set[int]:
        """The parts whose services may run on nodes of these classes."""
        return {self._part_of_class[one] for one in classes if one in self._part_of_class}

    def classes_of(self, part: int) -> set[NodeClass]:
        """Classes of nodes that services of this part may run on."""
        return {one for one, number in self._part_of_class.items() if number == part}

    def share(self, one: Draft, other: Draft) -> bool:
        """Whether some node could run pods of both."""
        return self._meet(one.demand.requests, other.demand.requests)

    def is_alone(self, draft: Draft) -> bool:
        """Whether it shares nodes with no other service."""
        own = draft.demand.requests
        if own not in self._alone:
            others = (requests for requests, number in self.makes.items() if number > (requests == own))
            self._alone[own] = not any(self._meet(own, requests) for requests in others)
        return self._alone[own]

    def any_near(self, draft: Draft, others: Iterable[Draft]) -> bool:
        """Whether one of these shares nodes with it; it may be one of them."""
        return any(other is draft or self.share(draft, other) for other in others)

    def is_narrower(self, one: Draft, other: Draft) -> bool:
        """Whether it can use some of the nodes of another service, and no others."""
        return self._classes[one.demand.requests] < self._classes[other.demand.requests]

    def _meet(self, one: Requests, other: Requests) -> bool:
        return not self._classes[one].isdisjoint(self._classes[other])


def _parts(classes: dict[Requests, frozenset[NodeClass]]) -> tuple[dict[Requests, int], dict[NodeClass, int]]:
    """The part of each make, and of each class of nodes."""
    of_class: dict[NodeClass, int] = {}
    part: dict[Requests, int] = {}
    for number, (requests, own) in enumerate(classes.items()):
        joined = {of_class[one] for one in own if one in of_class}
        part[requests] = number
        if joined:
            part = {each: number if found in joined else found for each, found in part.items()}
            of_class = {each: number if found in joined else found for each, found in of_class.items()}
        of_class |= dict.fromkeys(own, number)
    return part, of_class
