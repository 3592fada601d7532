"""Reads JSON as people write it: checks strictly, continues after faults, gives exact places.

Reading continues after a fault if its meaning is certain (comments, trailing commas, full-width
punctuation, a byte order mark, ...), so faults of meaning after it are found in the same run. A
text without faults is JSON, and json.loads gives the same value (except for NaN and nesting over
`MAX_DEPTH`, which are refused here). Must not know what a rule is, and must end on every input
without raising."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from scaler.rules.document import MAX_FINDINGS
from scaler.rules.finding import Finding, Path, printable, shown
from scaler.rules.quotes import DOUBLE_QUOTES, SINGLE_QUOTES, Edit
from scaler.rules.text import LONGEST_INTEGER, MAX_DEPTH, excerpt, odd_space

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LOOKALIKES = {
    "：": ":",
    "，": ",",
    "、": ",",
    "｛": "{",
    "｝": "}",
    "［": "[",
    "］": "]",
    "【": "[",
    "】": "]",
}
_WORD = re.compile(rf"[^\s{{}}\[\],:#/{DOUBLE_QUOTES}{SINGLE_QUOTES}{''.join(_LOOKALIKES)}]+")
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_LINE_END = re.compile(r"[\r\n]|\Z")
_BRACKETS_AT_END = re.compile(r"[{}\[\]][{}\[\],\s]*\Z")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_INDOUBLE_QUOTES = re.compile(r"(\\.)|\"")
_WRONG_COMMA = re.compile(r'[;.](?=[ \t]*["\r\n])')
_LONE_STRING = re.compile(r'"[^"\\\n]*"[ \t]*[,}\r\n]')
"""A text that is the value of a name: nothing but a comma, a bracket or the end of the line is
behind it."""
_PLAIN_WORD = re.compile(r"[A-Za-z][\w.-]*")
_NO_TEXTS = frozenset({"true", "false", "none", "null", "nil", "nan", "infinity", "undefined"})
"""Words that mean something in other languages, in lower case."""
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_LITERALS = {"true": True, "false": False, "null": None}


class TextFinding(Finding, frozen=True):
    """A fault with its cure."""

    edit: Edit | None = None


class Node(msgspec.Struct):
    """A value and its place: `text[start:end]`."""

    value: Any
    start: int
    end: int
    children: dict[str | int, Node] = {}
    keys: dict[str, int] = {}
    """Offset of each member's name."""


class Reading(msgspec.Struct, frozen=True):
    """The result of reading a text. `root` is None when the text could not be read to its end."""

    root: Node | None
    faults: list[TextFinding]
    suspects: dict[int, int]
    """Comments that end in a bracket: offset of the comment -> of the bracket."""


def bracket_fault(start: int, path: Path) -> TextFinding:
    """The fault of a bracket at `start`, in a comment."""
    message = (
        "this bracket stands behind a # on the same line: deleting the comment deletes the"
        " bracket too"
    )
    return TextFinding(
        "BraceInComment", path, message, "put the bracket on a line of its own first", start=start
    )


class _StopReading(Exception):  # noqa: N818 - no error: ends the recursion of the reader
    pass


