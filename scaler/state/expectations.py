"""Own writes are seen before the next decision: what was written and has not come back through the
cache yet.

An answer that stays out is given up after a while, because one lost event must not stop a service
for ever."""

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


class _Expectation(msgspec.Struct, eq=False):
    key: ServiceKey
    store: Store[Any]
    name: Name
    uid: str
    version: int
    gone: bool
    timer: asyncio.TimerHandle | None = None

    def holds(self) -> bool:
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


class Expectations:
    """`on_settled(key)` is called when the last open write of a service has come back (or was given
    up).

    A write that the cache shows already when it is announced needs no call: see `settled` after the
    last one.

    `timed_out` counts what was given up: it should stay 0, anything else is a lost event or a very
    slow watch."""

    def __init__(self, on_settled: Callable[[ServiceKey], None]) -> None:
        self.timed_out = 0
        self._on_settled = on_settled
        self._pending: dict[tuple[Store[Any], Name], _Expectation] = {}
        self._open: Counter[ServiceKey] = Counter()
        self._by_version: dict[Store[Any], list[tuple[int, Name]]] = {}

    def settled(self, key: ServiceKey) -> bool:
        """Whether every write for this service has come back."""
        return key not in self._open

    def expect(self, key: ServiceKey, store: Store[Any], after: Stored) -> None:
        """An object was created or changed; `after` is what the answer carried."""
        self._add(key, store, after, version=version_of(after.resource_version), gone=False)

    def expect_gone(self, key: ServiceKey, store: Store[Any], known: Stored) -> None:
        """This object was deleted. One that the cache has yet to show must be shown first."""
        earlier = self._pending.get((store, (known.namespace, known.name)))
        version = earlier.version if earlier is not None and earlier.uid == known.uid else 0
        self._add(key, store, known, version=version, gone=True)

    def _add(
        self, key: ServiceKey, store: Store[Any], known: Stored, *, version: int, gone: bool
    ) -> None:
        name = (known.namespace, known.name)
        expectation = _Expectation(key, store, name, known.uid, version, gone)
        earlier = self._pending.get((store, name))
        if earlier is not None:
            self._drop(earlier)
            # the object is another service's now
            if earlier.key != key and self.settled(earlier.key):
                self._on_settled(earlier.key)
        if expectation.holds():
            return
        if store not in self._by_version:
            self._by_version[store] = []
            store.listen(lambda changed: self._on_change(store, changed))
        self._pending[store, name] = expectation
        self._open[key] += 1
        heapq.heappush(self._by_version[store], (version, name))
        expectation.timer = asyncio.get_running_loop().call_later(
            TIMEOUT, self._give_up, expectation
        )

    def _on_change(self, store: Store[Any], name: Name | None) -> None:
        waiting = self._by_version[store]
        if not self._pending:
            waiting.clear()  # of what was settled by its name
        elif name is not None:
            self._check(store, name)
        else:
            while waiting and waiting[0][0] <= store.version:
                self._check(store, heapq.heappop(waiting)[1])

    def _check(self, store: Store[Any], name: Name) -> None:
        expectation = self._pending.get((store, name))
        if expectation is not None and expectation.holds():
            self._settle(expectation)

    def _settle(self, expectation: _Expectation) -> None:
        self._drop(expectation)
        if expectation.key not in self._open:
            self._on_settled(expectation.key)

    def _drop(self, expectation: _Expectation) -> None:
        del self._pending[expectation.store, expectation.name]
        if expectation.timer is not None:
            expectation.timer.cancel()
        self._open[expectation.key] -= 1
        if not self._open[expectation.key]:
            del self._open[expectation.key]

    def _give_up(self, expectation: _Expectation) -> None:
        self.timed_out += 1
        self._settle(expectation)
