"""Decides what a bracket behind a comment sign was meant as, and so reads a text as its author did.

The documentation prints `"group_list": [   # Job ratio state   {`: the bracket is needed, but belongs to the comment.
"""

from __future__ import annotations

import msgspec

from scaler.tools.linting.jsontext import Reader, Reading, bracket_fault

MAX_READINGS = 64
"""Ways to read one text that are tried; more than that is in doubt."""
MAX_WORK = 1024 * 1024
"""Characters that are read for that in all."""

_GUESSED = {"NotJson", "MissingComma", "TrailingText"}


def read(text: str) -> Reading:
    """Read `text`; a bracket behind a # is taken for real if just one such reading makes sense."""
    plain = Reader(text, frozenset()).run()
    if not plain.suspects:
        return plain
    sound = _sound_readings(text, plain)
    return sound[0] if len(sound) == 1 else _undecided(plain)


def _sound_readings(text: str, plain: Reading) -> list[Reading]:
    """The readings that make sense, none when there are too many to try.

    Each way to keep some of the brackets is tried once, in ascending order of the comments; where a reading stops,
    the ways that differ only behind that point are never tried.
    """
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
    """No reading makes sense, or more than one: say so, and offer no cure for the comments in question."""
    faults = [
        msgspec.structs.replace(fault, edit=None) if fault.start in reading.suspects else fault
        for fault in reading.faults
    ]
    brackets = [bracket_fault(start, ()) for start in reading.suspects.values()]
    return Reading(reading.root, faults + brackets, reading.suspects)
