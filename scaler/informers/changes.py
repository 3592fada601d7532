"""The changes that informers publish: frozen values, in the order in which they were seen.

`scaler/wiring.py` lists the subscribers. `RoomChanged` follows from others: `state.cluster`
publishes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from scaler.decide.world import ServiceKey
from scaler.informers.pods import PodRecord
from scaler.informers.records import NodeFacts
from scaler.kube.api import Object, Refused, Resource


class Change(msgspec.Struct, frozen=True):
    """The base of all changes; each type has its own subscribers."""


class ServiceChanged(Change, frozen=True):
    """Something of this service came, changed or went: an instance or a part of one, or the
    ConfigMap of its rule."""

    service: ServiceKey
    uid: str = ""
    """Uid of the instance; "" for a change of the rule."""


class JobChanged(Change, frozen=True):
    """A job that is an instance by itself came, changed or went, or a part of it: what its rank
    table is made of. Published before the change of its service."""

    uid: str


class PodChanged(Change, frozen=True):
    """A pod, ours or not, came (`old` is None), changed, or went (`new` is None)."""

    old: PodRecord | None
    new: PodRecord | None


class NodeChanged(Change, frozen=True):
    """A node, or what is reported of it, changed. `facts` is None when there is no such node."""

    name: str
    facts: NodeFacts | None
    listed: bool = False
    """The first list of nodes is not complete yet: the node may have been so for long."""


class RoomChanged(Change, frozen=True):
    """Something else is free on the nodes now, or something was bound; `state.cluster` publishes
    it."""


class ModeChanged(Change, frozen=True):
    """Another mode is in force: see `informers.mode`."""

    makes_pods: bool
    """Whether the scaler makes the pods of AscendJobs."""
    shadow: bool
    """Whether the scaler only notes what it would do."""


class NodesSeen(Change, frozen=True):
    """Nodes can be read from now on, or cannot be read any more."""

    seen: bool


class NpuPluginSeen(Change, frozen=True):
    """MindCluster's plugin places the pods with NPUs from now on, or does not any more, or has
    another size of super-pods."""

    places_npus: bool
    largest_super_pod: int
    """Nodes of the largest super-pod."""


class AloneChanged(Change, frozen=True):
    """Each service decides alone from now on, for this reason; with "" services are weighed against
    each other."""

    why: str


class BudgetsChanged(Change, frozen=True):
    """A PodDisruptionBudget of this namespace came, changed or went."""

    namespace: str


class ObjectRefused(Change, frozen=True):
    """An object that names a rule, or is one, cannot be read; or it can be again, or is gone
    (`refused` is None)."""

    resource: Resource
    refused: Refused | None
    namespace: str
    rule: str


class OwnConfigMapGone(Change, frozen=True):
    """A ConfigMap that the scaler keeps is gone. `content` is what it was."""

    content: Object


class ElasticServiceChanged(Change, frozen=True):
    """An ElasticService about this service came, went, or is another one."""

    service: ServiceKey
    went_back: bool = False
    """It is what it was before, after a restore of the cluster: what was written since is lost."""


C = TypeVar("C", bound=Change)


class Changes:
    """One stream. Subscribers are called at once, in the order in which they subscribed; none may
    wait or raise."""

    def __init__(self) -> None:
        self._subscribers: dict[type, list[Callable[[Any], None]]] = {}

    def subscribe(self, kind: type[C], subscriber: Callable[[C], None]) -> None:
        self._subscribers.setdefault(kind, []).append(subscriber)

    def publish(self, change: Change) -> None:
        for subscriber in self._subscribers.get(type(change), ()):
            subscriber(change)
