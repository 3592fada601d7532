"""Wiring only: given a KubeApi, build everything and run it until cancelled. One TaskGroup owns every task.

informers -> cache -> queue -> controller -> writer
                                          \\-> reporter
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from scaler.clock import Clock
from scaler.controller import Controller, Observer, Pairs
from scaler.decide.world import Decision, Memory, ServiceKey, World
from scaler.election import Election, LeaseTiming
from scaler.execute.budgets import Budgets
from scaler.execute.executor import Executor
from scaler.informers.cache import Cache
from scaler.informers.changes import (
    BudgetsChanged,
    Changes,
    ElasticServiceChanged,
    InstanceChanged,
    NodeChanged,
    ObjectRefused,
    OwnConfigMapGone,
    PodArrivedUngated,
    PodChanged,
    RoomChanged,
    RuleChanged,
)
from scaler.informers.faults import Source
from scaler.informers.informer import Informer
from scaler.informers.mode import CurrentMode, ModeInForce
from scaler.informers.resources import informers, report_informers
from scaler.informers.sight import Sight
from scaler.installs import Installs, OverlapError, marks
from scaler.kube.api import DISRUPTION_BUDGETS, ELASTIC_SERVICES, NODES, SERVICES, KubeApi, Resource
from scaler.kube.confined import Confined, confined
from scaler.kube.writer import Writer
from scaler.lease_thread import Connect, lead_in_thread
from scaler.names import BUDGET, MANAGED_BY
from scaler.ranktables.reconciler import RankTableReconciler
from scaler.report.elastic_services import StatusWriter
from scaler.report.gate_setup import GateSetup
from scaler.report.metrics import Metrics
from scaler.report.reporter import Reporter
from scaler.serve.health import HealthState
from scaler.settings import Mode, Settings
from scaler.state.cluster import ClusterState
from scaler.state.expectations import Expectations
from scaler.state.own_config_maps import Home
from scaler.state.queue import WorkQueue
from scaler.state.rule_groups import RuleGroups
from scaler.threads import entered_in_thread

if TYPE_CHECKING:
    from scaler.serve.webhook_certs import CertificateSource

_log = structlog.get_logger("app")

ALONE = "no arbitration: each service decides alone"

REPORTS_PATIENCE = 5.0
"""Seconds that the start waits for nodes and fault reports, which this process may have no right to read."""
SETTLED = 15.0
"""Seconds of leadership until it is looked what is set up in the cluster."""
FULL_PASS = 600.0
"""Seconds between two passes over everything, which find what no event has told."""
SHUTDOWN_TIMEOUT = 5.0
"""Seconds that writes under way have to end after SIGTERM."""
PULSE = 5.0
"""Seconds between two looks at whether the decision loop turns, and the cluster is seen."""
SILENCE = 0.75
"""What has not been heard of for this part of `out_of_touch` is listed anew, so that it stays in touch."""


def _nothing() -> None:
    return


async def run_controller(  # noqa: PLR0913 - wiring, done once in run.py
    api: KubeApi, settings: Settings, clock: Clock, *, observer: Observer | None = None, seed: int | None = None,
    on_synced: Callable[[], None] = _nothing, metrics: Metrics | None = None, apart: Connect | None = None,
    notes: Notes | None = None,
) -> None:  # fmt: skip
    """Run the scaler until cancelled; raises when a task dies or leadership is lost.

    `observer` sees every decision. `seed` makes jitter reproducible; None takes it from the system.
    `on_synced` is called once, when everything has been listed. `metrics` are those that others write, too. With
    `apart` the Lease is renewed by a thread over the connection that this makes; without, in this loop and over `api`.
    `notes` are taken in mode shadow.
    """
    rng = random.Random(seed)  # noqa: S311 - jitter, no secret
    if settings.mode is Mode.SHADOW:
        api, apart = Confined(api, settings.lease_namespace), apart and confined(apart, settings.lease_namespace)
    app = App(
        api, settings, clock, observer=observer, rng=rng, on_synced=on_synced, metrics=metrics, apart=apart, notes=notes
    )  # fmt: skip
    async with _serving(app):
        await app.run()


class Notes(Protocol):
    """What mode shadow decides, and where it is kept."""

    def saw(self, world: World, decision: Decision, pairs: Pairs) -> Memory:
        """In place of acting; gives what is to be remembered."""
        ...

    async def load(self, app: App) -> None:
        """A term of leadership begins. Raises KubeError."""
        ...

    async def run(self) -> None:
        """Keep what is noted, until cancelled."""
        ...


class App:
    """Everything of one process. Standby replicas keep their caches warm and decide nothing."""

    def __init__(  # noqa: PLR0913 - wiring, done once above
        self, api: KubeApi, settings: Settings, clock: Clock, *, observer: Observer | None, rng: random.Random,
        on_synced: Callable[[], None], metrics: Metrics | None = None, apart: Connect | None = None,
        notes: Notes | None = None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.notes = notes
        self._watches = settings.mode is Mode.SHADOW
        self.api = api
        self.clock = clock
        self._rng = rng
        self.metrics = metrics or Metrics()
        self.health = HealthState()
        self.queue: WorkQueue[ServiceKey] = WorkQueue()
        self.changes = Changes()
        self.cache = Cache(self.changes, clock.now, settings.ascend_operator_namespace)
        self.home = Home(settings.lease_namespace)
        self.state = ClusterState(self.cache, self.changes, clock.now, self.home)
        silence = SILENCE * settings.out_of_touch
        watched = {**informers(api, self.cache, settings.namespaces, rng, self.home.namespace, silence=silence)}
        beside = {DISRUPTION_BUDGETS: watched.pop(DISRUPTION_BUDGETS)}
        if settings.mode in (Mode.GATES, Mode.SHADOW):
            del watched[SERVICES]  # only who makes pods needs the right to them
        self.informers = watched
        self.beside = beside if settings.disruption_budgets and not self._watches else {}
        """Not decided on: nothing waits for them."""
        self.reports = report_informers(api, self.cache, settings.namespaces, rng)
        self.sight = Sight(self.informers, settings.out_of_touch)
        self.election = _election(self, rng) if settings.leader_election else None
        self._apart = apart
        self.installs = Installs(
            api,
            namespace=settings.lease_namespace,
            lease=settings.lease_name if settings.leader_election else "",
            namespaces=settings.namespaces,
        )
        self.gate_setup = GateSetup(api, self.metrics, settings.install)
        self.policy = settings.policy
        self._on_synced = on_synced
        self.controller, self.reporter, self.rank_tables = self._build(observer)
        self._subscribe()
        self._alone = ""
        self.certificate = _certificate(self) if settings.webhook_port else None
        if self.certificate is not None:
            self.metrics.certificate_expires.follow(partial(getattr, self.certificate, "ends"))

    def _build(self, observer: Observer | None) -> tuple[Controller, Reporter, RankTableReconciler]:
        settings, metrics = self.settings, self.metrics
        writer = self.writer = Writer(
            self.api,
            deadline=self.election.deadline if self.election else _never,
            rng=self._rng,
            timeout=settings.request_timeout,
            on_write=lambda verb, resource, outcome: metrics.write(verb, resource.plural, outcome),
        )
        expectations: Expectations[ServiceKey] = Expectations(self.queue.add)
        self.mode = CurrentMode(self.cache, settings.mode)
        _follow(metrics, {**self.informers, **self.beside}, expectations)
        metrics.queue_depth.follow(lambda: len(self.queue))
        if self.election is not None:
            metrics.leader_changes.follow(partial(getattr, self.election, "transitions"))
        statuses = StatusWriter(writer, self.cache, self.clock, metrics, self._no_statuses)
        reporter = Reporter(writer, statuses, self.clock, metrics, self.home, silent=self._watches)
        controller = Controller(
            state=self.state,
            queue=self.queue,
            expectations=expectations,
            executor=Executor(writer, self.state, expectations, clusterd=settings.clusterd_address, clock=self.clock),
            reporter=reporter,
            metrics=metrics,
            clock=self.clock,
            policy=self.policy,
            mode=self.mode,
            alone=self.why_alone,
            unseen=self.sight.words,
            observer=observer,
            instead=self.notes.saw if self.notes is not None else None,
        )
        self.budgets = self._budgets(writer, self.beside[DISRUPTION_BUDGETS]) if self.beside else None
        tables = RankTableReconciler(
            writer, self.api, self.state.tables, self.clock, elsewhere=lambda: not self.mode.makes_pods
        )
        return controller, reporter, tables

    def _budgets(self, writer: Writer, watched: Informer[Any, Any]) -> Budgets:
        mode = self.mode
        return Budgets(
            writer,
            self.state,
            self.policy,
            name=BUDGET + self.settings.install.removeprefix(MANAGED_BY),
            now=self.clock.now,
            acts=lambda: mode() in (ModeInForce.MAKES, ModeInForce.RELEASES) and not self.sight.words(),
            watched=watched,
        )

    def why_alone(self) -> str:
        """Why each service decides as if it were alone; "" when they are weighed against each other. As of the last
        look at the nodes."""
        return self._alone

    def _no_statuses(self) -> str:
        """Why no ElasticService can be written, "" when they can."""
        informer = self.informers[ELASTIC_SERVICES]
        return informer.problem if informer.absent else ""

    def _subscribe(self) -> None:
        """Who hears of which changes, in this order: what was made of records is forgotten before anybody reads it."""
        subscribe = self.changes.subscribe
        subscribe(PodChanged, self.state.on_pod)
        subscribe(NodeChanged, self.state.on_node)
        subscribe(RoomChanged, self.controller.on_room)
        subscribe(InstanceChanged, self.state.on_instance)
        subscribe(InstanceChanged, self.rank_tables.on_instance)
        subscribe(InstanceChanged, self.controller.on_service)
        subscribe(RuleChanged, self.controller.on_service)
        subscribe(ElasticServiceChanged, self.controller.on_elastic_service)
        subscribe(OwnConfigMapGone, self.reporter.on_own_config_map)
        subscribe(ElasticServiceChanged, self.reporter.on_elastic_service)
        subscribe(ObjectRefused, self.reporter.on_refused)
        subscribe(PodArrivedUngated, self.metrics.on_pod_ungated)
        if self.budgets is not None:
            subscribe(InstanceChanged, self.budgets.on_service)
            subscribe(RuleChanged, self.budgets.on_service)
            subscribe(NodeChanged, self.budgets.on_node)
            subscribe(BudgetsChanged, self.budgets.on_budgets)

    def look_at_nodes(self) -> None:
        """Whether they are seen: every service decides otherwise then, unless the settings have each decide alone."""
        unread = self.sight.no_nodes()
        if bool(unread) == self.cache.sees_nodes:
            self.cache.set_sees_nodes(sees_nodes=not unread)
            words = "nodes not seen: pods count as being on nodes that are Ready" if unread else "nodes seen again"
            _log.warning(words, why=self.informers[NODES].problem)
        before, self._alone = self._alone, _set_alone(self.settings) or unread
        if self._alone != before:
            words = ALONE if self._alone else "services are weighed against each other again"
            _log.warning(words, why=self._alone)
            for key in self.cache.service_keys():
                self.queue.add(key)

    async def run(self) -> None:
        """Sync, become leader, decide. Any task that dies ends all of them."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (*self.informers.values(), *self.reports, *self.beside.values()):
                tasks.create_task(informer.run())
            tasks.create_task(self._pulse())
            if self.certificate is not None:
                tasks.create_task(self.certificate.follow())
            await self._synced()
            if self.election is None:
                await self._work()
            elif self._apart is None:
                await self.election.lead(self.api, self._work)
            else:
                await lead_in_thread(self.election, self._apart, self._work)

    async def _synced(self) -> None:
        """No decision, and so no write, before everything has been listed once."""
        for resource in self.informers:
            self.health.wait_for(resource.full_name, "not listed yet")
        self.health.has("start")
        for resource, informer in self.informers.items():
            await informer.synced_or_absent.wait()
            self.health.has(resource.full_name)
        await self._optional()
        await self._fault_data()
        self._adjust()
        self._on_synced()
        if elsewhere := self.cache.ascend_operators_elsewhere():
            setting = f"it is looked for in {self.settings.ascend_operator_namespace} (ascend_operator_namespace)"
            _log.warning("not taken for Ascend Operator", deployments=elsewhere[:10], why=setting)
        _log.info("caches synced", jobs=len(self.cache.jobs), pods=len(self.cache.pods))

    async def _optional(self) -> None:
        """The scaler works without nodes, too: nothing is known of their readiness then, nor what is free. And without
        ElasticServices, which say how many instances are wanted; an API server that has just started may say 403 for a
        moment."""
        nodes, services = self.informers[NODES], self.informers[ELASTIC_SERVICES]
        await _patiently([nodes, services] if services.installed else [nodes])
        if services.absent:
            so = "as many instances as its rule allows are wanted of each service"
            _log.warning("no ElasticServices are read", why=services.problem, so=so)
        self.look_at_nodes()

    async def _fault_data(self) -> None:
        """Wait a little for fault reports, and say where they come from: the scaler also works without."""
        await _patiently(self.reports)
        source = self.cache.faults.source
        if source is Source.NONE:
            why = "; ".join(reports.problem for reports in self.reports) or "MindCluster reports nothing here"
            _log.warning("no fault data", known="readiness of nodes only", why=why)
        else:
            _log.info("fault data", source=source.value, problems=self.cache.faults.problems)

    async def _work(self) -> None:
        """A term of leadership. On cancellation the writes under way may end; what they leave the next leader mends."""
        if not self._watches:
            await self._be_the_only_one()
        if self.notes is not None:
            await self.notes.load(self)
        self.metrics.leader.set(1)
        self.look_at_nodes()
        async with asyncio.TaskGroup() as tasks:
            beside = [self.reporter.run(), self._resync()]
            if not self._watches:
                beside += [self.rank_tables.run(), self.installs.follow()]
            if self.budgets is not None:
                beside.append(self.budgets.run())
            if self.notes is not None:
                beside.append(self.notes.run())
            if self.certificate is not None:
                beside.append(self.certificate.run_as_leader())
            background = [tasks.create_task(work) for work in beside]
            deciding = asyncio.create_task(self.controller.run())
            try:
                await asyncio.shield(deciding)
            finally:
                self.controller.stop()
                await self._drained(deciding)
                for task in background:
                    task.cancel()
                self.metrics.leader.set(0)

    async def _be_the_only_one(self) -> None:
        """Nothing is written beside another install that looks after the same namespaces."""
        try:
            await self.installs.look()
        except OverlapError as error:
            self.health.wait_for("namespaces of its own", str(error))
            raise

    async def _drained(self, deciding: asyncio.Task[None]) -> None:
        try:
            async with asyncio.timeout(SHUTDOWN_TIMEOUT):
                await deciding
        except TimeoutError:
            _log.warning("writes under way were given up", seconds=SHUTDOWN_TIMEOUT)

    async def _resync(self) -> None:
        """The safety net: it should never find anything, and counts when it does."""
        await asyncio.sleep(SETTLED)  # by then a webhook of ours has been trusted for the first time
        while True:
            if not self._watches:
                await self.gate_setup.look()
            await asyncio.sleep(FULL_PASS)
            await self.controller.resync()
            if self.budgets is not None:
                self.budgets.look()

    async def _pulse(self) -> None:
        """Say what is waited for, that the decision loop turns, and when it may not decide any more."""
        turns, seen = 0, True
        while True:
            lost = self.sight.lost()
            for resource, informer in self.informers.items():
                unlisted = "" if informer.synced_or_absent.is_set() else informer.problem
                self._need(resource.full_name, lost.get(resource, unlisted))
            if self.certificate is not None:
                self._need("webhook", self.certificate.problem)
            if self.controller.running:
                self.look_at_nodes()
            if all(informer.synced_or_absent.is_set() for informer in self.informers.values()):
                seen = self._tell(before=seen)
            if self.controller.turns != turns or not (self.queue.has_work and self.controller.running):
                self.health.beat("decision loop")
            self.reporter.write_left_out()
            self._adjust()
            turns = self.controller.turns
            await asyncio.sleep(PULSE)

    def _adjust(self) -> None:
        """Follow the clocks of the API servers."""
        if self.clock.adjust():
            _log.info(
                "clock of the API server", ahead=round(self.clock.skew.least, 1), most=round(self.clock.skew.most, 1)
            )
            self.state.adjust(self.clock.skew)
            for key in self.cache.service_keys():
                self.queue.add(key)

    def _tell(self, *, before: bool) -> bool:
        """Whether all that is decided on is seen. The log and the decision hear when that has changed; the decision may
        have looked at a moment of which the pulse saw nothing."""
        words = self.sight.words()
        changed = bool(words) == before
        if changed:
            _log.warning("out of touch" if words else "in touch again", why=words)
        if changed or (not words and self.controller.stands_still):
            self.queue.poke()
        self.metrics.out_of_touch.set(bool(words))
        return not words

    def _need(self, what: str, problem: str) -> None:
        """Ready or not, for the readiness probe."""
        if problem:
            self.health.wait_for(what, problem)
        else:
            self.health.has(what)


