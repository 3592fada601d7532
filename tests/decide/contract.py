"""Sections 3.2 and 3c of the contract, written once more for everything that judges: which ratio a
service aims at.

Ratios are instances by group, the largest ratio first. Must not: share code with the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Counts = Mapping[str, int]


def covers(counts: Counts, ratio: Counts) -> bool:
    """Whether there are so many of every group."""
    return all(counts.get(group, 0) >= number for group, number in ratio.items())


def attainable(ratios: Sequence[Counts], live: Counts) -> list[int]:
    """Which ratios have enough live instances, the largest first; the last one if none has."""
    return [number for number, ratio in enumerate(ratios) if covers(live, ratio)] or [
        len(ratios) - 1
    ]


def target_of(ratios: Sequence[Counts], running: Counts, live: Counts) -> tuple[int, bool]:
    """From the last ratio upward the first not satisfied, of those with enough live instances; and
    whether all are."""
    found = attainable(ratios, live)
    unsatisfied = [number for number in found if not covers(running, ratios[number])]
    return (max(unsatisfied), False) if unsatisfied else (found[0], True)


def limited(ratios: Sequence[Counts], replicas: int) -> list[Counts]:
    """Those that are not larger than the smallest with as many instances as are wanted; at 0 none
    of any group."""
    if not replicas:
        return [dict.fromkeys(ratios[0], 0)]
    first = max(
        (at for at, ratio in enumerate(ratios) if sum(ratio.values()) >= replicas), default=0
    )
    return [{group: ratios[first].get(group, 0) for group in ratios[0]}, *ratios[first + 1 :]]
