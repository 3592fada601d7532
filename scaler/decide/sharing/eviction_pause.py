"""When somebody may be evicted again for a service: 3b.4e of the contract. Asks only: must not
write. `attempts.py` counts the evictions.

    nobody was evicted for the service, and what is chosen has not had its attempt -> at once
    otherwise -> after `eviction_pause`, which doubles with each eviction, without bound

For example `eviction_pause` is 10 min, and what evicts is never bound:

    at  0 min   an eviction                  evictions = 1, the next from 10 min on
    at 10 min   once more                    evictions = 2, the next from 30 min on
    at 30 min   once more                    evictions = 3, the next from 70 min on"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.events import Event, VictimsLeft
from scaler.decide.nodes import Room
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member
from scaler.decide.sharing import preemption
from scaler.decide.sharing.part import Part, ReservedMinimum, Shrunk
from scaler.decide.sharing.victims import Surplus
from scaler.decide.world import Preempt

_LAST_DATE = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
"""Later pauses are said to end then."""


def may_be_evicted(
    part: Part, draft: Draft, members: Sequence[Member], surplus: Sequence[Surplus]
) -> Sequence[Surplus]:
    """Those that may be evicted for these instances now. What was ordered already and has not gone
    belongs to the eviction that was counted. In a pause, surplus of the service itself that does
    not run may go once (3.6)."""
    memory = draft.memory
    if not is_paused(part, draft, members):
        return surplus
    had_attempt = _had_attempt(draft, members)
    allowed = []
    for group in surplus:
        own_not_running = set[str]()
        if group.draft is draft:
            own_not_running = {victim.member.uid for victim in group.not_running.all}
        may_go = set(memory.victims)
        if had_attempt:
            may_go &= own_not_running
        if not memory.gave_way_once:
            may_go |= own_not_running
        allowed.append(group.within(may_go))
    return allowed


def may_be_shrunk(
    part: Part, draft: Draft, members: Sequence[Member], shrunk: Sequence[Shrunk]
) -> bool:
    """3d.6: whether these jobs may be shrunk for these instances now, as an eviction."""
    uids = {one.victim.member.uid for one in shrunk}
    return uids <= set(draft.memory.victims) or not is_paused(part, draft, members)


def is_paused(part: Part, draft: Draft, members: Sequence[Member]) -> bool:
    """Whether nobody else is evicted for these instances now: they had their attempt, or an
    eviction was made for the service whose room nobody took, and the pause is not over."""
    memory = draft.memory
    counts = memory.evictions.number > 0 and not memory.room_taken
    if not (_had_attempt(draft, members) or counts):
        return False
    return _pauses(part, draft)


def lost_its_room(part: Part, draft: Draft, found: ReservedMinimum | Shortage) -> bool:
    """Whether others took the room of the last eviction for the service: its victims have gone, its
    attempt has not ended, and what is free or ends does not suffice."""
    if not draft.memory.has_evicted or draft.memory.victims:
        return False
    is_short = isinstance(found, Shortage) or (found.room is Room.AWAY and not found.victims)
    return is_short and not _has_victim_that_stays(part, draft)


def _has_victim_that_stays(part: Part, draft: Draft) -> bool:
    """Whether the pods of a victim are still there, in vain: on a node that is not Ready, for
    example."""
    for other in part.drafts_of_all():
        for member in other.demand.members:
            ends = member.state is State.TERMINATING
            if ends and member.memory.preempted_for == draft.demand.name:
                return True
    return False


def _had_attempt(draft: Draft, members: Iterable[Member]) -> bool:
    return any(draft.memory_of(member.uid).had_its_attempt for member in members)


def _pauses(part: Part, draft: Draft) -> bool:
    memory = draft.memory
    has_begun = memory.evictions.number or memory.tried_at  # else in this decision
    return not has_begun or part.now < attempts.evicts_from(memory, part.policy)


def in_words(part: Part, draft: Draft) -> tuple[str, ...]:
    """For people: until when nobody is evicted for the minimum, and why; () where that is not in
    the way."""
    memory = draft.memory
    is_counted = memory.evictions.number or memory.tried_at
    if part.policy.preempt is Preempt.NEVER or not is_counted or not _pauses(part, draft):
        return ()
    until = datetime.fromtimestamp(
        min(attempts.evicts_from(memory, part.policy), _LAST_DATE), UTC
    ).strftime("%Y-%m-%d %H:%M:%S UTC")
    why = "the scheduler did not bind it in time"
    if memory.evictions.number:
        times = "once" if memory.evictions.number == 1 else f"{memory.evictions.number} times"
        why = f"others were evicted for it {times} since it served"
    return (f"nobody is evicted for it before {until}: {why}",)


def events_of_victims(part: Part, draft: Draft) -> list[Event]:
    """3b.4d, before the first step: which victims of earlier decisions have not gone: their room is
    expected, or their deletion did not come to pass."""
    if not draft.memory.victims:
        return []
    expected = {victim.member.uid for victim in preemption.under_way(part, draft)}
    left = []
    for victim in preemption.victims_of(part, draft):
        member = victim.member
        is_as_before = member.instance.bound and member.state is not State.TERMINATING
        if is_as_before or member.uid in expected:
            left.append(member.uid)
    uids = tuple(left)
    return [VictimsLeft(uids)] if uids != draft.memory.victims else []
