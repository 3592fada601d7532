"""Which training jobs are restarted after a fault, and how long such a job waits for room that may
return: 3d.4 of the contract. Asks only: must not restart.

    a pod is gone, ends or sits on something faulty -> after `restart_after`: all its pods go
    others delete a pod of it                       -> at once
    a restart is not over                           -> at once, to its end

Then the job competes as any that starts. For example it had 8 servers, one of them is away:

    at  0 s   the node is not Ready    it is broken; perhaps the node only flaps
    at 10 s   still not                all its pods are deleted, each with its own grace period
    at 20 s   they have gone           4 fit; with the node 8 would: it waits (`spare_patience`)
    at 60 s   the node is still away   it starts with 4

What fails by its own exit is its owner's affair: no restart, and no other size."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scaler.decide.decision import Cause, Restart, State
from scaler.decide.draft import Draft
from scaler.decide.events import OfSize, PodsLost
from scaler.decide.nodes import Room
from scaler.decide.room.placement import Reservation
from scaler.decide.sharing.part import Part
from scaler.decide.training import needs
from scaler.decide.training.enlarge import Enlarged, Start, at_size, goal
from scaler.decide.training.remember import sizes_of


def restarts_of(draft: Draft, now: float) -> Iterator[tuple[Restart, str]]:
    """The jobs of the service that are to be restarted, at their recorded size, and what is wrong
    with each."""
    if draft.demand.paused or draft.demand.service.assumed:
        return
    for member in draft.demand.training:
        due = needs.restart_due(member.instance, member.memory, draft.demand.policy)
        if member.state is State.BROKEN and due is not None and due <= now:
            size = needs.training_of(member.instance).recorded
            yield Restart(member.uid, size, Cause.FAULT), member.instance.trouble


def events_of_losses(draft: Draft, now: float) -> Iterator[OfSize]:
    """Before the first step: since when a job lacks a pod that it had."""
    for member in draft.demand.training:
        sizes = sizes_of(draft.memory_of(member.uid))
        ends = member.state is State.TERMINATING and sizes.cause != Cause.GROWTH
        if (ends or member.state is State.BROKEN) and not sizes.lost_at:
            yield PodsLost(member.uid, now)


def awaits_spare(part: Part, start: Start) -> bool:
    """Whether a job that lost pods may still wait for the room of its recorded size."""
    lost_at = sizes_of(start.draft.memory_of(start.member.uid)).lost_at
    is_short = start.is_held and start.size > goal(start)
    return is_short and lost_at > 0 and part.now < lost_at + part.policy.spare_patience


def on_expected_room(part: Part, start: Start) -> Enlarged | None:
    """Spare patience: its recorded size on room that is expected, in place of what fits now; None
    where none is expected that would do."""
    before = start.minimum
    size = goal(start)
    wanted = at_size(start.draft, start.member, size)
    part.placement.cancel(before.reservation)
    for room in (Room.EXPECTED, Room.AWAY):
        reserved = part.placement.reserve(wanted.instance.unbound, room)
        if isinstance(reserved, Reservation):
            minimum = msgspec.structs.replace(
                before, members=[wanted], room=room, reservation=reserved
            )
            return Enlarged(size, minimum)
    again = part.placement.reserve(start.member.instance.unbound, before.room)
    if isinstance(again, Reservation):
        before.reservation.placed = again.placed
    return None
