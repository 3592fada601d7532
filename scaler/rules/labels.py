"""Judges the labels that say which service, and which group of it, an instance belongs to.

One wording for `scaler lint`, for admission and for what runs. It knows labels as a mapping, not the objects that carry
them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scaler.names import (
    BESIDE_LABEL,
    GROUP_LABEL,
    INSTALL_LABEL,
    JOB_ID_LABEL,
    KEPT_FOR_LABEL,
    NAMESPACE_LABEL,
    RULE_LABEL,
)
from scaler.rules.finding import Fault, Path, shown

LABELS: Path = ("metadata", "labels")
GROUP_PATH: Path = (*LABELS, GROUP_LABEL)
APP_LABEL = "app"
APPS = ("mindie-ms-server", "mindie-ms-controller", "mindie-ms-coordinator")
"""What ClusterD looks for in the label `app` when it makes the global rank table of a MindIE service."""
LONGEST_LABEL = 63

_NEEDED = {
    RULE_LABEL: ("RuleLabelEmpty", "name the rule's ConfigMap"),
    GROUP_LABEL: ("GroupLabelMissing", "name the group that this instance belongs to, for instance group0"),
    JOB_ID_LABEL: ("JobIdMissing", "name the service, the same for all of its jobs"),
}
_KNOWN = {*_NEEDED, NAMESPACE_LABEL, BESIDE_LABEL, KEPT_FOR_LABEL, INSTALL_LABEL}
_ALIKE = 0.9
"""How alike two words are, from 0 to 1, when one is meant as the other that is the only one of its sort."""
_SHORTEST = 4
"""Letters of a part of a word in which a slip of the finger can be told from another word."""


def label_faults(labels: Mapping[str, object], what: str) -> Iterator[Fault]:
    """What is wrong with the labels of `what` ("this job"); nothing where none is ours."""
    meant = dict(misspelt(labels))
    for name, wrong in meant.items():
        message = f"label {wrong} means nothing; did you mean {name}?"
        path = (*LABELS, wrong)
        yield Fault("LabelMisspelt", path, message, f"write {name}: {labels[wrong]}", on_key=True, cure=name)
    yield from _app_faults(labels)
    if RULE_LABEL not in labels and RULE_LABEL not in meant:
        if GROUP_LABEL in labels:
            message = f"{GROUP_LABEL} without {RULE_LABEL}: no rule decides about {what}"
            yield Fault("RuleLabelMissing", GROUP_PATH, message, f"add {RULE_LABEL}: ...", "warning")
        return
    for name, (code, hint) in _NEEDED.items():
        if not labels.get(name) and name not in meant:
            found = "is empty" if name in labels else "is missing"
            yield Fault(code, (*LABELS, name), f"label {name} {found}", f"{hint}: {name}: ...")


def _app_faults(labels: Mapping[str, object]) -> Iterator[Fault]:
    """MindIE's own labels with a slip of the finger."""
    app = labels.get(APP_LABEL)
    near = nearest(app, APPS) if isinstance(app, str) and JOB_ID_LABEL in labels and app not in APPS else ""
    if near:
        sure = _is_alike(str(app), near)
        message = f"label app is {shown(app)}; ClusterD knows {near}, and makes no global rank table without it"
        path = (*LABELS, APP_LABEL)
        yield Fault(
            "AppUnknown", path, message, f"write app: {near}", "error" if sure else "warning", cure=near if sure else ""
        )


def misspelt(labels: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Which of our label names are missing, and the name that is there and was probably meant as it."""
    names = [name for name in labels if name not in _KNOWN]
    for right in (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL):
        if right not in labels:
            wrong = [name for name in names if _is_meant_as(name, right)]
            if wrong and (right != JOB_ID_LABEL or any(name.partition("/")[0] == "mind-cluster" for name in labels)):
                yield right, wrong[0]


def _is_meant_as(name: str, right: str) -> bool:
    bare, meant = _bare(name), _bare(right)
    forgot_the_prefix = right == RULE_LABEL and bare == _bare(right.partition("/")[2])
    return bare == meant or forgot_the_prefix or (right != JOB_ID_LABEL and _is_alike(bare, meant))


def _bare(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower()[: 4 * LONGEST_LABEL])


def is_sure(word: str, right: str) -> bool:
    """Whether one is the other with letters exchanged, one too many or one too few, in one of its longer parts: what
    differs in a number, or in a part as short as an `a` and a `b`, may well be something else."""
    parts = [pair for pair in zip(_parts(word), _parts(right), strict=False) if pair[0] != pair[1]]
    if len(_parts(word)) != len(_parts(right)) or len(parts) != 1 or min(map(len, parts[0])) < _SHORTEST:
        return False
    short, long = sorted(parts[0], key=len)
    exchanged = sorted(short) == sorted(long)
    return exchanged or any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def _parts(word: str) -> list[str]:
    """`group0` has the parts `group` and `0`."""
    return re.findall("[A-Za-z]+|[0-9]+|[^A-Za-z0-9]+", word[:LONGEST_LABEL])


def _is_alike(word: str, right: str) -> bool:
    return difflib.SequenceMatcher(None, word, right).ratio() >= _ALIKE


def nearest(word: str, known: Sequence[str]) -> str:
    """The one of `known` that `word` was probably meant as; "" when none is near, or two are as near as each other."""
    word = word[:LONGEST_LABEL]
    near = difflib.get_close_matches(word, known, n=2, cutoff=0.7)
    ratios = [difflib.SequenceMatcher(None, word, one).ratio() for one in near]
    return near[0] if len(near) == 1 or (near and ratios[0] > ratios[1]) else ""


def group_fault(group: str, groups: Sequence[str]) -> Fault | None:
    """The fault of a group that the rule, which has `groups`, does not know."""
    if group in groups:
        return None
    names, near = ", ".join(groups), nearest(group, groups)
    message = f"the rule has no group {shown(group)}; it has {names}"
    hint = f"did you mean {near}?" if near else f"write one of {names}"
    return Fault("GroupUnknown", GROUP_PATH, message, hint, cure=near if near and is_sure(group, near) else "")
