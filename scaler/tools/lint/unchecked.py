"""The objects that were not checked, in words, and the findings when no rule was named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.names import KEPT_FOR_ANNOTATION
from scaler.rules.finding import Finding
from scaler.tools.common.manifest import Object
from scaler.tools.lint.guess import likely_kind
from scaler.tools.lint.pairing import HOLDERS, is_ours
from scaler.tools.lint.workloads import labels_are_its_own, roles_of

MOST_SHOWN = 8
"""Kinds of unchecked objects that are named in one line, and objects that get a finding."""


def counted(words: Mapping[str, int]) -> str:
    """`1 Namespace, 2 Service`, the most frequent first."""
    several = sorted(words.items(), key=lambda one: (-one[1], one[0]))
    shown = []
    for what, number in several[:MOST_SHOWN]:
        shown.append(f"{number} {_several(what, number)}")
    rest = f" and {len(several) - MOST_SHOWN} other kinds" if len(several) > MOST_SHOWN else ""
    return ", ".join(shown) + rest


def kind_in_words(found: Object) -> str:
    """The words for an object that was not checked."""
    kind = found.kind or "object without a kind"
    if found.kind in HOLDERS:
        return f"{kind} of the scaler itself" if is_ours(found) else f"{kind} without a rule"
    checked = labels_are_its_own(found) or roles_of(found)
    return f"{kind} without a rule" if checked else kind


def nothing_checked(file: str, left_out: Sequence[Object], words: Mapping[str, int]) -> Finding:
    if not left_out:
        message = "nothing to check: no rule, and nothing that names one"
        return Finding("NothingToCheck", (), message, "is this the right file?", "warning").at(
            1, 1, file
        )
    first = left_out[0]
    line, column = first.lines.place(first.root.start)
    near = likely_kind(first.kind)
    kept_for = first.root.string_at("metadata", "annotations", KEPT_FOR_ANNOTATION)
    hint = "give the rule's ConfigMap, or what names it with the label mind-cluster/scaling-rule"
    if near:
        hint = f"did you mean kind: {near}?"
    elif kept_for:
        hint = f"the rule is ConfigMap {kept_for}"
    elif label_places(first):
        hint = _where(first)
    message = f"nothing to check: there is {counted(words)}"
    return Finding("NothingToCheck", (), message, hint, "warning").at(line, column, first.file)


def names_no_rule(found: Object) -> Finding:
    """The finding about a workload without a rule, beside rules that no workload names."""
    message = f"this {found.kind} names no rule, and nothing else here names one"
    return Finding("NamesNoRule", ("metadata", "name"), message, _where(found), "warning")


def label_places(found: Object) -> list[str]:
    """The paths of the labels of an object, in the form of kubectl explain."""
    places: list[str] = []
    for role in roles_of(found) or ():
        if role.is_instance:
            for path in role.labels.values():
                places.append(".".join(map(str, path)))
    return places


def _where(found: Object) -> str:
    return (
        "the scaler leaves its pods alone; the labels that say otherwise belong at"
        f" {' and '.join(label_places(found))}"
    )


def _several(what: str, number: int) -> str:
    kind, blank, more = what.partition(" ")
    if number > 1:
        kind += "es" if kind.endswith("s") else "s"
    return f"{kind}{blank}{more}"
