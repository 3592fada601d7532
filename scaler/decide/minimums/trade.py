"""The trade inside one service: a running instance too many of one group for a missing one of another.

Only when the missing one does not fit anywhere, has been missing for long, and fits once the evicted one is gone. This
is the one case in which something that runs is deleted; must never leave a group with fewer than the smallest ratio.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import add

import msgspec

from scaler.decide.members import natural
from scaler.decide.minimums.parties import Party
from scaler.decide.nodes import Capacity, PodRequests, Room
from scaler.decide.room.placement import Board
from scaler.decide.room.shortage import Shortage
from scaler.decide.world import Instance, Policy, State
from scaler.rules.rule import Trade


class Ground(msgspec.Struct):
    """What a trade is judged on: nodes, what is promised on them already, and where running instances are."""

    capacity: Capacity
    promised: Sequence[PodRequests]
    homes: Mapping[str, Room]
    now: float
    policy: Policy


def victim(party: Party, short: PodRequests, ground: Ground) -> Instance | None:
    """The instance to evict now so that what is short can start; the party's memory says since when it has been."""
    surplus = list(_surplus(party)) if short and _is_allowed(party) else []
    if not surplus:
        party.memory = msgspec.structs.replace(party.memory, short_since=0.0)
        return None
    since = party.memory.short_since or ground.now
    party.memory = msgspec.structs.replace(party.memory, short_since=since)
    if ground.now - since < ground.policy.trade_after or _is_under_way(party):
        return None
    found = next((chosen[0] for chosen in _choices(surplus) if _would_do(chosen, short, ground)), None)
    if found is not None:
        party.memory = msgspec.structs.replace(party.memory, short_since=ground.now, evicted=found.uid)
    return found


def _is_allowed(party: Party) -> bool:
    asked = party.snapshot.options.trade
    return asked is Trade.ALWAYS or (asked is Trade.WHEN_NOT_SERVING and not party.serves)


def _surplus(party: Party) -> Iterator[Instance]:
    """Of each group what runs beyond the target, newest job first."""
    rule, plan = party.snapshot.rule, party.plan
    for name, group in plan.groups.items():
        least = max(group.target, rule.smallest.of(name) if rule else 0)
        running = [
            instance
            for instance, verdict in zip(party.snapshot.instances, plan.verdicts, strict=True)
            if instance.group == name and verdict.state is State.RUNNING
        ]
        running.sort(key=lambda one: (one.created, natural(one.name), one.uid), reverse=True)
        yield from running[: max(0, group.running - least)]


def _is_under_way(party: Party) -> bool:
    """One at a time: its pods must be gone before the next."""
    return any(one.uid == party.memory.evicted and one.terminating for one in party.snapshot.instances)


def _choices(surplus: Sequence[Instance]) -> Iterator[Sequence[Instance]]:
    """Each alone, then ever more of them: the first of several is only evicted when all of them together do."""
    for one in surplus:
        yield (one,)
    for count in range(2, len(surplus) + 1):
        yield surplus[:count]


def _would_do(chosen: Sequence[Instance], short: PodRequests, ground: Ground) -> bool:
    """Whether what is short fits beside all promises once these instances are gone."""
    capacity = _without(chosen, ground)
    if capacity is None:
        return False
    board = Board(capacity)
    for needs in ground.promised:
        if isinstance(board.place(needs), Shortage):
            return False
    return board.fits(short) is None


def _without(chosen: Sequence[Instance], ground: Ground) -> Capacity | None:
    """The nodes as they will be; None when one of theirs is not known, or takes no pods now."""
    freed: dict[str, tuple[int, ...]] = {}
    resources = ground.capacity.resources
    for instance in chosen:
        for node, need in instance.seats:
            home, asked = ground.homes.get(node), dict(need.requests)
            if home is None or not home.schedulable:
                return None
            free = freed.get(node, home.free)
            freed[node] = tuple(map(add, free, (asked.get(name, 0) for name in resources)))
    if not freed:
        return None
    rooms = list(ground.capacity.rooms)
    for node, free in freed.items():
        home = ground.homes[node]
        at = next((at for at, room in enumerate(rooms) if _is_one_of(home, room)), None)
        if at is None:
            return None
        rooms[at] = msgspec.structs.replace(rooms[at], count=rooms[at].count - 1)
        rooms.append(msgspec.structs.replace(home, free=free, count=1))
    return Capacity(resources, tuple(room for room in rooms if room.count))


def _is_one_of(home: Room, room: Room) -> bool:
    return room.count > 0 and msgspec.structs.replace(home, count=room.count) == room
