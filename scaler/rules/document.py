"""The rule document: from the ConfigMap that a user wrote to a `Rule`, or to the faults in it.

`read_rule` is what the controller calls; it takes whatever is there and never raises. What is no JSON ends the reading
at its first fault; all faults of meaning are found at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import msgspec

from scaler.names import RULE_KEY
from scaler.rules.check import check
from scaler.rules.finding import Fault, Finding, Level, pointer, printable
from scaler.rules.limits import MAX_BYTES, MAX_PARTS
from scaler.rules.options import read_options
from scaler.rules.rule import Rule, RuleOptions
from scaler.rules.text import decode, line_starts, offsets, place

MAX_FAULTS = 100
"""That a person reads."""
REMEMBERED = 16
"""Documents that need not be judged again."""


class RuleReading(msgspec.Struct, frozen=True):
    """What a rule ConfigMap says. `rule` is None when there is any error; lines count from the value's first line."""

    rule: Rule | None
    options: RuleOptions
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


def read_rule(data: Mapping[str, str], binary_keys: Collection[str], annotations: Mapping[str, str]) -> RuleReading:
    """Read a rule from a ConfigMap's `data`, the keys of its `binaryData` and its annotations. Never raises."""
    options, warnings = read_options(annotations)
    text = data.get(RULE_KEY)
    if isinstance(text, str):
        rule, faults = judge(text)
    else:
        text, rule, faults = "", None, (key_fault(data, binary_keys),)
    found = findings(faults, text)
    errors = tuple(finding for finding in found if finding.level == "error")
    return RuleReading(rule, options, errors, (*(one for one in found if one.level == "warning"), *warnings))


def unread(size: int, annotations: Mapping[str, str]) -> RuleReading:
    """Of a document of so many bytes, which are too many to be kept."""
    options, warnings = read_options(annotations)
    return RuleReading(None, options, findings((_too_large(size),), ""), warnings)


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
