"""Judges the ConfigMap of a rule where it stands in a file: its keys, its document, its annotations.

The document's own faults come from rules.document; this module finds their places in the YAML that the user has open.
"""

from __future__ import annotations

import difflib

import msgspec

from scaler.rules.document import KEY, examine, key_fault
from scaler.rules.finding import Fault, Finding, Path, pointer, printable
from scaler.rules.manifest import Object, Value
from scaler.rules.options import read_options
from scaler.rules.position import Span, align
from scaler.rules.rule import Rule


class RuleMap(msgspec.Struct, frozen=True):
    """A ConfigMap (or what was meant as one) that holds a rule."""

    object: Object
    rule: Rule | None
    findings: list[Finding]


def is_rule_map(found: Object, *, wanted: bool) -> bool:
    """Whether a ConfigMap or Secret is our business: has the key, or nearly; named by a job; or asked about alone."""
    names = _names(found, "data") + _names(found, "binaryData") + _names(found, "stringData")
    near = any(difflib.get_close_matches(name, [KEY], cutoff=0.9) for name in names)
    return near or wanted or found.alone


def read_rule_map(found: Object) -> RuleMap:
    """Everything about one rule ConfigMap. Never raises."""
    if found.kind == "Secret":
        message = "a Secret; the rule is read from a ConfigMap of this name"
        return RuleMap(
            found,
            None,
            [
                _finding(
                    found,
                    found.root.get("kind"),
                    "NotAConfigMap",
                    ("kind",),
                    message,
                    "write `kind: ConfigMap` and `data:`",
                )
            ],
        )
    findings = _immutable(found) + _annotation_findings(found)
    value = rule_value(found)
    if value is None or value.string is None:
        fault = key_fault(_names(found, "data"), _names(found, "binaryData"))
        place = (
            found.root.get("data") if fault.code == "KeyMissing" else (_key(found, "data") or _key(found, "binaryData"))
        )
        return RuleMap(
            found, None, [*findings, _finding(found, place, fault.code, fault.path, fault.message, fault.hint)]
        )
    rule, inside = _document_findings(found, value)
    return RuleMap(found, rule, [*_double_keys(found), *inside, *findings])


def rule_value(found: Object) -> Value | None:
    """The value under the rule's key, whatever it is; None when there is no such key."""
    data = found.root.get("data")
    values = [value for key, value in data.members if key.text == KEY] if data else []
    return values[-1] if values else None


def spans_of(found: Object, value: Value) -> list[Span] | None:
    """For each character of a scalar its span in the file; None when they cannot be matched."""
    text = found.lines.text
    start = value.start
    if value.style in ("|", ">") and value.style:
        line, _ = found.lines.place(start)
        start = found.lines.offset(line + 1, 1)
    elif value.style:
        start += 1
    doubled = "'" if value.style == "'" else ""
    return align(value.text, text, start, escapes=value.style == '"', doubled=doubled)


def _document_findings(found: Object, value: Value) -> tuple[Rule | None, list[Finding]]:
    examination = examine(value.text)
    spans = spans_of(found, value) if examination.faults else []
    return examination.rule, [_inside(found, value, spans, fault) for fault in examination.faults]


def _inside(found: Object, value: Value, spans: list[Span] | None, fault: Fault) -> Finding:
    offset = spans[min(fault.start, len(spans) - 1)][0] if spans and fault.start >= 0 else value.start
    line, column = found.lines.place(offset)
    place = pointer(fault.path)
    return Finding(
        fault.level, fault.code, place, line, column, printable(fault.message), printable(fault.hint), found.file
    )


def _double_keys(found: Object) -> list[Finding]:
    data = found.root.get("data")
    keys = [key for key, _ in data.members if key.text == KEY] if data else []
    return [
        _finding(
            found, key, "DuplicateKey", ("data", KEY), f"{KEY} is written twice in this ConfigMap", "delete one of them"
        )
        for key in keys[1:]
    ]


def _immutable(found: Object) -> list[Finding]:
    value = found.root.get("immutable")
    if value is None or value.text != "true":
        return []
    message = "the rule is immutable: kubectl edit and apply will be refused, only delete and create work"
    return [_finding(found, value, "RuleImmutable", ("immutable",), message, "leave immutable out", level="warning")]


def _annotation_findings(found: Object) -> list[Finding]:
    holder = found.root.get("metadata", "annotations")
    members = holder.members if holder else []
    _, warnings = read_options({key.text: value.text for key, value in members})
    placed = []
    for warning in warnings:
        name = warning.pointer.removeprefix("/metadata/annotations/").replace("~1", "/").replace("~0", "~")
        line, column = found.place(holder.key(name) if holder else None)
        placed.append(msgspec.structs.replace(warning, line=line, column=column, file=found.file))
    return placed


def _names(found: Object, field: str) -> list[str]:
    holder = found.root.get(field)
    return [key.text for key, _ in holder.members] if holder else []


def _key(found: Object, field: str) -> Value | None:
    holder = found.root.get(field)
    return holder.key(KEY) if holder else None


def _finding(
    found: Object, value: Value | None, code: str, path: Path, message: str, hint: str, *, level: str = "error"
) -> Finding:
    line, column = found.place(value)
    return Finding(level, code, pointer(path), line, column, printable(message), hint, found.file)  # type: ignore[arg-type]
