"""Finds what is wrong with the quotes of one line of JSON, where they do not pair up.

Each place where a text may begin or end is tried. For example

    {"group_name": "group0, "group_num": "2"}

has seven quotes; with one more behind `group0` the line can be read, and with one more in any other
place it cannot. Pure; never raises."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

MAX_WORK = 1024 * 1024
"""Characters read for one line, in all trials together."""
DOUBLE_QUOTES = '"“”„‟＂'
SINGLE_QUOTES = "'‘’＇`´"

_BOUNDARY = re.compile(r"(?<=[\w.-])(?![\w.-])|(?<![\w.-])(?=[\w.-])")
_OTHER_QUOTE = re.compile(f"[{DOUBLE_QUOTES[1:]}{SINGLE_QUOTES}]")
_DOUBLED_QUOTE = re.compile(r'"(?=")')
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
_NAMES = frozenset(
    {
        "version",
        "elastic_scaling_list",
        "group_list",
        "group_name",
        "group_num",
        "server_num_per_group",
    }
)


class Edit(msgspec.Struct, frozen=True):
    """Replace `text[start:end]` by `text`: the cure of one fault, given only if there is exactly
    one cure."""

    start: int
    end: int
    text: str


Reads = Callable[[str, int], bool]
"""Whether a text can be read up to the end of the line, which is the second argument."""


def quote_cure(text: str, start: int, end: int, reads: Reads, *, missing: int = 1) -> Edit | None:
    """The only change of quotes with which the line `text[start:end]` can be read; None for none,
    or several. `missing`: how many quotes are missing on it."""
    work = MAX_WORK
    for trials in (_other_marks(text, start, end), _more_quotes(text, start, end, missing)):
        sound: dict[str, Edit] = {}
        known: dict[str, Edit] = {}
        for edit in trials:
            longer = len(edit.text) - (edit.end - edit.start)
            trial = f"{text[: edit.start]}{edit.text}{text[edit.end :]}"
            work -= len(trial)
            if work < 0:
                return None
            if not reads(trial, end + longer):
                continue
            line = trial[start : end + longer]
            sound[line] = edit
            if has_known_names(line):
                known[line] = edit
        candidates = known if len(known) == 1 or missing > 1 else sound
        if candidates:
            return next(iter(candidates.values())) if len(candidates) == 1 else None
    return None


def has_known_names(line: str) -> bool:
    """Whether all names of members on this line are those of a rule."""
    return all(name in _NAMES for name in _NAME.findall(line))


def _other_marks(text: str, start: int, end: int) -> Iterator[Edit]:
    """Each quote of another kind as `"`, and each doubled quote as one."""
    for found in _OTHER_QUOTE.finditer(text, start, end):
        yield Edit(found.start(), found.end(), '"')
    for found in _DOUBLED_QUOTE.finditer(text, start, end):
        yield Edit(found.start(), found.end(), "")


def _more_quotes(text: str, start: int, end: int, missing: int) -> Iterator[Edit]:
    places = [found.start() for found in _BOUNDARY.finditer(text, start, end)]
    for chosen in itertools.combinations(places, missing):
        yield _with_quotes(text, chosen)


def _with_quotes(text: str, places: Iterable[int]) -> Edit:
    """One edit that adds a quote at each of these places."""
    first, *others = places
    parts = ['"']
    done = first
    for place in others:
        parts += [text[done:place], '"']
        done = place
    return Edit(first, done, "".join(parts))
