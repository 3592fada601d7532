"""Tells people what was decided: ElasticServices, conditions, events, the last valid rule.

The decision loop calls `note` and goes on; one background task writes, paced and retried by the outbox, always the
newest that is known. Must never raise into the decision loop and never decide anything.
One Reporter per term of leadership: what the last leader wrote is read back, not remembered.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import structlog

from scaler.clock import Clock, Slices
from scaler.decide.explain import words
from scaler.decide.world import Plan, Reason, ServiceKey, State, Verdict, Warning
from scaler.informers.changes import ElasticServiceChanged, ObjectRefused, OwnConfigMapGone
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, EVENTS, Object, PatchType
from scaler.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from scaler.kube.outbox import Outbox
from scaler.kube.slots import Slots
from scaler.kube.writer import Writer
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.report import events
from scaler.report.config_maps import OwnConfigMaps
from scaler.report.elastic_services import StatusWriter
from scaler.report.events import Happening
from scaler.report.metrics import Metrics
from scaler.report.service_reports import RuleKey, ServiceReport, Subject
from scaler.state.last_valid import encode
from scaler.state.own_config_maps import Home, Name, rule_of
from scaler.workloads.ascendjob import has_failed
from scaler.workloads.ascendjob_status import JobSummary, already_says, status_patch

INTERVAL = 1.0
"""Least seconds between two writes of the same object."""
PARALLEL_WRITES, PARALLEL_WRITES_OF_ONE = 8, 2
"""Under way at once, and those of one namespace."""
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
OF_RULE = frozenset({Warning.RULE_MISSING.value, Warning.RULE_INVALID.value})
"""Warnings that are about the rule's ConfigMap as well as about the service."""
PATIENCE = 5.0
"""Seconds that a passing warning must last to become an event."""
_HOME = Home()
_SERVING_LABELS = (RULE_LABEL, GROUP_LABEL)
_log = structlog.get_logger("report")


class _ReportKind(StrEnum):
    STATUS = "status"
    LAST_VALID = "last-valid"
    LEFT_OVER = "left-over"
    CONDITIONS = "conditions"
    EVENT = "event"


class _Target(NamedTuple):
    """One object to be written: an ElasticService by its service, a ConfigMap by its rule, a job by its uid, an event
    by its number."""

    kind: _ReportKind
    namespace: str
    name: str
    about: str = ""
    """Of a service its jobID; else the name of the job or of what the event is about, for people."""


QueuedEvent = Callable[[], Happening | None]
"""An event that is put into words only when it is written; None when it is not true any more by then."""


