"""Checks of a cluster: the results about one subject. Values only."""

from __future__ import annotations

import msgspec

from scaler.tools.common.check_result import CheckResult, Level


class Check(msgspec.Struct, frozen=True):
    """All results about one subject, the worst first; at least one."""

    name: str
    results: tuple[CheckResult, ...]

    @property
    def level(self) -> Level:
        return self.results[0].level


def check(name: str, results: list[CheckResult], well: CheckResult | None = None) -> Check:
    """A check with its results in order; `well` is its result if there is no other."""
    order = list(Level)
    found = sorted(results, key=lambda one: order.index(one.level)) or [
        well or CheckResult(Level.OK, "nothing found")
    ]
    return Check(name, tuple(found))


def ok(text: str, *details: str) -> CheckResult:
    """A result without advice."""
    return CheckResult(Level.OK, text, details=details)


def listed(names: list[str], most: int = 5) -> str:
    """`a, b, c and 4 more`."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
