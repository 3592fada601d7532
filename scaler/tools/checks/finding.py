"""What a check of a cluster comes to. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How bad it is, the worst first."""

    ERROR = "error"
    """Something will not work, or does not."""
    WARNING = "warning"
    """It works with less, or not for long."""
    UNKNOWN = "not known"
    """What tells may not be read."""
    OK = "ok"


class Finding(msgspec.Struct, frozen=True):
    """One answer of a check. `advice` is what to do, a command where there is one; `details` are for who wants more."""

    level: Level
    text: str
    advice: str = ""
    details: tuple[str, ...] = ()


class Check(msgspec.Struct, frozen=True):
    """All that was found about one subject, the worst first; at least one finding."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        return self.findings[0].level


def check(name: str, findings: list[Finding], well: Finding | None = None) -> Check:
    """A check with its findings in order; `well` is said where there is none else."""
    order = list(Level)
    found = sorted(findings, key=lambda one: order.index(one.level)) or [well or Finding(Level.OK, "nothing found")]
    return Check(name, tuple(found))


def ok(text: str, *details: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, text, details=details)


def listed(names: list[str], most: int = 5) -> str:
    """`a, b, c and 4 more`."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
