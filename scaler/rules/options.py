"""Reads the `mind-cluster/` annotations of a rule. An unusable value gives a warning and the default, no error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from scaler.names import PREFIX
from scaler.rules.finding import Finding, pointer, printable, shown
from scaler.rules.rule import CountsFrom, RuleOptions, Trade

_INTEGER = re.compile(r"-?[0-9]{1,10}")
_SWITCH = {"true": True, "false": False, "on": True, "off": False}


def _switch(text: str) -> bool:
    return _SWITCH[text]


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


_READERS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "paused": ("paused", _switch, '"true" or "false"'),
    "counts-from": ("counts_from", CountsFrom, '"bound", "running" or "ready"'),
    "trade": ("trade", Trade, '"when-not-serving", "always" or "off"'),
    "arbitration": ("arbitration", _switch, '"on" or "off"'),
    "service-priority": ("service_priority", _integer, 'an integer in quotes, for instance "100"'),
    "preemptable": ("preemptable", _switch, '"true" or "false"'),
}


def read_options(annotations: Mapping[str, str]) -> tuple[RuleOptions, tuple[Finding, ...]]:
    """The options that annotations on a rule name, and a warning for each that cannot be used."""
    values: dict[str, Any] = {}
    warnings: list[Finding] = []
    for name, (field, reader, wanted) in _READERS.items():
        text = annotations.get(PREFIX + name)
        if text is None:
            continue
        try:
            values[field] = reader(text)
        except (ValueError, KeyError, TypeError):
            warnings.append(_unusable(name, text, wanted, getattr(RuleOptions(), field)))
    warnings += [
        _unknown(name) for name in annotations if name.startswith(PREFIX) and name[len(PREFIX) :] not in _READERS
    ]
    return RuleOptions(**values), tuple(warnings)


def _unusable(name: str, text: object, wanted: str, default: object) -> Finding:
    used = default if isinstance(default, str) else shown(default)
    message = f"annotation {PREFIX}{name}: {shown(text)} is not {wanted}; the default is used ({used})"
    return Finding("warning", "AnnotationInvalid", _pointer(name), 0, 0, message, f"write {wanted}")


def _unknown(name: str) -> Finding:
    known = ", ".join(PREFIX + known for known in _READERS)
    short = name[len(PREFIX) :]
    return Finding(
        "warning",
        "AnnotationUnknown",
        _pointer(short),
        0,
        0,
        f"annotation {printable(name)} means nothing here",
        f"known are {known}",
    )


def _pointer(name: str) -> str:
    return pointer(("metadata", "annotations", PREFIX + name))
