"""What becomes of the minimum of one service: 3b.1 to 3b.5, 3b.8 and 3b.9 of the contract, in this
order.

    too few candidates, or in backoff -> nothing is reserved
    room is found                     -> reserve; evict; what is with the scheduler may have to wait
      and its attempt is over         -> other candidates, or the attempt ends
    no room is found                  -> nothing is reserved; a probe; a service that is alone

The clauses answer; this file writes the answers into the drafts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scaler.decide import attempts, events
from scaler.decide.decision import State
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.explain import room_in_words
from scaler.decide.nodes import Room, joined
from scaler.decide.room.placement import Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, is_left_unmade, is_made, owner_made
from scaler.decide.sharing import (
    alone,
    attempt_end,
    eviction_pause,
    expected,
    gathering,
    next_scale_up,
    observed,
    preemption,
    probe,
    seeming_room,
)
from scaler.decide.sharing.attempt_end import Outcome, not_scheduled
from scaler.decide.sharing.choice import (
    LARGER_FIRST,
    after_larger_blocks,
    replaced_by,
    takes_blocks,
)
from scaler.decide.sharing.part import Part, ReservedMinimum, Victim
from scaler.decide.training import attempt
from scaler.reasons.reasons import Reason


def reserve(part: Part, draft: Draft) -> ReservedMinimum | None:
    """Reserve room for the minimum of a service. The draft gets evictions, or the reason why there
    is no room."""
    lacking = draft.demand.lacking_groups_in_words()
    if lacking:  # 1f
        draft.note(events.NotPlaced())
        _without_room(part, draft, Why(Reason.MINIMUM_INCOMPLETE, tuple(lacking)))
        _keep_room_of_deleted(part, draft)
        return None
    if attempts.in_backoff(draft.memory, part.now):  # 2d
        _give_up(part, draft, _why_in_backoff(draft))
        return None
    goes_before = next_scale_up.before(part, draft)
    found = _find(part, draft)
    if isinstance(found, Shortage):
        _does_not_fit(part, draft, found)
        return None
    reserved = found
    if goes_before is not None and not next_scale_up.could_start(part, goes_before.member):  # 7a
        preemption.give_back(part, reserved)
        _give_up(part, draft, Why(Reason.MINIMUM_DOES_NOT_FIT, (str(goes_before),)))
        return None
    if reserved.room is not Room.FREE and expected.is_over(part, draft):  # 5a
        preemption.give_back(part, reserved)
        draft.note(expected.ends(part, draft, reserved))
        _give_up(part, draft, _why_in_backoff(draft))
        return None
    draft.note(events.Fits(), *observed.events_of_owners(draft, reserved, part.now))
    if reserved.room is Room.FREE and draft.memory.spent:  # 5a: its clock runs on
        draft.note(events.Released(part.now))
    size_tried = attempt.size_that_had_its_attempt(part, draft, reserved)
    if size_tried is not None:  # 3d.3
        draft.note(size_tried)
    elif reserved.room is Room.FREE and part.is_late(draft.memory):
        answer = _after_its_attempt(part, draft, reserved)
        if isinstance(answer, Why):
            _give_up(part, draft, answer)
            return None
        reserved = answer
    _take(part, draft, reserved)
    return reserved


def _keep_room_of_deleted(part: Part, draft: Draft) -> None:
    """1b: jobs of a minimum that served were deleted, and others may be applied in their place a
    moment later: no scale-up takes their room meanwhile."""
    if not draft.shares or draft.demand.paused or not draft.memory.served:
        return
    deleted = draft.demand.requests_of_deleted()
    if not deleted:
        return
    draft.note(events.LacksJobs(part.now))
    if not attempts.keeps_room_of_deleted(draft.memory, part.now, part.policy):
        return
    present = [*draft.demand.bound_in_part, *draft.demand.first_candidates()]
    pods = joined(requests_of(present), deleted)
    for room in (Room.FREE, Room.EXPECTED):
        if isinstance(part.placement.reserve(pods, room), Reservation):
            return


def _find(part: Part, draft: Draft) -> ReservedMinimum | Shortage:
    """3a; 4e: where others took the room of victims, somebody may be evicted once more."""
    found = part.questions.find(part, draft)
    if not eviction_pause.lost_its_room(part, draft, found):
        return found
    draft.note(events.RoomTaken(was_late=part.is_late(draft.memory)))
    if not draft.memory.room_taken:
        return found
    if isinstance(found, ReservedMinimum):
        preemption.give_back(part, found)
    return part.questions.find(part, draft)


def _why_in_backoff(draft: Draft) -> Why:
    if draft.memory.expected_in_vain:
        return expected.why_in_vain(draft.memory)
    return not_scheduled(draft.memory, Reason.MINIMUM_NOT_SCHEDULED)


def _take(part: Part, draft: Draft, reserved: ReservedMinimum) -> None:
    """3b, 3c: the room is reserved. Where it is not free yet, nothing is released."""
    _choose(draft, reserved.members)
    if reserved.room is Room.FREE:
        return
    nominate(part, reserved)
    evict(part, draft, reserved)
    waits = expected.begins(part, draft, reserved)
    draft.note(waits if draft.shares else events.Stopped())
    why = Why(Reason.WAITING_FOR_ROOM, _awaited(part, draft, reserved))
    is_replacing = bool(replaced_by(draft, reserved.members))
    smaller = after_larger_blocks(reserved.members)
    for member in reserved.members:
        is_held = member.state is State.HELD
        if member.is_with_the_scheduler and draft.shares:
            draft.revoke_if_possible(member, why)  # the scheduler would bind it on reserved room
        elif member.is_with_the_scheduler:
            _note_what_it_lacks(draft, member, why)
        elif is_held and not draft.shares and is_made(member) and not is_replacing:
            if member in smaller:
                draft.wait(member, Why(Reason.WAITING_FOR_ROOM, (LARGER_FIRST,)))
            else:
                draft.admit(member, why.about)  # 8: its pods wait for the room
        elif is_held:
            draft.wait(member, why)


def _awaited(part: Part, draft: Draft, reserved: ReservedMinimum) -> tuple[str, ...]:
    """3c: for what the reservation waits, in words: nodes and victims."""
    victims = reserved.all_victims or preemption.victims_of(part, draft)
    names = [_victim_in_words(victim) for victim in victims]
    by_name = part.placement.nodes.by_name
    nodes = [by_name[name] for name in part.placement.waits_for(reserved.reservation)]
    return room_in_words(nodes, names, evicted=not reserved.all_victims)


def _victim_in_words(victim: Victim) -> str:
    """`mindie/mindie-server-p1 of mindie/scaling-rule-mindie`."""
    key = victim.draft.demand.service.key
    return f"{key.namespace}/{victim.member.instance.name} of {key.shown}"


def nominate(part: Part, reserved: ReservedMinimum) -> None:
    """4d: the room of these victims is reserved: they make room for nobody else. What they leave
    over is expected by all."""
    for victim in reserved.all_victims:
        victim.draft.nominated.add(victim.member.uid)
    if reserved.all_victims:
        part.expects_room = True


def evict(part: Part, draft: Draft, reserved: ReservedMinimum, *, counts: bool = True) -> None:
    """3c: order the evictions. Running instances of the same service are evicted only after
    `trade_after` (3.6): MindIE Controller goes first. `counts`: it is an eviction for a minimum
    (4e)."""
    if draft.demand.service.assumed:
        return
    if not reserved.all_victims:
        if reserved.room is Room.AWAY and preemption.may_give_up_running(part, draft):
            draft.note(events.AwaitsOwnScaleDown(part.now))
        return
    if _evicts_own_running(draft, reserved):
        draft.note(events.AwaitsOwnScaleDown(part.now))
        if part.now - draft.memory.trade_since < part.policy.trade_after:
            return
    uids = tuple([victim.member.uid for victim in reserved.all_victims])
    gave_way = _own_surplus_that_gives_way(part, draft, reserved, counts=counts)
    draft.note(events.VictimsChosen(uids, part.now) if counts else events.SurplusTraded(uids))
    if gave_way.uids:
        draft.note(gave_way)
    for victim in reserved.victims:
        victim.draft.evict(victim.member, draft.demand.name)
    for one in reserved.shrunk:
        one.victim.draft.shrink(one.victim.member, one.size, draft.demand.name)


def _own_surplus_that_gives_way(
    part: Part, draft: Draft, reserved: ReservedMinimum, *, counts: bool
) -> events.GaveWay:
    """1e, 3.6: which of the victims are of the service itself, and for whom."""
    own = []
    for victim in reserved.victims:
        if victim.draft is draft:
            own.append(victim.member.uid)
    to = tuple([member.uid for member in reserved.members])
    is_new = not set(own) <= set(draft.memory.victims)
    once = counts and is_new and eviction_pause.is_paused(part, draft, reserved.members)
    return events.GaveWay(tuple(own), to, once=once)


def _evicts_own_running(draft: Draft, reserved: ReservedMinimum) -> bool:
    for victim in reserved.victims:
        if victim.draft is draft and victim.member.state is State.RUNNING:
            return True
    return False


def _after_its_attempt(
    part: Part, draft: Draft, reserved: ReservedMinimum
) -> ReservedMinimum | Why:
    """5c to 5e: the attempt is over by the clock. Reserve room for other candidates, or go on with
    the same ones, or end the attempt and say why nothing is reserved."""
    tried = tuple([member.uid for member in reserved.members if member.instance.unbound])
    part.placement.cancel(reserved.reservation)
    other = attempt_end.other_candidates(part, draft, reserved.members)
    if other is not None:
        chosen = attempt_end.tried_again_or_anew(draft, other.members)
        draft.note(events.Swapped(part.now, tried, chosen))
        return other
    own_waits = attempt_end.has_waiting_spare(part, draft, reserved)
    helped = attempt_end.minimums_that_fit(part, draft) if draft.memory.served else None
    again = part.placement.reserve(requests_of(reserved.members))
    if isinstance(again, Shortage):  # the search for a placement was given up
        return Why(Reason.MINIMUM_DOES_NOT_FIT, (str(again),))
    own_waits |= seeming_room.own_surplus_would_help(part, draft, reserved.members)
    behind = attempt_end.behind_a_spare(draft) if draft.memory.served else ()
    if behind:
        draft.note(events.Swapped(part.now, behind))
    outcome = attempt_end.outcome_of_attempt(
        part, draft, draft.memory, own_waits=own_waits, helped=helped
    )
    match outcome:
        case Outcome.ENDS:
            part.placement.cancel(again)
            draft.note(_end(part, draft, tried))
            return not_scheduled(draft.memory, Reason.MINIMUM_NOT_SCHEDULED)
        case Outcome.BEGINS_AGAIN:
            draft.note(events.BeganAgain(part.now))
    return msgspec.structs.replace(reserved, reservation=again)


def _end(part: Part, draft: Draft, tried: tuple[str, ...]) -> events.Ended:
    in_part = []
    half_made = [member for member in draft.demand.members if member.is_half_made]
    for member in (*draft.demand.bound_in_part, *half_made):
        if member.instance.bound and member.uid in tried:
            in_part.append(member.uid)
    others = []
    unmade = []
    for member in draft.demand.members:
        if not member.in_part and member.uid not in in_part:
            others.append(member.uid)
        is_made_here = member.instance.made_by_us
        if member.uid in tried and not (is_made_here or owner_made(member.instance, member.memory)):
            unmade.append(member.uid)
    return events.Ended(part.now, tried, tuple(in_part), tuple(others), tuple(unmade))


def _does_not_fit(part: Part, draft: Draft, shortage: Shortage) -> None:
    """3d, 1f, 9a: nothing is reserved; a probe may begin. 9b: a pool of nodes may be asked for the
    room of what is held; of a service that is alone, an autoscaler sees the pods themselves."""
    if draft.shares:
        missing = [*draft.demand.bound_in_part, *draft.demand.first_candidates()]
        draft.unplaced = requests_of(missing)
    too_large = part.questions.why_too_large(draft)
    about = (str(shortage), *eviction_pause.in_words(part, draft))
    why = Why(Reason.MINIMUM_DOES_NOT_FIT, about)
    if too_large is not None:
        draft.note(events.NotPlaced())
        _without_room(part, draft, Why(Reason.MINIMUM_TOO_LARGE, (str(too_large),)))
    elif not draft.shares:
        _without_room(part, draft, why)
    else:
        part.gatherers = gathering.gathers(part, draft)
        _probe_or_give_up(part, draft, why)


def _probe_or_give_up(part: Part, draft: Draft, why: Why) -> None:
    """9a: a minimum that fits nowhere is probed from time to time, one at a time."""
    if probe.awaits_first(part, draft):
        part.not_understood.append(draft)
    event = probe.next_event(part, draft)
    if event is not None:
        draft.note(event)
    if isinstance(event, events.ProbeBegan):
        part.is_probed = True
        _probe(draft)
    elif attempts.is_probing(draft.memory, part.now, part.policy):
        _probe(draft)
    else:
        _give_up(part, draft, why)


def _probe(draft: Draft) -> None:
    """9a: admit the minimum without a reservation."""
    chosen = draft.demand.first_candidates()
    draft.chosen = {member.uid for member in chosen}
    for member in chosen:
        if member.state is State.HELD and is_made(member):
            draft.admit(member, (probe.WORDS,))


def _without_room(part: Part, draft: Draft, why: Why) -> None:
    """8: a service that shares no nodes is admitted whether it fits or not; where it takes blocks,
    not as long as jobs of its minimum are missing: the scheduler may put a small block where a
    large one has its only place."""
    is_incomplete = why.reason is Reason.MINIMUM_INCOMPLETE
    if draft.shares or (is_incomplete and takes_blocks(draft)):
        _give_up(part, draft, why)
        return
    draft.note(events.Stopped())
    _hold_unmade(part.now, draft, why)
    chosen = alone.chosen_for_minimum(part, draft)
    replaced = {member.instance.group for member in replaced_by(draft, chosen)}
    _choose(draft, chosen)
    smaller = after_larger_blocks(chosen)
    for member in chosen:
        if member.is_with_the_scheduler and not is_incomplete:
            _note_what_it_lacks(draft, member, why)
        if member.state is not State.HELD:
            continue
        if member in smaller:
            draft.wait(member, Why(Reason.WAITING_FOR_ROOM, (LARGER_FIRST,)))
        elif is_made(member) and member.instance.group not in replaced:
            draft.admit(member, () if is_incomplete else why.about)
        else:
            draft.wait(member, Why(Reason.WAITING_FOR_SCHEDULER, why.about))


def _note_what_it_lacks(draft: Draft, member: Member, why: Why) -> None:
    """3b.8: the words of an instance that is with the scheduler without room. Not while the
    creation of another is refused: with each try of that one the minimum lacks something else, and
    each would be told."""
    if not any(one.memory.refused for one in draft.demand.members):
        draft.without_room[member.uid] = why.about


def _give_up(part: Part, draft: Draft, why: Why) -> None:
    """3d: reserve nothing, and revoke what is with the scheduler. No other service is blocked."""
    draft.note(events.Stopped())
    for member in draft.demand.with_the_scheduler:
        draft.revoke_if_possible(member, why)
    for member in draft.demand.first_candidates():
        if member.state is State.HELD:
            draft.wait(member, why)
    _hold_unmade(part.now, draft, why)


def _hold_unmade(now: float, draft: Draft, why: Why) -> None:
    """3.3: what its owner had not made when its attempt ended is no candidate, and waits all the
    same."""
    for member in draft.demand.members:
        if is_left_unmade(member, now) and member.state is State.HELD:
            draft.wait(member, why)


def _choose(draft: Draft, chosen: Sequence[Member]) -> None:
    """1d: choose these instances for the minimum. What is with the scheduler and not chosen is
    revoked where a held instance takes its place."""
    draft.chosen = {member.uid for member in chosen}
    for member in replaced_by(draft, chosen):
        words = f"another instance of {member.instance.group}"
        draft.revoke_if_possible(member, Why(Reason.REVOKED, (words,)))
