"""On which room a minimum finds its place: sections 3b.1, 3b.3 and 3b.4 of the contract.

    candidates -> sets of them -> free room, then what ends, what may be evicted, what is to come -> a reservation

Must not change what becomes of an instance: it reserves room, and says who would have to be evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, islice, product
from typing import Protocol

import msgspec

from scaler.decide import preemption
from scaler.decide.draft import Draft, requests_of
from scaler.decide.ground import Ground
from scaler.decide.members import Member, is_made, is_to_come
from scaler.decide.neighbours import Neighbours
from scaler.decide.nodes import PODS, PodRequest, PodRequests
from scaler.decide.placement import Placement, Reservation, Room
from scaler.decide.preemption import Victim
from scaler.decide.shortage import Shortage
from scaler.decide.turn import Moment
from scaler.decide.world import Preempt, State, Turns
from scaler.rules.rule import Trade

MOST_SETS = 16
"""So many sets of candidates are tried for one source of room."""


class Everybody(Protocol):
    """Drafts of all services that share nodes with each other, made when first asked for."""

    @property
    def lowest(self) -> int:
        """The lowest priority among them."""

    def __call__(self) -> Sequence[Draft]: ...


class Minimum(msgspec.Struct, eq=False):
    """The instances that were chosen for the minimum of a service, on room that is reserved for all of them."""

    members: list[Member]
    """Those that are bound in part, then the candidates."""
    room: Room
    reservation: Reservation
    victims: list[Victim] = []
    swaps: bool = False
    """An instance is revoked so that another one of its group can take its place."""

    @property
    def unmade(self) -> bool:
        """Pods of some of it do not exist yet."""
        return any(not is_made(member) for member in self.members if member.state is State.HELD)


class Sources:
    """Where the minimums of one decision find room. `everybody`: drafts of all services, made when first asked for."""

    def __init__(
        self,
        placement: Placement,
        neighbours: Neighbours,
        moment: Moment,
        *,
        everybody: Everybody,
        ground: Ground,
        room_to_come: bool,
    ) -> None:
        self.placement = placement
        self.neighbours = neighbours
        self.moment = moment
        self._everybody = everybody
        self._ground = ground
        self._room_to_come = room_to_come
        self.unfit: dict[object, Shortage] = {}
        """What no source of room suffices for stays so until something is cancelled or granted."""

    def find(self, draft: Draft) -> Minimum | Shortage:
        """On the first source that suffices; the shortage is that of free room."""
        fixed = list(draft.demand.fixed)
        same = None if draft.memory.victims else draft.demand.same
        if same is not None and same in self.unfit:
            return self.unfit[same]
        found = self._on_free_room(draft, fixed)
        if isinstance(found, Shortage):
            found = self._on_other_room(draft, fixed) or found
        if isinstance(found, Shortage) and same is not None:
            self.unfit[same] = found
        return found

    def _on_other_room(self, draft: Draft, fixed: list[Member]) -> Minimum | None:
        under_way = [uid for uid in draft.memory.victims if self._is_under_way(uid)]
        if tuple(under_way) != draft.memory.victims:
            draft.remember(victims=tuple(under_way))
        sources = self._to_come_only() if under_way else self._sources(draft)
        for room, victims in sources:
            if not victims and not self._room_to_come:
                continue
            found = self._on(draft, fixed, room, victims)
            if found is not None:
                return found
        return self._on(draft, fixed, Room.AWAY, []) if self._room_to_come else None

    def _on_free_room(self, draft: Draft, fixed: list[Member]) -> Minimum | Shortage:
        shortage: Shortage | None = None
        for chosen in self._sets(draft, Room.FREE):
            members = fixed + chosen
            found = self.placement.reserve(requests_of(members))
            if isinstance(found, Reservation):
                return Minimum(members, Room.FREE, found)
            shortage = shortage or found
        return shortage or self._shortage_of_first(draft)

    def _shortage_of_first(self, draft: Draft) -> Shortage:
        """No set of candidates was worth a try: why one of them does not fit."""
        demand = draft.demand
        first = [m for name, number in demand.minimum.items() for m in demand.candidates[name][:number]]
        found = self.placement.fits(requests_of([*demand.fixed, *first]))
        for member in (m for name in demand.minimum for m in demand.candidates[name]):
            found = found or self.placement.fits(member.unbound)
        return found or Shortage(PodRequest(), len(first), 0, PODS)

    @staticmethod
    def _to_come_only() -> Iterator[tuple[Room, list[Victim]]]:
        yield Room.TO_COME, []

    def surplus(self, draft: Draft, *, running: bool) -> list[Victim]:
        """Own instances of a service that may be evicted for what it misses."""
        return preemption.surplus(draft, self._ground.by_name, self._helps(draft), running=running)

    def _helps(self, draft: Draft) -> preemption.Helps:
        """Whether a pod that the service misses may run on a node."""
        minimum, by_group = draft.demand.minimum, draft.demand.candidates
        candidates = (m for name, found in by_group.items() if minimum.get(name) or draft.demand.serves for m in found)
        classes = self._ground.classes_for(requests_of([*draft.demand.fixed, *candidates]))
        return lambda node: node.schedulable and node.node_class in classes

    def _sources(self, draft: Draft) -> Iterator[tuple[Room, list[Victim]]]:
        trades = draft.demand.service.options.trade is not Trade.OFF
        useless = self.surplus(draft, running=False) if trades else []
        if useless:
            yield Room.FREED, useless
        yield Room.TO_COME, []
        if useless:
            yield Room.TO_COME, useless
        own = useless + (self.surplus(draft, running=True) if preemption.may_trade(draft) else [])
        if len(own) > len(useless):
            yield Room.TO_COME, own
        others = self._victims_of_others(draft)
        if others:
            yield Room.TO_COME, own + others

    def _victims_of_others(self, draft: Draft) -> list[Victim]:
        policy = self.moment.policy
        lowest, own = self._everybody.lowest, draft.demand.priority
        if policy.preempt is Preempt.NEVER or lowest > own:
            return []
        if lowest == own and policy.preempt is Preempt.HIGHER_PRIORITY:
            return []
        sharing = (other for other in self._everybody() if self.neighbours.share(draft, other))
        return preemption.of_others(draft, sharing, self._ground.by_name, self._helps(draft), policy)

    def _on(self, draft: Draft, fixed: list[Member], room: Room, victims: list[Victim]) -> Minimum | None:
        for chosen in self._sets(draft, room, freed=bool(victims)):
            members = fixed + chosen
            if victims and any(draft.of(member.uid).turns is not Turns.NONE for member in members):
                continue
            pods = requests_of(members)
            if not self.suffices(pods, room, victims):
                continue
            few = preemption.fewest(victims, lambda some, pods=pods: self.suffices(pods, room, some))  # type: ignore[misc]
            found = self.reserve_beside(pods, room, few)
            if isinstance(found, Reservation):
                return Minimum(members, room, found, few)
        return None

    def reserve_beside(self, pods: PodRequests, room: Room, victims: Sequence[Victim]) -> Reservation | Shortage:
        """Reserve on what these victims leave as well; what they leave over is to come for everybody."""
        self.placement.grant(seats_of(victims))
        self.unfit.clear()
        found = self.placement.reserve(pods, room)
        if isinstance(found, Reservation):
            for victim in victims:
                victim.draft.nominated.add(victim.member.uid)
            self._room_to_come = self._room_to_come or bool(victims)
        else:
            self.placement.withdraw(seats_of(victims))
        return found

    def suffices(self, pods: PodRequests, room: Room, victims: Collection[Victim]) -> bool:
        self.placement.grant(seats_of(victims))
        fits = self.placement.fits(pods, room) is None
        self.placement.withdraw(seats_of(victims))
        return fits

    def _sets(self, draft: Draft, room: Room, *, freed: bool = False) -> Iterator[list[Member]]:
        """Sets of candidates in their order, each kind of set once; none with one that fits nowhere by itself, so that
        the next one goes. With `freed` more room may be there than it seems."""
        by_group: list[list[tuple[Member, ...]]] = []
        for name, number in draft.demand.minimum.items():
            candidates = [m for m in draft.demand.candidates[name] if number and self._might_fit(m, room, freed=freed)]
            if all(_alike(draft, candidates[0], other) for other in candidates[1:]):
                by_group.append([tuple(candidates[:number])] if len(candidates) >= number else [])
            else:
                by_group.append(list(islice(combinations(candidates, number), MOST_SETS)))
        for chosen in islice(product(*by_group), MOST_SETS):
            yield [member for part in chosen for member in part]

    def _might_fit(self, member: Member, room: Room, *, freed: bool) -> bool:
        if member.state is State.TERMINATING and room < Room.TO_COME:
            return False
        return freed or self.placement.fits(member.unbound, room) is None

    def _is_under_way(self, uid: str) -> bool:
        """It was evicted, is not gone, and its room is to come."""
        victim = self._find_victim(uid)
        if victim is None:
            return False
        if victim.draft.demand.service.assumed:
            return True
        member = victim.member
        return member.state is State.TERMINATING and is_to_come(member, self.moment.now, self.moment.policy)

    def victims_of(self, draft: Draft) -> list[Victim]:
        """What was evicted for this service before and is not gone."""
        found = (self._find_victim(uid) for uid in draft.memory.victims)
        return [victim for victim in found if victim is not None]

    def _find_victim(self, uid: str) -> Victim | None:
        found = (Victim(draft, m) for draft in self._everybody() for m in draft.demand.members if m.uid == uid)
        return next(found, None)


def _alike(draft: Draft, one: Member, other: Member) -> bool:
    """Whether it makes no difference to room which of the two is chosen."""
    same = one.unbound == other.unbound and (one.state is State.TERMINATING) == (other.state is State.TERMINATING)
    return same and bool(draft.of(one.uid).turns) == bool(draft.of(other.uid).turns)


def seats_of(victims: Iterable[Victim]) -> list[tuple[str, PodRequest]]:
    return [seat for victim in victims for seat in victim.member.instance.seats]
