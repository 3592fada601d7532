"""A cluster as the caller may read it, kept current by watches: services, their jobs, pods, nodes
and events.

    KubeApi -> the controller's informers -> its cache -> ClusterState -> World -> Decision
            -> ElasticServices, Events

Resources that are forbidden or not installed are in `gaps`; the rest is as complete as possible.
Must not write anything."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from scaler import wiring
from scaler.clock import Clock
from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Decision, Plan
from scaler.decide.memory import Memory
from scaler.decide.world import Policy, Service, ServiceKey, World
from scaler.defaults import Mode
from scaler.informers.changes import (
    AloneChanged,
    Changes,
    ElasticServiceChanged,
    NodesSeen,
    RoomChanged,
    ServiceChanged,
)
from scaler.informers.informer import Freshness, Informer
from scaler.informers.mode import CurrentMode
from scaler.informers.resources import OPTIONAL, informers
from scaler.informers.store import Store
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    ELASTIC_SERVICES,
    EVENTS,
    POD_GROUPS,
    PODS,
    SERVICES,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.report.service_reports import ServiceReport, report_of
from scaler.report.service_status import status_of
from scaler.rules.rule import ALL
from scaler.rules.values import as_text, at
from scaler.state.assemble import WorldBuilder
from scaler.state.cluster import ClusterState
from scaler.timestamps import seconds_of
from scaler.tools.common.leader import USUAL
from scaler.tools.common.records import (
    EventObject,
    EventRecord,
    Written,
    WrittenObject,
    as_cached,
    event_record,
    replicas_of,
    written,
)

PATIENCE = 30.0
"""Seconds for the lists of all resources; a resource without a list by then is a gap."""
OUT_OF_TOUCH = 120.0
"""Seconds without a sign of a resource after which it may be old."""
SHORT_SILENCE = 5.0
"""The same of a resource whose requests fail: a watch that is only opened again is no news."""
WATCHED = OPTIONAL - {DISRUPTION_BUDGETS} | {
    ASCEND_JOBS,
    PODS,
    POD_GROUPS,
    SERVICES,
    CONFIG_MAPS,
    DEPLOYMENTS,
}
"""The caller may lack the right to any of these: that becomes a gap, and the others are read."""


class Gap(msgspec.Struct, frozen=True):
    """A resource that is not seen. `resource` is its full name, `why` in words."""

    resource: str
    why: str
    installed: bool = True
    """False if the cluster has no such kind."""
    since: float = 0.0
    """Of what was seen: when it was last heard of, in seconds since the epoch; 0.0 = it never
    was, or may not be read."""

    @property
    def forbidden(self) -> bool:
        return ": 403 " in self.why

    @property
    def plural(self) -> str:
        return self.resource.partition(".")[0]


class ServiceView(msgspec.Struct, frozen=True):
    """One service: the status of its ElasticService, or the status that it would get."""

    key: ServiceKey
    name: str
    """Of the ElasticService; "" without one."""
    status: dict[str, Any]
    created: str = ""
    replicas: int = ALL
    """Instances wanted in all, by `spec.replicas` of the ElasticService."""


class Cluster:
    """`namespaces` are those to read, () for all; `home` is the namespace of the scaler's
    install."""

    def __init__(
        self, api: KubeApi, clock: Clock, namespaces: Sequence[str] = (), home: str = USUAL
    ) -> None:
        self.clock = clock
        self.namespaces = tuple(namespaces)
        self.home = home
        self.version = 0
        """Grows with every change of any object."""
        changes = Changes()
        # Spreads requests in time; it makes no secret.
        rng = random.Random()  # noqa: S311
        self.state = ClusterState(changes, clock.now, home)
        self.cache = self.state.cache
        self.services: Store[Written] = Store(_ignore)
        self.events: Store[EventRecord] = Store(_ignore)
        self.informers: dict[Resource, Informer[Any, Any]] = dict(_informers(api, self, rng, home))
        self._freshness = Freshness(self.informers, OUT_OF_TOUCH)
        self._publish = changes.publish
        self._mode = CurrentMode(self.cache, Mode.AUTO, changes.publish)
        self._watched: list[Resource] = []
        self._changed = asyncio.Event()
        self._dirty: set[ServiceKey] = set()
        self._builder = WorldBuilder(self.state, Policy(), alone=self.why_alone)
        self._decided = DecisionCache()
        self._memory = Memory()
        self._last: tuple[int, World, Decision] | None = None
        self._old_since: dict[Resource, float] = {}
        """Resource that is not up to date -> when it was last heard of."""
        wiring.subscribe(changes, self.state, self)
        self.services.listen(self._on_written)
        for store in _stores(self):
            store.listen(self._on_object)

    def on_service(self, change: ServiceChanged) -> None:
        self._dirty.add(change.service)

    def on_elastic_service(self, change: ElasticServiceChanged) -> None:
        self._dirty.add(change.service)

    def on_room(self, _change: RoomChanged) -> None:
        """Each decision here reads what is free anew."""

    def on_alone(self, _change: AloneChanged) -> None:
        """Each decision here asks `why_alone` anew."""

    def _on_written(self, name: tuple[str, str] | None) -> None:
        """Take over the number of wanted instances: decisions made here depend on it, too."""
        if name is None:
            return
        found = self.services.get(*name)
        store = self.cache.elastic_services.store
        record = as_cached(found) if found is not None else None
        known = store.get(*name)
        if record is not None:
            store.apply(record)
        elif known is not None:
            store.remove(*name, known.uid)

    def _on_object(self, name: tuple[str, str] | None) -> None:
        if name is not None:
            self._touch()

    def _touch(self) -> None:
        self.version += 1
        self._changed.set()

    @asynccontextmanager
    async def watched(
        self, resources: Iterable[Resource] = (), *, patience: float = PATIENCE
    ) -> AsyncIterator[None]:
        """Wait for the lists of all resources (or of `resources`); inside they are kept current.
        Raises KubeError."""
        self._watched = list(resources) or list(self.informers)
        chosen = [self.informers[resource] for resource in self._watched]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run()) for informer in chosen]
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience):
                        for informer in chosen:
                            await informer.synced_or_absent.wait()
                self._look_around()
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def changed(self, since: int, within: float) -> bool:
        """Wait until `version` differs from `since`; False when that took longer than `within`
        seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self.version == since:
                    self._changed.clear()
                    await self._changed.wait()
        return self.version != since

    async def settle(self) -> None:
        """Make the first decisions, which take seconds for 10,000 instances, before a caller waits
        for one."""
        for key in [key for key in self.state.service_keys() if self.state.has_instances(key)]:
            self.state.service(key)
            await asyncio.sleep(0)
        for _ in range(2):  # the second decision uses the memory of the first
            self._touch()
            self.decision()
            await asyncio.sleep(0)

    # what is seen

    def gaps(self) -> list[Gap]:
        """Watched resources that are not seen now."""
        found = []
        for resource in self._watched:
            informer = self.informers[resource]
            why = _why_not_seen(informer)
            if not why:
                self._old_since.pop(resource, None)
                continue
            installed = not why.endswith("are not installed in the cluster")
            since = 0.0
            if informer.synced.is_set() and not informer.absent:
                heard = self.clock.server() - informer.unheard
                since = self._old_since.setdefault(resource, heard)
            found.append(Gap(resource.full_name, why, installed, since))
        return found

    def stale_for(self) -> float:
        """Seconds for which something here may be old, because the API server does not answer or
        says nothing; 0 when all is current."""
        longest = 0.0
        for resource in self._watched:
            informer = self.informers[resource]
            if informer.absent or not informer.synced.is_set():
                continue
            failing = bool(informer.problem) and informer.unheard >= SHORT_SILENCE
            if failing or informer.unheard >= OUT_OF_TOUCH:
                longest = max(longest, informer.unheard)
        return longest

    def why_alone(self) -> str:
        """Why services cannot be weighed against each other here, "" when they are."""
        if self.namespaces:
            return "only some namespaces are looked at"
        return self._freshness.no_nodes()

    def _look_around(self) -> None:
        """Set which component makes pods, and whether nodes are seen: as in scaler.app."""
        self._mode.follow()
        self._publish(NodesSeen(not self._freshness.no_nodes()))

    def last_warnings(self, namespace: str) -> dict[str, EventRecord]:
        """The last warning about each pod of a namespace, by uid."""
        about = []
        for event in self.events.values():
            if (event.namespace, event.kind, event.type) == (namespace, "Pod", "Warning"):
                about.append(event)
        found: dict[str, EventRecord] = {}
        for event in sorted(about, key=lambda event: seconds_of(event.last)):
            found[event.about_uid] = event
        return found

    def views(self) -> list[ServiceView]:
        """Every service, by namespace and name: with the status that the scaler wrote, else with
        one decided from what is seen here."""
        found = {view.key: view for view in map(_view, self.services.values())}
        world, decision = self.decision()
        for service, plan in zip(world.services, decision.plans, strict=True):
            if service.key.rule and service.key not in found:
                found[service.key] = ServiceView(service.key, "", self._status(service, plan))
        return [found[key] for key in sorted(found)]

    def _status(self, service: Service, plan: Plan) -> Object:
        """The status that would be written. The time since when it holds is unknown here."""
        status = status_of(self.report(service, plan), {}, "")
        for found in (*status["instances"], *status["conditions"]):
            found.pop("since", found.pop("lastTransitionTime", None))
        result = {}
        for name, value in status.items():
            if name != "since":
                result[name] = value
        return result

    def report(self, service: Service, plan: Plan) -> ServiceReport:
        """One service and its plan, as the controller would report them."""
        return report_of(self.state, service, plan, alone=self.why_alone(), out_of_touch="")

    def decision(self) -> tuple[World, Decision]:
        """The decision from what is seen here: the controller's own code, with a memory that began
        when this cluster was opened. At most one decision for each version."""
        if self._last is not None and self._last[0] == self.version:
            return self._last[1:]
        version = self.version
        self._look_around()
        for key in (
            {*self._dirty, *self.state.service_keys()} if self._last is None else self._dirty
        ):
            if self.state.has_instances(key):
                self._builder.read(key)
            else:
                self._builder.leave(key)
        self._dirty = set()
        world = self._builder.world(self.clock.now(), self._memory)
        decision = decide(world, self._decided)
        self._memory = decision.memory
        self._last = version, world, decision
        return world, decision


