"""Reads JSON text: the value, or each finding with its place; and the place of each value in the
text.

Reading is strict and ends at the first place that is not JSON; tools.lint.jsontext goes on there
and offers corrections. Never raises."""

from __future__ import annotations

import bisect
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn

from scaler.rules.finding import Finding, Path, printable, shown
from scaler.rules.quotes import DOUBLE_QUOTES, SINGLE_QUOTES, quote_cure

MAX_DEPTH = 32
MOST = 200
"""Findings that are searched for in the text of valid JSON."""
LONGEST_INTEGER = 4300
"""Digits that Python converts in linear time; a longer whole number is read as a float."""

GUESSED = frozenset({"NotJson", "MissingComma", "TrailingText", "UnquotedKey"})
"""What is said of a line when its quotes are taken as they stand."""
UNPAIRED = "the quotes on this line do not pair up"
TWO_MISSING = "two quotes are missing on this line"
LONGEST_EXCERPT = 40
"""Characters of an excerpt."""
_TOKEN = re.compile(
    r"(?:\#|//|/\*).*"  # a comment
    rf"|[{DOUBLE_QUOTES}][^{DOUBLE_QUOTES}]*[{DOUBLE_QUOTES}]"  # a text with its quotes
    rf"|[{SINGLE_QUOTES}][^{SINGLE_QUOTES}]*[{SINGLE_QUOTES}]"
    rf"|[^\s,:\[\]{{}}{DOUBLE_QUOTES}]+|.",  # a word, or a mark
    re.DOTALL,
)
LONGEST_SHOWN = 160
"""Characters of a mended line in a hint."""
_QUOTE_OR_ESCAPE = re.compile(r'\\.|"')
_BREAK = re.compile(r"\r\n|\r|\n")
_SPACE = re.compile(r"[ \t\n\r]*")
_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)
_EXPECTED = {
    "Expecting value": "a value",
    "Expecting property name enclosed in double quotes": 'a name in quotes `"`',
    "Expecting ':' delimiter": "`:`",
    "Expecting ',' delimiter": "`,` or a closing bracket",
}
_INVISIBLE = "[^\\S \\t\\r\\n]|[\u200b-\u200d\u2060\ufeff]"
_NAME = "Expecting property name"
_COMMA = "Expecting ','"
_QUOTE = 'write `"`'
_MISTAKES = (
    (
        "Unexpected UTF-8 BOM",
        "",
        "ByteOrderMark",
        "the text begins with a byte order mark (U+FEFF)",
        "save it without",
    ),
    (
        "Unterminated",
        "",
        "NotJson",
        "the text in quotes that begins here has no end",
        'close it with `"`',
    ),
    (
        "Invalid control",
        "\n",
        "NotJson",
        "a text in quotes has no end on this line",
        'close it with `"`',
    ),
    (
        "Invalid control",
        "",
        "NotJson",
        "a raw control character U+{code:04X} inside quotes",
        "delete it",
    ),
    (
        "Invalid \\",
        "",
        "NotJson",
        "{found} is not an escape that JSON knows",
        "write \\\\ for a backslash",
    ),
    (
        "Illegal trailing comma",
        "",
        "TrailingComma",
        "a comma before a closing bracket",
        "delete the comma",
    ),
    ("", r"#|/[/*]", "CommentInJson", "JSON has no comments, found {found}", "delete the comment"),
    ("", f"[{SINGLE_QUOTES}]", "SingleQuotes", "JSON has no single quotes, found {found}", _QUOTE),
    (
        "",
        f"[{DOUBLE_QUOTES[1:]}]",
        "FullWidthPunctuation",
        "full-width or typographic quotes {found}",
        _QUOTE,
    ),
    (
        "",
        "[：，、｛｝［］【】]",
        "FullWidthPunctuation",
        "full-width punctuation {found}",
        "write it in ASCII",
    ),
    ("", _INVISIBLE, "OddSpace", "{space} that JSON does not allow here", "write ordinary spaces"),
    (
        "",
        "\\\\[\"']",
        "NotJson",
        "a quote with a backslash before it",
        'write `"` without the backslash',
    ),
    ("", "=", "NotJson", "`=` stands where {expected} must", "write `:`"),
    ("", "&", "NotJson", "HTML entities instead of characters: {found}", 'write `"` for &quot;'),
    (
        "Extra data",
        "",
        "TrailingText",
        "text after the end of the document: {found}",
        "delete it; a ConfigMap key holds one JSON document",
    ),
    (
        _NAME,
        r"\w",
        "UnquotedKey",
        "the name {found} is not in quotes",
        _QUOTE + " before and behind it",
    ),
    (_COMMA, r'[{["\w]', "MissingComma", "a comma is missing before {found}", "write `,`"),
    (_COMMA, "[;.]", "MissingComma", "`{found}` stands where `,` must", "write `,`"),
    ("Expecting ':'", '"', "NotJson", "a colon is missing before {found}", "write `:`"),
    ("Expecting value", r"\w", "NotJson", "{found} is not a JSON value", "put it in quotes"),
)
"""Frequent mistakes in JSON: the json module's message, the text at the place, code, message,
hint."""


