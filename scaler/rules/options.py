"""Reads the `mind-cluster/` annotations of a rule. An unusable value gives a warning and the default, no error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scaler.names import PREFIX
from scaler.rules.finding import Finding, pointer, printable, shown
from scaler.rules.rule import CountsFrom, RuleOptions, Trade

_SWITCH = {"true": True, "false": False, "on": True, "off": False}
_OPTIONS: dict[str, tuple[Mapping[str, Any], str]] = {
    "paused": (_SWITCH, '"true" or "false"'),
    "counts-from": ({one.value: one for one in CountsFrom}, '"bound", "running" or "ready"'),
    "trade": ({one.value: one for one in Trade}, '"when-not-serving", "always" or "off"'),
    "arbitration": (_SWITCH, '"on" or "off"'),
    "service-priority": ({}, 'an integer in quotes, for instance "100"'),
    "preemptable": (_SWITCH, '"true" or "false"'),
}
"""What each annotation may say and what that means (an empty mapping: any integer), and how to put it."""


def read_options(annotations: Mapping[str, str]) -> tuple[RuleOptions, tuple[Finding, ...]]:
    """The options that annotations on a rule name, and a warning for each that cannot be used."""
    values: dict[str, Any] = {}
    warnings: list[Finding] = []
    for name, (meanings, wanted) in _OPTIONS.items():
        text, field = annotations.get(PREFIX + name), name.replace("-", "_")
        if isinstance(text, str) and text in meanings:
            values[field] = meanings[text]
        elif isinstance(text, str) and not meanings and re.fullmatch("-?[0-9]{1,10}", text):
            values[field] = int(text)
        elif text is not None:
            default = getattr(RuleOptions(), field)
            used = default if isinstance(default, str) else shown(default)
            message = f"annotation {PREFIX}{name}: {shown(text)} is not {wanted}; the default is used ({used})"
            warnings.append(_warning("AnnotationInvalid", PREFIX + name, message, f"write {wanted}"))
    known = [PREFIX + name for name in _OPTIONS]
    for name in annotations:
        if name.startswith(PREFIX) and name not in known:
            message = f"annotation {printable(name)} means nothing here"
            warnings.append(_warning("AnnotationUnknown", name, message, f"known are {', '.join(known)}"))
    return RuleOptions(**values), tuple(warnings)


def _warning(code: str, annotation: str, message: str, hint: str) -> Finding:
    return Finding("warning", code, pointer(("metadata", "annotations", annotation)), 0, 0, message, hint)
