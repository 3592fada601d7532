"""How many requests are under way at the same time, in all and in one namespace."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple

PATIENCE = 1.0
"""Seconds after which a request gives its slot to the next one: an admission webhook may be
blocking it."""


class Slots:
    """`most` requests at once that are younger than `patience` seconds, and at most `most_of_one`
    of one namespace at any age."""

    def __init__(self, most: int, *, most_of_one: int, patience: float = PATIENCE) -> None:
        self._room = _Room(most)
        self.most_of_one = most_of_one
        self._patience = patience
        self._lanes: dict[str, _Room] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def taken(self, namespace: str, number: int = 1) -> AsyncIterator[None]:
        """Wait for so many slots and keep them; first come, first served. Who asks for more than
        one namespace may have waits for as many as that. The caller bounds the wait."""
        number = min(number, self.most_of_one)
        lane = self._lanes.setdefault(namespace, _Room(self.most_of_one))
        self._users[namespace] += 1
        try:
            await lane.take(number)
            try:
                await self._room.take(number)
                with ExitStack() as kept:  # closed twice, the slots are given back once
                    kept.callback(self._room.give_back, number)
                    timer = asyncio.get_running_loop().call_later(self._patience, kept.close)
                    kept.callback(timer.cancel)
                    yield
            finally:
                lane.give_back(number)
        finally:
            self._users[namespace] -= 1
            if not self._users[namespace]:
                del self._users[namespace]
                del self._lanes[namespace]


class _Turn(NamedTuple):
    number: int
    begins: asyncio.Future[None]


class _Room:
    """So many slots. Who needs more than are free waits, and whoever comes later waits behind."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting = deque[_Turn]()

    async def take(self, number: int) -> None:
        if not self._waiting and number <= self._free:
            self._free -= number
            return
        turn = _Turn(number, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            await turn.begins
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self._let_begin()
            else:  # it was let in just before it was cancelled
                self.give_back(number)
            raise

    def give_back(self, number: int) -> None:
        self._free += number
        self._let_begin()

    def _let_begin(self) -> None:
        while self._waiting and self._waiting[0].number <= self._free:
            turn = self._waiting.popleft()
            self._free -= turn.number
            if not turn.begins.done():
                turn.begins.set_result(None)
