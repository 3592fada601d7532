"""Writes the ElasticServices: one object per service, created again when it is deleted, its status
applied on change.

The last written status is remembered: one read per service and term of leadership, none while
nothing changes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated

import msgspec
import structlog

from scaler.clock import Clock
from scaler.decide.world import ServiceKey
from scaler.defaults import MOST_KEPT
from scaler.informers.changes import ElasticServiceChanged
from scaler.informers.elastic_services import ElasticServiceRecord
from scaler.kube.api import ELASTIC_SERVICES, Object, PatchType
from scaler.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from scaler.kube.writer import Writer
from scaler.names import LONGEST_NAME, MANAGED_BY, MANAGED_BY_LABEL, digest, service_name
from scaler.report.events import Event
from scaler.report.metrics import Metrics
from scaler.report.service_events import WARNINGS, service_events
from scaler.report.service_reports import ServiceReport, Subject
from scaler.report.service_status import status_of, without_jobs
from scaler.rules.values import at
from scaler.state.cluster import ClusterState

_log = structlog.get_logger("report")
_NEW = ("selector", "wanted", "lost")
_NEW_OF_RULE = "state"
_UNDECLARED = "field not declared in schema"


class _LastWritten(msgspec.Struct, frozen=True, gc=False):
    """The last status written, compressed. Without `uid` it is unknown whether the object still has
    this status."""

    name: str = ""
    uid: str = ""
    packed: bytes = b""

    @property
    def status(self) -> Object:
        return msgspec.json.decode(zlib.decompress(self.packed), type=dict) if self.packed else {}

    def subject(self, key: ServiceKey) -> Subject:
        return Subject(ELASTIC_SERVICES, key.namespace, self.name, self.uid)


class StatusWriter:
    """Raises KubeError; each call may be repeated. `absent`: why no ElasticService can be written
    now (mostly: their definition is missing), "" if it can. `most`: objects that are created in one
    namespace."""

    def __init__(  # noqa: PLR0913 - wiring
        self,
        writer: Writer,
        state: ClusterState,
        clock: Clock,
        metrics: Metrics,
        absent: Callable[[], str],
        *,
        most: int = MOST_KEPT,
    ) -> None:
        self._writer = writer
        self._state = state
        self._cache = state.cache
        self._clock = clock
        self._metrics = metrics
        self._absent = absent
        self._most = most
        self._last_written: dict[ServiceKey, _LastWritten] = {}
        self._some_left_out = False
        self._definition_is_old = False

    def subject(self, key: ServiceKey) -> Subject | None:
        """The object of events about the service; None while there is none."""
        last = self._last_written.get(key)
        return last.subject(key) if last is not None and last.uid else None

    def has_object(self, key: ServiceKey) -> bool:
        """Whether the cache shows an object about the service."""
        return any(True for _ in self._cache.elastic_services.of(key))

    def is_due_again(self) -> bool:
        """Whether ElasticServices can be written now, and some status was left out before."""
        return self._some_left_out and not self._absent()

    def why_full(self, key: ServiceKey) -> str:
        """Why no object is created about the service, in words; "" when it has one, or may have
        one."""
        if self._absent() or self.subject(key) is not None or self.has_object(key):
            return ""
        if self._cache.elastic_services.number_of_ours(key.namespace) < self._most:
            return ""
        what = f"{self._most:,} of namespace {key.namespace} are there, which is the limit"
        more = "its jobs' conditions and events say everything. Delete jobs that nobody needs"
        return f"no ElasticService is made: {what} (kept_per_namespace); {more}"

    def begin_again(self) -> None:
        """The caller writes every status now."""
        self._some_left_out = False
        _log.info("ElasticServices can be written now")

    async def put(self, report: ServiceReport) -> list[Event]:
        """Write the status of one service; returns the events since the status before."""
        if absent := self._absent():
            if not self._some_left_out:
                _log.warning("no ElasticServices are written", why=absent)
            self._some_left_out = True
            self._metrics.reports_dropped.labels("status", "absent").inc()
            return []
        if self.why_full(report.plan.key):
            return []
        try:
            return await self._put(report.plan.key, report)
        except NotFoundError:  # deleted a moment ago
            return await self._put(report.plan.key, report)

    async def remove(self, key: ServiceKey) -> None:
        """Delete our object of an ended service. A user's object, or one with
        `spec.replicas`, stays; its status says that there are no jobs."""
        self._last_written.pop(key, None)
        if self._state.has_instances(key):
            return
        records = list(self._cache.elastic_services.of(key))
        for record in records:
            if record.goes_with_its_jobs:
                await self._delete(record)
        kept = next((record for record in records if not record.goes_with_its_jobs), None)
        if kept is None or self._absent():
            return
        with suppress(NotFoundError):  # deleted a moment ago
            current = (await self._writer.get(ELASTIC_SERVICES, kept.namespace, kept.name)).get(
                "status"
            )
            report = without_jobs(kept.service, kept.replicas)
            now = self._clock.timestamp()
            status = status_of(report, valid_status(current), now, generation=kept.generation)
            if status != current:
                await self._apply(kept.service, kept.name, status)

    async def tidy(self, key: ServiceKey) -> None:
        """Delete our other ElasticServices about the service: only one object counts."""
        last = self._last_written.get(key, _LastWritten())
        if not last.uid:
            return
        for record in self._cache.elastic_services.of(key):
            if record.ours and record.uid != last.uid:
                await self._delete(record)

    def changed(self, change: ElasticServiceChanged) -> None:
        """Forget the object when it was deleted, or no longer has the status that was written
        last."""
        key = change.service
        last = self._last_written.get(key)
        if last is not None and (change.went_back or not self._cache.elastic_services.of(key)):
            self._last_written[key] = msgspec.structs.replace(last, uid="")

    async def _put(self, key: ServiceKey, report: ServiceReport) -> list[Event]:
        record = next(iter(self._cache.elastic_services.of(key)), None)
        last = self._last_written.get(key, _LastWritten())
        before = last.status
        current: object = before
        if not last.uid or (record is not None and record.uid != last.uid):
            there = await self._found(key, record)
            current = there.get("status")
            before = before or valid_status(current)
            last = msgspec.structs.replace(
                last, name=there["metadata"]["name"], uid=there["metadata"]["uid"]
            )
        generation = record.generation if record is not None else 1
        if record is not None and record.replicas != report.service.replicas:
            # no decision has seen this generation yet
            generation = before.get("observedGeneration", 0)
        status = status_of(report, before, self._clock.timestamp(), generation=generation)
        uid = last.uid
        if status != current:
            self._last_written[key] = last  # the object of events that are due meanwhile
            try:
                await self._apply(key, last.name, status)
            except BaseException:
                # the status is unknown
                self._last_written[key] = msgspec.structs.replace(last, uid="")
                raise
            # `changed` heard of it before the answer came
            uid = uid if self._last_written.get(key) is last else ""
        self._last_written[key] = _LastWritten(
            last.name, uid, zlib.compress(msgspec.json.encode(status), 1)
        )
        return [
            Event(last.subject(key), str(reason), message, reason in WARNINGS)
            for reason, message in service_events(before, status)
        ]

    async def _apply(self, key: ServiceKey, name: str, status: Object) -> None:
        """Apply the status, without the fields that an older definition lacks: it would refuse the
        whole status."""
        metadata = {"name": name}
        apply = partial(
            self._writer.patch,
            ELASTIC_SERVICES,
            key.namespace,
            name,
            patch_type=PatchType.APPLY,
            subresource="status",
        )
        try:
            await apply(ELASTIC_SERVICES.object(metadata, status=status))
        except KubeError as error:
            if _UNDECLARED not in str(error):
                raise
            if not self._definition_is_old:
                _log.warning(
                    "the definition of ElasticService is old",
                    apply="manifests/base/elasticservices.yaml",
                )
            self._definition_is_old = True
            older = {field: value for field, value in status.items() if field not in _NEW}
            rule = older.get("rule", {}).items()
            older["rule"] = {field: value for field, value in rule if field != _NEW_OF_RULE}
            await apply(ELASTIC_SERVICES.object(metadata, status=older))

    async def _found(self, key: ServiceKey, record: ElasticServiceRecord | None) -> Object:
        """The object about the service, created if there is none. AlreadyExistsError when others
        have both names."""
        if record is not None:
            there = await self._writer.get(ELASTIC_SERVICES, key.namespace, record.name)
            if _is_about(there, key):
                return there
        for name in names_of(key):
            metadata = {
                "namespace": key.namespace,
                "name": name,
                "labels": {MANAGED_BY_LABEL: MANAGED_BY},
            }
            body = ELASTIC_SERVICES.object(metadata, spec={"rule": key.rule, "jobID": key.job_id})
            try:
                return await self._writer.create(ELASTIC_SERVICES, key.namespace, body)
            except AlreadyExistsError as error:
                taken = error
                there = await self._writer.get(ELASTIC_SERVICES, key.namespace, name)
                if _is_about(there, key):
                    return there
        raise taken

    async def _delete(self, record: ElasticServiceRecord) -> None:
        """Delete the object in the version that was seen: a number that a user sets at this moment
        prevents it."""
        await self._writer.delete(
            ELASTIC_SERVICES,
            record.namespace,
            record.name,
            uid=record.uid,
            resource_version=record.resource_version,
        )


def names_of(key: ServiceKey) -> tuple[str, str]:
    """The name of the object about a service, and a second one for the case that another object has
    the first."""
    plain = service_name(key.rule, key.job_id)
    return (
        plain,
        f"{plain[: LONGEST_NAME - 17].rstrip('-.')}-{digest('/'.join((key.rule, key.job_id)))}",
    )


def _is_about(there: Object, key: ServiceKey) -> bool:
    spec = at(there, "spec")
    return (spec.get("rule"), spec.get("jobID")) == (key.rule, key.job_id)


_Time = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]


class _Ratio(msgspec.Struct):
    counts: dict[str, int]


class _Rule(msgspec.Struct, rename="camel"):
    in_force: str = ""
    paused: bool = False


class _Instance(msgspec.Struct):
    name: str
    uid: str
    state: str
    reason: str
    since: _Time
    nodes: list[str] = []


class _Loss(msgspec.Struct):
    name: str
    at: _Time
    cause: str
    nodes: list[str] = []


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str
    last_transition_time: _Time


class _Status(msgspec.Struct, rename="camel"):
    """The types of the fields that the next status and the events depend on."""

    since: _Time
    running: str
    target: str
    reason: str
    rule: _Rule
    instances: list[_Instance]
    conditions: list[_Condition]
    lost: list[_Loss] = []
    ratios: list[dict[str, int]] = []
    current_ratio: _Ratio | None = None
    target_ratio: _Ratio | None = None
    wanted: str = "all"
    observed_generation: int = 0


def valid_status(status: object) -> Object:
    """A status that was read from the cluster, where a tenant may write it; {} for none, or for
    wrong types."""
    try:
        msgspec.convert(status, _Status)
    except msgspec.ValidationError:
        return {}
    return status if isinstance(status, dict) else {}
