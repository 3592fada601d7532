"""Attempts and backoff: 3b.5 of the contract. Nothing else writes an attempt, a backoff or a probe.

A reservation keeps nodes from others, so it has to make progress. An *attempt* is the time that it
gets for that. After an attempt without progress follows a *backoff*, in which it reserves nothing;
each backoff is longer than the one before. The minimum of a service has one attempt for all its
missing instances. A scale-up has an attempt of its own.

Steps of a decision write nothing: they hand on what happened, as events (`events.py`), and `after`
makes the next memory of them.

            Released            Ended               time
    at rest --------> attempt ---------> backoff ---------> at rest
               ^        |  | BeganAgain: nobody waits for the room, the clock starts anew
               |        |  | Swapped: other candidates are tried, the clock starts anew
               +--------+
      BoundPods: progress; Stopped: nothing of it is with the scheduler
      ExpectsRoom: nothing of it is with the scheduler, and another clock runs; its end is
      ExpectedInVain, and a backoff follows

For example p0 and d0 are the minimum of a service, `minimum_timeout` and `backoff` are 30 s:

    at 100 s   p0 and d0 are released       Released(100)              began = 100
    at 120 s   p0 is bound                  BoundPods(p0: 1), Released(120)    began = 120
    at 150 s   d0 is not, another waits     Ended(150, tried=[d0])     failures = 1, backoff to 180
    at 180 s   d0 is released again         Released(180)              began = 180
    at 210 s   d0 is not bound              Ended(210, tried=[d0])     failures = 2, backoff to 270
    at 270 s   d0 is released, and bound    BoundPods(d0: 1)           failures = 0
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from scaler.decide.events import (
    AllMade,
    AwaitsOwner,
    AwaitsOwnScaleDown,
    BeganAgain,
    BoundAnywhere,
    BoundPods,
    Ended,
    Event,
    Evicted,
    ExpectedInVain,
    ExpectsRoom,
    Fits,
    FitsNowhere,
    GaveWay,
    GoesFirst,
    GoesFirstNoLonger,
    HadAttempts,
    InstanceBeganAgain,
    InstanceEnded,
    InstancesReleased,
    InstancesStopped,
    JobsForgotten,
    JobsRead,
    LacksJobs,
    MinimumBound,
    NodeReturned,
    NotPlaced,
    OfAction,
    OfClock,
    OfEnd,
    OfProbe,
    OfSize,
    OfWaiting,
    PartEnded,
    ProbeBegan,
    ProbeEnded,
    Released,
    Revoked,
    RoomTaken,
    Seen,
    Serves,
    ServesNoMore,
    SizeTried,
    Stopped,
    SurplusTraded,
    Swapped,
    Uids,
    VictimsChosen,
    VictimsLeft,
    WaitIsPaused,
    Waits,
    WaitsNoLonger,
)
from scaler.decide.memory import (
    NEVER_SEEN,
    Attempt,
    Evictions,
    HadAttempt,
    InstanceMemory,
    Memory,
    ServiceMemory,
)
from scaler.decide.nodes import PodRequests
from scaler.decide.training import remember
from scaler.decide.world import Instance, Policy, Service

AnyAttempt = TypeVar("AnyAttempt", bound=Attempt)

FIRST_REFUSAL = 1.0
LONGEST_REFUSAL = 300.0
"""Seconds until a refused creation is tried again, doubled with each refusal up to the longest."""
MOST_GONE = 64
"""The largest number of jobs of one service, and of its instances, that are remembered though they
are gone."""
LONGEST_WAIT = 3600.0
"""Seconds: the longest time between two probes."""
MOST_REPEATED = 6
"""How often an eviction whose room others took is made once more at once, until the service has
served for `stable_after`. Later ones count: where somebody always takes the room, evictions become
ever rarer after these. In a simulated month, with three one service in 40 still had to pause for 30
minutes, because more training jobs than that waited for whole nodes. With six none had to."""
SESSIONS = 3.0
"""Seconds after the creation of its last pod from which on the scheduler has looked at all pods of
an instance: it looks once a second. What it says before may be about a part of them."""
MOST_DOUBLINGS = 64
"""How often `eviction_pause` is doubled at most: a float has no room for any number of times."""


# the events, each with the clauses that say what it changes; without a section: 3b


def after(memory: ServiceMemory, events: Iterable[Event], policy: Policy) -> ServiceMemory:
    """The memory of a service after these events, in their order."""
    for event in events:
        memory = _after(memory, event, policy)
    return memory


def _after(memory: ServiceMemory, event: Event, policy: Policy) -> ServiceMemory:
    match event:
        case OfClock():
            return _clock(memory, event)
        case OfEnd():
            return _over(memory, event, policy)
        case Seen():
            return _seen(memory, event, policy)
        case OfWaiting():
            return _waiting(memory, event)
        case OfAction():
            return _action(memory, event)
        case OfProbe():
            return _probe(memory, event)
        case OfSize():
            return _size(memory, event)
    raise AssertionError(f"no such event: {event}")


def _clock(memory: ServiceMemory, event: OfClock) -> ServiceMemory:
    match event:
        case Released(at):  # 5a: the clock begins; where it runs, it runs on
            return memory if memory.began else replace(memory, began=at - memory.spent, spent=0.0)
        case Stopped():  # 5a
            return _not_expecting(replace(memory, began=0.0, made=None))
        case ExpectsRoom():  # 5a: it waits since the first of these
            return _expects_room(memory, event)
        case InstancesReleased(uids, at):  # 5a, 7c
            return _each(memory, uids, began=at)
        case InstancesStopped(uids):  # 5a, 7c
            return _each(memory, uids, began=0.0)
        case AwaitsOwner():  # 5i
            return replace(memory, made=False)
        case AllMade(at):  # 5i: a clock that runs starts anew
            return replace(memory, made=True, began=at if memory.began else 0.0)
    raise AssertionError(f"no such event: {event}")


def _over(memory: ServiceMemory, event: OfEnd, policy: Policy) -> ServiceMemory:
    match event:
        case Swapped(at, tried, chosen):  # 5c: these had their attempt; 5d: a new clock
            memory = _not_expecting(_each(memory, tried, gives_way=True))
            memory = _each(memory, chosen, gives_way=False)
            return replace(_none_behind(_having_tried(memory, tried)), began=at)
        case Ended():  # 5c, 5e, 5f
            return _ended(memory, event, policy)
        case ExpectedInVain():  # 5a
            return _expected_in_vain(memory, event, policy)
        case BeganAgain(at):  # 5e: nobody waits
            return _not_expecting(replace(memory, began=at))
        case InstanceEnded(uid, at):  # 5e, 5f, 7c
            memory = _none_behind(memory, (uid,))
            return _with(memory, {uid: _failed(memory_of(memory, uid), at, policy)})
        case InstanceBeganAgain(uid, at):  # 5e, 7c: nobody waits
            return _each(memory, (uid,), began=at)
        case PartEnded(uid):  # 5e: it becomes Broken; 10b
            return _each(memory, (uid,), gives_way=True, began=0.0)
    raise AssertionError(f"no such event: {event}")


def _seen(memory: ServiceMemory, event: Seen, policy: Policy) -> ServiceMemory:
    match event:
        case BoundPods():  # 5b
            return _bound(memory, event)
        case MinimumBound():  # 5b: nothing of the minimum is left to be bound
            memory = replace(memory, began=0.0, made=None, trade_since=0.0, victims=())
            memory = replace(memory, lacks_jobs_since=0.0)
            memory = _not_expecting(memory)
            return replace(memory, fits_nowhere_since=0.0, probe_began=0.0)
        case Serves():  # 5c, 4e
            return _serving(memory, event, policy)
        case ServesNoMore():  # 4e
            return replace(memory, serves_since=0.0)
        case HadAttempts(at):  # 4e
            return replace(memory, tried_at=memory.tried_at or at)
        case JobsRead():  # 5c, 5f
            return _jobs_read(memory, event)
        case JobsForgotten():  # 5c: the next look has nothing to compare with
            return replace(memory, written={})
        case NodeReturned():  # 5f
            return _node_returned(memory, event, policy)
        case BoundAnywhere():  # 5h
            return _bound_anywhere(memory, event, policy)
    raise AssertionError(f"no such event: {event}")


def _waiting(memory: ServiceMemory, event: OfWaiting) -> ServiceMemory:
    match event:
        case LacksJobs(at):  # 1b: since the first of these
            return replace(memory, lacks_jobs_since=memory.lacks_jobs_since or at)
        case Waits(at):  # 2a: it waits since the first of these
            since = memory.waiting_since or at - memory.waited
            return replace(memory, waiting_since=since, waited=0.0)
        case WaitIsPaused(at):  # 2a
            return replace(memory, waiting_since=0.0, waited=at - memory.waiting_since)
        case WaitsNoLonger():  # 2a
            return replace(memory, waiting_since=0.0, waited=0.0)
        case GoesFirst():  # 2a
            return replace(memory, goes_first=True)
        case GoesFirstNoLonger():  # 2a
            return replace(memory, goes_first=False)
    raise AssertionError(f"no such event: {event}")


def _action(memory: ServiceMemory, event: OfAction) -> ServiceMemory:
    match event:
        case Revoked(uid, words):  # 5e, 3.5, 7b
            return _each(memory, (uid,), began=0.0, revoked=words)
        case Evicted(uids, beneficiary):  # 4, 3c
            return _each(memory, uids, preempted_for=beneficiary)
        case AwaitsOwnScaleDown(at):  # 3.6
            return replace(memory, trade_since=memory.trade_since or at)
        case VictimsChosen():  # 2a, 4d, 4e
            return _evicting(memory, event)
        case SurplusTraded(uids):  # 3.6
            return replace(memory, trade_since=0.0, victims=uids)
        case GaveWay():  # 1e, 3.6, 4e
            return _gave_way(memory, event)
        case VictimsLeft(uids):  # 4d
            return replace(memory, victims=uids)
        case RoomTaken(was_late):  # 4e
            again = may_repeat(memory) and not was_late
            return replace(memory, has_evicted=False, room_taken=again)
    raise AssertionError(f"no such event: {event}")


def _probe(memory: ServiceMemory, event: OfProbe) -> ServiceMemory:
    match event:
        case Fits():  # 9a: the next probe does not wait longer
            memory = replace(memory, fits_nowhere_since=0.0, probe_began=0.0, probes=0)
            return replace(memory, lacks_jobs_since=0.0)
        case NotPlaced():  # 1f
            return replace(memory, fits_nowhere_since=0.0, probe_began=0.0)
        case FitsNowhere(at):  # 9a
            memory = replace(memory, lacks_jobs_since=0.0)
            return replace(memory, fits_nowhere_since=memory.fits_nowhere_since or at)
        case ProbeBegan(at):  # 9a
            return replace(memory, probe_began=at)
        case ProbeEnded(at):  # 9a
            probes = memory.probes + 1
            return replace(memory, probe_began=0.0, probes=probes, fits_nowhere_since=at)
    raise AssertionError(f"no such event: {event}")


def _size(memory: ServiceMemory, event: OfSize) -> ServiceMemory:
    """3d; `remember.py` says what is remembered of sizes. 3d.3: each size has a clock of its
    own."""
    instance = memory_of(memory, event.uid)
    sizes = remember.after_event(remember.sizes_of(instance), event)
    memory = _with(memory, {event.uid: remember.with_sizes(instance, sizes)})
    if isinstance(event, SizeTried):
        memory = replace(memory, began=event.at, made=None)
    return memory


# one clause each, in the order of 3b.5


def _bound(memory: ServiceMemory, event: BoundPods) -> ServiceMemory:
    """5b: progress ends the attempt and the backoff, and forgets the failures. Each instance gives
    it once with the same number of bound pods: a partner that crashes and is bound again is
    none."""
    more = {}
    for uid, number in event.numbers:
        more[uid] = replace(memory_of(memory, uid), most_bound=number)
    return replace(
        _not_expecting(_each(_with(memory, more), event.unbound, gives_way=False)),
        began=0.0,
        made=None,
        failures=0,
        failures_before_bind=0,
        ended_at=0.0,
        waited=0.0,
        goes_first=False,
        backoff_until=0.0,
    )


def _having_tried(memory: ServiceMemory, uids: Uids) -> ServiceMemory:
    """5c: these instances had their attempt."""
    first = [uid for uid in uids if memory_of(memory, uid).had_attempt is HadAttempt.NO]
    return _each(memory, first, had_attempt=HadAttempt.SINCE_LAST_BIND)


def _serving(memory: ServiceMemory, event: Serves, policy: Policy) -> ServiceMemory:
    """5c: a service that serves forgets its attempts. 4e: one that has served for `stable_after`
    forgets the evictions that were made for it."""
    evictions = memory.evictions
    serves_since = (memory.serves_since or event.at) if evictions.number else 0.0
    if evictions.number and event.at - serves_since >= policy.stable_after:
        evictions = Evictions()
        serves_since = 0.0
    memory = ServiceMemory(
        memory.instances,
        written=memory.written,
        waiting_since=memory.waiting_since,
        waited=memory.waited,
        goes_first=memory.goes_first,
        served=memory.served,
        ran_with=memory.ran_with,
        trade_since=memory.trade_since if event.trades else 0.0,
        wanted=memory.wanted,
        evictions=evictions,
        serves_since=serves_since,
    )
    runs = [uid for uid, instance in memory.instances.items() if instance.ran]
    memory = _none_behind(memory, runs)
    tried = [uid for uid in event.well if memory_of(memory, uid).had_attempt is not HadAttempt.NO]
    counted = [uid for uid, one in memory.instances.items() if one.most_bound]
    return _each(_each(memory, tried, had_attempt=HadAttempt.NO), counted, most_bound=0)


def _gave_way(memory: ServiceMemory, event: GaveWay) -> ServiceMemory:
    """1e: what gives way goes behind those for which it does. 4e: once where nobody else would."""
    memory = _each(memory, event.to, gave_way_for=())
    memory = _each(memory, event.uids, gave_way_for=event.to)
    return replace(memory, gave_way_once=memory.gave_way_once or event.once)


def _none_behind(memory: ServiceMemory, uids: Collection[str] | None = None) -> ServiceMemory:
    """1e: what gave way for one of these instances is a candidate as any; None = for any one."""
    behind = []
    for uid, instance in memory.instances.items():
        gave_way_for = instance.gave_way_for
        if gave_way_for and (uids is None or not set(uids).isdisjoint(gave_way_for)):
            behind.append(uid)
    return _each(memory, behind, gave_way_for=()) if behind else memory


def _jobs_read(memory: ServiceMemory, event: JobsRead) -> ServiceMemory:
    """5c, 5f: where people changed the jobs or the rule, attempts and backoff are forgotten, as for
    a new service. A job that was not seen before was written by people. One that vanishes stays
    known: an owner whose only pod was revoked makes it again, and nobody wrote anything."""
    known = memory.written
    if not has_news(memory, event.written):
        return memory
    gone = [name for name in known if name not in event.written]
    kept = {name: known[name] for name in gone[-MOST_GONE:]}
    read = replace(memory, written={**kept, **event.written})
    if not known:
        return read
    instances = {}
    for uid, instance in memory.instances.items():
        instances[uid] = replace(
            remember.tried_again(instance),
            had_attempt=HadAttempt.NO,
            backoff_until=0.0,
            gives_way=instance.gives_way and uid in event.bound,
            gave_way_for=(),
        )
    read = replace(read, backoff_until=0.0, was_reset=False, tried_at=0.0)
    return _with(read, instances)


def _evicting(memory: ServiceMemory, event: VictimsChosen) -> ServiceMemory:
    """2a, 4e: one eviction more, with all its victims. What was ordered before and has not gone,
    because the API server refused its deletion, is ordered again and counts once. So does what is
    made once more because others took its room."""
    evictions = memory.evictions
    if not set(event.uids) <= set(memory.victims):
        repeats = 1 if memory.room_taken else 0
        evictions = Evictions(
            evictions.number + 1 - repeats, event.at, evictions.repeated + repeats
        )
        memory = replace(memory, room_taken=False)
    memory = replace(memory, trade_since=0.0, victims=event.uids, evictions=evictions)
    return replace(memory, has_evicted=True)


def _ended(memory: ServiceMemory, event: Ended, policy: Policy) -> ServiceMemory:
    """5c, 5e, 5f: its instances had their attempt; the service is in backoff. What is bound in part
    is of no use; of the others, none goes behind because of this attempt alone."""
    memory = _none_behind(_having_tried(memory, event.tried))
    memory = _each(memory, event.in_part, gives_way=True)
    memory = _each(memory, event.others, gives_way=False)
    # Volcano enqueues no job of a full cluster, and Ascend Operator makes no pods before that: only
    # an eviction helps, which may be made once more from then on.
    memory = _each(memory, event.unmade, unmade_until=event.at + policy.eviction_pause)
    ended = replace(
        _not_expecting(memory),
        made=None,
        served=False,
        lacks_jobs_since=0.0,
        expected_in_vain=False,
        ended_at=event.at,
        goes_first=False,
        has_evicted=False,
        room_taken=False,
        trade_since=0.0,
    )
    return _failed(ended, event.at, policy)


def _expects_room(memory: ServiceMemory, event: ExpectsRoom) -> ServiceMemory:
    """5a: the minimum waits for expected room, and the clock of its attempt stops."""
    return replace(
        memory,
        began=0.0,
        spent=event.at - memory.began if memory.began else memory.spent,
        expects_since=memory.expects_since or event.at,
        expects_until=event.until,
        expects_missing=max(memory.expects_missing, event.missing),
        expects_lost_at=event.lost_at,
    )


def _not_expecting(memory: ServiceMemory) -> ServiceMemory:
    """5a: the minimum does not wait for expected room."""
    if not (memory.expects_since or memory.expects_until or memory.spent):
        return memory
    return replace(
        memory,
        expects_since=0.0,
        expects_until=0.0,
        expects_missing=0,
        expects_lost_at=0.0,
        spent=0.0,
    )


def _expected_in_vain(
    memory: ServiceMemory, event: ExpectedInVain, policy: Policy
) -> ServiceMemory:
    """5a: the service is in backoff. No scheduler was awaited, so no bind takes that back (5h)."""
    ended = _ended(memory, Ended(event.at, event.tried, (), ()), policy)
    return replace(ended, failures_before_bind=ended.failures, expected_in_vain=True)


def _failed(attempt: AnyAttempt, at: float, policy: Policy) -> AnyAttempt:
    """5f: one failure more, and a backoff."""
    failures = attempt.failures + 1
    return replace(
        attempt, began=0.0, failures=failures, backoff_until=at + backoff_after(failures, policy)
    )


def _node_returned(memory: ServiceMemory, event: NodeReturned, policy: Policy) -> ServiceMemory:
    """5f: a node that became usable ends the backoff after each attempt that ended before."""
    instances = {}
    for uid in event.members:
        instance = memory_of(memory, uid)
        if _began_before(instance, event.at, policy):
            instance = replace(instance, backoff_until=0.0)
        if remember.sizes_of(instance).tried_at < event.at:  # 3d.3
            instance = remember.tried_again(instance)
        instances[uid] = instance
    if _began_before(memory, event.at, policy):
        memory = replace(memory, backoff_until=0.0)
    return _with(memory, instances)


def _began_before(attempt: Attempt, at: float, policy: Policy) -> bool:
    """Whether there is a backoff, and it began before that time."""
    began = attempt.backoff_until - backoff_after(attempt.failures, policy)
    return attempt.backoff_until > 0 and began < at


def _bound_anywhere(memory: ServiceMemory, event: BoundAnywhere, policy: Policy) -> ServiceMemory:
    """5h: before this bind the scheduler may have been away. What ended without any bind is taken
    back once for each service and instance, until the service serves or its jobs change. That an
    instance had its attempt stays, so that evictions are bounded."""
    before = memory
    instances = {uid: memory_of(before, uid) for uid in event.members}
    waited = []
    for uid, instance in instances.items():
        if instance.had_attempt is HadAttempt.SINCE_LAST_BIND:
            waited.append(uid)
        instances[uid] = _reset(instance, event, policy)
    memory = _reset(before, event, policy)
    if before.failures and not memory.failures:
        memory = replace(memory, ended_at=0.0)
    if waited:
        memory = replace(memory, was_reset=True)
    if not before.was_reset:
        for uid, instance in instances.items():  # 3d.3: sizes that had an attempt without a bind
            if remember.sizes_of(instance).tried_at > event.before:
                instances[uid] = remember.tried_again(instance)
                memory = replace(memory, was_reset=True)
    for uid in waited:
        instances[uid] = replace(
            instances[uid],
            had_attempt=HadAttempt.FOR_GOOD,
            gives_way=instances[uid].gives_way and before.was_reset,
        )
    return _with(memory, instances)


def _reset(attempt: AnyAttempt, event: BoundAnywhere, policy: Policy) -> AnyAttempt:
    """The attempt of a minimum or of an instance after a bind of any pod."""
    without_a_bind = event.before <= attempt.began
    is_late_for_want_of_binds = is_late(attempt, event.at, policy) and without_a_bind
    has_failed = attempt.failures > attempt.failures_before_bind
    if (is_late_for_want_of_binds or has_failed) and not attempt.was_reset:
        return replace(
            attempt,
            began=event.at if is_late_for_want_of_binds else attempt.began,
            failures=attempt.failures_before_bind,
            backoff_until=0.0 if has_failed else attempt.backoff_until,
            was_reset=True,
        )
    return replace(attempt, failures_before_bind=attempt.failures) if has_failed else attempt


# memories of instances


def _each(memory: ServiceMemory, uids: Iterable[str], **changes: object) -> ServiceMemory:
    return _with(memory, {uid: replace(memory_of(memory, uid), **changes) for uid in uids})


def _with(memory: ServiceMemory, instances: Mapping[str, InstanceMemory]) -> ServiceMemory:
    """The memory with these memories of instances; the same object when nothing changes."""
    changed = {}
    for uid, one in instances.items():
        if one != memory_of(memory, uid):
            changed[uid] = one
    if not changed:
        return memory
    return replace(memory, instances={**memory.instances, **changed})


def memory_of(memory: ServiceMemory, uid: str) -> InstanceMemory:
    """The memory of an instance of the service."""
    return memory.instances.get(uid, NEVER_SEEN)


# questions


def is_late(attempt: Attempt, now: float, policy: Policy) -> bool:
    """5c: whether the attempt made no progress within `minimum_timeout`."""
    return attempt.began > 0 and now - attempt.began >= policy.minimum_timeout


def ends_without_others(attempt: Attempt, last_bind: float, now: float, policy: Policy) -> bool:
    """5g: whether an attempt that is over ends for a spare of its own, and begins again where
    nobody waits: a pod of any service was bound since it began, or it lasts for `backoff_max`."""
    return last_bind > attempt.began or is_very_late(attempt, now, policy)


def is_very_late(attempt: Attempt, now: float, policy: Policy) -> bool:
    """5e, 5g: whether the attempt lasts for `backoff_max` without progress."""
    return now - attempt.began >= policy.backoff_max


def backoff_after(failures: int, policy: Policy) -> float:
    """5f: seconds of the backoff after so many attempts without progress."""
    return min(policy.backoff * 2.0 ** min(max(0, failures - 1), 16), policy.backoff_max)


def last_ended_at(attempt: Attempt, policy: Policy) -> float:
    """5f: when the attempt before the last backoff ended; 0.0 = none, or the backoff was reset."""
    if not attempt.backoff_until:
        return 0.0
    return attempt.backoff_until - backoff_after(attempt.failures, policy)


def has_waited_long(memory: ServiceMemory, now: float, policy: Policy) -> bool:
    """2a: whether the service waits for `backoff_max` or longer."""
    return memory.waiting_since > 0 and now - memory.waiting_since >= policy.backoff_max


def has_news(memory: ServiceMemory, written: Mapping[str, str]) -> bool:
    """5c: whether something of what people wrote was not read before."""
    return not written.items() <= memory.written.items()


def keeps_room_of_deleted(memory: ServiceMemory, now: float, policy: Policy) -> bool:
    """1b: whether the room of jobs that were deleted is kept for those that are applied in their
    place: for `broken_grace`."""
    since = memory.lacks_jobs_since
    return memory.served and (since == 0.0 or now - since < policy.broken_grace)


def in_backoff(attempt: Attempt, now: float) -> bool:
    """2d: whether nothing is reserved because an attempt ended."""
    return now < attempt.backoff_until


def evicts_from(memory: ServiceMemory, policy: Policy) -> float:
    """4e: the time from which somebody may be evicted once more for the service, where an eviction
    was made for it or an instance of it has had its attempt: after `eviction_pause`, doubled with
    each eviction, without bound."""
    evictions = memory.evictions
    since = evictions.at if evictions.number else memory.tried_at
    doublings = min(max(0, evictions.number - 1), MOST_DOUBLINGS)
    return since + policy.eviction_pause * 2.0**doublings


def may_repeat(memory: ServiceMemory) -> bool:
    """4e: whether the last eviction for the service may be made once more at once, if others took
    its room: its attempt has not ended, and that did not happen too often."""
    is_allowed = memory.room_taken or memory.has_evicted
    return is_allowed and memory.evictions.repeated < MOST_REPEATED


def is_probing(memory: ServiceMemory, now: float, policy: Policy) -> bool:
    """9a: whether a probe runs."""
    return memory.probe_began > 0 and now - memory.probe_began < policy.minimum_timeout


def probe_after(memory: ServiceMemory, policy: Policy) -> float:
    """9a: seconds that a minimum which fits nowhere waits for its next probe."""
    return min(policy.fit_patience * 2.0 ** min(memory.probes, 16), LONGEST_WAIT)


def moments(memory: ServiceMemory, uids: Iterable[str], policy: Policy) -> Iterator[float]:
    """The times at which an attempt, a backoff or a probe may change the decision by time alone;
    0.0 = never, times in the past included. `uids`: instances that may have attempts."""
    for attempt in (memory, *[memory_of(memory, uid) for uid in uids]):
        if attempt.began:
            yield attempt.began + policy.minimum_timeout
            yield attempt.began + policy.backoff_max
        yield attempt.backoff_until
    if memory.waiting_since:
        yield memory.waiting_since + policy.backoff_max
    yield memory.expects_until
    if memory.lacks_jobs_since:
        yield memory.lacks_jobs_since + policy.broken_grace
    if memory.trade_since:
        yield memory.trade_since + policy.trade_after
    if memory.evictions.number or memory.tried_at:
        yield evicts_from(memory, policy)
    if memory.serves_since:
        yield memory.serves_since + policy.stable_after
    if memory.probe_began:
        yield memory.probe_began + policy.minimum_timeout
    elif memory.fits_nowhere_since:
        yield memory.fits_nowhere_since + probe_after(memory, policy)


# a look at one instance, and what happens between decisions


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The API server refused the creation of an instance, `uid`, with these words at this time. Its
    job had this generation."""

    uid: str
    words: str
    at: float
    generation: int


