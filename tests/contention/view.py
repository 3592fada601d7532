"""The cluster as far as services on scarce nodes are concerned, kept current event by event.

It is fed what the controller's own watches deliver, so that it judges a decision by what could be known then. Must not:
judge (tests.contention.passes).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from functools import cached_property

from scaler.kube.api import CONFIG_MAPS, NODES, Object, Resource
from scaler.sim.actors import objects
from tests.chaos.view import Instance, View
from tests.contention.services import KIND, RULE, Service


class ServicesView(View):
    """Every pod of these worlds fills a node, so "fits" is a matching of pods to nodes."""

    def __init__(self, services: Iterable[Service]) -> None:
        super().__init__()
        self.services = {service.key: service for service in services}
        self.rules: set[str] = set()
        """Namespaces whose rule was seen; a rule that goes is remembered."""

    def take(self, resource: Resource, obj: Object, *, gone: bool = False) -> None:
        """What happened to one object."""
        super().take(resource, obj, gone=gone)
        if resource == CONFIG_MAPS and objects.name(obj) == RULE:
            self.rules.add(objects.namespace(obj))

    # Services

    @cached_property
    def _by_group(self) -> dict[tuple[str, str], list[Instance]]:
        found = defaultdict(list)
        for one in self.instances:
            if not objects.terminating(one.job):
                found[one.service, one.group].append(one)
        return dict(found)

    def of(self, service: str, group: str) -> list[Instance]:
        return self._by_group.get((service, group), [])

    def all_of(self, service: str) -> list[Instance]:
        return [one for group in self.services[service].minimum for one in self.of(service, group)]

    def serves(self, key: str) -> bool:
        minimum = self.services[key].minimum
        return all(sum(one.all_run for one in self.of(key, group)) >= number for group, number in minimum.items())

    @cached_property
    def waiting(self) -> list[str]:
        """Services whose smallest ratio is not all bound and could be: its rule and its jobs exist."""
        return [
            key
            for key, service in self.services.items()
            if service.name in self.rules
            and self.missing(key)
            and all(len(self.of(key, group)) >= number for group, number in service.minimum.items())
        ]

    def missing(self, key: str, *, without: Set[str] = frozenset()) -> list[str]:
        """Kind of node for each pod that the smallest ratio still needs; of each group the nearest instances."""
        service, count = self.services[key], 0
        for group, number in service.minimum.items():
            count += sum(sorted(one.unbound for one in self.of(key, group) if one.uid not in without)[:number])
        return [service.kind] * count

    def beyond_minimum(self, key: str) -> int:
        """Nodes that its instances beyond its minimum hold."""
        nodes = 0
        for group, number in self.services[key].minimum.items():
            running = [one for one in self.of(key, group) if one.all_run]
            nodes += sum(one.size for one in running[number:])
        return nodes

    def released(self, key: str) -> set[str]:
        """Its instances that have pods which wait for the scheduler."""
        return {one.uid for one in self.all_of(key) if one.in_hands}

    def in_part(self, key: str) -> list[str]:
        """Kind of node for each pod that waits for the scheduler while another one of its instance is bound."""
        return [self.services[key].kind for one in self.all_of(key) if one.seated for _ in one.in_hands]

    def ends(self, key: str) -> bool:
        """Some of its pods are terminating."""
        return any(objects.terminating(pod) for one in self.all_of(key) for pod in one.pods if not objects.ended(pod))

    # Nodes

    @property
    def node_kinds(self) -> set[str]:
        return {objects.labels_of(node).get(KIND, "") for node in self.all(NODES)}

    def room(self, *, coming: bool = False, away: bool = False, without: Set[str] = frozenset()) -> list[str]:
        """Kinds of the nodes that are free; see `View.free`."""
        return self.free(KIND, coming=coming, away=away, without=without)

    def fits(self, needed: Iterable[Sequence[str]]) -> bool:
        """Whether all these pods find nodes that are free."""
        return fit([kind for each in needed for kind in each], self.room())

    def has_neighbour(self, key: str) -> bool:
        """Another service could ever use some of its nodes; who is alone is admitted whether it fits or not."""
        present = {one.service for one in self.instances if not objects.terminating(one.job)}
        neighbours = [self.services[other] for other in present & self.services.keys() - {key}]
        others = {other.kind for other in neighbours if other.name in self.rules}
        own = self.services[key].kind
        return any(own in ("", kind) and other in ("", kind) for other in others for kind in self.node_kinds)


def fit(needed: Sequence[str], free: Sequence[str]) -> bool:
    """Whether pods find nodes: those that say which kind first, the others take what is left."""
    picky = all(needed.count(kind) <= free.count(kind) for kind in set(needed) if kind)
    return picky and len(needed) <= len(free)
