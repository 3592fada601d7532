"""The shape of the rule document, and the findings about it (of `scaler.rules.model`)."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from scaler.rules.finding import Finding, Path, shown
from scaler.rules.limits import MAX_GROUPS, MAX_INSTANCES, MAX_NAME, MAX_PODS, MAX_RATIOS

MOST = 200
"""Findings of the shape that get a message."""
LIST = "elastic_scaling_list"

_NUMBER = re.compile(r"0|[1-9][0-9]{0,4}")
_DIGITS = re.compile(r"[1-9][0-9]*")
_EXAMPLES = {
    "group_name": '"group0"',
    "group_num": '"1"',
    "server_num_per_group": '"1"',
    "version": '"1.0"',
    LIST: "[...]",
    "group_list": "[...]",
}
"""Each known member, with an example of its value."""
_MISSING = {LIST: "ListMissing", "group_list": "RatioWithoutGroups"}


def _up_to(most: int) -> str:
    """A pattern of decimal numbers from 1 to `most`, a power of ten."""
    return rf"[1-9][0-9]{{0,{len(str(most)) - 2}}}|{most}"


# "$" alone would let a line feed pass in some regular expression engines, so each pattern refuses
# it itself.
NUMBER = rf"^(?:0|{_up_to(MAX_INSTANCES)})$(?!\n)"
POSITIVE_NUMBER = rf"^(?:{_up_to(MAX_PODS)})$(?!\n)"
LABEL_VALUE = rf"^[A-Za-z0-9](?:[A-Za-z0-9_.-]{{0,{MAX_NAME - 2}}}[A-Za-z0-9])?$(?!\n)"
UNKNOWN = "extra_forbidden"


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    group_name: Annotated[str, msgspec.Meta(pattern=LABEL_VALUE)]
    group_num: Annotated[str, msgspec.Meta(pattern=NUMBER)]
    server_num_per_group: Annotated[str, msgspec.Meta(pattern=POSITIVE_NUMBER)]


class _Ratio(msgspec.Struct, forbid_unknown_fields=True):
    group_list: Annotated[list[_Group], msgspec.Meta(min_length=1, max_length=MAX_GROUPS)]
    server_count: Any = None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    elastic_scaling_list: Annotated[list[_Ratio], msgspec.Meta(min_length=1, max_length=MAX_RATIOS)]
    version: Literal["1.0"] = "1.0"
    status: Any = None


def has_the_shape(value: object) -> bool:
    """Whether the decoded document is one in which `scaler.rules.model` finds nothing. False may
    also be said of one that it finds nothing in."""
    try:
        msgspec.convert(value, _Document)
    except msgspec.ValidationError:
        return False
    return True


def shape_findings(value: object) -> Iterator[Finding]:
    """The findings about the shape of the decoded document; errors first."""
    if has_the_shape(value):
        return
    from scaler.rules.model import shape_errors  # noqa: PLC0415 - costs 0.1 s

    errors = sorted(shape_errors(value), key=lambda error: error["type"] == UNKNOWN)
    for error in errors[:MOST]:
        path = tuple(error["loc"])
        kind = error["type"]
        found = error["input"]
        field = str(path[-1]) if path else ""
        if kind == UNKNOWN:
            close = _similar(field, list(_EXAMPLES))
            hint = f'did you mean "{close}"?' if close else ""
            message = f"{shown(path[-1])} means nothing here and is ignored"
            yield Finding("UnknownKey", path, message, hint, "warning", on_key=True)
        elif kind == "missing":
            close = _similar(field, list(found) if isinstance(found, dict) else [])
            hint = (
                f'write "{field}" instead of {shown(close)}'
                if close
                else f'add "{field}": {_EXAMPLES[field]}'
            )
            yield Finding(
                _MISSING.get(field, "FieldMissing"), path[:-1], f'"{field}" is missing', hint
            )
        else:
            code, message, hint = _wrong(path, field, kind, found)
            yield Finding(code, path, message, hint)


def number(text: object) -> int | None:
    """The number in a member; None when it is not written as a number should be."""
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None


def _wrong(path: Path, field: str, kind: str, found: object) -> tuple[str, str, str]:
    """Code, message and hint about a value of another shape."""
    if kind == "too_long" and field == LIST:
        hint = "leave out ratios between the largest and the smallest"
        return "TooManyEntries", f"more than {MAX_RATIOS:,} ratios", hint
    if kind == "too_long":
        return (
            "TooManyEntries",
            f"more than {MAX_GROUPS} groups in one ratio",
            "make several services of them",
        )
    if kind == "too_short":
        code, what = ("ListEmpty", "ratio") if field == LIST else ("RatioWithoutGroups", "group")
        return code, f'"{field}" is empty', f"write at least one {what}"
    if field in ("group_num", "server_num_per_group"):
        return _wrong_number(field, found)
    if field == "group_name" and isinstance(found, str):
        message = (
            f"{shown(found)} cannot be the value of a label, so no job can belong to this group"
        )
        hint = (
            f"write letters, digits, '-', '_' or '.', 1 to {MAX_NAME} of them, a letter or digit at"
            " both ends"
        )
        return "GroupNameInvalid", message, hint
    if kind == "string_unicode":
        return "WrongType", f"{shown(found)} has half of a character", "write the character itself"
    expected = "a list" if field in _MISSING else "a string" if field in _EXAMPLES else "an object"
    hint = f"write {_EXAMPLES[field]}, in quotes" if expected == "a string" else ""
    if not path and isinstance(found, list):
        hint = f'write {{"version": "1.0", "{LIST}": [...]}} around the list'
    elif not path and isinstance(found, str):
        hint = "the document was encoded twice: take the outer quotes and the backslashes away"
    return "WrongType", f"{expected} is needed here, found {shown(found)}", hint


def _wrong_number(field: str, found: object) -> tuple[str, str, str]:
    most = MAX_INSTANCES if field == "group_num" else MAX_PODS
    if found == "0":
        message = f'"{field}" is 0: an instance has at least one pod'
        return "ServerNumZero", message, 'write the pods per instance, at least "1"'
    if isinstance(found, str) and _DIGITS.fullmatch(found):
        return "NumberTooLarge", f"{shown(found)} is more than {most:,}", f"write at most {most}"
    meant = _number_meant(found, most)
    hint = f'write "{meant}"' if meant else 'write decimal digits in quotes, for instance "2"'
    message = f"{shown(found)} is not a decimal number in quotes"
    if isinstance(found, str):
        message = (
            f"{shown(found)} is not a plain decimal number (no sign, space, leading zero or"
            " full-width digit)"
        )
    return "NotADecimalString", message, hint


def _number_meant(found: object, most: int) -> str:
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= most:
        return str(found)
    if not isinstance(found, str) or len(found) > 20:
        return ""
    text = unicodedata.normalize("NFKC", found).strip().removeprefix("+").lstrip("0") or "0"
    return (
        text if found and _NUMBER.fullmatch(text) and any(char.isdigit() for char in found) else ""
    )


def _similar(expected: str, present: list[str]) -> str:
    """The entry of `present` that probably means `expected`: other letter case, no underscores, a
    typo."""
    plain = {
        name.lower().replace("_", "").replace("-", ""): name
        for name in present[:50]
        if len(name) < 100
    }
    close = difflib.get_close_matches(expected.replace("_", ""), plain, n=1, cutoff=0.85)
    return plain[close[0]] if close else ""