def refuse(memory: Memory, name: str, refusal: Refusal) -> Memory:
    """5j: note a refusal, and when to try again. The instance had its attempt. `name`: the service,
    as `str(ServiceKey)`."""
    service = memory.services.get(name, ServiceMemory())
    before = memory_of(service, refusal.uid)
    wait = min(FIRST_REFUSAL * 2.0 ** min(before.refused_times, 16), LONGEST_REFUSAL)
    refused = replace(
        before,
        refused=refusal.words,
        refused_until=refusal.at + wait,
        refused_times=before.refused_times + 1,
        refused_generation=refusal.generation,
        had_attempt=HadAttempt.FOR_GOOD,
    )
    service = _none_behind(service, (refusal.uid,))
    changed = replace(service, instances={**service.instances, refusal.uid: refused})
    return replace(memory, services={**memory.services, name: changed})


def remember_evictions(memory: Memory, name: str, evictions: Evictions) -> Memory:
    """4e: the evictions that an earlier leader counted for the service `name`, as
    `str(ServiceKey)`."""
    service = memory.services.get(name, ServiceMemory())
    if service.evictions.number or not evictions.number:
        return memory
    service = replace(service, evictions=evictions)
    return replace(memory, services={**memory.services, name: service})


def after_look(memory: InstanceMemory, *, lost: bool, all_bound: bool) -> InstanceMemory:
    """The memory of an instance that does not run. `lost`: it fails to run, or it lost its slot
    without ever having run: it had its attempt (3b.5j). `all_bound`: it gives way to no other
    candidate any more."""
    if lost and memory.had_attempt is not HadAttempt.FOR_GOOD:
        memory = replace(memory, had_attempt=HadAttempt.FOR_GOOD)
    if all_bound and memory.gives_way:
        memory = replace(memory, gives_way=False)
    return memory


