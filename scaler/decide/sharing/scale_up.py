"""Scale-ups: 3b.7 of the contract. They use what minimums leave: those with the scheduler first,
then the held ones, by the same predicate. Asks, and reserves room in the trial placement; must not
admit or revoke."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from scaler.decide import attempts
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.events import Event, InstanceBeganAgain, InstanceEnded
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, newest_admission_first
from scaler.decide.sharing import alone, attempt_end
from scaler.decide.sharing.attempt_end import Outcome
from scaler.decide.sharing.choice import held_beside, startable
from scaler.decide.sharing.part import Admitted, Held, Part
from scaler.decide.sharing.release import BEING_REVOKED
from scaler.reasons.reasons import Reason

RESERVED_FOR_OTHERS = "the free room may be needed for the minimum of another service"


class Stays(msgspec.Struct, frozen=True, eq=False):
    """An instance with the scheduler stays there."""

    event: Event | None = None


class Goes(msgspec.Struct, frozen=True, eq=False):
    """The admission of an instance with the scheduler is to be revoked."""

    why: Why
    event: Event | None = None


# with the scheduler


def is_above(draft: Draft, member: Member, most: int, without: Collection[Member] = ()) -> bool:
    """3.5: whether the instance may lose its slot: its group has more than `most` instances, not
    counting revoked ones and those of `without`."""
    group = draft.demand.groups[member.instance.group or ""]
    gone = [one for one in group.members if one.uid in draft.revoked or one in without]
    return group.running + group.in_flight - len(gone) > most and not group.is_within_target(member)


def beyond_target(draft: Draft, members: Collection[Member]) -> list[Member]:
    """Of these instances with the scheduler, those beyond the target: they were admitted while
    another instance of the group seemed lost."""
    found: list[Member] = []
    for member in newest_admission_first(members):
        target = draft.demand.groups[member.instance.group or ""].target
        if is_above(draft, member, target, found):
            found.append(member)
    return found


def fate_of(
    part: Part,
    draft: Draft,
    member: Member,
    found: Reservation | Shortage,
    *,
    is_beyond: bool,
) -> Stays | Goes:
    """7b, 7c: whether an instance with the scheduler stays: it fits into the remainder (`found`),
    cannot invalidate a reservation, and its attempt does not end. `is_beyond`: beyond the
    target."""
    if member.uid in draft.demand.without_place:
        return Goes((Reason.REVOKED, (draft.awaited,)))
    if isinstance(found, Shortage):
        is_alone = not (draft.shares or draft.demand.lacks_minimum or is_beyond)
        others = startable(draft, member.instance.group or "", part.world)
        if is_alone and not alone.any_fits(part, [one for one in others if one.uid != member.uid]):
            return Stays()
        return Goes((Reason.WAITING_FOR_CAPACITY, (str(found),)))
    if part.may_invalidate(member):
        return Goes((Reason.WAITING_FOR_CAPACITY, (RESERVED_FOR_OTHERS,)))
    attempt = draft.memory_of(member.uid)
    if not attempts.is_over(attempt, part.now, part.policy):
        return Stays()
    others = held_beside(draft, [member])
    own_waits = bool(others) and not _can_start_beside(part, draft, member, others)
    match attempt_end.outcome(part, draft, attempt, own_waits=own_waits):
        case Outcome.GOES_ON:
            return Stays()
        case Outcome.BEGINS_AGAIN:
            return Stays(InstanceBeganAgain(member.uid, part.now))
    ended = InstanceEnded(member.uid, part.now)
    after = attempts.after(draft.memory, [ended], part.policy)
    why = attempts.memory_of(after, member.uid)
    return Goes(attempt_end.not_scheduled(why, Reason.WAITING_FOR_CAPACITY), ended)


def _can_start_beside(part: Part, draft: Draft, one: Member, others: Sequence[Member]) -> bool:
    """5e: whether the spares of an instance have places and room beside it, and invalidate no
    reservation wherever they are bound. Then they do not wait for its room."""
    group = draft.groups[others[0].instance.group or ""].copy()
    for member in others:
        if not group.has_place_for(member):
            return False
        group.give_place(member)
    if not part.has_room_for(requests_of(others)):
        return False
    pods = requests_of([one, *others])
    return not part.placement.may_invalidate(pods, part.with_scheduler.pods.items(), own=False)


# held


def admission_of(
    part: Part, draft: Draft, member: Member, others: Sequence[Member]
) -> Admitted | Held:
    """7b: whether a held instance is admitted: it fits into the remainder, on free room, and cannot
    invalidate a reservation. `others`: candidates of its group; where the service is alone (8), one
    that does not fit is admitted only when none of them does."""
    found = part.placement.reserve(member.instance.unbound)
    if isinstance(found, Shortage):
        left = [one for one in others if one.uid not in draft.admitted]
        if not draft.shares and not alone.any_fits(part, left):
            return Admitted(reserved=False)
        return Held((Reason.WAITING_FOR_CAPACITY, (str(found),)), lacks_room=True)
    if _is_crowded(part, draft, member):
        part.placement.cancel(found)
        return Held((Reason.WAITING_FOR_CAPACITY, (BEING_REVOKED,)), for_now=True)
    if part.may_invalidate(member):
        part.placement.cancel(found)
        return Held((Reason.WAITING_FOR_CAPACITY, (RESERVED_FOR_OTHERS,)))
    return Admitted(reserved=True)


def _is_crowded(part: Part, draft: Draft, member: Member) -> bool:
    """S6: whether pods of revoked instances are in the way, or its own group loses an instance in
    this decision."""
    group = draft.demand.groups[member.instance.group or ""]
    return part.is_crowded(draft) or any(one.uid in draft.revoked for one in group.members)
