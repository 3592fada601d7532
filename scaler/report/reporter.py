"""Tells people what was decided: status ConfigMaps, conditions, events, the last valid rule.

The decision loop calls `note` and goes on; one background task writes, paced and retried by the outbox, always the
newest that is known. Must never raise into the decision loop and never decide anything.
One Reporter per term of leadership: what the last leader wrote is read back, not remembered.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

import structlog

from scaler.clock import Clock
from scaler.decide import explain
from scaler.decide.world import Plan, Reason, ServiceKey, State, Verdict, Warning
from scaler.informers.changes import OwnConfigMapGone
from scaler.kube.api import ASCEND_JOBS, EVENTS, KubeApi, Object, PatchType
from scaler.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from scaler.kube.outbox import Outbox
from scaler.kube.writer import Writer
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.report import events
from scaler.report.config_maps import OwnConfigMaps
from scaler.report.events import Happening
from scaler.report.metrics import Metrics
from scaler.report.status import status_config_map
from scaler.report.values import RuleKey, ServiceReport, Subject, Words
from scaler.settings import Settings
from scaler.state.last_valid import encode
from scaler.state.own_config_maps import last_valid_name, rule_of, status_name
from scaler.workloads.ascendjob_status import JobSummary, already_says, status_patch
from scaler.workloads.run_policy import has_failed

PARALLEL_WRITES = 8
MAX_EVENTS_WAITING = 10_000
PASSING = frozenset(
    {
        Warning.RULE_MISSING.value,
        Warning.TARGET_UNREACHABLE.value,
        Warning.RANK_TABLE_MISSING.value,
        Warning.DEVICE_DATA_INVALID.value,
    }
)
"""Warnings that come and go while a deployer works: it applies jobs one by one, replaces rules by deleting and creating
them, and deletes a job's ConfigMap before the job; or while chips are being given out."""
PATIENCE = 5.0
"""Seconds that a passing warning must last to become an event."""
_log = structlog.get_logger("report")
_SERVING_LABELS = (RULE_LABEL, GROUP_LABEL)


class _ReportKind(StrEnum):
    STATUS = "status"
    LAST_VALID = "last-valid"
    CONDITIONS = "conditions"
    EVENT = "event"


class _Target(NamedTuple):
    """One object to be written: a ConfigMap by its rule, a job by its uid, an event by its number."""

    kind: _ReportKind
    namespace: str
    name: str


class _Transition(NamedTuple):
    """An instance's (state, reason) became another; put into words only when the event is written."""

    subject: Subject
    job: Object | None
    verdict: Verdict
    plan: Plan


class _Appearance(NamedTuple):
    """A warning appeared; written only if it is still there when its turn comes."""

    key: ServiceKey
    happening: Happening


