"""Where a minimum finds room, and which bound instances may be evicted: sections 3.6, 3b.1, 3b.3,
3b.4 of the contract.

    candidates -> sets of candidates -> free room, surplus, room to come, victims, absent nodes -> a
    reservation

Reserves room and names the fewest and cheapest victims. Must not admit, revoke or evict."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, product

import msgspec

from scaler.decide.attempts import VictimsLeft
from scaler.decide.decision import State
from scaler.decide.draft import Draft, requests_of
from scaler.decide.memory import HadAttempt
from scaler.decide.nodes import PODS, NodeClass, PodRequest, PodRequests, Room
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, age, is_made, is_to_come
from scaler.decide.world import Preempt, World
from scaler.rules.rule import Trade

MOST_SETS = 16
"""The largest number of sets of candidates that are tried on one source of room."""

DraftsOfPart = Callable[[float], Sequence[Draft]]
"""(highest priority) -> the drafts of all services of the part; none if each has a higher priority
than that."""


class Victim(msgspec.Struct, frozen=True, eq=False):
    """An instance that may be evicted, for another service or for a missing instance of the same
    service."""

    draft: Draft
    member: Member


class Minimum(msgspec.Struct, eq=False):
    """The instances chosen for the minimum of a service, and the reservation for all of them."""

    members: list[Member]
    """Instances that are bound in part, then candidates."""
    room: Room
    reservation: Reservation
    victims: list[Victim] = []
    swaps: bool = False
    """An instance in hands is revoked so that another instance of its group can take its place."""

    @property
    def unmade(self) -> bool:
        """Whether the owner of a chosen instance has not made its pods yet."""
        return any(not is_made(member) for member in self.members if member.state is State.HELD)


class Sources:
    """The sources of room for the minimums of one decision."""

    def __init__(
        self,
        placement: Placement,
        world: World,
        drafts_of_part: DraftsOfPart,
        *,
        room_to_come: bool,
    ) -> None:
        """`room_to_come`: pods may end or nodes may return, so that there may be more than free
        room."""
        self.placement = placement
        self.world = world
        self._drafts_of_part = drafts_of_part
        self.room_to_come = room_to_come
        self.unfit: dict[object, Shortage] = {}
        """`Demand.room_key` -> shortage, where no source suffices. Empty again when room is
        cancelled or freed."""

    def find(self, draft: Draft) -> Minimum | Shortage:
        """The minimum on the first source of room that suffices; else what is missing of free
        room."""
        key = None if draft.memory.victims else draft.demand.room_key
        if key in self.unfit:
            return self.unfit[key]
        found = self._on_free_room(draft)
        if isinstance(found, Shortage):
            found = self._on_other_room(draft) or found
        if isinstance(found, Shortage) and key is not None:
            self.unfit[key] = found
        return found

    def _on_free_room(self, draft: Draft) -> Minimum | Shortage:
        shortage: Shortage | None = None
        for members in self._sets(draft, Room.FREE):
            found = self.placement.reserve(requests_of(members))
            if isinstance(found, Reservation):
                return Minimum(members, Room.FREE, found)
            shortage = shortage or found
        return shortage or self._shortage_of_first(draft)

    def _shortage_of_first(self, draft: Draft) -> Shortage:
        """The shortage where no set was tried, because single candidates do not fit."""
        demand = draft.demand
        first = demand.first()
        by_itself = (
            member.instance.unbound for name in demand.minimum for member in demand.candidates[name]
        )
        tried = map(
            self.placement.fits, chain([requests_of([*demand.bound_in_part, *first])], by_itself)
        )
        return next(filter(None, tried), None) or Shortage(PodRequest(), len(first), 0, PODS)

    def _on_other_room(self, draft: Draft) -> Minimum | None:
        now = self.world.now
        policy = self.world.policy
        under_way = tuple(
            # its pods still exist, and their room is to come
            victim.member.uid
            for victim in self.victims_of(draft)
            if victim.draft.demand.service.assumed
            or (victim.member.state is State.TERMINATING and is_to_come(victim.member, now, policy))
        )
        if under_way != draft.memory.victims:
            draft.note(VictimsLeft(under_way))
        sources = [(Room.TO_COME, list[Victim]())] if under_way else self._sources(draft)
        for room, victims in chain(sources, [(Room.AWAY, list[Victim]())]):
            for members in (
                self._sets(draft, room, freed=bool(victims)) if victims or self.room_to_come else ()
            ):
                if victims and any(
                    draft.memory_of(member.uid).had_attempt is not HadAttempt.NO
                    for member in members
                ):
                    continue
                found = self.make_room(members, room, victims)
                if found is not None:
                    return found
        return None

    def _sources(self, draft: Draft) -> Iterator[tuple[Room, list[Victim]]]:
        useless, running = (
            self.surplus(draft) if draft.demand.service.options.trade is not Trade.OFF else ([], [])
        )
        if useless:
            yield Room.FREED, useless
        yield Room.TO_COME, []
        if useless:
            yield Room.TO_COME, useless
        own = useless + (running if may_trade(draft) else [])
        if len(own) > len(useless):
            yield Room.TO_COME, own
        others = self._victims_of_others(draft)
        if others:
            yield Room.TO_COME, own + others

    def _sets(self, draft: Draft, room: Room, *, freed: bool = False) -> Iterator[list[Member]]:
        """Sets of candidates in their order, each with the instances that are bound in part. Of
        alike candidates one set is tried. Candidates that do not fit by themselves are left out,
        but not if `freed`: victims leave room."""
        if draft.demand.room_key is not None and not draft.has_changes:
            return iter([draft.demand.first()])  # all sets need the same room
        ends = room >= Room.TO_COME
        memory_of = draft.memory_of
        by_group: list[Iterable[Sequence[Member]]] = []
        for name, number in draft.demand.minimum.items():
            found = [
                m
                for m in draft.demand.candidates[name]
                if number and (ends or m.state is not State.TERMINATING)
            ]
            distinct = dict.fromkeys([m.instance.unbound for m in found])
            fits = {pods for pods in distinct if freed or self.placement.fits(pods, room) is None}
            candidates = [m for m in found if m.instance.unbound in fits]
            kinds = {
                (m.instance.unbound, m.state is State.TERMINATING, memory_of(m.uid).had_attempt > 0)
                for m in candidates
            }
            by_group.append(
                combinations(candidates[:number] if len(kinds) < 2 else candidates, number)
            )
        return ([*draft.demand.bound_in_part, *chosen] for chosen in one_of_each(by_group))

    def make_room(
        self, members: list[Member], room: Room, victims: Sequence[Victim]
    ) -> Minimum | None:
        """Reserve room with the fewest of these victims. Any service may use what is left over of
        their room."""
        pods = requests_of(members)
        if not self._suffices(pods, room, victims):
            return None
        few = self._fewest(pods, room, victims)
        self._count_freed(few)
        self.unfit.clear()
        found = self.placement.reserve(pods, room)
        if isinstance(found, Shortage):  # the search for a placement was given up
            self._count_freed(few, -1)
            return None
        for victim in few:
            victim.draft.nominated.add(victim.member.uid)
        self.room_to_come = self.room_to_come or bool(few)
        return Minimum(members, room, found, few)

    def _fewest(self, pods: PodRequests, room: Room, victims: Sequence[Victim]) -> list[Victim]:
        """The victims that are needed, out of all that suffice together. The last victim is the
        costliest."""
        few = bisect_left(
            range(len(victims) + 1), True, key=lambda n: self._suffices(pods, room, victims[:n])
        )
        chosen = list(victims[:few])
        for victim in reversed(victims[: max(0, few - 1)]):
            without = [one for one in chosen if one is not victim]
            if self._suffices(pods, room, without):
                chosen = without
        return chosen

    def _suffices(self, pods: PodRequests, room: Room, victims: Collection[Victim]) -> bool:
        self._count_freed(victims)
        fits = self.placement.fits(pods, room) is None
        self._count_freed(victims, -1)
        return fits

    def _count_freed(self, victims: Iterable[Victim], sign: int = 1) -> None:
        self.placement.count_freed(
            [bound_pod for victim in victims for bound_pod in victim.member.instance.bound_pods],
            sign,
        )

    def victims_of(self, draft: Draft) -> list[Victim]:
        """The instances that earlier decisions evicted for this service, as far as they still
        exist."""
        uids = draft.memory.victims
        others = self._drafts_of_part(math.inf) if uids else ()
        found = {
            m.uid: Victim(other, m)
            for other in others
            for m in other.demand.members
            if m.uid in uids
        }
        return [found[uid] for uid in uids if uid in found]

    def surplus(self, draft: Draft) -> tuple[list[Victim], list[Victim]]:
        """Surplus of the service itself, useless and running, without instances of the minimum
        bound in part."""
        useless, running = self._surplus(draft, self._helpful(draft))
        return [
            victim for victim in useless if victim.member not in draft.demand.bound_in_part
        ], running

    def _victims_of_others(self, draft: Draft) -> list[Victim]:
        """Instances of other services that a minimum may evict: not running first, then lower
        priority, then newest."""
        policy = self.world.policy
        if policy.preempt is Preempt.NEVER:
            return []
        helpful = self._helpful(draft)
        found = list[Victim]()
        most = draft.demand.priority - (policy.preempt is Preempt.HIGHER_PRIORITY)
        for other in self._drafts_of_part(most):
            protected = policy.honour_preemptable and not other.demand.service.options.preemptable
            may_lose = other is not draft and other.demand.priority <= most and not protected
            if may_lose and draft.shares_nodes_with(other):
                found += chain(*self._surplus(other, helpful))
        found.sort(key=lambda one: age(one.member), reverse=True)
        found.sort(key=lambda one: (one.member.state is State.RUNNING, one.draft.demand.priority))
        return found

    def _helpful(self, draft: Draft) -> frozenset[NodeClass]:
        """Classes of nodes on which a missing pod of the service may run."""
        minimum = draft.demand.minimum
        by_group = draft.demand.candidates
        candidates = (
            m
            for name, found in by_group.items()
            if minimum.get(name) or draft.demand.serves
            for m in found
        )
        return self.placement.nodes.classes_for(
            requests_of([*draft.demand.bound_in_part, *candidates])
        )

    def _surplus(
        self, draft: Draft, helpful: Collection[NodeClass]
    ) -> tuple[list[Victim], list[Victim]]:
        """Bound instances beyond the minimum with a pod on a node of the `helpful` classes, newest
        first; none with a pod on a node that is not ready. First list: useless ones (no slot, or
        not running); second: running ones. A group keeps its minimum."""
        demand = draft.demand
        useless = list[Member]()
        running = list[Member]()
        if demand.paused or demand.service.assumed or demand.rule is None:
            return [], []
        for name, group in demand.groups.items():
            bound = [
                m
                for m in group.members
                if m.instance.bound and m.step is None and m.uid not in draft.nominated
            ]
            alive = [
                m
                for m in bound
                if m.state not in (State.TERMINATING, State.FINISHED) and self._leaves_room(m)
            ]
            bound = sorted(alive, key=age, reverse=True)
            least = demand.rule.smallest.of(name)
            runs = [m for m in bound if m.state is State.RUNNING]
            idle = [m for m in bound if m.state is not State.RUNNING]
            with_slot = sorted((m for m in idle if m.has_slot), key=lambda m: not m.in_part)
            beyond = max(0, min(len(with_slot), len(runs) + len(with_slot) - least))
            useless += self._on_nodes([m for m in idle if not m.has_slot], helpful)
            useless += self._on_nodes(with_slot, helpful)[:beyond]
            running += self._on_nodes(runs, helpful)[: max(0, len(runs) - least - group.paired)]
        return [Victim(draft, member) for member in useless], [
            Victim(draft, member) for member in running
        ]

    def _leaves_room(self, member: Member) -> bool:
        nodes = [self.placement.nodes.by_name.get(name) for name, _ in member.instance.bound_pods]
        return bool(nodes) and all(node is not None and node.ready for node in nodes)

    def _on_nodes(self, members: Iterable[Member], classes: Collection[NodeClass]) -> list[Member]:
        by_name = self.placement.nodes.by_name
        return [
            member
            for member in members
            if any(
                by_name[at].schedulable and by_name[at].node_class in classes
                for at, _ in member.instance.bound_pods
            )
        ]


def may_trade(draft: Draft) -> bool:
    """Whether running surplus of a service may be evicted for a missing instance of the same
    service."""
    trade = draft.demand.service.options.trade
    return trade is Trade.ALWAYS or (trade is Trade.WHEN_NOT_SERVING and not draft.demand.serves)


def one_of_each(by_group: Iterable[Iterable[Sequence[Member]]]) -> Iterator[list[Member]]:
    """One set of each group, joined, in every combination; at most `MOST_SETS` sets of a group, and
    in all."""
    parts = [list(islice(sets, MOST_SETS)) for sets in by_group]
    return (list(chain(*chosen)) for chosen in islice(product(*parts), MOST_SETS))
