"""A rule document as `scaler lint` reads it: it continues after text that is no JSON, with all
faults and their cures.

The result is that of rules.document: lint accepts what the controller accepts, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.rules.check import check
from scaler.rules.document import judge, placed, shortened
from scaler.rules.finding import Finding, Path
from scaler.rules.model import RuleDocument
from scaler.rules.rule import Rule
from scaler.tools.lint.jsontext import Edit, Node, TextFinding
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
    def edits(self) -> list[Edit]:
        """All cures; none after a place where the meaning of the text is uncertain, and none on a
        line with a quote that is missing somewhere."""
        doubts = []
        for fault in self.faults:
            if fault.code in _DOUBTS and getattr(fault, "edit", None) is None:
                doubts.append(fault.start)
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