class Reporter:
    """`writer` refuses to write without leadership; `reader` is the KubeApi; `words` puts a verdict into a sentence."""

    def __init__(
        self, writer: Writer, reader: KubeApi, clock: Clock, settings: Settings, metrics: Metrics,
        words: Words = explain.words,
    ) -> None:  # fmt: skip
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._metrics = metrics
        self._words = words
        self._config_maps = OwnConfigMaps(writer, reader, metrics)
        self._outbox: Outbox[_Target] = Outbox(self._write, interval=settings.status_interval, parallel=PARALLEL_WRITES)
        self._services: dict[RuleKey, dict[ServiceKey, ServiceReport]] = {}
        self._jobs: dict[str, tuple[ServiceReport, Verdict]] = {}
        self._written_jobs: dict[str, tuple[str, Object]] = {}
        self._reasons: dict[str, tuple[str, str]] = {}
        self._notes: dict[ServiceKey, frozenset[Happening]] = {}
        self._events: dict[str, _Transition | _Appearance] = {}
        self._approved: dict[str, Happening] = {}
        self._numbers = itertools.count()
        self._recent = events.Recent()
        self._spam = events.SpamFilter()

    def note(self, reports: Sequence[ServiceReport]) -> None:
        """Take the outcome of a pass. Returns at once and never waits."""
        # First what is gone, in all of them: a job whose labels moved it leaves one service and joins another.
        for report in reports:
            self._forget_instances(self._noted(report), report)
        for report in reports:
            before = self._noted(report)
            changed = before is None or _stated(before) != _stated(report)
            self._note_jobs(report, changed)
            self._remember_report(report)
            if changed:
                self._note_warnings(report)
                self._mark_rule(report.rule)

    def service_gone(self, key: ServiceKey) -> None:
        """The service has no jobs any more; other services of its rule may have some."""
        rule = RuleKey(key.namespace, key.rule)
        services = self._services.get(rule, {})
        self._forget_instances(services.pop(key, None), None)
        self._notes.pop(key, None)
        if services:
            self._mark_rule(rule)

    def forget(self, rule: RuleKey) -> None:
        """No job names the rule any more: its two ConfigMaps are deleted, unless a job turns up before."""
        for key in list(self._services.get(rule, ())):
            self.service_gone(key)
        self._services.pop(rule, None)
        self._mark_rule(rule)

    def lost(self, namespace: str, name: str) -> None:
        """A ConfigMap kept about the rule is gone: it is written again while some job names the rule."""
        rule = RuleKey(namespace, name)
        if rule in self._services:
            self._config_maps.forget(namespace, status_name(name))
            self._config_maps.forget(namespace, last_valid_name(name))
            self._mark_rule(rule)

    def on_own_config_map(self, change: OwnConfigMapGone) -> None:
        """Somebody deleted what was kept about a rule."""
        self.lost(change.namespace, rule_of(change.content))

    async def run(self) -> None:
        """Write until cancelled. Errors are logged and retried with growing pauses, never raised."""
        await self._outbox.run()

    @property
    def idle(self) -> bool:
        """Whether everything noted so far is written."""
        return self._outbox.idle

    def _note_jobs(self, report: ServiceReport, changed: bool) -> None:
        for verdict in report.plan.verdicts:
            subject, job = _subject_of(report, verdict.uid), report.jobs.get(verdict.uid)
            if subject is not None:
                self._note_change(subject, job, verdict, report.plan)
            if job is None:
                self._jobs.pop(verdict.uid, None)
                continue
            known = self._jobs.get(verdict.uid)
            if verdict.reason is Reason.NOT_SERVED:
                self._jobs.pop(verdict.uid, None)
            elif changed or known is None or _job_differs(known[0], report, verdict.uid):
                self._jobs[verdict.uid] = (report, verdict)
                self._outbox.mark(_Target(_ReportKind.CONDITIONS, verdict.name, verdict.uid))

    def _note_change(self, subject: Subject, job: Object | None, verdict: Verdict, plan: Plan) -> None:
        """An event when (state, reason) is news; after a failover the job's own status says what was told."""
        now = (verdict.state.value, verdict.reason.value)
        before = self._reasons.get(verdict.uid)
        self._reasons[verdict.uid] = now
        if before == now or (before is None and _was_reported(job, verdict)) or not _is_served(job, verdict):
            return
        self._queue_event(_Transition(subject, job, verdict, plan), verdict.name)

    def _note_warnings(self, report: ServiceReport) -> None:
        before = self._notes.get(report.plan.key, frozenset())
        now = frozenset(_warnings(report))
        self._notes[report.plan.key] = now
        for happening in sorted(now - before):
            delay = PATIENCE if happening.reason in PASSING else 0.0
            self._queue_event(_Appearance(report.plan.key, happening), happening.subject.name, delay=delay)

    def _queue_event(self, queued: _Transition | _Appearance, about: str, *, delay: float = 0.0) -> None:
        if len(self._events) + len(self._approved) >= MAX_EVENTS_WAITING:
            self._metrics.report_dropped(_ReportKind.EVENT, "overflow")
            return
        number = str(next(self._numbers))
        self._events[number] = queued
        self._outbox.mark(_Target(_ReportKind.EVENT, about, number), delay=delay)

    def _noted(self, report: ServiceReport) -> ServiceReport | None:
        return self._services.get(report.rule, {}).get(report.plan.key)

    def _remember_report(self, report: ServiceReport) -> None:
        services = self._services.setdefault(report.rule, {})
        services.pop(report.plan.key, None)
        services[report.plan.key] = report  # the newest comes last

    def _mark_rule(self, rule: RuleKey) -> None:
        """Jobs that name no rule have no ConfigMaps either: their conditions and events say it all."""
        if not rule.name:
            return
        self._outbox.mark(_Target(_ReportKind.STATUS, *rule))
        self._outbox.mark(_Target(_ReportKind.LAST_VALID, *rule))

    def _forget_instances(self, before: ServiceReport | None, after: ServiceReport | None) -> None:
        """A service may end late, when it has been waiting for its own writes: what has moved on by then stays."""
        kept = {instance.uid for instance in after.service.instances} if after else set()
        for instance in before.service.instances if before else ():
            reported = self._jobs.get(instance.uid)
            moved_on = before is not None and reported is not None and reported[0].plan.key != before.plan.key
            if instance.uid not in kept and not moved_on:
                for memory in (self._jobs, self._written_jobs, self._reasons):
                    memory.pop(instance.uid, None)

    async def _write(self, target: _Target) -> None:
        match target.kind:
            case _ReportKind.STATUS:
                await self._write_status(RuleKey(target.namespace, target.name))
            case _ReportKind.LAST_VALID:
                await self._write_last_valid(RuleKey(target.namespace, target.name))
            case _ReportKind.CONDITIONS:
                await self._write_conditions(target.name)
            case _ReportKind.EVENT:
                await self._write_event(target.name)

    async def _write_status(self, rule: RuleKey) -> None:
        services = self._services.get(rule)
        if services is None:
            await self._config_maps.remove(rule.namespace, status_name(rule.name))
        elif services:
            await self._config_maps.put(status_config_map(list(services.values()), self._words))

    async def _write_last_valid(self, rule: RuleKey) -> None:
        services = self._services.get(rule)
        if services is None:
            await self._config_maps.remove(rule.namespace, last_valid_name(rule.name))
        elif services and (last_valid := next(reversed(services.values())).last_valid) is not None:
            await self._config_maps.put(encode(rule.namespace, rule.name, last_valid))

    async def _write_conditions(self, uid: str) -> None:
        if uid not in self._jobs:
            return
        job, subject = self._jobs[uid][0].jobs[uid], _subject(self._jobs[uid][0].jobs[uid])
        with suppress(NotFoundError):  # the job is gone, and nobody reads its status any more
            try:
                await self._try_conditions(uid, job, subject)
            except ConflictError:
                # Somebody else wrote to the job, often we ourselves: once more on what is there now.
                self._remember(job, await self._reader.get(ASCEND_JOBS, subject.namespace, subject.name))
                await self._try_conditions(uid, job, subject)

    async def _try_conditions(self, uid: str, job: Object, subject: Subject) -> None:
        if uid not in self._jobs:
            return
        summary = self._summary(*self._jobs[uid])
        patch = status_patch(self._newest(uid, job), summary, self._clock.timestamp())
        if patch is not None:
            after = await self._writer.patch(
                ASCEND_JOBS, subject.namespace, subject.name, patch, patch_type=PatchType.MERGE, subresource="status"
            )
            self._remember(job, after)

    def _summary(self, report: ServiceReport, verdict: Verdict) -> JobSummary:
        instance = next(found for found in report.service.instances if found.uid == verdict.uid)
        return JobSummary(instance, verdict, self._words(verdict, report.plan), report.replicas.get(verdict.uid))

    async def _write_event(self, number: str) -> None:
        queued = self._events.pop(number, None)
        happening = self._happening(queued) if queued else None
        if happening and self._is_due(happening):
            self._approved[number] = happening
        if number in self._approved:
            await self._write_happening(self._approved[number])
            del self._approved[number]

    def _is_due(self, happening: Happening) -> bool:
        now = self._clock.now()
        if not self._recent.is_news(happening, now):
            return False
        if self._spam.admits(happening.subject, now):
            return True
        self._metrics.report_dropped(_ReportKind.EVENT, "spam")
        return False

    def _happening(self, queued: _Transition | _Appearance) -> Happening | None:
        """None for a warning that has gone meanwhile."""
        if isinstance(queued, _Appearance):
            return queued.happening if queued.happening in self._notes.get(queued.key, ()) else None
        verdict = queued.verdict
        words = self._words(verdict, queued.plan)
        warning = verdict.reason in events.NEEDS_ATTENTION or (queued.job is not None and has_failed(queued.job))
        return Happening(queued.subject, verdict.reason.value, words, warning)

    async def _write_happening(self, happening: Happening) -> None:
        try:
            await self._create_or_count(happening)
        except (ForbiddenError, InvalidError, BadRequestError, NotFoundError) as error:
            # It would be refused again: the namespace is going, or events may not be written.
            self._metrics.report_dropped(_ReportKind.EVENT, "refused")
            _log.warning("event refused", about=happening.subject.name, error=str(error))

    async def _create_or_count(self, happening: Happening) -> None:
        namespace, name, now = happening.subject.namespace, happening.event_name, self._clock.now()
        try:
            await self._writer.create(EVENTS, namespace, events.event(happening, now))
        except AlreadyExistsError:
            patch = events.repetition(await self._reader.get(EVENTS, namespace, name), now)
            await self._writer.patch(EVENTS, namespace, name, patch, patch_type=PatchType.MERGE)

    def _remember(self, before: Object, after: Object) -> None:
        """`after` is newer than `before`, which the cache may go on showing for a moment."""
        uid = _metadata(before, "uid")
        if _metadata(after, "uid") == uid and uid in self._jobs:
            self._written_jobs[uid] = (_metadata(before, "resourceVersion"), after)

    def _newest(self, uid: str, cached: Object) -> Object:
        base, after = self._written_jobs.get(uid, ("", cached))
        return after if base == _metadata(cached, "resourceVersion") else cached


