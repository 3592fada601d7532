"""Lets the writes of one instance start together, one instance after another.

A session of a scheduler may fall between two pods of an instance. MindCluster's plugin chooses
nodes for the pods that it sees then, and the others get no rank in their super-pod. How far apart
the pods come depends on how many other writes the API server has at the same time: so there are few
of them, and no instance begins before there is room for all of its writes.

For example with room for 16 writes, and three instances of 8, 8 and 4 pods:

    at once             the first and the second: 16 writes
    when one has ended  the third"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple

MOST_AT_ONCE = 16
"""Writes of bursts at the same time, in all and in one namespace. An instance with more pods is
sent when no other is under way."""
PATIENCE = 0.25
"""Seconds after which a burst makes room for the next one: an admission webhook of its namespace
may be holding it up."""


class Bursts:
    """Who may begin: in all `most` writes that are younger than PATIENCE, and as many of one
    namespace at any age."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._room = _Room(most)
        self._rooms: dict[str, _Room] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def begun(self, namespace: str, writes: int) -> AsyncIterator[None]:
        """Wait until all these writes of one instance may start, first come, first served. The wait
        ends: each burst before this one makes room after PATIENCE, or after the deadline of its
        writes where it is of the same namespace."""
        count = min(writes, self._most)
        own = self._rooms.setdefault(namespace, _Room(self._most))
        self._users[namespace] += 1
        try:
            await own.take(count)
            try:
                await self._room.take(count)
                with ExitStack() as kept:  # closed twice, the room is given back once
                    kept.callback(self._room.give_back, count)
                    timer = asyncio.get_running_loop().call_later(PATIENCE, kept.close)
                    kept.callback(timer.cancel)
                    yield
            finally:
                own.give_back(count)
        finally:
            self._users[namespace] -= 1
            if not self._users[namespace]:
                del self._users[namespace]
                del self._rooms[namespace]


class _Turn(NamedTuple):
    writes: int
    begins: asyncio.Future[None]


class _Room:
    """Room for so many writes. Who needs more than is free waits, and whoever comes later waits
    behind."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting = deque[_Turn]()

    async def take(self, count: int) -> None:
        if not self._waiting and count <= self._free:
            self._free -= count
            return
        turn = _Turn(count, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            await turn.begins
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self._let_begin()
            else:  # it was let in just before it was cancelled
                self.give_back(count)
            raise

    def give_back(self, count: int) -> None:
        self._free += count
        self._let_begin()

    def _let_begin(self) -> None:
        while self._waiting and self._waiting[0].writes <= self._free:
            turn = self._waiting.popleft()
            self._free -= turn.writes
            if not turn.begins.done():
                turn.begins.set_result(None)
