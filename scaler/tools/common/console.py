"""Text and tables on a terminal, in a file or in a pipe: widths, ages, and text of others made
harmless."""

from __future__ import annotations

import os
import sys
import unicodedata
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.text import Text

UNLIMITED = 9_999
"""Columns without a terminal and without COLUMNS: a program that reads lines gets them whole."""
LEAST_WIDTH = 60
_NOT_KNOWN = 10**10
"""Seconds: a larger age means that the start is unknown."""
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))


def console(out: TextIO | None = None) -> Console:
    """Colours and the terminal's width on a terminal (NO_COLOR is respected); plain text
    elsewhere."""
    stream = out if out is not None else sys.stdout
    live = stream.isatty()
    columns = os.environ.get("COLUMNS", "")
    width = None if live else UNLIMITED
    if columns.isdecimal() and len(columns) < 5:
        width = int(columns)
    made = _Console(
        file=stream, width=width, highlight=False, emoji=False, markup=False, soft_wrap=False
    )
    made.width = max(made.width, LEAST_WIDTH)
    return made


class _Console(Console):
    """A closed pipe is reported by the exit code of the command, as everywhere (scaler.cli)."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def show(screen: Console, made: RenderableType, width: int = 0) -> None:
    """Print `made`, without spaces at the ends of lines. `width`: more columns than the screen has,
    0 for its own."""
    found: list[Segment] = []
    for line in screen.render_lines(
        made, screen.options.update(width=width or screen.width), pad=False
    ):
        kept = list(Segment.simplify(line))
        while kept and not kept[-1].text.strip(" "):
            kept.pop()
        if kept:
            kept[-1] = Segment(kept[-1].text.rstrip(" "), kept[-1].style)
        found += [*kept, Segment.line()]
    screen.print(Segments(found), end="", crop=False, no_wrap=True, soft_wrap=True)


def clean(text: Any) -> str:
    """Text of any author on one line, without characters that move a terminal's cursor or reverse
    the text."""
    found = []
    for char in str(text):
        if char in "\n\t\r":
            found.append(" ")
        elif _is_harmless(char):
            found.append(char)
        else:
            found.append("\ufffd")
    return "".join(found)


def _is_harmless(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def text(words: Any, style: str = "") -> Text:
    """Harmless text in one style."""
    return Text(clean(words), style=style)


def age(seconds: float) -> str:
    """As kubectl prints it: 45s, 5m12s, 3h20m, 30h, 12d; "-" if unknown."""
    if seconds > _NOT_KNOWN:
        return "-"
    whole = max(0, int(seconds))
    for size, unit, small, part in _UNITS:
        if whole >= 2 * size:
            rest = whole % size // small
            return f"{whole // size}{unit}" + (
                f"{rest}{part}" if rest and whole < 10 * size else ""
            )
    return f"{whole}s"
