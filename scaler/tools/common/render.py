"""Findings for people and programs: as text with the line and a caret under the fault, as one line
each, and as plain values."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from scaler.rules.finding import Finding, Path, printable
from scaler.tools.common.position import Lines

WINDOW = 110
"""Columns of a line that are shown; of a longer line the part around the fault."""
_LONGEST_PATH = 200
"""Characters of a path that are shown."""

_COLORS = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "info": "\x1b[1;36m",
    "hint": "\x1b[36m",
    "place": "\x1b[1m",
}
_RESET = "\x1b[0m"


def render(findings: Sequence[Finding], texts: Mapping[str, str], *, color: bool) -> str:
    """All findings, each as `file:line:column: level: Code message` with its line, a caret and a
    hint."""
    lines = {}
    for file in {finding.file for finding in findings}:
        lines[file] = Lines(texts.get(file, ""))
    return "".join(_one(finding, lines[finding.file], color) for finding in findings)


def in_one_line(finding: Finding) -> str:
    """`line:column: keys: message; hint`, for a file that the reader knows."""
    keys = dotted(finding.path)
    where = f"{keys}: " if keys else ""
    hint = f"; {finding.hint}" if finding.hint else ""
    return f"{finding.line}:{finding.column}: {where}{finding.message}{hint}"


def dotted(path: Path) -> str:
    """A path as people write it: keys and numbers, separated by dots."""
    keys = ".".join(map(str, path))
    return printable(keys[:_LONGEST_PATH])


def as_values(findings: Sequence[Finding], members: Sequence[str]) -> list[dict[str, Any]]:
    """The findings for programs: these members of each."""
    values = []
    for finding in findings:
        values.append({name: getattr(finding, name) for name in members})
    return values


def _one(finding: Finding, lines: Lines, color: bool) -> str:
    place = (
        f"{finding.file}:{finding.line}:{finding.column}:" if finding.line else f"{finding.file}:"
    )
    head = f"{_paint(place, 'place', color)} {_paint(finding.level + ':', finding.level, color)}"
    parts = [f"{head} {finding.code} {finding.message}"]
    line = lines.line(finding.line)
    if line.strip():
        shown, caret = _excerpt(line, finding.column)
        parts += [f"    {shown}", f"    {caret}{_paint('^', finding.level, color)}"]
    if finding.hint:
        parts.append(f"    {_paint('hint:', 'hint', color)} {finding.hint}")
    return "\n".join(parts) + "\n"


def _excerpt(line: str, column: int) -> tuple[str, str]:
    """The line, cut to the window around the column, and blanks as wide as the text before the
    column."""
    start = max(0, column - 1 - WINDOW // 2) if len(line) > WINDOW else 0
    end = start + WINDOW
    before = _safe(line[start : column - 1])
    head = "…" if start else ""
    tail = "…" if end < len(line) else ""
    return f"{head}{_safe(line[start:end])}{tail}", " " * (len(head) + _width(before))


def _safe(text: str) -> str:
    return "".join(" " if char == "\t" else printable(char) for char in text)


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char)
        for char in text
    )


def _paint(text: str, role: str, color: bool) -> str:
    return f"{_COLORS[role]}{text}{_RESET}" if color else text
