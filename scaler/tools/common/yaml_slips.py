"""What is probably wrong on a line at which YAML cannot be read. Pure text work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scaler.rules.finding import printable
from scaler.rules.text import LONGEST_SHOWN, UNPAIRED, quotes_in
from scaler.tools.common.position import Lines

_KEY = r"[ \t]*(?:-[ \t]+)*[A-Za-z][\w./-]*"
_ODD_SPACE = re.compile(rf"({_KEY}:)[ \t]*(\xa0[\s\xa0]*)")
_NO_SPACE = re.compile(rf"({_KEY}:)(?=[^\s:/])")
_OPEN_QUOTE = re.compile(rf'({_KEY}:[ \t]+")([^"]*?)([ \t]*)\Z')
_FULL_WIDTH = re.compile("[：，“”‘’｛｝［］【】]")


class Slip(NamedTuple):
    """A mistake and its place: line and column, both from 1."""

    line: int
    column: int
    message: str
    hint: str


def slip_near(lines: Lines, numbers: Iterable[int]) -> Slip | None:
    """The first mistake found on these lines; of each line the one before it, too. None for none of
    those that are known."""
    looked: list[int] = []
    for number in numbers:
        looked += [number, _before(lines, number)]
    for number in dict.fromkeys(looked):
        for slip in _slips(lines.line(number), number):
            return slip
    return None


def _before(lines: Lines, number: int) -> int:
    """The next line above that is not blank."""
    above = number - 1
    while above > 1 and not lines.line(above).strip():
        above -= 1
    return above


def _slips(line: str, number: int) -> Iterator[Slip]:
    if line.lstrip().startswith("#"):
        return
    if found := _ODD_SPACE.match(line):
        words = "a no-break space (U+00A0) stands behind the colon"
        yield Slip(number, found.start(2) + 1, words, _write(found[1], line[found.end() :]))
    elif found := _NO_SPACE.match(line):
        words = "a space is missing behind the colon"
        yield Slip(number, found.end() + 1, words, _write(found[1], line[found.end() :]))
    if found := _OPEN_QUOTE.match(line):
        yield Slip(number, len(found[1]), UNPAIRED, _write(f"{found[1]}{found[2]}", '"', ""))
    elif quotes_in(line) % 2 and "'" not in line:
        yield Slip(number, 1, UNPAIRED, 'add the `"` that is missing')
    blank = line[: len(line) - len(line.lstrip())]
    if "\t" in blank:
        hint = "YAML is indented with spaces, not with tabs"
        yield Slip(number, blank.index("\t") + 1, "found a tab character", hint)
    if found := _FULL_WIDTH.search(line):
        words = f"full-width punctuation {found[0]} (U+{ord(found[0]):04X})"
        yield Slip(number, found.start() + 1, words, "write it in ASCII")


def _write(before: str, behind: str, between: str = " ") -> str:
    mended = f"{before}{between}{behind}".strip()
    return f"write {printable(mended)}" if len(mended) <= LONGEST_SHOWN else "write it there"
