"""A queue of objects to be written: one entry per object, limited in rate, retried, never blocking the caller.

Keys name objects, not messages: a key is queued once, however often it is marked, so the number of keys bounds the
queue. The caller decides what is written, just before the write. Must not know about Kubernetes objects."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from scaler.clock import Slices
from scaler.kube.errors import KubeError
from scaler.kube.writer import Slots

K = TypeVar("K", bound=Hashable)

_PRUNE_AT = 64
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 300.0
_log = structlog.get_logger("report")


class Outbox(Generic[K]):
    """At most one write per key and `interval` seconds, the first at once; at most `most` writes at the same time, and
    `most_of_one` in one namespace (`namespace_of` of the key)."""

    def __init__(
        self, perform: Callable[[K], Awaitable[None]], *, interval: float, most: int, most_of_one: int,
        namespace_of: Callable[[K], str] = lambda _: "",
    ) -> None:  # fmt: skip
        self._perform = perform
        self._interval = interval
        self._slots = Slots(most, most_of_one=most_of_one)
        self._namespace_of = namespace_of
        self._due: asyncio.Queue[K] = asyncio.Queue()
        self._lanes: defaultdict[str, deque[K]] = defaultdict(deque)
        """Due keys by namespace. A namespace has a few tasks, not one for each key: there may be 10,000 keys."""
        self._writers: Counter[str] = Counter()
        self._waiting: set[K] = set()
        """Keys that are marked; one may be marked again while its write is under way."""
        self._under_way: set[K] = set()
        self._not_before: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._prune_at = _PRUNE_AT

    def mark(self, key: K, *, delay: float = 0.0) -> None:
        """Queue the object of `key` for a write, not before `delay` seconds from now."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._under_way:
            self._enqueue(key, max(_now() + delay, self._not_before.get(key, 0.0)))

    @property
    def idle(self) -> bool:
        """Whether no key is queued and no write is under way."""
        return not self._waiting and not self._under_way

    async def run(self) -> None:
        """Perform the queued writes until cancelled. Errors of `perform` are logged and retried, never raised."""
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
        """Write the due keys of one namespace."""
        lane = self._lanes[namespace]
        while lane:
            async with self._slots.taken(namespace):
                await asyncio.sleep(0)  # of thousands that wait for no answer, a few per step of the loop
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
            _log.warning("report not written", what=str(key), error=str(error), retry_in=pause)
        except Exception:  # a bug in one report must not stop the others
            pause = self._backoff(key, None)
            _log.exception("report failed", what=str(key), retry_in=pause)
        finally:
            self._under_way.discard(key)
        due = self._not_before[key] = _now() + max(pause, self._interval)
        if len(self._not_before) > self._prune_at:
            self._not_before = {key: at for key, at in self._not_before.items() if at > _now()}
            self._prune_at = max(_PRUNE_AT, 2 * len(self._not_before))
        if pause:
            self._waiting.add(key)
        if key in self._waiting:
            self._enqueue(key, due)

    def _backoff(self, key: K, retry_after: float | None) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = min(_FIRST_BACKOFF * 2.0 ** min(failures - 1, 20), _LONGEST_BACKOFF)
        return max(pause, min(retry_after or 0.0, _LONGEST_BACKOFF))

    def _enqueue(self, key: K, due: float) -> None:
        if due <= _now():
            self._due.put_nowait(key)
        else:
            asyncio.get_running_loop().call_at(due, self._due.put_nowait, key)


def _now() -> float:
    return asyncio.get_running_loop().time()