def _why_not_seen(informer: Informer[Any, Any]) -> str:
    """Why a resource is not seen as it is now, in words; "" while it is."""
    problem = informer.problem
    # of several namespaces one may be forbidden: the scaler's own
    if problem and (informer.absent or ": 403 " not in problem):
        return problem
    if not problem and informer.synced.is_set() and informer.unheard >= OUT_OF_TOUCH:
        return f"nothing heard for {OUT_OF_TOUCH:g} s"
    return ""


def _view(found: Written) -> ServiceView:
    spec, status, meta = (at(found.object, part) for part in ("spec", "status", "metadata"))
    key = ServiceKey(found.namespace, as_text(spec.get("rule")), as_text(spec.get("jobID")))
    created = as_text(meta.get("creationTimestamp"))
    return ServiceView(key, found.name, dict(status), created, replicas_of(found.object))


def _informers(
    api: KubeApi, cluster: Cluster, rng: random.Random, home: str
) -> Mapping[Resource, Informer[Any, Any]]:
    scope: dict[str, Any] = {
        "namespaces": cluster.namespaces or None,
        "rng": rng,
        "may_be_forbidden": True,
    }
    watched, _ = informers(api, cluster.cache, cluster.namespaces, rng, home, optional=WATCHED)
    return {
        **{resource: one for resource, one in watched.items() if resource in WATCHED},
        ELASTIC_SERVICES: Informer(
            api, ELASTIC_SERVICES, cluster.services, record=written, decode=WrittenObject, **scope
        ),
        EVENTS: Informer(
            api, EVENTS, cluster.events, record=event_record, decode=EventObject, **scope
        ),
    }


