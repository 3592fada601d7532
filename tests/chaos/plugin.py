"""pytest says what the chaos tests have played: schedules, and faults by class, at the end of its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.chaos.witness import Played

PROPERTY = "chaos"
HARM = ("event: ", "api fault: ", "lingering write", "stale list")
"""How the names of those counts begin that are faults."""


def faults(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    """Those of them that are faults."""
    return Counter({what: number for what, number in counts if what.startswith(HARM)})


def done(played: Played) -> tuple[str, dict[str, int]]:
    """For `record_property`: what was done in one schedule."""
    return PROPERTY, dict(faults(played.counts.items()))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line, and one for each class."""
    calls = [one for found in terminalreporter.stats.values() for one in found if getattr(one, "when", "") == "call"]
    played = [counts for one in calls for name, counts in getattr(one, "user_properties", ()) if name == PROPERTY]
    total = sum(map(Counter, played), Counter[str]())
    if played:
        terminalreporter.write_line(f"chaos: {len(played)} schedules with {total.total():,} faults")
        words = ", ".join(f"{what.partition(': ')[2] or what} {number}" for what, number in sorted(total.items()))
        terminalreporter.write_line(f"chaos: {words}")
