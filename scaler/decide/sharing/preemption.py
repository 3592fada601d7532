"""Whom a minimum may evict: 3b.4 and 3.6 of the contract. Names the fewest and cheapest victims and
reserves the room that they leave; must not evict."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from scaler.decide.decision import State
from scaler.decide.draft import Draft, requests_of
from scaler.decide.nodes import NodeClass, PodRequest, PodRequests, Room
from scaler.decide.room.placement import Placement
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.groups import Group
from scaler.decide.service.states import Member, age, has_expected_room
from scaler.decide.sharing.part import Part, ReservedMinimum, Victim
from scaler.decide.world import Preempt
from scaler.rules.rule import Trade

Victims = Sequence[Victim]


def may_trade(draft: Draft) -> bool:
    """3.6: whether running surplus of a service may be evicted for a missing instance of the same
    service."""
    trade = draft.demand.service.options.trade
    return trade is Trade.ALWAYS or (trade is Trade.WHEN_NOT_SERVING and not draft.demand.serves)


def under_way(part: Part, draft: Draft) -> list[Victim]:
    """4d: instances that earlier decisions evicted for this service and whose room is expected."""
    expected = []
    for victim in victims_of(part, draft):
        ends = victim.member.state is State.TERMINATING
        if victim.draft.demand.service.assumed or (
            ends and has_expected_room(victim.member, part.now, part.policy)
        ):
            expected.append(victim)
    return expected


def victims_of(part: Part, draft: Draft) -> list[Victim]:
    """The instances that earlier decisions evicted for this service, as far as they still exist."""
    uids = draft.memory.victims
    if not uids:
        return []
    by_uid = {}
    for other in part.drafts_of_part(math.inf):
        for member in other.demand.members:
            if member.uid in uids:
                by_uid[member.uid] = Victim(other, member)
    return [by_uid[uid] for uid in uids if uid in by_uid]


def make_room(
    part: Part, members: list[Member], room: Room, victims: Victims
) -> ReservedMinimum | None:
    """4c, 4d: reserve room with the fewest of these victims. Any service may use what is left over
    of their room."""
    pods = requests_of(members)
    if not _suffices(part.placement, pods, room, victims):
        return None
    few = _fewest(part.placement, pods, room, victims)
    part.placement.count_freed(_bound_pods(few))
    reserved = part.placement.reserve(pods, room)
    if isinstance(reserved, Shortage):  # the search for a placement was given up
        part.placement.count_freed(_bound_pods(few), -1)
        return None
    return ReservedMinimum(members, room, reserved, tuple(few))


def _fewest(placement: Placement, pods: PodRequests, room: Room, victims: Victims) -> list[Victim]:
    """4c: the victims that are needed, out of all that suffice together: first as few from the
    front as suffice, then without those that can be spared, the costliest first."""
    number = bisect_left(
        range(len(victims) + 1),
        True,
        key=lambda n: _suffices(placement, pods, room, victims[:n]),
    )
    chosen = list(victims[:number])
    for victim in reversed(victims[: max(0, number - 1)]):
        without = [one for one in chosen if one is not victim]
        if _suffices(placement, pods, room, without):
            chosen = without
    return chosen


def _suffices(placement: Placement, pods: PodRequests, room: Room, victims: Victims) -> bool:
    return placement.fits_without(_bound_pods(victims), pods, room) is None


def _bound_pods(victims: Victims) -> list[tuple[str, PodRequest]]:
    bound_pods: list[tuple[str, PodRequest]] = []
    for victim in victims:
        bound_pods += victim.member.instance.bound_pods
    return bound_pods


def surplus(part: Part, draft: Draft) -> tuple[list[Victim], list[Victim]]:
    """3.6: surplus of the service itself, that does not run and that runs, without instances of the
    minimum that are bound in part."""
    helpful = _helpful(part, draft)
    idle, running = _surplus(part, draft, helpful)
    own = [victim for victim in idle if victim.member not in draft.demand.bound_in_part]
    known = [victim.member for victim in own]
    for member in _replaced(part, draft, helpful):
        if member not in known:
            own.append(Victim(draft, member))
    return own, running


def _replaced(part: Part, draft: Draft, helpful: Collection[NodeClass]) -> list[Member]:
    """3.8: outdated instances that do not start, while the newest revision takes their places.
    They are surplus that does not run."""
    replaced = []
    for name in draft.demand.minimum:
        for member in _evictable(part, draft, draft.demand.groups[name]):
            if member in draft.demand.replaced and member.state is not State.RUNNING:
                replaced.append(member)
    return _on_nodes(part, replaced, helpful)


def surplus_for_scale_up(part: Part, draft: Draft) -> list[Victim]:
    """3.6, `trade: always`: surplus of a service that serves which may make room for a missing
    instance of its target."""
    if not (draft.demand.serves and may_trade(draft)) or draft.evicted:
        return []
    idle, running = surplus(part, draft)
    surplus_of_target = list(idle)
    for victim in running:
        group = draft.demand.groups[victim.member.instance.group or ""]
        if group.running > group.target:
            surplus_of_target.append(victim)
    return surplus_of_target


def victims_of_others(part: Part, draft: Draft) -> list[Victim]:
    """4a, 4c: instances of other services that a minimum may evict: not running first, then lower
    priority, then newest."""
    policy = part.policy
    if policy.preempt is Preempt.NEVER:
        return []
    helpful = _helpful(part, draft)
    victims: list[Victim] = []
    most = draft.demand.priority - (policy.preempt is Preempt.HIGHER_PRIORITY)
    for other in part.drafts_of_part(most):
        protected = policy.honour_preemptable and not other.demand.service.options.preemptable
        may_lose = other is not draft and other.demand.priority <= most and not protected
        if may_lose and draft.shares_nodes_with(other):
            idle, running = _surplus(part, other, helpful)
            victims += idle + running
    victims.sort(key=lambda one: age(one.member), reverse=True)
    victims.sort(key=lambda one: (one.member.state is State.RUNNING, one.draft.demand.priority))
    return victims


def _helpful(part: Part, draft: Draft) -> frozenset[NodeClass]:
    """Classes of nodes on which a missing pod of the service may run."""
    missing = list(draft.demand.bound_in_part)
    for name, candidates in draft.demand.candidates.items():
        if draft.demand.minimum.get(name) or draft.demand.serves:
            missing += candidates
    return part.placement.nodes.classes_for(requests_of(missing))


def _surplus(
    part: Part, draft: Draft, helpful: Collection[NodeClass]
) -> tuple[list[Victim], list[Victim]]:
    """4b: bound instances beyond the minimum with a pod on a node of the `helpful` classes, newest
    first; none with a pod on a node that is not ready. First list: those without a slot, or not
    running; second: running ones. A group keeps its minimum."""
    demand = draft.demand
    idle: list[Victim] = []
    running: list[Victim] = []
    if demand.paused or demand.service.assumed or demand.rule is None:
        return idle, running
    for name, group in demand.groups.items():
        least = demand.rule.smallest.of(name)
        runs: list[Member] = []
        with_slot: list[Member] = []
        without_slot: list[Member] = []
        for member in _evictable(part, draft, group):
            if member.state is State.RUNNING:
                runs.append(member)
            elif member.has_slot:
                with_slot.append(member)
            else:
                without_slot.append(member)
        with_slot.sort(key=lambda member: not member.in_part)  # bound in part first
        beyond = max(0, min(len(with_slot), len(runs) + len(with_slot) - least))
        members = _on_nodes(part, without_slot, helpful)
        members += _on_nodes(part, with_slot, helpful)[:beyond]
        idle += [Victim(draft, member) for member in members]
        members = _on_nodes(part, runs, helpful)[: max(0, len(runs) - least - group.paired)]
        running += [Victim(draft, member) for member in members]
    return idle, running


def _evictable(part: Part, draft: Draft, group: Group) -> list[Member]:
    """4b: bound instances of the group whose eviction leaves room, newest first."""
    evictable = []
    for member in group.members:
        is_bound = bool(member.instance.bound) and member.step is None
        is_going = member.state in (State.TERMINATING, State.FINISHED)
        may_go = is_bound and not is_going and member.uid not in draft.nominated
        if may_go and _leaves_room(part, member):
            evictable.append(member)
    return sorted(evictable, key=age, reverse=True)


def _leaves_room(part: Part, member: Member) -> bool:
    """Whether all nodes of its bound pods are ready."""
    by_name = part.placement.nodes.by_name
    for name, _ in member.instance.bound_pods:
        node = by_name.get(name)
        if node is None or not node.ready:
            return False
    return bool(member.instance.bound_pods)


def _on_nodes(
    part: Part, members: Iterable[Member], classes: Collection[NodeClass]
) -> list[Member]:
    """Members with a pod on a schedulable node of these classes."""
    by_name = part.placement.nodes.by_name
    on_nodes = []
    for member in members:
        for name, _ in member.instance.bound_pods:
            node = by_name[name]
            if node.schedulable and node.node_class in classes:
                on_nodes.append(member)
                break
    return on_nodes
