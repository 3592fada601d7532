"""The versioned store: one counter, the current objects and a bounded history of changes per
resource.

It knows nothing about the rules of an API server. Stored objects are never changed; to keep or
change one, make a copy."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from scaler.kube.api import EventType, Object, Resource

T = TypeVar("T")

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped resources) and name."""

_encode = msgspec.json.encode
_decode = msgspec.json.decode


@cache
def _decoder(wanted: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(wanted)


class Record:
    """One version of one object: `object` to read, `raw` the same as JSON, from which copies are
    made."""

    __slots__ = ("object", "raw", "version")

    def __init__(self, obj: Object, version: int) -> None:
        self.object = obj
        self.raw = _encode(obj)
        self.version = version

    def copy(self) -> Object:
        """A copy of the object, for callers that change it."""
        copied: Object = _decode(self.raw)
        return copied

    def decode(self, wanted: type[T]) -> T:
        """The fields that `wanted` declares."""
        key: Any = wanted  # a type is hashable, which the checker does not know for type variables
        decoded: T = _decoder(key).decode(self.raw)
        return decoded


class Change(msgspec.Struct, frozen=True):
    """One commit: `after` is the new version (for DELETED the last one), `before` the version that
    it replaced."""

    type: EventType
    resource: Resource
    key: Key
    before: Record | None
    after: Record
    moment: float

    @property
    def version(self) -> int:
        return self.after.version


class Table:
    """The objects of one resource, sorted as etcd sorts them, and their latest changes."""

    def __init__(self, history: int) -> None:
        self.records: dict[Key, Record] = {}
        self.keys: list[Key] = []
        self.changes: list[Change] = []
        self.oldest = 0
        """Changes after this version are all in `changes`; older versions have expired."""
        self.listeners: list[Callable[[Change], None]] = []
        self._history = history

    def apply(self, change: Change) -> None:
        if change.type is EventType.DELETED:
            del self.records[change.key]
            del self.keys[bisect_left(self.keys, change.key)]
        else:
            self.records[change.key] = change.after
            if change.before is None:
                insort(self.keys, change.key)
        self.changes.append(change)
        if len(self.changes) > 2 * self._history:
            self.forget(self.changes[-self._history - 1].version)
        for listener in tuple(self.listeners):
            listener(change)

    def forget(self, version: int) -> None:
        """Drops the history up to and including `version`."""
        del self.changes[: self.index_after(version)]
        self.oldest = max(self.oldest, version)

    def index_after(self, version: int) -> int:
        """The index in `changes` of the first change after `version`."""
        return bisect_right(self.changes, version, key=lambda change: change.version)

    def at(self, version: int) -> dict[Key, Record]:
        """All objects at `version`, which must not have expired."""
        records = dict(self.records)
        for change in reversed(self.changes[self.index_after(version) :]):
            if change.before is None:
                records.pop(change.key, None)
            else:
                records[change.key] = change.before
        return records


Backup = tuple[int, dict[Resource, dict[Key, Record]]]
"""All objects of one moment, for `Store.restore`: the version, and the records of each resource."""


class Store:
    """All tables under one version counter. `history` is the number of changes kept per resource,
    at least."""

    def __init__(self, *, history: int) -> None:
        self.version = 1
        self.observers: list[Callable[[Change], None]] = []
        """Called with every commit, in order; for audits and invariants. They must not write."""
        self._history = history
        self._tables: dict[Resource, Table] = {}

    def table(self, resource: Resource) -> Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = Table(self._history)
        return table

    def put(self, resource: Resource, key: Key, obj: Object, moment: float) -> Record:
        """Stores a new version of an object, which belongs to the store from now on; sets its
        resourceVersion."""
        before = self.table(resource).records.get(key)
        kind = EventType.ADDED if before is None else EventType.MODIFIED
        after = self._next_version(obj)
        return self._commit(Change(kind, resource, key, before, after, moment))

    def delete(self, resource: Resource, key: Key, moment: float) -> Record:
        """Removes an existing object; its last version has the number of the deletion."""
        before = self.table(resource).records[key]
        obj = {**before.object, "metadata": {**before.object["metadata"]}}
        after = self._next_version(obj)
        return self._commit(Change(EventType.DELETED, resource, key, before, after, moment))

    def compact(self) -> None:
        """Forgets the history, as etcd's compaction does."""
        for table in self._tables.values():
            table.forget(self.version)

    def back_up(self, moment: float = math.inf) -> Backup:
        """All objects at a moment (wall time), or now. Not before the last compaction."""
        version = self.version
        if moment < math.inf:
            version = max(table.oldest for table in self._tables.values())
            for table in self._tables.values():
                for change in table.changes:
                    if change.moment <= moment:
                        version = max(version, change.version)
        return version, {resource: table.at(version) for resource, table in self._tables.items()}

    def restore(self, backup: Backup) -> None:
        """Restores all objects, and uses version numbers a second time. No observer is called."""
        self.version, kept = backup
        for resource, table in self._tables.items():
            records = kept.get(resource, {})
            table.records = dict(records)
            table.keys = sorted(records)
            table.changes = []
            table.oldest = self.version

    def _next_version(self, obj: Object) -> Record:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        return Record(obj, self.version)

    def _commit(self, change: Change) -> Record:
        self.table(change.resource).apply(change)
        for observer in self.observers:
            observer(change)
        return change.after