class Reporter:
    """`writer` refuses to write without leadership. A `silent` one keeps the last valid rules and tells nobody
    anything."""

    def __init__(
        self, writer: Writer, statuses: StatusWriter, clock: Clock, metrics: Metrics, home: Home = _HOME, *,
        silent: bool = False,
    ) -> None:  # fmt: skip
        self._writer = writer
        self._silent = silent
        self._statuses = statuses
        self._home = home
        self._clock = clock
        self._metrics = metrics
        self._config_maps = OwnConfigMaps(writer, metrics)
        self._outbox: Outbox[_Target] = Outbox(
            self._write,
            interval=INTERVAL,
            slots=Slots(PARALLEL_WRITES, most_of_one=PARALLEL_WRITES_OF_ONE),
            namespace_of=lambda target: target.namespace,
        )
        self._services: dict[RuleKey, dict[ServiceKey, ServiceReport]] = {}
        self._jobs: dict[str, tuple[ServiceReport, Verdict]] = {}
        self._reasons: dict[str, tuple[str, str]] = {}
        self._warnings: dict[ServiceKey, frozenset[Happening]] = {}
        self._events: dict[str, QueuedEvent | Happening] = {}
        """Events that wait; one that is being written is in words, and the filter is not asked again."""
        self._numbers = itertools.count()
        self._running = False
        self._filter = events.Filter()

    async def note(self, reports: Sequence[ServiceReport]) -> None:
        """Take the outcome of a pass. Waits for nothing; of thousands it lets the loop turn in between."""
        # First what is gone, in all of them: a job whose labels moved it leaves one service and joins another.
        slices = Slices()
        for report in reports:
            self._forget_instances(self._noted(report), report)
        for report in reports:
            await slices.end()
            try:
                self._note(report)
            except Exception:
                _log.error("report failed", what=str(report.plan.key), traceback=traceback.format_exc(-5))

    def _note(self, report: ServiceReport) -> None:
        before = self._noted(report)
        changed = before is None or _stated(before) != _stated(report)
        for verdict in report.plan.verdicts:
            self._note_reason(report, verdict)
            self._note_job(report, verdict, changed)
        services = self._services.setdefault(report.rule, {})
        services.pop(report.plan.key, None)
        services[report.plan.key] = report  # the newest comes last
        if changed:
            self._note_warnings(report)
            self._mark_status(report.plan.key)
            self._mark_rule(report.rule)

    def service_gone(self, key: ServiceKey) -> None:
        """The service has no jobs any more, and no ElasticService of ours either, unless a job turns up before."""
        self._forget_instances(self._services.get(RuleKey(key.namespace, key.rule), {}).pop(key, None), None)
        self._warnings.pop(key, None)
        self._mark_status(key)

    def forget(self, rule: RuleKey) -> None:
        """No job names the rule any more: what is kept of it is deleted, unless a job turns up before."""
        for key in list(self._services.get(rule, ())):
            self.service_gone(key)
        self._services.pop(rule, None)
        self._mark_rule(rule)

    def on_elastic_service(self, change: ElasticServiceChanged) -> None:
        """Somebody made, changed or deleted an object about the service: it is made again, or deleted again."""
        if self._running:
            self._statuses.changed(change)
            self._mark_status(change.service)

    def look(self) -> None:
        """Write every status when ElasticServices can be written that could not be before."""
        if self._statuses.came():
            for services in self._services.values():
                for key in services:
                    self._mark_status(key)

    def on_own_config_map(self, change: OwnConfigMapGone) -> None:
        """Somebody deleted what is kept about a rule: it is written again while some job names the rule."""
        rule = rule_of(change.content)
        if rule in self._services:
            self._config_maps.forget(*self._home.last_valid(rule))
            self._mark_rule(rule)

    def discard(self, left_over: Name) -> None:
        """Nobody reads this ConfigMap of ours any more: it is deleted."""
        self._outbox.mark(_Target(_ReportKind.LEFT_OVER, *left_over))

    def on_refused(self, change: ObjectRefused) -> None:
        """An event about an object that cannot be read, should its service have no status that says so."""
        refused, resource = change.refused, change.resource
        if self._running and refused is not None:
            subject = Subject(resource.api_version, resource.kind, refused.namespace, refused.name, refused.uid)
            words = f"this {resource.kind} cannot be read, and what was read of it before counts: {refused.why}"
            happening = Happening(subject, Warning.OBJECT_UNREADABLE.value, words, warning=True)
            self._queue_event(lambda: happening, subject)

    async def run(self) -> None:
        """Write until cancelled. Errors are logged and retried with growing pauses, never raised."""
        self._running = True
        try:
            await self._outbox.run()
        finally:
            self._running = False

    @property
    def idle(self) -> bool:
        """Whether everything noted so far is written."""
        return self._outbox.idle

    # What is to be written

    def _note_reason(self, report: ServiceReport, verdict: Verdict) -> None:
        """An event when (state, reason) is news; after a failover the job's own status says what was reported."""
        subject = report.subjects.get(verdict.uid)
        if subject is None:
            return
        now = (verdict.state.value, verdict.reason.value)
        before = self._reasons.get(verdict.uid)
        self._reasons[verdict.uid] = now
        if before == now:
            return
        record = report.jobs.get(verdict.uid)
        job = record.object if record is not None else None
        if (before is None and _was_reported(job, verdict)) or not _is_served(job, verdict):
            return
        failed = job is not None and has_failed(job)
        self._queue_event(partial(_happening, subject, verdict, report.plan, failed=failed), subject)

    def _note_job(self, report: ServiceReport, verdict: Verdict, changed: bool) -> None:
        uid, known = verdict.uid, self._jobs.get(verdict.uid)
        if uid not in report.jobs or verdict.reason is Reason.NOT_SERVED:
            self._jobs.pop(uid, None)
        elif changed or known is None or _job_differs(known[0], report, uid):
            self._jobs[uid] = (report, verdict)
            self._outbox.mark(_Target(_ReportKind.CONDITIONS, report.rule.namespace, uid, verdict.name))

    def _note_warnings(self, report: ServiceReport) -> None:
        key = report.plan.key
        before = self._warnings.get(key, frozenset())
        self._warnings[key] = frozenset(_warnings(report))
        for happening in sorted(self._warnings[key] - before):
            delay = PATIENCE if happening.reason in PASSING else INTERVAL if _is_about_service(happening) else 0.0
            self._queue_event(partial(self._lasting, key, happening), happening.subject, delay=delay)

    def _lasting(self, key: ServiceKey, happening: Happening) -> Happening | None:
        """None when it is over. What is about a service without an object is about its rule."""
        if happening not in self._warnings.get(key, ()):
            return None
        if not _is_about_service(happening):
            return happening
        subject = self._statuses.subject(key)
        if subject is None and happening.reason in OF_RULE:
            return None  # that one is written anyway
        return happening._replace(subject=subject or Subject("v1", CONFIG_MAPS.kind, key.namespace, key.rule))

    def _queue_event(self, queued: QueuedEvent, about: Subject, *, delay: float = 0.0) -> None:
        if len(self._events) >= MAX_EVENTS_WAITING:
            self._metrics.report_dropped(_ReportKind.EVENT, "overflow")
            return
        number = str(next(self._numbers))
        self._events[number] = queued
        self._outbox.mark(_Target(_ReportKind.EVENT, about.namespace, number, about.name), delay=delay)

    def _noted(self, report: ServiceReport) -> ServiceReport | None:
        return self._services.get(report.rule, {}).get(report.plan.key)

    def _mark_status(self, key: ServiceKey) -> None:
        """Jobs that name no rule have none: their conditions and events say it all."""
        if key.rule:
            self._outbox.mark(_Target(_ReportKind.STATUS, key.namespace, key.rule, key.job_id))

    def _mark_rule(self, rule: RuleKey) -> None:
        if rule.name:
            self._outbox.mark(_Target(_ReportKind.LAST_VALID, *rule))

    def _forget_instances(self, before: ServiceReport | None, after: ServiceReport | None) -> None:
        """A service may end late, when it has been waiting for its own writes: what has moved on by then stays."""
        if before is None:
            return
        kept = {instance.uid for instance in after.service.instances} if after else set()
        for instance in before.service.instances:
            reported = self._jobs.get(instance.uid)
            moved_on = reported is not None and reported[0].plan.key != before.plan.key
            if instance.uid not in kept and not moved_on:
                self._jobs.pop(instance.uid, None)
                self._reasons.pop(instance.uid, None)

    # Writing

    async def _write(self, target: _Target) -> None:
        name = Name(target.namespace, target.name)
        if self._silent and target.kind is not _ReportKind.LAST_VALID:
            self._events.pop(target.name, None)
            return
        match target.kind:
            case _ReportKind.STATUS:
                await self._write_status(ServiceKey(target.namespace, target.name, target.about))
            case _ReportKind.LAST_VALID:
                await self._write_last_valid(name)
            case _ReportKind.LEFT_OVER:
                with suppress(ForbiddenError):  # another install, which had the right, has left it
                    await self._config_maps.remove(*name)
            case _ReportKind.CONDITIONS:
                await self._write_conditions(target.name)
            case _ReportKind.EVENT:
                await self._write_event(target.name)

    async def _write_status(self, key: ServiceKey) -> None:
        report = self._services.get(RuleKey(key.namespace, key.rule), {}).get(key)
        if report is None:
            await self._statuses.remove(key)
            return
        for happening in await self._statuses.put(report):
            self._queue_event(partial(_as_it_is, happening), happening.subject)
        await self._statuses.tidy(key)

    async def _write_last_valid(self, rule: Name) -> None:
        services, place = self._services.get(rule), self._home.last_valid(rule)
        if services is None:
            await self._config_maps.remove(*place)
        elif services and (kept := next(reversed(services.values())).last_valid) is not None:
            await self._config_maps.put(encode(place, rule, kept))

    async def _write_conditions(self, uid: str) -> None:
        if uid not in self._jobs:
            return
        record = self._jobs[uid][0].jobs[uid]
        with suppress(NotFoundError):  # the job is gone, and nobody reads its status any more
            try:
                await self._patch_status(uid, record.object)
            except ConflictError:
                # Somebody else wrote to the job, often we ourselves: once more on what is there now.
                job = await self._writer.get(ASCEND_JOBS, record.namespace, record.name)
                if job["metadata"]["uid"] == uid:
                    await self._patch_status(uid, job)

    async def _patch_status(self, uid: str, job: Object) -> None:
        if uid not in self._jobs:
            return
        report, verdict = self._jobs[uid]
        instance = next(found for found in report.service.instances if found.uid == uid)
        started = self._clock.skew.stamp(instance.admitted_at)
        reported = JobSummary(instance, verdict, words(verdict, report.plan), report.replicas[uid], started)
        patch = status_patch(job, reported, self._clock.timestamp())
        if patch is not None:
            namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
            await self._writer.patch(
                ASCEND_JOBS, namespace, name, patch, patch_type=PatchType.MERGE, subresource="status"
            )

    async def _write_event(self, number: str) -> None:
        queued = self._events.pop(number, None)
        happening = self._due(queued()) if callable(queued) else queued
        if happening is None:
            return
        self._events[number] = happening
        try:
            await self._create_or_count(happening)
        except (ForbiddenError, InvalidError, BadRequestError, NotFoundError) as error:
            # It would be refused again: the namespace is going, or events may not be written.
            self._metrics.report_dropped(_ReportKind.EVENT, "refused")
            _log.warning("event refused", about=happening.subject.name, error=str(error))
        del self._events[number]

    def _due(self, happening: Happening | None) -> Happening | None:
        objection = self._filter.objection(happening, self._clock.now()) if happening else ""
        if objection == "spam":
            self._metrics.report_dropped(_ReportKind.EVENT, objection)
        return None if objection else happening

    async def _create_or_count(self, happening: Happening) -> None:
        namespace, name, now = happening.subject.namespace, happening.event_name, self._clock.server()
        try:
            await self._writer.create(EVENTS, namespace, events.event(happening, now))
        except AlreadyExistsError:
            patch = events.repetition(await self._writer.get(EVENTS, namespace, name), now)
            await self._writer.patch(EVENTS, namespace, name, patch, patch_type=PatchType.MERGE)


