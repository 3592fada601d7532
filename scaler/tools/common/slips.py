"""Typos in labels: names that are nearly one of ours, values that are nearly one of the known
values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from scaler.names import (
    BESIDE_LABEL,
    GROUP_LABEL,
    INSTALL_LABEL,
    JOB_ID_LABEL,
    KEPT_FOR_LABEL,
    NAMESPACE_LABEL,
)
from scaler.names import RULE_LABEL as RULE
from scaler.rules.finding import Finding, shown
from scaler.rules.labels import LABELS, group_finding, label_findings, nearest

APP_LABEL = "app"
APPS = ("mindie-ms-server", "mindie-ms-controller", "mindie-ms-coordinator")
"""Values of the label `app` that ClusterD needs for the global rank table of a MindIE service."""

_OURS = (RULE, GROUP_LABEL, JOB_ID_LABEL)
_KNOWN = {*_OURS, NAMESPACE_LABEL, BESIDE_LABEL, KEPT_FOR_LABEL, INSTALL_LABEL}
_LONGEST = 256
_ALIKE = 0.9
"""Similarity of two words, from 0 to 1, from which on one is a typo of the other, if that is the
only candidate."""
_SHORTEST = 4
"""Least letters of a part of a word in which a typo is certain."""


def all_label_faults(labels: Mapping[str, str], what: str) -> Iterator[Finding]:
    """Findings about the labels of `what` ("this job"); none if no label is ours, or nearly."""
    meant = dict(misspelt(labels))
    for name, wrong in meant.items():
        message = f"label {wrong} means nothing; did you mean {name}?"
        hint = f"write {name}: {labels[wrong]}"
        yield Finding("LabelMisspelt", (*LABELS, wrong), message, hint, on_key=True, cure=name)
    yield from app_faults(labels)
    for fault in label_findings(
        {**labels, **{name: labels[wrong] for name, wrong in meant.items()}}, what
    ):
        if fault.path[-1] not in meant:
            yield fault


def app_faults(labels: Mapping[str, str]) -> Iterator[Finding]:
    """A misspelt value of MindIE's own label `app`, on an object of a service."""
    app = labels.get(APP_LABEL, "")
    near = nearest(app, APPS) if app and JOB_ID_LABEL in labels and app not in APPS else ""
    if near:
        sure = _is_alike(app, near)
        message = (
            f"label app is {shown(app)}; ClusterD knows {near}, and makes no global rank table"
            " without it"
        )
        level, cure = ("error", near) if sure else ("warning", "")
        fault = Finding(
            "AppUnknown", (*LABELS, APP_LABEL), message, f"write app: {near}", cure=cure
        )
        yield msgspec.structs.replace(fault, level=level)


def unknown_group(group: str, groups: tuple[str, ...]) -> Finding | None:
    """The finding about a group that is not in the `groups` of the rule, with its cure if that is
    certain."""
    fault = group_finding(group, groups)
    near = nearest(group, groups) if fault is not None else ""
    return (
        msgspec.structs.replace(fault, cure=near)
        if fault is not None and is_sure(group, near)
        else fault
    )


def misspelt(labels: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Our label names that are missing, each with the existing name that was probably meant."""
    there = set(labels)
    for right in _OURS:
        wrong = []
        for name in sorted(there - _KNOWN):
            if right not in there and _is_meant_as(name, right):
                wrong.append(name)
        if wrong and (
            right != JOB_ID_LABEL or any(name.partition("/")[0] == "mind-cluster" for name in there)
        ):
            yield right, wrong[0]


def _is_meant_as(name: str, right: str) -> bool:
    bare = _bare(name)
    meant = _bare(right)
    forgot_the_prefix = right == RULE and bare == _bare(right.partition("/")[2])
    return bare == meant or forgot_the_prefix or (right != JOB_ID_LABEL and _is_alike(bare, meant))


def _bare(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower()[:_LONGEST])


def is_sure(word: str, right: str) -> bool:
    """Whether one word is a typo of the other: letters exchanged, one too many or one too few, in
    one of its longer parts. A difference in a number, or in a part as short as `a` and `b`, may be
    intended."""
    left = _parts(word)
    wanted = _parts(right)
    pairs = [pair for pair in zip(left, wanted, strict=False) if pair[0] != pair[1]]
    if len(left) != len(wanted) or len(pairs) != 1 or min(map(len, pairs[0])) < _SHORTEST:
        return False
    short, long = sorted(pairs[0], key=len)
    return sorted(short) == sorted(long) or any(
        long[:at] + long[at + 1 :] == short for at in range(len(long))
    )


def _parts(word: str) -> list[str]:
    """`group0` has the parts `group` and `0`."""
    return re.findall("[A-Za-z]+|[0-9]+|[^A-Za-z0-9]+", word[:_LONGEST])


def _is_alike(word: str, right: str) -> bool:
    return difflib.SequenceMatcher(None, word[:_LONGEST], right).ratio() >= _ALIKE
