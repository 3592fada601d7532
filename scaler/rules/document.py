"""The rule ConfigMap that a user wrote: its document, read into a `Rule` or the faults in it, and its annotations.

`read_rule` is what the controller calls; it takes whatever is there and never raises. What is no JSON ends the reading
at its first fault; all faults of meaning are found at once. An annotation that cannot be used gives a warning and the
default, no error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from scaler.names import PREFIX, RULE_KEY
from scaler.rules.check import check
from scaler.rules.finding import Fault, Finding, Level, pointer, printable, shown
from scaler.rules.limits import MAX_BYTES, MAX_PARTS
from scaler.rules.rule import CountsFrom, Rule, RuleOptions, Trade
from scaler.rules.text import decode, line_starts, offsets, place

MAX_FAULTS = 100
"""That a person reads."""
REMEMBERED = 16
"""Documents that need not be judged again."""
_ANNOTATIONS = ("metadata", "annotations")
LONGEST_DELAY = 24 * 3600
"""Seconds."""


class RuleReading(msgspec.Struct, frozen=True):
    """What a rule ConfigMap says. `rule` is None when there is any error; lines count from the value's first line."""

    rule: Rule | None
    options: RuleOptions
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


def read_rule(data: Mapping[str, str], binary_keys: Collection[str], annotations: Mapping[str, str]) -> RuleReading:
    """Read a rule from a ConfigMap's `data`, the keys of its `binaryData` and its annotations. Never raises."""
    options, odd = read_options(annotations)
    text = data.get(RULE_KEY)
    if isinstance(text, str):
        rule, faults = judge(text)
    else:
        text, rule, faults = "", None, (key_fault(data, binary_keys),)
    found = findings((*faults, *odd), text)
    errors, warnings = (tuple(one for one in found if one.level == level) for level in ("error", "warning"))
    return RuleReading(rule, options, errors, warnings)


def unread(size: int, annotations: Mapping[str, str]) -> RuleReading:
    """Of a document of so many bytes, which are too many to be kept."""
    options, odd = read_options(annotations)
    return RuleReading(None, options, findings((_too_large(size),), ""), findings(odd, ""))