def _stores(cluster: Cluster) -> Iterable[Store[Any]]:
    cache = cluster.cache
    found: list[Store[Any]] = [
        cluster.services,
        cluster.events,
        cache.jobs,
        cache.volcano_jobs,
        cache.pods,
    ]
    found += [
        cache.pod_groups,
        cache.kube_services,
        cache.config_maps,
        cache.nodes,
        cache.priorities,
    ]
    return [*found, *cache.owners.stores.values()]


def _ignore(_old: object, _new: object) -> None:
    return


class Answer(msgspec.Struct, frozen=True):
    """The answer of a cluster about ElasticServices: `why` they cannot be read, "" when they can;
    whether there are `some`, and whether the kind is `missing`."""

    why: str = ""
    some: bool = False
    missing: bool = False


async def ask(api: KubeApi, namespaces: Sequence[str]) -> Answer:
    """Check that the cluster answers. Raises KubeError when it does not, or does not know the
    caller."""
    try:
        page = await api.list(ELASTIC_SERVICES, namespaces[0] if namespaces else None, limit=1)
    except NotFoundError:
        return Answer("the kind ElasticService is not installed in this cluster", missing=True)
    except ForbiddenError:
        where = f"in {namespaces[0]}" if namespaces else "of all namespaces"
        return Answer(f"you may not read ElasticServices {where}")
    return Answer(some=bool(page.items))


NOTHING_TO_SEE = frozenset({ASCEND_JOBS.full_name, PODS.full_name})
"""If neither may be read, no answer can say which services there are."""


async def reach(api: KubeApi, namespaces: Sequence[str]) -> tuple[str, ...]:
    """All namespaces if the caller may read pods in all of them, else these: the free room of nodes
    is known only from the pods of all namespaces. Raises KubeError."""
    try:
        await api.list(PODS, limit=1)
    except ForbiddenError:
        return tuple(namespaces)
    return ()