def after_scheduler_spoke(memory: InstanceMemory, instance: Instance, now: float) -> InstanceMemory:
    """2, JobInvalid: the memory after a look at what the scheduler says. That it never binds the
    instance holds until the job is edited, or a pod of it is bound all the same."""
    has_seen_all = now >= instance.newest + SESSIONS
    said = instance.never_placed if has_seen_all and not instance.bound else ""
    if said and not memory.never_placed:
        return replace(memory, never_placed=said, never_placed_as=written_as(instance))
    if said or not memory.never_placed:  # pods made before an edit are refused for what it was
        return memory
    if instance.bound or written_as(instance) != memory.never_placed_as:
        return replace(memory, never_placed="", never_placed_as="")
    return memory


def written_as(instance: Instance) -> str:
    """How the job of an instance is written: a text that changes with each edit of it, and not with
    its pods."""
    return f"{instance.generation} {instance.revision} {instance.asks}"


def after_look_at_service(
    memory: ServiceMemory, ran_with: tuple[tuple[str, PodRequests], ...]
) -> ServiceMemory:
    """1b, 5e: the memory of a service that serves after a look at all its instances."""
    if memory.served and memory.ran_with == ran_with:
        return memory
    return replace(memory, served=True, ran_with=ran_with)


def kept_while_gone(memory: ServiceMemory, now: float, policy: Policy) -> ServiceMemory | None:
    """5c: the memory of a service that has no instance any more, or None. Where owners make the
    pods, a revocation of ours or a rollout makes all of them vanish and come again: that is no new
    service, for `backoff_max`."""
    since = memory.gone_since or now
    if not _is_made_again(memory) or now - since >= policy.backoff_max:
        return None
    return memory if memory.gone_since else replace(memory, gone_since=since)


