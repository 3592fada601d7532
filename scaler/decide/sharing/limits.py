"""The limits of sharing: 3b.10 of the contract. 10a: services that are not weighed against others.
10b: what cannot be revoked keeps its room until its attempt ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft, Why, not_made
from scaler.decide.service.demand import Demand
from scaler.decide.service.groups import Group
from scaler.decide.service.states import (
    Member,
    affords_revoke,
    is_made,
    may_be_revoked,
    newest_admission_first,
    why_not_admissible,
)
from scaler.decide.sharing.part import Part
from scaler.decide.training import fault, growth
from scaler.decide.world import World
from scaler.reasons.reasons import Reason


def are_weighed(world: World) -> bool:
    """10a: whether services of this world are weighed against each other at all."""
    return world.nodes is not None and not world.alone


def is_weighed(world: World, demand: Demand) -> bool:
    """10a: whether a service is weighed against others: nodes may be read, and its rule says so."""
    options = demand.service.options
    return are_weighed(world) and demand.target is not None and options.arbitration


def cannot_be_revoked(part: Part, draft: Draft, member: Member) -> bool:
    """10b: whether an instance that is with the scheduler or bound in part cannot be revoked."""
    may_go = member.is_with_the_scheduler and may_be_revoked(member.instance, part.policy)
    return draft.demand.paused or not may_go


def keeps_room(part: Part, draft: Draft, member: Member) -> bool:
    """10b: whether an instance that cannot be revoked keeps its room: its attempt has not ended.
    After that its pods are of no use."""
    memory = draft.memory_of(member.uid)
    if member in draft.demand.bound_in_part:
        waits = attempts.in_backoff(draft.memory, part.now)
        return not (memory.gives_way or waits or part.is_late(draft.memory))
    return not (memory.gives_way or (member.is_with_the_scheduler and part.is_late(memory)))


def has_late_attempt(part: Part, draft: Draft, member: Member) -> bool:
    """10b: whether the instance has an attempt of its own, and that is over by the clock. What is
    of the minimum shares the attempt of the minimum."""
    is_of_minimum = member in draft.demand.bound_in_part
    return not is_of_minimum and part.is_late(draft.memory_of(member.uid))


def is_in_the_way(part: Part, draft: Draft, member: Member) -> bool:
    """10b: whether an instance that stays only for want of restarts is in the way of the minimum of
    another service that shares nodes, which found no free room."""
    if affords_revoke(member.instance, part.policy):
        return False
    on_free_room = {id(other) for other, _ in part.on_free_room}
    for other in part.drafts:
        lacks_room = other.demand.lacks_minimum and id(other) not in on_free_room
        if lacks_room and other is not draft and draft.shares_nodes_with(other):
            return True
    return False


def decide_alone(demand: Demand, now: float) -> Draft:
    """The draft of a service that decides alone: because nodes may not be read, the rule says so,
    or it names no rule. (`alone.py` is about another case: a service that is weighed, and shares no
    nodes.)

    It gives away every place of the target at once. What is free is not known, so an instance that
    is with the scheduler beyond the target is revoked while an instance of the target is missing:
    both may need the same node."""
    draft = Draft(demand)
    if demand.target is None and not demand.service.key.rule:
        _without_rule(draft, now)
    if demand.target is None or demand.paused:
        return draft
    misses_room = any(map(_misses_room, demand.groups.values()))
    chosen = {name: _chosen_without_nodes(draft, name) for name in demand.groups}
    tries_alone = not demand.serves or demand.target.needs_refused  # 3.7
    refused = _first_refused(chosen) if tries_alone else None
    for restart, words in fault.restarts_of(draft, now):
        draft.restart(restart, words)
    for shrink in growth.shrinks_of(draft):
        draft.restart(shrink)
    for name, group in demand.groups.items():
        for member in chosen[name]:
            if is_made(member) and refused in (None, member):
                draft.admit(member)
            else:
                _give_place_and_wait(draft, member)
        _revoke_beyond(draft, name, group, misses_room=misses_room)
    return draft


def _misses_room(group: Group) -> bool:
    """Whether the target misses an instance of the group that needs room. A bound instance that
    does not run needs none."""
    bound = [member for member in group.members if member.in_flight and member.instance.bound]
    return group.running + len(bound) < group.target


def _chosen_without_nodes(draft: Draft, name: str) -> list[Member]:
    """Held candidates that get a place: those that can start now, then those whose pods do not
    exist yet."""
    if not draft.demand.groups[name].wants:
        return []
    group = draft.demand.groups[name].copy()
    held = [member for member in draft.demand.candidates[name] if member.state is State.HELD]
    chosen = []
    for member in sorted(held, key=is_made, reverse=True):
        if group.has_place_for(member):
            group.give_place(member)
            chosen.append(member)
    return chosen


def _first_refused(chosen: Mapping[str, Sequence[Member]]) -> Member | None:
    """3.7: an instance whose creation was refused is tried again first, alone. The others are
    admitted when it has pods."""
    for members in chosen.values():
        for member in members:
            if member.memory.refused and is_made(member):
                return member
    return None


def _give_place_and_wait(draft: Draft, member: Member) -> None:
    draft.groups[member.instance.group or ""].give_place(member)
    if is_made(member):
        draft.waits[member.uid] = Why(Reason.WAITING_FOR_RATIO, tuple(draft.lacking))
    else:
        draft.waits[member.uid] = not_made(member)


def _without_rule(draft: Draft, now: float) -> None:
    """Jobs that name no rule (MindIE's controller and coordinator) have nothing to wait for."""
    for member in draft.demand.members:
        if (
            member.is_ours
            and member.state is State.HELD
            and why_not_admissible(member, now) is None
        ):
            if is_made(member):
                draft.admit(member)
            else:
                draft.waits[member.uid] = not_made(member)


def _revoke_beyond(draft: Draft, name: str, group: Group, *, misses_room: bool) -> None:
    """3.5: revoke what is with the scheduler beyond the target, where that may take the room of a
    missing instance; what is above the largest ratio, and what gets no place, always."""
    demand = draft.demand
    above = group.running + group.in_flight - demand.largest_number(name)
    for member in _beyond_target(draft, name, group):
        if misses_room or above > 0 or member.uid in demand.without_place:
            above -= 1
            draft.revoke_if_possible(member, Why(Reason.REVOKED, (draft.awaited,)))


def _beyond_target(draft: Draft, name: str, group: Group) -> list[Member]:
    """Instances with the scheduler beyond the target, those that can be revoked and the newest
    admission first."""
    beyond = []
    for member in newest_admission_first(draft.demand.with_the_scheduler):
        may_stay = group.is_within_target(member) or member.instance.unheld
        if member.instance.group == name and not may_stay:
            beyond.append(member)
    policy = draft.demand.policy
    beyond.sort(key=lambda member: may_be_revoked(member.instance, policy), reverse=True)
    return beyond[: max(0, group.taken_in_pairs - group.target)]
