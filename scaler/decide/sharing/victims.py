"""Which bound instances are evicted so that missing ones find room: 3b.4b to 3b.4d of the contract.

    bound instances of a group -> those that may go, and how many of them (4b)
    -> those whose room helps, in their order (4c) -> the fewest that suffice (4c, 4d)

Asks only: must not reserve or evict."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import msgspec

from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.nodes import PodRequest, PodRequests, Room
from scaler.decide.room.placement import Placement
from scaler.decide.service.groups import Group
from scaler.decide.service.states import Member, Use, affords_revoke, age, use_of
from scaler.decide.sharing.choice import one_of_each
from scaler.decide.sharing.part import Part, Victim

BoundPods = list[tuple[str, PodRequest]]


class Cost(NamedTuple):
    """4c: what an eviction costs: victims are sorted by it, the cheapest first."""

    tier: tuple[bool, int, bool, bool]
    """Of another service, its priority, runs, is Ready."""
    helps: int
    """Less than 0: how many of the missing pods find places by it."""
    use: Use
    grace: float
    newest: int
    """0 for the newest of all."""


class Surplus(msgspec.Struct, frozen=True, eq=False):
    """Instances of one group any of which may be evicted, and how many of them at most."""

    draft: Draft
    """Of their service."""
    without_slot: list[Victim]
    idle: list[Victim]
    """With a slot, and not running."""
    running: list[Victim]
    most_idle: int = 0
    most_running: int = 0
    most_ready: int = 0
    """Of those that run, so many may be Ready."""

    @property
    def all(self) -> list[Victim]:
        return [*self.without_slot, *self.idle, *self.running]

    @property
    def may_go(self) -> bool:
        """Whether one of them may be evicted at all."""
        runs = self.running and self.most_running
        return bool(self.without_slot or (self.idle and self.most_idle) or runs)

    @property
    def not_running(self) -> Surplus:
        """The same without instances that run."""
        return msgspec.structs.replace(self, running=[])

    def without(self, members: Collection[Member]) -> Surplus:
        """The same without these instances."""
        others = [victim.member.uid for victim in self.all if victim.member not in members]
        return self if len(others) == len(self.all) else self.within(others)

    def within(self, uids: Collection[str]) -> Surplus:
        """The same with these instances alone."""

        def among(victims: Iterable[Victim]) -> list[Victim]:
            return [victim for victim in victims if victim.member.uid in uids]

        return msgspec.structs.replace(
            self,
            without_slot=among(self.without_slot),
            idle=among(self.idle),
            running=among(self.running),
        )

    def sorted_by(self, costs: Mapping[str, Cost]) -> Surplus:
        """The same, the cheapest first."""

        def cost(victim: Victim) -> Cost:
            return costs[victim.member.uid]

        return msgspec.structs.replace(
            self, idle=sorted(self.idle, key=cost), running=sorted(self.running, key=cost)
        )

    def sets(self) -> Iterator[list[Victim]]:
        """The largest sets that may go together, in the order of the lists."""
        for idle in combinations(self.idle, min(len(self.idle), self.most_idle)):
            number = min(len(self.running), self.most_running)
            for running in combinations(self.running, number):
                yield [*self.without_slot, *idle, *self._within_most_ready(running)]

    def _within_most_ready(self, running: Iterable[Victim]) -> Iterator[Victim]:
        left = self.most_ready
        for victim in running:
            is_ready = use_of(victim.member) is Use.READY
            if left or not is_ready:
                yield victim
            left -= is_ready and left > 0


# 4b: who may go


def surplus_of(part: Part, draft: Draft, group: Group, least: int, *, own: bool = False) -> Surplus:
    """4b: the instances of a group that may be evicted so that `least` of them stay, and so many
    that are Ready if it has them. `own`: for an instance of the same service. Then an instance of
    the minimum that is bound in part stays, and an outdated one that does not start goes where the
    newest revision takes its place (3.8)."""
    kept = draft.demand.bound_in_part if own else ()
    replaced = draft.demand.replaced if own else ()
    without_slot: list[Member] = []
    idle: list[Member] = []
    running: list[Member] = []
    for member in _counted(part, draft, group):
        if member.state is State.RUNNING:
            running.append(member)
        elif member.has_slot and member not in replaced:
            idle.append(member)
        else:
            without_slot.append(member)
    ready = [member for member in running if use_of(member) is Use.READY]

    def able(members: Iterable[Member]) -> list[Victim]:
        victims = []
        for member in members:
            if member not in kept and may_go(part, member):
                victims.append(Victim(draft, member))
        return victims

    return Surplus(
        draft,
        able(without_slot),
        able(idle),
        able(running),
        most_idle=max(0, min(len(idle), len(running) + len(idle) - least)),
        most_running=max(0, len(running) - least - group.paired),
        most_ready=max(0, len(ready) - least),
    )


def _counted(part: Part, draft: Draft, group: Group) -> Iterator[Member]:
    """Bound instances of the group that stay if nothing is done, on nodes that are ready."""
    for member in group.members:
        is_bound = bool(member.instance.bound) and member.step is None
        is_going = member.state in (State.TERMINATING, State.FINISHED)
        may_go = is_bound and not is_going and member.uid not in draft.nominated
        if may_go and leaves_room(part, member):
            yield member


def leaves_room(part: Part, member: Member) -> bool:
    """Whether all nodes of its bound pods are ready."""
    by_name = part.placement.nodes.by_name
    for name, _ in member.instance.bound_pods:
        node = by_name.get(name)
        if node is None or not node.ready:
            return False
    return bool(member.instance.bound_pods)


def may_go(part: Part, member: Member) -> bool:
    """4b, 4g: whether its pods end in time, and its operator has restarts to spare."""
    policy = part.policy
    ends_in_time = member.instance.grace <= policy.start_timeout - policy.due_back
    return ends_in_time and affords_revoke(member.instance, policy)


# 4c, 4d: who goes


def fewest(
    placement: Placement, pods: PodRequests, room: Room, surplus: Sequence[Surplus], own: Draft
) -> list[Victim] | None:
    """4c, 4d: the fewest and cheapest victims with whose room these pods fit; None when none
    suffice. `own`: the draft of the service that the pods are of."""
    if _suffice(placement, pods, room, []):
        return []
    helpful = _that_help(placement, pods, room, surplus)
    everybody: list[Victim] = []
    for group in helpful:
        everybody += group.all
    if not everybody or not _suffice(placement, pods, room, everybody):
        return None
    costs = _costs(placement, pods, room, everybody, own)
    groups = [group.sorted_by(costs) for group in helpful]
    for tier in sorted({cost.tier for cost in costs.values()}):
        uids = {uid for uid, cost in costs.items() if cost.tier <= tier}
        of_tier = [group.within(uids) for group in groups]
        for chosen in one_of_each([group.sets() for group in of_tier]):
            victims = sorted(chosen, key=lambda victim: costs[victim.member.uid])
            if _suffice(placement, pods, room, victims):
                return _spare(placement, pods, room, victims)
    return None


def _that_help(
    placement: Placement, pods: PodRequests, room: Room, surplus: Iterable[Surplus]
) -> list[Surplus]:
    """The victims with a pod on a node that takes more of these pods when all victims on it are
    gone."""
    groups = list(surplus)
    on_node: dict[str, BoundPods] = defaultdict(list)
    for group in groups:
        for name, request in bound_pods_of(group.all):
            on_node[name].append((name, request))
    nodes = set()
    for name, bound_pods in on_node.items():
        if placement.places_gained(bound_pods, pods, room):
            nodes.add(name)
    helpful = []
    for group in groups:
        uids = set()
        for victim in group.all:
            if any(name in nodes for name, _ in victim.member.instance.bound_pods):
                uids.add(victim.member.uid)
        if uids:
            helpful.append(group.within(uids))
    return helpful


def _costs(
    placement: Placement, pods: PodRequests, room: Room, victims: Iterable[Victim], own: Draft
) -> dict[str, Cost]:
    """Uid -> cost."""
    costs = {}
    newest_first = sorted(victims, key=lambda victim: age(victim.member), reverse=True)
    for number, victim in enumerate(newest_first):
        member = victim.member
        is_of_others = victim.draft is not own
        priority = victim.draft.demand.priority if is_of_others else 0
        use = use_of(member)
        gained = placement.places_gained(bound_pods_of([victim]), pods, room)
        costs[member.uid] = Cost(
            tier=(is_of_others, priority, use >= Use.NOT_READY, use is Use.READY),
            helps=-gained,
            use=use,
            grace=member.instance.grace,
            newest=number,
        )
    return costs


def _spare(
    placement: Placement, pods: PodRequests, room: Room, victims: Sequence[Victim]
) -> list[Victim]:
    """4c: the victims that are needed, out of all that suffice together: first as few from the
    front as suffice, then without those that can be spared, the dearest first."""
    number = bisect_left(
        range(len(victims) + 1),
        True,
        key=lambda n: _suffice(placement, pods, room, victims[:n]),
    )
    chosen = list(victims[:number])
    for victim in reversed(victims[: max(0, number - 1)]):
        without = [one for one in chosen if one is not victim]
        if _suffice(placement, pods, room, without):
            chosen = without
    return chosen


def _suffice(
    placement: Placement, pods: PodRequests, room: Room, victims: Sequence[Victim]
) -> bool:
    return placement.fits_without(bound_pods_of(victims), pods, room) is None


def bound_pods_of(victims: Iterable[Victim]) -> BoundPods:
    """The bound pods of these victims: name of the node, and pod request."""
    bound_pods: BoundPods = []
    for victim in victims:
        bound_pods += victim.member.instance.bound_pods
    return bound_pods
