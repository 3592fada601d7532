"""What is known of the nodes beside the room on them. Found when first needed, and kept while it holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import compress
from operator import is_not

from scaler.decide.nodes import Node, NodeClass, Nodes, PodRequests, accepts
from scaler.decide.placement import Placement
from scaler.decide.shortage import Shortage


class NodeIndex:
    """Of one set of nodes. `before`: the index of an earlier one."""

    def __init__(self, nodes: Nodes, before: NodeIndex | None = None) -> None:
        self._all, self._nodes = nodes, nodes.nodes
        pairs = before._pairs(nodes) if before else None
        self.changed = None if pairs is None else frozenset([new.node_class for _, new in pairs])
        """Classes of nodes that are not as before; None = any may be."""
        self.classes: frozenset[NodeClass]
        self._classes_for: dict[PodRequests, frozenset[NodeClass]]
        self._sizes: dict[PodRequests, Shortage | None] = {}
        if before is None or pairs is None:
            self.classes, self._classes_for = frozenset([node.node_class for node in self._nodes]), {}
            return
        self.classes, self._classes_for = before.classes, before._classes_for
        if all(old.allocatable == new.allocatable for old, new in pairs):
            self._sizes = before._sizes

    @classmethod
    def of(cls, nodes: Nodes, known: NodeIndex | None) -> NodeIndex:
        """The known one where nothing changed."""
        if known is None or known._all is not nodes:
            return cls(nodes, known)
        known.changed = frozenset()
        return known

    def _pairs(self, nodes: Nodes) -> list[tuple[Node, Node]] | None:
        """The nodes that are not as they were; None where they are other nodes."""
        old, now = self._nodes, nodes.nodes
        if self._all.resources != nodes.resources or len(old) != len(now):
            return None
        pairs = [(old[at], now[at]) for at in compress(range(len(old)), map(is_not, old, now))]
        return pairs if all(a.name == b.name and a.node_class == b.node_class for a, b in pairs) else None

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self._nodes}

    @cached_property
    def unusual(self) -> list[Node]:
        """Nodes on which pods end, or that take none now."""
        return [node for node in self._nodes if node.ending or not node.ready or node.cordoned]

    def is_unusual(self, classes: Collection[NodeClass]) -> bool:
        """Whether some node of these classes is unusual."""
        return any(node.node_class in classes for node in self.unusual)

    def classes_for(self, pods: PodRequests) -> frozenset[NodeClass]:
        """Classes of nodes that some of these pods may ever run on: a static fact."""
        found = self._classes_for.get(pods)
        if found is None:
            wheres = {request.where for request, _ in pods}
            found = frozenset([one for one in self.classes if any(accepts(where, one) for where in wheres)])
            self._classes_for[pods] = found
        return found

    @cached_property
    def _since(self) -> dict[NodeClass, float]:
        found: dict[NodeClass, float] = {}
        for node in self._nodes:
            if node.schedulable and node.since > found.get(node.node_class, 0.0):
                found[node.node_class] = node.since
        return found

    def back_at(self, classes: Iterable[NodeClass]) -> float:
        """When a node of one of these classes last appeared or returned."""
        return max((self._since.get(each, 0.0) for each in classes), default=0.0)

    def overdue_from(self, due_back: float) -> Iterator[float]:
        """When room that is to come will not count as such any more."""
        for node in self.unusual:
            if not node.schedulable:
                yield node.since + due_back
            for deadline, _ in node.ending:
                yield deadline + due_back

    def too_large(self, pods: PodRequests) -> Shortage | None:
        """Why these pods would not fit even on empty nodes: hangs on what nodes are, not on what is free."""
        if pods not in self._sizes:
            self._sizes[pods] = self._empty.fits(pods)
        return self._sizes[pods]

    @cached_property
    def _empty(self) -> Placement:
        return Placement(self._all.emptied())
