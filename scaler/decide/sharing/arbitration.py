"""Several services on the same nodes: section 3b of the contract.

    reserve what cannot be revoked -> reserve minimums, in order -> revoke scale-ups -> admit
    minimums -> scale up

Minimums reserve room, whole or not at all, and may preempt scale-ups. Scale-ups use what is
left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import NOT_MADE, Draft, Why, requests_of
from scaler.decide.memory import Attempt
from scaler.decide.nodes import PodRequest, PodRequests, Room
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import (
    Member,
    affords_revoke,
    age,
    is_made,
    may_be_revoked,
    newest_admission_first,
)
from scaler.decide.sharing import observed
from scaler.decide.sharing.minimum import Minimums, held_beside, not_scheduled, startable
from scaler.decide.sharing.sources import Minimum, Sources, may_trade
from scaler.decide.world import World
from scaler.reasons.reasons import Reason


class Arbitration:
    """One decision about the services of one part."""

    def __init__(self, drafts: dict[int, Draft], sources: Sources, *, probing: bool) -> None:
        """`drafts`: of services with something to weigh; those of possible victims are added on the
        way. `probing`: the minimum of some service is probed now."""
        self.all = drafts
        self.drafts = sorted(
            drafts.values(), key=lambda d: (-d.demand.priority, d.demand.oldest, d.demand.name)
        )
        self.placement = sources.placement
        self.world = sources.world
        self.now = sources.world.now
        self.policy = sources.world.policy
        self.minimums = Minimums(sources, self.drafts, probing=probing)
        self._on_free_room: list[tuple[Draft, Minimum]] = []
        self._services_in_hands: list[Draft] = []
        """Services with an instance in hands for which room is reserved."""
        self._pods_in_hands: Counter[PodRequest] = Counter()
        self._no_room: dict[PodRequests, Why] = {}
        """Step 5: pod requests of a scale-up that does not fit, or may spoil a reservation -> the
        reason."""
        self._kept: dict[str, Reservation] = {}
        """Uid of an instance that cannot be revoked -> its reservation."""
        self._revoked: list[tuple[Draft, Member]] = []

    def run(self) -> None:
        for draft in self.drafts:
            in_time = draft.memory.backoff_until or draft.demand.has_attempts
            back_at = self.placement.nodes.back_at(draft.classes) if in_time else 0.0
            draft.note(*observed.before(draft, self.world, back_at))
        self._keep_in_hands()
        self._reserve_minimums()
        self._revoke_scale_ups()
        self._admit_minimums()
        self._scale_up()
        for draft in self.all.values():
            observed.settle(draft, self.world)

    def _keep_in_hands(self) -> None:
        """Reserve room first for what stays: bound in part while its turn goes on, irrevocable, or
        paused in hands."""
        for draft in self.drafts:
            for member in (*draft.demand.irrevocable, *draft.demand.with_the_scheduler):
                self._keep(draft, member)

    def _keep(self, draft: Draft, member: Member) -> None:
        stays = draft.demand.paused or not (
            member.is_with_the_scheduler and may_be_revoked(member.instance, self.policy)
        )
        if stays and member.uid not in self._kept and self._turn_goes_on(draft, member):
            found = self.placement.reserve(member.instance.unbound)
            if isinstance(found, Reservation):
                self._kept[member.uid] = found

    def _turn_goes_on(self, draft: Draft, member: Member) -> bool:
        """Whether the turn of an instance that is bound in part goes on. After the turn its pods
        are of no use."""
        memory = draft.memory_of(member.uid)
        if member in draft.demand.bound_in_part:
            waits = attempts.in_backoff(draft.memory, self.now) or self._is_over(draft.memory)
            return not (memory.gives_way or waits)
        is_over = self._is_over(memory)
        if memory.gives_way or (member.is_with_the_scheduler and is_over):
            return False
        if is_over and self._has_to_end(draft, member):
            draft.note(attempts.PartEnded(member.uid))
            return False
        return True

    def _is_over(self, attempt: Attempt) -> bool:
        return attempts.is_over(attempt, self.now, self.policy)

    def _has_to_end(self, draft: Draft, member: Member, *, reserved: bool = False) -> bool:
        """Whether the turn of the instance, over by the clock, ends; if not, the clock may start
        again. `reserved`: all other reservations of this decision are made, that of the instance
        too."""
        memory = draft.memory_of(member.uid)
        others = held_beside(draft, [member])
        held = bool(others) and not (reserved and self._has_room_beside(draft, member, others))
        if self.minimums.has_to_end(draft, memory, own_waits=held):
            return True
        if self.minimums.ends_for_anybody(memory):
            draft.note(attempts.InstanceBeganAgain(member.uid, self.now))
        return False

    def _reserve_minimums(self) -> None:
        waiting = [draft for draft in self.drafts if draft.demand.lacks_minimum]
        for draft in sorted(waiting, key=lambda each: _minimum_order(each, self.world)):
            own = [*draft.demand.bound_in_part, *draft.demand.with_the_scheduler]
            for member in own:
                if member.uid in self._kept:
                    self.placement.cancel(self._kept.pop(member.uid))
            minimum = self.minimums.reserve(draft)
            for member in own:
                if member.uid not in draft.chosen and member.uid not in draft.revoked:
                    self._keep(draft, member)
            if minimum is not None and minimum.room is Room.FREE:
                self._on_free_room.append((draft, minimum))
                self._put_in_hands(
                    draft, *(m for m in minimum.members if m.is_with_the_scheduler or m.in_part)
                )

    def _has_room_beside(self, draft: Draft, one: Member, others: Sequence[Member]) -> bool:
        """Whether `one` and the `others` of its group have places and room, and spoil no
        reservation wherever bound."""
        group = draft.groups[others[0].instance.group or ""].copy()
        for member in others:
            if not group.has_place_for(member):
                return False
            group.give_place(member)
        if self.placement.fits(requests_of(others)) is not None:
            return False
        return not self.placement.may_invalidate(
            requests_of([one, *others]), self._pods_in_hands.items(), own=False
        )

    def _revoke_scale_ups(self) -> None:
        """Revoke scale-ups beyond the largest ratio, and scale-ups that do not fit beside the
        minimums."""
        for draft in [
            each
            for each in self.drafts
            if each.demand.with_the_scheduler or each.demand.irrevocable
        ]:
            self._put_in_hands(draft, *(m for m in draft.demand.irrevocable if m.uid in self._kept))
            if draft.demand.paused:
                continue
            hands = [
                m
                for m in draft.demand.with_the_scheduler
                if m.uid not in draft.chosen and m.uid not in draft.revoked
            ]
            for member in newest_admission_first(hands):
                if _is_above(draft, member, draft.demand.largest(member.instance.group or "")):
                    draft.revoke(member, (Reason.REVOKED, (draft.awaited,)))
            # Instances beyond the target: they were admitted while another instance of the group
            # seemed lost.
            hands = [m for m in hands if m.uid not in draft.revoked]
            beyond = set[str]()
            for member in newest_admission_first(hands):
                if _is_above(
                    draft, member, draft.demand.groups[member.instance.group or ""].target, beyond
                ):
                    beyond.add(member.uid)
            for member in sorted(hands, key=lambda m: (m.uid in beyond, age(m))):
                self._keep_or_revoke(draft, member, beyond=member.uid in beyond)

    def _keep_or_revoke(self, draft: Draft, member: Member, *, beyond: bool) -> None:
        """An instance stays in hands if it fits beside all reservations, spoils none, and its turn
        is not over."""
        found = self._kept.get(member.uid) or self.placement.reserve(member.instance.unbound)
        why = self._why_revoked(draft, member, found, beyond=beyond)
        if why is None:
            if isinstance(found, Reservation):
                self._put_in_hands(draft, member)
            if not affords_revoke(member.instance, self.policy) and self._is_in_the_way(draft):
                draft.revoke(member, (Reason.WAITING_FOR_CAPACITY, ()))
            return
        is_over = self._is_over(draft.memory_of(member.uid))
        keeps_room = not draft.revoke(member, why) and not is_over
        if isinstance(found, Reservation) and not keeps_room:
            self.placement.cancel(found)

    def _is_in_the_way(self, draft: Draft) -> bool:
        """Whether the minimum of another service that shares nodes found no free room."""
        on_free_room = {id(other) for other, _ in self._on_free_room}
        lacking = (
            other
            for other in self.drafts
            if other.demand.lacks_minimum and id(other) not in on_free_room
        )
        return any(other is not draft and draft.shares_nodes_with(other) for other in lacking)

    def _why_revoked(
        self, draft: Draft, member: Member, found: Reservation | Shortage, *, beyond: bool
    ) -> Why | None:
        """Why an instance in hands has to be revoked; None when it stays. `beyond`: beyond the
        target."""
        if member.uid in draft.demand.without_place:
            return Reason.REVOKED, (draft.awaited,)
        if isinstance(found, Shortage):
            alone = not (draft.shares or draft.demand.lacks_minimum or beyond)
            others = startable(draft, member.instance.group or "", self.world)
            other = self._any_fits(m for m in others if m.uid != member.uid)
            return (Reason.WAITING_FOR_CAPACITY, (str(found),)) if other or not alone else None
        if self._spoils(member):
            return Reason.WAITING_FOR_CAPACITY, (RESERVED_FOR_OTHERS,)
        is_over = self._is_over(draft.memory_of(member.uid))
        if not is_over or not self._has_to_end(draft, member, reserved=True):
            return None
        draft.note(attempts.InstanceEnded(member.uid, self.now))
        return not_scheduled(draft.memory_of(member.uid), Reason.WAITING_FOR_CAPACITY)

    def _any_fits(self, members: Iterable[Member]) -> bool:
        return any(self.placement.fits(member.instance.unbound) is None for member in members)

    def _spoils(self, member: Member, *, own: bool = False) -> bool:
        """Whether the scheduler may spoil a reservation with this instance and those in hands.
        `own`: count its own."""
        return self.placement.may_invalidate(
            member.instance.unbound, self._pods_in_hands.items(), own=own
        )

    def _put_in_hands(self, draft: Draft, *members: Member) -> None:
        """Note instances that have a reservation and that the scheduler may bind at any moment."""
        for member in members:
            self._services_in_hands.append(draft)
            self._pods_in_hands.update(dict(member.instance.unbound))

    def _admit_minimums(self) -> None:
        """Admit whole minimums, beside all that is in hands or being revoked; the most restricted
        instance first."""
        self._revoked = [
            (d, m)
            for d in self.drafts
            if d.revoked
            for m in d.demand.with_the_scheduler
            if m.uid in d.revoked
        ]
        chosen = [(draft, self._to_admit(draft, minimum)) for draft, minimum in self._on_free_room]
        queue = [
            (draft, member) for draft, members in chosen for member in sorted(members, key=age)
        ]
        queue.sort(key=lambda each: self.placement.breadth(each[1].instance.unbound))
        blocked = []
        for draft, member in queue:
            if self._spoils(member, own=True):
                blocked.append((draft, member))
            else:
                draft.admit(member)
                self._put_in_hands(draft, member)
        for draft, member in blocked:
            # A blocked instance also waits during the turn of a more restricted minimum whose owner
            # has pods to make.
            narrower = [
                other
                for other, found in self._on_free_room
                if found.unmade and other.classes < draft.classes
            ]
            if any(map(draft.shares_nodes_with, (*self._services_in_hands, *narrower))):
                why = "instances that may use fewer of the nodes are bound first"
                draft.waits[member.uid] = Reason.WAITING_FOR_ROOM, (why,)
            else:
                draft.admit(member)
                self._put_in_hands(draft, member)
        for draft, minimum in self._on_free_room:
            runs = minimum.unmade or any(
                m.is_with_the_scheduler or m.in_part or m.uid in draft.admitted
                for m in minimum.members
            )
            draft.note(attempts.Released(self.now) if runs else attempts.Stopped())

    def _to_admit(self, draft: Draft, minimum: Minimum) -> list[Member]:
        """The instances of a minimum that may be admitted now; whether a reservation is spoilt is
        asked later."""
        new = [member for member in minimum.members if member.state is State.HELD]
        if not new or minimum.unmade or minimum.swaps or self._is_crowded(draft):
            words = (
                "pods of another instance of the minimum do not exist yet"
                if minimum.unmade
                else BEING_GIVEN_BACK
            )
            why = Reason.WAITING_FOR_ROOM, (words,)
            draft.waits |= {
                m.uid: why if is_made(m) else (Reason.WAITING_FOR_SCHEDULER, (NOT_MADE,))
                for m in new
            }
            return []
        refused = [member for member in new if draft.memory_of(member.uid).refused]
        alone = refused[:1] or new
        why = (
            Reason.WAITING_FOR_ROOM,
            ("another instance, whose creation was refused, is tried first",),
        )
        draft.waits |= {m.uid: why for m in new if m not in alone}
        return alone

    def _is_crowded(self, draft: Draft) -> bool:
        """Whether pods that this decision revokes, and that exist for a moment, do not fit beside
        all reservations."""
        near = [m for other, m in self._revoked if draft.shares_nodes_with(other)]
        return bool(near) and self.placement.fits(requests_of(near)) is not None

    def _scale_up(self) -> None:
        for draft in self.drafts:
            if draft.demand.serves and not draft.demand.lacks_minimum and not draft.demand.paused:
                for name in draft.demand.scale_up_candidates:
                    self._scale_up_group(draft, name)

    def _scale_up_group(self, draft: Draft, name: str) -> None:
        found = startable(draft, name, self.world)
        for member in found:
            if draft.groups[name].has_place_for(member):
                why = self._why_not_scaled_up(draft, member, found)
                if why is None:
                    draft.admit(member)
                else:
                    draft.waits[member.uid] = why
        # The other candidates could have a place, but are in backoff or have no pods yet.
        held = draft.demand.scale_up_candidates[name]
        others = held if len(found) < len(held) else ()
        for member in others if draft.groups[name].taken < draft.groups[name].target else ():
            if attempts.in_backoff(draft.memory_of(member.uid), self.now):
                draft.waits[member.uid] = not_scheduled(
                    draft.memory_of(member.uid), Reason.WAITING_FOR_CAPACITY
                )
            elif not is_made(member):
                draft.waits[member.uid] = Reason.WAITING_FOR_SCHEDULER, (NOT_MADE,)

    def _why_not_scaled_up(
        self, draft: Draft, member: Member, others: Sequence[Member]
    ) -> Why | None:
        known = self._no_room.get(member.instance.unbound)
        if known is not None and draft.shares and not may_trade(draft):
            return known
        found = self.placement.reserve(member.instance.unbound)
        if isinstance(found, Shortage):
            if not draft.shares and not self._any_fits(
                m for m in others if m.uid not in draft.admitted
            ):
                return None
            self.minimums.trade_for_scale_up(draft, member)
            why = self._no_room[member.instance.unbound] = (
                Reason.WAITING_FOR_CAPACITY,
                (str(found),),
            )
            return why
        group = draft.demand.groups[member.instance.group or ""]
        # S6
        crowded = self._is_crowded(draft) or any(one.uid in draft.revoked for one in group.members)
        if not (crowded or self._spoils(member)):
            self._put_in_hands(draft, member)
            return None
        self.placement.cancel(found)
        why = Reason.WAITING_FOR_CAPACITY, (BEING_GIVEN_BACK if crowded else RESERVED_FOR_OTHERS,)
        if not crowded:
            self._no_room[member.instance.unbound] = why
        return why


def _is_above(draft: Draft, member: Member, most: int, found: Collection[str] = ()) -> bool:
    """Whether the instance may lose its slot: the group has more than `most`, not counting revoked
    ones and `found`."""
    group = draft.demand.groups[member.instance.group or ""]
    gone = sum(m.uid in draft.revoked or m.uid in found for m in group.members)
    return group.running + group.in_flight - gone > most and not group.keeps(member)


BEING_GIVEN_BACK = "pods of revoked instances still have to go"
RESERVED_FOR_OTHERS = "what is free could be needed for the minimum of another service"


def _minimum_order(draft: Draft, world: World) -> tuple[bool, int, float, bool, float, str]:
    """Backoff last; then by priority, ended turns last, bound or admitted first, age, name: section
    3b.2."""
    demand = draft.demand
    memory = draft.memory
    begun = demand.bound > 0 or State.ADMITTED in [member.state for member in demand.members]
    return (
        attempts.in_backoff(memory, world.now),
        -demand.priority,
        memory.ended_at,
        not begun,
        demand.oldest,
        demand.name,
    )
