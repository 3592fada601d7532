"""The rule document: from the ConfigMap that a user wrote to a `Rule`, or to every fault in it.

`read_rule` is what the controller calls; it takes whatever is there and never raises. Good documents take the fast
path through json.loads; anything else is read again by rules.jsontext, which knows where each thing stands.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import msgspec

from scaler.names import RULE_KEY
from scaler.rules.brackets import read
from scaler.rules.check import check
from scaler.rules.finding import Edit, Fault, Finding, Level, Path, pointer, printable
from scaler.rules.jsontext import MAX_FAULTS, Node
from scaler.rules.options import read_options
from scaler.rules.position import Lines
from scaler.rules.rule import Rule, RuleOptions

MAX_BYTES = 1024 * 1024


class RuleReading(msgspec.Struct, frozen=True):
    """What a rule ConfigMap says. `rule` is None when there is any error; lines count from the value's first line."""

    rule: Rule | None
    options: RuleOptions
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


class Examination(msgspec.Struct, frozen=True):
    """What a document says, with each fault's offset in its text; faults are in the order of the text."""

    rule: Rule | None
    faults: tuple[Fault, ...]

    @property
    def edits(self) -> list[Edit]:
        return [fault.edit for fault in self.faults if fault.edit is not None]


def read_rule(data: Mapping[str, str], binary_keys: Collection[str], annotations: Mapping[str, str]) -> RuleReading:
    """Read a rule from a ConfigMap's `data`, the keys of its `binaryData` and its annotations. Never raises."""
    options, warnings = read_options(annotations)
    text = data.get(RULE_KEY)
    if not isinstance(text, str):
        return RuleReading(None, options, (_finding(key_fault(data, binary_keys), Lines("")),), warnings)
    rule, findings = read_document(text)
    errors = tuple(finding for finding in findings if finding.level == "error")
    return RuleReading(rule, options, errors, tuple(f for f in findings if f.level == "warning") + warnings)


def read_document(text: str) -> tuple[Rule | None, tuple[Finding, ...]]:
    """Read the bare JSON: the rule, None when there is any error, and all findings. Never raises."""
    examination = examine(text)
    lines = Lines(text if examination.faults else "")
    return examination.rule, tuple(_finding(fault, lines) for fault in examination.faults)


def examine(text: str) -> Examination:
    """Read the bare JSON, keeping offsets and cures. Never raises."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        message = f"the document has {size:,} bytes; the limit is {MAX_BYTES:,} (1 MiB)"
        return Examination(None, (Fault("DocumentTooLarge", (), message, "leave out what is not a rule", start=0),))
    try:
        value = json.loads(text, object_pairs_hook=_members, parse_constant=_refuse)
    except (ValueError, RecursionError):  # no JSON, a name twice, or too deep
        return _examine_closely(text)
    rule, faults = check(value)
    # A status may be anything; if it is nested, its depth is judged where every depth is.
    nested = isinstance(value, dict) and isinstance(value.get("status"), (dict, list))
    return _examine_closely(text) if faults or nested else Examination(rule, ())


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


def _examine_closely(text: str) -> Examination:
    reading = read(text)
    faults = list(reading.faults)
    if reading.root is not None:
        rule, meaning = check(reading.root.value)
        faults += [_located(fault, reading.root, text) for fault in meaning]
    faults.sort(key=lambda fault: fault.start)
    good = reading.root is not None and not any(fault.level == "error" for fault in faults)
    return Examination(rule if good else None, tuple(_shortened(faults)))


def _shortened(faults: list[Fault]) -> list[Fault]:
    """No more than a person reads: the first ones, and how many follow."""
    rest = faults[MAX_FAULTS:]
    if not rest:
        return faults
    level: Level = "error" if any(fault.level == "error" for fault in rest) else "warning"
    message = "more findings follow; they are not shown"
    return [*faults[:MAX_FAULTS], Fault("TooManyFindings", (), message, "mend these first", level, rest[0].start)]


def _located(fault: Fault, root: Node, text: str) -> Fault:
    """The fault with its offset, and with its cure where a bare number only lacks its quotes."""
    node, key = _find(root, fault.path)
    start = key if fault.on_key and key >= 0 else node.start
    edit = None
    if fault.code == "NotADecimalString" and isinstance(node.value, int):
        digits = text[node.start : node.end]
        edit = Edit(node.start, node.end, f'"{digits}"') if digits.isascii() and digits.isdigit() else None
    return msgspec.structs.replace(fault, start=start, edit=edit)


def _find(node: Node, path: Path) -> tuple[Node, int]:
    key = -1
    for step in path:
        if step not in node.children:
            break
        key = node.keys.get(step, -1) if isinstance(step, str) else -1
        node = node.children[step]
    return node, key


def _finding(fault: Fault, lines: Lines) -> Finding:
    line, column = lines.place(fault.start) if fault.start >= 0 else (0, 0)
    place = pointer(fault.path)
    return Finding(fault.level, fault.code, place, line, column, printable(fault.message), printable(fault.hint))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name is written twice")
    return members


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