def judge(text: str) -> tuple[Rule | None, tuple[Fault, ...]]:
    """What the bare JSON says: the rule, None when there is any error, and the faults in the order of the text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    parts = sum(text.count(mark) for mark in "{,")
    if size <= MAX_BYTES and parts <= MAX_PARTS:
        return _judged(text)
    if size > MAX_BYTES:
        return None, (_too_large(size),)
    return None, (_too_much(f"{parts:,} objects and commas; the limit is {MAX_PARTS:,}"),)


def _too_large(size: int) -> Fault:
    return _too_much(f"{size:,} bytes; the limit is {MAX_BYTES:,} ({MAX_BYTES // 1024} KiB)")


def _too_much(what: str) -> Fault:
    return Fault("DocumentTooLarge", (), f"the document has {what}", "leave out what is not a rule", start=0)


@lru_cache(maxsize=REMEMBERED)
def _judged(text: str) -> tuple[Rule | None, tuple[Fault, ...]]:
    """Once for each text: a change of annotations alone, and one rule that is written many times, cost nothing."""
    value, faults = decode(text)
    if any(fault.start >= 0 for fault in faults):
        return None, tuple(faults)
    rule, meaning = check(value)
    return None if faults else rule, shortened(_placed(faults + meaning, text))


def findings(faults: Sequence[Fault], text: str) -> tuple[Finding, ...]:
    """The faults of `text` with their lines and columns."""
    starts = line_starts(text) if faults else []
    return tuple(_finding(fault, *(place(starts, fault.start) if fault.start >= 0 else (0, 0))) for fault in faults)


def key_fault(data: Collection[str], binary_keys: Collection[str]) -> Fault:
    """Why a ConfigMap has no usable value under `RULE_KEY`."""
    if RULE_KEY in data:
        hint = f"write `{RULE_KEY}: |` and the JSON below it"
        return Fault("ValueNotAString", ("data", RULE_KEY), f"the value of {RULE_KEY} is not a text", hint)
    if RULE_KEY in binary_keys:
        message = f"{RULE_KEY} is in binaryData: the file was not UTF-8 when the ConfigMap was made of it"
        hint = "save the file as UTF-8 and create the ConfigMap again"
        return Fault("KeyInBinaryData", ("binaryData", RULE_KEY), message, hint)
    names = ", ".join(printable(str(name)) for name in [*data, *binary_keys][:10])
    found = f"it has {names}" if names else "it has no data at all"
    return Fault("KeyMissing", ("data",), f"the ConfigMap has no key {RULE_KEY}; {found}", f"name the key {RULE_KEY}")


def immutable_fault() -> Fault:
    """About a ConfigMap that says `immutable: true`."""
    message = "the rule is immutable: kubectl edit and apply will be refused, only delete and create work"
    return Fault("RuleImmutable", ("immutable",), message, "leave immutable out", "warning")


def shortened(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """In the order of the text, no more than a person reads: the first ones, and how many follow."""
    ordered = sorted(faults, key=lambda fault: fault.start)
    rest = ordered[MAX_FAULTS:]
    if not rest:
        return tuple(ordered)
    level: Level = "error" if any(fault.level == "error" for fault in rest) else "warning"
    message = "more findings follow; they are not shown"
    more = Fault("TooManyFindings", (), message, "mend these first", level, rest[0].start)
    return (*ordered[:MAX_FAULTS], more)


def _placed(faults: Sequence[Fault], text: str) -> list[Fault]:
    """The faults of a text that is JSON, each with its offset."""
    found = offsets(text, {fault.path for fault in faults}) if faults else {}
    starts = (found[fault.path][fault.on_key] for fault in faults)
    return [msgspec.structs.replace(fault, start=start) for fault, start in zip(faults, starts, strict=True)]


def _finding(fault: Fault, line: int, column: int) -> Finding:
    message, hint = printable(fault.message), printable(fault.hint)
    return Finding(fault.level, fault.code, pointer(fault.path), line, column, message, hint)


# Annotations


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,10}", text) else None


def _duration(text: str) -> float | None:
    """`1h30m`, `5m`, `300s`, in seconds."""
    match = re.fullmatch("(?=.)(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?", text)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (LONGEST_DELAY, 0, 0)
    found = 3600 * hours + 60 * minutes + seconds
    return float(found) if found <= LONGEST_DELAY else None


_switch = {"true": True, "false": False, "on": True, "off": False}.get
_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "paused": (_switch, '"true" or "false"'),
    "counts-from": ({one.value: one for one in CountsFrom}.get, '"bound", "running" or "ready"'),
    "trade": ({one.value: one for one in Trade}.get, '"when-not-serving", "always" or "off"'),
    "arbitration": (_switch, '"on" or "off"'),
    "service-priority": (_integer, 'an integer in quotes, for instance "100"'),
    "preemptable": (_switch, '"true" or "false"'),
    "scale-down-delay": (_duration, 'a duration of at most 24h, for instance "5m"'),
}
"""How each annotation is read (None: it cannot be used), and how to put it."""


def read_options(annotations: Mapping[str, str]) -> tuple[RuleOptions, list[Fault]]:
    """The options that annotations on a rule name, and a warning for each that cannot be used."""
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, (read, valid) in _OPTIONS.items():
        text, field = annotations.get(PREFIX + name), name.replace("-", "_")
        value = read(text) if isinstance(text, str) else None
        if value is not None:
            values[field] = value
        elif text is not None:
            default = getattr(RuleOptions(), field)
            used = default if isinstance(default, str) else shown(default)
            message = f"annotation {PREFIX}{name}: {shown(text)} is not {valid}; the default is used ({used})"
            faults.append(
                Fault("AnnotationInvalid", (*_ANNOTATIONS, PREFIX + name), message, f"write {valid}", "warning")
            )
    known = [PREFIX + name for name in _OPTIONS]
    for name in annotations:
        if name.startswith(PREFIX) and name not in known:
            message = f"annotation {printable(name)} means nothing here"
            hint = f"known are {', '.join(known)}"
            faults.append(Fault("AnnotationUnknown", (*_ANNOTATIONS, name), message, hint, "warning"))
    return RuleOptions(**values), faults
