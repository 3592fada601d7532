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
from scaler.kube.metadata import digest, object_name
from scaler.kube.writer import Writer
from scaler.report.service_reports import Subject
from scaler.timestamps import rfc3339

COMPONENT = "mind-cluster-scaler"
REPEAT_AFTER = 600.0
"""Seconds within which the same event is not written again."""
_MAX_MESSAGE = 1024
_REMEMBERED = 10_000


class Event(NamedTuple):
    subject: Subject
    reason: str
    message: str
    warning: bool = False

    @property
    def event_name(self) -> str:
        content = "\0".join(
            (self.subject.resource.kind, self.subject.uid, self.reason, self.message)
        )
        return f"{object_name(self.subject.name, 200)}.{digest(content)}"


def event_object(event: Event, now: float) -> Object:
    """The core/v1 Event for the first occurrence of `event`."""
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
        count=1,
    )


def repetition(existing: Object, now: float) -> dict[str, Any]:
    """The merge patch that increases the count of an event."""
    count = existing.get("count")
    return {"count": (count if isinstance(count, int) else 1) + 1, "lastTimestamp": rfc3339(now)}


class Admission(StrEnum):
    """Whether an event is written, and why not, as the metric of dropped reports says it."""

    WRITTEN = "written"
    REPEATED = "repeated"
    """It was the last event about its object, within REPEAT_AFTER."""
    SPAM = "spam"
    """Beyond a burst, then one event a minute, so that a flapping job cannot flood etcd."""


class _History(NamedTuple):
    """The last event about an object that was no repetition."""

    name: str
    time: float
    tokens: float
    """How many more events were allowed then."""


class Filter:
    """The last event about each object, and how many more are allowed; bounded, the oldest are
    forgotten first."""

    BURST = 25
    REFILL = 60.0

    def __init__(self) -> None:
        self._histories: OrderedDict[Subject, _History] = OrderedDict()
        """By object."""

    def admit(self, event: Event, now: float) -> Admission:
        """Say whether the event is written, and count it."""
        subject = event.subject
        before = self._histories.pop(subject, _History("", now, float(self.BURST)))
        if before.name == event.event_name and now - before.time < REPEAT_AFTER:
            self._histories[subject] = before
            return Admission.REPEATED
        tokens = min(self.BURST, before.tokens + (now - before.time) / self.REFILL)
        spam = tokens < 1
        left = tokens if spam else tokens - 1
        self._histories[subject] = _History(event.event_name, now, left)
        # after this time it changes no answer any more
        oldest = next(iter(self._histories.values())).time
        if len(self._histories) > _REMEMBERED or now - oldest > self.BURST * self.REFILL:
            self._histories.popitem(last=False)
        return Admission.SPAM if spam else Admission.WRITTEN


async def write_event(writer: Writer, event: Event, now: float) -> None:
    """Create the event, or increase its count. Raises KubeError; may be repeated."""
    namespace = event.subject.namespace
    name = event.event_name
    try:
        await writer.create(EVENTS, namespace, event_object(event, now))
    except AlreadyExistsError:
        patch = repetition(await writer.get(EVENTS, namespace, name), now)
        await writer.patch(EVENTS, namespace, name, patch, patch_type=PatchType.MERGE)
