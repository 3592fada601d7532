"""Checks the ConfigMap of a rule in a file: its keys, its document, its annotations.

rules.document finds the faults of the document; this module finds their places in the YAML file of
the user."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import msgspec

from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX, RULE_KEY
from scaler.rules.document import immutable_finding, key_finding, read_options
from scaler.rules.finding import Finding
from scaler.rules.rule import Rule
from scaler.tools.common.manifest import Object, Value
from scaler.tools.common.position import Span, align
from scaler.tools.lint.document import examine
from scaler.tools.lint.guess import object_in_document
from scaler.tools.lint.metadata import metadata_findings


class RuleMap(msgspec.Struct, frozen=True):
    """A ConfigMap (or an object meant as one) with a rule."""

    object: Object
    rule: Rule | None
    findings: list[Finding]


def is_rule_map(found: Object, *, wanted: bool) -> bool:
    """Whether a ConfigMap or Secret is checked: it has the key, or nearly; a job names it; or only
    it was named."""
    names = _names(found, "data") + _names(found, "binaryData") + _names(found, "stringData")
    near = any(difflib.get_close_matches(name, [RULE_KEY], cutoff=0.9) for name in names)
    return near or wanted or found.alone


def is_rank_table(found: Object) -> bool:
    """Whether a ConfigMap is that of a rank table."""
    return found.name.startswith(RANK_TABLE_PREFIX) or RANK_TABLE_KEY in _names(found, "data")


def read_rule_map(found: Object) -> RuleMap:
    """All findings about one rule ConfigMap. Never raises."""
    if found.kind == "Secret":
        message = "a Secret; the rule is read from a ConfigMap of this name"
        wrong = found.finding(
            ("kind",), "NotAConfigMap", message, "write `kind: ConfigMap` and `data:`"
        )
        return RuleMap(found, None, [wrong])
    rule, findings = _document(found)
    findings += [
        *metadata_findings(found),
        *_double_keys(found),
        *_immutable(found),
        *_options(found),
    ]
    good = all(finding.level == "warning" for finding in findings)
    return RuleMap(found, rule if good else None, findings)


def rule_value(found: Object) -> Value | None:
    """The value under the rule's key, of any kind; None without such a key."""
    data = found.root.get("data")
    values = [value for key, value in data.members if key.text == RULE_KEY] if data else []
    return values[-1] if values else None


def spans_of(found: Object, value: Value) -> list[Span] | None:
    """For each character of a scalar its span in the file; None if they do not match."""
    text = found.lines.text
    start = value.start
    if value.style in ("|", ">"):
        line, _ = found.lines.place(start)
        start = found.lines.offset(line + 1, 1)
    elif value.style:
        start += 1
    doubled = "'" if value.style == "'" else ""
    return align(value.text, text, start, escapes=value.style == '"', doubled=doubled)


def _document(found: Object) -> tuple[Rule | None, list[Finding]]:
    """The rule under the key and the findings of its document, or why there is no document."""
    value = rule_value(found)
    if value is None or value.string is None:
        fault = key_finding(_names(found, "data"), _names(found, "binaryData"))
        return None, [found.placed(fault)]
    other = object_in_document(value.string)
    if other:
        message = f"the value is {other}, not a rule"
        hint = "write the rule under this key: a JSON document with elastic_scaling_list"
        return None, [found.finding(("data", RULE_KEY), "NotARule", message, hint)]
    examination = examine(value.string)
    spans = spans_of(found, value) if examination.faults else None
    return examination.rule, [_inside(found, value, spans, fault) for fault in examination.faults]


def _inside(found: Object, value: Value, spans: list[Span] | None, fault: Finding) -> Finding:
    offset = spans[fault.start][0] if spans else value.start
    return fault.at(*found.lines.place(offset), found.file)


def _double_keys(found: Object) -> Iterator[Finding]:
    if _names(found, "data").count(RULE_KEY) > 1:
        message = (
            f"{RULE_KEY} is written twice in this ConfigMap; kubectl refuses that, other tools take"
            " the last"
        )
        yield found.finding(("data", RULE_KEY), "DuplicateKey", message, "delete one of them")


def _immutable(found: Object) -> Iterator[Finding]:
    value = found.root.get("immutable")
    if value is not None and value.text == "true":
        yield found.placed(immutable_finding())


def _options(found: Object) -> Iterator[Finding]:
    holder = found.root.get("metadata", "annotations")
    members = holder.members if holder else []
    _, faults = read_options(
        {key.text: value.string for key, value in members if value.string is not None}
    )
    yield from map(found.placed, faults)


def _names(found: Object, field: str) -> list[str]:
    holder = found.root.get(field)
    return [key.text for key, _ in holder.members] if holder else []
