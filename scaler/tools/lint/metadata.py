"""Checks labels and annotations: the API server accepts only strings, and as labels only some
strings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaler.rules.finding import Finding, Path, shown
from scaler.tools.common.manifest import Object, Value

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def metadata_findings(found: Object) -> Iterator[Finding]:
    """Labels and annotations for which the API server refuses the object."""
    yield from label_findings(found, ("metadata", "labels"))
    yield from _not_strings(found, ("metadata", "annotations"), "AnnotationNotAString")


def label_findings(found: Object, path: Path) -> Iterator[Finding]:
    """The same for the labels at `path`."""
    yield from _not_strings(found, path, "LabelNotAString")
    for key, value in _members(found, path):
        if value.string is not None and not _LABEL_VALUE.fullmatch(value.string):
            message = (
                f"{shown(value.string)} cannot be the value of a label: the API server refuses the"
                " object"
            )
            hint = (
                "write letters, digits, '-', '_' or '.', at most 63 of them, a letter or digit at"
                " both ends"
            )
            yield found.finding((*path, key.text), "LabelInvalid", message, hint)


def _not_strings(found: Object, path: Path, code: str) -> Iterator[Finding]:
    for key, value in _members(found, path):
        if value.string is None and not value.null:
            what = shown(value.text)[1:-1] if value.kind == "scalar" else f"a {value.kind}"
            message = f"{key.text} is {what}, not a string: the API server refuses the object"
            hint = (
                f'write {key.text}: "{value.text}"' if value.kind == "scalar" else "write a string"
            )
            yield found.finding((*path, key.text), code, message, hint)


def _members(found: Object, path: Path) -> list[tuple[Value, Value]]:
    holder = found.root.get(*path)
    return holder.members if holder else []
