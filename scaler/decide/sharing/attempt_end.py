"""What becomes of an attempt that is over by the clock: 3b.5d, 3b.5e and 3b.5g of the contract.
Asks only: must not write. `attempts.py` says what the answer does to the memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from itertools import combinations

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.memory import Attempt
from scaler.decide.nodes import PodRequests, Room
from scaler.decide.room.placement import Reservation
from scaler.decide.service.states import Member
from scaler.decide.sharing import observed, waiting
from scaler.decide.sharing.choice import held_beside, one_of_each
from scaler.decide.sharing.part import Part, ReservedMinimum
from scaler.reasons.reasons import Reason


class Outcome(Enum):
    """What becomes of an attempt."""

    ENDS = "somebody waits for its room"
    BEGINS_AGAIN = "nobody waits, and the clock starts again"
    GOES_ON = "nobody waits who may end it, and its clock runs on"


class Waiting(Enum):
    """Who waits for the room of an attempt."""

    NOBODY = 0
    ANYBODY = 1
    AT_ONCE = 2
    """A minimum of the same or a higher priority, or anybody who has waited for `backoff_max`: the
    attempt ends whether or not the scheduler binds anything."""


def outcome_of_attempt(
    part: Part,
    draft: Draft,
    attempt: Attempt,
    *,
    own_waits: bool,
    helped: Collection[Draft] | None = None,
) -> Outcome:
    """5e, 5g: what becomes of an attempt that is over by the clock, of the minimum of the service
    or of one instance. `own_waits`: another instance of the service waits for its room. `helped`:
    it is for what a service that served has lost, its room is reserved now, and the minimums of
    these services fit without that; None = it is for something else."""
    is_very_late = attempts.is_very_late(attempt, part.now, part.policy)
    keeps_loss = helped is not None
    if helped is not None:
        who = _who_waits_for_loss(part, draft, helped, is_very_late=is_very_late)
    else:
        who = _who_waits(part, draft)
    if who is Waiting.AT_ONCE:
        return Outcome.ENDS
    last_bind = observed.last_bind_of(draft, part.world)
    if who is Waiting.ANYBODY and last_bind > attempt.began:
        return Outcome.ENDS
    if keeps_loss:
        return Outcome.ENDS if own_waits and is_very_late else Outcome.GOES_ON
    # 5g: while its scheduler binds nothing anywhere, it ends for no other service
    if not attempts.ends_without_others(attempt, last_bind, part.now, part.policy):
        return Outcome.GOES_ON
    if own_waits:
        return Outcome.ENDS
    return Outcome.BEGINS_AGAIN if who is Waiting.NOBODY else Outcome.GOES_ON


def _who_waits(part: Part, draft: Draft) -> Waiting:
    """5e: whether another service that shares nodes has something held that could start."""
    found = Waiting.NOBODY
    for other in part.drafts:
        if other is draft or not draft.shares_nodes_with(other):
            continue
        is_minimum = waiting.minimum_waits(part, other)
        if not is_minimum and not waiting.scale_up_waits(part, other):
            continue
        if is_minimum and other.demand.priority >= draft.demand.priority:
            return Waiting.AT_ONCE
        if waiting.has_waited_long(part, other):
            return Waiting.AT_ONCE
        found = Waiting.ANYBODY
    return found


def minimums_that_fit(part: Part, draft: Draft) -> list[Draft]:
    """5e: the services after this one whose minimum has free room without that of `draft`, which is
    cancelled: what the rest of this decision would reserve."""
    after = part.minimums[part.minimums.index(draft) + 1 :]
    if not any(waiting.minimum_waits(part, other) for other in after):
        return []
    reservations = []
    found = []
    for other in after:
        if attempts.in_backoff(other.memory, part.now) or other.demand.lacking_groups_in_words():
            continue
        reservation = part.placement.reserve(_missing(other))
        if isinstance(reservation, Reservation):
            reservations.append(reservation)
            found.append(other)
    for reservation in reservations:
        part.placement.cancel(reservation)
    return found


def _who_waits_for_loss(
    part: Part, draft: Draft, helped: Collection[Draft], *, is_very_late: bool
) -> Waiting:
    """5e: what a service that served has lost is given up for a minimum that waits, has no room
    beside it, and has room without it. And for whoever has waited `backoff_max`: a minimum that has
    no room beside it, and, as long after the loss, a scale-up."""
    found = Waiting.NOBODY
    for other in part.drafts:
        if other is draft or not draft.shares_nodes_with(other):
            continue
        has_waited_long = waiting.has_waited_long(part, other)
        is_helped = has_waited_long or other in helped
        if is_helped and waiting.minimum_waits(part, other) and not _has_room_beside(part, other):
            if has_waited_long or other.demand.priority >= draft.demand.priority:
                return Waiting.AT_ONCE
            found = Waiting.ANYBODY
        elif is_very_late and has_waited_long and waiting.scale_up_waits(part, other):
            return Waiting.AT_ONCE
    return found


def _has_room_beside(part: Part, draft: Draft) -> bool:
    """Whether what the service misses of its minimum is reserved on free room, or fits there beside
    all reservations; or on what is expected, while the service has not waited for `backoff_max`."""
    if any(other is draft for other, _ in part.on_free_room):
        return True
    pods = _missing(draft)
    if part.has_room_for(pods):
        return True
    return not waiting.has_waited_long(part, draft) and part.has_room_for(pods, Room.AWAY)


def _missing(draft: Draft) -> PodRequests:
    """The pods that the service misses of its minimum."""
    return requests_of([*draft.demand.bound_in_part, *draft.demand.first_candidates()])


def other_candidates(part: Part, draft: Draft, tried: Sequence[Member]) -> ReservedMinimum | None:
    """5d: the minimum with candidates that have not had their attempt, if such a set fits on free
    room, while nobody has waited for `backoff_max`. `tried`: those whose attempt is over; their
    reservation is cancelled."""
    if waiting.who_waited_long(part, draft):
        return None
    tried_uids = {member.uid for member in tried}

    def goes_behind(member: Member) -> bool:
        is_behind = member.uid in tried_uids or draft.memory_of(member.uid).gives_way
        return is_behind or member.pauses or member.is_lost

    def last_tried_last(member: Member) -> tuple[bool, bool]:
        return goes_behind(member), draft.memory_of(member.uid).had_its_attempt

    by_group: list[Iterable[Sequence[Member]]] = []
    for name, number in draft.demand.minimum.items():
        candidates = [
            member
            for member in draft.demand.candidates[name]
            if member.state is not State.TERMINATING
        ]
        candidates.sort(key=last_tried_last)
        by_group.append(combinations(candidates, number))
    for chosen in one_of_each(by_group):
        if all(map(goes_behind, chosen)):  # nobody new is in this set
            continue
        members = [*draft.demand.bound_in_part, *chosen]
        reservation = part.placement.reserve(requests_of(members))
        if isinstance(reservation, Reservation):
            return ReservedMinimum(members, Room.FREE, reservation)
    return None


def tried_again_or_anew(draft: Draft, members: Sequence[Member]) -> tuple[str, ...]:
    """5d: those of a swapped minimum that have their place until the new clock ends. What is bound
    in part gives way at once where a spare that has not had its attempt may take its place."""
    return tuple([one.uid for one in members if not _gives_way_in_swap(draft, one, members)])


def _gives_way_in_swap(draft: Draft, member: Member, members: Sequence[Member]) -> bool:
    if not member.instance.bound:
        return False
    had_an_end = draft.memory_of(member.uid).gives_way
    return had_an_end or _has_fresh_spare(draft, member, members)


def has_waiting_spare(part: Part, draft: Draft, reserved: ReservedMinimum) -> bool:
    """5e: whether a spare waits for the room of the minimum: one that fits or has not had its
    attempt; any where something chosen is not made. Its reservation is cancelled."""
    for spare in held_beside(draft, reserved.members):
        is_new = not draft.memory_of(spare.uid).had_its_attempt
        if is_new or reserved.has_unmade or part.has_room_for(spare.instance.unbound):
            return True
    return False


def behind_a_spare(draft: Draft) -> tuple[str, ...]:
    """5d: instances of the minimum that are asked for themselves, and a spare that has not had its
    attempt may take the place of each: as soon as the instance has no slot."""
    behind = []
    for member in draft.demand.bound_in_part:
        gives_way = draft.memory_of(member.uid).gives_way
        if not gives_way and _has_fresh_spare(draft, member, [member]):
            behind.append(member.uid)
    return tuple(behind)


def _has_fresh_spare(draft: Draft, member: Member, chosen: Sequence[Member]) -> bool:
    """Whether a held instance of its group, beside those that are chosen, has not had its
    attempt."""
    for other in held_beside(draft, chosen):
        is_of_group = other.instance.group == member.instance.group
        if is_of_group and not draft.memory_of(other.uid).had_its_attempt:
            return True
    return False


def not_scheduled(attempt: Attempt, reason: Reason) -> Why:
    """The reason after an attempt that ended, with words: how many ended, and when the next one
    begins."""
    until = datetime.fromtimestamp(attempt.backoff_until, UTC).strftime("%H:%M:%S UTC")
    times = "once" if attempt.failures == 1 else f"{attempt.failures} times"
    words = f"the scheduler did not bind it in time, {times} so far; the next attempt is at {until}"
    return Why(reason, (words,))
