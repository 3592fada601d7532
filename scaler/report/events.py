"""Kubernetes Events about jobs, rules and services: their content, how many are written, and their
only writer.

An event's name is made of its content, so a repetition, also by the next leader, increases the
count of the first."""

from __future__ import annotations

from collections import OrderedDict
from enum import StrEnum
from typing import Any, NamedTuple

from scaler.kube.api import EVENTS, Object, PatchType
from scaler.kube.errors import AlreadyExistsError
from scaler.kube.writer import Writer
from scaler.names import digest, object_name
from scaler.report.service_reports import Subject
from scaler.timestamps import rfc3339

COMPONENT = "mind-cluster-scaler"
REPEAT_AFTER = 600.0
"""Seconds within which the same event is not written again."""
COUNTED = frozenset({"Scaled"})
"""Reasons of which each object has one event: orders of an autoscaler come without end. Its message
is that of the last one, and it counts up."""
_MAX_MESSAGE = 1024
_REMEMBERED = 10_000


class Event(NamedTuple):
    subject: Subject
    reason: str
    message: str
    warning: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether the object has one event of this reason."""
        return self.reason in COUNTED

    @property
    def event_name(self) -> str:
        message = "" if self.is_counted else self.message
        content = "\0".join((self.subject.resource.kind, self.subject.uid, self.reason, message))
        return f"{object_name(self.subject.name, 200)}.{digest(content)}"


def event_object(event: Event, now: float, times: int = 1) -> Object:
    """The core/v1 Event for the first occurrence of `event`, or for so many since."""
    resource, namespace, name, uid = event.subject
    at = rfc3339(now)
    involved = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
    }
    return EVENTS.object(
        {"namespace": namespace, "name": event.event_name},
        involvedObject={key: value for key, value in involved.items() if value},
        reason=event.reason,
        message=event.message[:_MAX_MESSAGE],
        type="Warning" if event.warning else "Normal",
        source={"component": COMPONENT},
        reportingComponent=COMPONENT,
        reportingInstance="",
        firstTimestamp=at,
        lastTimestamp=at,
        count=times,
    )


def repetition(existing: Object, event: Event, now: float, times: int = 1) -> dict[str, Any]:
    """The merge patch that increases the count of an event."""
    count = existing.get("count")
    patch: dict[str, Any] = {
        "count": (count if isinstance(count, int) else 1) + times,
        "lastTimestamp": rfc3339(now),
    }
    if event.is_counted:
        patch["message"] = event.message[:_MAX_MESSAGE]
    return patch


class Admission(StrEnum):
    """Whether an event is written, and why not, as the metric of dropped reports says it."""

    WRITTEN = "written"
    REPEATED = "repeated"
    """It was the last event about its object, within REPEAT_AFTER."""
    SPAM = "spam"
    """Beyond a burst, then one event a minute, so that a flapping job cannot flood etcd. Warnings
    are counted apart: 60 a minute."""


class _History(NamedTuple):
    """The last event about an object that was no repetition."""

    name: str
    time: float
    others: float
    """How many more events were allowed then that are no warnings."""
    warnings: float


class Filter:
    """The last event about each object, and how many more are allowed; bounded, the oldest are
    forgotten first."""

    BURST = 25
    REFILL = 60.0
    WARNINGS = 60
    """The most warnings at once, and in each minute after that. No other event takes their
    place."""
    REFILL_OF_WARNINGS = 1.0

    def __init__(self) -> None:
        self._histories: OrderedDict[Subject, _History] = OrderedDict()
        """By object."""

    def admit(self, event: Event, now: float) -> Admission:
        """Say whether the event is written, and count it."""
        subject = event.subject
        new = _History("", now, float(self.BURST), float(self.WARNINGS))
        before = self._histories.pop(subject, new)
        if before.name == event.event_name and now - before.time < REPEAT_AFTER:
            self._histories[subject] = before
            return Admission.REPEATED
        elapsed = now - before.time
        others = min(self.BURST, before.others + elapsed / self.REFILL)
        warnings = min(self.WARNINGS, before.warnings + elapsed / self.REFILL_OF_WARNINGS)
        spam = (warnings if event.warning else others) < 1
        if not spam and event.warning:
            warnings -= 1
        elif not spam:
            others -= 1
        self._histories[subject] = _History(event.event_name, now, others, warnings)
        # after this time it changes no answer any more
        oldest = next(iter(self._histories.values())).time
        if len(self._histories) > _REMEMBERED or now - oldest > self.BURST * self.REFILL:
            self._histories.popitem(last=False)
        return Admission.SPAM if spam else Admission.WRITTEN


async def write_event(writer: Writer, event: Event, now: float, times: int = 1) -> None:
    """Create the event, or increase its count by `times`. Raises KubeError; may be repeated."""
    namespace = event.subject.namespace
    name = event.event_name
    try:
        await writer.create(EVENTS, namespace, event_object(event, now, times))
    except AlreadyExistsError:
        patch = repetition(await writer.get(EVENTS, namespace, name), event, now, times)
        await writer.patch(EVENTS, namespace, name, patch, patch_type=PatchType.MERGE)
