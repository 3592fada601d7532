"""Judges the meaning of a decoded rule document: every fault at once, each with its path.

Works on plain values, so what the controller and what the linter has read are judged by the same code. It must not
know about text, files or Kubernetes objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from scaler.rules.finding import Fault, Path, shown
from scaler.rules.limits import MAX_RATIOS
from scaler.rules.rule import Ratio, Rule
from scaler.rules.shape import LIST, number, shape_faults


class _Group(msgspec.Struct, frozen=True):
    """A group as far as it can be read."""

    path: Path
    num: int | None
    size: int | None


class _Entry(msgspec.Struct, frozen=True):
    """A ratio as far as it can be read."""

    path: Path
    server_count: Any
    groups: dict[str, _Group] = {}
    whole: bool = False
    """Nothing in it is unreadable."""

    @property
    def counts(self) -> dict[str, int]:
        return {name: group.num or 0 for name, group in self.groups.items()}

    @property
    def zero(self) -> bool:
        """Whole, and of only zeros."""
        return self.whole and not any(group.num for group in self.groups.values())


def check(value: object) -> tuple[Rule | None, list[Fault]]:
    """The rule that a decoded document means, None when some fault is an error, and all faults."""
    faults = [*shape_faults(value), *_version(value)]
    entries = [_entry((LIST, i), entry, faults) for i, entry in _items(value, LIST)]
    for judge in (_steps, _sizes, _zeros, _advice):
        faults += judge(entries)
    if any(fault.level == "error" for fault in faults):
        return None, faults
    return Rule(tuple(_ratios(entry for entry in entries if not entry.zero))), faults


def _ratios(entries: Iterable[_Entry]) -> Iterator[Ratio]:
    """Nearly always all have the same groups, so that one object has the sizes of all."""
    sizes: dict[str, int] = {}
    for entry in entries:
        own = {name: group.size or 0 for name, group in entry.groups.items()}
        sizes = sizes if sizes == own else own
        yield Ratio(counts=entry.counts, sizes=sizes)


def _version(value: object) -> Iterator[Fault]:
    """A version other than "1.0"."""
    version = value.get("version", "") if isinstance(value, dict) else None
    if isinstance(value, dict) and "version" not in value:
        yield Fault("VersionUnknown", (), 'no "version"; read as "1.0"', 'add "version": "1.0"', "warning")
    elif isinstance(version, str) and version != "1.0":
        message = f'version {shown(version)} is not known; read as "1.0"'
        yield Fault("VersionUnknown", ("version",), message, 'write "1.0"', "warning")


# -- reading what can be read ---------------------------------------------------------------------------------


def _items(holder: object, name: str) -> Iterator[tuple[int, Any]]:
    """The elements of the list under `name` with their indices; none where there is no such list. What is too long is
    a fault of the shape, and its end is not looked at."""
    listed = holder.get(name) if isinstance(holder, dict) else None
    return enumerate(itertools.islice(listed, MAX_RATIOS)) if isinstance(listed, list) else iter(())


def _entry(path: Path, entry: object, faults: list[Fault]) -> _Entry:
    groups: dict[str, _Group] = {}
    whole = True
    for j, raw in _items(entry, "group_list"):
        here = (*path, "group_list", j)
        if not isinstance(raw, dict) or not isinstance(name := raw.get("group_name"), str):
            whole = False
            continue
        if name in groups:
            message = f"group {shown(name)} is named twice in this ratio"
            faults.append(Fault("DuplicateGroup", (*here, "group_name"), message, "delete one of them"))
        group = _Group(here, number(raw.get("group_num")), number(raw.get("server_num_per_group")))
        whole = whole and group.num is not None and group.size is not None
        groups[name] = group
    server_count = entry.get("server_count") if isinstance(entry, dict) else None
    return _Entry(path, server_count, groups, whole and bool(groups))


# -- how ratios follow from each other ------------------------------------------------------------------------


def _steps(entries: Sequence[_Entry]) -> Iterator[Fault]:
    for before, entry in itertools.pairwise(entries):
        for name, group in entry.groups.items():
            above = before.groups.get(name)
            if above is None and before.whole:
                message = f"group {shown(name)} is not in the ratio before this one"
                hint = "add it there with at least as many instances, or delete it here"
                yield Fault("GroupNotInPreviousRatio", (*group.path, "group_name"), message, hint)
            elif above is not None and group.num is not None and above.num is not None and group.num > above.num:
                message = f"{group.num} instances of {shown(name)}, but the ratio before has only {above.num}"
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
    total = sum((group.num or 0) * (group.size or 0) for group in entry.groups.values())
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