def _is_made_again(memory: ServiceMemory) -> bool:
    """Whether an owner makes pods of the service: some instance has one, or an identity for an
    uid."""
    return any(one.owner or "/" in uid for uid, one in memory.instances.items())


def outlives_its_pods(memory: InstanceMemory, now: float) -> bool:
    """Whether the memory of an instance that is gone holds for the instance that its owner makes in
    its place, or for itself when it returns."""
    had_attempt = memory.had_attempt is not HadAttempt.NO
    is_behind = bool(memory.gave_way_for)
    is_known = bool(memory.never_placed) or memory.most_bound > 0
    return had_attempt or is_behind or is_known or memory.backoff_until > now


def inherited(
    service: Service, before: Mapping[str, InstanceMemory], now: float
) -> Mapping[str, InstanceMemory]:
    """5c: the memory of instances, where new instances inherit attempts, backoff and what was bound
    of instances of the same owner that are gone."""
    if not before:
        return before
    uids = {instance.uid for instance in service.instances}
    gone = defaultdict[str, list[InstanceMemory]](list)
    for uid, memory in before.items():
        if uid not in uids and memory.owner and outlives_its_pods(memory, now):
            gone[memory.owner].append(memory)
    if not gone:
        return before
    known = dict(before)
    for instance in service.instances:
        left = gone[instance.owner] if instance.owner and not instance.made_by_us else []
        if left and instance.uid not in before:
            known[instance.uid] = _inherited(left.pop(0))
    return known


def _inherited(memory: InstanceMemory) -> InstanceMemory:
    return InstanceMemory(
        had_attempt=memory.had_attempt,
        gave_way_for=memory.gave_way_for,
        failures=memory.failures,
        failures_before_bind=memory.failures_before_bind,
        backoff_until=memory.backoff_until,
        most_bound=memory.most_bound,
        never_placed=memory.never_placed,
        never_placed_as=memory.never_placed_as,
        owner=memory.owner,
    )
