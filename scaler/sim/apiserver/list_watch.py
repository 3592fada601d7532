"""Lists and watches, with the selectors of both as kubectl writes them.

A list is a consistent page of records at one version. A watch reads the history of the store at its
own pace; a watch that needs history which is no longer kept has expired."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import msgspec

from scaler.kube.api import EventType, Object, Page
from scaler.kube.errors import BadRequestError
from scaler.sim.apiserver import refusals
from scaler.sim.apiserver.kinds import Kind, at
from scaler.sim.apiserver.store import Change, Key, Record, Store, Table

Predicate = Callable[[Object], bool]
_LabelTest = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\((.*)\)$", re.DOTALL)
_EQUALITY = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*(\S*)$")
_EXISTS = re.compile(r"^(!?)\s*([^=!\s,()]+)$")
_SPLIT = re.compile(r",(?![^(]*\))")

_FIELDS_OF = {
    "Pod": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "Event": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "reason",
        "source",
        "type",
        "reportingComponent",
    ),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Secret": ("type",),
}


@lru_cache(maxsize=1024)
def label_predicate(selector: str) -> Predicate:
    """Whether an object's labels match; BadRequestError when the selector cannot be read."""
    tests = (
        [_label_test(part.strip(), selector) for part in _SPLIT.split(selector)]
        if selector.strip()
        else []
    )

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _label_test(part: str, selector: str) -> _LabelTest:
    if found := _EXISTS.match(part):
        wanted = not found[1]
        key = found[2]
        return lambda labels: (key in labels) is wanted
    if found := _SET.match(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        inside = found[2] == "in"
    elif found := _EQUALITY.match(part):
        values = frozenset({found[3]})
        inside = found[2] != "!="
    else:
        raise refusals.bad_request(
            f"unable to parse requirement: couldn't parse the selector string {selector!r}"
        )
    name = found[1]
    return lambda labels: (labels.get(name) in values) is inside


@lru_cache(maxsize=1024)
def field_predicate(selector: str, kind: str) -> Predicate:
    """Whether an object's fields match; BadRequestError for a field that the kind does not
    offer."""
    tests = (
        [_field_test(part.strip(), selector, kind) for part in selector.split(",")]
        if selector.strip()
        else []
    )
    return lambda obj: all(test(obj) for test in tests)


def _field_test(part: str, selector: str, kind: str) -> Predicate:
    found = _EQUALITY.match(part)
    if not found:
        raise refusals.bad_request(f"invalid selector: {selector!r}; can't understand {part!r}")
    field = found[1]
    wanted = found[3]
    equal = found[2] != "!="
    if field not in ("metadata.name", "metadata.namespace", *_FIELDS_OF.get(kind, ())):
        raise refusals.bad_request(f"field label not supported: {field}")
    path = field.split(".") if field != "source" else ["source", "component"]

    def matches(obj: Object) -> bool:
        value = at(obj, path)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if value is None:
            text = "false" if field == "spec.unschedulable" else ""
        return (text == wanted) is equal

    return matches


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a list or watch; the fields are those of KubeApi.list."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""


_Token = tuple[int, Key]
"""A continue token: the version of the list, and the last key of the page before."""


def selection(kind: Kind, query: Query) -> Predicate:
    """Both selectors as one predicate on objects; BadRequestError when one cannot be read."""
    labels = label_predicate(query.label_selector)
    fields = field_predicate(query.field_selector, kind.built_in)
    return lambda obj: labels(obj) and fields(obj)


def version_number(text: str) -> int:
    """A resourceVersion as a number, 0 when not given; BadRequestError when it is none."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise refusals.bad_request(f'resourceVersion: Invalid value: "{text}": not a number')
    return int(text)


def list_page(store: Store, kind: Kind, namespace: str | None, query: Query) -> Page[Record]:
    """One page; ExpiredError when its version is not kept any more."""
    table = store.table(kind.resource)
    version, after = (
        _read_token(query.continue_token) if query.continue_token else _first_page(store, query)
    )
    if version < table.oldest:
        raise (
            refusals.expired_continue()
            if query.continue_token
            else refusals.expired(version, table.oldest)
        )
    matches = selection(kind, query)
    found: list[Record] = []
    last: Key = ("", "")
    for key, record in _records_at(table, version, namespace, after):
        if query.limit and len(found) == query.limit:
            following = base64.urlsafe_b64encode(msgspec.json.encode((version, last)))
            return Page(found, str(version), following.decode())
        if matches(record.object):
            found.append(record)
            last = key
    return Page(found, str(version))


def _read_token(text: str) -> _Token:
    try:
        token: _Token = msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=_Token)
        return token
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise refusals.bad_request("continue key is not valid") from None


def _first_page(store: Store, query: Query) -> _Token:
    wanted = version_number(query.resource_version)
    if wanted > store.version:
        raise refusals.too_new(wanted, store.version)
    # With a limit a version means exactly that version, without one it means "not older than".
    return (wanted if wanted and query.limit else store.version), ("", "")


def _records_at(
    table: Table, version: int, namespace: str | None, after: Key
) -> Iterator[tuple[Key, Record]]:
    unchanged = table.index_after(version) == len(table.changes)
    records = table.records if unchanged else table.at(version)
    keys = table.keys if unchanged else sorted(records)
    start = max(bisect_right(keys, after), bisect_left(keys, (namespace or "", "")))
    end = bisect_left(keys, (namespace + "\0", "")) if namespace else len(keys)
    for key in keys[start:end]:
        yield key, records[key]


class Seen(msgspec.Struct, frozen=True):
    """One event of a watch; a bookmark has no record. `moment` is the wall time of the commit."""

    type: EventType
    record: Record | None
    version: int
    moment: float


class Watch:
    """One open watch. Ends after `timeout` seconds or when `cut`; always close it."""

    bookmark_seconds = 60.0
    """Seconds between bookmarks; tests in real time use less."""
    last_bookmark_seconds = 2.0
    """Seconds before the end of a watch at which it has its last bookmark."""

    def __init__(
        self, store: Store, kind: Kind, namespace: str | None, query: Query, timeout: float
    ) -> None:
        """Raises ExpiredError when the version is not kept any more, UnknownOutcomeError (504) when
        it does not exist yet, BadRequestError for a bad selector."""
        self.kind = kind
        self._store = store
        self._table = store.table(kind.resource)
        self._matches = selection(kind, query)
        self._namespace = namespace or ""
        self._position = self._start(query.resource_version)
        self._initial: list[Record] = []
        # without a version (or with 0) a watch begins with the present objects
        if not self._position:
            page = list_page(store, kind, namespace, query)
            self._position = int(page.resource_version)
            self._initial = page.items
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + timeout
        self._next_bookmark = self._bookmark_after(self._loop.time())
        self._is_bookmark_due = False
        self._woken = asyncio.Event()
        self.is_open = True
        """False after its end: remaining events are dropped."""
        self._timer = self._arm()
        self._table.listeners.append(self._wake)

    def _start(self, resource_version: str) -> int:
        try:
            position = version_number(resource_version)
        except (
            BadRequestError
        ) as error:  # an error on the side of the API server, as it says itself
            raise refusals.internal(error.message) from None
        if position and position < self._table.oldest:
            raise refusals.expired(position, self._table.oldest)
        if position > self._store.version:
            raise refusals.too_new(position, self._store.version)
        return position

    def close(self) -> None:
        """Frees everything; may be called again."""
        self.cut()
        self._timer.cancel()
        if self._wake in self._table.listeners:
            self._table.listeners.remove(self._wake)

    def cut(self) -> None:
        """Ends the watch as if the connection had been closed properly."""
        self.is_open = False
        self._wake()

    async def next(self) -> list[Seen]:
        """The next events; empty at the end of the watch. ExpiredError when the watch is too far
        behind."""
        if self._initial:
            records = self._initial
            self._initial = []
            return [Seen(EventType.ADDED, record, record.version, 0.0) for record in records]
        while self.is_open:
            events = list(self._read()) or list(self._bookmark())
            if events:
                return events
            self._woken.clear()
            await self._woken.wait()
        return []

    def _read(self) -> Iterator[Seen]:
        if self._position < self._table.oldest:
            raise refusals.expired(self._position, self._table.oldest)
        changes = self._table.changes
        if not changes or changes[-1].version <= self._position:
            return
        start = self._table.index_after(self._position)
        self._position = changes[-1].version
        for change in changes[start:]:
            kind = self._kind_of(change)
            if kind is not None:
                yield Seen(kind, change.after, change.version, change.moment)

    def _kind_of(self, change: Change) -> EventType | None:
        """The type of a change as seen through the selector: objects begin and stop to match it."""
        if self._namespace and change.key[0] != self._namespace:
            return None
        before = change.before is not None and self._matches(change.before.object)
        after = change.type is not EventType.DELETED and self._matches(change.after.object)
        if before and after:
            return EventType.MODIFIED
        if after:
            return EventType.ADDED
        return EventType.DELETED if before else None

    def _bookmark(self) -> Iterator[Seen]:
        if not self._is_bookmark_due:
            return
        self._is_bookmark_due = False
        self._next_bookmark = self._bookmark_after(self._next_bookmark)
        self._timer = self._arm()
        if self._position > self._store.version:
            return  # about a future version a real API server says nothing, not even this
        self._position = self._store.version
        yield Seen(EventType.BOOKMARK, None, self._position, 0.0)

    def _bookmark_after(self, now: float) -> float:
        """Loop time of the next bookmark; inf after the last one, shortly before the watch ends."""
        last = self._end - self.last_bookmark_seconds
        return min(now + self.bookmark_seconds, last) if now < last else math.inf

    def _arm(self) -> asyncio.TimerHandle:
        """The timer of what comes next. A timer may ring a moment early, so what is due is told by
        the timer and not by the clock."""
        if self._next_bookmark < self._end:
            return self._loop.call_at(self._next_bookmark, self._note_bookmark)
        return self._loop.call_at(self._end, self.cut)

    def _note_bookmark(self) -> None:
        self._is_bookmark_due = True
        self._wake()

    def _wake(self, _: Change | None = None) -> None:
        self._woken.set()
