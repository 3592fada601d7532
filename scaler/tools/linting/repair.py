"""Corrects a rule where the cure is beyond doubt, and leaves every other byte of the file as it is.

Applies the edits that findings carry, then lints the result: whatever is still an error makes it refuse.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from scaler.rules.finding import Finding
from scaler.tools.linting.configmap import is_rule_map, rule_value, spans_of
from scaler.tools.linting.document import examine
from scaler.tools.linting.jsontext import Edit
from scaler.tools.linting.lint import BOM, Source, decode, is_manifest, lint
from scaler.tools.linting.manifest import Object, Value, objects
from scaler.tools.linting.position import Span

MAX_ROUNDS = 20
"""A document shows at most 100 faults at a time, and some hide others."""
_BLANK = " \t\r\n"


class Repair(msgspec.Struct, frozen=True):
    """`text` is the corrected file, "" when `remaining` says which errors have no cure beyond doubt."""

    text: str
    changed: int
    """How many places were changed."""
    remaining: list[Finding]


def repair(source: Source) -> Repair:
    """Correct one file. Never raises."""
    text, fault = decode(source.data, source.name)
    if fault is not None:
        return Repair("", 0, [fault])
    changed = 0
    for _ in range(MAX_ROUNDS):
        better, count = _one_round(text, source.name)
        if not count:
            break
        text, changed = better, changed + count
    report = lint([msgspec.structs.replace(source, data=text.encode())])
    remaining = [finding for finding in report.findings if finding.level == "error"]
    return Repair("" if remaining else text, changed, remaining)


def _one_round(text: str, name: str) -> tuple[str, int]:
    if not is_manifest(text):
        return _applied(text, examine(text).edits)
    mark = BOM if text.startswith(BOM) else ""
    found, _ = objects(text.removeprefix(mark), name, alone=True)
    edits = [edit for one in found if is_rule_map(one, wanted=False) for edit in _edits_in_file(one)]
    better, count = _applied(text.removeprefix(mark), edits)
    return mark + better, count


def _edits_in_file(found: Object) -> list[Edit]:
    """The edits of one ConfigMap's document, moved to where the document stands in the file."""
    value = rule_value(found)
    if value is None or value.string is None:
        return []
    edits = examine(value.text).edits
    spans = spans_of(found, value) if edits else None
    return [_moved(edit, value, spans) for edit in edits] if spans else []


def _moved(edit: Edit, value: Value, spans: Sequence[Span]) -> Edit:
    # Only what is not blank has an exact place (see position.align): a span is tied to such characters at its ends.
    behind_blank = edit.start > 0 and value.text[edit.start : edit.start + 1] in _BLANK
    start = spans[edit.start - 1][1] if behind_blank else spans[edit.start][0]
    end = spans[edit.end - 1][1] if edit.end > edit.start else start
    return Edit(start, max(start, end), _in_style(edit.text, value.style))


def _in_style(text: str, style: str) -> str:
    if style == '"':
        return json.dumps(text, ensure_ascii=False)[1:-1]
    return text.replace("'", "''") if style == "'" else text


def _applied(text: str, edits: Sequence[Edit]) -> tuple[str, int]:
    """The text with the edits made; of several for one span the last wins, of overlapping ones the first."""
    spans = {(edit.start, edit.end): edit for edit in edits}
    parts: list[str] = []
    done = count = 0
    for (start, end), edit in sorted(spans.items()):
        if start >= done:
            parts += [text[done:start], edit.text]
            done, count = end, count + 1
    return "".join(parts) + text[done:], count
