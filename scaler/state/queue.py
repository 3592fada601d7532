"""Which services to look at again: a set of dirty keys, never a list of events.

A burst of events becomes one pass, a key is never processed twice at once, and one timer serves all rechecks.
It knows nothing of what a key means and never calls the controller.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

SPARE = 64
"""Times that do not count any more and may be kept, beside as many as there are keys."""
FIRST_BACKOFF = 0.005
LAST_BACKOFF = 30.0
"""Seconds: the delay after the first failure of a key, doubled with every further one up to the last."""


class Key(Hashable, Protocol):
    """Keys are ordered so that one seed gives one history, whatever order the events came in."""

    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Key)


class WorkQueue(Generic[K]):
    """Dirty keys for one consumer: `take`, process, then `done` for each key taken."""

    def __init__(self) -> None:
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._since: dict[K, float] = {}
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, K]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failures: dict[K, int] = {}
        self._ready = asyncio.Event()
        self._poked = False

    def __len__(self) -> int:
        """Keys that wait to be taken, those of the future left out."""
        return len(self._dirty)

    @property
    def has_work(self) -> bool:
        """Whether `take` would give something at once: keys that are being processed wait for that to end."""
        return self._poked or not self._dirty <= self._processing

    def is_idle(self, key: K) -> bool:
        """Whether nothing is known to be done for `key`, neither now nor once a backoff is over."""
        return key not in self._dirty and key not in self._processing and key not in self._failures

    def is_dirty(self, key: K) -> bool:
        """Whether something has happened to `key` since it was taken last."""
        return key in self._dirty

    def add(self, key: K) -> None:
        """Look at `key` again: in the next pass, or once more after the pass that processes it now."""
        self._dirty.add(key)
        if key not in self._processing:
            self._since.setdefault(key, asyncio.get_running_loop().time())
            self._ready.set()

    def poke(self) -> None:
        """Have a pass although no key may be dirty: something that all of them share has changed."""
        self._poked = True
        self._ready.set()

    def dirty_since(self, key: K) -> float:
        """Loop time of the first event that made a key dirty which is being processed now."""
        return self._since.get(key, asyncio.get_running_loop().time())

    def add_at(self, key: K, when: float) -> None:
        """Look at `key` again at loop time `when` (seconds) at the latest; the earliest of several times counts.

        Taking the key forgets the time: the pass that follows knows better when to look again.
        """
        if when < self._due.get(key, float("inf")):
            self._due[key] = when
            heapq.heappush(self._heap, (when, key))
            if len(self._heap) > 2 * len(self._due) + SPARE:
                self._heap = sorted((due, other) for other, due in self._due.items())
            self._arm()

    def add_after_backoff(self, key: K) -> float:
        """Look at `key` again after a delay that doubles with each call since `forget`; returns it in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_BACKOFF * 2.0 ** min(failures, 32), LAST_BACKOFF)
        self.add_at(key, asyncio.get_running_loop().time() + delay)
        return delay

    def forget(self, key: K) -> None:
        """The key went well, or exists no longer: its next backoff starts small again."""
        self._failures.pop(key, None)

    async def take(self) -> list[K]:
        """All dirty keys that are not being processed, sorted; waits until there is one, or until somebody pokes.

        Callbacks that are ready already run first, so what arrived together is decided together.
        """
        while True:
            await self._ready.wait()
            await asyncio.sleep(0)
            self._ready.clear()
            keys = sorted(self._dirty - self._processing)
            if keys or self._poked:
                self._poked = False
                self._dirty.difference_update(keys)
                self._processing.update(keys)
                for key in keys:
                    self._due.pop(key, None)
                return keys

    def hold(self, key: K) -> None:
        """Process `key` although it was not taken: it is not given out before `done`."""
        self._processing.add(key)

    def done(self, key: K) -> None:
        """Processing of `key` has ended; if it was dirtied meanwhile it comes once more."""
        self._processing.discard(key)
        self._since.pop(key, None)
        if key in self._dirty:
            self.add(key)

    def _arm(self) -> None:
        """Keep one timer, for the earliest time that still counts."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._timer is not None:
            if self._heap and self._timer.when() == self._heap[0][0]:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._heap[0][0], self._ring) if self._heap else None

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            when, key = heapq.heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                self.add(key)
        self._arm()
