"""A queue of objects to be written: one entry per object, limited in rate, retried, never blocking
the caller.

A key is queued once, however often it is marked, so the number of keys bounds the queue. Where keys
name objects, the caller decides what is written, just before the write; where they are messages, it
bounds their number. Must not know about Kubernetes objects."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable
from operator import attrgetter
from typing import Generic, TypeVar

import structlog

from scaler.clock import Slices, loop_time
from scaler.kube.errors import KubeError
from scaler.kube.slots import Slots

K = TypeVar("K", bound=Hashable)

INTERVAL = 1.0
"""Least seconds between two writes of the same object."""
PARALLEL = 8
PARALLEL_OF_ONE = 2
"""Writes at the same time: in all, and in one namespace."""
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 300.0
_log = structlog.get_logger("outbox")


class Outbox(Generic[K]):
    """At most one write per key and `interval` seconds, the first at once; at most `most` writes at
    the same time, and `most_of_one` in one namespace (`namespace_of` of the key)."""

    def __init__(
        self,
        perform: Callable[[K], Awaitable[None]],
        *,
        interval: float = INTERVAL,
        most: int = PARALLEL,
        most_of_one: int = PARALLEL_OF_ONE,
        namespace_of: Callable[[K], str] = attrgetter("namespace"),
    ) -> None:
        self._perform = perform
        self._interval = interval
        self._slots = Slots(most, most_of_one=most_of_one)
        self._namespace_of = namespace_of
        self._due: asyncio.Queue[K] = asyncio.Queue()
        self._lanes: defaultdict[str, deque[K]] = defaultdict(deque)
        """Due keys by namespace. A namespace has a few tasks, not one for each key: there may be
        10,000 keys."""
        self._writers: Counter[str] = Counter()
        self._waiting: set[K] = set()
        """Keys that are marked; one may be marked again while its write is under way."""
        self._under_way: set[K] = set()
        self._not_before: dict[K, float] = {}
        """Loop time of the next write; forgotten when it is over."""
        self._failures: dict[K, int] = {}

    def mark(self, key: K, *, delay: float = 0.0) -> None:
        """Queue the object of `key` for a write, not before `delay` seconds from now."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._under_way:
            self._enqueue(key, max(loop_time() + delay, self._not_before.get(key, 0.0)))

    async def run(self) -> None:
        """Perform the queued writes until cancelled. Errors of `perform` are logged and retried,
        never raised."""
        slices = Slices()
        async with asyncio.TaskGroup() as group:
            while True:
                key = await self._due.get()
                namespace = self._namespace_of(key)
                self._lanes[namespace].append(key)
                if self._writers[namespace] < self._slots.most_of_one:
                    self._writers[namespace] += 1
                    group.create_task(self._empty(namespace))
                await slices.end()

    async def _empty(self, namespace: str) -> None:
        lane = self._lanes[namespace]
        while lane:
            async with self._slots.taken(namespace):
                # of thousands that wait for no answer, a few per step of the loop
                await asyncio.sleep(0)
                if lane:
                    await self._write(lane.popleft())
        self._writers[namespace] -= 1
        if not self._writers[namespace]:
            del self._writers[namespace], self._lanes[namespace]

    async def _write(self, key: K) -> None:
        self._waiting.discard(key)
        self._under_way.add(key)
        pause = 0.0  # seconds until the next try
        try:
            await self._perform(key)
            self._failures.pop(key, None)
        except KubeError as error:
            pause = self._backoff(key, error.retry_after)
            _log.warning("object not written", what=str(key), error=str(error), retry_in=pause)
        except Exception:  # a bug in one write must not stop the others
            pause = self._backoff(key, None)
            _log.exception("write failed", what=str(key), retry_in=pause)
        finally:
            self._under_way.discard(key)
        due = self._not_before[key] = loop_time() + max(pause, self._interval)
        asyncio.get_running_loop().call_at(due, self._not_before.pop, key, None)
        if pause:
            self._waiting.add(key)
        if key in self._waiting:
            self._enqueue(key, due)

    def _backoff(self, key: K, retry_after: float | None) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(_FIRST_BACKOFF * 2.0 ** min(failures - 1, 20), _LONGEST_BACKOFF)
        return max(pause, min(retry_after or 0.0, _LONGEST_BACKOFF))

    def _enqueue(self, key: K, due: float) -> None:
        if due <= loop_time():
            self._due.put_nowait(key)
        else:
            asyncio.get_running_loop().call_at(due, self._due.put_nowait, key)
