"""The decision loop: one pass = drain the dirty services, plan them all, arbitrate, then act and report.

    dirty keys -> snapshots -> plans -> arbitrate -> report, act

Deciding is serial and synchronous, so services cannot race each other; acting runs in parallel, one actuation per
service at a time, and a service is decided again only when its own writes have come back through the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from scaler.actuate.actuator import Actuator, Outcome
from scaler.clock import Clock
from scaler.decide.planner import plan
from scaler.decide.state import refuse
from scaler.decide.world import Memory, Plan, Policy, ServiceKey, Snapshot
from scaler.observe.cache import Cache
from scaler.observe.expectations import Expectations
from scaler.observe.mode import Acting, ModeNow
from scaler.observe.objects import JOB_KINDS
from scaler.observe.queue import WorkQueue
from scaler.observe.reports import report_of
from scaler.observe.scope import Scope
from scaler.observe.snapshot import take_snapshot
from scaler.report.metrics import Metrics
from scaler.report.reporter import Reporter
from scaler.report.values import RuleKey

_log = structlog.get_logger(__name__)

PATIENCE = 300.0
"""Seconds after which a service that only pods told of is forgotten; its last valid rule goes with it."""

NEWS_PATIENCE = 10.0
"""Seconds until a service of which only the words have changed is looked at: what is free may change many times a
second, and every waiting service says how much there is."""

Observer = Callable[[Sequence[tuple[Snapshot, Plan]]], None]
"""Called with what was decided, after every pass and before anything of it is acted on."""


class Controller:
    """Owns the loop, the memory and the actuations. Everything else is given."""

    def __init__(  # noqa: PLR0913 - wiring, done once in app.py
        self,
        *,
        cache: Cache,
        queue: WorkQueue[ServiceKey],
        expectations: Expectations[ServiceKey],
        actuator: Actuator,
        reporter: Reporter,
        metrics: Metrics,
        clock: Clock,
        policy: Policy,
        mode: ModeNow,
        alone: Callable[[], str],
        observer: Observer | None = None,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._expectations = expectations
        self._actuator = actuator
        self._reporter = reporter
        self._metrics = metrics
        self._clock = clock
        self._policy = policy
        self._mode = mode
        self._observer = observer
        self._memory: dict[ServiceKey, Memory] = {}
        self._scope = Scope(cache, policy, alone=alone)
        self._timer: asyncio.TimerHandle | None = None
        cache.on_room = self._on_room
        self._loop: asyncio.Task[None] | None = None
        self._leaving: dict[ServiceKey, float] = {}
        """Services whose pods are all gone -> loop time from which they are forgotten."""
        self.snapshots: dict[ServiceKey, Snapshot] = {}
        """The snapshot of each service's last decision, for `scaler explain`."""
        self.together: dict[ServiceKey, Plan] = {}
        """What came of it when all were weighed against each other, where they were."""

    async def run(self) -> None:
        """Decide until `stop`; then let the writes under way end. The caches must be synced."""
        idle = self._mode() is Acting.STANDS_BACK
        for key in self._cache.service_keys():
            self._queue.add(key)
        for name in () if idle else self._cache.orphaned_rules():
            self._reporter.forget(RuleKey(*name))
        async with asyncio.TaskGroup() as acting:
            self._loop = acting.create_task(self._decide_for_ever(acting))

    @property
    def running(self) -> bool:
        """Whether the loop has been started and not ended."""
        return self._loop is not None and not self._loop.done()

    def stop(self) -> None:
        """No decision after this one."""
        if self._loop is not None:
            self._loop.cancel()

    async def _decide_for_ever(self, acting: asyncio.TaskGroup) -> None:
        while True:
            keys = await self._queue.take()
            if self._mode() is Acting.STANDS_BACK:
                for key in keys:
                    self._queue.done(key)
            else:
                self._pass(keys, acting)

    def _pass(self, keys: list[ServiceKey], acting: asyncio.TaskGroup) -> None:
        """One pass over the dirty services."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        # 1. every service whose own writes have come back, as one value
        snapshots = [snapshot for key in keys if (snapshot := self._snapshot(key)) is not None]
        # 2. each alone
        decided = [(snapshot, made) for snapshot in snapshots if (made := self._plan(snapshot)) is not None]
        # 3. all together, with those that nothing happened to
        decided = self._weigh(decided)
        planned = loop.time()
        if self._observer is not None:
            self._observer(decided)
        # 4. act, then tell: people can wait for a millisecond, instances should not
        for snapshot, made in decided:
            self._settle(snapshot, made)
            if made.actions:
                acting.create_task(self._act(snapshot, made))
        alone = self._scope.why_alone()
        self._reporter.note([report_of(self._cache, snapshot, made, alone=alone) for snapshot, made in decided])
        self._metrics.passed(plan_seconds=planned - started, pass_seconds=loop.time() - started)

    def _weigh(self, decided: list[tuple[Snapshot, Plan]]) -> list[tuple[Snapshot, Plan]]:
        """What each of them may do, seen together with all others; whose turn has come meanwhile is looked at again."""
        for snapshot, made in decided:
            self._scope.take(snapshot, made)
        outcome = self._scope.weigh(self._clock.now())
        for key in outcome.turns:
            self._queue.add(key)
        for key in outcome.news:
            self._queue.add_at(key, asyncio.get_running_loop().time() + NEWS_PATIENCE)
        if outcome.recheck_at:
            self._recheck(outcome.recheck_at)
        self._metrics.arbitrated(outcome.tally)
        return [(snapshot, outcome.plans[snapshot.key]) for snapshot, _ in decided]

    def _recheck(self, moment: float) -> None:
        """Look at all services together again at this time."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(loop.time() + max(0.0, moment - self._clock.now()), self._queue.poke)

    def _snapshot(self, key: ServiceKey) -> Snapshot | None:
        """None for a service that has to wait for its own writes, or is gone."""
        if not self._expectations.settled(key):
            self._queue.done(key)
            return None
        if not self._cache.has_instances(key):
            self._leave(key)
            return None
        self._leaving.pop(key, None)
        memory = self._memory.get(key, Memory())
        return take_snapshot(self._cache, key, now=self._clock.now(), memory=memory, policy=self._policy)

    def _plan(self, snapshot: Snapshot) -> Plan | None:
        """A fault of ours in one service's decision must not stop the others: it is logged whole and tried again."""
        try:
            made, self._memory[snapshot.key] = plan(snapshot)
        except Exception:
            _log.exception("decision failed", service=str(snapshot.key), snapshot=repr(snapshot))
            self._queue.add_after_backoff(snapshot.key)
            self._queue.done(snapshot.key)
            return None
        return made

    def _settle(self, snapshot: Snapshot, made: Plan) -> None:
        """Book-keeping after a decision; a service that needs no acting is done."""
        key = made.key
        self.snapshots[key] = snapshot
        if self._scope.why_alone():
            self.together.pop(key, None)
        else:
            self.together[key] = made
        self._metrics.planned(made, alone=self._scope.alone(key), rule_problem=snapshot.problem is not None)
        if made.recheck_at:
            delay = max(0.0, made.recheck_at - snapshot.now)
            self._queue.add_at(key, asyncio.get_running_loop().time() + delay)
        if not made.actions:
            self._queue.forget(key)
            self._queue.done(key)

    def _on_room(self) -> None:
        """Something else is free now: of interest as long as somebody waits for room."""
        if self._scope.waits:
            self._queue.poke()

    def _leave(self, key: ServiceKey) -> None:
        """A service without jobs is gone. One that only its pods told of may have lost them all for a moment."""
        now = asyncio.get_running_loop().time()
        last = self.snapshots.get(key)
        told = last is not None and any(instance.kind not in JOB_KINDS for instance in last.instances)
        end = self._leaving.setdefault(key, now + PATIENCE if told else now)
        if now >= end:
            del self._leaving[key]
            self._forget(key)
        else:
            self._scope.leave(key)  # without pods it needs no room
            self._queue.add_at(key, end)
            self._queue.done(key)

    def _forget(self, key: ServiceKey) -> None:
        self._memory.pop(key, None)
        self._scope.leave(key)
        self.snapshots.pop(key, None)
        self.together.pop(key, None)
        self._metrics.service_gone(key)
        self._reporter.service_gone(key)
        self._queue.forget(key)
        if key.rule and not self._cache.rule_is_named(key.namespace, key.rule):
            self._cache.rules.forget(key.namespace, key.rule)
            self._reporter.forget(RuleKey(key.namespace, key.rule))
        self._queue.done(key)

    async def _act(self, snapshot: Snapshot, made: Plan) -> None:
        """Perform one plan, log plan and outcome in one line, and remember what was refused."""
        key = made.key
        outcomes = await self._actuator.perform(made)
        seconds = asyncio.get_running_loop().time() - self._queue.dirty_since(key)
        self._metrics.reaction_seconds.observe(seconds)
        wrong = any(outcome.failed or outcome.refused for outcome in outcomes)
        log = _log.warning if wrong else _log.info
        log("pass", **plan_line(snapshot, made), **outcome_line(made, outcomes), seconds=round(seconds, 6))
        if any(outcome.failed for outcome in outcomes):
            self._queue.add_after_backoff(key)
        else:
            self._queue.forget(key)
        if any(outcome.refused for outcome in outcomes):
            self._remember_refusals(key, outcomes)
            self._queue.add(key)
        self._queue.done(key)

    def _remember_refusals(self, key: ServiceKey, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if not outcome.refused:
                continue
            record = self._cache.job(outcome.uid)
            generation = record.job.generation if record is not None else 0
            memory = self._memory.get(key, Memory())
            self._memory[key] = refuse(
                memory, outcome.uid, outcome.refused, now=self._clock.now(), generation=generation
            )

    def resync(self) -> None:
        """Look at every service that is at rest anew, from the records alone; what is found was a missed event."""
        self._cache.instances.clear()
        if self._mode() is Acting.STANDS_BACK:
            return
        for key in self._cache.service_keys():
            if not (self._queue.is_idle(key) and self._expectations.settled(key)):
                continue
            memory = self._memory.get(key, Memory())
            snapshot = take_snapshot(self._cache, key, now=self._clock.now(), memory=memory, policy=self._policy)
            found, known = plan(snapshot)[0], self._scope.alone(key)
            if found.actions and (known is None or found.actions != known.actions):
                _log.error("missed event", service=str(key))
                self._metrics.resync_corrections.inc()
                self._queue.add(key)


def plan_line(snapshot: Snapshot, made: Plan) -> dict[str, object]:
    """The plan's part of the log line: what was seen, and what is done about it."""
    names = {verdict.uid: verdict.name for verdict in made.verdicts}
    doing: dict[str, list[str]] = {}
    for action in made.actions:
        doing.setdefault(type(action).__name__.lower(), []).append(names.get(action.uid, action.uid))
    return {
        "service": str(made.key),
        "target": made.target,
        "target_index": made.target_index,
        "running": {name: group.running for name, group in made.groups.items()},
        "in_flight": {name: group.in_flight for name, group in made.groups.items()},
        "held": {name: group.held for name, group in made.groups.items()},
        "seen": snapshot.resource_versions,
        **doing,
    }


def outcome_line(made: Plan, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """What became of a plan's actions: how many were done, and the words about each that was not."""
    names = {verdict.uid: verdict.name for verdict in made.verdicts}
    refused = {names.get(outcome.uid, outcome.uid): outcome.refused for outcome in outcomes if outcome.refused}
    failed = {names.get(outcome.uid, outcome.uid): outcome.failed for outcome in outcomes if outcome.failed}
    line: dict[str, object] = {"done": len(outcomes) - len(refused) - len(failed)}
    return line | ({"refused": refused} if refused else {}) | ({"failed": failed} if failed else {})
