"""Wiring only: builds all components around a KubeApi and runs them until cancelled. Each task is
owned or awaited."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from scaler import wiring
from scaler.clock import Clock, loop_time
from scaler.controller import Controller, Observer, Pairs
from scaler.decide.decision import Decision
from scaler.decide.memory import Memory
from scaler.decide.world import World
from scaler.defaults import Mode
from scaler.election import Election
from scaler.execute.assumed import AssumedWrites
from scaler.execute.budgets import Budgets
from scaler.execute.capacity_requests import CapacityRequests
from scaler.execute.evictions import EvictionCounts
from scaler.execute.executor import Executor
from scaler.informers.changes import Changes
from scaler.informers.faults import Source
from scaler.informers.informer import Freshness, Informer
from scaler.informers.left_out import LeftOut
from scaler.informers.mode import Alone, CurrentMode
from scaler.informers.resources import informers
from scaler.installs import Installs, marks
from scaler.kube.api import DISRUPTION_BUDGETS, ELASTIC_SERVICES, NODES, SERVICES, KubeApi, Resource
from scaler.kube.confined import confined
from scaler.kube.writer import Writer, never
from scaler.names import BUDGET, LAST_MODE, MANAGED_BY
from scaler.ranktables.reconciler import RankTableReconciler
from scaler.report.elastic_services import StatusWriter
from scaler.report.gate_setup import GateSetup
from scaler.report.metrics import Metrics
from scaler.report.reporter import Reporter
from scaler.settings import Settings
from scaler.state.assemble import WorldBuilder
from scaler.state.cluster import ClusterState
from scaler.state.rules_in_force import groups_of
from scaler.threads import Connect, entered_in_thread, lead_in_thread
from scaler.work_queue import WorkQueue

if TYPE_CHECKING:
    from scaler.serve.server_certificate import ServerCertificate

_log = structlog.get_logger("app")

OPTIONAL_PATIENCE = 5.0
"""Seconds that the start waits for resources that this process may have no right to read."""
SETTLED = 15.0
"""Seconds of leadership until the installed sources of our gate are read."""
FULL_PASS = 600.0
"""Seconds between two passes over everything, which find changes that no event has shown."""
SHUTDOWN_TIMEOUT = 5.0
"""Seconds for writes under way to end after SIGTERM."""
PULSE = 5.0
"""Seconds between two checks of the decision loop, of the watches, and of the API server's
clock."""
STALLED_AFTER = 30.0
"""Seconds without a sign of life after which the decision loop counts as stalled."""
SILENCE = 3 / 8
"""Part of `out_of_touch` after which a watch that brings nothing and does not end is given up: 45
s, so that a new service is served within a minute whatever watches do."""


class Notes(Protocol):
    """Receives the decisions of mode shadow, and stores notes about them."""

    def saw(self, world: World, decision: Decision, pairs: Pairs) -> Memory:
        """Called instead of acting; returns the memory for the next decision."""

    async def load(self, app: App) -> None:
        """Called when a term of leadership begins. Raises KubeError."""

    async def run(self) -> None:
        """Store the notes, until cancelled."""


class App:
    """All components of one process. Standby replicas keep their caches synced and decide nothing.

    `seed` makes jitter reproducible; None takes it from the system. With `connect`, a thread
    renews the Lease over the connection that `connect` makes; without it, this loop renews the
    Lease over `api`. `notes` is for mode shadow. `remarks` returns sentences that `/readyz` says
    though the process is ready; for any thread."""

    def __init__(  # noqa: PLR0913 - wiring
        self,
        api: KubeApi,
        settings: Settings,
        clock: Clock,
        *,
        observer: Observer | None = None,
        seed: int | str | None = None,
        metrics: Metrics | None = None,
        connect: Connect | None = None,
        notes: Notes | None = None,
        remarks: Callable[[], list[str]] = list,
    ) -> None:
        self._shadow = settings.mode is Mode.SHADOW
        self.home = settings.lease_namespace
        if self._shadow:
            api = confined(api, self.home)
        self.api = api
        self._connect = connect
        self.settings = settings
        self.notes = notes
        self._remarks = remarks
        self.clock = clock
        rng = random.Random(seed)  # noqa: S311 - jitter, no secret
        self.metrics = metrics or Metrics()
        self._beat = math.inf
        """Loop time of the last sign of life of the decision loop; it has to give them from the
        first one on."""
        self.queue = WorkQueue()
        self.changes = Changes()
        self.state = ClusterState(
            self.changes,
            clock.now,
            self.home,
            settings.ascend_operator_namespace,
            settings.kept_per_namespace,
        )
        self.cache = self.state.cache
        self.left_out = LeftOut(api, self.state.lacks_rule, self.state.take_rule)
        self.state.rules.ask_of(self.left_out.ask)
        silence = SILENCE * settings.out_of_touch
        self.informers, self.reports = informers(
            api, self.cache, settings.namespaces, rng, self.home, silence=silence
        )
        optional = {DISRUPTION_BUDGETS: self.informers.pop(DISRUPTION_BUDGETS)}
        if settings.mode in (Mode.GATES, Mode.SHADOW):
            del self.informers[SERVICES]  # the right to Services is needed only to make pods
        self.optional_informers: dict[Resource, Informer[Any, Any]] = {}
        """No start waits for these."""
        if settings.disruption_budgets and not self._shadow:
            self.optional_informers = optional
        self.freshness = Freshness(self.informers, settings.out_of_touch)
        self.alone = Alone(self.freshness, settings, self.changes.publish)
        self.mode = CurrentMode(self.cache, settings.mode, self.changes.publish)
        self.election = self._election(rng) if settings.leader_election else None
        self.installs = Installs(api, settings)
        self.gate_setup = GateSetup(api, self.metrics, settings.install)
        self.writer = Writer(
            api,
            deadline=self.election.deadline if self.election else never,
            rng=rng,
            timeout=settings.request_timeout,
            on_write=self.metrics.write,
        )
        self.capacity_requests = None
        if settings.provisioning_request and not self._shadow:
            self.capacity_requests = self._capacity_requests()
        self.controller, self.reporter = self._deciding(observer)
        self.rank_tables = RankTableReconciler(self.writer, self.state.tables, clock, self.mode)
        self.budgets = self._budgets() if self.optional_informers else None
        self.certificate = self._certificate() if settings.webhook_port else None
        self.metrics_certificate = self._metrics_certificate() if settings.metrics_port else None
        self._stale = False
        writers = wiring.Writers(
            self.rank_tables,
            self.reporter,
            self.budgets,
            self.capacity_requests,
            self.controller.executor.marks,
        )
        wiring.subscribe(self.changes, self.state, self.controller, writers)

    def _deciding(self, observer: Observer | None) -> tuple[Controller, Reporter]:
        settings = self.settings
        metrics = self.metrics
        writer = self.writer
        clock = self.clock
        assumed = AssumedWrites(self.queue.add)
        metrics.follow_informers({**self.informers, **self.optional_informers})
        metrics.expectation_timeouts.follow(lambda: assumed.timed_out)
        metrics.arrived_ungated.follow(lambda: self.cache.arrived_ungated)
        metrics.restarts_counted.follow(lambda: self.state.restarts_counted)
        metrics.queue_depth.follow(lambda: len(self.queue))
        absent = self.informers[ELASTIC_SERVICES].why_absent
        statuses = StatusWriter(
            writer, self.state, clock, metrics, absent, most=settings.kept_per_namespace
        )
        reporter = Reporter(writer, statuses, clock, metrics, self.home, shadow=self._shadow)
        asked = self.capacity_requests
        controller = Controller(
            state=self.state,
            builder=WorldBuilder(self.state, settings.policy, alone=self.alone.why),
            queue=self.queue,
            assumed=assumed,
            executor=Executor(
                writer,
                self.state,
                assumed,
                clusterd=settings.clusterd_address,
                clock=clock,
                evictions=EvictionCounts(
                    writer, self.state, most=settings.kept_per_namespace, tell=reporter.not_counted
                ),
                named_by=asked.named_by if asked is not None else None,
            ),
            reporter=reporter,
            metrics=metrics,
            clock=clock,
            mode=self.mode,
            stale=self.freshness.words,
            observer=observer,
            shadow=self.notes.saw if self.notes is not None else None,
            capacity_requests=asked,
        )
        return controller, reporter

    def _capacity_requests(self) -> CapacityRequests:
        return CapacityRequests(
            self.api,
            self.writer,
            self.state,
            class_name=self.settings.provisioning_request,
            patience=self.settings.fit_patience,
            mode=self.mode,
            stale=self.freshness.words,
        )

    def _budgets(self) -> Budgets:
        return Budgets(
            self.writer,
            self.state,
            self.settings.policy,
            name=BUDGET + self.settings.install.removeprefix(MANAGED_BY),
            now=self.clock.now,
            mode=self.mode,
            stale=self.freshness.words,
            watched=self.optional_informers[DISRUPTION_BUDGETS],
        )

    async def run(self) -> None:
        """Serve, sync, lead, decide, until cancelled. A task that fails ends all; raises what ended
        it: also LeadershipLost, OverlapError."""
        async with self._served(), asyncio.TaskGroup() as tasks:
            for informer in self.informers.values():
                tasks.create_task(informer.run())
            for reports in self.reports:
                tasks.create_task(reports.run())
            for informer in self.optional_informers.values():
                tasks.create_task(informer.run())
            if self.certificate is not None:
                tasks.create_task(self.certificate.follow())
            if self.metrics_certificate is not None:
                tasks.create_task(self.metrics_certificate.follow())
            tasks.create_task(self.left_out.run())
            tasks.create_task(self._pulse())
            await self._synced()
            if self.election is None:
                await self._work()
            elif self._connect is None:
                await self.election.lead(self.api, self._work)
            else:
                await lead_in_thread(self.election, self._connect, self._work)

    async def _synced(self) -> None:
        """Wait for the first list of every resource: no decision, and so no write, before that."""
        for informer in self.informers.values():
            await informer.synced_or_absent.wait()
        # A little longer for what this process may have no right to read: nodes (without them
        # neither readiness nor room is known), ElasticServices, fault reports. An API server that
        # has just started may answer 403 at first.
        nodes = self.informers[NODES]
        services = self.informers[ELASTIC_SERVICES]
        with suppress(TimeoutError):
            async with asyncio.timeout(OPTIONAL_PATIENCE):
                await nodes.synced.wait()
                if services.installed:
                    await services.synced.wait()
                for reports in self.reports:
                    await reports.synced.wait()
        if services.absent:
            so = "as many instances as its rule allows are wanted of each service"
            _log.warning("no ElasticServices are read", why=services.problem, so=so)
        source = self.cache.faults.source
        if source is Source.NONE:
            why = (
                "; ".join(reports.problem for reports in self.reports)
                or "MindCluster reports nothing here"
            )
            _log.warning("no fault data", known="readiness of nodes only", why=why)
        else:
            _log.info("fault data", source=source.value, problems=self.cache.faults.problems)
        self.alone.follow()
        self._follow_clocks()
        if elsewhere := self.cache.ascend_operators_elsewhere():
            setting = (
                f"it is looked for in {self.settings.ascend_operator_namespace}"
                " (ascend_operator_namespace)"
            )
            _log.warning("not taken for Ascend Operator", deployments=elsewhere[:10], why=setting)
        _log.info("caches synced", jobs=len(self.cache.jobs), pods=len(self.cache.pods))

    async def _work(self) -> None:
        """A term of leadership. On cancellation the writes under way may end; the next leader
        completes the rest."""
        await self._look_around()
        if self.notes is not None:
            await self.notes.load(self)
        self.metrics.leader.set(1)
        self.alone.follow()
        async with asyncio.TaskGroup() as tasks:
            leading = [self.reporter.run(), self._resync()]
            if not self._shadow:
                leading += [self.rank_tables.run(), self.installs.follow()]
            if self.budgets is not None:
                leading.append(self.budgets.run())
            if self.capacity_requests is not None:
                leading.append(self.capacity_requests.run())
            if self.notes is not None:
                leading.append(self.notes.run())
            if self.certificate is not None:
                leading.append(self.certificate.run_as_leader())
            background = [tasks.create_task(work) for work in leading]
            deciding = asyncio.create_task(self.controller.run())
            try:
                await asyncio.shield(deciding)
            finally:
                self.controller.stop()
                try:
                    async with asyncio.timeout(SHUTDOWN_TIMEOUT):
                        await deciding
                except TimeoutError:
                    _log.warning("writes under way were given up", seconds=SHUTDOWN_TIMEOUT)
                for task in background:
                    task.cancel()
                self.metrics.leader.set(0)

    async def _look_around(self) -> None:
        """See who else is there, or was, before this replica begins to act."""
        if not self._shadow:
            await self.installs.look()
        if self.election is not None:
            self.mode.begin(self.election.annotation(LAST_MODE))

    async def _resync(self) -> None:
        await asyncio.sleep(SETTLED)  # by then a webhook of ours is trusted for the first time
        while True:
            if not self._shadow:
                await self.gate_setup.look()
            await asyncio.sleep(FULL_PASS)
            await self.controller.resync()
            if self.budgets is not None:
                self.budgets.mark_all()

    async def _pulse(self) -> None:
        """Check what no event shows: silent watches, a decision loop that hangs, clocks."""
        passes = 0
        while True:
            if self.controller.running:
                self.alone.follow()
            if all(informer.synced_or_absent.is_set() for informer in self.informers.values()):
                words = self.freshness.words()
                changed = bool(words) != self._stale
                self._stale = bool(words)
                if changed:
                    _log.warning("out of touch" if words else "in touch again", why=words)
                # also after a short loss between pulses
                if changed or (not words and self.controller.is_stale):
                    self.queue.wake()
                self.metrics.out_of_touch.set(bool(words))
            if self.controller.passes_begun != passes or not (
                self.queue.has_work and self.controller.running
            ):
                self._beat = loop_time()
            passes = self.controller.passes_begun
            self.reporter.write_left_out()
            self._follow_clocks()
            await asyncio.sleep(PULSE)

    def stalled(self) -> list[str]:
        """A sentence about the decision loop when it has stalled; empty when the process is
        healthy. For any thread."""
        silence = loop_time() - self._beat
        return (
            [f"decision loop: no sign of life for {silence:.0f} s"]
            if silence > STALLED_AFTER
            else []
        )

    def missing(self) -> list[str]:
        """A sentence about each condition that is not met; empty when ready, as a synced standby
        is. For any thread."""
        found = dict[str, str]()
        stale = self.freshness.stale()
        for resource, informer in self.informers.items():
            unlisted = "" if informer.synced_or_absent.is_set() else informer.problem
            found[resource.full_name] = stale.get(resource, unlisted)
        if self.certificate is not None:
            found["webhook"] = self.certificate.problem
        return [
            f"waiting for {what}: {problem}" for what, problem in sorted(found.items()) if problem
        ]

    def _remarked(self) -> list[str]:
        """A sentence about each thing that should be seen to, and takes nothing from anybody. For
        any thread."""
        certificate = self.metrics_certificate
        problem = certificate.problem if certificate is not None else ""
        return [*self._remarks(), *([f"metrics: {problem}"] if problem else [])]

    def _follow_clocks(self) -> None:
        before = self.clock.skew
        self.clock.adjust()
        skew = self.clock.skew
        if skew != before:
            _log.info(
                "clock of the API server", ahead=round(skew.least, 1), most=round(skew.most, 1)
            )
            self.state.adjust(skew)
            self.controller.requeue_all()

    def _election(self, rng: random.Random) -> Election:
        marked = marks(self.settings.namespaces) if not self._shadow else {}
        election = Election(
            self.clock,
            self.settings,
            rng=rng,
            marks=marked,
            seen_until=self.freshness.heard,
            kept=self.mode.kept,
        )
        self.metrics.leader_changes.follow(lambda: election.transitions)
        return election

    def _certificate(self) -> ServerCertificate:
        # Loads cryptography, aiohttp.
        from scaler.serve.webhook_certs import certificate_source  # noqa: PLC0415

        certificate = certificate_source(self.api, self.clock, self.settings)
        self.metrics.certificate_expires.follow(lambda: certificate.ends)
        return certificate

    def _metrics_certificate(self) -> ServerCertificate:
        from scaler.serve.metrics import metrics_certificate  # noqa: PLC0415 - as `_certificate`

        return metrics_certificate(self.clock, self.settings)

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        """Webhook, health and metrics, as far as wanted, each in a thread: a flood of requests does
        not delay the main loop."""
        host = self.settings.http_host
        async with AsyncExitStack() as stack:
            if (certificate := self.certificate) is not None:
                from scaler.serve.webhook import webhook_server  # noqa: PLC0415 - as `_certificate`

                rules = self.cache.config_maps
                reviewing = webhook_server(
                    lambda namespace, rule: groups_of(rules.get(namespace, rule)), self.metrics
                )
                webhook = reviewing.served(
                    host, self.settings.webhook_port, lambda: certificate.context
                )
                await stack.enter_async_context(entered_in_thread("webhook", webhook))
            if self.settings.http_port:
                # The simulation has no server.
                from scaler.serve.http import Health, http_server  # noqa: PLC0415

                server = http_server(
                    Health(self.stalled, self.missing, self._remarked),
                    self.metrics,
                    lambda: self.controller.world,
                    self.settings.metrics_port,
                )
                http = server.served(host, self.settings.http_port)
                await stack.enter_async_context(entered_in_thread("http", http))
            if self.metrics_certificate is not None and self._connect is not None:
                from scaler.serve.metrics import served_metrics  # noqa: PLC0415

                metrics = served_metrics(
                    self.settings, self._connect, self.metrics, self.metrics_certificate
                )
                await stack.enter_async_context(entered_in_thread("metrics", metrics))
            yield
