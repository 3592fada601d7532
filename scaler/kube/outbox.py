"""Which objects wait to be written and when each may be: coalesced, paced, retried, never blocking who marks them.

Keys name objects, not messages: however often a key is marked, it waits once, so the number of keys bounds the queue.
What is written is up to the caller and is looked up at the last moment. Must not know about Kubernetes objects.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from scaler.kube.errors import KubeError

K = TypeVar("K", bound=Hashable)

_LONGEST_WAIT = 60.0
_PRUNE_AT = 10_000
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 300.0
_log = structlog.get_logger("report")


class Outbox(Generic[K]):
    """At most one write per key and `interval` seconds, the first at once; `parallel` writes under way at once."""

    def __init__(self, perform: Callable[[K], Awaitable[None]], *, interval: float, parallel: int) -> None:
        self._perform = perform
        self._interval = interval
        self._slots = asyncio.Semaphore(parallel)
        self._due: list[tuple[float, int, K]] = []
        self._waiting: set[K] = set()
        self._under_way: set[K] = set()
        self._marked_again: set[K] = set()
        self._not_before: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._sequence = 0
        self._wake = asyncio.Event()

    def mark(self, key: K, *, delay: float = 0.0) -> None:
        """The object of `key` has something new to say, not before `delay` seconds from now."""
        if key in self._under_way:
            self._marked_again.add(key)
        elif key not in self._waiting:
            earliest = asyncio.get_running_loop().time() + delay if delay else 0.0
            self._enqueue(key, max(earliest, self._not_before.get(key, 0.0)))

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._waiting and not self._under_way

    async def run(self) -> None:
        """Perform what is marked until cancelled. Errors of `perform` are logged and retried, never raised."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._slots.acquire()
                key = await self._next()
                self._under_way.add(key)
                group.create_task(self._attempt(key))

    async def _next(self) -> K:
        now = asyncio.get_running_loop().time
        while not self._due or self._due[0][0] > now():
            self._wake.clear()
            pause = min(self._due[0][0] - now(), _LONGEST_WAIT) if self._due else _LONGEST_WAIT
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue
        key = heapq.heappop(self._due)[2]
        self._waiting.discard(key)
        return key

    async def _attempt(self, key: K) -> None:
        pause = 0.0
        try:
            await self._perform(key)
            self._failures.pop(key, None)
        except KubeError as error:
            pause = self._backoff(key, error.retry_after)
            _log.warning("report not written", what=str(key), error=str(error), retry_in=pause)
        except Exception:
            # A bug in a report must not stop the service it is about; it is loud in the log instead.
            pause = self._backoff(key, None)
            _log.exception("report failed", what=str(key), retry_in=pause)
        finally:
            self._under_way.discard(key)
            self._slots.release()
        self._settle(key, pause)

    def _settle(self, key: K, pause: float) -> None:
        again = key in self._marked_again
        self._marked_again.discard(key)
        now = asyncio.get_running_loop().time()
        due = self._not_before[key] = now + max(pause, self._interval)
        if len(self._not_before) > _PRUNE_AT:
            self._not_before = {key: at for key, at in self._not_before.items() if at > now}
        if pause or again:
            self._enqueue(key, due)

    def _backoff(self, key: K, retry_after: float | None) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(_FIRST_BACKOFF * 2.0 ** min(failures - 1, 20), _LONGEST_BACKOFF)
        return max(pause, min(retry_after or 0.0, _LONGEST_BACKOFF))

    def _enqueue(self, key: K, due: float) -> None:
        self._sequence += 1
        self._waiting.add(key)
        heapq.heappush(self._due, (due, self._sequence, key))
        self._wake.set()
