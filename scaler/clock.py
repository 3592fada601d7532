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
