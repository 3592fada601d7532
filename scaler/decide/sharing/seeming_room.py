"""Free room that only seems to fit: 3.6 of the contract. The scheduler may know more than the trial
placement, and never bind a minimum there. Meanwhile surplus of the service itself may hold a node
that would do. Reserves room; must not evict.

For example d0 is missing, p1 is beyond the minimum and does not run:

    at  0 s   one node is free          d0 is released
    at 30 s   d0 is not bound           its attempt ends, backoff
    at 60 s   the node is still free    it is reserved, and the node of p1 as well: p1 is evicted
    at 70 s   p1 has gone               d0 is released, both nodes are reserved for this attempt"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import msgspec

from scaler.decide.draft import Draft, requests_of
from scaler.decide.nodes import Room
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member
from scaler.decide.sharing import eviction_pause, preemption
from scaler.decide.sharing.choice import MOST_SETS
from scaler.decide.sharing.part import Part, ReservedMinimum
from scaler.decide.sharing.victims import Surplus
from scaler.rules.rule import Trade


def with_own_surplus(part: Part, draft: Draft, tried: ReservedMinimum) -> ReservedMinimum | None:
    """The minimum on its free room and, beside that, on the room that surplus of the service itself
    leaves; None where no attempt on free room has ended in vain, or no surplus helps. `tried`: the
    minimum on free room."""
    members = tried.members
    if not any(draft.memory_of(member.uid).had_its_attempt for member in members):
        return None
    if _has_given_way(draft, members):
        return _twice(tried, _on_other_room(part, draft, members))
    if not draft.memory.failures or draft.memory.expected_in_vain:
        return None
    for surplus in _own_surplus(part, draft, members):
        allowed = eviction_pause.may_be_evicted(part, draft, members, surplus)
        second = _on_room_of(part, draft, members, allowed)
        if second is not None:
            return _twice(tried, second)
    return None


def own_surplus_would_help(part: Part, draft: Draft, members: list[Member]) -> bool:
    """5e: whether surplus of the service itself could make room for these instances beside the free
    room that is reserved for them, now or when a pause is over: then their attempt is to end."""
    for surplus in _own_surplus(part, draft, members):
        second = _on_room_of(part, draft, members, surplus)
        if second is not None:
            preemption.give_back(part, second)
            return True
    return False


def _has_given_way(draft: Draft, members: Sequence[Member]) -> bool:
    """Whether surplus has given way for one of these instances, whose attempt has not ended
    since."""
    uids = {member.uid for member in members}
    for member in draft.demand.members:
        if not uids.isdisjoint(draft.memory_of(member.uid).gave_way_for):
            return True
    return False


def _own_surplus(part: Part, draft: Draft, members: Sequence[Member]) -> Iterator[list[Surplus]]:
    """3.6: what does not run, once since the service last served; then what runs as well."""
    if draft.demand.service.options.trade is Trade.OFF:
        return
    own = [group.without(members) for group in preemption.own_surplus(part, draft)]
    if not draft.memory.gave_way_once:
        yield [group.not_running for group in own]
    if preemption.may_trade(draft):
        yield own


def _on_other_room(part: Part, draft: Draft, members: list[Member]) -> ReservedMinimum | None:
    """These instances on room that is free or expected, beside their free room."""
    for room in (Room.FREE, Room.EXPECTED):
        reserved = preemption.make_room(part, draft, members, room, [])
        if reserved is not None:
            return reserved
    return None


def _on_room_of(
    part: Part, draft: Draft, members: list[Member], surplus: Sequence[Surplus]
) -> ReservedMinimum | None:
    """These instances on the room that the surplus leaves, beside all the free room on which they
    fit; None where that does not do, or other room is expected."""
    if not any(group.may_go for group in surplus):
        return None
    free = _all_free_room_for(part, members)
    reserved = preemption.make_room(part, draft, members, Room.EXPECTED, surplus)
    for one in free:
        part.placement.cancel(one)
    if reserved is not None and not reserved.victims:
        preemption.give_back(part, reserved)
        return None
    return reserved


def _all_free_room_for(part: Part, members: Sequence[Member]) -> list[Reservation]:
    """Reserve free room for these instances as often as they fit, at most `MOST_SETS` times."""
    found = list[Reservation]()
    for pods in repeat(requests_of(members), MOST_SETS):
        reserved = part.placement.reserve(pods)
        if isinstance(reserved, Shortage):
            break
        found.append(reserved)
    return found


def _twice(tried: ReservedMinimum, second: ReservedMinimum | None) -> ReservedMinimum | None:
    if second is None:
        return None
    placed = [*tried.reservation.placed, *second.reservation.placed]
    return msgspec.structs.replace(second, reservation=Reservation(placed))
