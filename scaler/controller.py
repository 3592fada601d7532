"""The decision loop: one pass takes in all changes, decides about all services, then acts and
reports.

    changes -> world -> decide -> act, report

Decisions are serial and synchronous, so services cannot race each other. Actions run in parallel,
at most one plan per service at a time. While its writes are under way, a service is decided as it
will be, and gets no other action."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from scaler.clock import Clock, Slices, loop_time
from scaler.decide.again import DecisionCache, why_not_decided
from scaler.decide.attempts import Refusal, refuse
from scaler.decide.decide import begin
from scaler.decide.decision import Decision, Plan
from scaler.decide.memory import Memory
from scaler.decide.since_last import Followed
from scaler.decide.slices import UnderWay
from scaler.decide.world import Service, ServiceKey, World
from scaler.execute.assumed import AssumedWrites
from scaler.execute.capacity_requests import CapacityRequests
from scaler.execute.evictions import CountedOf
from scaler.execute.executor import Executor, log_line
from scaler.garbage import no_collection
from scaler.informers.changes import (
    AloneChanged,
    ElasticServiceChanged,
    RoomChanged,
    ServiceChanged,
)
from scaler.informers.mode import CurrentMode, ModeInForce
from scaler.report.metrics import Metrics
from scaler.report.reporter import Reporter
from scaler.report.service_reports import difference, report_of
from scaler.state.assemble import WorldBuilder, is_missed
from scaler.state.cluster import ClusterState
from scaler.state.last_valid import ConfigMapName
from scaler.work_queue import WorkQueue, backoff_after
from scaler.workloads.kinds import JOBS

_log = structlog.get_logger(__name__)

PATIENCE = 300.0
"""Seconds after which a service known only from pods is forgotten without pods; its last valid rule
is deleted too."""
WORDS_PATIENCE = 10.0
"""Seconds until a change of words alone is reported: all that waits says how much room is free,
which changes often."""
PAUSE_FACTOR = 3.0
LONGEST_PAUSE = 0.03
"""The pause after a pass, as a multiple of its duration, and the longest pause in seconds: under
many events, passes take a quarter of a core, as long as they are short."""
SAID_EVERY = 60.0
"""Seconds between two lines which say that a decision takes several slices."""
SOONEST = 0.001
"""Least seconds until the next decision, however soon time alone may change the decision."""

Pairs = list[tuple[Service, Plan]]
Observer = Callable[[World, Decision], None]
"""Called with every decision, before any action of it."""
Shadow = Callable[[World, Decision, Pairs], Memory]
"""Called in mode shadow instead of acting, with the changed plans; returns the memory for the next
decision."""


class _Decided(NamedTuple):
    """The services of the last decision, and the plan of each in the same order."""

    services: Followed[Service]
    plans: Followed[Plan]


@dataclass(kw_only=True, eq=False)
class Controller:
    """Owns the loop, the memory and the running actions. All other components are given."""

    state: ClusterState
    builder: WorldBuilder
    queue: WorkQueue
    assumed: AssumedWrites
    executor: Executor
    reporter: Reporter
    metrics: Metrics
    clock: Clock
    mode: CurrentMode
    stale: Callable[[], str]
    observer: Observer | None = None
    shadow: Shadow | None = None
    capacity_requests: CapacityRequests | None = None
    """Asks for the room of minimums that do not fit; None where the setting is off."""

    def __post_init__(self) -> None:
        self._cache = self.state.cache
        self._memory = Memory()
        self._decision_cache = DecisionCache()
        self._failures_in_a_row = 0
        self._unreported: set[ServiceKey] = set()
        """Services that were read again and not reported since."""
        self._refused_meanwhile: list[tuple[ServiceKey, Refusal]] = []
        """Creations that were refused while a decision was under way."""
        self._said_at = -SAID_EVERY
        """Loop time at which a line last said that services wait until they are weighed."""
        self._decided = _Decided(Followed(), Followed())
        self._heeds_room = False
        self._timer: asyncio.TimerHandle | None = None
        self._mode_in_force: ModeInForce | None = None
        """None while a resource that decisions need is stale: then there are no decisions."""
        self.passes_begun = 0
        self._loop: asyncio.Task[None] | None = None
        self._began = 0.0
        """Loop time at which this replica began to decide."""
        self._leaving: dict[ServiceKey, float] = {}
        """Services whose pods are all gone -> loop time from which they are forgotten. Their memory
        is kept by `decide`, as long."""
        self.world: World | None = None
        """The input of the last decision, for `scaler explain`."""

    async def run(self) -> None:
        """Decide until `stop`; then wait for the writes under way. The caches must be synced."""
        self._mode_in_force = self.mode.follow()
        self._began = loop_time()
        self.state.take_over()
        self.requeue_all()
        await asyncio.sleep(0)  # with ten thousand services each step takes tens of milliseconds
        if self._mode_in_force is not ModeInForce.STANDS_BACK:
            self.reporter.clean_up(self.state)
        async with asyncio.TaskGroup() as tasks:
            self._loop = tasks.create_task(self._decide_for_ever(tasks))

    @property
    def running(self) -> bool:
        return self._loop is not None and not self._loop.done()

    @property
    def is_stale(self) -> bool:
        """Whether there are no decisions because something was not heard of at the last check."""
        return self.running and self._mode_in_force is None

    def stop(self) -> None:
        """No decision after the present one."""
        if self._loop is not None:
            self._loop.cancel()

    async def _decide_for_ever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            keys = await self.queue.take()
            self.passes_begun += 1
            stale = self.stale()
            before = self._mode_in_force
            if stale:
                self._mode_in_force = None
            else:
                self._mode_in_force = self.mode.follow()
            if self._mode_in_force is not before:
                self.requeue_all()  # who makes the pods, or whether all is seen, has changed
            elif self._mode_in_force is None:
                await self._report_stale(set(keys), stale)
            elif self._mode_in_force is not ModeInForce.STANDS_BACK:
                took = await self._pass(keys, tasks)
                if took:
                    await asyncio.sleep(min(PAUSE_FACTOR * took, LONGEST_PAUSE))
                continue
            for key in keys:
                self.queue.done(key)

    async def _report_stale(self, keys: set[ServiceKey], stale: str) -> None:
        """Report the last plans of these services, and why there are no decisions now."""
        pairs: Pairs = []
        for service, plan in zip(
            self._decided.services.last, self._decided.plans.last, strict=True
        ):
            if service.key in keys:
                pairs.append((service, plan))
        alone = self.world.alone if self.world is not None else ""
        await self._hand_over(pairs, alone, out_of_touch=stale)

    async def _pass(self, keys: list[ServiceKey], tasks: asyncio.TaskGroup) -> float:
        """Decide about all services; returns the seconds taken. Reading and reporting let the loop
        run other tasks."""
        started = loop_time()
        await self._read_services(keys)
        self._refused_meanwhile.clear()
        world = self.world = self.builder.world(self.clock.now(), self._memory)
        decision = await self._decide(world)
        decided = loop_time()
        acted_on = set[ServiceKey]()
        if decision is not None:
            if self.observer is not None:
                self.observer(world, decision)
            # Set before anything awaits: a change of the free room after this decision counts.
            self._heeds_room = decision.heeds_room
            pairs = self._changed_pairs(world, decision)
            if self.shadow is not None:
                self._memory = self.shadow(world, decision, pairs)
            else:
                self._memory = decision.memory
            for key, refusal in self._refused_meanwhile:
                self._memory = refuse(self._memory, str(key), refusal)
            for over in self.executor.evictions.take_those_that_ended(self._memory):
                self.reporter.evictions_ended(over.key, over.evictions.at)
            # Actions begin before reports are written.
            acted_on = await self._act_on(world, pairs, tasks, started)
            self._recheck(decision.recheck_at)
            await self._report(world, decision, pairs)
        for key in keys:
            if key not in acted_on:
                self.queue.done(key)
        ended = loop_time()
        _log.debug("pass", services=len(keys), seconds=round(ended - started, 6))
        self.metrics.passed(plan_seconds=decided - started, pass_seconds=ended - started)
        return ended - started

    # 1. the input

    async def _read_services(self, keys: Sequence[ServiceKey]) -> None:
        """Read every service whose own writes have all been seen."""
        await asyncio.sleep(0)  # taking the services from the queue took time
        slices = Slices()
        for key in keys:
            await slices.end()
            if not self.assumed.all_seen(key):
                continue  # queued again when the last write is seen
            self._cache.forget_gone(key)
            if not self.state.has_instances(key):
                self._leave(key)
                continue
            self._leaving.pop(key, None)
            gone_for = self._cache.gone_for(key)
            if gone_for:
                self.queue.add_at(key, loop_time() + gone_for)
            with self._retried("service cannot be read", key):
                if self.builder.get(key) is None:
                    now = self.clock.now()
                    self._memory = self.executor.evictions.remembered(self._memory, key, now)
                self.builder.read(key)
                self._unreported.add(key)
                others_for = self.state.until_ours_again(key)
                if others_for:
                    self.queue.add_at(key, loop_time() + others_for)

    @contextmanager
    def _retried(self, failure: str, key: ServiceKey) -> Iterator[None]:
        """An error in the handling of one service, always a bug, is logged and retried with growing
        pauses."""
        try:
            yield
        except Exception:
            self.metrics.decisions_failed.inc()
            # recursion has 1,000 frames
            _log.error(failure, service=str(key), traceback=traceback.format_exc(-5))
            self.queue.add_after_backoff(key)

    def _leave(self, key: ServiceKey) -> None:
        """Forget a service without jobs; later, if it was known only from pods: they may be gone
        for a moment only."""
        now = loop_time()
        last = self.builder.get(key)
        kinds = {instance.kind for instance in last.instances} if last is not None else set()
        from_pods = not kinds <= JOBS.keys()
        patience = PATIENCE if from_pods else 0.0
        end = self._leaving.setdefault(key, now + patience)
        self.builder.leave(key)
        if now < end:
            self.queue.add_at(key, end)
            return
        del self._leaving[key]
        self._unreported.discard(key)
        self.metrics.service_gone(key)
        self.reporter.service_gone(key)
        if self.executor.evictions.counts(key):
            self.executor.evictions.forget(key)
            self.reporter.evictions_ended(key)
        self.queue.forget(key)
        if key.rule and not self._cache.services_of(key.namespace, key.rule):
            self.state.rules.forget(key.namespace, key.rule)
            self.reporter.rule_gone(ConfigMapName(key.namespace, key.rule))

    def requeue_all(self) -> None:
        for key in {*self.state.service_keys(), *self.builder.keys()}:
            self.queue.add(key)

    # 2. the decision

    async def _decide(self, world: World) -> Decision | None:
        """The decision, in as many slices as it takes; other tasks run in between. A bug in it is
        logged and retried with growing pauses; /snapshots/world has its input."""
        try:
            under_way = begin(world, self._decision_cache)
            while (decision := _next_slice(under_way)) is None:
                self._heeds_room = True  # a change meanwhile is for the next decision
                self.metrics.not_weighed_yet(under_way.waiting)
                self._say_who_waits(under_way.waiting)
                await asyncio.sleep(0)
        except Exception:
            delay = backoff_after(self._failures_in_a_row)
            self._failures_in_a_row += 1
            self.metrics.decisions_failed.inc()
            self._decision_cache = DecisionCache()
            size = {
                "services": len(world.services),
                "nodes": len(world.nodes.nodes) if world.nodes else 0,
            }
            # Not as an exception: with the locals of every frame, printing a world of thousands
            # takes seconds.
            _log.error(
                "decision failed", **size, tried_again_after=delay, traceback=traceback.format_exc()
            )
            asyncio.get_running_loop().call_later(delay, self.queue.wake)
            return None
        self._failures_in_a_row = 0
        return decision

    def _say_who_waits(self, services: int) -> None:
        """Say in the log that a decision is long, at most once a minute."""
        now = loop_time()
        if now >= self._said_at + SAID_EVERY:
            self._said_at = now
            _log.info("services not weighed yet", services=services)

    def _recheck(self, moment: float) -> None:
        """Decide again at this time; 0.0 = only after an event."""
        if self._timer is not None:
            self._timer.cancel()
        if moment:
            # an action that is not done stays due
            soonest = 1.0 if self._mode_in_force is ModeInForce.SHADOW else SOONEST
            delay = max(soonest, moment - self.clock.now())
            self._timer = asyncio.get_running_loop().call_later(delay, self.queue.wake)

    def on_service(self, change: ServiceChanged) -> None:
        self.queue.add(change.service)

    def on_elastic_service(self, change: ElasticServiceChanged) -> None:
        """Queue the service, if it has instances: the number of wanted instances in its spec may
        have changed."""
        if self.state.has_instances(change.service):
            self.queue.add(change.service)

    def on_room(self, _change: RoomChanged) -> None:
        """Decide again if some service waits for room."""
        if self._heeds_room:
            self.queue.wake()

    def on_alone(self, _change: AloneChanged) -> None:
        """Services are weighed against each other from now on, or are not any more."""
        self.requeue_all()

    # 3. act

    def _changed_pairs(self, world: World, decision: Decision) -> Pairs:
        """The services and plans that are other objects than after the last pass, and those that
        were read again. All others cost nothing, also when there are ten thousand."""
        services = world.services
        plans = decision.plans
        changed = {*self._decided.services.follow(services), *self._decided.plans.follow(plans)}
        for key in self._unreported:
            if self.builder.get(key) is not None:
                changed.add(self.builder.position(key))
        return [(services[position], plans[position]) for position in sorted(changed)]

    async def _act_on(
        self, world: World, pairs: Pairs, tasks: asyncio.TaskGroup, started: float
    ) -> set[ServiceKey]:
        """Begin the actions of every plan; returns the services with running actions."""
        begun = set()
        slices = Slices()
        for service, plan in pairs:
            await slices.end()  # the actions that have begun run their first steps
            if not service.assumed and self._is_carried_out(plan):
                since = (
                    max(self._began, self.queue.dirty_since(plan.key))
                    if plan.key in self._unreported
                    else started
                )
                with self._retried("plan cannot begin", plan.key):
                    self.builder.begin(plan, world.now)
                    self.queue.hold(plan.key)
                    begun.add(plan.key)
                    self.metrics.acted_on(plan)
                    counted = self.executor.evictions.of(self._memory, plan)
                    tasks.create_task(self._act(world, plan, counted, since))
        return begun

    def _is_carried_out(self, plan: Plan) -> bool:
        if self._mode_in_force is ModeInForce.SHADOW:
            return False
        # marks stay where a crash, or what happened meanwhile, has prevented the deletion
        return bool(plan.actions) or bool(self.executor.marks.left(plan))

    async def _act(self, world: World, plan: Plan, counted: CountedOf, since: float) -> None:
        key = plan.key
        with self._retried("plan failed", key):
            outcomes = await self.executor.perform(plan, counted)
            seconds = loop_time() - since
            self.metrics.reaction_seconds.observe(seconds)
            refused = [outcome for outcome in outcomes if outcome.refused]
            failed = any(outcome.failed for outcome in outcomes)
            for outcome in refused:
                record = self._cache.job(outcome.uid)
                now = self.clock.now()
                generation = record.job.generation if record is not None else 0
                refusal = Refusal(outcome.uid, outcome.refused, now, generation)
                self._memory = refuse(self._memory, str(key), refusal)
                self._refused_meanwhile.append((key, refusal))
            settled = self.assumed.all_seen(key)
            had_no_effect = settled and not refused and not self.queue.is_dirty(key)
            if failed or had_no_effect:
                # No event would bring back a service whose action had no effect.
                self.builder.plan_failed(key, settled=settled)
                self.queue.add_after_backoff(key)
            elif refused:
                self.queue.add(key)
            log = _log.warning if failed or refused else _log.info
            log("reconciled", **log_line(world, plan, outcomes), seconds=round(seconds, 6))
        self.queue.done(plan.key)

    # 4. report

    async def _report(self, world: World, decision: Decision, pairs: Pairs) -> None:
        """Report services that were read again, and those whose report differs."""
        due: Pairs = []
        later = loop_time() + WORDS_PATIENCE
        for service, plan in pairs:
            if service.assumed:
                continue
            if self.capacity_requests is not None:
                self.capacity_requests.saw(service, plan)
            differs = difference(self.reporter.reported(plan.key), plan)
            if plan.key in self._unreported or differs == "numbers":
                due.append((service, plan))
            elif differs:
                self.queue.add_at(plan.key, later)
        self._unreported.clear()
        self.metrics.arbitrated(decision.tally)
        slices = Slices()
        for service, plan in due:
            self.metrics.planned(service, plan, world.now)
            if failed := why_not_decided(plan):
                self.metrics.decisions_failed.inc()
                _log.error("service cannot be decided", service=str(plan.key), why=failed)
            await slices.end()
        await self._hand_over(due, world.alone)

    async def _hand_over(self, pairs: Pairs, alone: str, out_of_touch: str = "") -> None:
        slices = Slices()
        for service, plan in pairs:
            with self._retried("service cannot be reported", plan.key):
                self.reporter.note(
                    report_of(self.state, service, plan, alone=alone, out_of_touch=out_of_touch)
                )
                if not self._is_carried_out(plan):
                    self.queue.forget(plan.key)
            await slices.end()

    async def resync(self) -> None:
        """Read every service without pending writes anew; a difference in more than words means a
        missed event."""
        self.state.forget_instances()
        if self._mode_in_force in (None, ModeInForce.STANDS_BACK):
            return
        slices = Slices()
        for key in sorted(
            {*self.state.service_keys(), *self.builder.keys()} - self._leaving.keys()
        ):
            await slices.end()
            if not (self.queue.is_idle(key) and self.assumed.all_seen(key)):
                continue
            with self._retried("service cannot be read", key):
                found = self.state.service(key) if self.state.has_instances(key) else None
                known = self.builder.get(key)
                if found != known:
                    self.queue.add(key)
                if is_missed(found, known):
                    _log.error("missed event", service=str(key))
                    self.metrics.resync_corrections.inc()


def _next_slice(under_way: UnderWay) -> Decision | None:
    with no_collection():
        return under_way.go_on()
