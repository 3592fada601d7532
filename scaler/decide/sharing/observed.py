"""What a decision sees of the attempts of one service before its first step and after its last one:
3b.5a, b, c, f, h of the contract. Asks only: the caller notes the events.
Must not look at nodes or other services."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide import attempts, events
from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.events import Ended, Event, PartEnded, Swapped
from scaler.decide.memory import Memory
from scaler.decide.nodes import Room
from scaler.decide.service.states import Member
from scaler.decide.sharing.part import ReservedMinimum
from scaler.decide.training.needs import moments_of_sizes
from scaler.decide.world import World

AT_ONCE = 0.001
"""Seconds until the next decision where this one makes other actions possible."""


def events_since_last_decision(draft: Draft, world: World, node_back_at: float) -> list[Event]:
    """What happened since the last decision. `node_back_at`: when a node that the service may use
    last appeared or returned; 0.0 = never."""
    demand = draft.demand
    seen: list[Event] = []
    before = last_bind_of(draft, world.memory)
    if heeds_binds(draft) and last_bind_of(draft, world) > before:
        seen.append(events.BoundAnywhere(world.now, before, _uids(draft)))
    if not demand.serves:
        seen += _progress(draft)
    if attempts.has_news(draft.memory, demand.written):
        bound = [member.uid for member in demand.members if member.instance.bound]
        seen.append(events.JobsRead(demand.written, tuple(bound)))
    if node_back_at:
        seen.append(events.NodeReturned(node_back_at, _uids(draft)))
    return seen


def last_bind_of(draft: Draft, seen: World | Memory) -> float:
    """5g: when a scheduler that the pods of the service name last bound a pod of anybody; any
    scheduler, where their pods name none."""
    if not (draft.demand.schedulers and seen.last_binds):
        return seen.last_bind
    return max([seen.last_binds.get(name, 0.0) for name in draft.demand.schedulers])


def _progress(draft: Draft) -> list[Event]:
    """5b: instances with more bound pods than ever since the service last served."""
    numbers = []
    unbound = []
    for member in draft.demand.members:
        number = member.instance.bound
        if number > draft.memory_of(member.uid).most_bound:
            numbers.append((member.uid, number))
        elif not number:
            unbound.append(member.uid)
    return [events.BoundPods(tuple(numbers), tuple(unbound))] if numbers else []


def _uids(draft: Draft) -> tuple[str, ...]:
    return tuple([member.uid for member in draft.demand.members])


def heeds_binds(draft: Draft) -> bool:
    """5h: whether a bind of any pod in the cluster may change the attempts or the backoff of the
    service."""
    memory = draft.memory
    return bool(draft.demand.has_attempts or memory.began or memory.failures)


def events_of_owners(draft: Draft, reserved: ReservedMinimum, now: float) -> list[Event]:
    """5i: where others make the pods, the clock starts anew, once, when all chosen instances have
    pods."""
    made_before = draft.memory.made
    if not reserved.has_unmade:
        return [events.AllMade(now)] if made_before is False else []
    if made_before is None and reserved.room is Room.FREE:
        return [events.AwaitsOwner()]
    return []


def events_of_what_runs(draft: Draft, now: float, *, trades: bool) -> list[Event]:
    """5c, 4e, after the last step: a service that serves forgets its attempts. `trades`: it has
    surplus that is to give way to a missing instance."""
    demand = draft.demand
    if demand.serves:
        tried = demand.members if demand.has_attempts else ()
        well = [member.uid for member in tried if member.state is not State.BROKEN]
        return [events.Serves(now, tuple(well), trades=trades)]
    seen: list[Event] = []
    if draft.memory.serves_since:
        seen.append(events.ServesNoMore())
    if not demand.lacks_minimum:
        seen.append(events.MinimumBound())
    elif not draft.memory.tried_at and _has_been_tried(draft):
        seen.append(events.HadAttempts(now))
    return seen


def _has_been_tried(draft: Draft) -> bool:
    """4e: whether a candidate of the minimum has had its attempt."""
    demand = draft.demand
    if not (demand.has_attempts or draft.has_changes):
        return False
    for name in demand.minimum:
        for member in demand.candidates[name]:
            if draft.memory_of(member.uid).had_its_attempt:
                return True
    return any(draft.memory_of(member.uid).had_its_attempt for member in demand.bound_in_part)


def events_of_clocks(draft: Draft, now: float) -> list[Event]:
    """5a, 7c, after the last step: clocks run only for instances that are with the scheduler or
    bound in part. An attempt that ended begins again only after other candidates had theirs."""
    demand = draft.demand
    seen: list[Event] = []
    is_at_rest = not (draft.memory.began or draft.memory.expects_since)
    if is_at_rest and draft.memory.made is not None:
        seen.append(events.Stopped())
    may_have_clocks = demand.has_attempts or demand.with_the_scheduler or demand.irrevocable
    if not (may_have_clocks or draft.has_changes):
        return seen
    begin = []
    stop = []
    for member in demand.members:
        memory = draft.memory_of(member.uid)
        is_of_minimum = member.uid in draft.chosen
        waits = _is_with_scheduler(draft, member) and not is_of_minimum
        if memory.began and not waits:
            stop.append(member.uid)
        elif waits and not memory.began and not memory.gives_way:
            begin.append(member.uid)
    if stop:
        seen.append(events.InstancesStopped(tuple(stop)))
    if begin:
        seen.append(events.InstancesReleased(tuple(begin), now))
    return seen


def events_of_jobs(draft: Draft) -> list[Event]:
    """5f, after the last step: what people wrote is forgotten when nothing waits."""
    memory = draft.memory
    demand = draft.demand
    waits = memory.failures or memory.backoff_until or memory.began or demand.written
    if memory.written and not waits and not draft.has_changes and not demand.has_attempts:
        return [events.JobsForgotten()]
    return []


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
    for member in draft.demand.training:
        yield from moments_of_sizes(member.instance, draft.memory_of(member.uid), world.policy)
    if any(isinstance(event, Ended | PartEnded | Swapped) for event in draft.events):
        yield world.now + AT_ONCE  # others may have the room or the place that the attempt kept
