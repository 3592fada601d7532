"""The rule ConfigMap of a user: its document, read into a `Rule` or into findings, and its
annotations.

Text that is no JSON gives one finding, a JSON document all at once; an unusable annotation only a
warning, and the default counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from scaler.names import PREFIX, RULE_KEY
from scaler.remembered import Remembered
from scaler.rules.check import check
from scaler.rules.finding import Finding, Level, printable, shown
from scaler.rules.limits import MAX_BYTES, MAX_PARTS
from scaler.rules.rule import CountsFrom, Rule, RuleOptions, Trade
from scaler.rules.text import decode, line_starts, offsets, place
from scaler.rules.values import duration

MAX_FINDINGS = 100
"""Findings: a person reads no more."""
MOST_JUDGED = 16 * 2**20
"""Bytes of documents, and of what they say, that are remembered."""


class RuleReading(msgspec.Struct, frozen=True):
    """The content of a rule ConfigMap. `rule` is None when there is any error; lines count within
    the value."""

    rule: Rule | None
    options: RuleOptions
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


def read_rule(
    data: Mapping[str, str], binary_keys: Collection[str], annotations: Mapping[str, str]
) -> RuleReading:
    """Read a rule from a ConfigMap's `data`, the keys of its `binaryData` and its annotations.
    Never raises."""
    options, odd = read_options(annotations)
    text = data.get(RULE_KEY)
    rule, found = (
        judge(text) if isinstance(text, str) else (None, (key_finding(data, binary_keys),))
    )
    every = (*found, *odd)
    errors = tuple(one for one in every if one.level == "error")
    warnings = tuple(one for one in every if one.level == "warning")
    return RuleReading(rule, options, errors, warnings)


def unread(size: int, annotations: Mapping[str, str]) -> RuleReading:
    """The reading of a document of `size` bytes, which is too large to be kept."""
    options, odd = read_options(annotations)
    return RuleReading(None, options, (_too_large(size),), tuple(odd))


def judge(text: str) -> tuple[Rule | None, tuple[Finding, ...]]:
    """The rule of the bare JSON, None when there is any error, and the findings in the order of the
    text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return None, (_too_large(size),)
    parts = text.count("{") + text.count(",")
    if parts > MAX_PARTS:
        return None, (_too_much(f"{parts:,} objects and commas; the limit is {MAX_PARTS:,}"),)
    return _judged(text)


def _too_large(size: int) -> Finding:
    return _too_much(f"{size:,} bytes; the limit is {MAX_BYTES:,} ({MAX_BYTES // 1024} KiB)")


def _too_much(what: str) -> Finding:
    message = f"the document has {what}"
    hint = "leave out what is not a rule"
    return Finding("DocumentTooLarge", (), message, hint, start=0, line=1, column=1)


_Judgement = tuple[Rule | None, tuple[Finding, ...]]
_known: Remembered[str, _Judgement] = Remembered(MOST_JUDGED)


def _judged(text: str) -> _Judgement:
    """As `judge`, once per text: a change of annotations only, and a rule that many ConfigMaps
    have, cost nothing."""
    return _known.get(text) or _known.keep(text, _judge_anew(text))


def _judge_anew(text: str) -> _Judgement:
    value, found = decode(text)
    if any(one.start >= 0 for one in found):
        return None, placed(found, text)
    rule, meaning = check(value)
    both = found + meaning
    places = offsets(text, {one.path for one in both}) if both else {}
    located = [msgspec.structs.replace(one, start=places[one.path][one.on_key]) for one in both]
    return None if found else rule, placed(shortened(located), text)


def placed(found: Sequence[Finding], text: str) -> tuple[Finding, ...]:
    """The findings, which have offsets in `text`, with their lines and columns."""
    starts = line_starts(text) if found else []
    return tuple(one.at(*place(starts, one.start)) for one in found)


def key_finding(data: Collection[str], binary_keys: Collection[str]) -> Finding:
    """Why a ConfigMap has no usable value under `RULE_KEY`."""
    if RULE_KEY in data:
        hint = f"write `{RULE_KEY}: |` and the JSON below it"
        return Finding(
            "ValueNotAString", ("data", RULE_KEY), f"the value of {RULE_KEY} is not a text", hint
        )
    if RULE_KEY in binary_keys:
        message = (
            f"{RULE_KEY} is in binaryData: the file was not UTF-8 when the ConfigMap was made of it"
        )
        hint = "save the file as UTF-8 and create the ConfigMap again"
        return Finding("KeyInBinaryData", ("binaryData", RULE_KEY), message, hint)
    names = ", ".join(printable(str(name)) for name in [*data, *binary_keys][:10])
    found = f"it has {names}" if names else "it has no data at all"
    return Finding(
        "KeyMissing",
        ("data",),
        f"the ConfigMap has no key {RULE_KEY}; {found}",
        f"name the key {RULE_KEY}",
    )


def immutable_finding() -> Finding:
    message = (
        "the rule is immutable: kubectl edit and apply will be refused, only delete and create work"
    )
    return Finding("RuleImmutable", ("immutable",), message, "leave immutable out", "warning")


def shortened(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """The first findings in the order of the text, as many as a person reads, and how many
    follow."""
    ordered = sorted(found, key=lambda one: one.start)
    rest = ordered[MAX_FINDINGS:]
    if not rest:
        return tuple(ordered)
    level: Level = "error" if any(one.level == "error" for one in rest) else "warning"
    message = "more findings follow; they are not shown"
    more = Finding("TooManyFindings", (), message, "fix these first", level, rest[0].start)
    return (*ordered[:MAX_FINDINGS], more)


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,10}", text) else None


_ANNOTATIONS = ("metadata", "annotations")
_switch = {"true": True, "false": False, "on": True, "off": False}.get
_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "paused": (_switch, '"true" or "false"'),
    "counts-from": ({one.value: one for one in CountsFrom}.get, '"bound", "running" or "ready"'),
    "trade": ({one.value: one for one in Trade}.get, '"when-not-serving", "always" or "off"'),
    "arbitration": (_switch, '"on" or "off"'),
    "service-priority": (_integer, 'an integer in quotes, for instance "100"'),
    "preemptable": (_switch, '"true" or "false"'),
    "scale-down-delay": (duration, 'a duration of at most 24h, for instance "5m"'),
}
"""For each annotation: the function that reads it (None: unusable), and the form of a usable
value."""


def read_options(annotations: Mapping[str, str]) -> tuple[RuleOptions, list[Finding]]:
    """The options in the annotations of a rule, and a warning for each unusable annotation."""
    values: dict[str, Any] = {}
    odd: list[Finding] = []
    known = [PREFIX + name for name in _OPTIONS]
    for name, (read, valid) in _OPTIONS.items():
        text = annotations.get(PREFIX + name)
        field = name.replace("-", "_")
        path = (*_ANNOTATIONS, PREFIX + name)
        value = read(text) if isinstance(text, str) else None
        if value is not None:
            values[field] = value
        elif text is not None:
            default = getattr(RuleOptions(), field)
            used = default if isinstance(default, str) else shown(default)
            message = (
                f"annotation {PREFIX}{name}: {shown(text)} is not {valid}; the default is used"
                f" ({used})"
            )
            odd.append(Finding("AnnotationInvalid", path, message, f"write {valid}", "warning"))
    for name in annotations:
        if name.startswith(PREFIX) and name not in known:
            message = f"annotation {printable(name)} means nothing here"
            hint = f"known are {', '.join(known)}"
            odd.append(
                Finding("AnnotationUnknown", (*_ANNOTATIONS, name), message, hint, "warning")
            )
    return RuleOptions(**values), odd
