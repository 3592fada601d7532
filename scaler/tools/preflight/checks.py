"""Checks of a cluster: the findings about one subject. Values only."""

from __future__ import annotations

import msgspec

from scaler.tools.common.finding import Finding, Level


class Check(msgspec.Struct, frozen=True):
    """All findings about one subject, the worst first; at least one."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        return self.findings[0].level


def check(name: str, findings: list[Finding], well: Finding | None = None) -> Check:
    """A check with its findings in order; `well` is its finding if there is no other."""
    order = list(Level)
    found = sorted(findings, key=lambda one: order.index(one.level)) or [
        well or Finding(Level.OK, "nothing found")
    ]
    return Check(name, tuple(found))


def ok(text: str, *details: str) -> Finding:
    """A finding without advice."""
    return Finding(Level.OK, text, details=details)


def listed(names: list[str], most: int = 5) -> str:
    """`a, b, c and 4 more`."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
