"""Writes decisions into the cluster: ElasticServices, status of jobs, events, the last valid rules.

The decision loop calls `note`, which waits for nothing; one background task writes the newest
state, which the outbox limits in rate and repeats. What an earlier leader wrote is read from the
cluster. Must never decide anything."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from scaler.clock import Clock
from scaler.decide.decision import Note, Plan, State
from scaler.decide.world import ServiceKey
from scaler.informers.changes import ElasticServiceChanged, ObjectRefused, OwnConfigMapGone
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, Object, PatchType
from scaler.kube.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from scaler.kube.outbox import INTERVAL, Outbox
from scaler.kube.writer import Writer
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.report.elastic_services import StatusWriter
from scaler.report.events import Admission, Event, Filter, write_event
from scaler.report.job_status import already_says, status_patch, write_status
from scaler.report.metrics import Metrics
from scaler.report.newcomers import Newcomers
from scaler.report.service_reports import InstanceReport, ServiceReport, Subject
from scaler.rules.values import at
from scaler.state import kept_evictions
from scaler.state.cluster import ClusterState
from scaler.state.last_valid import (
    ConfigMapName,
    LastValid,
    encode,
    is_ours,
    place_of,
    rule_of,
    same_content,
)
from scaler.workloads.ascendjob import has_failed

MAX_EVENTS_WAITING = 10_000
KEPT_FOR_WARNINGS = 1_000
"""Of these places, those that only warnings take."""
PATIENCE = 5.0
"""Seconds that a passing warning must last to become an event."""
_LAST_VALID = "last_valid"
_log = structlog.get_logger("report")


_InstanceKey = tuple[ServiceKey, str]
"""The service and the uid of an instance."""
_Warned = tuple[ServiceKey, Note, Subject]
"""A note about a service, and the object that an event about it is about, if it lasts."""


class _Ended(NamedTuple):
    """A service of which the evictions up to this time count no more."""

    key: ServiceKey
    at: float


class _Counting(NamedTuple):
    """The one event of this reason about an object (`Event.is_counted`)."""

    subject: Subject
    reason: str


class _Series(NamedTuple):
    """The last of several events that are written as one, and how many they are."""

    last: Event
    times: int


class _Due(NamedTuple):
    what: str
    """What is written, for people."""
    write: Callable[[Any], Awaitable[None]]
    of: ServiceKey | ConfigMapName | _InstanceKey | Event | _Warned | _Ended | _Counting
    namespace: str
    name: str = ""
    """Name of the job, or of the object that the event is about, for people."""

    def __str__(self) -> str:
        return f"{self.what} {self.name or self.of}"


class Reporter:
    """`writer` refuses to write without leadership. In mode shadow (`shadow`) it writes only the
    last valid rules."""

    # Wiring: everything that the reporter works with.
    def __init__(  # noqa: PLR0913
        self,
        writer: Writer,
        statuses: StatusWriter,
        clock: Clock,
        metrics: Metrics,
        home: str,
        *,
        shadow: bool,
    ) -> None:
        self._writer = writer
        self._statuses = statuses
        self._filter = Filter()
        self._clock = clock
        self._metrics = metrics
        self._home = home
        self._shadow = shadow
        self._outbox: Outbox[_Due] = Outbox(self._write)
        self._reports: dict[ServiceKey, ServiceReport] = {}
        self._last_valid: dict[ConfigMapName, LastValid | None] = {}
        """Rule that some job names -> its last valid text, from the newest report."""
        self._events: set[Event | _Warned] = set()
        """Events that wait, and notes that may become an event."""
        self._counted: dict[_Counting, _Series] = {}
        """Orders of autoscalers that are not written yet."""
        self._newcomers = Newcomers()
        self._running = False

    async def run(self) -> None:
        """Write until cancelled. Errors are logged and retried with growing pauses, never
        raised."""
        self._running = True
        await self._outbox.run()

    def reported(self, key: ServiceKey) -> Plan | None:
        """The plan of the last report; None for a service that was never reported, or has gone."""
        report = self._reports.get(key)
        return report.plan if report is not None else None

    # Marking what has to be written

    def note(self, report: ServiceReport) -> None:
        """Take over the result of a pass about one service."""
        key = report.plan.key
        rule = ConfigMapName(key.namespace, key.rule)
        before = self._reports.get(key)
        changed = before is None or _stated(before) != _stated(report)
        self._note_instances(before, report, changed=changed)
        if changed:
            self._note_warnings(report, set(before.plan.notes) if before is not None else set())
            if report.not_kept and (before is None or before.not_kept != report.not_kept):
                self._count_dropped("last-valid")
                self._tell_jobs(report, report.not_kept)
            delay = 0.0
            if before is None and not self._statuses.has_object(key):
                self._newcomers.note(key.namespace, self._clock.now())
                delay = self._newcomers.seconds_to_wait(key.namespace)
            self._mark_status(key, delay=delay)
        # only now: after a failure the next try is about everything again
        self._reports[key] = report
        if rule.name and (before is None or self._last_valid.get(rule) != report.last_valid):
            self._last_valid[rule] = report.last_valid
            self._mark_rule(rule)

    def service_gone(self, key: ServiceKey) -> None:
        """Mark for deletion the ElasticService of a service without jobs; a job that comes earlier
        prevents this."""
        self._reports.pop(key, None)
        self._mark_status(key)

    def rule_gone(self, rule: ConfigMapName) -> None:
        """Mark for deletion the ConfigMap of a rule that no job names; a job that comes earlier
        prevents this."""
        self._last_valid.pop(rule, None)
        self._mark_rule(rule)

    def evictions_ended(self, key: ServiceKey, at: float = math.inf) -> None:
        """Mark for deletion the ConfigMap with the evictions of a service, unless somebody was
        evicted for it after that time."""
        self._outbox.mark(
            _Due("evictions", self._remove_evictions, _Ended(key, at), self._home, str(key))
        )

    def on_elastic_service(self, change: ElasticServiceChanged) -> None:
        """Mark the object about the service, which was created, changed or deleted: it is created
        or deleted again."""
        if self._running:
            self._statuses.changed(change)
            self._mark_status(change.service)

    def write_left_out(self) -> None:
        """Write every status once ElasticServices can be written that could not be before."""
        if self._statuses.is_due_again():
            self._statuses.begin_again()
            for key in self._reports:
                self._mark_status(key)

    def on_own_config_map(self, change: OwnConfigMapGone) -> None:
        """Write a deleted ConfigMap of ours again while some job names its rule."""
        rule = rule_of(change.content)
        if rule in self._last_valid:
            self._mark_rule(rule)

    def clean_up(self, state: ClusterState) -> None:
        """Delete what an earlier process wrote about rules and services that no job names any
        more."""
        for rule in state.orphaned_rules():
            state.rules.forget(*rule)
            self.rule_gone(rule)
        for key in state.orphaned_services():
            self.service_gone(key)
        for key in state.orphaned_evictions():
            self.evictions_ended(key)

    def on_refused(self, change: ObjectRefused) -> None:
        """An event about an unreadable object, if there is no status of its service that shows
        this."""
        refused = change.refused
        resource = change.resource
        if self._running and refused is not None:
            subject = Subject(resource, refused.namespace, refused.name, refused.uid)
            message = (
                f"this {resource.kind} cannot be read, and what was read of it before counts:"
                f" {refused.why}"
            )
            self._mark_event(Event(subject, Warning.OBJECT_UNREADABLE.value, message, warning=True))

    def _note_instances(
        self, before: ServiceReport | None, report: ServiceReport, *, changed: bool
    ) -> None:
        """Mark an event about each new state or reason, and the status of each job of which any
        content changed."""
        known = before.instances if before is not None else {}
        for uid, one in report.instances.items():
            # None also after a failed decision
            verdict = one.verdict
            was = known.get(uid)
            if was is None or (was.verdict.state, was.verdict.reason) != (
                verdict.state,
                verdict.reason,
            ):
                self._note_reason(one, known=was is not None)
            same = (
                not changed
                and was is not None
                and (was.job, was.replicas) == (one.job, one.replicas)
            )
            if one.job is not None and verdict.reason is not Reason.NOT_SERVED and not same:
                of = report.plan.key, uid
                self._outbox.mark(
                    _Due("job_status", self._write_job_status, of, one.job.namespace, verdict.name)
                )

    def _note_reason(self, one: InstanceReport, *, known: bool) -> None:
        """Mark the event about state and reason, unless an earlier leader reported it, as the job's
        own status shows. An instance that runs gets none without a job status. Nor do training
        jobs, which have none of our labels."""
        verdict = one.verdict
        if one.job is None:
            reported = verdict.state is State.RUNNING
            failed = False
            served = True
        else:
            job = one.job.object
            labels = at(job, "metadata", "labels")
            reported = already_says(job, verdict)
            failed = has_failed(job)
            served = (
                verdict.reason is not Reason.NOT_SERVED
                or RULE_LABEL in labels
                or GROUP_LABEL in labels
            )
        if served and (known or not reported):
            warning = verdict.reason.row.warns or failed
            self._mark_event(Event(one.subject, verdict.reason.value, one.words, warning))

    def _note_warnings(self, report: ServiceReport, before: set[Note]) -> None:
        """Mark an event about the instance of each new note, or else about the service, and about
        its rule."""
        if self._shadow:
            return
        key = report.plan.key
        for note in report.plan.notes:
            if note in before:
                continue
            subjects = [report.instances[note.uid].subject] if note.uid in report.instances else []
            if key.rule and not note.uid:
                subjects.append(Subject(ELASTIC_SERVICES, key.namespace, key.rule))
                if note.warning.row.of_rule:
                    subjects.append(Subject(CONFIG_MAPS, key.namespace, key.rule, report.rule_uid))
            for subject in subjects:
                self._mark_warning(key, note, subject)

    def not_counted(self, key: ServiceKey, words: str) -> None:
        """Tell the jobs of the service why nobody is evicted for it."""
        self._count_dropped("evictions")
        report = self._reports.get(key)
        if report is not None:
            self._tell_jobs(report, words)

    def _count_dropped(self, what: str) -> None:
        """Count what is not kept, because its namespace has no place for it."""
        self._metrics.reports_dropped.labels(what, "full").inc()

    def _tell_jobs(self, report: ServiceReport, words: str) -> None:
        """Mark an event about each job of the service: something is not kept, for this reason."""
        for one in report.instances.values():
            self._mark_event(Event(one.subject, Warning.NOT_KEPT.value, words, warning=True))

    def _mark_warning(self, key: ServiceKey, note: Note, subject: Subject) -> None:
        if not self._has_place(warning=True):
            self._count_dropped_event("overflow")
            return
        delay = 0.0
        if note.warning.row.passing:
            delay = PATIENCE
        elif subject.resource == ELASTIC_SERVICES:
            delay = INTERVAL  # its object is looked up later
        warned = (key, note, subject)
        self._events.add(warned)
        self._outbox.mark(
            _Due("warning", self._write_warning, warned, subject.namespace, subject.name),
            delay=delay,
        )

    def _lasting(self, key: ServiceKey, note: Note, subject: Subject) -> Event | None:
        """The event about a note that still holds, else None. For a service without an object it is
        about the rule."""
        report = self._reports.get(key)
        if report is None or note not in report.plan.notes:
            return None
        if subject.resource == ELASTIC_SERVICES:
            known = self._statuses.subject(key)
            if known is None and note.warning.row.of_rule:
                return None  # another event is written anyway
            subject = known or Subject(CONFIG_MAPS, key.namespace, key.rule)
        return Event(subject, note.warning.value, note.message, warning=True)

    def _mark_event(self, event: Event) -> None:
        if self._shadow:
            return
        if event.is_counted:
            self._count_up(event)
            return
        if not self._has_place(warning=event.warning):
            self._count_dropped_event("overflow")
            return
        admission = self._filter.admit(event, self._clock.now())
        if admission is Admission.WRITTEN:
            self._events.add(event)
            self._outbox.mark(
                _Due("event", self._write_event, event, event.subject.namespace, event.subject.name)
            )
        elif admission is not Admission.REPEATED:
            self._count_dropped_event(admission.value)

    def _count_up(self, event: Event) -> None:
        """Mark the one event of this reason about the object. The outbox writes it at most once a
        second, whatever comes meanwhile."""
        key = _Counting(event.subject, event.reason)
        times = self._counted[key].times if key in self._counted else 0
        self._counted[key] = _Series(event, times + 1)
        subject = event.subject
        self._outbox.mark(_Due("event", self._write_counted, key, subject.namespace, subject.name))

    def _has_place(self, *, warning: bool) -> bool:
        """Whether one more event may wait. Warnings are dropped last."""
        kept = 0 if warning else KEPT_FOR_WARNINGS
        return len(self._events) < MAX_EVENTS_WAITING - kept

    def _count_dropped_event(self, why: str) -> None:
        self._metrics.reports_dropped.labels("event", why).inc()

    def _mark_status(self, key: ServiceKey, *, delay: float = 0.0) -> None:
        """Mark the ElasticService. Jobs that name no rule have none: their conditions and events
        are complete."""
        if key.rule:
            due = _Due("status", self._write_status, key, key.namespace)
            self._outbox.mark(due, delay=delay)

    def _mark_rule(self, rule: ConfigMapName) -> None:
        self._outbox.mark(_Due(_LAST_VALID, self._write_last_valid, rule, rule.namespace))

    # Writing

    async def _write(self, due: _Due) -> None:
        if not self._shadow or due.what == _LAST_VALID:
            await due.write(due.of)

    async def _write_status(self, key: ServiceKey) -> None:
        report = self._reports.get(key)
        if report is None:
            await self._statuses.remove(key)
            return
        for event in await self._statuses.put(report):
            self._mark_event(event)
        if full := self._statuses.why_full(key):
            self._count_dropped("status")
            self._tell_jobs(report, full)
            return
        await self._statuses.tidy(key)

    async def _write_last_valid(self, rule: ConfigMapName) -> None:
        place = place_of(rule, self._home)
        if rule not in self._last_valid:
            await self._remove_config_map(place)
        elif (kept := self._last_valid[rule]) is not None and kept.packed:
            await self._put_config_map(place, encode(place, rule, kept))

    async def _put_config_map(self, place: ConfigMapName, content: Object) -> None:
        """Create it, or patch what differs; an object of another owner is left alone."""
        try:
            existing = await self._writer.get(CONFIG_MAPS, *place)
        except NotFoundError:
            await self._writer.create(CONFIG_MAPS, place.namespace, content)
            return
        if not is_ours(existing):
            self._metrics.reports_dropped.labels("config-map", "foreign").inc()
            _log.warning(
                "a ConfigMap of this name is not ours and is left alone", **place._asdict()
            )
        elif not same_content(existing, content):
            # Labels and annotations that other tools have added stay.
            patch: Object = {key: content[key] for key in ("data", "binaryData") if key in content}
            changed = {key: content["metadata"][key] for key in ("labels", "annotations")}
            patch["metadata"] = changed | {
                key: existing["metadata"][key] for key in ("uid", "resourceVersion")
            }
            await self._writer.patch(CONFIG_MAPS, *place, patch, patch_type=PatchType.MERGE)

    async def _remove_config_map(self, place: ConfigMapName) -> None:
        with suppress(NotFoundError):
            existing = await self._writer.get(CONFIG_MAPS, *place)
            if is_ours(existing):
                await self._writer.delete(CONFIG_MAPS, *place, uid=existing["metadata"]["uid"])

    async def _remove_evictions(self, of: _Ended) -> None:
        place = kept_evictions.place_of(of.key, self._home)
        with suppress(NotFoundError):
            existing = await self._writer.get(CONFIG_MAPS, *place)
            if kept_evictions.service_of(existing) != of.key:
                return
            kept = kept_evictions.decode(existing, of.key)
            if kept is not None and kept.at > of.at:
                return
            meta = existing["metadata"]
            exactly = {"uid": meta["uid"], "resource_version": meta["resourceVersion"]}
            await self._writer.delete(CONFIG_MAPS, *place, **exactly)

    def _instance(self, of: _InstanceKey) -> InstanceReport | None:
        """None for an instance that has gone, or about which deciding failed."""
        report = self._reports.get(of[0])
        return report.instances.get(of[1]) if report is not None else None

    async def _write_job_status(self, of: _InstanceKey) -> None:
        one = self._instance(of)
        if one is None or one.job is None:
            return
        with suppress(NotFoundError):  # the job is deleted, with its status
            try:
                await self._patch_status(one, one.job.object)
            except ConflictError:
                # The job was written meanwhile, often by the scaler itself: one more try, on the
                # present version.
                job = await self._writer.get(ASCEND_JOBS, one.job.namespace, one.job.name)
                newest = self._instance(of)
                if (
                    newest is not None
                    and newest.job is not None
                    and job["metadata"]["uid"] == newest.job.uid
                ):
                    await self._patch_status(newest, job)

    async def _patch_status(self, one: InstanceReport, job: Object) -> None:
        started = self._clock.skew.stamp(one.instance.admitted_at)
        patch = status_patch(job, one, started, self._clock.timestamp())
        if patch is not None and one.verdict.reason is not Reason.NOT_SERVED:
            await write_status(self._writer, job, patch)

    async def _write_event(self, event: Event) -> None:
        await self._try_event(event)
        self._events.discard(event)

    async def _write_counted(self, key: _Counting) -> None:
        series = self._counted.get(key)
        if series is None:
            return
        await self._try_event(series.last, series.times)
        left = self._counted.pop(key)
        if left.times > series.times:  # more came meanwhile; the key is marked again
            self._counted[key] = _Series(left.last, left.times - series.times)

    async def _try_event(self, event: Event, times: int = 1) -> None:
        try:
            await write_event(self._writer, event, self._clock.server(), times)
        except (ForbiddenError, InvalidError, BadRequestError, NotFoundError) as error:
            # It would be refused again: the namespace is being deleted, or the right is missing.
            self._count_dropped_event("refused")
            _log.warning("event refused", about=event.subject.name, error=str(error))

    async def _write_warning(self, of: _Warned) -> None:
        self._events.discard(of)
        if event := self._lasting(*of):
            self._mark_event(event)


def _stated(report: ServiceReport) -> tuple[object, ...]:
    """The fields that the status of the service and the last valid rule depend on."""
    plan = report.plan
    service = report.service
    decided = (
        plan.target_index,
        plan.target,
        plan.replicas,
        plan.complete,
        plan.groups,
        plan.verdicts,
        plan.notes,
    )
    of_service = (service.rule, service.replicas, service.problem, service.options.paused)
    about = (report.last_valid, report.not_kept, report.alone, report.out_of_touch)
    return (*decided, *of_service, *about)