def _subject(job: Object) -> Subject:
    """By resource and not by what the object says of itself: items of a list need not carry their kind."""
    name, namespace, uid = (_metadata(job, key) for key in ("name", "namespace", "uid"))
    return Subject(ASCEND_JOBS.api_version, ASCEND_JOBS.kind, namespace, name, uid)


def _subject_of(report: ServiceReport, uid: str) -> Subject | None:
    job = report.jobs.get(uid)
    return _subject(job) if job is not None else report.subjects.get(uid)


def _metadata(obj: Object, key: str) -> str:
    return str((obj.get("metadata") or {}).get(key) or "")


def _stated(report: ServiceReport) -> tuple[object, ...]:
    """What the two ConfigMaps of a rule depend on."""
    plan, service = report.plan, report.service
    decided = (plan.target_index, plan.target, plan.complete, plan.groups, plan.verdicts, plan.notes)
    return (*decided, service.rule, service.problem, service.options.paused, report.last_valid, report.alone)


def _job_differs(before: ServiceReport, after: ServiceReport, uid: str) -> bool:
    """Whether the job itself or its counts changed; what was decided about it is compared apart."""
    old, new = before.jobs.get(uid) or {}, after.jobs[uid]
    version = "resourceVersion"
    return _metadata(old, version) != _metadata(new, version) or before.replicas.get(uid) != after.replicas.get(uid)


def _was_reported(job: Object | None, verdict: Verdict) -> bool:
    """Whether the leader before us has told this. Where no status says so, that it runs is not worth telling twice."""
    return already_says(job, verdict) if job is not None else verdict.state is State.RUNNING


def _is_served(job: Object | None, verdict: Verdict) -> bool:
    """Training jobs hear nothing from us; a job that asked for a rule by its labels does."""
    if job is None or verdict.reason is not Reason.NOT_SERVED:
        return True
    labels = (job.get("metadata") or {}).get("labels") or {}
    return any(label in labels for label in _SERVING_LABELS)


def _warnings(report: ServiceReport) -> Iterable[Happening]:
    """The plan's notes as events: about a job, or else about the rule's ConfigMap, which need not exist."""
    key = report.plan.key
    rule = Subject("v1", "ConfigMap", key.namespace, key.rule, report.rule_uid)
    for note in report.plan.notes:
        subject = _subject_of(report, note.uid)
        if subject is not None:
            yield Happening(subject, note.warning.value, note.message, warning=True)
        elif not note.uid and key.rule:
            yield Happening(rule, note.warning.value, note.message, warning=True)
