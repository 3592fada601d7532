"""Own writes that the watch has not shown yet. A service with such writes gets no other action.

An event may be lost, and a lost event must not stop a service for ever: after `TIMEOUT` a write
counts as seen."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from scaler.decide.world import ServiceKey
from scaler.informers.store import Name, Store
from scaler.kube.metadata import Stored, version_of

TIMEOUT = 30.0
"""Seconds after which a write that the cache has not shown counts as seen."""


class _Write(msgspec.Struct, eq=False):
    """One write. `version` is the resourceVersion after it; `gone`: it deleted the object."""

    key: ServiceKey
    store: Store[Any]
    name: Name
    uid: str
    version: int
    gone: bool
    timer: asyncio.TimerHandle | None = None

    def is_seen(self) -> bool:
        """Whether the cache shows the write, or something newer."""
        record = self.store.get(*self.name)
        seen = self.store.version >= self.version
        if not self.gone:
            return seen or (
                record is not None and version_of(record.resource_version) >= self.version
            )
        if record is None:
            return seen
        return record.uid != self.uid or bool(getattr(record, "terminating", False))


class AssumedWrites:
    """`on_all_seen(key)` is called when the watch has shown the last open write of a service, or
    when that write has timed out.

    A write that the cache shows already when it is announced causes no call: ask `all_seen` after
    the last one.

    `timed_out` counts the writes that timed out. It should stay 0: anything else is a lost event or
    a very slow watch."""

    def __init__(self, on_all_seen: Callable[[ServiceKey], None]) -> None:
        self.timed_out = 0
        self._on_all_seen = on_all_seen
        self._pending: dict[tuple[Store[Any], Name], _Write] = {}
        self._open: Counter[ServiceKey] = Counter()
        self._by_version: dict[Store[Any], list[tuple[int, Name]]] = {}

    def all_seen(self, key: ServiceKey) -> bool:
        """Whether the cache shows every write for this service."""
        return key not in self._open

    def assume(self, key: ServiceKey, store: Store[Any], after: Stored) -> None:
        """An object was created or changed; `after` is the object in the answer."""
        name = (after.namespace, after.name)
        version = version_of(after.resource_version)
        self._add(_Write(key, store, name, after.uid, version, gone=False))

    def assume_gone(self, key: ServiceKey, store: Store[Any], known: Stored) -> None:
        """This object was deleted. An object that the cache does not show yet must be shown
        first."""
        name = (known.namespace, known.name)
        earlier = self._pending.get((store, name))
        version = earlier.version if earlier is not None and earlier.uid == known.uid else 0
        self._add(_Write(key, store, name, known.uid, version, gone=True))

    def _add(self, write: _Write) -> None:
        key = write.key
        store = write.store
        earlier = self._pending.get((store, write.name))
        if earlier is not None:
            self._drop(earlier)
            # the object belongs to another service now
            if earlier.key != key and self.all_seen(earlier.key):
                self._on_all_seen(earlier.key)
        if write.is_seen():
            return
        if store not in self._by_version:
            self._by_version[store] = []
            store.listen(lambda changed: self._on_change(store, changed))
        self._pending[store, write.name] = write
        self._open[key] += 1
        heapq.heappush(self._by_version[store], (write.version, write.name))
        write.timer = asyncio.get_running_loop().call_later(TIMEOUT, self._time_out, write)

    def _on_change(self, store: Store[Any], name: Name | None) -> None:
        waiting = self._by_version[store]
        if not self._pending:
            waiting.clear()  # these were seen by their names
        elif name is not None:
            self._check(store, name)
        else:
            while waiting and waiting[0][0] <= store.version:
                self._check(store, heapq.heappop(waiting)[1])

    def _check(self, store: Store[Any], name: Name) -> None:
        write = self._pending.get((store, name))
        if write is not None and write.is_seen():
            self._close(write)

    def _close(self, write: _Write) -> None:
        self._drop(write)
        if self.all_seen(write.key):
            self._on_all_seen(write.key)

    def _drop(self, write: _Write) -> None:
        del self._pending[write.store, write.name]
        if write.timer is not None:
            write.timer.cancel()
        self._open[write.key] -= 1
        if not self._open[write.key]:
            del self._open[write.key]

    def _time_out(self, write: _Write) -> None:
        self.timed_out += 1
        self._close(write)
