"""A scale-up that has waited for `backoff_max` goes next, once, before minimums too: 3b.2a, 3b.7a.
Asks only: must not write; what it reserves it gives back.

Minimums reserve first. So services that nobody binds, whose attempts follow each other, would keep
a free node from the scale-ups of everybody for ever. For example `backoff_max` is 5 min, and p1 of
c would fit on the one free node:

    at 0 min   the minimums of a and b have attempts by turns, p1 waits
    at 5 min   p1 goes next: a and b reserve only what leaves room for p1
    later      p1 is bound, or its attempt has ended: a and b reserve as before"""

from __future__ import annotations

import msgspec

from scaler.decide import attempts
from scaler.decide.draft import Draft
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member
from scaler.decide.sharing.choice import startable
from scaler.decide.sharing.order import Rank, in_scale_up_order, rank_of
from scaler.decide.sharing.part import Part


class GoesBefore(msgspec.Struct, frozen=True, eq=False):
    """A scale-up that goes before a minimum."""

    draft: Draft
    member: Member

    def __str__(self) -> str:
        namespace = self.draft.demand.service.key.namespace
        return f"{namespace}/{self.member.instance.name} has waited long and goes first"


def those_that_waited(part: Part) -> list[Draft]:
    """The services whose scale-ups go before minimums, in the order of scale-ups: what has waited,
    and what was admitted for that and is not bound yet."""
    waited = []
    for draft in part.drafts:
        is_admitted = draft.memory.goes_first and bool(draft.demand.with_the_scheduler)
        if (is_admitted or draft in part.waited_long) and not draft.demand.lacks_minimum:
            waited.append(draft)
    if len(waited) < 2:
        return waited
    in_order = [place.draft for place in in_scale_up_order(waited, part.now, part.policy)]
    return list(dict.fromkeys(in_order))


def before(part: Part, draft: Draft) -> GoesBefore | None:
    """The scale-up that goes before the minimum of this service, if it could start now. What a
    scale-up passes depends on the rank of the minimum (`order.py`):

        TRIED         always, whatever the priorities
        WAITED_AGAIN  if the last attempt of the scale-up ended before that of the minimum
        UNTRIED       of its own priority or a lower one, if the minimum came, or began to wait for
                      expected room, after the scale-up began to wait; or if it is of a crowd
        WAITED        of its own priority or a lower one, if it is of a crowd and has no reservation
                      since it waited (`goes_first`)
        FIRM          never

    A minimum is of a crowd if more attempts have ended in its namespace than in that of the
    scale-up: the minimums of one tenant do not go before it one by one."""
    for other in part.scale_ups_that_waited:
        if draft.shares_nodes_with(other):
            member = _next_of(part, other)
            if member is not None and _passes(part, other, member, draft):
                return GoesBefore(other, member)
            return None
    return None


def could_start(part: Part, member: Member) -> bool:
    """Whether the scale-up has room beside all reservations, and cannot invalidate one (7b)."""
    reserved = part.placement.reserve(part.understood(member.instance.unbound))
    if isinstance(reserved, Shortage):
        return False
    invalidates = part.may_invalidate(member)
    part.placement.cancel(reserved)
    return not invalidates


def is_released(draft: Draft) -> bool:
    """Whether a scale-up of the service is with the scheduler after this decision."""
    if draft.admitted:
        return True
    return any(member.uid not in draft.revoked for member in draft.demand.with_the_scheduler)


def _passes(part: Part, draft: Draft, member: Member, minimum: Draft) -> bool:
    """2a: whether the scale-up of `draft` goes before that minimum."""
    is_as_high = draft.demand.priority >= minimum.demand.priority
    match rank_of(minimum, part.now, part.policy):
        case Rank.TRIED:
            return True
        case Rank.WAITED_AGAIN:
            last_attempt = attempts.last_ended_at(draft.memory_of(member.uid), part.policy)
            return last_attempt < minimum.memory.ended_at
        case Rank.UNTRIED:
            began = max(minimum.demand.oldest, minimum.memory.expects_since)
            came_later = began > draft.memory.waiting_since
            return is_as_high and (came_later or _is_of_crowd(part, draft, minimum))
        case Rank.WAITED:
            may_be_passed = is_as_high and not minimum.memory.goes_first
            return may_be_passed and _is_of_crowd(part, draft, minimum)
        case Rank.FIRM:
            return False


def _is_of_crowd(part: Part, draft: Draft, minimum: Draft) -> bool:
    """Whether more attempts have ended in the namespace of the minimum than in that of `draft`."""
    ended = part.attempts_ended_in
    return ended[minimum.demand.service.key.namespace] > ended[draft.demand.service.key.namespace]


def _next_of(part: Part, draft: Draft) -> Member | None:
    """The scale-up of the service that is with the scheduler, or the next one that could start."""
    for member in draft.demand.with_the_scheduler:
        if could_start(part, member):
            return member
    if draft not in part.waited_long:
        return None
    for name in draft.demand.scale_up_candidates:
        for member in startable(draft, name, part.world):
            if draft.groups[name].has_place_for(member) and could_start(part, member):
                return member
    return None
