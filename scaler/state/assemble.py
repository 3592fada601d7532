"""From the cache to the one value that everything is decided on. Book-keeping only; it decides
nothing.

    cache -> Service (one per key, built anew only when something of it changed), Nodes -> World

A service with writes under way is shown as it will be once they are done, and marked as assumed.
Until a write has come back through the watch, what the cache shows is older: without this the next
decision would give the room of pods that are being created to another service, and would not see
the room that an eviction is making."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
import structlog
from msgspec import UNSET
from msgspec.structs import replace

from scaler.decide.decision import Admit, Complete, Evict, Plan, Restart, Revoke, SlotAction
from scaler.decide.memory import Memory
from scaler.decide.nodes import Amounts, Nodes, PodRequest, amount_of
from scaler.decide.world import NOT_STARTED, Instance, Policy, Service, ServiceKey, World
from scaler.state.cluster import ClusterState

_log = structlog.get_logger(__name__)

GRACE = 30.0
"""Seconds until an evicted pod is taken to be gone, as long as its deletionTimestamp is not seen:
the default of Kubernetes."""


def is_missed(found: Service | None, known: Service | None) -> bool:
    """Whether a service is other than it was known to be, in more than words for people."""
    if found == known:
        return False
    return found is None or known is None or _without_words(found) != _without_words(known)


def _without_words(service: Service) -> Service:
    instances = (replace(one, warnings=(), trouble="") for one in service.instances)
    return replace(service, instances=tuple(instances), assumed=False)


class _InProgress(msgspec.Struct):
    """A service with writes under way: as the cache shows it, and what is being done to its
    instances, by uid."""

    seen: Service
    doing: dict[str, SlotAction]
    since: float


class WorldBuilder:
    """All services as values. `alone` says why each service decides alone now, "" while they do
    not."""

    def __init__(self, state: ClusterState, policy: Policy, *, alone: Callable[[], str]) -> None:
        self._state = state
        self._cache = state.cache
        self._policy = policy
        self._alone = alone
        self._services: dict[ServiceKey, Service] = {}
        self._positions: dict[ServiceKey, int] | None = None
        """Service -> index in the sorted list; None after one came or went."""
        self._sorted: list[Service] = []
        self._all: tuple[Service, ...] | None = ()
        """The same as a value; None when one of them changed."""
        self._in_progress: dict[ServiceKey, _InProgress] = {}
        self._counts: Counter[PodRequest] = Counter()
        """In how many services each pod request occurs: nodes are distinguished by those that occur
        at all."""
        self._requests: frozenset[PodRequest] = frozenset()
        """Those; empty when one came or went."""

    def get(self, key: ServiceKey) -> Service | None:
        """The service as it was in the last world, or will be in the next one."""
        return self._services.get(key)

    def position(self, key: ServiceKey) -> int:
        """Index of the service in the last world. Raises KeyError for an unknown service."""
        return (self._positions or {})[key]

    def keys(self) -> list[ServiceKey]:
        return sorted(self._services)

    def read(self, key: ServiceKey) -> Service:
        """Take the service as the cache shows it now: nothing is under way for it any more."""
        self._in_progress.pop(key, None)
        return self._put(self._state.service(key))

    def begin(self, plan: Plan, now: float) -> None:
        """The plan is carried out from now on. What it does for the life of instances is left
        out."""
        doing = {action.uid: action for action in plan.actions if isinstance(action, SlotAction)}
        self._begin(plan.key, doing, now)

    def plan_failed(self, key: ServiceKey, *, settled: bool) -> None:
        """Carrying out a plan has failed: what was written of it may still be unseen, and nothing
        more is done before `read`. What was not made or not deleted takes its room, as the cache
        shows it."""
        in_progress = self._in_progress.get(key)
        if in_progress is not None:
            doing = {} if settled else in_progress.doing
            made: dict[str, SlotAction] = {
                uid: one for uid, one in doing.items() if isinstance(one, Admit | Complete)
            }
            self._begin(key, made, in_progress.since)

    def leave(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._in_progress.pop(key, None)
        before = self._services.pop(key, None)
        if before is not None:
            self._count(before, -1)
            self._positions = None

    def world(self, now: float, memory: Memory) -> World:
        """Everything as it is now. What has not changed is the same object as in the last world."""
        for in_progress in self._in_progress.values():
            try:
                self._read_again(in_progress)
            except Exception:
                # A bug about one service stops no decision: the service stays as it was foreseen.
                _log.error(
                    "service cannot be read",
                    service=str(in_progress.seen.key),
                    traceback=traceback.format_exc(-5),
                )
        alone = self._alone()
        if self._positions is None:
            self._sorted = [self._services[key] for key in sorted(self._services)]
            self._positions = {service.key: index for index, service in enumerate(self._sorted)}
            self._all = None
        if self._all is None:
            self._all = tuple(self._sorted)
        return World(
            now=now,
            services=self._all,
            nodes=None if alone else self._nodes(),
            alone=alone,
            last_bind=self._cache.last_bind,
            last_binds=self._cache.last_binds,
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
        self._requests = self._requests or frozenset(self._counts)
        nodes = self._state.capacity.nodes(self._requests)
        evicted = [
            (instance, in_progress.since)
            for in_progress in self._in_progress.values()
            for instance in in_progress.seen.instances
            if isinstance(in_progress.doing.get(instance.uid), Evict) and instance.bound_pods
        ]
        return with_evictions(nodes, evicted) if evicted else nodes

    def _begin(self, key: ServiceKey, doing: dict[str, SlotAction], now: float) -> None:
        seen = self._state.service(key)
        self._in_progress[key] = _InProgress(seen, doing, now)
        self._put(self._foreseen(self._in_progress[key]))

    def _read_again(self, in_progress: _InProgress) -> None:
        """Pods of it may have come, gone or been bound since: room is counted with them, so the
        service must be too."""
        key = in_progress.seen.key
        before = in_progress.seen.instances
        there = {one.uid for one in before if self._cache.service_of(one.uid) is not None}
        known = tuple(
            self._state.instance(key, one.uid) if one.uid in there else one for one in before
        )
        if known != before:
            in_progress.seen = replace(in_progress.seen, instances=known)
            self._put(self._foreseen(in_progress))

    @staticmethod
    def _foreseen(in_progress: _InProgress) -> Service:
        after = tuple(
            foreseen(one, in_progress.doing[one.uid], in_progress.since)
            if one.uid in in_progress.doing
            else one
            for one in in_progress.seen.instances
        )
        return replace(in_progress.seen, instances=after, assumed=True)

    def _put(self, service: Service) -> Service:
        before = self._services.get(service.key)
        if before == service:
            return before
        self._count(service, 1)
        if before is not None:
            self._count(before, -1)
        self._services[service.key] = service
        if before is None:
            self._positions = None
        elif self._positions is not None:
            self._sorted[self._positions[service.key]] = service
            self._all = None
        return service

    def _count(self, service: Service, sign: int) -> None:
        known = len(self._counts)
        for request in _requests_of(service):
            self._counts[request] += sign
            if not self._counts[request]:
                del self._counts[request]
        self._requests = self._requests if len(self._counts) == known else frozenset()


def _requests_of(service: Service) -> set[PodRequest]:
    """What its pods may request, at each size that its instances have."""
    found = set[PodRequest]()
    for instance in service.instances:
        for pods in instance.may_request:
            found.update([request for request, _ in pods])
    return found


# what writes in progress will make of an instance, pure


def foreseen(instance: Instance, action: SlotAction, since: float) -> Instance:
    """The instance after this was done to it; `since` is when it began."""
    match action:
        case Admit() | Complete():  # with all pods, where they are made here; without gates
            if isinstance(action, Admit):
                instance = _at_size(instance, action.size, action.size)
            return replace(
                instance,
                pods=instance.expected if instance.made_by_us else instance.pods,
                gated=0,
                admitted_at=instance.admitted_at or since,
                newest=instance.newest or since,
                leftovers=instance.leftovers or instance.made_by_us,
            )
        case Revoke() if instance.made_by_us:  # without its unbound pods
            times = (instance.admitted_at, instance.newest) if instance.bound else (0.0, 0.0)
            return replace(
                instance,
                pods=instance.bound,
                gated=0,
                admitted_at=times[0],
                newest=times[1],
                leftovers=False,
            )
        case Revoke():  # their owner makes them again, gated
            return replace(instance, gated=instance.pods - instance.bound)
        case Evict():
            return _evicted(instance, since)
        case Restart(size=size):
            return _evicted(_at_size(instance, size, NOT_STARTED), since)


def _at_size(instance: Instance, size: int, started: int) -> Instance:
    """A training job with this size recorded, and started at that; an instance with one size as it
    is."""
    if instance.training is UNSET:
        return instance
    chosen = instance.training.sizes[size]
    return replace(
        instance,
        expected=chosen.pods,
        requests=chosen.needs,
        unbound=chosen.needs,
        training=replace(instance.training, recorded=size, started=started),
    )


def _evicted(instance: Instance, since: float) -> Instance:
    """The instance with terminating pods only: unbound pods vanish at once."""
    ends_by = instance.ends_by
    if instance.bound and ends_by >= 0:
        ends_by = max(ends_by, since + GRACE)
    return replace(
        instance,
        pods=0,
        gated=0,
        bound=0,
        running=0,
        ready=0,
        ended=0,
        crashing=0,
        faulty=0,
        terminating=instance.terminating + instance.bound,
        admitted_at=0.0,
        newest=0.0,
        ends_by=ends_by,
        unbound=instance.requests,
        bound_pods=(),
    )


def with_evictions(nodes: Nodes, evicted: Iterable[tuple[Instance, float]]) -> Nodes:
    """The nodes with the bound pods of these instances as ending. Each comes with the time from
    which it is evicted."""
    ending: dict[str, list[tuple[float, Amounts]]] = {}
    for instance, since in evicted:
        for name, request in instance.bound_pods:
            amounts = dict(request.requests)
            taken = tuple(amount_of(amounts, resource) for resource in nodes.resources)
            ending.setdefault(name, []).append((since + GRACE, taken))
    after = (
        replace(node, ending=tuple(sorted([*node.ending, *ending[node.name]])))
        if node.name in ending
        else node
        for node in nodes.nodes
    )
    return replace(nodes, nodes=tuple(after))
