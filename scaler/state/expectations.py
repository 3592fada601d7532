"""Own writes are seen before the next decision: what was written and has not come back through the cache yet.

It only remembers and says when a service may be decided again; it never writes, and an answer that stays out is
given up after a while, because one lost event must not stop a service for ever.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Generic

import msgspec

from scaler.informers.store import Name, Store
from scaler.kube.metadata import version_of
from scaler.state.queue import K

TIMEOUT = 30.0
"""Seconds after which a write that the cache has not shown counts as seen."""


class _Expectation(msgspec.Struct, Generic[K], eq=False):
    key: K
    store: Store[Any]
    name: Name
    uid: str
    version: int
    gone: bool
    until: float

    def holds(self) -> bool:
        """Whether the cache shows the write, or something newer."""
        record = self.store.get(*self.name)
        seen = self.store.version >= self.version
        if not self.gone:
            return seen or (record is not None and version_of(record.resource_version) >= self.version)
        if record is None:
            return seen
        return record.uid != self.uid or bool(getattr(record, "terminating", False))


_Slot = tuple[Store[Any], Name]


class Expectations(Generic[K]):
    """`on_settled(key)` is called when the last open write of a service has come back (or was given up).

    A write that the cache shows already when it is announced needs no call: ask `settled` after the last one.

    `timed_out` counts what was given up: it should stay 0, anything else is a lost event or a very slow watch.
    """

    def __init__(self, on_settled: Callable[[K], None]) -> None:
        self.timed_out = 0
        self._on_settled = on_settled
        self._pending: dict[_Slot, _Expectation[K]] = {}
        self._open: Counter[K] = Counter()
        self._by_version: dict[Store[Any], list[tuple[int, Name]]] = {}
        self._by_time: deque[_Expectation[K]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def settled(self, key: K) -> bool:
        """Whether every write for this service has come back."""
        return key not in self._open

    def expect(self, key: K, store: Store[Any], namespace: str, name: str, uid: str, resource_version: str) -> None:
        """An object was created or changed; the answer carried `uid` and `resource_version`."""
        self._add(key, store, (namespace, name), uid=uid, version=version_of(resource_version), gone=False)

    def expect_gone(self, key: K, store: Store[Any], namespace: str, name: str, uid: str) -> None:
        """The object with `uid` was deleted. One that the cache has yet to show must be shown first."""
        earlier = self._pending.get((store, (namespace, name)))
        version = earlier.version if earlier is not None and earlier.uid == uid else 0
        self._add(key, store, (namespace, name), uid=uid, version=version, gone=True)

    def _add(self, key: K, store: Store[Any], name: Name, *, uid: str, version: int, gone: bool) -> None:
        until = asyncio.get_running_loop().time() + TIMEOUT
        expectation = _Expectation(key, store, name, uid, version, gone, until)
        earlier = self._pending.get((store, name))
        if earlier is not None:
            self._drop(earlier)
            if earlier.key != key and self.settled(earlier.key):  # the object is another service's now
                self._on_settled(earlier.key)
        if expectation.holds():
            return
        if store not in self._by_version:
            self._by_version[store] = []
            store.listen(lambda changed: self._on_change(store, changed))
        self._pending[store, name] = expectation
        self._open[key] += 1
        heapq.heappush(self._by_version[store], (version, name))
        self._by_time.append(expectation)
        self._arm()

    def _on_change(self, store: Store[Any], name: Name | None) -> None:
        waiting = self._by_version[store]
        if not self._pending:
            waiting.clear()  # of what was settled by its name
            return
        if name is not None:
            self._check(store, name)
            return
        while waiting and waiting[0][0] <= store.version:
            self._check(store, heapq.heappop(waiting)[1])

    def _check(self, store: Store[Any], name: Name) -> None:
        expectation = self._pending.get((store, name))
        if expectation is not None and expectation.holds():
            self._settle(expectation)

    def _settle(self, expectation: _Expectation[K]) -> None:
        self._drop(expectation)
        if expectation.key not in self._open:
            self._on_settled(expectation.key)

    def _drop(self, expectation: _Expectation[K]) -> None:
        del self._pending[expectation.store, expectation.name]
        self._open[expectation.key] -= 1
        if not self._open[expectation.key]:
            del self._open[expectation.key]

    def _arm(self) -> None:
        if self._timer is None and self._by_time:
            self._timer = asyncio.get_running_loop().call_at(self._by_time[0].until, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._by_time and (self._by_time[0].until <= now or not self._is_pending(self._by_time[0])):
            expectation = self._by_time.popleft()
            if self._is_pending(expectation):
                self.timed_out += 1
                self._settle(expectation)
        self._arm()

    def _is_pending(self, expectation: _Expectation[K]) -> bool:
        return self._pending.get((expectation.store, expectation.name)) is expectation
