"""Who waits for room, and who has waited long enough to go next: 3b.2a and 3b.5e of the contract.
Asks only: must not write. The time since when a service waits is in its memory."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.decide import attempts, events
from scaler.decide.decision import State
from scaler.decide.draft import Draft, requests_of
from scaler.decide.events import Event
from scaler.decide.nodes import Room
from scaler.decide.room.placement import Placement
from scaler.decide.service.states import Member, is_made
from scaler.decide.sharing import next_scale_up
from scaler.decide.sharing.choice import sets_of_candidates, startable
from scaler.decide.sharing.part import Part


def minimum_waits(part: Part, draft: Draft) -> bool:
    """5e: whether an instance of the minimum of the service is missing, and an instance is held
    that could start."""
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
    is_held = any(member.state is State.HELD and not member.pauses for member in candidates)
    return is_held and part.questions.why_too_large(draft) is None


def scale_up_waits(part: Part, draft: Draft) -> bool:
    """5e: whether a scale-up of the service is with the scheduler, or held and could start."""
    demand = draft.demand
    if demand.lacks_minimum or demand.paused:
        return False
    for member in demand.with_the_scheduler:
        if member.uid not in draft.chosen and member.uid not in draft.revoked:
            return True
    return any(startable(draft, name, part.world) for name in demand.scale_up_candidates)


def has_waited_long(part: Part, draft: Draft) -> bool:
    """2a: whether the service has waited for `backoff_max`, and is not in backoff."""
    if attempts.in_backoff(draft.memory, part.now):
        return False
    return attempts.has_waited_long(draft.memory, part.now, part.policy)


def who_waited_long(part: Part, draft: Draft) -> list[Draft]:
    """2a: the other services that share nodes with this one and have waited for `backoff_max`."""
    waited = []
    for other in part.waited_long:
        if other is not draft and draft.shares_nodes_with(other):
            waited.append(other)
    return waited


def events_of_waiting(part: Part, draft: Draft) -> list[Event]:
    """2a, after the last step: whether the service waits. While something of it is released, the
    time that it waited before is kept: what is revoked a moment later goes on waiting."""
    memory = draft.memory
    if _is_next_scale_up(part, draft):
        return [events.WaitsNoLonger(), events.GoesFirst()]
    found: list[Event] = []
    is_scale_up = not draft.demand.lacks_minimum
    if is_scale_up and memory.goes_first and not next_scale_up.is_released(draft):
        found.append(events.GoesFirstNoLonger())
    if _waits(part, draft):
        found.append(events.Waits(part.now))
    elif _is_released(draft) or (is_scale_up and _has_released_scale_up(draft)):
        if memory.waiting_since:
            found.append(events.WaitIsPaused(part.now))
    elif memory.waiting_since or memory.waited:
        found.append(events.WaitsNoLonger())
    return found


def _has_released_scale_up(draft: Draft) -> bool:
    """Whether a scale-up of the service is with the scheduler, or was until this decision."""
    return bool(draft.revoked) or next_scale_up.is_released(draft)


def _is_next_scale_up(part: Part, draft: Draft) -> bool:
    """7a: whether a scale-up that has waited for `backoff_max` is admitted now."""
    return bool(draft.admitted) and draft in part.waited_long and not draft.demand.lacks_minimum


def _waits(part: Part, draft: Draft) -> bool:
    if not draft.shares:
        return False
    if not draft.demand.lacks_minimum:
        return bool(draft.waits) and part.questions.would_fit(part, draft)
    if _is_released(draft) or not minimum_waits(part, draft):
        return False
    return part.questions.would_fit(part, draft)


def _is_released(draft: Draft) -> bool:
    """Whether something of the chosen minimum is with the scheduler or bound in part, or is to be
    made by its owner."""
    for member in draft.demand.members:
        if member.uid not in draft.chosen:
            continue
        stays = member.is_with_the_scheduler and member.uid not in draft.revoked
        is_unmade = member.state is State.HELD and not is_made(member)
        if stays or is_unmade or member.in_part or member.uid in draft.admitted:
            return True
    return False


def would_fit(part: Part, draft: Draft, unreserved: Placement) -> bool:
    """2a: whether what the service misses would fit on the free room if nobody reserved any of it.
    `unreserved`: the nodes of the part without reservations."""
    if draft.demand.lacks_minimum:
        return any(
            unreserved.fits(requests_of(members)) is None
            for members in sets_of_candidates(draft, unreserved, Room.FREE)
        )
    return any(
        unreserved.fits(part.understood(member.instance.unbound)) is None
        for member in _held(part, draft)
    )


def _held(part: Part, draft: Draft) -> Iterable[Member]:
    """Held scale-ups that could start and have a place after this decision."""
    for name in draft.demand.scale_up_candidates:
        for member in startable(draft, name, part.world):
            if draft.groups[name].has_place_for(member):
                yield member
