"""Who may send now: so many requests at once, of which no namespace keeps the others waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE = 1.0
"""Seconds after which a request gives its slot to the next one: it may hang in somebody's admission webhook."""


class Slots:
    """`most` requests at once that are younger than PATIENCE, and at most `most_of_one` of one namespace at any age."""

    def __init__(self, most: int, *, most_of_one: int) -> None:
        self._free = asyncio.Semaphore(most)
        self.most_of_one = most_of_one
        self._lanes: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def taken(self, namespace: str) -> AsyncIterator[None]:
        """Waits for a slot and keeps it; first come, first served. The caller bounds the wait."""
        lane = self._lanes.setdefault(namespace, asyncio.Semaphore(self.most_of_one))
        self._users[namespace] += 1
        try:
            async with lane, self._kept_for_a_while():
                yield
        finally:
            self._users[namespace] -= 1
            if not self._users[namespace]:
                del self._users[namespace], self._lanes[namespace]

    @asynccontextmanager
    async def _kept_for_a_while(self) -> AsyncIterator[None]:
        await self._free.acquire()
        kept = True

        def give_back() -> None:
            nonlocal kept
            if kept:
                kept = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(PATIENCE, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()
