"""Checks the meaning of a decoded rule document: every finding at once, each with its path.

The input is plain values, not text, files or Kubernetes objects: the same code serves the
controller and the linter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scaler.rules.finding import Finding, Path, shown
from scaler.rules.limits import MAX_RATIOS
from scaler.rules.rule import Ratio, Rule
from scaler.rules.shape import LIST, number, shape_findings
from scaler.rules.values import as_list, at


class _Group(NamedTuple):
    path: Path
    num: int | None
    size: int | None


class _Entry(NamedTuple):
    """A ratio as far as it is readable. `whole`: all of it is readable."""

    path: Path
    server_count: Any
    groups: dict[str, _Group]
    whole: bool

    @property
    def counts(self) -> dict[str, int]:
        return {name: group.num or 0 for name, group in self.groups.items()}

    @property
    def zero(self) -> bool:
        return self.whole and not any(group.num for group in self.groups.values())


def check(value: object) -> tuple[Rule | None, list[Finding]]:
    """The rule of a decoded document, None when some finding is an error, and all findings."""
    found = list(shape_findings(value))
    document = at(value)
    version = document.get("version")
    if isinstance(value, dict) and "version" not in value:
        found.append(
            Finding(
                "VersionUnknown",
                (),
                'no "version"; read as "1.0"',
                'add "version": "1.0"',
                "warning",
            )
        )
    elif isinstance(version, str) and version != "1.0":
        message = f'version {shown(version)} is not known; read as "1.0"'
        found.append(Finding("VersionUnknown", ("version",), message, 'write "1.0"', "warning"))
    # Of too long a list, which is a finding of the shape, the end is not read.
    listed = as_list(document.get(LIST))[:MAX_RATIOS]
    entries = [_entry((LIST, i), entry, found) for i, entry in enumerate(listed)]
    for judge in (_steps, _zeros, _advice):
        found += judge(entries)
    if any(one.level == "error" for one in found):
        return None, found
    ratios: list[Ratio] = []
    # nearly always all ratios have the same groups, and share one object
    sizes: dict[str, int] = {}
    names: dict[str, str] = {}
    for entry in entries:
        own = {name: group.size or 0 for name, group in entry.groups.items()}
        sizes = sizes if sizes == own else own
        if not entry.zero:
            counts = {names.setdefault(name, name): n for name, n in entry.counts.items()}
            ratios.append(Ratio(counts=counts, sizes=sizes))
    return Rule(tuple(ratios)), found


def _entry(path: Path, entry: object, found: list[Finding]) -> _Entry:
    groups: dict[str, _Group] = {}
    whole = True
    for j, raw in enumerate(as_list(at(entry).get("group_list"))[:MAX_RATIOS]):
        here = (*path, "group_list", j)
        members = at(raw)
        name = members.get("group_name")
        if not isinstance(name, str):
            whole = False
            continue
        if name in groups:
            message = f"group {shown(name)} is named twice in this ratio"
            found.append(
                Finding("DuplicateGroup", (*here, "group_name"), message, "delete one of them")
            )
        group = _Group(
            here, number(members.get("group_num")), number(members.get("server_num_per_group"))
        )
        whole = whole and group.num is not None and group.size is not None
        groups[name] = group
    return _Entry(path, at(entry).get("server_count"), groups, whole and bool(groups))


def _steps(entries: Sequence[_Entry]) -> Iterator[Finding]:
    sizes: dict[str, int] = {}
    for before, entry in zip((None, *entries), entries, strict=False):
        for name, (path, num, size) in entry.groups.items():
            above = before.groups.get(name) if before else None
            if above is None and before and before.whole:
                message = f"group {shown(name)} is not in the ratio before this one"
                hint = "add it there with at least as many instances, or delete it here"
                yield Finding("GroupNotInPreviousRatio", (*path, "group_name"), message, hint)
            elif (
                above is not None and num is not None and above.num is not None and num > above.num
            ):
                message = (
                    f"{num} instances of {shown(name)}, but the ratio before has only {above.num}"
                )
                hint = f'ratios go from the largest to the smallest: write at most "{above.num}"'
                yield Finding("GroupNumRising", (*path, "group_num"), message, hint)
            if size is not None and sizes.setdefault(name, size) != size:
                message = (
                    f"{size} pods per instance of {shown(name)}, but {sizes[name]} in an earlier"
                    " ratio"
                )
                hint = f'an instance cannot change its size: write "{sizes[name]}"'
                yield Finding("ServerNumDiffers", (*path, "server_num_per_group"), message, hint)


def _zeros(entries: Sequence[_Entry]) -> Iterator[Finding]:
    if entries and all(entry.zero for entry in entries):
        message = "every group_num is 0: no instance could ever start"
        yield Finding("OnlyZeros", (LIST,), message, "write the numbers of instances")
        return
    for entry in entries:
        if entry.zero:
            message = "a ratio of only zeros; it is ignored"
            yield Finding("ZeroRatioIgnored", entry.path, message, "delete it", "warning")


def _advice(entries: Sequence[_Entry]) -> Iterator[Finding]:
    """Warnings: valid, but probably not intended."""
    for before, entry in itertools.pairwise(entries):
        if entry.whole and before.whole and entry.counts == before.counts:
            message = "the same ratio as the one before"
            yield Finding("EqualNeighbours", entry.path, message, "delete one of them", "warning")
    for entry in entries:
        total = 0
        for group in entry.groups.values():
            total += (group.num or 0) * (group.size or 0)
        if entry.server_count is not None and entry.whole and entry.server_count != str(total):
            message = (
                f"server_count is {shown(entry.server_count)}, but the groups of this ratio add up"
                f" to {total}"
            )
            path = (*entry.path, "server_count")
            hint = f'write "{total}"; it is not used here'
            yield Finding("ServerCountDiffers", path, message, hint, "warning")
        first = entries[0].groups
        here = [name for name in entry.groups if name in first]
        if here != [name for name in first if name in entry.groups]:
            message = "the groups stand in another order than in the first ratio"
            hint = (
                "keep the order prefill, decode: MindIE Controller reads the first ratio by"
                " position"
            )
            yield Finding(
                "GroupOrderDiffers", (*entry.path, "group_list"), message, hint, "warning"
            )
    started: list[_Entry] = []
    if all(entry.whole for entry in entries):
        started = [entry for entry in entries if not entry.zero]
    for name, group in started[0].groups.items() if started else ():
        smallest = started[-1]
        if group.num and not smallest.counts.get(name):
            message = (
                f"the smallest ratio has no instance of {shown(name)}: the service counts as"
                " serving without it"
            )
            hint = "write at least 1 if the service cannot answer without this group"
            place = (
                (*smallest.groups[name].path, "group_num")
                if name in smallest.groups
                else smallest.path
            )
            yield Finding("GroupNotInSmallest", place, message, hint, "warning")
