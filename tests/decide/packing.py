"""Whether pods find room on nodes, by trying: slow, exact, and the only arithmetic that explorer
and oracle share.

A pod is (units, nodes it may use); room is units by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

Pod = tuple[int, frozenset[int]]
Room = tuple[tuple[int, int], ...]
"""Units by node, sorted."""


def room_of(free: Mapping[int, int]) -> Room:
    return tuple(sorted((node, units) for node, units in free.items() if units > 0))


def packs(free: Mapping[int, int] | Room, pods: Sequence[Pod]) -> bool:
    """Whether all pods find room together."""
    room = room_of(free) if isinstance(free, Mapping) else free
    return _packs(room, tuple(sorted(pods, key=lambda pod: (len(pod[1]), -pod[0], sorted(pod[1])))))


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


Owned = tuple[tuple[int, Pod], ...]
"""Pods, each behind the number of its job."""


@lru_cache(maxsize=1 << 16)
def can_invalidate(room: Room, movers: Owned, reserved: Owned) -> bool:
    """Whether the scheduler can put some of the movers, one after the other, so that what is
    reserved for the others fits no more: what is bound needs its own reservation no longer."""
    if not packs(room, [pod for _, pod in reserved]):
        return True
    for place, (job, (units, nodes)) in enumerate(movers):
        rest = movers[:place] + movers[place + 1 :]
        own = next((at for at, (whose, _) in enumerate(reserved) if whose == job), len(reserved))
        others = reserved[:own] + reserved[own + 1 :]
        for node, left in room:
            if (
                node in nodes
                and left >= units
                and can_invalidate(taken(room, node, units), rest, others)
            ):
                return True
    return False
