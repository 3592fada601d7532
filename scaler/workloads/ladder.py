"""The sizes with which a training job can be started (contract 3d, ladders). Pure.

A training job is one instance with several sizes, largest first: its ladder. A size counts servers,
or the NPUs of a job that runs on one server. Where the user lists no sizes, they are derived from
the full size and the least:

    full  least  steps          ladder
    8     1      powers of two  8, 4, 2, 1
    6     2      powers of two  6, 4, 2
    8     3      powers of two  8, 4, 3
    8     5      every          8, 7, 6, 5

The powers of two are the default because the size of a batch can nearly always be divided by
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

MOST_SIZES = 64
"""Sizes of one ladder. A longer one is shortened: the largest and the least stay."""


class Unit(StrEnum):
    """What a size counts."""

    SERVERS = "servers"
    NPUS = "NPUs"


class Steps(StrEnum):
    """Which sizes there are between the full size and the least."""

    POWERS_OF_TWO = "powers-of-two"
    EVERY = "every"


class Ladder(msgspec.Struct, frozen=True, gc=False):
    """Sizes, falling: the first is the full size, the last is the minimum. Never empty."""

    unit: Unit
    sizes: tuple[int, ...]

    @property
    def full(self) -> int:
        return self.sizes[0]

    @property
    def least(self) -> int:
        return self.sizes[-1]


def derived(unit: Unit, full: int, least: int, steps: Steps) -> Ladder:
    """The ladder from `full` down to `least`, which is from 1 to `full`."""
    sizes = [full, *_between(full, least, steps)]
    if least < full:
        sizes.append(least)
    return Ladder(unit, shortened(sizes))


def _between(full: int, least: int, steps: Steps) -> Iterator[int]:
    """The sizes below `full` and above `least`, falling."""
    if steps is Steps.EVERY:
        yield from range(full - 1, least, -1)
        return
    power = 1
    while power * 2 < full:
        power *= 2
    while power > least:
        yield power
        power //= 2


def in_pairs(ladder: Ladder) -> Ladder:
    """The same ladder for nodes whose chips are used in pairs: an odd size becomes the next even
    one; a full size stays as it is."""
    sizes = [ladder.full]
    for size in ladder.sizes[1:]:
        even = size + size % 2
        if even < sizes[-1]:
            sizes.append(even)
    return Ladder(ladder.unit, tuple(sizes))


def listed(unit: Unit, full: int, least: int, sizes: Sequence[int]) -> Ladder:
    """The ladder of the sizes that a user lists, falling. `full` is always in it, also where
    somebody has changed the replicas of the job; sizes that are not between `least` and `full` are
    left out."""
    between = [size for size in sizes if least <= size < full]
    return Ladder(unit, shortened([full, *between]))


def shortened(sizes: Sequence[int]) -> tuple[int, ...]:
    """At most `MOST_SIZES` of them: the first, the last, and others at equal distances."""
    if len(sizes) <= MOST_SIZES:
        return tuple(sizes)
    last = len(sizes) - 1
    places = [index * last // (MOST_SIZES - 1) for index in range(MOST_SIZES)]
    return tuple(sizes[place] for place in places)
