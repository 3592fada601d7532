"""A rule document as `scaler lint` reads it: it continues after text that is no JSON, with all
faults and their cures.

The result is that of rules.document: lint accepts what the controller accepts, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from scaler.rules.check import check
from scaler.rules.document import judge, placed, shortened
from scaler.rules.finding import Finding, Path
from scaler.rules.model import RuleDocument
from scaler.rules.quotes import Edit
from scaler.rules.rule import Rule
from scaler.tools.lint.jsontext import Node, TextFinding
from scaler.tools.lint.quotes import read
from scaler.tools.lint.steps import step_faults

_DOUBTS = (
    "NotJson",
    "MissingQuote",
    "TrailingText",
    "BraceInComment",
    "NestedTooDeep",
    "CommentInJson",
)


class Examination(msgspec.Struct, frozen=True):
    """The value of a document, with each fault's offset in its text; faults are in the order of the
    text."""

    rule: Rule | None
    faults: tuple[Finding, ...]

    @property
    def doubts(self) -> list[int]:
        """The places from which on the meaning of the text is uncertain."""
        found = []
        for fault in self.faults:
            if fault.code in _DOUBTS and getattr(fault, "edit", None) is None:
                found.append(fault.start)
        return found

    @property
    def edits(self) -> list[Edit]:
        """All cures; none after a place where the meaning of the text is uncertain."""
        doubts = self.doubts
        edits = []
        for fault in self.faults:
            if isinstance(fault, TextFinding) and fault.edit is not None:
                edits.append(fault.edit)
        return [edit for edit in edits if not doubts or edit.end <= min(doubts)]


def read_document(text: str) -> tuple[Rule | None, tuple[Finding, ...]]:
    """Read the bare JSON: the rule, None when there is any error, and all findings. Never
    raises."""
    examination = examine(text)
    return examination.rule, placed(examination.faults, text)


def examine(text: str) -> Examination:
    """Read the bare JSON, keeping offsets and cures. Never raises."""
    rule, faults = judge(text)
    steps = list(step_faults(rule)) if rule is not None else []
    if not (faults or steps) or (faults and faults[0].code == "DocumentTooLarge"):
        return Examination(rule, faults)
    reading = read(text)
    found: list[Finding] = [*reading.faults]
    if reading.root is not None:
        meaning = check(reading.root.value)[1]
        found += [_located(fault, reading.root, text) for fault in (*meaning, *steps)]
    return Examination(rule, shortened(found))


def certain_edits(text: str) -> list[Edit]:
    """The cures of a document after which no line that they change is still in doubt."""
    edits = examine(text).edits
    while edits:
        better, _ = applied(text, edits)
        doubts = examine(better).doubts
        broken = {better.count("\n", 0, doubt) for doubt in doubts}
        kept = [edit for edit in edits if text.count("\n", 0, edit.start) not in broken]
        if len(kept) == len(edits):
            break
        edits = kept
    return edits


def applied(text: str, edits: Sequence[Edit]) -> tuple[str, int]:
    """The text with the edits applied, and how many there are; of several for one span the last
    counts, of overlapping ones the first."""
    spans = {(edit.start, edit.end): edit for edit in edits}
    parts: list[str] = []
    done = count = 0
    for (start, end), edit in sorted(spans.items()):
        if start >= done:
            parts += [text[done:start], edit.text]
            done = end
            count += 1
    return "".join(parts) + text[done:], count


def _located(fault: Finding, root: Node, text: str) -> TextFinding:
    """The fault with its offset, and with its cure if a bare number only lacks its quotes."""
    node, key = _find(root, fault.path)
    start = key if fault.on_key and key >= 0 else node.start
    digits = text[node.start : node.end]
    bare = (
        fault.code == "NotADecimalString"
        and isinstance(node.value, int)
        and digits.isascii()
        and digits.isdigit()
    )
    edit = Edit(node.start, node.end, f'"{digits}"') if bare else None
    return TextFinding(
        fault.code,
        fault.path,
        fault.message,
        fault.hint,
        fault.level,
        start,
        fault.on_key,
        edit=edit,
    )


def _find(node: Node, path: Path) -> tuple[Node, int]:
    key = -1
    for step in path:
        if step not in node.children:
            break
        key = node.keys.get(step, -1) if isinstance(step, str) else -1
        node = node.children[step]
    return node, key


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a rule. Unknown members only give warnings, so the schema
    allows them."""
    schema = RuleDocument.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        del part["additionalProperties"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
