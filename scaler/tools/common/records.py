"""The kept fields of objects that the controller does not read: ElasticServices and events. Values
only."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.informers.elastic_services import (
    ElasticServiceObject,
    ElasticServiceRecord,
    elastic_service_record,
)
from scaler.kube.api import Object
from scaler.kube.metadata import Metadata, Stored
from scaler.rules.rule import ALL
from scaler.rules.values import at


class Written(Stored, frozen=True):
    """An ElasticService as it is in the cluster."""

    object: Object


class WrittenObject(msgspec.Struct):
    """An ElasticService with all its fields, of any content."""

    metadata: Metadata
    spec: Any = None
    status: Any = None


def written(obj: WrittenObject) -> Written | None:
    """None for an object without identity."""
    meta = obj.metadata
    content = {"metadata": msgspec.to_builtins(meta), "spec": obj.spec, "status": obj.status}
    return Written(*meta.identity, content) if meta.name else None


def replicas_of(obj: Object) -> int:
    """Instances wanted in all, from an ElasticService; `ALL` if the value is no number."""
    number = at(obj, "spec").get("replicas")
    return min(number, ALL) if type(number) is int and number >= 0 else ALL


def as_cached(found: Written) -> ElasticServiceRecord | None:
    """The same as a record of the controller's cache."""
    kept = {"metadata": found.object["metadata"], "spec": at(found.object, "spec")}
    try:
        return elastic_service_record(
            msgspec.json.decode(msgspec.json.encode(kept), type=ElasticServiceObject)
        )
    except msgspec.ValidationError:
        return None


class _About(msgspec.Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int = 0
    last_observed_time: str | None = None


class _Source(msgspec.Struct, frozen=True):
    component: str = ""


class EventObject(msgspec.Struct, rename="camel"):
    """The fields of an Event that people read."""

    metadata: Metadata
    involved_object: _About = _About()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    source: _Source = _Source()
    reporting_component: str = ""


class EventRecord(Stored, frozen=True):
    """One event. `first` and `last` are times as Kubernetes writes them, "" if missing."""

    kind: str
    """Kind of the object of the event; `about` is its name and `about_uid` its uid."""
    about: str
    about_uid: str
    type: str
    reason: str
    message: str
    count: int
    first: str
    last: str
    source: str


def event_record(event: EventObject) -> EventRecord:
    meta = event.metadata
    about = event.involved_object
    series = event.series
    first = event.first_timestamp or event.event_time or meta.creation_timestamp or ""
    return EventRecord(
        *meta.identity,
        kind=about.kind,
        about=about.name,
        about_uid=about.uid,
        type=event.type,
        reason=event.reason,
        message=event.message,
        count=(series.count if series else event.count) or 1,
        first=first,
        last=(series.last_observed_time if series else event.last_timestamp) or first,
        source=event.source.component or event.reporting_component,
    )


def condition(status: Any, kind: str) -> Object:
    """The condition of this type in the status of any object; {} if there is none."""
    found = at(status).get("conditions")
    each = (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()
    for one in each:
        if one.get("type") == kind:
            return one
    return {}