async def _patiently(informers: Sequence[Informer[Any, Any]]) -> None:
    """Wait a little for what this process may have no right to read."""
    end = asyncio.get_running_loop().time() + REPORTS_PATIENCE
    while not all(informer.synced.is_set() for informer in informers):
        if asyncio.get_running_loop().time() > end:
            break
        await asyncio.sleep(REPORTS_PATIENCE / 100)


def _set_alone(settings: Settings) -> str:
    """Why the settings have each service decide alone; "" when they do not."""
    if not settings.arbitration:
        return "setting arbitration is off"
    words = "setting namespaces: what pods of other namespaces take of the nodes is not seen"
    return words if settings.namespaces else ""


def _certificate(app: App) -> CertificateSource:
    """cryptography and aiohttp are imported only where there is a webhook."""
    from scaler.serve.webhook_certs import certificate_source  # noqa: PLC0415

    return certificate_source(app.api, app.clock, app.settings)


def _follow(
    metrics: Metrics, watched: Mapping[Resource, Informer[Any, Any]], expectations: Expectations[ServiceKey]
) -> None:
    """Let the metrics read what others count."""
    metrics.expectation_timeouts.follow(lambda: expectations.timed_out)
    now = asyncio.get_running_loop().time
    for resource, informer in watched.items():
        metrics.watch_silence.follow(partial(_silence, informer, now), resource.full_name)
        metrics.lists.follow(partial(getattr, informer, "lists"), resource.full_name)
        metrics.watches.follow(partial(getattr, informer, "watches"), resource.full_name)
        metrics.watch_events.follow(partial(getattr, informer, "events"), resource.full_name)
        metrics.objects_refused.follow(partial(getattr, informer, "refused"), resource.full_name)


