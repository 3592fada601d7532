"""Corrects a file where the cure is certain, and keeps every other byte of it.

Applies the edits of the findings, then lints the result and returns the errors that are left."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from scaler.rules.finding import Finding, Path
from scaler.rules.quotes import Edit
from scaler.tools.common.manifest import Object, Value, objects
from scaler.tools.common.position import Span
from scaler.tools.lint.configmap import is_rule_map, rule_value, spans_of
from scaler.tools.lint.document import applied, certain_edits
from scaler.tools.lint.files import lint
from scaler.tools.lint.guess import foreign_json, lost_indentation, yaml_document
from scaler.tools.lint.pairing import faults_of, is_made, rules_among
from scaler.tools.lint.source import BOM, Source, decode, is_manifest
from scaler.tools.lint.workloads import roles_of

MAX_ROUNDS = 20
"""A document shows at most 100 faults at a time, and some faults hide others."""
_BLANK = " \t\r\n"


class Repair(msgspec.Struct, frozen=True):
    """`text` is the file with every certain correction, and `remaining` the errors that are left in
    it."""

    text: str
    changed: int
    """Number of changed places."""
    remaining: list[Finding]
    """With their places in `text`."""


def repair(source: Source, beside: Sequence[Source] = ()) -> Repair:
    """Correct one file; `beside` are other files that may have the rules it names. Never raises."""
    text, fault = decode(source.data, source.name)
    if fault is not None:
        return Repair("", 0, [fault])
    others = [one for one in beside if one.name != source.name]
    known = []
    for other in others:
        known.extend(_objects(other))
    changed = 0
    for _ in range(MAX_ROUNDS):
        better, count = _one_round(text, source.name, known)
        if not count:
            break
        text = better
        changed += count
    report = lint([msgspec.structs.replace(source, data=text.encode()), *others])
    remaining = [one for one in report.findings if one.level == "error" and one.file == source.name]
    return Repair(text, changed, remaining)


def _objects(source: Source) -> list[Object]:
    text, _ = decode(source.data, source.name)
    return objects(text.removeprefix(BOM), source.name, alone=False)[0] if is_manifest(text) else []


def _one_round(text: str, name: str, beside: Sequence[Object]) -> tuple[str, int]:
    if not is_manifest(text):
        # A text that is probably no rule stays unchanged.
        other = yaml_document(text, name) or foreign_json(text, name)
        return (text, 0) if other is not None else applied(text, certain_edits(text))
    mark = BOM if text.startswith(BOM) else ""
    bare = text.removeprefix(mark)
    if lost_indentation(bare, name):
        return text, 0
    found, _ = objects(bare, name, alone=True)
    edits = []
    for one in found:
        if is_rule_map(one, wanted=False):
            edits.extend(_edits_in_file(one))
    _, rules = rules_among([*found, *beside])
    names = {(one.kind, one.name) for one in found}
    for one in found:
        faults = faults_of(one, rules) if not is_made(one, names) else None
        if faults is not None:
            edits += [*_cures(one, faults), *_quoted(one)]
    better, count = applied(bare, edits)
    return mark + better, count


def _cures(found: Object, faults: Sequence[Finding]) -> list[Edit]:
    """Edits for the faults that another word in their place corrects."""
    edits = []
    for fault in faults:
        value = found.nearest(fault.path, on_key=fault.on_key)
        if fault.cure and value.kind == "scalar" and value.style not in ("|", ">"):
            edits.append(Edit(value.start, value.end, _quoted_as(fault.cure, value.style)))
    return edits


def _quoted(found: Object) -> list[Edit]:
    """Edits that add quotes to labels that are numbers or booleans."""
    paths: list[Path] = [("metadata", "labels"), ("metadata", "annotations")]
    for role in roles_of(found) or ():
        paths.extend(role.labels.values())
    holders = []
    for path in dict.fromkeys(paths):
        if (holder := found.root.get(*path)) is not None:
            holders.append(holder)
    values = [value for holder in holders for _, value in holder.members]
    plain = []
    for one in values:
        if one.kind == "scalar" and one.string is None and not one.null and not one.style:
            plain.append(one)
    return [Edit(one.start, one.end, json.dumps(one.text, ensure_ascii=False)) for one in plain]


def _quoted_as(text: str, style: str) -> str:
    return f"{style}{text}{style}" if style else text


def _edits_in_file(found: Object) -> list[Edit]:
    """The edits of one ConfigMap's document, moved to the place of the document in the file."""
    value = rule_value(found)
    if value is None or value.string is None:
        return []
    edits = certain_edits(value.text)
    spans = spans_of(found, value) if edits else None
    return [_moved(edit, value, spans) for edit in edits] if spans else []


def _moved(edit: Edit, value: Value, spans: Sequence[Span]) -> Edit:
    # Only characters other than blanks have an exact place (see position.align): these mark the
    # ends of a span.
    behind_blank = edit.start > 0 and value.text[edit.start : edit.start + 1] in _BLANK
    start = spans[edit.start - 1][1] if behind_blank else spans[edit.start][0]
    end = spans[edit.end - 1][1] if edit.end > edit.start else start
    return Edit(start, max(start, end), _in_style(edit.text, value.style))


def _in_style(text: str, style: str) -> str:
    if style == '"':
        return json.dumps(text, ensure_ascii=False)[1:-1]
    return text.replace("'", "''") if style == "'" else text
