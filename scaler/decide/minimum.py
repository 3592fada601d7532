"""Minimums reserve room, whole or not at all: sections 3b.1, 3b.3, 3b.4, 3b.8 and 3b.9 of the contract.

candidates -> the first set that fits -> on the first source of room that suffices -> reserved, or why not
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Protocol

import msgspec

from scaler.decide import preemption, turn
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.members import Member, is_made, is_to_come
from scaler.decide.neighbours import Neighbours
from scaler.decide.nodes import Node, PodRequest, PodRequests, joined
from scaler.decide.placement import Placement, Reservation, Room
from scaler.decide.preemption import Victim
from scaler.decide.shortage import Shortage, in_words
from scaler.decide.turn import Moment
from scaler.decide.world import Preempt, Reason, State, Turns
from scaler.rules.rule import Trade

MOST_SETS = 16
"""So many sets of candidates are tried for one source of room."""


class Ground(Protocol):
    """What is known of the nodes beside the room on them."""

    @property
    def by_name(self) -> Mapping[str, Node]: ...


class Everybody(Protocol):
    """Drafts of all services that are weighed against each other, made when first asked for."""

    lowest: int
    """The lowest priority among them."""

    def __call__(self) -> Sequence[Draft]: ...


Waits = Callable[[Draft, Iterable[Member]], tuple[bool, bool]]


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


class Minimums:
    """Where the minimums of one decision find room. `everybody`: drafts of all services, made when first asked for."""

    def __init__(  # noqa: PLR0913 - wiring, done once in decide.py
        self,
        placement: Placement,
        neighbours: Neighbours,
        moment: Moment,
        *,
        everybody: Everybody,
        ground: Ground,
        room_to_come: bool,
        too_large: Callable[[PodRequests], Shortage | None],
        probing: bool,
    ) -> None:
        self.placement = placement
        self.neighbours = neighbours
        self.moment = moment
        self._everybody = everybody
        self._ground = ground
        self._room_to_come = room_to_come
        self._too_large = too_large
        self._probing = probing
        self._unfit: dict[object, Shortage] = {}
        """What no source of room suffices for stays so until something is cancelled or granted."""
        self._known_sizes: dict[object, Shortage | None] = {}

    def reserve(self, draft: Draft, waits: Waits) -> Minimum | None:
        """Reserve room for the minimum of a service, or say in the draft why not; evictions are ordered there too."""
        lacking = draft.demand.is_incomplete()
        if turn.in_backoff(draft.memory, self.moment) and not lacking:
            return self._give_up(draft, turn.not_scheduled(draft.memory, Reason.MINIMUM_NOT_SCHEDULED))
        if lacking:
            draft.remember(held_since=0.0, probe_since=0.0)
            return self._alone_or_give_up(draft, (Reason.MINIMUM_INCOMPLETE, tuple(lacking)))
        found = self._find(draft)
        if isinstance(found, Shortage):
            never = self.too_large(draft)
            if never is not None:
                draft.remember(held_since=0.0, probe_since=0.0)
                return self._alone_or_give_up(draft, (Reason.MINIMUM_TOO_LARGE, (in_words(never),)))
            return self._does_not_fit(draft, found)
        if draft.memory.held_since or draft.memory.probe_since or draft.memory.probes:
            draft.remember(held_since=0.0, probe_since=0.0, probes=0)
        self._note_what_is_made(draft, found)
        if found.room is Room.FREE and turn.is_over(draft.memory, self.moment):
            again = self._after_its_turn(draft, found, waits)
            if again is None:
                return self._give_up(draft, turn.not_scheduled(draft.memory, Reason.MINIMUM_NOT_SCHEDULED))
            found = again
        self._take(draft, found)
        return found

    # Which instances, on which source of room

    def _find(self, draft: Draft) -> Minimum | Shortage:
        """On the first source that suffices; the shortage is that of free room."""
        fixed = list(draft.demand.fixed)
        same = None if draft.memory.victims else draft.demand.same
        if same is not None and same in self._unfit:
            return self._unfit[same]
        found = self._on_free_room(draft, fixed)
        if isinstance(found, Shortage):
            found = self._on_other_room(draft, fixed) or found
        if isinstance(found, Shortage) and same is not None:
            self._unfit[same] = found
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
        """No set of candidates was worth a try: why the first ones do not fit."""
        first = [m for name, number in draft.demand.minimum.items() for m in draft.demand.candidates[name][:number]]
        found = self.placement.fits(requests_of([*draft.demand.fixed, *first]), Room.FREE)
        for member in first:
            found = found or self.placement.fits(member.instance.needs)
        return found or Shortage(requests_of(first)[0][0], len(first), 0, "pods")

    @staticmethod
    def _to_come_only() -> Iterator[tuple[Room, list[Victim]]]:
        yield Room.TO_COME, []

    def _sources(self, draft: Draft) -> Iterator[tuple[Room, list[Victim]]]:
        trades = draft.demand.service.options.trade is not Trade.OFF
        useless = preemption.surplus(draft, self._ground.by_name, running=False) if trades else []
        if useless:
            yield Room.FREED, useless
        yield Room.TO_COME, []
        if useless:
            yield Room.TO_COME, useless
        own = useless + (
            preemption.surplus(draft, self._ground.by_name, running=True) if preemption.may_trade(draft) else []
        )
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
        return preemption.of_others(
            draft, self._everybody(), lambda other: self.neighbours.share(draft, other), self._ground.by_name, policy
        )

    def _on(self, draft: Draft, fixed: list[Member], room: Room, victims: list[Victim]) -> Minimum | None:
        for chosen in self._sets(draft, room, freed=bool(victims)):
            members = fixed + chosen
            if victims and any(draft.of(member.uid).turns is not Turns.NONE for member in members):
                continue
            pods = requests_of(members)
            if not self._suffices(pods, room, victims):
                continue
            few = preemption.fewest(victims, lambda some, pods=pods: self._suffices(pods, room, some))  # type: ignore[misc]
            self.placement.grant(_seats(few))
            self._unfit.clear()
            found = self.placement.reserve(pods, room)
            if isinstance(found, Reservation):
                return Minimum(members, room, found, few)
            self.placement.withdraw(_seats(few))
        return None

    def _suffices(self, pods: PodRequests, room: Room, victims: Collection[Victim]) -> bool:
        self.placement.grant(_seats(victims))
        fits = self.placement.fits(pods, room) is None
        self.placement.withdraw(_seats(victims))
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

    def _find_victim(self, uid: str) -> Victim | None:
        found = (Victim(draft, m) for draft in self._everybody() for m in draft.demand.members if m.uid == uid)
        return next(found, None)

    # What comes of it

    def _take(self, draft: Draft, found: Minimum) -> None:
        draft.chosen = {member.uid for member in found.members}
        draft.reserved = found.room is Room.FREE
        if found.room is not Room.FREE:
            draft.remember(turn_since=0.0)
            self._evict(draft, found)
            why = Reason.WAITING_FOR_ROOM, _awaited_room(found)
            draft.waits |= {member.uid: why for member in found.members if member.state is State.HELD}
        self._swap(draft, found)

    def _evict(self, draft: Draft, found: Minimum) -> None:
        """Own instances that run go only after `trade_after`: MindIE Controller may let one go by itself. Until then
        the room is only reserved."""
        if not found.victims or draft.demand.service.assumed:
            return
        now, policy = self.moment.now, self.moment.policy
        if any(victim.draft is draft and victim.runs for victim in found.victims):
            since = draft.memory.short_since or now
            draft.remember(short_since=since)
            if now - since < policy.trade_after:
                return
        self._unfit.clear()
        draft.remember(short_since=0.0, victims=tuple(victim.member.uid for victim in found.victims))
        for victim in found.victims:
            victim.draft.evicted[victim.member.uid] = draft.demand.name
            victim.draft.remember_of(victim.member.uid, preempted_for=draft.demand.name)

    def _swap(self, draft: Draft, found: Minimum) -> None:
        """What is in hands and not chosen makes way for a held instance of its group that is."""
        groups = {member.instance.group for member in found.members if member.state is State.HELD}
        for member in draft.demand.hands:
            if member.uid not in draft.chosen and member.instance.group in groups:
                found.swaps = True
                why = Reason.REVOKED, (f"another instance of {member.instance.group}",)
                draft.revoke(member, self.moment.policy, why)

    def _note_what_is_made(self, draft: Draft, found: Minimum) -> None:
        """Where others make the pods the clock starts anew, once, when the last chosen instance has been made."""
        made = draft.memory.made
        if found.unmade:
            if made is None and found.room is Room.FREE:
                draft.remember(made=False)
        elif made is False:
            since = self.moment.now if draft.memory.turn_since else 0.0
            draft.remember(made=True, turn_since=since)

    def _after_its_turn(self, draft: Draft, found: Minimum, waits: Waits) -> Minimum | None:
        """No progress within a turn: other candidates are swapped in, or somebody else gets the turn; None then."""
        unbound = [member.uid for member in found.members if member.instance.unbound]
        before = {uid: draft.of(uid) for uid in unbound}
        for uid in unbound:
            draft.remember_of(uid, turn_over=True)
        self.placement.cancel(found.reservation)
        self._unfit.clear()
        other = self._other_candidates(draft, found)
        if other is not None:
            turn.had_turn(draft, unbound)
            draft.remember(turn_since=self.moment.now)
            return other
        for_minimum, for_anybody = waits(draft, found.members)
        if turn.has_to_end(draft.memory, self.moment, for_minimum=for_minimum, for_anybody=for_anybody):
            turn.end(draft, self.moment)
            turn.had_turn(draft, unbound)
            draft.again = True
            for member in draft.demand.members:
                if not member.in_part:
                    draft.remember_of(member.uid, turn_over=False)
            return None
        for uid in unbound:
            draft.remember_of(uid, turn_over=before[uid].turn_over)
        if turn.begins_anew(draft.memory, self.moment):
            draft.remember(turn_since=self.moment.now)
        again = self.placement.reserve(found.reservation.pods)
        return msgspec.structs.replace(found, reservation=again) if isinstance(again, Reservation) else None

    def _other_candidates(self, draft: Draft, found: Minimum) -> Minimum | None:
        """Candidates that have not had their turn, in place of those that had it now."""
        fixed, had = list(draft.demand.fixed), {member.uid for member in found.members}
        by_group = []
        for name, number in draft.demand.minimum.items():
            candidates = [m for m in draft.demand.candidates[name] if m.state is not State.TERMINATING]
            candidates.sort(key=lambda m: (m.uid in had or draft.of(m.uid).turn_over, draft.of(m.uid).turns > 0))
            by_group.append(list(islice(combinations(candidates, number), MOST_SETS)))
        for sets in islice(product(*by_group), MOST_SETS):
            chosen = [member for part in sets for member in part]
            if not any(m.uid not in had and not draft.of(m.uid).turn_over for m in chosen):
                continue
            reservation = self.placement.reserve(requests_of(fixed + chosen))
            if isinstance(reservation, Reservation):
                return Minimum(fixed + chosen, Room.FREE, reservation)
        return None

    # Where no source suffices

    def too_large(self, draft: Draft) -> Shortage | None:
        """Why it would not fit even if all nodes were empty and well; None when some set of its instances does."""
        same = draft.demand.same
        if same is None:
            return self._look_whether_too_large(draft)
        if same not in self._known_sizes:
            self._known_sizes[same] = self._look_whether_too_large(draft)
        return self._known_sizes[same]

    def _look_whether_too_large(self, draft: Draft) -> Shortage | None:
        demand = draft.demand
        rule = demand.service.rule
        if rule is None:
            return None
        by_group, first = [], None
        for name, number in rule.smallest.counts.items():
            live = [
                m for m in demand.groups[name].members if not (m.instance.owner_deleting or m.instance.owner_finished)
            ]
            alike = not live or all(m.instance.needs == live[0].instance.needs for m in live[1:])
            by_group.append([live[:number]] if alike else islice(combinations(live, number), MOST_SETS))
        for sets in islice(product(*by_group), MOST_SETS):
            found = self._too_large(joined(*(m.instance.needs for part in sets for m in part)))
            if found is None:
                return None
            first = first or found
        return first

    def _does_not_fit(self, draft: Draft, shortage: Shortage) -> Minimum | None:
        """After a while it is tried all the same where the sums would do, one service at a time."""
        why = Reason.MINIMUM_DOES_NOT_FIT, (in_words(shortage),)
        if not draft.shares:
            return self._alone_or_give_up(draft, why)
        memory, now, policy = draft.memory, self.moment.now, self.moment.policy
        chosen = [m for name, number in draft.demand.minimum.items() for m in draft.demand.candidates[name][:number]]
        pods = requests_of([*draft.demand.fixed, *chosen])
        if turn.is_probing(memory, self.moment):
            return self._try(draft, chosen)
        if memory.probe_since:
            draft.remember(probe_since=0.0, probes=memory.probes + 1, held_since=now)
        elif not memory.held_since:
            draft.remember(held_since=now)
        elif now - memory.held_since >= turn.patience(memory, policy) and not self._probing:
            if self.placement.sums_suffice(pods):
                self._probing = True
                draft.remember(probe_since=now)
                return self._try(draft, chosen)
        return self._give_up(draft, why)

    def _try(self, draft: Draft, chosen: Sequence[Member]) -> Minimum | None:
        """Release it without a reservation."""
        draft.chosen = {member.uid for member in chosen}
        for member in chosen:
            if member.state is State.HELD and is_made(member):
                draft.admit(member, ("it seems not to fit, and is tried all the same",))
        return None

    def _alone_or_give_up(self, draft: Draft, why: Why) -> Minimum | None:
        """A service that is alone on its nodes is admitted whether it fits or not. Candidates that fit go first."""
        if draft.shares:
            return self._give_up(draft, why)
        draft.remember(turn_since=0.0)
        hands = [member for member in draft.demand.hands if member.uid not in draft.revoked]
        for name, number in draft.demand.minimum.items():
            candidates, fitting = draft.demand.candidates[name], list[Member]()
            for member in candidates:
                if len(fitting) < number and member.state is not State.TERMINATING and self._has_room(member):
                    fitting.append(member)
            chosen = (fitting + [m for m in candidates if m not in fitting])[:number]
            draft.chosen |= {member.uid for member in chosen}
            held = [member for member in chosen if member.state is State.HELD]
            swapped = [m for m in hands if m.instance.group == name and m not in chosen] if held else []
            for member in swapped:
                draft.revoke(member, self.moment.policy, (Reason.REVOKED, (f"another instance of {name}",)))
            for member in held:
                if is_made(member) and not swapped:
                    draft.admit(member, why[1])
                else:
                    draft.waits[member.uid] = Reason.WAITING_FOR_SCHEDULER, why[1]
        return None

    def _has_room(self, member: Member) -> bool:
        return isinstance(self.placement.reserve(member.unbound), Reservation)

    def _give_up(self, draft: Draft, why: Why) -> Minimum | None:
        """Nothing is reserved, what is in hands is revoked, nobody is blocked."""
        draft.remember(turn_since=0.0)
        for member in draft.demand.hands:
            draft.revoke(member, self.moment.policy, why)
        for name, number in draft.demand.minimum.items():
            for member in draft.demand.candidates[name][:number]:
                if member.state is State.HELD:
                    draft.waits[member.uid] = why
        return None

    # Beyond the minimum

    def trade_for_scale_up(self, draft: Draft, member: Member) -> None:
        """Annotation `trade: always`: own running surplus may be evicted for what is missing of the target."""
        if not (draft.demand.serves and preemption.may_trade(draft)) or draft.evicted:
            return
        surplus = [v for v in preemption.surplus(draft, self._ground.by_name, running=True) if _is_beyond_target(v)]
        surplus = preemption.surplus(draft, self._ground.by_name, running=False) + surplus
        if not surplus or draft.of(member.uid).turns or not self._suffices(member.unbound, Room.TO_COME, surplus):
            return
        draft.short = True
        few = preemption.fewest(surplus, lambda some: self._suffices(member.unbound, Room.TO_COME, some))
        self.placement.grant(_seats(few))
        found = self.placement.reserve(member.unbound, Room.TO_COME)
        if isinstance(found, Reservation):
            self._evict(draft, Minimum([member], Room.TO_COME, found, few))


def _is_beyond_target(victim: Victim) -> bool:
    group = victim.draft.demand.groups[victim.member.instance.group or ""]
    return group.running > group.target


def _alike(draft: Draft, one: Member, other: Member) -> bool:
    """Whether it makes no difference to room which of the two is chosen."""
    same = one.unbound == other.unbound and (one.state is State.TERMINATING) == (other.state is State.TERMINATING)
    return same and bool(draft.of(one.uid).turns) == bool(draft.of(other.uid).turns)


def _seats(victims: Iterable[Victim]) -> list[tuple[str, PodRequest]]:
    return [seat for victim in victims for seat in victim.member.instance.seats]


def _awaited_room(found: Minimum) -> tuple[str, ...]:
    """The nodes, and what has to go from them."""
    nodes = ", ".join(found.reservation.waits_for[:4]) + (", ..." if len(found.reservation.waits_for) > 4 else "")
    if found.victims:
        names = ", ".join(victim.member.instance.name for victim in found.victims[:4])
        return (f"{names} to be evicted from {nodes}",)
    return (f"{nodes} {'are' if len(found.reservation.waits_for) > 1 else 'is'} to come back",) if nodes else ()