def _as_it_is(happening: Happening) -> Happening:
    return happening


def _stated(report: ServiceReport) -> tuple[object, ...]:
    """What the status of the service and the last valid rule depend on."""
    plan, service = report.plan, report.service
    decided = (plan.target_index, plan.target, plan.replicas, plan.complete, plan.groups, plan.verdicts, plan.notes)
    said = (report.alone, report.out_of_touch)
    return (*decided, service.rule, service.replicas, service.problem, service.options.paused, report.last_valid, *said)


def _job_differs(before: ServiceReport, after: ServiceReport, uid: str) -> bool:
    """Whether the job itself or its counts changed; what was decided about it is compared apart."""
    version = before.jobs[uid].resource_version
    return version != after.jobs[uid].resource_version or before.replicas[uid] != after.replicas[uid]


def _was_reported(job: Object | None, verdict: Verdict) -> bool:
    """Whether the leader before us did. Where no status says so, that it runs is not worth writing twice."""
    return already_says(job, verdict) if job is not None else verdict.state is State.RUNNING


def _is_served(job: Object | None, verdict: Verdict) -> bool:
    """Training jobs hear nothing from us; a job that asked for a rule by its labels does."""
    if job is None or verdict.reason is not Reason.NOT_SERVED:
        return True
    labels = (job.get("metadata") or {}).get("labels") or {}
    return any(label in labels for label in _SERVING_LABELS)


def _happening(subject: Subject, verdict: Verdict, plan: Plan, *, failed: bool) -> Happening:
    warning = verdict.reason in events.NEEDS_ATTENTION or failed
    return Happening(subject, verdict.reason.value, words(verdict, plan), warning)


def _is_about_service(happening: Happening) -> bool:
    return happening.subject.kind == ELASTIC_SERVICES.kind


def _warnings(report: ServiceReport) -> Iterable[Happening]:
    """The plan's notes as events: about a job, or else about the service, of which the object is found later."""
    key = report.plan.key
    service = Subject(ELASTIC_SERVICES.api_version, ELASTIC_SERVICES.kind, key.namespace, key.rule)
    rule = Subject("v1", CONFIG_MAPS.kind, key.namespace, key.rule, report.rule_uid)
    for note in report.plan.notes:
        subjects = [report.subjects[note.uid]] if note.uid in report.subjects else []
        if key.rule and not note.uid:
            subjects = [service, rule] if note.warning.value in OF_RULE else [service]
        for subject in subjects:
            yield Happening(subject, note.warning.value, note.message, warning=True)
