"""Puts into words what is wrong with the shape of a rule document: types, missing and unknown members, numbers.

The shape itself is said once, by the model in rules.schema; this module says what was found and what to write.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from scaler.rules.finding import Fault, Path, shown

MAX_NUMBER = 1_000_000
LIST = "elastic_scaling_list"

_NUMBER = re.compile(r"0|[1-9][0-9]{0,6}")
_DIGITS = re.compile(r"[1-9][0-9]*")
_TOP = ("version", "status", LIST)
_ENTRY = ("group_list", "server_count")
_GROUP = ("group_name", "group_num", "server_num_per_group")
_EXAMPLES = {"group_name": '"group0"', "group_num": '"1"', "server_num_per_group": '"1"', "version": '"1.0"'}


def shape_faults(value: object) -> Iterator[Fault]:
    """Where the decoded document has not the shape of the model."""
    from scaler.rules.schema import shape_errors  # noqa: PLC0415 - pydantic is loaded with the first document, not before

    for error in shape_errors(value):
        path: Path = tuple(error["loc"])
        missing = error["type"] == "missing"
        yield _missing(path, error["input"]) if missing else _wrong(path, error["type"], error["input"])


def _missing(path: Path, holder: object) -> Fault:
    field = str(path[-1])
    present = list(holder) if isinstance(holder, dict) else []
    close = _similar(field, present)
    hint = f'write "{field}" instead of {shown(close)}' if close else f'add "{field}": {_EXAMPLES.get(field, "[...]")}'
    code = {LIST: "ListMissing", "group_list": "RatioWithoutGroups"}.get(field, "FieldMissing")
    return Fault(code, path[:-1], f'"{field}" is missing', hint)


def _wrong(path: Path, kind: str, found: object) -> Fault:
    field = path[-1] if path else ""
    if kind == "too_long":
        hint = "leave out ratios between the largest and the smallest"
        return Fault("TooManyEntries", path, "more than 10,000 ratios", hint)
    if kind == "too_short":
        code, what = ("ListEmpty", "ratio") if field == LIST else ("RatioWithoutGroups", "group")
        return Fault(code, path, f'"{field}" is empty', f"write at least one {what}")
    if field in ("group_num", "server_num_per_group"):
        return _wrong_number(path, str(field), found)
    if field == "group_name":
        return _wrong_name(path, found)
    return _wrong_type(path, found)


def _wrong_number(path: Path, field: str, found: object) -> Fault:
    if found == "0":
        message = f'"{field}" is 0: an instance has at least one pod'
        return Fault("ServerNumZero", path, message, 'write the pods per instance, at least "1"')
    if isinstance(found, str) and _DIGITS.fullmatch(found):
        message = f"{shown(found)} is more than {MAX_NUMBER:,}"
        return Fault("NumberTooLarge", path, message, f"write at most {MAX_NUMBER}")
    meant = _number_meant(found)
    hint = f'write "{meant}"' if meant else 'write decimal digits in quotes, for instance "2"'
    what = f"{shown(found)} is not a decimal number in quotes"
    if isinstance(found, str):
        what = f"{shown(found)} is not a plain decimal number (no sign, space, leading zero or full-width digit)"
    return Fault("NotADecimalString", path, what, hint)


def _number_meant(found: object) -> str:
    """The spelling that was meant, "" when that is not beyond doubt."""
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_NUMBER:
        return str(found)
    if not isinstance(found, str) or len(found) > 20:
        return ""
    text = unicodedata.normalize("NFKC", found).strip().removeprefix("+").lstrip("0") or "0"
    return text if found and _NUMBER.fullmatch(text) and any(char.isdigit() for char in found) else ""


def _wrong_name(path: Path, found: object) -> Fault:
    if not isinstance(found, str):
        return _wrong_type(path, found)
    hint = "write letters, digits, '-', '_' or '.', 1 to 63 of them, a letter or digit at both ends"
    message = f"{shown(found)} cannot be the value of a label, so no job can belong to this group"
    return Fault("GroupNameInvalid", path, message, hint)


def _wrong_type(path: Path, found: object) -> Fault:
    wanted = "a string" if path and path[-1] in ("group_name", "version") else "an object"
    if path and path[-1] in (LIST, "group_list"):
        wanted = "a list"
    hint = ""
    if not path and isinstance(found, list):
        hint = f'write {{"version": "1.0", "{LIST}": [...]}} around the list'
    elif not path and isinstance(found, str):
        hint = "the document was encoded twice: take the outer quotes and the backslashes away"
    elif wanted == "a string":
        hint = f"write {_EXAMPLES[str(path[-1])]}, in quotes"
    return Fault("WrongType", path, f"{wanted} is needed here, found {shown(found)}", hint)


def unknown_keys(value: object) -> Iterator[Fault]:
    """Members that mean nothing; they are kept and ignored."""
    for path, holder, known in _objects(value):
        if len(holder) == len(known) and all(name in holder for name in known):
            continue
        for key in holder:
            if key not in known:
                close = _similar(key, list(known))
                hint = f'did you mean "{close}"?' if close else ""
                message = f"{shown(key)} means nothing here and is ignored"
                yield Fault("UnknownKey", (*path, key), message, hint, "warning", on_key=True)


def _objects(value: object) -> Iterator[tuple[Path, dict[str, Any], tuple[str, ...]]]:
    if not isinstance(value, dict):
        return
    yield (), value, _TOP
    for i, entry in items(value.get(LIST)):
        if isinstance(entry, dict):
            yield (LIST, i), entry, _ENTRY
            for j, group in items(entry.get("group_list")):
                if isinstance(group, dict):
                    yield (LIST, i, "group_list", j), group, _GROUP


def items(value: object) -> Iterator[tuple[int, Any]]:
    """The elements of a list with their indices; none for anything that is no list."""
    return enumerate(value) if isinstance(value, list) else iter(())


def _similar(wanted: str, present: list[str]) -> str:
    """The one of `present` that was probably meant as `wanted`: other letter case, no underscores, a typo."""
    plain = {name.lower().replace("_", "").replace("-", ""): name for name in present[:50] if len(name) < 100}
    close = difflib.get_close_matches(wanted.replace("_", ""), plain, n=1, cutoff=0.85)
    return plain[close[0]] if close else ""


def version_faults(value: object) -> Iterator[Fault]:
    """A version other than "1.0"."""
    if not isinstance(value, dict) or value.get("version") == "1.0":
        return
    if "version" not in value:
        yield Fault("VersionUnknown", (), 'no "version"; read as "1.0"', 'add "version": "1.0"', "warning")
    elif isinstance(value["version"], str):
        message = f'version {shown(value["version"])} is not known; read as "1.0"'
        yield Fault("VersionUnknown", ("version",), message, 'write "1.0"', "warning")


def number(text: object) -> int | None:
    """The number that a member says, None when it does not say one as it should."""
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None
