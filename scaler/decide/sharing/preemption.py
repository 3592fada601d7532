"""For whom somebody is evicted, and of which services: 3b.4a, 4d and 3.6 of the contract. Reserves
the room that the victims leave (`victims.py` names them); must not evict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from scaler.decide.decision import State
from scaler.decide.draft import Draft, requests_of
from scaler.decide.nodes import Room
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, has_expected_room
from scaler.decide.sharing.part import Part, ReservedMinimum, Shrunk, Victim
from scaler.decide.sharing.victims import Surplus, bound_pods_of, fewest, surplus_of
from scaler.decide.training import offers
from scaler.decide.world import Preempt
from scaler.rules.rule import Trade


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
    for other in part.drafts_of_all():
        for member in other.demand.members:
            if member.uid in uids:
                by_uid[member.uid] = Victim(other, member)
    return [by_uid[uid] for uid in uids if uid in by_uid]


def make_room(
    part: Part, draft: Draft, members: list[Member], room: Room, surplus: Sequence[Surplus]
) -> ReservedMinimum | None:
    """4c, 4d: reserve room for these instances of the service with the fewest of these victims. Any
    service may use what is left over of their room."""
    pods = requests_of(members)
    few = fewest(part.placement, pods, room, surplus, draft)
    if few is None:
        return None
    part.placement.count_freed(bound_pods_of(few))
    reserved = part.placement.reserve(pods, room)
    if isinstance(reserved, Shortage):  # the search for a placement was given up
        part.placement.count_freed(bound_pods_of(few), -1)
        return None
    return ReservedMinimum(members, room, reserved, tuple(few))


def make_room_by_shrinking(
    part: Part,
    draft: Draft,
    members: list[Member],
    surplus: Sequence[Surplus],
    shrunk: tuple[Shrunk, ...],
) -> ReservedMinimum | None:
    """3d.6: reserve room for these instances on what the shrunk jobs leave, and for the jobs at
    their smaller sizes; beside that with the fewest of these victims."""
    of_jobs = bound_pods_of([one.victim for one in shrunk])
    part.placement.count_freed(of_jobs)
    kept = part.placement.reserve(offers.needs_of(shrunk), Room.EXPECTED)
    if isinstance(kept, Reservation):
        reserved = make_room(part, draft, members, Room.EXPECTED, surplus)
        if reserved is not None:
            return msgspec.structs.replace(reserved, shrunk=shrunk, for_shrunk=kept)
        part.placement.cancel(kept)
    part.placement.count_freed(of_jobs, -1)
    return None


def give_back(part: Part, reserved: ReservedMinimum) -> None:
    """Free the room of a reservation on room that victims leave: nobody is to be evicted for it."""
    part.placement.cancel(reserved.reservation)
    if reserved.for_shrunk is not None:
        part.placement.cancel(reserved.for_shrunk)
    part.placement.count_freed(bound_pods_of(reserved.all_victims), -1)


def own_surplus(part: Part, draft: Draft) -> list[Surplus]:
    """3.6: surplus of the service itself."""
    return _surplus(part, draft, own=True)


def may_give_up_running(part: Part, draft: Draft) -> bool:
    """3.6: whether running surplus of the service may be evicted for its own minimum."""
    return may_trade(draft) and any(group.running for group in own_surplus(part, draft))


def surplus_for_scale_up(part: Part, draft: Draft) -> list[Surplus]:
    """3.6, `trade: always`: surplus of a service that serves which may make room for a missing
    instance of its target: what the target has no place for. Of a service that is alone (8) only
    what does not run."""
    demand = draft.demand
    if not (demand.serves and may_trade(draft)) or draft.evicted:
        return []
    if demand.paused or demand.service.assumed or demand.rule is None:
        return []
    surplus = []
    for name, group in demand.groups.items():
        least = max(group.target, demand.rule.smallest.of(name))
        of_group = surplus_of(part, draft, group, least)
        surplus.append(of_group if draft.shares else of_group.not_running)
    return surplus


def others_that_may_lose(part: Part, draft: Draft) -> list[Draft]:
    """4a: the services of which a minimum may evict instances."""
    policy = part.policy
    if policy.preempt is Preempt.NEVER:
        return []
    others: list[Draft] = []
    most = draft.demand.priority - (policy.preempt is Preempt.HIGHER_PRIORITY)
    for other in part.drafts_of_part(most):
        protected = policy.honour_preemptable and not other.demand.service.options.preemptable
        may_lose = other is not draft and other.demand.priority <= most and not protected
        if may_lose and draft.shares_nodes_with(other):
            others.append(other)
    return others


def offers_of_others(part: Part, draft: Draft) -> Iterator[offers.Offer]:
    """4b, 3d.6: what other services may lose for a minimum, in the order in which it is taken."""
    others = others_that_may_lose(part, draft)
    surplus: list[Surplus] = []
    for other in others:
        surplus += _surplus(part, other)
    return offers.in_order(part, surplus, others)


def _surplus(part: Part, draft: Draft, *, own: bool = False) -> list[Surplus]:
    """4b: what a service has beyond its minimum, by group. `own`: it is to go for an instance of
    the same service."""
    demand = draft.demand
    if demand.paused or demand.service.assumed or demand.rule is None:
        return []
    surplus = []
    for name, group in demand.groups.items():
        of_group = surplus_of(part, draft, group, demand.rule.smallest.of(name), own=own)
        if of_group.may_go:
            surplus.append(of_group)
    return surplus
