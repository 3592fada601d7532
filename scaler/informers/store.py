"""The cache of one resource type: the newest known record of each object, and how far the cluster
has been seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Generic, TypeVar

from scaler.kube.metadata import Stored, version_of

Name = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""


R = TypeVar("R", bound=Stored)


class Store(Generic[R]):
    """Records by namespace and name.

    `on_change(old, new)` is called synchronously for every effective change; None stands for "does
    not exist". `version`: the resourceVersion up to which everything has been seen, of several
    scopes the one furthest behind."""

    def __init__(self, on_change: Callable[[R | None, R | None], None]) -> None:
        self.version = 0
        self._listeners: list[Callable[[Name | None], None]] = []
        self._on_change = on_change
        self._records: defaultdict[str, dict[str, R]] = defaultdict(dict)
        """Namespace -> name -> record: as keys, 200,000 pairs of both would take 12 MiB."""
        self._seen: dict[str | None, int] = {}
        self._absent: dict[Name, int] = {}
        """Names under which nothing existed at a version that is not reached yet."""
        self._rewound: set[Name] = set()
        """Names of records from before the cluster went back: whatever comes of them now is
        right."""

    def listen(self, listener: Callable[[Name | None], None]) -> None:
        """Have `listener(name)` called after each change, and `listener(None)` after `version` has
        grown."""
        self._listeners.append(listener)

    def __len__(self) -> int:
        return sum(map(len, self._records.values()))

    def get(self, namespace: str, name: str) -> R | None:
        # inserts nothing: the webhook's thread reads, too
        return self._records.get(namespace, {}).get(name)

    def values(self, scope: str | None = None) -> Iterator[R]:
        """The records of one namespace (None = all), as they are now: take a copy before anything
        awaits."""
        if scope is None:
            return chain.from_iterable(records.values() for records in self._records.values())
        return iter(self._records.get(scope, {}).values())

    def versions(self, scope: str | None) -> dict[Name, str]:
        return {
            (found.namespace, found.name): found.resource_version for found in self.values(scope)
        }

    def add_scope(self, namespace: str | None) -> None:
        """Announce an informer for `namespace` (None = all): until it has listed, `version` stays
        0."""
        self._seen[namespace] = 0
        self.version = 0

    def covers(self, namespace: str) -> bool:
        """Whether what is not known in this namespace is not there, once everything was listed."""
        return None in self._seen or namespace in self._seen

    def seen(self, namespace: str | None) -> int:
        return self._seen[namespace]

    def apply(self, record: R) -> None:
        """Take in what a list or an event says, unless something at least as new is known under
        this name.

        A name that was given to a new object counts too: its first version is newer than the last
        of the old one."""
        name = (record.namespace, record.name)
        old = self.get(*name)
        if self._absent and 0 < version_of(record.resource_version) <= self._absent.get(name, 0):
            return
        if name in self._rewound:
            self._rewound.discard(name)
            if old == record:
                return
        elif old is not None:
            if old.resource_version == record.resource_version:
                return
            version = version_of(record.resource_version)
            if version and version < version_of(old.resource_version):
                return
        self._records[record.namespace][record.name] = record
        self._changed(name, old, record)

    def remove(self, namespace: str, name: str, uid: str) -> None:
        """The object with this `uid` is gone; a successor of the same name stays."""
        old = self.get(namespace, name)
        if old is not None and old.uid == uid:
            self._rewound.discard((namespace, name))
            del self._records[namespace][name]
            if not self._records[namespace]:
                del self._records[namespace]
            self._changed((namespace, name), old, None)

    def note_absent(self, namespace: str, name: str, version: int) -> None:
        """As of `version` there was no such object: what comes later and is older is left out, what
        is newer stays."""
        old = self.get(namespace, name)
        if old is not None and version_of(old.resource_version) > version:
            return
        if version > self.version:
            self._absent[namespace, name] = version
        if old is not None:
            self.remove(namespace, name, old.uid)

    def retain(self, scope: str | None, names: Collection[Name]) -> None:
        """A complete list of `scope` held just `names`: whatever else is known there has gone
        unseen."""
        gone = [
            record for record in self.values(scope) if (record.namespace, record.name) not in names
        ]
        for record in gone:
            self.remove(record.namespace, record.name, record.uid)

    def rewind(self, scope: str | None) -> None:
        """The cluster went back in time: the next list is believed. What is known stays until it
        says otherwise."""
        self._seen[scope] = 0
        self.version = 0
        self._absent = {}
        self._rewound.update((record.namespace, record.name) for record in self.values(scope))

    def advance(self, scope: str | None, version: int) -> None:
        """Everything of `scope` up to `version` has been taken in."""
        if version <= self._seen[scope]:
            return
        self._seen[scope] = version
        lowest = version if len(self._seen) == 1 else min(self._seen.values())
        if lowest > self.version:
            self.version = lowest
            if self._absent:
                self._absent = {
                    name: until for name, until in self._absent.items() if until > lowest
                }
            for listener in self._listeners:
                listener(None)

    def _changed(self, name: Name, old: R | None, new: R | None) -> None:
        self._on_change(old, new)
        for listener in self._listeners:
            listener(name)
