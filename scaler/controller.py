"""The decision loop: one pass takes in what has changed, decides about all services, then acts and reports.

    changes -> world -> decide -> act, report

Deciding is serial and synchronous, so services cannot race each other; acting runs in parallel, one actuation per
service at a time. While its writes are under way a service is decided about as it will be, and nothing is done to it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from itertools import compress, count
from operator import is_not, or_

import structlog

from scaler.clock import Clock, Slices
from scaler.decide.decide import Cache as Known
from scaler.decide.decide import decide
from scaler.decide.state import refuse
from scaler.decide.undecided import fault_in
from scaler.decide.world import Decision, Memory, Plan, Policy, Service, ServiceKey, World
from scaler.execute.executor import ActionResult, Executor
from scaler.execute.log_fields import outcome_line, plan_line
from scaler.garbage import no_collection
from scaler.informers.changes import ElasticServiceChanged, InstanceChanged, RoomChanged, RuleChanged
from scaler.informers.mode import CurrentMode, ModeInForce
from scaler.report.metrics import Metrics
from scaler.report.reporter import Reporter
from scaler.report.service_reports import (
    RuleKey,
    ServiceReport,
    arbitration_waits,
    differs,
    differs_in_words,
    report_of,
    waits_for_room,
)
from scaler.state.cluster import ClusterState
from scaler.state.expectations import Expectations
from scaler.state.queue import FIRST_BACKOFF, LAST_BACKOFF, WorkQueue
from scaler.state.world import WorldBuilder, is_missed
from scaler.workloads.kind import JOB_KINDS

_log = structlog.get_logger(__name__)

PATIENCE = 300.0
"""Seconds after which a service known from pods alone is forgotten; its last valid rule goes with it."""
WORDS_PATIENCE = 10.0
"""Seconds until the other words of a service are reported to which nothing happened: what is free may change many
times a second, and every waiting service says how much there is."""
PAUSE, LONGEST_PAUSE = 3.0, 0.03
"""The pause after a pass, in times of what it took, and the longest in seconds: under a storm of events passes take
a quarter of a core, as long as they are short, and what could go is never much later."""
FRAMES = 5
"""Of a traceback in the log, the innermost ones: one of endless recursion has a thousand."""
SOONEST = 0.001
"""Seconds until the decision is made again at the earliest, however soon time may change it."""

Pairs = list[tuple[Service, Plan]]
Observer = Callable[[World, Decision], None]
"""Called with everything that was decided, after every pass and before anything of it is acted on."""
Instead = Callable[[World, Decision, Pairs], Memory]
"""Called where nothing is acted on, with the plans that are other than before; gives what is remembered."""


class Controller:
    """Owns the loop, the memory and the actuations. Everything else is given."""

    def __init__(  # noqa: PLR0913 - wiring, done once in app.py
        self,
        *,
        state: ClusterState,
        queue: WorkQueue[ServiceKey],
        expectations: Expectations[ServiceKey],
        executor: Executor,
        reporter: Reporter,
        metrics: Metrics,
        clock: Clock,
        policy: Policy,
        mode: CurrentMode,
        alone: Callable[[], str],
        unseen: Callable[[], str],
        observer: Observer | None = None,
        instead: Instead | None = None,
    ) -> None:
        self._state = state
        self._cache = state.cache
        self._queue = queue
        self._expectations = expectations
        self._executor = executor
        self._reporter = reporter
        self._metrics = metrics
        self._clock = clock
        self._mode = mode
        self._alone = alone
        self._unseen = unseen
        self._observer = observer
        self._instead = instead
        self._services = WorldBuilder(state, policy, alone=alone)
        self._memory = Memory()
        self._known = Known()
        self._failures = 0
        """Decisions in a row that failed for a fault of ours."""
        self._fresh: set[ServiceKey] = set()
        """Services that something happened to since they were reported last."""
        self._decided: tuple[tuple[Service, ...], tuple[Plan, ...]] = ((), ())
        self._waiting: set[ServiceKey] = set()
        """Services of which something waits for room."""
        self._waits_for_room = False
        """Whether more room would change what is done, as of the last decision."""
        self._timer: asyncio.TimerHandle | None = None
        self._acting: ModeInForce | None = None
        """None while something that is decided on is not seen: nothing is decided then."""
        self.turns = 0
        """How often the loop has turned."""
        self._loop: asyncio.Task[None] | None = None
        self._began = 0.0
        """Loop time at which this replica began to decide."""
        self._leaving: dict[ServiceKey, float] = {}
        """Services whose pods are all gone -> loop time from which they are forgotten."""
        self.world: World | None = None
        """What was decided on last, for `scaler explain`."""

    async def run(self) -> None:
        """Decide until `stop`; then let the writes under way end. The caches must be synced."""
        self._acting = self._mode()
        self._began = asyncio.get_running_loop().time()
        self._look_at_all()
        await asyncio.sleep(0)  # of ten thousand services each step takes tens of milliseconds
        if self._acting is not ModeInForce.STANDS_BACK:
            for rule in self._state.orphaned_rules():
                self._reporter.rule_gone(rule)
            for left_over in self._state.left_overs():
                self._reporter.delete_left_over(left_over)
            for key in self._state.orphaned_services():
                self._reporter.service_gone(key)
        async with asyncio.TaskGroup() as acting:
            self._loop = acting.create_task(self._decide_for_ever(acting))

    @property
    def running(self) -> bool:
        """Whether the loop has been started and not ended."""
        return self._loop is not None and not self._loop.done()

    @property
    def stands_still(self) -> bool:
        """Whether nothing is decided because something was not seen when it looked last."""
        return self.running and self._acting is None

    def stop(self) -> None:
        """No decision after this one."""
        if self._loop is not None:
            self._loop.cancel()

    async def _decide_for_ever(self, acting: asyncio.TaskGroup) -> None:
        while True:
            keys = await self._queue.take()
            self.turns += 1
            unseen = self._unseen()
            before, self._acting = self._acting, None if unseen else self._mode()
            if self._acting is not before:
                self._look_at_all()  # who makes the pods has changed, and with it what jobs and pods mean
            elif self._acting is None:
                await self._say_unseen(keys, unseen)
            elif self._acting is not ModeInForce.STANDS_BACK:
                took = await self._pass(keys, acting)
                if took:
                    await asyncio.sleep(min(PAUSE * took, LONGEST_PAUSE))
                continue
            for key in keys:
                self._queue.done(key)

    async def _pass(self, keys: list[ServiceKey], acting: asyncio.TaskGroup) -> float:
        """Decide about all services; gives the seconds that it took. Reading and reporting let the loop turn."""
        started = asyncio.get_running_loop().time()
        # 1. what has happened, in one value
        await self._take_in(keys)
        world = self.world = self._services.world(self._clock.now(), self._memory)
        # 2. what is to be done about all services
        decision = self._decide(world)
        decided = asyncio.get_running_loop().time()
        acted_on: set[ServiceKey] = set()
        if decision is not None:
            if self._observer is not None:
                self._observer(world, decision)
            # 3. act, then report: people can wait for a millisecond, instances should not
            pairs = self._other_than_before(world, decision)
            self._memory = self._instead(world, decision, pairs) if self._instead else decision.memory
            acted_on = await self._act_on(world, pairs, acting, started)
            self._recheck(decision.recheck_at)
            await self._report(world, decision, pairs)
        for key in keys:
            if key not in acted_on:
                self._queue.done(key)
        ended = asyncio.get_running_loop().time()
        _log.debug("pass", services=len(keys), seconds=round(ended - started, 6))
        self._metrics.passed(plan_seconds=decided - started, pass_seconds=ended - started)
        return ended - started

    # 1. what has happened

    async def _take_in(self, keys: Sequence[ServiceKey]) -> None:
        """Look at every service whose own writes have come back. A fault of ours about one must not stop the others."""
        await asyncio.sleep(0)  # to take them from the queue took its time
        slices = Slices()
        for key in keys:
            await slices.end()
            if not self._expectations.settled(key):
                continue
            if not self._cache.has_instances(key):
                self._leave(key)
                continue
            self._leaving.pop(key, None)
            try:
                self._services.look_at(key)
            except Exception:
                self._failed("service cannot be read", key)
                continue
            self._fresh.add(key)

    def _failed(self, what: str, key: ServiceKey) -> None:
        """A fault of ours about one service, while it is handled: tried again with growing pauses."""
        self._metrics.decisions_failed.inc()
        _log.error(what, service=str(key), traceback=traceback.format_exc(-FRAMES))
        self._queue.add_after_backoff(key)

    def _leave(self, key: ServiceKey) -> None:
        """A service without jobs is gone. One known from its pods alone may have lost them all for a moment."""
        now = asyncio.get_running_loop().time()
        last = self._services.get(key)
        from_pods = last is not None and any(instance.kind not in JOB_KINDS for instance in last.instances)
        end = self._leaving.setdefault(key, now + PATIENCE if from_pods else now)
        self._services.leave(key)
        self._waiting.discard(key)
        if now < end:
            self._queue.add_at(key, end)
            return
        del self._leaving[key]
        self._fresh.discard(key)
        self._metrics.service_gone(key)
        self._reporter.service_gone(key)
        self._queue.forget(key)
        if key.rule and not self._cache.rule_is_named(key.namespace, key.rule):
            self._state.rules.forget(key.namespace, key.rule)
            self._reporter.rule_gone(RuleKey(key.namespace, key.rule))

    def _look_at_all(self) -> None:
        for key in {*self._cache.service_keys(), *self._services.keys()}:
            self._queue.add(key)

    # 2. what is to be done

    def _decide(self, world: World) -> Decision | None:
        """A fault of ours is logged and tried again with growing pauses; /snapshots/world has what it was about."""
        try:
            with no_collection():
                decision = decide(world, self._known)
        except Exception:
            delay = min(FIRST_BACKOFF * 2.0 ** min(self._failures, 32), LAST_BACKOFF)
            self._failures += 1
            self._metrics.decisions_failed.inc()
            self._known = Known()
            nodes = len(world.nodes.nodes) if world.nodes is not None else 0
            # Not as an exception: with the locals of every frame a world of thousands would take seconds to print.
            counts = {"services": len(world.services), "nodes": nodes}
            _log.error("decision failed", **counts, tried_again_after=delay, traceback=traceback.format_exc())
            asyncio.get_running_loop().call_later(delay, self._queue.poke)
            return None
        self._failures = 0
        return decision

    def _recheck(self, moment: float) -> None:
        """Decide again at this time; 0.0 = only when something happens."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if moment:
            soonest = 1.0 if self._acting is ModeInForce.WATCHES else SOONEST  # what is not done may be due for ever
            delay = max(soonest, moment - self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._queue.poke)

    def on_service(self, change: InstanceChanged | RuleChanged) -> None:
        """Look at the service again."""
        if change.service is not None:
            self._queue.add(change.service)

    def on_elastic_service(self, change: ElasticServiceChanged) -> None:
        """Another number of instances may be wanted, of a service that has any."""
        if self._cache.has_instances(change.service):
            self._queue.add(change.service)

    def on_room(self, _change: RoomChanged) -> None:
        """Of interest as long as somebody waits for room."""
        if self._waits_for_room:
            self._queue.poke()

    # 3. act

    def _other_than_before(self, world: World, decision: Decision) -> Pairs:
        """Services and their plans, where either is another object than after the last pass or something happened:
        ten thousand that are as they were cost nothing."""
        before, self._decided = self._decided, (world.services, decision.plans)
        services, plans = world.services, decision.plans
        if len(before[0]) != len(services):
            return list(zip(services, plans, strict=True))
        others = map(or_, map(is_not, before[0], services), map(is_not, before[1], plans))
        fresh = {self._services.position(key) for key in self._fresh if self._services.get(key) is not None}
        return [(services[at], plans[at]) for at in sorted(fresh.union(compress(count(), others)))]

    async def _act_on(self, world: World, pairs: Pairs, acting: asyncio.TaskGroup, started: float) -> set[ServiceKey]:
        """Begin every plan; gives the services that are acted on from now on."""
        begun, slices = set(), Slices()
        for service, plan in pairs:
            await slices.end()  # those that have begun take their first steps
            if service.assumed:
                continue
            if plan.actions and self._acting is not ModeInForce.WATCHES and self._begins(world, plan):
                since = max(self._began, self._queue.dirty_since(plan.key)) if plan.key in self._fresh else started
                self._queue.hold(plan.key)
                begun.add(plan.key)
                self._metrics.acted_on(plan)
                acting.create_task(self._act(world, plan, since))
            elif plan.key in self._fresh:
                self._queue.forget(plan.key)
        return begun

    def _begins(self, world: World, plan: Plan) -> bool:
        try:
            self._services.assume(plan, world.now)
        except Exception:
            self._failed("service cannot be read", plan.key)
            return False
        return True

    async def _act(self, world: World, plan: Plan, since: float) -> None:
        """Perform one plan. A fault of ours about it must not stop the others."""
        try:
            await self._perform(world, plan, since)
        except Exception:
            self._failed("plan failed", plan.key)
            self._queue.done(plan.key)

    async def _perform(self, world: World, plan: Plan, since: float) -> None:
        """Log plan and outcome in one line, and remember what was refused."""
        key = plan.key
        outcomes = await self._executor.perform(plan)
        seconds = asyncio.get_running_loop().time() - since
        self._metrics.reaction_seconds.observe(seconds)
        wrong = any(outcome.failed or outcome.refused for outcome in outcomes)
        log = _log.warning if wrong else _log.info
        log("reconciled", **plan_line(world, plan), **outcome_line(plan, outcomes), seconds=round(seconds, 6))
        self._remember_refusals(key, outcomes)
        settled = self._expectations.settled(key)
        if any(outcome.failed for outcome in outcomes) or (settled and not (wrong or self._queue.is_dirty(key))):
            # What had no effect is looked at again with growing pauses, too: nothing else would bring it back.
            self._services.retry(key, settled=settled)
            self._queue.add_after_backoff(key)
        elif wrong:
            self._queue.add(key)
        self._queue.done(key)

    def _remember_refusals(self, key: ServiceKey, outcomes: Sequence[ActionResult]) -> None:
        for outcome in outcomes:
            if outcome.refused:
                record = self._cache.job(outcome.uid)
                generation = record.job.generation if record is not None else 0
                words, now = outcome.refused, self._clock.now()
                self._memory = refuse(self._memory, key, outcome.uid, words, now=now, generation=generation)

    # 4. report

    async def _report(self, world: World, decision: Decision, pairs: Pairs) -> None:
        """Services that something happened to, and those of which something else is said now."""
        due: list[tuple[Service, Plan]] = []
        later = asyncio.get_running_loop().time() + WORDS_PATIENCE
        for service, plan in pairs:
            (self._waiting.add if waits_for_room(plan) else self._waiting.discard)(plan.key)
            if service.assumed:
                continue
            before = self._reporter.plan_of(plan.key)
            if plan.key in self._fresh or differs(before, plan):
                due.append((service, plan))
            elif differs_in_words(before, plan):
                self._queue.add_at(plan.key, later)
        self._fresh.clear()
        self._waits_for_room = not world.alone and (bool(self._waiting) or arbitration_waits(decision.tally))
        self._metrics.arbitrated(decision.tally)
        reports, slices = list[ServiceReport](), Slices()
        for service, plan in due:
            self._metrics.planned(service, plan, world.now)
            fault = fault_in(plan)
            if fault:
                self._metrics.decisions_failed.inc()
                _log.error("service cannot be decided", service=str(plan.key), why=fault)
            try:
                reports.append(report_of(self._state, service, plan, alone=world.alone))
            except Exception:
                self._failed("service cannot be reported", plan.key)
            await slices.end()
        await self._reporter.note(reports)

    async def _say_unseen(self, keys: Sequence[ServiceKey], words: str) -> None:
        """What was decided last about these services, and why no more is decided."""
        alone, asked = self._alone(), set(keys)
        reports, slices = list[ServiceReport](), Slices()
        for service, plan in zip(*self._decided, strict=True):
            if service.key in asked:
                reports.append(report_of(self._state, service, plan, alone=alone, out_of_touch=words))
                await slices.end()
        await self._reporter.note(reports)

    async def resync(self) -> None:
        """Read every service that is at rest anew, from the records alone; what is found was a missed event."""
        self._state.instances.forget_all()
        if self._acting in (None, ModeInForce.STANDS_BACK):
            return
        slices = Slices()
        for key in sorted({*self._cache.service_keys(), *self._services.keys()} - self._leaving.keys()):
            await slices.end()
            if not (self._queue.is_idle(key) and self._expectations.settled(key)):
                continue
            try:
                found = self._state.service(key) if self._cache.has_instances(key) else None
            except Exception:
                self._failed("service cannot be read", key)
                continue
            known = self._services.get(key)
            if found != known:
                self._queue.add(key)
            if is_missed(found, known):
                _log.error("missed event", service=str(key))
                self._metrics.resync_corrections.inc()
