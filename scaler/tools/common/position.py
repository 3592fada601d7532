"""Converts offsets to lines and columns, and values inside a YAML file to places in the file. Pure
text work."""

from __future__ import annotations

from scaler.rules.text import line_starts, place

Span = tuple[int, int]
"""Start and end of a piece of text, as offsets."""

_BLANK = " \t\r\n"
_SHORT_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "v": "\v",
    "f": "\f",
    "e": "\x1b",
    "_": "\xa0",
}
_LONG_ESCAPES = {"x": 2, "u": 4, "U": 8}


class Lines:
    """The lines of a text as an editor counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = line_starts(text)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column (in characters, from 1) of an offset."""
        return place(self._starts, offset)

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column, both from 1; the end of the text when there is no such
        line."""
        return self._starts[line - 1] + column - 1 if line <= len(self._starts) else len(self.text)

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its end."""
        if not 1 <= number <= len(self._starts):
            return ""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")


def align(
    value: str, raw: str, start: int, *, escapes: bool = False, doubled: str = ""
) -> list[Span] | None:
    """For each character of `value` (and its end) its span in `raw`; None if it is not in `raw`.

    Exact except for blanks, which YAML adds (indentation) and removes (folding): a blank gets a
    place among the blanks around it. `escapes`: backslashes as in double-quoted scalars; `doubled`:
    a quote written twice."""
    spans: list[Span] = []
    pos = start
    for char in value:
        begin, pos = _next(char, raw, pos, escapes, doubled)
        if begin < 0:
            return None
        spans.append((begin, pos))
    return [*spans, (pos, pos)]


def _next(char: str, raw: str, pos: int, escapes: bool, doubled: str) -> Span:
    """The span of `char` at or after `pos`; a blank that is not written gets an empty span."""
    if char in _BLANK and not escapes:
        return pos, pos + raw.startswith(char, pos)
    begin = pos
    while begin < len(raw):
        here, width = _unescape(raw, begin) if escapes else (raw[begin], 1)
        if here == char:
            return begin, begin + (2 if doubled and raw.startswith(doubled * 2, begin) else width)
        if here and here not in _BLANK:
            break
        begin += width
    return (pos, pos) if char in _BLANK else (-1, -1)


def _unescape(raw: str, pos: int) -> tuple[str, int]:
    """The character at `pos` of a double-quoted scalar, and the number of characters that it is
    written with."""
    if raw[pos] != "\\" or pos + 1 >= len(raw):
        return raw[pos], 1
    kind = raw[pos + 1]
    if kind in "\r\n":  # a line end without meaning
        return "", 2
    if kind in _LONG_ESCAPES:
        digits = raw[pos + 2 : pos + 2 + _LONG_ESCAPES[kind]]
        try:
            return chr(int(digits, 16)), 2 + len(digits)
        except (ValueError, OverflowError):
            return raw[pos], 1
    return _SHORT_ESCAPES.get(kind, kind), 2
