"""Where a minimum finds room: 3b.3 of the contract. Reserves room; must not admit, revoke or evict.

    free room -> surplus of its own that does not run -> what is ending -> running surplus of its
    own -> instances of others beyond their minimum -> what is away

The first source that suffices is taken, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.draft import Draft, requests_of
from scaler.decide.nodes import PODS, PodRequest, Room
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.sharing import eviction_pause, preemption, seeming_room
from scaler.decide.sharing.choice import sets_of_candidates
from scaler.decide.sharing.part import Part, ReservedMinimum, Shrunk
from scaler.decide.sharing.victims import Surplus
from scaler.rules.rule import Trade

Source = tuple[Room, list[Surplus], tuple[Shrunk, ...]]


def find(part: Part, draft: Draft) -> ReservedMinimum | Shortage:
    """3a: the minimum on the first source of room that suffices; else what is missing of free room
    (3d)."""
    on_free_room = _on_free_room(part, draft)
    if isinstance(on_free_room, ReservedMinimum):
        return seeming_room.with_own_surplus(part, draft, on_free_room) or on_free_room
    for source in _other_sources(part, draft):
        reserved = _on_source(part, draft, source)
        if reserved is not None:
            return reserved
    return on_free_room


def _on_free_room(part: Part, draft: Draft) -> ReservedMinimum | Shortage:
    """3b: free room suffices. Otherwise the shortage of the first set."""
    first: Shortage | None = None
    for members in sets_of_candidates(draft, part.placement, Room.FREE):
        reserved = part.placement.reserve(requests_of(members))
        if isinstance(reserved, Reservation):
            return ReservedMinimum(members, Room.FREE, reserved)
        first = first or reserved
    return first or _shortage_of_one(part, draft)


def _shortage_of_one(part: Part, draft: Draft) -> Shortage:
    """The shortage where no set was tried, because single candidates do not fit."""
    demand = draft.demand
    first = demand.first_candidates()
    shortage = part.placement.fits(requests_of([*demand.bound_in_part, *first]))
    if shortage is not None:
        return shortage
    for name in demand.minimum:
        for member in demand.candidates[name]:
            shortage = part.placement.fits(member.instance.unbound)
            if shortage is not None:
                return shortage
    return Shortage(PodRequest(), len(first), 0, PODS)


def _other_sources(part: Part, draft: Draft) -> Iterator[Source]:
    """3a, after free room, in their order. While the room of a victim is expected, nobody else is
    evicted (4d), nor for a node that is away for a moment (4f)."""
    if preemption.under_way(part, draft) or awaits_return(part, draft):
        yield Room.EXPECTED, [], ()
    else:
        yield from _with_victims(part, draft)
    yield Room.AWAY, [], ()


def awaits_return(part: Part, draft: Draft) -> bool:
    """4f: whether the minimum would fit without an eviction if what is away for a moment were
    there, and fits on no other expected room."""
    if not part.expects_room:
        return False
    for members in sets_of_candidates(draft, part.placement, Room.RETURNING):
        if part.fits_when_returned(requests_of(members)):
            return True
    return False


def _with_victims(part: Part, draft: Draft) -> Iterator[Source]:
    own: list[Surplus] = []
    if draft.demand.service.options.trade is not Trade.OFF:
        own = preemption.own_surplus(part, draft)
    not_running = [group.not_running for group in own]
    if any(group.all for group in not_running):
        yield Room.FREED, not_running, ()
    yield Room.EXPECTED, [], ()
    if any(group.all for group in not_running):
        yield Room.EXPECTED, not_running, ()
    given_up = not_running
    if preemption.may_trade(draft):
        given_up = own
        if any(group.running for group in own):
            yield Room.EXPECTED, own, ()
    for surplus, shrunk in preemption.offers_of_others(part, draft):
        yield Room.EXPECTED, given_up + surplus, shrunk


def _on_source(part: Part, draft: Draft, source: Source) -> ReservedMinimum | None:
    room, surplus, shrunk = source
    if not (surplus or shrunk or part.expects_room):
        return None
    frees = bool(surplus or shrunk)
    for members in sets_of_candidates(draft, part.placement, room, frees=frees):
        others = [group.without(members) for group in surplus]
        allowed = eviction_pause.may_be_evicted(part, draft, members, others)
        if shrunk and not eviction_pause.may_be_shrunk(part, draft, members, shrunk):
            continue  # 4e
        if surplus and not shrunk and not any(group.all for group in allowed):
            continue  # 4e
        if shrunk:
            reserved = preemption.make_room_by_shrinking(part, draft, members, allowed, shrunk)
        else:
            reserved = preemption.make_room(part, draft, members, room, allowed)
        if reserved is not None:
            return reserved
    return None
