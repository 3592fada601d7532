"""The health of this process, for probes: whether its loops turn, and what it waits for.

The app writes it, serve/http.py reads it, both in one event loop, whose time counts. Must not do any I/O.
"""

from __future__ import annotations

import asyncio

STALLED_AFTER = 30.0
"""Seconds without a beat after which a loop counts as stalled."""


class HealthState:
    """Loops beat, the app says what it waits for; both answers are words for people."""

    def __init__(self) -> None:
        self._beats: dict[str, float] = {}
        self._waiting: dict[str, str] = {"start": "starting"}

    def beat(self, loop: str) -> None:
        """`loop` is alive now, and from now on has to be."""
        self._beats[loop] = asyncio.get_running_loop().time()

    def wait_for(self, what: str, words: str) -> None:
        """Not ready because of `what`, e.g. ("pods", "not listed yet")."""
        self._waiting[what] = words

    def has(self, what: str) -> None:
        """`what` is there now. `start` is waited for from the beginning."""
        self._waiting.pop(what, None)

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
        return [f"waiting for {what}: {words}" for what, words in sorted(self._waiting.items())]
