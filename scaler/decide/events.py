"""What happens to the attempts of a service, as values: 3b.5 of the contract, 9a, and what 3b.4
remembers of victims.

The steps of a decision hand on these events. `attempts.py` alone makes the next memory of them. The
letters are those of 3b.5 where no other clause is named."""

from __future__ import annotations

import msgspec

Uids = tuple[str, ...]


class Event(msgspec.Struct, frozen=True, gc=False):
    """What happened to one service. `at`: when, in seconds since the epoch."""


class OfClock(Event, frozen=True):
    """5a, 5i: the clock of an attempt begins or stops."""


class OfEnd(Event, frozen=True):
    """5c, 5d, 5e: an attempt is over by the clock."""


class Seen(Event, frozen=True):
    """5b, 5c, 5f, 5h: what the cluster shows. It may change all attempts of the service."""


class OfWaiting(Event, frozen=True):
    """2a: who waits for others, and since when."""


class OfAction(Event, frozen=True):
    """3.6, 3b.4, 3.5: instances are revoked or evicted."""


class OfProbe(Event, frozen=True):
    """9a: what came of the search for room."""


class OfSize(Event, frozen=True):
    """3d: what happens to the sizes of a training job."""

    uid: str


# the clock


class Released(OfClock, frozen=True):
    """5a: something of the minimum is with the scheduler, bound in part, or not yet made."""

    at: float


class Stopped(OfClock, frozen=True):
    """5a: nothing of the minimum is with the scheduler, or it only waits for room."""


class ExpectsRoom(OfClock, frozen=True):
    """5a: the minimum waits for expected room, at the longest until then. Nothing of it is with the
    scheduler. `missing`: instances that it waits for. `lost_at`: when its service lost another one
    while it waited; 0.0 = it has lost none."""

    at: float
    until: float
    missing: int = 0
    lost_at: float = 0.0


class InstancesReleased(OfClock, frozen=True):
    """7c: these instances are with the scheduler, and not for the minimum."""

    uids: Uids
    at: float


class InstancesStopped(OfClock, frozen=True):
    """These instances are not with the scheduler, or for the minimum, which has its own attempt."""

    uids: Uids


class AwaitsOwner(OfClock, frozen=True):
    """5i: the owner of a chosen instance has not made its pods."""


class AllMade(OfClock, frozen=True):
    """5i: the owners have made the pods of all chosen instances."""

    at: float


# over by the clock


class Swapped(OfEnd, frozen=True):
    """5d: other candidates are tried in place of these: now, or as soon as these have no slot.
    `chosen`: what is tried now and has its place until the new clock ends, some of it perhaps not
    for the first time."""

    at: float
    tried: Uids
    chosen: Uids = ()


class Ended(OfEnd, frozen=True):
    """5c, 5e: the attempt of the minimum ended without progress. `tried`: its instances.
    `in_part`: those of them that are bound in part. `others`: all instances of the service that are
    not bound in part. `unmade`: those of `tried` of which their owners have made no pod."""

    at: float
    tried: Uids
    in_part: Uids
    others: Uids
    unmade: Uids = ()


class ExpectedInVain(OfEnd, frozen=True):
    """5a: the expected room of the minimum did not become free in time. `tried`: its instances,
    where it waited for victims."""

    at: float
    tried: Uids


class BeganAgain(OfEnd, frozen=True):
    """5e: the attempt went on for `minimum_timeout` without progress, and nobody waits."""

    at: float


class InstanceEnded(OfEnd, frozen=True):
    """7c: the attempt of a scale-up ended without progress, and it is in backoff."""

    uid: str
    at: float


class InstanceBeganAgain(OfEnd, frozen=True):
    """7c: the attempt of an instance went on without progress, and nobody waits."""

    uid: str
    at: float


class PartEnded(OfEnd, frozen=True):
    """5e: the attempt of an instance that is bound in part, or cannot be revoked, ended. Its pods
    are of no use."""

    uid: str


# what the cluster shows


class BoundPods(Seen, frozen=True):
    """5b: these instances have more bound pods than ever since the service last served. `unbound`:
    instances without a bound pod."""

    numbers: tuple[tuple[str, int], ...]
    unbound: Uids


class MinimumBound(Seen, frozen=True):
    """Every pod of the minimum is bound, and the service does not serve yet."""


class Serves(Seen, frozen=True):
    """5c, 3b.4e: the service serves. `well`: its instances that may have had an attempt and are not
    broken. `trades`: it has surplus that is to give way to a missing instance."""

    at: float
    well: Uids
    trades: bool


class ServesNoMore(Seen, frozen=True):
    """3b.4e: the service does not serve; the time that it served does not count."""


class HadAttempts(Seen, frozen=True):
    """3b.4e: an instance of the minimum has had its attempt, by whatever clause."""

    at: float


class JobsRead(Seen, frozen=True):
    """5c, 5f: what people wrote of the jobs and the rule, as fingerprints by job or owner; empty =
    no decision depends on it. `bound`: instances with a bound pod."""

    written: dict[str, str]
    bound: Uids


