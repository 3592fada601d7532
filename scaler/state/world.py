"""From the cache to the one value that everything is decided on. Book-keeping only; it decides nothing.

    cache -> Service (one per key, built anew only when something of it changed), Nodes -> World

A service with writes under way is shown as it will be once they are done (state.assumed), and marked as assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec

from scaler.decide.nodes import Nodes, PodRequest
from scaler.decide.world import (
    Admit,
    Complete,
    Evict,
    Instance,
    Memory,
    Plan,
    Policy,
    Service,
    ServiceKey,
    SlotAction,
    World,
)
from scaler.state.assumed import foreseen, with_evictions
from scaler.state.cluster import ClusterState


def is_missed(found: Service | None, known: Service | None) -> bool:
    """Whether a service is other than it was known to be, in more than words for people."""
    if found == known:
        return False
    return found is None or known is None or _without_words(found) != _without_words(known)


def _without_words(service: Service) -> Service:
    instances = (msgspec.structs.replace(one, warnings=(), trouble="") for one in service.instances)
    return msgspec.structs.replace(service, instances=tuple(instances), assumed=False)


class _Assumed(msgspec.Struct):
    """A service with writes under way: as the cache shows it, and what is being done to its instances, by uid."""

    seen: Service
    doing: dict[str, SlotAction]
    since: float


class WorldBuilder:
    """All services as values. `alone` says why each service decides alone now, "" while they do not."""

    def __init__(self, state: ClusterState, policy: Policy, *, alone: Callable[[], str]) -> None:
        self._state = state
        self._cache = state.cache
        self._policy = policy
        self._alone = alone
        self._services: dict[ServiceKey, Service] = {}
        self._places: dict[ServiceKey, int] | None = None
        """Where each service stands in the sorted list; None when one came or went."""
        self._sorted: list[Service] = []
        self._all: tuple[Service, ...] | None = ()
        """The same as a value; None when one of them changed."""
        self._assumed: dict[ServiceKey, _Assumed] = {}
        self._counts: Counter[PodRequest] = Counter()
        """In how many services each pod request occurs: nodes are distinguished by those that occur at all."""
        self._requests: frozenset[PodRequest] | None = None

    def get(self, key: ServiceKey) -> Service | None:
        """The service as it was in the last world, or will be in the next one."""
        return self._services.get(key)

    def position(self, key: ServiceKey) -> int:
        """Where it stands in the last world. Raises KeyError for a service that is not there."""
        return (self._places or {})[key]

    def keys(self) -> list[ServiceKey]:
        return sorted(self._services)

    def look_at(self, key: ServiceKey) -> Service:
        """Take the service as the cache shows it now: nothing is under way for it any more."""
        self._assumed.pop(key, None)
        return self._put(self._state.service(key))

    def assume(self, plan: Plan, now: float) -> None:
        """The plan is being carried out. What it does for the life of instances is not foreseen."""
        doing = {action.uid: action for action in plan.actions if isinstance(action, SlotAction)}
        self._assume(plan.key, doing, now)

    def retry(self, key: ServiceKey, *, settled: bool) -> None:
        """Carrying out a plan has failed: what was written of it may still be unseen, and nothing more is done before
        `look_at`. What was not made or not deleted takes its room, as the cache shows it."""
        assumed = self._assumed.get(key)
        if assumed is not None:
            kept: dict[str, SlotAction] = {}
            if not settled:
                kept |= {uid: action for uid, action in assumed.doing.items() if isinstance(action, Admit | Complete)}
            self._assume(key, kept, assumed.since)

    def leave(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._assumed.pop(key, None)
        before = self._services.pop(key, None)
        if before is not None:
            self._count(before, -1)
            self._places = None

    def world(self, now: float, memory: Memory) -> World:
        """Everything as it is now. What has not changed is the same object as in the last world."""
        for assumed in self._assumed.values():
            with suppress(Exception):  # a fault of ours about one service: it stays as it was foreseen
                self._look_again(assumed)
        alone = self._alone()
        if self._places is None:
            self._sorted = [self._services[key] for key in sorted(self._services)]
            self._places = {service.key: place for place, service in enumerate(self._sorted)}
            self._all = None
        if self._all is None:
            self._all = tuple(self._sorted)
        return World(
            now=now,
            services=self._all,
            nodes=None if alone else self._nodes(),
            alone=alone,
            last_bind=self._cache.last_bind,
            memory=memory,
            policy=self._policy,
            resource_versions={
                "ascendjobs": str(self._cache.jobs.version),
                "pods": str(self._cache.pods.version),
                "configmaps": str(self._cache.config_maps.version),
                "nodes": str(self._cache.nodes.version),
            },
        )

    def _nodes(self) -> Nodes:
        if self._requests is None:
            self._requests = frozenset(self._counts)
        nodes = self._state.capacity.nodes(self._requests)
        evicted = [
            (instance, assumed.since)
            for assumed in self._assumed.values()
            for instance in assumed.seen.instances
            if isinstance(assumed.doing.get(instance.uid), Evict) and instance.seats
        ]
        return with_evictions(nodes, evicted) if evicted else nodes

    def _assume(self, key: ServiceKey, doing: dict[str, SlotAction], now: float) -> None:
        seen = self._state.service(key)
        self._assumed[key] = _Assumed(seen, doing, now)
        self._put(self._foreseen(self._assumed[key]))

    def _look_again(self, assumed: _Assumed) -> None:
        """Pods of it may have come, gone or been bound since: room is counted with them, so the service must be too."""
        known = tuple(self._now(assumed.seen.key, instance) for instance in assumed.seen.instances)
        if known != assumed.seen.instances:
            assumed.seen = msgspec.structs.replace(assumed.seen, instances=known)
            self._put(self._foreseen(assumed))

    def _now(self, key: ServiceKey, instance: Instance) -> Instance:
        return self._state.instance(key, instance.uid) if self._state.exists(instance) else instance

    @staticmethod
    def _foreseen(assumed: _Assumed) -> Service:
        after = tuple(
            foreseen(instance, assumed.doing[instance.uid], assumed.since)
            if instance.uid in assumed.doing
            else instance
            for instance in assumed.seen.instances
        )
        return msgspec.structs.replace(assumed.seen, instances=after, assumed=True)

    def _put(self, service: Service) -> Service:
        before = self._services.get(service.key)
        if before == service:
            return before
        if before is not None:
            self._count(before, -1)
        self._count(service, 1)
        self._services[service.key] = service
        if before is None:
            self._places = None
        elif self._places is not None:
            self._sorted[self._places[service.key]] = service
            self._all = None
        return service

    def _count(self, service: Service, sign: int) -> None:
        for request in {request for instance in service.instances for request, _ in instance.needs}:
            before = self._counts[request]
            self._counts[request] += sign
            if not self._counts[request]:
                del self._counts[request]
            if before <= 0 or before + sign <= 0:
                self._requests = None
