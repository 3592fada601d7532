"""Scale-ups: 3b.7 of the contract. They use what minimums leave: those with the scheduler first,
then the held ones, by the same predicate. Asks, and reserves room in the trial placement; must not
admit or revoke."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from scaler.decide import attempts
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, newest_admission_first
from scaler.decide.sharing import alone, attempt_end, gathering, probe
from scaler.decide.sharing.attempt_end import Outcome
from scaler.decide.sharing.choice import held_beside, startable
from scaler.decide.sharing.part import Admitted, Held, Part
from scaler.decide.sharing.release import BEING_REVOKED
from scaler.reasons.reasons import Reason

FIRST_IS_TRIED = "no node offers a resource that it needs; first this minimum is tried:"
RESERVED_FOR_OTHERS = "the free room may be needed for the minimum of another service"


class KeepsAdmission(msgspec.Struct, frozen=True, eq=False):
    """An instance with the scheduler stays there. `begins_again`: its attempt was over by the
    clock, and its clock starts again."""

    begins_again: bool = False


class LosesAdmission(msgspec.Struct, frozen=True, eq=False):
    """The admission of an instance with the scheduler is to be revoked."""

    why: Why


class EndsAttempt(msgspec.Struct, frozen=True, eq=False):
    """The attempt of an instance with the scheduler ends, so its admission is to be revoked."""


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
    beyond: list[Member] = []
    for member in newest_admission_first(members):
        target = draft.demand.groups[member.instance.group or ""].target
        if is_above(draft, member, target, beyond):
            beyond.append(member)
    return beyond


def keeps_admission(
    part: Part,
    draft: Draft,
    member: Member,
    reserved: Reservation | Shortage,
    *,
    is_beyond: bool,
) -> KeepsAdmission | LosesAdmission | EndsAttempt:
    """7b to 7d: whether an instance with the scheduler stays: it has room (`reserved`), cannot land
    on a node that is kept for a minimum, cannot invalidate a reservation, and its attempt does not
    end. `is_beyond`: beyond the target."""
    if member.uid in draft.demand.without_place:
        return LosesAdmission(Why(Reason.REVOKED, (draft.awaited,)))
    if isinstance(reserved, Shortage):
        is_alone = not (draft.shares or draft.demand.lacks_minimum or is_beyond)
        others = startable(draft, member.instance.group or "", part.world)
        others = [other for other in others if other.uid != member.uid]
        if is_alone and not alone.any_fits(part, others):
            return KeepsAdmission()
        return LosesAdmission(Why(Reason.WAITING_FOR_CAPACITY, (str(reserved),)))
    kept = gathering.kept_from(part, draft, member)
    if kept is not None:
        return LosesAdmission(Why(Reason.WAITING_FOR_CAPACITY, (str(kept),)))
    if part.may_invalidate(member):
        return LosesAdmission(Why(Reason.WAITING_FOR_CAPACITY, (RESERVED_FOR_OTHERS,)))
    attempt = draft.memory_of(member.uid)
    if not attempts.is_late(attempt, part.now, part.policy):
        return KeepsAdmission()
    others = held_beside(draft, [member])
    own_waits = bool(others) and not _can_start_beside(part, draft, member, others)
    match attempt_end.outcome_of_attempt(part, draft, attempt, own_waits=own_waits):
        case Outcome.GOES_ON:
            return KeepsAdmission()
        case Outcome.BEGINS_AGAIN:
            return KeepsAdmission(begins_again=True)
    return EndsAttempt()


def _can_start_beside(part: Part, draft: Draft, instance: Member, others: Sequence[Member]) -> bool:
    """5e: whether the spares of an instance have places and room beside it, and invalidate no
    reservation wherever they are bound. Then they do not wait for its room."""
    group = draft.groups[others[0].instance.group or ""].copy()
    for member in others:
        if not group.has_place_for(member):
            return False
        group.give_place(member)
    if not part.has_room_for(part.understood(requests_of(others))):
        return False
    pods = part.understood(requests_of([instance, *others]))
    with_scheduler = part.reserved_with_scheduler.pods.items()
    return not part.placement.may_invalidate(pods, with_scheduler, own=False)


# held


def admission_of(
    part: Part, draft: Draft, member: Member, others: Sequence[Member]
) -> Admitted | Held:
    """7b, 7d: whether a held instance is admitted: it fits into the remainder, on free room, cannot
    invalidate a reservation, and cannot land on a node that is kept for a minimum. `others`:
    candidates of its group; where the service is alone (8), one that does not fit is admitted only
    when none of them does."""
    pods = part.understood(member.instance.unbound)
    is_understood = pods == member.instance.unbound
    minimum = None if is_understood else probe.first_that_needs(part, draft, pods)
    if minimum is not None:
        words = f"{FIRST_IS_TRIED} {minimum.demand.service.key.shown}"
        return Held(Why(Reason.WAITING_FOR_CAPACITY, (words,)), for_now=True)
    reserved = part.placement.reserve(pods)
    if isinstance(reserved, Shortage):
        left = [other for other in others if other.uid not in draft.admitted]
        if not draft.shares and not alone.any_fits(part, left):
            return Admitted(reserved=False, lacks=(str(reserved),))
        return Held(Why(Reason.WAITING_FOR_CAPACITY, (str(reserved),)), lacks_room=True)
    kept = gathering.kept_from(part, draft, member)
    if kept is not None:
        part.placement.cancel(reserved)
        return Held(Why(Reason.WAITING_FOR_CAPACITY, (str(kept),)))
    if _is_crowded(part, draft, member):
        part.placement.cancel(reserved)
        return Held(Why(Reason.WAITING_FOR_CAPACITY, (BEING_REVOKED,)), for_now=True)
    if part.may_invalidate(member):
        part.placement.cancel(reserved)
        return Held(Why(Reason.WAITING_FOR_CAPACITY, (RESERVED_FOR_OTHERS,)))
    return Admitted(reserved=True)


def _is_crowded(part: Part, draft: Draft, member: Member) -> bool:
    """S6: whether pods of revoked instances are in the way, or its own group loses an instance in
    this decision."""
    group = draft.demand.groups[member.instance.group or ""]
    return part.is_crowded(draft) or any(one.uid in draft.revoked for one in group.members)
