"""Checks the three labels that name service and group of an instance: for `scaler lint`, admission
and controller."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.rules.finding import Finding, Path, shown

LABELS: Path = ("metadata", "labels")
GROUP_PATH: Path = (*LABELS, GROUP_LABEL)

_NEEDED = {
    RULE_LABEL: ("RuleLabelEmpty", "name the rule's ConfigMap"),
    GROUP_LABEL: (
        "GroupLabelMissing",
        "name the group that this instance belongs to, for instance group0",
    ),
    JOB_ID_LABEL: ("JobIdMissing", "name the service, the same for all of its jobs"),
}


def label_findings(labels: Mapping[str, object], what: str) -> Iterator[Finding]:
    """The missing labels of `what` ("this job"); nothing if neither a rule nor a group is named."""
    if RULE_LABEL not in labels:
        if GROUP_LABEL in labels:
            message = f"{GROUP_LABEL} without {RULE_LABEL}: no rule decides about {what}"
            yield Finding(
                "RuleLabelMissing", GROUP_PATH, message, f"add {RULE_LABEL}: ...", "warning"
            )
        return
    for name, (code, hint) in _NEEDED.items():
        if not labels.get(name):
            found = "is empty" if name in labels else "is missing"
            yield Finding(code, (*LABELS, name), f"label {name} {found}", f"{hint}: {name}: ...")


def nearest(word: str, known: Sequence[str]) -> str:
    """The entry of `known` that `word` most probably means; "" when none is near, or two are
    equally near."""
    word = word[:63]
    near = difflib.get_close_matches(word, known, n=2, cutoff=0.7)
    ratios = [difflib.SequenceMatcher(None, word, one).ratio() for one in near]
    return near[0] if len(near) == 1 or (near and ratios[0] > ratios[1]) else ""


def group_finding(group: str, groups: Sequence[str]) -> Finding | None:
    """The finding about a group that is not among the `groups` of the rule."""
    if group in groups:
        return None
    names = ", ".join(groups)
    near = nearest(group, groups)
    message = f"the rule has no group {shown(group)}; it has {names}"
    return Finding(
        "GroupUnknown",
        GROUP_PATH,
        message,
        f"did you mean {near}?" if near else f"write one of {names}",
    )
