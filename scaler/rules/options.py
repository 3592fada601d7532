"""Reads the `mind-cluster/` annotations of a rule. An unusable value gives a warning and the default, no error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from scaler.names import PREFIX
from scaler.rules.finding import Finding, pointer, printable, shown
from scaler.rules.rule import CountsFrom, RuleOptions, Trade

LONGEST_DELAY = 24 * 3600
"""Seconds."""


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,10}", text) else None


def _duration(text: str) -> float | None:
    """`1h30m`, `5m`, `300s`, in seconds."""
    match = re.fullmatch("(?=.)(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?", text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (LONGEST_DELAY, 0, 0)
    found = 3600 * hours + 60 * minutes + seconds
    return float(found) if found <= LONGEST_DELAY else None


_switch = {"true": True, "false": False, "on": True, "off": False}.get
_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "paused": (_switch, '"true" or "false"'),
    "counts-from": ({one.value: one for one in CountsFrom}.get, '"bound", "running" or "ready"'),
    "trade": ({one.value: one for one in Trade}.get, '"when-not-serving", "always" or "off"'),
    "arbitration": (_switch, '"on" or "off"'),
    "service-priority": (_integer, 'an integer in quotes, for instance "100"'),
    "preemptable": (_switch, '"true" or "false"'),
    "scale-down-delay": (_duration, 'a duration of at most 24h, for instance "5m"'),
}
"""How each annotation is read (None: it cannot be used), and how to put it."""


def read_options(annotations: Mapping[str, str]) -> tuple[RuleOptions, tuple[Finding, ...]]:
    """The options that annotations on a rule name, and a warning for each that cannot be used."""
    values: dict[str, Any] = {}
    warnings: list[Finding] = []
    for name, (read, valid) in _OPTIONS.items():
        text, field = annotations.get(PREFIX + name), name.replace("-", "_")
        value = read(text) if isinstance(text, str) else None
        if value is not None:
            values[field] = value
        elif text is not None:
            default = getattr(RuleOptions(), field)
            used = default if isinstance(default, str) else shown(default)
            message = f"annotation {PREFIX}{name}: {shown(text)} is not {valid}; the default is used ({used})"
            warnings.append(_warning("AnnotationInvalid", PREFIX + name, message, f"write {valid}"))
    known = [PREFIX + name for name in _OPTIONS]
    for name in annotations:
        if name.startswith(PREFIX) and name not in known:
            message = f"annotation {printable(name)} means nothing here"
            warnings.append(_warning("AnnotationUnknown", name, message, f"known are {', '.join(known)}"))
    return RuleOptions(**values), tuple(warnings)


def _warning(code: str, annotation: str, message: str, hint: str) -> Finding:
    return Finding("warning", code, pointer(("metadata", "annotations", annotation)), 0, 0, message, hint)
