"""Whether pods find room on nodes, by trying: slow, exact, and the only arithmetic that explorer
and oracle share.

A pod is (units, nodes it may use); pods that all have to be on nodes of one rack are a `Gang`; room
is units by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

Pod = tuple[int, frozenset[int]]
Room = tuple[tuple[int, int], ...]
"""Units by node, sorted."""


class Gang(NamedTuple):
    """So many pods, each of so many units, all on nodes of one of these sets."""

    units: int
    racks: tuple[frozenset[int], ...]
    number: int


Need = Pod | Gang


def room_of(free: Mapping[int, int]) -> Room:
    return tuple(sorted((node, units) for node, units in free.items() if units > 0))


def packs(free: Mapping[int, int] | Room, needs: Sequence[Need]) -> bool:
    """Whether all pods find room together."""
    room = room_of(free) if isinstance(free, Mapping) else free
    gangs = [need for need in needs if isinstance(need, Gang)]
    pods = [need for need in needs if not isinstance(need, Gang)]
    return any(_packs(room, _in_order([*pods, *chosen])) for chosen in _racks_for(gangs))


def _racks_for(gangs: Sequence[Gang]) -> Iterator[list[Pod]]:
    """The pods of these, for every choice of a rack for each."""
    if not gangs:
        yield []
        return
    for rest in _racks_for(gangs[1:]):
        for rack in gangs[0].racks:
            yield [*rest, *[(gangs[0].units, rack)] * gangs[0].number]


def _in_order(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: (len(pod[1]), -pod[0], sorted(pod[1]))))


@lru_cache(maxsize=1 << 18)
def _packs(room: Room, pods: tuple[Pod, ...]) -> bool:
    if not pods:
        return True
    rest = pods[1:]
    (units, nodes) = pods[0]
    fits = (node for node, left in room if node in nodes and left >= units)
    return any(_packs(taken(room, node, units), rest) for node in fits)


def taken(room: Room, node: int, units: int) -> Room:
    """The room that is left beside a pod of so many units on this node."""
    return tuple(
        (each, left - units if each == node else left)
        for each, left in room
        if each != node or left > units
    )


def rooms_beside(room: Room, need: Need) -> Iterator[Room]:
    """The room that is left, for each way to bind this."""
    if not isinstance(need, Gang):
        units, nodes = need
        for node, left in room:
            if node in nodes and left >= units:
                yield taken(room, node, units)
        return
    for rack in need.racks:
        for chosen in combinations_with_replacement(sorted(rack), need.number):
            if packs(room, [(need.units * chosen.count(n), frozenset({n})) for n in set(chosen)]):
                after = room
                for node in chosen:
                    after = taken(after, node, need.units)
                yield after


Owned = tuple[tuple[int, Need], ...]
"""Pods, each behind the number of its job."""


@lru_cache(maxsize=1 << 16)
def can_invalidate(room: Room, movers: Owned, reserved: Owned) -> bool:
    """Whether the scheduler can put some of the movers, one after the other, so that what is
    reserved for the others fits no more: what is bound needs its own reservation no longer."""
    if not packs(room, [pod for _, pod in reserved]):
        return True
    for place, (job, need) in enumerate(movers):
        rest = movers[:place] + movers[place + 1 :]
        own = next((at for at, (whose, _) in enumerate(reserved) if whose == job), len(reserved))
        others = reserved[:own] + reserved[own + 1 :]
        if any(can_invalidate(after, rest, others) for after in rooms_beside(room, need)):
            return True
    return False
