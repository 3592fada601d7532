"""Decides whether a bracket in a comment is part of the JSON, and reads the text accordingly.

The documentation prints `"group_list": [   # Job ratio state   {`: the bracket is needed, but is in
the comment.
"""

from __future__ import annotations

import msgspec

from scaler.tools.lint.jsontext import Reader, Reading, bracket_fault

MAX_READINGS = 64
"""Readings of one text that are tried; with more of them the text counts as ambiguous."""
MAX_WORK = 1024 * 1024
"""Characters read for that in all."""

_GUESSED = {"NotJson", "MissingComma", "TrailingText"}


def read(text: str) -> Reading:
    """Read `text`; a bracket after a # counts if exactly one such reading makes sense."""
    plain = Reader(text, frozenset()).run()
    if not plain.suspects:
        return plain
    sound = _sound_readings(text, plain)
    return sound[0] if len(sound) == 1 else _undecided(plain)


def _sound_readings(text: str, plain: Reading) -> list[Reading]:
    """The readings that make sense, none when there are too many to try.

    Each way to keep some of the brackets is tried once, in ascending order of the comments; where a
    reading stops, the ways that differ only after that point are never tried."""
    budget = min(MAX_READINGS, MAX_WORK // (len(text) + 1) + 1)
    sound: list[Reading] = []
    to_try: list[tuple[frozenset[int], Reading]] = [(frozenset(), plain)]
    while to_try:
        kept, reading = to_try.pop()
        sound += [reading] if _is_sound(reading) else []
        for suspect in reading.suspects:
            if suspect > max(kept, default=-1):
                budget -= 1
                if budget < 0:
                    return []
                more = kept | {suspect}
                to_try.append((more, Reader(text, more).run()))
    return sound


def _is_sound(reading: Reading) -> bool:
    return reading.root is not None and not any(fault.code in _GUESSED for fault in reading.faults)


def _undecided(reading: Reading) -> Reading:
    """The finding that no reading makes sense, or more than one; without a cure for the comments in
    question."""
    faults = []
    for fault in reading.faults:
        faults.append(
            msgspec.structs.replace(fault, edit=None) if fault.start in reading.suspects else fault
        )
    brackets = [bracket_fault(start, ()) for start in reading.suspects.values()]
    return Reading(reading.root, faults + brackets, reading.suspects)
