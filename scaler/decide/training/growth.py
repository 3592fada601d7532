"""When a running job is restarted at a larger size, or at a smaller one because fewer servers are
wanted: 3d.5 and 3d.1 of the contract. Asks only: must not restart.

A restart for growth costs training time, so all of these have to hold:

    G1  it runs for `stable_after`
    G2  its newest pod is as old as its interval: `grow_interval`, or ten times its restart cost
    G3  a larger size fits on free room and the room of its own pods, when everybody else has chosen
    G4  G3 held for `grow_patience`
    G5  it may grow, and its owner has restarts to spare
    G6  no other job that shares nodes is being restarted for growth

A growth that did not last as long as the interval doubles it. For example a node flaps every 5
minutes, and the interval is 10 minutes:

    at 10 min   the job grows onto the node, and loses it      the interval is 20 min
    at 30 min   it grows again, and loses it                   the interval is 40 min
    at 70 min   it grows, and the node stays                   at 110 min it is 10 min again"""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.decision import Cause, Restart, State
from scaler.decide.draft import Draft
from scaler.decide.events import (
    Grew,
    GrowthLasted,
    GrowthUndone,
    JobRuns,
    NoRoomToGrow,
    OfSize,
    RoomToGrow,
)
from scaler.decide.nodes import Room
from scaler.decide.service.states import Member, affords_revoke, restart_reserve
from scaler.decide.sharing import gathering
from scaler.decide.sharing.order import scale_up_order
from scaler.decide.sharing.part import Part
from scaler.decide.training.enlarge import largest_allowed, needing
from scaler.decide.training.needs import grows_from, interval_of, may_grow, training_of
from scaler.decide.training.remember import sizes_of


def shrinks_of(draft: Draft) -> Iterator[Restart]:
    """3d.1: jobs that run at a size above what is wanted in all, restarted at once where their
    owner has restarts to spare (3d.8)."""
    if draft.demand.paused or draft.demand.service.assumed or not draft.demand.service.replicas:
        return
    for member in draft.demand.training:
        training = training_of(member.instance)
        size = largest_allowed(draft, training)
        is_whole = member.state in (State.RUNNING, State.STARTING)
        may_lose = affords_revoke(member.instance, draft.demand.policy)
        if is_whole and may_lose and 0 <= training.started < size:
            yield Restart(member.uid, size, Cause.LIMIT)


def events_of_growth(draft: Draft, now: float) -> Iterator[OfSize]:
    """Before the first step: since when each job runs, and what became of its last growth."""
    for member in draft.demand.training:
        sizes = sizes_of(draft.memory_of(member.uid))
        training = training_of(member.instance)
        runs = member.state is State.RUNNING
        if runs and may_grow(member.instance) and not sizes.runs_since:
            yield JobRuns(member.uid, now)
        if not sizes.grown_at:
            continue
        is_undone = sizes.lost_at > 0 or sizes.cause not in ("", Cause.GROWTH)
        if runs and training.started >= 0:
            is_undone |= training.sizes[training.started].amount <= sizes.grown_from
        has_lasted = now - sizes.grown_at >= interval_of(sizes, training, draft.demand.policy)
        if has_lasted and (runs or is_undone):
            yield GrowthLasted(member.uid)
        elif is_undone:
            yield GrowthUndone(member.uid)


def in_order(part: Part) -> list[tuple[Draft, Member]]:
    """The jobs that may grow at all, in the order in which they are asked (3d.2)."""
    found = []
    for draft in sorted(part.drafts, key=scale_up_order):
        is_still = draft.demand.paused or draft.demand.service.assumed
        for member in draft.demand.training:
            if not is_still and may_grow(member.instance) and member.state is State.RUNNING:
                found.append((draft, member))
    return found


def is_room_unsure(part: Part) -> bool:
    """Whether this decision ends pods: what they leave is not free yet, and others may have it."""
    return any(draft.evicted or draft.restarted for draft in part.drafts)


def larger_size(part: Part, draft: Draft, member: Member) -> int | None:
    """G3: the largest size that fits on free room and the room of its own pods; None where none
    above its own does."""
    training = training_of(member.instance)
    own = member.instance.bound_pods
    for size in range(largest_allowed(draft, training), training.started):
        larger = needing(member, size)
        fits = part.placement.fits_without(own, larger.instance.unbound, Room.FREED) is None
        if fits and gathering.kept_from(part, draft, larger) is None:
            return size
    return None


def event_of_room(draft: Draft, member: Member, size: int | None, now: float) -> list[OfSize]:
    """G4: since when a larger size fits; nothing where that did not change."""
    since = sizes_of(draft.memory_of(member.uid)).fits_since
    if size is not None and not since:
        return [RoomToGrow(member.uid, now)]
    if size is None and since:
        return [NoRoomToGrow(member.uid)]
    return []


def is_due(part: Part, draft: Draft, member: Member) -> bool:
    """G1, G2, G4, G5: whether the job may be restarted at a larger size now, if one fits."""
    policy = part.policy
    budget = member.instance.budget
    due = grows_from(member.instance, draft.memory_of(member.uid), policy)
    if budget is not None and budget.limit - budget.used <= restart_reserve(budget, policy) + 1:
        return False
    return 0 < due <= part.now


def is_another_growing(part: Part, draft: Draft) -> bool:
    """G6: whether a job that shares nodes is being restarted for growth."""
    for other in part.drafts:
        if not draft.shares_nodes_with(other):
            continue
        for member in other.demand.training:
            if sizes_of(other.memory_of(member.uid)).cause == Cause.GROWTH:
                return True
    return False


def growth_of(member: Member, size: int, now: float) -> tuple[Restart, Grew]:
    """The restart of a job at a larger size, and what is remembered of it."""
    training = training_of(member.instance)
    before = training.sizes[training.started].amount
    return Restart(member.uid, size, Cause.GROWTH), Grew(member.uid, now, before)
