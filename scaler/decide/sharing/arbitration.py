"""Several services on the same nodes: 3b of the contract, on one screen.

    look -> keep what stays -> reserve minimums, in order -> revoke scale-ups -> release minimums
    -> scale up -> note the clocks

Minimums reserve room, whole or not at all, and may preempt scale-ups. Scale-ups use what is left. A
reservation that makes no progress ends. The clauses answer, each in a file of its own. Of
the steps this file and `minimum.py` alone write: the answers, into the drafts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scaler.decide import attempts, events
from scaler.decide.draft import Draft, Why, not_made
from scaler.decide.explain import room_in_words, size_in_words
from scaler.decide.nodes import Room
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, age, is_made, newest_admission_first
from scaler.decide.sharing import (
    attempt_end,
    eviction_pause,
    limits,
    minimum,
    next_scale_up,
    observed,
    preemption,
    release,
    returned,
    scale_up,
    waiting,
)
from scaler.decide.sharing.attempt_end import Outcome, not_scheduled
from scaler.decide.sharing.choice import held_beside, startable
from scaler.decide.sharing.order import (
    Place,
    attempts_ended_in,
    in_minimum_order,
    in_scale_up_order,
)
from scaler.decide.sharing.part import Admitted, Part, ReservedMinimum
from scaler.decide.training import attempt, enlarge, fault, growth
from scaler.decide.training.enlarge import Enlarged, Start
from scaler.decide.work import Steps
from scaler.reasons.reasons import Reason

UNITS_OF_SERVICE = 10
UNITS_OF_INSTANCE = 3
"""The work of one of the steps about one service, without its questions about room."""
UNITS_OF_ASKING = 40
"""The work of asking what the scheduler may do to reservations of which few have changed."""
UNITS_OF_READING = 12
"""The work of reading what people wrote of an instance."""


class Arbitration:
    """One decision about the services of one part, step by step."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.starts: list[Start] = []
        """3d.2: training jobs that start, with the sizes that they have come to."""

    def run(self) -> Steps[None]:
        yield from self._look()
        yield from self._restart_after_faults()
        yield from self._keep_what_stays()
        yield from self._reserve_minimums()
        yield from self._enlarge_up_to_recorded()
        yield from self._revoke_scale_ups()
        yield from self._release_minimums()
        yield from self._scale_up()
        yield from self._enlarge_beyond_recorded()
        yield from self._grow()
        yield from self._note_the_end()

    def _step(self, draft: Draft) -> Steps[None]:
        """Before a step about one service: the decision may be interrupted here."""
        self._count(UNITS_OF_SERVICE + UNITS_OF_INSTANCE * len(draft.demand.members))
        yield

    def _count(self, units: int) -> None:
        self.part.placement.nodes.work.units += units

    def _look(self) -> Steps[None]:
        for draft in self.part.drafts:
            if not draft.demand.is_read:
                self._count(UNITS_OF_READING * len(draft.demand.members))
            yield from self._step(draft)
            node_back_at = self._node_back_at(draft)
            draft.note(*observed.events_since_last_decision(draft, self.part.world, node_back_at))
            draft.note(*eviction_pause.events_of_victims(self.part, draft))
            if waiting.has_waited_long(self.part, draft):
                self.part.waited_long.append(draft)
        self.part.scale_ups_that_waited = next_scale_up.those_that_waited(self.part)
        if self.part.scale_ups_that_waited:
            self.part.attempts_ended_in = attempts_ended_in(self.part.drafts)

    def _restart_after_faults(self) -> Steps[None]:
        """3d.4: what is broken is restarted whole, before anybody asks for room."""
        for draft in self.part.drafts:
            if draft.demand.training:
                yield from self._step(draft)
                draft.note(*fault.events_of_losses(draft, self.part.now))
                draft.note(*growth.events_of_growth(draft, self.part.now))
                for restart, words in fault.restarts_of(draft, self.part.now):
                    draft.restart(restart, words)
                for shrink in growth.shrinks_of(draft):
                    draft.restart(shrink)

    def _keep_what_stays(self) -> Steps[None]:
        """The remainder: room for what stays whatever is decided."""
        for draft in self.part.drafts:
            staying = (*draft.demand.irrevocable, *draft.demand.with_the_scheduler)
            if staying:
                yield from self._step(draft)
            for member in staying:
                self._keep(draft, member)

    def _reserve_minimums(self) -> Steps[None]:
        """2: in their order, the services with missing instances of their minimum."""
        missing = [draft for draft in self.part.drafts if draft.demand.lacks_minimum]
        yield
        self.part.minimums = in_minimum_order(missing, self.part.now, self.part.policy)
        self._count(UNITS_OF_SERVICE * len(missing))
        yield
        for draft in self.part.minimums:
            yield from self._step(draft)
            self._reserve_minimum(draft)
        self.part.is_careful = self.part.placement.has_many_classes

    def _enlarge_up_to_recorded(self) -> Steps[None]:
        """3d.2: after all minimums, training jobs that start, up to their recorded sizes."""
        starts = enlarge.in_order(self.starts)
        yield from self._enlarge([(start, enlarge.goal(start)) for start in starts])
        for start in starts:
            training = start.training
            if fault.awaits_spare(self.part, start):
                self._wait_for_spare(start)
            if not start.is_held and start.size != training.started:
                about = size_in_words(training.sizes[start.size])
                start.draft.revoke_if_possible(start.member, Why(Reason.REVOKED, (about,)))

    def _wait_for_spare(self, start: Start) -> None:
        """3d.4: the room of its recorded size is expected, and is reserved instead."""
        part = self.part
        entry = (start.draft, start.minimum)
        wanted = fault.on_expected_room(part, start)
        if wanted is None:
            return
        if entry in part.on_free_room:
            part.on_free_room.remove(entry)
        start.minimum = wanted.minimum
        start.size = wanted.size
        nodes = part.placement.waits_for(wanted.minimum.reservation)
        by_name = part.placement.nodes.by_name
        about = room_in_words([by_name[name] for name in nodes], (), evicted=False)
        start.draft.wait(start.member, Why(Reason.WAITING_FOR_ROOM, about))

    def _enlarge_beyond_recorded(self) -> Steps[None]:
        """3d.2: last of all, training jobs that start, beyond their recorded sizes."""
        beyond = []
        for start in enlarge.in_order(self.starts):
            if enlarge.may_go_beyond(start):
                most = enlarge.largest_allowed(start.draft, start.training)
                beyond.append((start, most))
        yield from self._enlarge(beyond)
        for start in self.starts:
            start.draft.sizes[start.member.uid] = start.size
            of_owners = observed.events_of_owners(start.draft, start.minimum, self.part.now)
            start.draft.note(*of_owners)
        for draft in self.part.drafts:
            draft.sizes |= enlarge.smallest_of_others(draft)

    def _grow(self) -> Steps[None]:
        """3d.5: last of all, one running job is restarted at a larger size."""
        part = self.part
        for draft, member in growth.in_order(part):
            yield from self._step(draft)
            if growth.is_room_unsure(part):
                return
            size = growth.larger_size(part, draft, member)
            draft.note(*growth.event_of_room(draft, member, size, part.now))
            is_due = size is not None and growth.is_due(part, draft, member)
            if size is not None and is_due and not growth.is_another_growing(part, draft):
                restart, grew = growth.growth_of(member, size, part.now)
                draft.restart(restart)
                draft.note(grew)

    def _enlarge(self, starts: Iterable[tuple[Start, int]]) -> Steps[None]:
        """3d.2: in rounds, one size for each job and round, until nothing changes."""
        growing = [(start, most) for start, most in starts if enlarge.is_sized(start)]
        while growing:
            enlarged = []
            for start, most in growing:
                yield from self._step(start.draft)
                larger = enlarge.next_size(self.part, start, most)
                if larger is not None:
                    self._take_size(start, larger)
                    enlarged.append((start, most))
            growing = enlarged

    def _take_size(self, start: Start, larger: Enlarged) -> None:
        part = self.part
        entry = (start.draft, start.minimum)
        if entry in part.on_free_room:
            part.on_free_room[part.on_free_room.index(entry)] = (start.draft, larger.minimum)
        if start.member.uid in start.draft.admitted:
            part.reserved_with_scheduler.take_back(part.understood(start.member.instance.unbound))
            part.count_with_scheduler(start.draft, larger.minimum.members)
        start.minimum = larger.minimum
        start.size = larger.size

    def _revoke_scale_ups(self) -> Steps[None]:
        """7a: scale-ups that are with the scheduler, in their order."""
        drafts = []
        for draft in self.part.drafts:
            if draft.demand.with_the_scheduler or draft.demand.irrevocable:
                yield from self._step(draft)
                self._revoke_above_largest(draft)
                drafts.append(draft)
        for place in in_scale_up_order(drafts, self.part.now, self.part.policy):
            yield from self._step(place.draft)
            if place.draft.demand.with_the_scheduler:
                yield from self.part.asking(place.draft.demand.with_the_scheduler[0])
            self._keep_or_revoke_all(place)

    def _scale_up(self) -> Steps[None]:
        """7a: held scale-ups in their order. A service with a missing minimum admits none."""
        drafts = []
        for draft in self.part.drafts:
            demand = draft.demand
            if demand.serves and not demand.lacks_minimum and not demand.paused:
                drafts.append(draft)
        places = in_scale_up_order(drafts, self.part.now, self.part.policy)
        for draft in drafts[:1]:
            yield from self.part.asking(draft.demand.members[0])
        for place in places:
            yield from self._step(place.draft)
            self._scale_up_one(place)

    def _note_the_end(self) -> Steps[None]:
        """2a, 5a, 5c, 5f: each note may change what the next one looks at."""
        for draft in self.part.drafts:
            yield from self._step(draft)
            draft.note(*waiting.events_of_waiting(self.part, draft))
        for draft in self.part.all.values():
            yield from self._step(draft)
            trades = draft in self.part.trading
            draft.note(*observed.events_of_what_runs(draft, self.part.now, trades=trades))
            draft.note(*observed.events_of_clocks(draft, self.part.now))
            draft.note(*attempt.events_of_sizes(draft, self.starts))
            draft.note(*observed.events_of_jobs(draft))

    def _node_back_at(self, draft: Draft) -> float:
        """5f: when a node that takes a pod of the service last became usable; 0.0 = never, or of no
        meaning."""
        may_be_in_backoff = draft.memory.backoff_until or draft.demand.has_attempts
        return returned.ends_backoff_at(self.part, draft) if may_be_in_backoff else 0.0

    def _keep(self, draft: Draft, member: Member) -> None:
        """10b: reserve room for an instance that stays: bound in part while its attempt goes on,
        irrevocable, or paused with the scheduler."""
        part = self.part
        if member.uid in part.kept or not limits.cannot_be_revoked(part, draft, member):
            return
        if not limits.keeps_room(part, draft, member):
            return
        if limits.has_late_attempt(part, draft, member):
            own_waits = bool(held_beside(draft, [member]))
            attempt = draft.memory_of(member.uid)
            match attempt_end.outcome_of_attempt(part, draft, attempt, own_waits=own_waits):
                case Outcome.ENDS:
                    draft.note(events.PartEnded(member.uid))
                    return
                case Outcome.BEGINS_AGAIN:
                    draft.note(events.InstanceBeganAgain(member.uid, part.now))
        reserved = part.placement.reserve(part.understood(member.instance.unbound))
        if isinstance(reserved, Reservation):
            part.kept[member.uid] = reserved

    def _reserve_minimum(self, draft: Draft) -> None:
        """2e: in their order each minimum reserves, whether it is with the scheduler or held."""
        part = self.part
        own = [*draft.demand.bound_in_part, *draft.demand.with_the_scheduler]
        for member in own:
            if member.uid in part.kept:
                part.placement.cancel(part.kept.pop(member.uid))
        reserved = minimum.reserve(part, draft)
        for member in own:
            if member.uid not in draft.chosen and member.uid not in draft.revoked:
                self._keep(draft, member)
        self._note_whether_it_goes_first(draft, has_reservation=reserved is not None)
        if reserved is not None and draft.demand.training:
            self.starts += enlarge.starts_of(draft, reserved)
        if reserved is not None and reserved.room is Room.FREE:
            part.on_free_room.append((draft, reserved))
            for member in reserved.members:
                if member.is_with_the_scheduler or member.in_part:
                    part.count_with_scheduler(draft, [enlarge.as_released(draft, member)])

    def _note_whether_it_goes_first(self, draft: Draft, *, has_reservation: bool) -> None:
        """2a: who has waited for `backoff_max` goes first until its own attempt ends."""
        if not has_reservation and draft.memory.goes_first:
            draft.note(events.GoesFirstNoLonger())
        elif has_reservation and draft in self.part.waited_long:
            draft.note(events.GoesFirst())

    def _revoke_above_largest(self, draft: Draft) -> None:
        """3.5: revoke scale-ups with the scheduler beyond the largest ratio."""
        part = self.part
        kept = [member for member in draft.demand.irrevocable if member.uid in part.kept]
        part.count_with_scheduler(draft, kept)
        if draft.demand.paused:
            return
        for member in newest_admission_first(self._scale_ups_with_scheduler(draft)):
            most = draft.demand.largest_number(member.instance.group or "")
            if scale_up.is_above(draft, member, most):
                draft.revoke_if_possible(member, Why(Reason.REVOKED, (draft.awaited,)))

    def _keep_or_revoke_all(self, place: Place) -> None:
        """7b: revoke scale-ups with the scheduler that do not fit beside the minimums."""
        draft = place.draft
        if draft.demand.paused:
            return
        unbound = self._scale_ups_with_scheduler(draft)
        beyond = {member.uid for member in scale_up.beyond_target(draft, unbound)}
        for member in sorted(unbound, key=lambda one: (one.uid in beyond, age(one))):
            if bool(draft.memory_of(member.uid).failures) is place.is_tried:
                self._keep_or_revoke(draft, member, is_beyond=member.uid in beyond)

    def _scale_ups_with_scheduler(self, draft: Draft) -> list[Member]:
        unbound = draft.demand.with_the_scheduler
        taken = draft.chosen | draft.revoked.keys()
        return [member for member in unbound if member.uid not in taken]

    def _keep_or_revoke(self, draft: Draft, member: Member, *, is_beyond: bool) -> None:
        """7b: a scale-up stays with the scheduler, or is revoked and gives its room back."""
        part = self.part
        reserved = self._kept_or_reserved(member)
        answer = scale_up.keeps_admission(part, draft, member, reserved, is_beyond=is_beyond)
        if isinstance(answer, scale_up.KeepsAdmission):
            if answer.begins_again:
                draft.note(events.InstanceBeganAgain(member.uid, part.now))
            if isinstance(reserved, Reservation):
                part.count_with_scheduler(draft, [member])
            elif not draft.shares:
                self._trade(draft, member)
            if isinstance(reserved, Shortage):
                draft.without_room[member.uid] = (str(reserved),)
            if limits.is_in_the_way(part, draft, member):
                draft.revoke_if_possible(member, Why(Reason.WAITING_FOR_CAPACITY, ()))
            return
        if isinstance(answer, scale_up.EndsAttempt):
            draft.note(events.InstanceEnded(member.uid, part.now))
            why = not_scheduled(draft.memory_of(member.uid), Reason.WAITING_FOR_CAPACITY)
        else:
            why = answer.why
        had_its_time = part.is_late(draft.memory_of(member.uid))
        draft.revoke_if_possible(member, why)
        is_revoked = member.uid in draft.revoked
        if isinstance(reserved, Reservation) and (is_revoked or had_its_time):
            part.placement.cancel(reserved)

    def _kept_or_reserved(self, member: Member) -> Reservation | Shortage:
        """The reservation that the instance has already; otherwise one made now, if it fits."""
        part = self.part
        kept = part.kept.get(member.uid)
        if kept is not None:
            return kept
        return part.placement.reserve(part.understood(member.instance.unbound))

    def _release_minimums(self) -> Steps[None]:
        """6: release whole minimums, beside all that is with the scheduler or being revoked; the
        most restricted instance first."""
        part = self.part
        self._gather_what_is_revoked()
        chosen = []
        for draft, reserved in part.on_free_room:
            yield from self._step(draft)
            answer = release.releasable(part, draft, reserved)
            draft.waits |= answer.waits
            chosen.append((draft, answer.members))
        blocked = []
        in_order = release.most_restricted_first(part, chosen)
        self._count(UNITS_OF_INSTANCE * len(in_order))
        yield
        for draft, member in in_order:
            self._count(UNITS_OF_ASKING)
            yield from part.asking(member, own=True)
            yield
            if part.may_invalidate(member, own=True):
                blocked.append((draft, member))
            else:
                self._admit(draft, member)
        for draft, member in blocked:
            self._count(UNITS_OF_SERVICE)
            yield
            if release.waits_for_narrower(part, draft):
                draft.waits[member.uid] = Why(Reason.WAITING_FOR_ROOM, (release.NARROWER_FIRST,))
            else:
                self._admit(draft, member)
        for draft, reserved in part.on_free_room:
            self._note_whether_clock_runs(draft, reserved)

    def _note_whether_clock_runs(self, draft: Draft, reserved: ReservedMinimum) -> None:
        """5a: noted in each decision, whether or not this one releases something. A clock that
        runs already runs on."""
        if release.clock_runs(draft, reserved):
            draft.note(events.Released(self.part.now))
        else:
            draft.note(events.Stopped())

    def _gather_what_is_revoked(self) -> None:
        for draft in self.part.drafts:
            if not draft.revoked:
                continue
            for member in draft.demand.with_the_scheduler:
                if member.uid in draft.revoked:
                    released = enlarge.as_released(draft, member)
                    self.part.being_revoked.append((draft, released))

    def _admit(self, draft: Draft, member: Member) -> None:
        draft.admit(member)
        self.part.count_with_scheduler(draft, [member])

    def _scale_up_one(self, place: Place) -> None:
        """7b: in each group the candidates in their order, as long as there is a place."""
        draft = place.draft
        for name, held in draft.demand.scale_up_candidates.items():
            can_start = startable(draft, name, self.part.world)
            for member in can_start:
                is_tried = bool(draft.memory_of(member.uid).failures)
                if is_tried is place.is_tried and draft.groups[name].has_place_for(member):
                    self._admit_or_hold(draft, member, can_start)
            group = draft.groups[name]
            if len(can_start) < len(held) and group.taken < group.target:
                self._explain_what_cannot_start(draft, held)

    def _admit_or_hold(self, draft: Draft, member: Member, others: Sequence[Member]) -> None:
        part = self.part
        answer = part.questions.scale_up(part, draft, member, others)
        if isinstance(answer, Admitted):
            draft.admit(member, answer.lacks)
            if answer.reserved:
                part.count_with_scheduler(draft, [member])
            else:
                self._trade(draft, member)
            return
        if answer.lacks_room:
            self._trade(draft, member)
        draft.waits[member.uid] = answer.why

    def _trade(self, draft: Draft, member: Member) -> None:
        """3.6, `trade: always`: evict own surplus for a missing instance of the target."""
        part = self.part
        surplus = preemption.surplus_for_scale_up(part, draft)
        attempt = draft.memory_of(member.uid)
        if not surplus or attempt.had_its_attempt or attempt.failures:
            return
        if part.expects_room and part.fits_when_returned(member.instance.unbound):
            return  # 4f
        reserved = preemption.make_room(part, draft, [member], Room.EXPECTED, surplus)
        if reserved is not None:
            minimum.nominate(part, reserved)
            part.trading.append(draft)
            minimum.evict(part, draft, reserved, counts=False)

    def _explain_what_cannot_start(self, draft: Draft, held: Iterable[Member]) -> None:
        """7c: candidates that could have a place, but are in backoff or have no pods yet."""
        for member in held:
            memory = draft.memory_of(member.uid)
            if attempts.in_backoff(memory, self.part.now):
                draft.waits[member.uid] = not_scheduled(memory, Reason.WAITING_FOR_CAPACITY)
            elif not is_made(member):
                draft.waits[member.uid] = not_made(member)
