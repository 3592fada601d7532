"""The health of this process, for probes: whether its loops turn, and what it still needs to be ready.

The app makes it, serve/http.py reads it, from a thread of its own: the loops of one process share one clock. Must not
do any I/O.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

STALLED_AFTER = 30.0
"""Seconds without a beat after which a loop counts as stalled."""


class HealthState:
    """`problems`: what this process needs -> why it has not got it, "" when it has."""

    def __init__(self, problems: Callable[[], Mapping[str, str]]) -> None:
        self._problems = problems
        self._beats: dict[str, float] = {}

    def beat(self, loop: str) -> None:
        """`loop` is alive now, and from now on has to be."""
        self._beats[loop] = asyncio.get_running_loop().time()

    def stalled(self) -> list[str]:
        """Words about every loop that stopped turning; empty when the process is healthy."""
        now = asyncio.get_running_loop().time()
        return [
            f"{loop}: no sign of life for {now - beat:.0f} s"
            for loop, beat in sorted(self._beats.items())
            if now - beat > STALLED_AFTER
        ]

    def missing(self) -> list[str]:
        """Words about everything still waited for; empty when ready. A standby that is synced is ready."""
        return [f"waiting for {what}: {problem}" for what, problem in sorted(self._problems().items()) if problem]
