"""What a decision sees of the attempts of one service before its first step and after its last one:
3b.5a, b, c, f, h of the contract. Must not look at nodes or other services."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide import attempts, events
from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.events import Ended, Event, PartEnded
from scaler.decide.nodes import Room
from scaler.decide.service.states import Member
from scaler.decide.sharing.part import ReservedMinimum
from scaler.decide.world import World

AT_ONCE = 0.001
"""Seconds until the next decision where this one makes other actions possible."""


def before(draft: Draft, world: World, node_back_at: float) -> list[Event]:
    """What happened since the last decision. `node_back_at`: when a node that the service may use
    last appeared or returned; 0.0 = never."""
    demand = draft.demand
    found: list[Event] = []
    if world.last_bind > world.memory.last_bind and heeds_binds(draft):
        found.append(events.BoundAnywhere(world.now, world.memory.last_bind, _uids(draft)))
    if demand.bound != draft.memory.bound:
        unbound = [member.uid for member in demand.members if not member.instance.bound]
        found.append(events.BoundPods(demand.bound, tuple(unbound)))
    if demand.jobs != draft.memory.jobs:
        bound = [member.uid for member in demand.members if member.instance.bound]
        found.append(events.JobsRead(demand.jobs, tuple(bound)))
    if node_back_at:
        found.append(events.NodeReturned(node_back_at, _uids(draft)))
    return found


def _uids(draft: Draft) -> tuple[str, ...]:
    return tuple([member.uid for member in draft.demand.members])


def heeds_binds(draft: Draft) -> bool:
    """5h: whether a bind of any pod in the cluster may change the attempts or the backoff of the
    service."""
    memory = draft.memory
    return bool(draft.demand.has_attempts or memory.began or memory.failures)


def made(draft: Draft, found: ReservedMinimum, now: float) -> list[Event]:
    """5i: where others make the pods, the clock starts anew, once, when all chosen instances have
    pods."""
    known = draft.memory.made
    if not found.has_unmade:
        return [events.AllMade(now)] if known is False else []
    if known is None and found.room is Room.FREE:
        return [events.AwaitsOwner()]
    return []


def settle(draft: Draft, world: World, *, trades: bool) -> None:
    """The last step: 5a, clocks run only for instances that are with the scheduler or bound in
    part; 5c, a service that serves forgets its attempts. `trades`: it has surplus that is to give
    way to a missing instance."""
    demand = draft.demand
    if demand.serves:
        tried = demand.members if demand.has_attempts else ()
        well = [member.uid for member in tried if member.state is not State.BROKEN]
        draft.note(events.Serves(tuple(well), trades=trades))
    elif not demand.lacks_minimum:
        draft.note(events.MinimumBound())
    if not draft.memory.began and draft.memory.made is not None:
        draft.note(events.Stopped())
    if demand.has_attempts or demand.with_the_scheduler or demand.irrevocable or draft.has_changes:
        _note_clocks(draft, world)
    memory = draft.memory
    waits = memory.failures or memory.backoff_until or memory.began or demand.jobs
    if memory.jobs and not waits and not draft.has_changes and not demand.has_attempts:
        draft.note(events.JobsForgotten())


def _note_clocks(draft: Draft, world: World) -> None:
    """7c: the attempts of instances that are not of the minimum. An attempt that ended begins again
    only after other candidates had theirs."""
    begin = []
    stop = []
    for member in draft.demand.members:
        memory = draft.memory_of(member.uid)
        is_of_minimum = member.uid in draft.chosen
        waits = _is_with_scheduler(draft, member) and not is_of_minimum
        if memory.began and not waits:
            stop.append(member.uid)
        elif waits and not memory.began and not memory.gives_way:
            begin.append(member.uid)
    draft.note(
        events.InstancesStopped(tuple(stop)),
        events.InstancesReleased(tuple(begin), world.now),
    )


def _is_with_scheduler(draft: Draft, member: Member) -> bool:
    """Whether the scheduler may bind pods of the instance after this decision."""
    stays = member.is_with_the_scheduler and member.uid not in draft.revoked
    return stays or member.in_part or member.uid in draft.admitted


def moments(draft: Draft, world: World) -> Iterator[float]:
    """The times at which the decision may change by time alone; 0.0 = never, times in the past
    included."""
    has_attempts = draft.demand.has_attempts or draft.has_changes
    uids = draft.memory.instances if has_attempts else ()
    yield from attempts.moments(draft.memory, uids, world.policy)
    if any(isinstance(event, Ended | PartEnded) for event in draft.events):
        yield world.now + AT_ONCE  # others may have the room that the attempt kept from them
