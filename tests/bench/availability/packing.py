"""Whether pods fit on nodes, and how many services do at most: exact, not greedy.

Pods ask for 1, 2, 4, 8 or 16 chips of one node, of one class or of any. Each of these sizes
divides the next, so on nodes of one class pods fit exactly when, for each size, the pods of that
size or larger ask for no more places of that size than the nodes have: the largest are placed
first, wherever there is room, and take whole places of all smaller sizes. Pods that may go to any
class are tried in each split between the classes.

Must not know of services, ratios, time or the decision that is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product

SIZES = (16, 8, 4, 2, 1)
"""Chips of a pod, the largest first."""
ANY = ""
"""The class of a pod that takes nodes of every class."""

Need = tuple[tuple[tuple[str, int], int], ...]
"""Pods: ((class, chips), number), sorted."""
Places = tuple[tuple[str, tuple[int, ...]], ...]
"""Class of nodes -> for each of `SIZES`, how many such pods fit if nothing else is placed."""


def need_of(pods: Iterable[tuple[str, int]]) -> Need:
    """The pods, each as (class, chips)."""
    return tuple(sorted(Counter(pods).items()))


def together(needs: Iterable[Need]) -> Need:
    """All of these pods."""
    total = Counter[tuple[str, int]]()
    for need in needs:
        total.update(dict(need))
    return tuple(sorted(total.items()))


def places_of(free: Iterable[tuple[str, int]]) -> Places:
    """`free`: the class and the free chips of each node."""
    sums: dict[str, list[int]] = {}
    for kind, chips in free:
        places = sums.setdefault(kind, [0] * len(SIZES))
        for index, size in enumerate(SIZES):
            places[index] += max(0, chips) // size
    return tuple((kind, tuple(sums[kind])) for kind in sorted(sums))


@lru_cache(maxsize=1 << 18)
def fits(places: Places, need: Need) -> bool:
    """Whether all of these pods can be placed together."""
    by_class: dict[str, list[int]] = {kind: [0] * len(SIZES) for kind, _ in places}
    flexible = [0] * len(SIZES)
    for (kind, chips), number in need:
        if kind == ANY:
            flexible[SIZES.index(chips)] += number
        elif kind in by_class:
            by_class[kind][SIZES.index(chips)] += number
        else:
            return False
    room = [(free, by_class[kind]) for kind, free in places]
    return _fits_in_some_split(room, tuple(flexible))


def _fits_in_some_split(
    room: Sequence[tuple[Sequence[int], Sequence[int]]], flexible: Sequence[int]
) -> bool:
    """`room`: places and pods of each class; `flexible`: pods that may go to any of them."""
    if not room:
        return not any(flexible)
    (places, fixed), *others = room
    if not _fits_on_one_class(places, fixed):
        return False
    if not others:
        return _fits_on_one_class(places, _sum(fixed, flexible))
    for here in product(*[range(number, -1, -1) for number in flexible]):
        if _fits_on_one_class(places, _sum(fixed, here)):
            rest = [number - taken for number, taken in zip(flexible, here, strict=True)]
            if _fits_in_some_split(others, rest):
                return True
    return False


def _sum(some: Sequence[int], more: Sequence[int]) -> list[int]:
    return [one + other for one, other in zip(some, more, strict=True)]


def _fits_on_one_class(places: Sequence[int], pods: Sequence[int]) -> bool:
    asked = 0
    larger = SIZES[0]
    for size, number, free in zip(SIZES, pods, places, strict=True):
        asked = asked * (larger // size) + number
        larger = size
        if asked > free:
            return False
    return True


def most(places: Places, needs: Sequence[Need], beside: Need = ()) -> tuple[int, ...]:
    """The largest number of these needs that fit together beside those pods: their positions. Of
    equally good choices one that leaves out the last ones of each kind."""
    kinds: dict[Need, list[int]] = {}
    for position, need in enumerate(needs):
        kinds.setdefault(need, []).append(position)
    small_first = sorted(kinds, key=lambda need: (chips_of(need), need))
    numbers = tuple(len(kinds[need]) for need in small_first)
    taken = _most(places, tuple(small_first), numbers, beside)
    chosen = []
    for need, number in zip(small_first, taken, strict=True):
        chosen += kinds[need][:number]
    return tuple(sorted(chosen))


def chips_of(need: Need) -> int:
    return sum(chips * number for (_, chips), number in need)


@lru_cache(maxsize=1 << 14)
def _most(
    places: Places, kinds: tuple[Need, ...], numbers: tuple[int, ...], beside: Need
) -> tuple[int, ...]:
    """How many of each kind, so that the sum is the largest."""
    search = _Search(places, kinds, numbers)
    search.go_on(0, beside, ())
    return search.best


class _Search:
    """Depth first, as many as possible of each kind first; a branch ends when all that is left
    could not make it better than the best."""

    def __init__(self, places: Places, kinds: tuple[Need, ...], numbers: tuple[int, ...]) -> None:
        self._places = places
        self._kinds = kinds
        self._numbers = numbers
        self.best: tuple[int, ...] = (0,) * len(kinds)

    def go_on(self, at: int, placed: Need, taken: tuple[int, ...]) -> None:
        if sum(taken) + sum(self._numbers[at:]) <= sum(self.best):
            return
        if at == len(self._kinds):
            self.best = taken
            return
        for number in range(self._numbers[at], -1, -1):
            more = together([placed, *[self._kinds[at]] * number])
            if fits(self._places, more):
                self.go_on(at + 1, more, (*taken, number))


def possible(places: Places, needs: Mapping[str, Need]) -> int:
    """How many services could serve if all that runs could be placed anew."""
    return len(most(places, [needs[name] for name in sorted(needs)]))
