"""What becomes of an attempt that is over by the clock: 3b.5d, 3b.5e and 3b.5g of the contract.
Asks only: must not write. `attempts.py` says what the answer does to the memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from itertools import combinations

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.memory import Attempt
from scaler.decide.nodes import Room
from scaler.decide.room.placement import Reservation
from scaler.decide.service.states import Member
from scaler.decide.sharing.choice import one_of_each, startable
from scaler.decide.sharing.part import Part, ReservedMinimum
from scaler.reasons.reasons import Reason


class Outcome(Enum):
    """What becomes of an attempt."""

    ENDS = "somebody waits for its room"
    BEGINS_AGAIN = "nobody waits, and the clock starts again"
    GOES_ON = "the scheduler binds nothing anywhere, and nobody waits who may end it"


class Waiting(Enum):
    """Who waits for the room of an attempt."""

    NOBODY = 0
    ANYBODY = 1
    MINIMUM = 2
    """A minimum of the same or a higher priority."""


def outcome_of_attempt(part: Part, draft: Draft, attempt: Attempt, *, own_waits: bool) -> Outcome:
    """5e, 5g: what becomes of an attempt that is over by the clock, of the minimum of the service
    or of one instance. `own_waits`: another instance of the service waits for its room."""
    waiting = _who_waits(part, draft)
    if waiting is Waiting.MINIMUM:
        return Outcome.ENDS
    # 5g: while the scheduler binds nothing anywhere, it ends for nobody else
    if not attempts.ends_for_anybody(attempt, part.world.last_bind, part.now, part.policy):
        return Outcome.GOES_ON
    if own_waits or waiting is Waiting.ANYBODY:
        return Outcome.ENDS
    return Outcome.BEGINS_AGAIN


def _who_waits(part: Part, draft: Draft) -> Waiting:
    """5e: whether another service that shares nodes has something held that could start."""
    waiting = Waiting.NOBODY
    for other in part.drafts:
        if other is draft or not draft.shares_nodes_with(other):
            continue
        if _minimum_waits(part, other):
            if other.demand.priority >= draft.demand.priority:
                return Waiting.MINIMUM
            waiting = Waiting.ANYBODY
        elif waiting is Waiting.NOBODY and _scale_up_waits(part, other):
            waiting = Waiting.ANYBODY
    return waiting


def _minimum_waits(part: Part, draft: Draft) -> bool:
    """Whether an instance of the minimum of the service is missing, and an instance is held that
    could start."""
    demand = draft.demand
    if (
        not demand.lacks_minimum
        or attempts.in_backoff(draft.memory, part.now)
        or demand.lacking_groups_in_words()
    ):
        return False
    candidates: list[Member] = []
    for name in demand.minimum:
        candidates += demand.candidates[name]
    is_held = any(member.state is State.HELD for member in candidates)
    return is_held and part.questions.why_too_large(draft) is None


def _scale_up_waits(part: Part, draft: Draft) -> bool:
    """Whether a scale-up of the service is with the scheduler, or held and could start."""
    demand = draft.demand
    if demand.lacks_minimum or demand.paused:
        return False
    for member in demand.with_the_scheduler:
        if member.uid not in draft.chosen and member.uid not in draft.revoked:
            return True
    return any(startable(draft, name, part.world) for name in demand.scale_up_candidates)


def other_candidates(part: Part, draft: Draft, tried: Sequence[Member]) -> ReservedMinimum | None:
    """5d: the minimum with candidates that have not had their attempt, if such a set fits on free
    room. `tried`: those whose attempt is over; their reservation is cancelled."""
    tried_uids = {member.uid for member in tried}

    def goes_behind(member: Member) -> bool:
        return member.uid in tried_uids or draft.memory_of(member.uid).gives_way

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


def not_scheduled(attempt: Attempt, reason: Reason) -> Why:
    """The reason after an attempt that ended, with words: how many ended, and when the next one
    begins."""
    until = datetime.fromtimestamp(attempt.backoff_until, UTC).strftime("%H:%M:%S UTC")
    times = "once" if attempt.failures == 1 else f"{attempt.failures} times"
    words = f"the scheduler did not bind it in time, {times} so far; the next attempt is at {until}"
    return Why(reason, (words,))
