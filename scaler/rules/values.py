"""Values from JSON of unchecked shape: a value of the wrong shape counts as absent. Never
raises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LONGEST_DURATION = 24 * 3600
"""Seconds."""
_DURATION = re.compile("(?=.)(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?")


def at(value: Any, *path: str) -> Mapping[str, Any]:
    """The object at the end of `path`, an empty one when there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested deeper than so many levels."""
    level = [value]
    for _ in range(levels + 1):
        inner = list[Any]()
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        if not inner:
            return False
        level = inner
    return True


def as_list(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """`value` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def as_count(value: Any, most: int = 1 << 63) -> int:
    """`value` if it is a whole number from 0 to `most`, else 0."""
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        else 0
    )


def duration(text: str) -> float | None:
    """Seconds of a duration of at most a day, such as `1h30m`, `5m` or `300s`; None for any other
    text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = match.groups(default="0")
    found = 3600 * int(hours) + 60 * int(minutes) + int(seconds)
    return float(found) if found <= LONGEST_DURATION else None