def _silence(informer: Informer[Any, Any], now: Callable[[], float]) -> float | None:
    """Seconds since it was heard of; None when it never was."""
    return now() - informer.heard if informer.heard > -math.inf else None


def _election(app: App, rng: random.Random) -> Election:
    settings = app.settings
    return Election(
        app.clock,
        namespace=settings.lease_namespace,
        name=settings.lease_name,
        identity=settings.identity,
        rng=rng,
        timing=LeaseTiming(
            settings.lease_duration, settings.renew_deadline, settings.retry_period, settings.out_of_touch
        ),
        marks=marks(settings.namespaces) if settings.mode is not Mode.SHADOW else {},
        heard=app.sight.heard,
    )


@asynccontextmanager
async def _serving(app: App) -> AsyncIterator[None]:
    """The admission webhook; health, metrics and the last world: unless switched off. Each in a thread of its own, so
    that whoever floods it takes nothing of the main loop."""
    async with AsyncExitStack() as stack:
        if app.certificate is not None:
            await stack.enter_async_context(entered_in_thread("webhook", _webhook(app, app.certificate)))
        if app.settings.http_port:
            await stack.enter_async_context(entered_in_thread("http", _http(app)))
        yield


def _webhook(app: App, certificate: CertificateSource) -> AbstractAsyncContextManager[int]:
    from scaler.serve.webhook import WebhookState, serve_webhook  # noqa: PLC0415 - as `_certificate`

    state = WebhookState(certificate, RuleGroups(app.cache.config_maps.get).of, app.metrics)
    return serve_webhook(state, app.settings.http_host, app.settings.webhook_port)


def _http(app: App) -> AbstractAsyncContextManager[int]:
    from scaler.serve.http import ServeState, serve  # noqa: PLC0415 - the simulation does without a server

    state = ServeState(app.health, app.metrics, lambda: app.controller.world)
    return serve(state, app.settings.http_host, app.settings.http_port)


def _never() -> float:
    """The deadline of a process that needs no Lease."""
    return math.inf