class Reader:
    """One pass over one text. `kept`: comments whose brackets at the end are read as if outside the
    comment."""

    def __init__(self, text: str, kept: frozenset[int]) -> None:
        self.text = text
        self.kept = kept
        self.pos = 0
        self.path: list[str | int] = []
        self.faults: list[TextFinding] = []
        self.suspects: dict[int, int] = {}

    def run(self) -> Reading:
        root = None
        try:
            root = self._value()
            if self._peek():
                self._fault(
                    "TrailingText",
                    self.pos,
                    f"text after the end of the document: {self._excerpt()}",
                    "delete it; a ConfigMap key holds one JSON document",
                )
        except _StopReading:
            pass
        return Reading(root, self.faults, self.suspects)

    # Values

    def _value(self) -> Node:
        if len(self.path) > MAX_DEPTH:
            self._stop(
                f"nested more than {MAX_DEPTH} deep",
                "a rule is nested 5 deep",
                code="NestedTooDeep",
            )
        char = self._peek()
        if char == "{":
            return self._object()
        if char == "[":
            return self._array()
        if char and char in DOUBLE_QUOTES + SINGLE_QUOTES:
            start = self.pos
            return Node(self._string(), start, self.pos)
        return self._word()

    def _object(self) -> Node:
        node = Node({}, self.pos, self.pos, {}, {})
        self._take()
        done = self._peek() == "}"
        if done:
            self._take()
        while not done:
            start = self.pos
            key = self._key()
            self._take_colon()
            if key in node.value:
                self._fault(
                    "DuplicateKey",
                    start,
                    f"{shown(key)} is written twice in this object",
                    "delete one of them",
                )
            self.path.append(key)
            node.children[key] = child = self._value()
            self.path.pop()
            node.value[key] = child.value
            node.keys[key] = start
            done = self._take_end("}") == "}"
        node.end = self.pos
        return node

    def _array(self) -> Node:
        node = Node([], self.pos, self.pos, {})
        self._take()
        done = self._peek() == "]"
        if done:
            self._take()
        while not done:
            index = len(node.value)
            self.path.append(index)
            node.children[index] = child = self._value()
            self.path.pop()
            node.value.append(child.value)
            done = self._take_end("]") == "]"
        node.end = self.pos
        return node

    def _take_end(self, close: str) -> str:
        """Read what is behind a member or an element: a comma, or the closing bracket. Returns
        which of the two it is, or is meant to be."""
        end = self.pos
        char = self._peek()
        if char == close:
            self._take()
            return close
        if char != ",":
            if _WRONG_COMMA.match(self.text, self.pos):
                start = self.pos
                self.pos += 1
                words = f"`{char}` stands where `,` must"
                self._fault("MissingComma", start, words, "write `,`", Edit(start, self.pos, ","))
                return ","
            if char and (char in '{["' or _WORD.match(char)) and char != "&":
                self._fault(
                    "MissingComma",
                    end,
                    "a comma is missing behind this",
                    "write `,` here",
                    Edit(end, end, ","),
                )
                return ","
            self._stop_expecting(f"`,` or `{close}`")
        comma = self.pos
        self._take()
        self._leave_out(",")
        if self._peek() != close:
            return ","
        self._fault(
            "TrailingComma",
            comma,
            f"a comma before `{close}`",
            "delete the comma",
            Edit(comma, comma + 1, ""),
        )
        self._take()
        return close

    def _take_colon(self) -> None:
        """Read the colon behind a name, or what is meant as one."""
        end = self.pos
        char = self._peek()
        start = self.pos
        if char == "=":
            self.pos += 1
            edit = Edit(start, self.pos, ":")
            self._fault("NotJson", start, "`=` stands where `:` must", "write `:`", edit)
        elif _LONE_STRING.match(self.text, start):
            edit = Edit(end, end, ":")
            self._fault("NotJson", end, "a colon is missing behind this", "write `:` here", edit)
        elif char == ":":
            self._take()
            self._leave_out(":")
        else:
            self._stop_expecting("`:`")

    def _leave_out(self, mark: str) -> None:
        """Read the mark that was written a second time."""
        while self._peek() == mark:
            edit = Edit(self.pos, self.pos + 1, "")
            self._fault("NotJson", self.pos, f"a second `{mark}`", "delete it", edit)
            self.pos += 1

    def _key(self) -> str:
        char = self._peek()
        if char and char in DOUBLE_QUOTES + SINGLE_QUOTES:
            return self._string()
        word = _WORD.match(self.text, self.pos)
        if word is None or "&" in word[0]:
            self._stop_expecting('a name in quotes `"`')
        right = json.dumps(word[0], ensure_ascii=False)
        message = f"the name {printable(word[0])} is not in quotes"
        self._fault(
            "UnquotedKey", self.pos, message, f"write {printable(right)}", Edit(*word.span(), right)
        )
        self.pos = word.end()
        return word[0]

    def _word(self) -> Node:
        """A number, true, false, null, or another word, which is read as if in quotes."""
        word = _WORD.match(self.text, self.pos)
        if word is None or word[0][0] in "&\\":
            self._stop_expecting("a value")
        start = self.pos
        self.pos = word.end()
        if word[0] in _LITERALS:
            return Node(_LITERALS[word[0]], start, self.pos)
        if _NUMBER.fullmatch(word[0]):
            return Node(_number(word[0]), start, self.pos)
        message = f"{shown(word[0])[1:-1]} is not a JSON value"
        if _PLAIN_WORD.fullmatch(word[0]) and word[0].lower() not in _NO_TEXTS:
            right = f'"{word[0]}"'
            edit = Edit(start, self.pos, right)
            self._fault("NotJson", start, message, f"write {printable(right)}", edit)
        else:
            self._fault("NotJson", start, message, "put it in quotes")
        return Node(word[0], start, self.pos)

    # Strings

    def _string(self) -> str:
        plain = _PLAIN_STRING.match(self.text, self.pos)
        if plain:
            self.pos = plain.end()
            return plain[1]
        start = self.pos
        opening = self.text[start]
        end = self._string_end(start, opening)
        self.pos = end + 1
        value = self._unescaped(start + 1, end)
        self._check_quotes(start, end)
        return value

    def _string_end(self, start: int, opening: str) -> int:
        """Offset of the closing quote: of the same kind, or on the same line one that only looks
        similar."""
        line_end = self._line_end(start)
        closing = (
            '"' if opening == '"' else SINGLE_QUOTES if opening in SINGLE_QUOTES else DOUBLE_QUOTES
        )
        ends = (self._quote(start + 1, line_end, quotes) for quotes in (closing, DOUBLE_QUOTES))
        end = next((end for end in ends if end >= 0), -1)
        if end < 0:
            self._stop(
                "the text in quotes that begins here has no end on this line", 'close it with `"`'
            )
        return end

    def _quote(self, pos: int, end: int, quotes: str) -> int:
        while pos < end:
            if self.text[pos] in quotes:
                return pos
            pos += 2 if self.text[pos] == "\\" else 1
        return -1

    def _unescaped(self, start: int, end: int) -> str:
        parts: list[str] = []
        pos = start
        while pos < end:
            char = self.text[pos]
            if char == "\\":
                pos = self._escape(pos, end, parts)
                continue
            if char < " ":
                self._fault(
                    "NotJson",
                    pos,
                    f"a raw control character U+{ord(char):04X} inside quotes",
                    "delete it",
                )
            else:
                parts.append(char)
            pos += 1
        # Two escapes may be the halves of one character; a lone half stays unchanged.
        return (
            "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        )

    def _escape(self, pos: int, end: int, parts: list[str]) -> int:
        char = self.text[pos + 1 : pos + 2] if pos + 1 < end else ""
        if char in _ESCAPES:
            parts.append(_ESCAPES[char])
            return pos + 2
        digits = _HEX.match(self.text, pos + 2, end) if char == "u" else None
        if digits:
            parts.append(chr(int(digits[0], 16)))
            return pos + 6
        self._fault(
            "NotJson",
            pos,
            f"\\{printable(char)} is not an escape that JSON knows",
            "write \\\\ for a backslash",
        )
        parts.append("\\")
        return pos + 1

    def _check_quotes(self, start: int, end: int) -> None:
        quotes = self.text[start] + self.text[end]
        if quotes == '""':
            return
        right = _INDOUBLE_QUOTES.sub(lambda found: found[1] or '\\"', self.text[start + 1 : end])
        right = f'"{right}"'
        edit = Edit(start, end + 1, right)
        if set(quotes) <= {"'", '"'}:
            self._fault(
                "SingleQuotes",
                start,
                "JSON has no single quotes",
                f"write {printable(right)}",
                edit,
            )
        else:
            message = f"full-width or typographic quotes {quotes[0]} {quotes[1]}"
            self._fault("FullWidthPunctuation", start, message, f"write {printable(right)}", edit)

    # Between tokens

    def _peek(self) -> str:
        """The next significant character, in its ASCII form, "" at the end. Does not move past
        it."""
        while True:
            # It matches the empty string, too.
            self.pos = _SPACE.match(self.text, self.pos).end()  # type: ignore[union-attr]
            char = self.text[self.pos : self.pos + 1]
            if char == "#" or self.text.startswith(("//", "/*"), self.pos):
                self._comment()
            elif char and _is_odd_space(char):
                self._odd_space(char)
            else:
                return _LOOKALIKES.get(char, char)

    def _take(self) -> None:
        char = self.text[self.pos]
        if char in _LOOKALIKES:
            right = _LOOKALIKES[char]
            message = f"full-width punctuation {char} (U+{ord(char):04X})"
            self._fault(
                "FullWidthPunctuation",
                self.pos,
                message,
                f"write {right}",
                Edit(self.pos, self.pos + 1, right),
            )
        self.pos += 1

    def _odd_space(self, char: str) -> None:
        start = self.pos
        if char == "\ufeff" and start == 0:
            self.pos = 1
            self._fault(
                "ByteOrderMark",
                0,
                "the text begins with a byte order mark (U+FEFF)",
                "save it as UTF-8 without BOM",
                Edit(0, 1, ""),
            )
            return
        while self.pos < len(self.text) and _is_odd_space(self.text[self.pos]):
            self.pos += 1
        right = "".join("" if odd in _INVISIBLE else " " for odd in self.text[start : self.pos])
        message = f"{odd_space(char)} that JSON does not allow here"
        self._fault(
            "OddSpace", start, message, "write ordinary spaces", Edit(start, self.pos, right)
        )

    def _comment(self) -> None:
        start = self.pos
        end = self._comment_end(start)
        brackets = (
            None
            if self.text.startswith("/*", start)
            else _BRACKETS_AT_END.search(self.text, start + 1, end)
        )
        if brackets:
            self.suspects[start] = brackets.start()
            if start in self.kept:
                self.faults.append(bracket_fault(brackets.start(), tuple(self.path)))
                end = brackets.start()
        mark = self.text[start] if self.text[start] == "#" else self.text[start : start + 2]
        before = len(self.text[:start].rstrip(" \t"))
        self._fault(
            "CommentInJson",
            start,
            f"JSON has no {mark} comments",
            "delete the comment",
            Edit(before, end, ""),
        )
        self.pos = end

    def _comment_end(self, start: int) -> int:
        if not self.text.startswith("/*", start):
            return self._line_end(start)
        close = self.text.find("*/", start + 2)
        return len(self.text) if close < 0 else close + 2

    def _line_end(self, start: int) -> int:
        # \Z always matches.
        return _LINE_END.search(self.text, start).start()  # type: ignore[union-attr]

    # Faults

    def _fault(
        self, code: str, start: int, message: str, hint: str, edit: Edit | None = None
    ) -> None:
        self.faults.append(
            TextFinding(code, tuple(self.path), message, hint, start=start, edit=edit)
        )
        if len(self.faults) >= MAX_FINDINGS:
            raise _StopReading

    def _stop(self, message: str, hint: str, *, code: str = "NotJson") -> NoReturn:
        self._fault(code, self.pos, message, hint)
        raise _StopReading

    def _stop_expecting(self, wanted: str) -> NoReturn:
        if self.pos >= len(self.text):
            what = (
                "the document is empty"
                if not self.text.strip()
                else f"the document ends here, but {wanted} must follow"
            )
            self._stop(
                what, "is a bracket not closed?" if self.text.strip() else "write the rule document"
            )
        if self.text.startswith(('\\"', "\\'"), self.pos):
            self._stop("a quote with a backslash before it", 'write `"` without the backslash')
        if self.text[self.pos] == "&":
            self._stop(
                f"HTML entities instead of characters: {self._excerpt()}", 'write `"` for &quot;'
            )
        self._stop(f"expected {wanted}, found {self._excerpt()}", "")

    def _excerpt(self) -> str:
        return excerpt(self.text, self.pos)


def _is_odd_space(char: str) -> bool:
    return char in _INVISIBLE or (char.isspace() and char not in " \t\n\r")


def _number(text: str) -> int | float:
    """The number as json.loads reads it; with more digits than Python converts in linear time, a
    float."""
    return int(text) if len(text) <= LONGEST_INTEGER and text.lstrip("-").isdigit() else float(text)
