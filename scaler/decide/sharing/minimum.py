"""Minimums reserve room, whole or not at all: sections 3b.3 to 3b.5, 3b.8 and 3b.9 of the contract.

room found -> reservation, evictions; turn over -> other candidates, or backoff; no room -> reason,
or a probe"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import combinations, islice

import msgspec

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.explain import room_in_words
from scaler.decide.memory import Attempt
from scaler.decide.nodes import Room, joined
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, is_made
from scaler.decide.sharing.sources import Minimum, Sources, may_trade, one_of_each
from scaler.decide.world import World
from scaler.reasons.reasons import Reason


class Minimums:
    """`drafts`: of services with something to weigh. `probing`: the minimum of some service is
    probed now."""

    def __init__(self, sources: Sources, drafts: Sequence[Draft], *, probing: bool) -> None:
        self.sources = sources
        self.placement = sources.placement
        self.world = sources.world
        self.now = sources.world.now
        self.drafts = drafts
        self.probing = probing
        self._sizes: dict[object, Shortage | None] = {}

    def reserve(self, draft: Draft) -> Minimum | None:
        """Reserve room for the minimum of a service. The draft gets evictions, or the reason why
        there is no room."""
        lacking = draft.demand.too_few()
        if attempts.in_backoff(draft.memory, self.now) and not lacking:
            return self._give_up(draft, not_scheduled(draft.memory, Reason.MINIMUM_NOT_SCHEDULED))
        if lacking:
            draft.note(attempts.NotPlaced())
            return self._alone_or_give_up(draft, (Reason.MINIMUM_INCOMPLETE, tuple(lacking)))
        found = self.sources.find(draft)
        if isinstance(found, Shortage):
            never = self.too_large(draft)
            if never is None:
                return self._does_not_fit(draft, found)
            draft.note(attempts.NotPlaced())
            return self._alone_or_give_up(draft, (Reason.MINIMUM_TOO_LARGE, (str(never),)))
        draft.note(attempts.Fits())
        self._note_what_is_made(draft, found)
        if found.room is Room.FREE and attempts.is_over(draft.memory, self.now, self.world.policy):
            again = self._after_its_turn(draft, found)
            if again is None:
                return self._give_up(
                    draft, not_scheduled(draft.memory, Reason.MINIMUM_NOT_SCHEDULED)
                )
            found = again
        self._take(draft, found)
        return found

    def _take(self, draft: Draft, found: Minimum) -> None:
        found.swaps = bool(_choose(draft, found.members))
        if found.room is not Room.FREE:
            draft.note(attempts.Stopped())
            self._evict(draft, found)
            victims = found.victims or self.sources.victims_of(draft)
            names = [
                f"{victim.draft.demand.name}/{victim.member.instance.name}" for victim in victims
            ]
            nodes = self.placement.waits_for(found.reservation)
            why = Reason.WAITING_FOR_ROOM, room_in_words(nodes, names, evicted=not found.victims)
            for member in found.members:
                if member.is_with_the_scheduler and draft.shares:
                    draft.revoke(member, why)  # the scheduler would bind it on reserved room
                elif (
                    member.state is State.HELD
                    and not draft.shares
                    and is_made(member)
                    and not found.swaps
                ):
                    draft.admit(member, why[1])  # shares no nodes: its pods wait for the room
                elif member.state is State.HELD:
                    draft.waits[member.uid] = why

    def _evict(self, draft: Draft, found: Minimum) -> None:
        """Running instances of the same service are evicted only after `trade_after`: MindIE
        Controller goes first."""
        if not found.victims or draft.demand.service.assumed:
            return
        if any(
            victim.draft is draft and victim.member.state is State.RUNNING
            for victim in found.victims
        ):
            draft.note(attempts.AwaitsOwnScaleDown(self.now))
            if self.now - draft.memory.trade_since < self.world.policy.trade_after:
                return
        self.sources.unfit.clear()
        draft.note(attempts.VictimsChosen(tuple([victim.member.uid for victim in found.victims])))
        for victim in found.victims:
            victim.draft.evicted[victim.member.uid] = draft.demand.name
            victim.draft.note(attempts.Evicted((victim.member.uid,), draft.demand.name))

    def _note_what_is_made(self, draft: Draft, found: Minimum) -> None:
        """Where others make the pods, the clock starts anew, once, when all chosen instances have
        pods."""
        made = draft.memory.made
        if found.unmade:
            if made is None and found.room is Room.FREE:
                draft.note(attempts.AwaitsOwner())
        elif made is False:
            draft.note(attempts.AllMade(self.now))

    def _after_its_turn(self, draft: Draft, found: Minimum) -> Minimum | None:
        """The turn is over by the clock: reserve room for other candidates, or end the turn (None),
        or go on."""
        unbound = tuple([member.uid for member in found.members if member.instance.unbound])
        self.placement.cancel(found.reservation)
        self.sources.unfit.clear()
        other = self._other_candidates(draft, found)
        if other is not None:
            draft.note(attempts.Swapped(self.now, unbound))
            return other
        if self.has_to_end(draft, draft.memory, own_waits=bool(held_beside(draft, found.members))):
            in_part = [m.uid for m in found.members if m.in_part and m.instance.unbound]
            others = [m.uid for m in draft.demand.members if not m.in_part]
            draft.note(attempts.Ended(self.now, unbound, tuple(in_part), tuple(others)))
            return None
        if self.ends_for_anybody(draft.memory):
            draft.note(attempts.BeganAgain(self.now))
        again = self.placement.reserve(requests_of(found.members))
        return (
            msgspec.structs.replace(found, reservation=again)
            if isinstance(again, Reservation)
            else None
        )

    def _other_candidates(self, draft: Draft, found: Minimum) -> Minimum | None:
        """A minimum with candidates that have not had their turn, if one fits on free room."""
        tried = {member.uid for member in found.members}
        by_group = []
        memory_of = draft.memory_of
        for name, number in draft.demand.minimum.items():
            candidates = [
                m for m in draft.demand.candidates[name] if m.state is not State.TERMINATING
            ]
            candidates.sort(
                key=lambda m: (
                    m.uid in tried or memory_of(m.uid).gives_way,
                    memory_of(m.uid).had_attempt > 0,
                )
            )
            by_group.append(combinations(candidates, number))
        for chosen in one_of_each(by_group):
            members = [*draft.demand.bound_in_part, *chosen]
            if any(m.uid not in tried and not memory_of(m.uid).gives_way for m in chosen):
                reservation = self.placement.reserve(requests_of(members))
                if isinstance(reservation, Reservation):
                    return Minimum(members, Room.FREE, reservation)
        return None

    def has_to_end(self, draft: Draft, memory: Attempt, *, own_waits: bool) -> bool:
        """Whether a turn that is over by the clock ends: an instance waits for the room.
        `own_waits`: one of the same service waits. If no pod in the cluster was bound since the
        clock began, the turn ends for a minimum of the same or a higher priority; for any other
        instance only after `backoff_max`."""
        something_waits = own_waits
        for other in self.drafts:
            if other is draft or not draft.shares_nodes_with(other):
                continue
            if self._waits_for_minimum(other):
                if other.demand.priority >= draft.demand.priority:
                    return True
                something_waits = True
            elif not something_waits:
                something_waits = self._waits_to_scale_up(other)
        return something_waits and self.ends_for_anybody(memory)

    def ends_for_anybody(self, attempt: Attempt) -> bool:
        return attempts.ends_for_anybody(attempt, self.world.last_bind, self.now, self.world.policy)

    def _waits_for_minimum(self, draft: Draft) -> bool:
        demand = draft.demand
        if (
            not demand.lacks_minimum
            or attempts.in_backoff(draft.memory, self.now)
            or demand.too_few()
        ):
            return False
        held = any(
            m.state is State.HELD for name in demand.minimum for m in demand.candidates[name]
        )
        return held and self.too_large(draft) is None

    def _waits_to_scale_up(self, draft: Draft) -> bool:
        if draft.demand.lacks_minimum or draft.demand.paused:
            return False
        hands = any(
            m.uid not in draft.chosen and m.uid not in draft.revoked
            for m in draft.demand.with_the_scheduler
        )
        return hands or any(
            startable(draft, name, self.world) for name in draft.demand.scale_up_candidates
        )

    def too_large(self, draft: Draft) -> Shortage | None:
        """Why no set of live instances fits on empty, healthy nodes as the minimum; None when one
        set fits."""
        demand = draft.demand
        key = draft.demand.room_key or draft
        if key in self._sizes:
            return self._sizes[key]
        by_group: list[Iterable[Sequence[Member]]] = []
        for name, number in demand.rule.smallest.counts.items() if demand.rule else ():
            live = [member for member in demand.groups[name].members if member.is_live]
            alike = all(m.instance.requests == live[0].instance.requests for m in live[1:])
            by_group.append([live[:number]] if alike else combinations(live, number))
        tried = (
            self._empty.fits(joined(*(m.instance.requests for m in chosen)))
            for chosen in one_of_each(by_group)
        )
        first = next(tried, None)
        self._sizes[key] = first if first and all(tried) else None
        return self._sizes[key]

    @cached_property
    def _empty(self) -> Placement:
        return Placement(self.placement.nodes.emptied)

    def _does_not_fit(self, draft: Draft, shortage: Shortage) -> Minimum | None:
        """Probe the minimum after `fit_patience` if the free room suffices in sum; one service at a
        time."""
        why = Reason.MINIMUM_DOES_NOT_FIT, (str(shortage),)
        if not draft.shares:
            return self._alone_or_give_up(draft, why)
        memory = draft.memory
        now = self.now
        chosen = draft.demand.first()
        missing = [*draft.demand.bound_in_part, *chosen]
        policy = self.world.policy
        patient = now - memory.fits_nowhere_since < attempts.probe_after(memory, policy)
        if attempts.is_probing(memory, now, policy):
            return self._probe(draft, chosen)
        if memory.probe_began:
            draft.note(attempts.ProbeEnded(now))
        elif not memory.fits_nowhere_since:
            draft.note(attempts.FitsNowhere(now))
        elif not (patient or self.probing) and self.placement.sums_suffice(requests_of(missing)):
            self.probing = True
            draft.note(attempts.ProbeBegan(now))
            return self._probe(draft, chosen)
        return self._give_up(draft, why)

    def _probe(self, draft: Draft, chosen: Sequence[Member]) -> Minimum | None:
        """Admit the minimum without a reservation."""
        draft.chosen = {member.uid for member in chosen}
        for member in chosen:
            if member.state is State.HELD and is_made(member):
                draft.admit(member, ("it seems not to fit, and is tried all the same",))
        return None

    def _alone_or_give_up(self, draft: Draft, why: Why) -> Minimum | None:
        """A service that shares no nodes is admitted whether it fits or not. Candidates that fit
        are admitted first."""
        if draft.shares:
            return self._give_up(draft, why)
        draft.note(attempts.Stopped())
        chosen = [member for member in draft.demand.bound_in_part if self._has_room(member)]
        for name, number in draft.demand.minimum.items():
            candidates = draft.demand.candidates[name]
            alive = (m for m in candidates if m.state is not State.TERMINATING)
            fitting = list(islice(filter(self._has_room, alive), number))
            chosen += (fitting + [m for m in candidates if m not in fitting])[:number]
        swapped = _choose(draft, chosen)
        for member in [one for one in chosen if one.state is State.HELD]:
            if is_made(member) and member.instance.group not in swapped:
                draft.admit(member, why[1] if why[0] is not Reason.MINIMUM_INCOMPLETE else ())
            else:
                draft.waits[member.uid] = Reason.WAITING_FOR_SCHEDULER, why[1]
        return None

    def _has_room(self, member: Member) -> bool:
        return isinstance(self.placement.reserve(member.instance.unbound), Reservation)

    def _give_up(self, draft: Draft, why: Why) -> Minimum | None:
        """Reserve nothing and revoke what is in hands. No other service is blocked."""
        draft.note(attempts.Stopped())
        for member in draft.demand.with_the_scheduler:
            draft.revoke(member, why)
        draft.waits |= {
            member.uid: why for member in draft.demand.first() if member.state is State.HELD
        }
        return None

    def trade_for_scale_up(self, draft: Draft, member: Member) -> None:
        """Annotation `trade: always`: evict running surplus of the service for an instance that the
        target lacks."""
        if not (draft.demand.serves and may_trade(draft)) or draft.evicted:
            return
        useless, running = self.sources.surplus(draft)
        beyond = [
            name for name, group in draft.demand.groups.items() if group.running > group.target
        ]
        surplus = useless + [victim for victim in running if victim.member.instance.group in beyond]
        if surplus and not draft.memory_of(member.uid).had_attempt:
            found = self.sources.make_room([member], Room.TO_COME, surplus)
            if found is not None:
                draft.short = True
                self._evict(draft, found)


def _choose(draft: Draft, chosen: Sequence[Member]) -> set[str | None]:
    """Choose these instances for the minimum. Where a held instance of a group is chosen, those in
    hands that are not are revoked. Returns the groups in which an instance takes the place of
    another."""
    draft.chosen = {member.uid for member in chosen}
    groups = {member.instance.group for member in chosen if member.state is State.HELD}
    swapped = [
        m
        for m in draft.demand.with_the_scheduler
        if m.uid not in draft.chosen and m.instance.group in groups
    ]
    for member in swapped:
        draft.revoke(member, (Reason.REVOKED, (f"another instance of {member.instance.group}",)))
    return {member.instance.group for member in swapped}


def held_beside(draft: Draft, chosen: Sequence[Member]) -> list[Member]:
    """Held candidates in the groups of the chosen instances, the chosen ones left out."""
    groups = {member.instance.group or "" for member in chosen}
    others = [
        m for name in groups for m in draft.demand.candidates.get(name, ()) if m not in chosen
    ]
    return [m for m in others if m.state is State.HELD]


def startable(draft: Draft, group: str, world: World) -> Sequence[Member]:
    """Held candidates of the group that could start now, those with the fewest ended turns
    first."""
    held = draft.demand.scale_up_candidates.get(group)
    if held is None:  # the service does not serve, or the group gets no place
        held = [m for m in draft.demand.candidates.get(group, ()) if m.state is State.HELD]
    if not held or (not draft.demand.has_attempts and not draft.has_changes and is_made(held[-1])):
        return held
    free = (
        m for m in held if is_made(m) and not attempts.in_backoff(draft.memory_of(m.uid), world.now)
    )
    return sorted(
        (m for m in free if m.uid not in draft.admitted),
        key=lambda m: draft.memory_of(m.uid).failures,
    )


def not_scheduled(attempt: Attempt, reason: Reason) -> Why:
    """The reason after an attempt that ended, with words: how many ended, and when the next one
    begins."""
    until = datetime.fromtimestamp(attempt.backoff_until, UTC).strftime("%H:%M:%S UTC")
    times = "once" if attempt.failures == 1 else f"{attempt.failures} times"
    return reason, (f"not bound in its turn, {times} so far; tried again at {until}",)
