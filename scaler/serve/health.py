"""The health of this process, for probes: whether its loops run, and what is missing for readiness.

The app makes it, serve/http.py reads it from another thread: the loops of one process share one clock. Must not do any
I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

STALLED_AFTER = 30.0
"""Seconds without a beat after which a loop counts as stalled."""


class HealthState:
    """`problems`: condition of readiness -> why it does not hold; "" when it holds."""

    def __init__(self, problems: Callable[[], Mapping[str, str]]) -> None:
        self._problems = problems
        self._beats: dict[str, float] = {}

    def beat(self, loop: str) -> None:
        """Note that `loop` runs now. From the first beat on, `loop` has to beat."""
        self._beats[loop] = asyncio.get_running_loop().time()

    def stalled(self) -> list[str]:
        """A sentence about each loop that has stalled; empty when the process is healthy."""
        now = asyncio.get_running_loop().time()
        return [
            f"{loop}: no sign of life for {now - beat:.0f} s"
            for loop, beat in sorted(self._beats.items())
            if now - beat > STALLED_AFTER
        ]

    def missing(self) -> list[str]:
        """A sentence about each condition that does not hold; empty when ready, as a synced standby is."""
        return [f"waiting for {what}: {problem}" for what, problem in sorted(self._problems().items()) if problem]