def line_starts(text: str) -> list[int]:
    """The offsets at which the lines of a text begin, as an editor counts them."""
    return [0, *(match.end() for match in _BREAK.finditer(text))]


def place(starts: list[int], offset: int) -> tuple[int, int]:
    """Line and column (in characters, both from 1) of an offset in a text whose lines begin at
    `starts`."""
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


class _Doubled(dict[str, Any]):
    """An object with the same name twice."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        numbers = Counter(name for name, _ in pairs)
        self.names = [name for name, number in numbers.items() if number > 1]


def decode(text: str) -> tuple[Any, list[Finding]]:
    """The value of a JSON text and the findings about its text; a finding with `start` means that
    there is no value."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_members,
            parse_constant=_refuse,
            parse_int=lambda digits: (
                int(digits) if len(digits) <= LONGEST_INTEGER else float(digits)
            ),
        )
    except json.JSONDecodeError as broken:
        return None, [_not_json(text, broken.msg, broken.pos)]
    except RecursionError:
        return None, [_too_deep((), start=0)]
    except ValueError:  # raised by `_refuse`
        start = next(found.start() for found in _CONSTANT.finditer(text) if found[1])
        return None, [_not_json(text, "Expecting value", start)]
    return value, list(islice(_findings(value), MOST))


def offsets(text: str, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """For each path that exists in the valid JSON `text`: the offset of its value, and of the name
    before it (or the value again if there is no name). Members and elements on the way to these
    paths are included."""
    found: dict[Path, tuple[int, int]] = {}
    parents = {path[:length] for path in paths for length in range(len(path))}
    decoder = json.JSONDecoder(parse_int=str)

    def visit(pos: int, path: Path, name: int = -1) -> int:
        """The end of the value that begins after `pos`."""
        pos = _behind_space(text, pos)
        found[path] = pos, name if name >= 0 else pos
        if path not in parents or text[pos] not in "{[":
            return decoder.raw_decode(text, pos)[1]
        is_object = text[pos] == "{"
        index = 0
        pos = _behind_space(text, pos + 1)
        while text[pos] not in "}]":
            step = index
            name = -1
            if is_object:
                name = pos
                step, pos = decoder.raw_decode(text, pos)
                pos = _behind_space(text, pos) + 1  # the colon
            pos = _behind_space(text, visit(pos, (*path, step), name))
            pos = _behind_space(text, pos + 1) if text[pos] == "," else pos
            index += 1
        return pos + 1

    visit(0, ())
    return found


def _behind_space(text: str, pos: int) -> int:
    return _SPACE.match(text, pos).end()  # type: ignore[union-attr]  # matches the empty string too


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Doubled(pairs)


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _findings(value: Any) -> Iterator[Finding]:
    """Findings about what JSON allows and a rule does not: the same name twice, and nesting that is
    too deep."""
    holders: list[tuple[Path, Any]] = [((), value)]
    while holders:
        path, holder = holders.pop()
        if len(path) > MAX_DEPTH:
            yield _too_deep(path)
            return
        if isinstance(holder, _Doubled):
            for name in holder.names:
                message = f"{shown(name)} is written twice in this object"
                yield Finding(
                    "DuplicateKey", (*path, name), message, "delete one of them", on_key=True
                )
        steps: Iterable[tuple[Any, Any]] = ()
        if isinstance(holder, dict):
            steps = holder.items()
        elif isinstance(holder, list):
            steps = enumerate(holder)
        for step, inner in steps:
            if isinstance(inner, dict | list):
                holders.append(((*path, step), inner))


def excerpt(text: str, pos: int) -> str:
    """What stands at this place, as a message shows it: a text with both of its quotes, a word, a
    mark, or a comment."""
    line = text[pos : line_at(text, pos)[1]]
    found = _TOKEN.match(line)
    return shown(found[0] if found else line, LONGEST_EXCERPT)[1:-1]


def odd_space(char: str) -> str:
    """What a space that JSON does not allow is called."""
    code = f"U+{ord(char):04X}"
    return f"a no-break space ({code})" if char == "\xa0" else f"an invisible character {code}"


def line_at(text: str, pos: int) -> tuple[int, int]:
    """Start and end of the line of this place, without its line break."""
    start = max(text.rfind("\n", 0, pos), text.rfind("\r", 0, pos)) + 1
    end = _BREAK.search(text, pos)
    return start, end.start() if end else len(text)


def quotes_in(line: str) -> int:
    """How many double quotes begin or end a text."""
    number = 0
    for found in _QUOTE_OR_ESCAPE.finditer(line):
        number += found[0] == '"'
    return number


def _too_deep(path: Path, start: int = -1) -> Finding:
    return Finding(
        "NestedTooDeep",
        path,
        f"nested more than {MAX_DEPTH} deep",
        "a rule is nested 5 deep",
        start=start,
    )


def _not_json(text: str, problem: str, pos: int) -> Finding:
    """The finding at `pos`, where JSON cannot go on because of `problem`, which is the message of
    the json module."""
    expected = _EXPECTED.get(problem, "a value")
    if not text.strip():
        return Finding("NotJson", (), "the document is empty", "write the rule document", start=0)
    if pos >= len(text):
        message = f"the document ends here, but {expected} must follow"
        return Finding("NotJson", (), message, "is a bracket not closed?", start=pos)
    comma = text.rfind(",", 0, pos)
    if text[pos] in "}]" and comma >= 0 and not text[comma + 1 : pos].strip():
        # the message of newer versions of the module
        problem = "Illegal trailing comma"
        pos = comma
    found = excerpt(text, pos)
    code = ord(text[pos])
    space = odd_space(text[pos])
    finding = Finding("NotJson", (), f"expected {expected}, found {found}", start=pos)
    for name, here, kind, message, hint in _MISTAKES:
        if problem.startswith(name) and re.match(here, text[pos : pos + 2]):
            words = message.format(found=found, code=code, space=space, expected=expected)
            finding = Finding(kind, (), words, hint, start=pos)
            break
    start, end = line_at(text, pos)
    if finding.code in GUESSED and quotes_in(text[start:end]) % 2:
        cure = _mended(text, pos, UNPAIRED, missing=1)
        hint = 'add the `"` that is missing'
        return cure or Finding("MissingQuote", (), UNPAIRED, hint, start=pos)
    if not finding.hint:
        return _mended(text, pos, TWO_MISSING, missing=2) or finding
    return finding


def _mended(text: str, pos: int, words: str, *, missing: int) -> Finding | None:
    """The finding with the line mended; None unless exactly one change of its quotes makes
    sense."""
    start, end = line_at(text, pos)
    cure = quote_cure(text, start, end, _reads, missing=missing)
    if cure is None:
        return None
    mended = f"{text[start : cure.start]}{cure.text}{text[cure.end : end]}".strip()
    return Finding("MissingQuote", (), words, mended_hint(mended), start=cure.start)


def mended_hint(mended: str) -> str:
    """What to write for a line whose quotes do not pair up."""
    return f"write {printable(mended)}" if len(mended) <= LONGEST_SHOWN else 'write `"` here'


def _reads(text: str, end: int) -> bool:
    """Whether the text can be read as JSON up to this place."""
    head = text[:end].rstrip()
    try:
        json.loads(head)
    except json.JSONDecodeError as broken:
        in_text = broken.msg.startswith(("Unterminated", "Invalid"))
        return broken.pos >= len(head) and not in_text
    except (ValueError, RecursionError):
        return False
    return True
