"""Judges the meaning of a decoded rule document: every fault at once, each with its path.

Works on plain values, so the controller's fast path (json.loads) and the linter (rules.jsontext) are judged by the
same code. It must not know about text, files or Kubernetes objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from scaler.rules.finding import Fault, Path, shown
from scaler.rules.rule import Ratio, Rule
from scaler.rules.shape import LIST, items, number, shape_faults, unknown_keys, version_faults

MAX_OF_A_KIND = 200


class _Group(msgspec.Struct, frozen=True):
    """A group as far as it can be read."""

    path: Path
    name: str
    num: int | None
    size: int | None


class _Entry(msgspec.Struct, frozen=True):
    """A ratio as far as it can be read."""

    path: Path
    groups: dict[str, _Group]
    counts: dict[str, int]
    server_count: Any
    whole: bool
    """Nothing in it is unreadable."""
    zero: bool
    """Whole, and of only zeros."""


def check(value: object) -> tuple[Rule | None, list[Fault]]:
    """The rule that a decoded document means, None when some fault is an error, and all faults."""
    faults = [*_first(shape_faults(value)), *_first(unknown_keys(value)), *version_faults(value)]
    entries, duplicates = _entries(value)
    faults += duplicates
    faults += _steps(entries)
    faults += _sizes(entries)
    faults += _zeros(entries)
    faults += _advice(entries)
    if any(fault.level == "error" for fault in faults):
        return None, faults
    return _rule(entries), faults


def _first(faults: Iterator[Fault]) -> Iterator[Fault]:
    """Enough for anybody to see; wording more would only cost the controller its time."""
    return itertools.islice(faults, MAX_OF_A_KIND)


def _rule(entries: Sequence[_Entry]) -> Rule:
    ratios = (
        Ratio(counts=entry.counts, sizes={name: group.size or 0 for name, group in entry.groups.items()})
        for entry in entries
        if not entry.zero
    )
    return Rule(tuple(ratios))


# -- reading what can be read ---------------------------------------------------------------------------------


def _entries(value: object) -> tuple[list[_Entry], list[Fault]]:
    faults: list[Fault] = []
    listed = value.get(LIST) if isinstance(value, dict) else None
    return [_entry((LIST, i), entry, faults) for i, entry in items(listed)], faults


def _entry(path: Path, entry: object, faults: list[Fault]) -> _Entry:
    listed = entry.get("group_list") if isinstance(entry, dict) else None
    groups: dict[str, _Group] = {}
    whole = isinstance(listed, list) and bool(listed)
    for j, raw in items(listed):
        group = _group((*path, "group_list", j), raw)
        if group is None:
            whole = False
            continue
        whole = whole and group.num is not None and group.size is not None
        if group.name in groups:
            message = f"group {shown(group.name)} is named twice in this ratio"
            faults.append(Fault("DuplicateGroup", (*group.path, "group_name"), message, "delete one of them"))
        groups[group.name] = group
    counts = {name: group.num or 0 for name, group in groups.items()}
    server_count = entry.get("server_count") if isinstance(entry, dict) else None
    return _Entry(path, groups, counts, server_count, whole, zero=whole and not any(counts.values()))


def _group(path: Path, raw: object) -> _Group | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("group_name"), str):
        return None
    return _Group(path, raw["group_name"], number(raw.get("group_num")), number(raw.get("server_num_per_group")))


# -- how ratios follow from each other ------------------------------------------------------------------------


def _steps(entries: Sequence[_Entry]) -> Iterator[Fault]:
    for before, entry in itertools.pairwise(entries):
        for name, group in entry.groups.items():
            above = before.groups.get(name)
            if above is not None:
                yield from _rising(above, group)
            elif before.whole:
                message = f"group {shown(name)} is not in the ratio before this one"
                hint = "add it there with at least as many instances, or delete it here"
                yield Fault("GroupNotInPreviousRatio", (*group.path, "group_name"), message, hint)


def _rising(above: _Group, group: _Group) -> Iterator[Fault]:
    if group.num is None or above.num is None or group.num <= above.num:
        return
    message = f"{group.num} instances of {shown(group.name)}, but the ratio before has only {above.num}"
    hint = f'ratios go from the largest to the smallest: write at most "{above.num}"'
    yield Fault("GroupNumRising", (*group.path, "group_num"), message, hint)


def _sizes(entries: Sequence[_Entry]) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for entry in entries:
        for name, group in entry.groups.items():
            if group.size is not None and first.setdefault(name, group.size) != group.size:
                message = f"{group.size} pods per instance of {shown(name)}, but {first[name]} in an earlier ratio"
                hint = f'an instance cannot change its size: write "{first[name]}"'
                yield Fault("ServerNumDiffers", (*group.path, "server_num_per_group"), message, hint)


def _zeros(entries: Sequence[_Entry]) -> Iterator[Fault]:
    zeros = [entry for entry in entries if entry.zero]
    if entries and len(zeros) == len(entries):
        message = "every group_num is 0: no instance could ever start"
        yield Fault("OnlyZeros", (LIST,), message, "write the numbers of instances")
        return
    for entry in zeros:
        yield Fault("ZeroRatioIgnored", entry.path, "a ratio of only zeros; it is ignored", "delete it", "warning")


def _advice(entries: Sequence[_Entry]) -> Iterator[Fault]:
    """Warnings: what is allowed but hardly meant."""
    for before, entry in itertools.pairwise(entries):
        if entry.whole and before.whole and entry.counts == before.counts:
            message = "the same ratio as the one before"
            yield Fault("EqualNeighbours", entry.path, message, "delete one of them", "warning")
    for entry in entries:
        yield from _server_count(entry)
        yield from _order(entries[0], entry)
    if all(entry.whole for entry in entries):
        yield from _not_in_smallest([entry for entry in entries if not entry.zero])


def _server_count(entry: _Entry) -> Iterator[Fault]:
    if entry.server_count is None or not entry.whole:
        return
    total = sum(entry.counts[name] * (group.size or 0) for name, group in entry.groups.items())
    if entry.server_count != str(total):
        path = (*entry.path, "server_count")
        message = f"server_count is {shown(entry.server_count)}, but the groups of this ratio add up to {total}"
        yield Fault("ServerCountDiffers", path, message, f'write "{total}"; it is not used here', "warning")


def _order(first: _Entry, entry: _Entry) -> Iterator[Fault]:
    if list(entry.groups) == list(first.groups):  # nearly always
        return
    common = [name for name in entry.groups if name in first.groups]
    if common != [name for name in first.groups if name in entry.groups]:
        message = "the groups stand in another order than in the first ratio"
        hint = "keep the order prefill, decode: MindIE Controller reads the first ratio by position"
        yield Fault("GroupOrderDiffers", (*entry.path, "group_list"), message, hint, "warning")


def _not_in_smallest(entries: Sequence[_Entry]) -> Iterator[Fault]:
    if not entries:
        return
    smallest = entries[-1]
    for name, group in entries[0].groups.items():
        if group.num and not smallest.counts.get(name):
            message = f"the smallest ratio has no instance of {shown(name)}: the service counts as serving without it"
            hint = "write at least 1 if the service cannot answer without this group"
            place = (*smallest.groups[name].path, "group_num") if name in smallest.groups else smallest.path
            yield Fault("GroupNotInSmallest", place, message, hint, "warning")
