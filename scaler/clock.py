"""Time, injected: monotonic time is the loop's, wall time is the loop's plus an offset fixed at start.

In virtual time both move together, so nothing in the controller ever reads the machine's clock.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime


class Clock:
    """`offset` is wall time minus loop time, in seconds; the only place that a wall clock enters the process."""

    def __init__(self, offset: float) -> None:
        self._offset = offset

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._offset + asyncio.get_running_loop().time()

    def timestamp(self) -> str:
        """Now as Kubernetes writes it, whole seconds: 2026-11-21T07:36:00Z."""
        return rfc3339(self.now())

    def micro_timestamp(self) -> str:
        """Now as a MicroTime (Lease): 2026-11-21T07:36:00.000000Z."""
        return datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a Time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(timestamp: str | None) -> float:
    """A Kubernetes Time as seconds since the epoch; 0.0 when absent or malformed (never raises)."""
    if not timestamp:
        return 0.0
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0


SLICE = 0.02


class Slices:
    """For a task with much to do in one go: gives the loop a turn whenever it has taken `SLICE` seconds since the last.

    In virtual time none passes, so that a history does not depend on how fast the machine is.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def end(self) -> None:
        """To be awaited between any two pieces of work."""
        if self._loop.time() - self._began >= SLICE:
            await asyncio.sleep(0)
            self._began = self._loop.time()