class JobsForgotten(Seen, frozen=True):
    """Nothing waits, so no later decision depends on what people wrote."""


class NodeReturned(Seen, frozen=True):
    """5f: a node that the service may use became usable at this time."""

    at: float
    members: Uids


class BoundAnywhere(Seen, frozen=True):
    """5h: a pod of any service was bound. `before`: when the last one was, before this one."""

    at: float
    before: float
    members: Uids


# waiting


class LacksJobs(OfWaiting, frozen=True):
    """1b: a minimum that served has too few candidates: jobs of it were deleted."""

    at: float


class Waits(OfWaiting, frozen=True):
    """2a: of what the service misses something could start and would fit on the free room, and
    nothing is released."""

    at: float


class WaitIsPaused(OfWaiting, frozen=True):
    """2a: something of what the service misses is released. The time that it waited counts again if
    that is revoked before its attempt is over."""

    at: float


class WaitsNoLonger(OfWaiting, frozen=True):
    """2a: nothing of the service waits."""


class GoesFirst(OfWaiting, frozen=True):
    """2a: the minimum waited for `backoff_max`, and now it has a reservation. 7a: a scale-up waited
    so long, and now it is admitted."""


class GoesFirstNoLonger(OfWaiting, frozen=True):
    """2a: the minimum lost its reservation. 7a: nothing of the scale-ups is with the scheduler."""


# revocations and evictions


class Revoked(OfAction, frozen=True):
    """The admission of an instance is revoked. `words`: why."""

    uid: str
    words: str


class Evicted(OfAction, frozen=True):
    """These instances are evicted. `beneficiary`: the service for which, or `NOBODY`."""

    uids: Uids
    beneficiary: str


class AwaitsOwnScaleDown(OfAction, frozen=True):
    """3.6: running surplus of the service is to give way. MindIE Controller may end it first."""

    at: float


class VictimsChosen(OfAction, frozen=True):
    """3b.4: these instances are evicted for the minimum of the service."""

    uids: Uids
    at: float


class SurplusTraded(OfAction, frozen=True):
    """3.6, `trade: always`: these instances are evicted for a scale-up of the service."""

    uids: Uids


class GaveWay(OfAction, frozen=True):
    """3.6: surplus of the service, `uids`, is evicted for missing instances of it, `to`.
    `once`: nobody else would be evicted for them now (3b.4e)."""

    uids: Uids
    to: Uids
    once: bool


class RoomTaken(OfAction, frozen=True):
    """3b.4e: the victims of the last eviction have gone, and the minimum does not fit: others took
    the room. `was_late`: the scheduler had had `minimum_timeout` to bind it."""

    was_late: bool


class VictimsLeft(OfAction, frozen=True):
    """3b.4d: of the victims of earlier decisions, these have not gone yet."""

    uids: Uids


# probes


class Fits(OfProbe, frozen=True):
    """9a: room was found for the minimum."""


class NotPlaced(OfProbe, frozen=True):
    """1f: the minimum is incomplete or too large, so no room was looked for."""


class FitsNowhere(OfProbe, frozen=True):
    """9a: the minimum fits nowhere."""

    at: float


class ProbeBegan(OfProbe, frozen=True):
    """9a: the minimum is released although it fits nowhere."""

    at: float


class ProbeEnded(OfProbe, frozen=True):
    """9a: the probe took its time, and the minimum still fits nowhere."""

    at: float


# sizes of training jobs


class SizeChosen(OfSize, frozen=True):
    """3d.2: the job has a reservation on free room for this size."""

    name: str


class NoSizeChosen(OfSize, frozen=True):
    """3d.2: nothing is reserved for a start of the job."""


class PodsLost(OfSize, frozen=True):
    """3d.4: a job that was bound lacks a pod since then."""

    at: float


class Restarted(OfSize, frozen=True):
    """3d.4: all pods of the job are deleted, so that it starts anew. `cause`: a `Cause`. `words`:
    what was wrong."""

    cause: str
    words: str


class JobRuns(OfSize, frozen=True):
    """3d.5: a job that may grow runs since then."""

    at: float


class RoomToGrow(OfSize, frozen=True):
    """3d.5: since then a larger size fits."""

    at: float


class NoRoomToGrow(OfSize, frozen=True):
    """3d.5: no larger size fits."""


class Grew(OfSize, frozen=True):
    """3d.5: the job is restarted at a larger size. `before`: the amount of its size until then."""

    at: float
    before: int


class GrowthUndone(OfSize, frozen=True):
    """3d.5: the last growth did not last as long as the interval."""


class GrowthLasted(OfSize, frozen=True):
    """3d.5: it lasted as long."""


class SizeTried(OfSize, frozen=True):
    """3d.3: this size was released, or chosen and not made, and not bound within
    `minimum_timeout`. The next smaller one has a clock of its own."""

    name: str
    at: float
