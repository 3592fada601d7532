"""Decides what a bracket behind a comment sign was meant as, and so reads a text as its author did.

The documentation prints `"group_list": [   # Job ratio state   {`: the bracket is needed, but belongs to the comment.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

import msgspec

from scaler.rules.jsontext import Reader, Reading, bracket_fault

MAX_SUSPECTS = 5
"""Comments with a bracket at their end for which every combination of keeping it or not is tried."""
SMALL = 64 * 1024
"""Characters; in longer texts only "keep none" and "keep all" are tried."""

_GUESSED = {"NotJson", "MissingComma", "TrailingText"}


def read(text: str) -> Reading:
    """Read `text`; a bracket behind a # is taken for real if just one such reading makes sense."""
    plain = Reader(text, frozenset()).run()
    if not plain.suspects:
        return plain
    readings = [plain, *(Reader(text, kept).run() for kept in _subsets(plain.suspects, len(text)))]
    sound = [reading for reading in readings if _is_sound(reading)]
    return sound[0] if len(sound) == 1 else _undecided(plain)


def _subsets(suspects: Collection[int], length: int) -> list[frozenset[int]]:
    if len(suspects) > MAX_SUSPECTS or length > SMALL:
        return [frozenset(suspects)]
    sizes = range(1, len(suspects) + 1)
    return [frozenset(kept) for size in sizes for kept in itertools.combinations(suspects, size)]


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
