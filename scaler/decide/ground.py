"""What is known of the nodes beside the room on them. Found when first needed, and kept while it holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import compress
from operator import is_not

from scaler.decide.nodes import Amounts, Node, NodeClass, Nodes, PodRequests, accepts
from scaler.decide.placement import Placement, emptied
from scaler.decide.shortage import Shortage


class Ground:
    """Of one set of nodes. `before`: the ground of an earlier one."""

    def __init__(self, nodes: Nodes, before: Ground | None = None) -> None:
        self._all = nodes
        self._nodes = nodes.nodes
        self.changed = self._changed(before)
        """Classes of nodes that are not as before; None = any may be."""
        self.classes: frozenset[NodeClass]
        self._classes_for: dict[PodRequests, frozenset[NodeClass]]
        if before is not None and self.changed is not None:
            self.classes, self._classes_for = before.classes, before._classes_for
        else:
            self.classes, self._classes_for = frozenset([node.node_class for node in self._nodes]), {}

    @classmethod
    def of(cls, nodes: Nodes, known: Ground | None) -> Ground:
        """The known one where nothing changed."""
        if known is None or known._all is not nodes:
            return cls(nodes, known)
        known.changed = frozenset()
        return known

    def _changed(self, before: Ground | None) -> frozenset[NodeClass] | None:
        if before is None or before._all.resources != self._all.resources or len(before._nodes) != len(self._nodes):
            return None
        changed = list(compress(range(len(self._nodes)), map(is_not, before._nodes, self._nodes)))
        pairs = [(before._nodes[at], self._nodes[at]) for at in changed]
        if any(old.name != new.name or old.node_class != new.node_class for old, new in pairs):
            return None
        return frozenset([new.node_class for _, new in pairs])

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


class Sizes:
    """What would not fit even on empty nodes: depends on what nodes are, not on what is free."""

    def __init__(self) -> None:
        self._nodes: Nodes | None = None
        self._of: list[tuple[NodeClass, Amounts]] = []
        self._empty: Placement | None = None
        self._known: dict[PodRequests, Shortage | None] = {}

    def too_large(self, pods: PodRequests, nodes: Nodes) -> Shortage | None:
        if nodes is not self._nodes:
            of = [(node.node_class, node.allocatable) for node in nodes.nodes]
            if of != self._of or self._nodes is None or nodes.resources != self._nodes.resources:
                self._empty, self._known, self._of = None, {}, of
            self._nodes = nodes
        if pods not in self._known:
            if self._empty is None:
                self._empty = emptied(nodes)
            self._known[pods] = self._empty.fits(pods)
        return self._known[pods]
