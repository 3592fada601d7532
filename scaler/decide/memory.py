"""The memory: what one decision hands to the next, of services and instances. After a failover the
memory is empty but for the evictions that were counted."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from scaler.decide.nodes import PodRequests


class HadAttempt(IntEnum):
    """Whether an instance had its attempt and was not bound. If so, no instance is evicted for
    it."""

    NO = 0
    SINCE_LAST_BIND = 1
    """The attempt ended, and no pod of any service was bound since: the scheduler may have been
    away."""
    FOR_GOOD = 2


class SizeMemory(msgspec.Struct, frozen=True, gc=False):
    """The memory of a training job about its sizes: 3d of the contract. `training/remember.py`
    alone writes it."""

    chosen: str = ""
    """Name of the size that was chosen for the start under way; "" = none is under way."""
    tried: tuple[str, ...] = ()
    """Names of larger sizes that had their attempt since the job ran (3d.3)."""
    tried_at: float = 0.0
    """When the last of these attempts ended."""
    lost_at: float = 0.0
    """When the first of its pods was lost since it ran; 0.0 = none was."""
    cause: str = ""
    """Why it was restarted last, until it runs: a `Cause`."""
    about: str = ""
    """What was wrong then, in words."""
    runs_since: float = 0.0
    """Of a job that may grow: since when it runs; 0.0 = it does not."""
    fits_since: float = 0.0
    """Since when a larger size fits; 0.0 = none does."""
    grown_at: float = 0.0
    """When it was last restarted for growth, until that has lasted or was undone; 0.0 = not."""
    grown_from: int = 0
    """The amount of its size before that."""
    doublings: int = 0
    """How often the interval of its growth is doubled."""


class Attempt(
    msgspec.Struct,
    frozen=True,
    gc=False,
    kw_only=True,
    rename={"began": "turn_since", "failures_before_bind": "counted", "was_reset": "pardoned"},
):
    """An attempt and the backoff after it: of the minimum of a service, or of one instance. Only
    `attempts.py` writes these fields. Recorded worlds keep the names of an older version."""

    began: float = 0.0
    """Since when the attempt runs without progress; 0.0 = it does not run."""
    failures: int = 0
    """Attempts that ended without progress."""
    failures_before_bind: int = 0
    """Of `failures`, those that ended before the last bind of any pod."""
    backoff_until: float = 0.0
    was_reset: bool = False
    """A bind of any pod has reset the attempt or the backoff once."""


class InstanceMemory(
    Attempt, frozen=True, gc=False, rename={"gives_way": "turn_over", "had_attempt": "turns"}
):
    """The memory of one instance. It has an attempt of its own as a scale-up, or while it is bound
    in part."""

    broken_since: float = 0.0
    bound_since: float = 0.0
    """Since when all its pods are bound, and not all run, or are Ready where `counts-from` asks
    for that; or since when its owner waits for the first pods."""
    gave_place: bool = False
    """It was not Ready for so long that it gave its place to a spare; until it is Ready."""
    restarts: int = -1
    """Restart count at the last look; -1 = never seen."""
    restarted_at: float = 0.0
    """When an increase of the restart count was first seen."""
    ran: bool = False
    """The instance ran since it was admitted."""
    revoked: str = ""
    """Why the admission was revoked, in words, until the instance is admitted again; "" = not
    revoked."""
    refused: str = ""
    """The answer of the API server that refused the creation; "" = not refused."""
    refused_until: float = 0.0
    refused_times: int = 0
    refused_generation: int = 0
    never_placed: str = ""
    """The scheduler's words that it never binds a pod of the instance; "" = it has not said so."""
    never_placed_as: str = ""
    """How the job was written then."""
    preempted_for: str = ""
    """The beneficiary of its eviction, until its pods are gone; `NOBODY` = fewer instances are
    wanted, "" = none."""
    gives_way: bool = False
    """Its attempt ended without a bind: other candidates go first, and pods that are bound in part
    are of no use."""
    had_attempt: HadAttempt = HadAttempt.NO
    unmade_until: float = 0.0
    """Its owner had not made its pods when its attempt ended: it is no candidate until they are
    made, or until then. 0 = made."""
    most_bound: int = 0
    """The largest number of its bound pods since its service last served."""
    owner: str = ""
    """Identity of what makes it and others like it, as in `Instance`: an instance that comes in its
    place has its attempts."""
    gave_way_for: tuple[str, ...] = ()
    """Uids of the instances of its service for which it was evicted as surplus. It goes behind them
    until one of them has had its attempt, or runs."""
    sizes: SizeMemory | msgspec.UnsetType = msgspec.UNSET
    """Of a training job alone."""

    @property
    def had_its_attempt(self) -> bool:
        """Whether it had its attempt and was not bound."""
        return self.had_attempt is not HadAttempt.NO


class Evictions(msgspec.Struct, frozen=True, gc=False):
    """The evictions that were made for a service since it last served for `stable_after`. They are
    kept outside of the process too: a new leader goes on counting (3b.4e)."""

    number: int = 0
    """Each is all that the missing minimum needed at that moment."""
    at: float = 0.0
    """When the last of them was ordered; 0.0 = there is none."""
    repeated: int = 0
    """How often one of them was made once more at once, because others had taken its room. The
    pause does not grow with these."""

    @property
    def made(self) -> int:
        """All evictions, those that were made once more included."""
        return self.number + self.repeated


class ServiceMemory(
    Attempt,
    frozen=True,
    gc=False,
    rename={
        "trade_since": "short_since",
        "fits_nowhere_since": "held_since",
        "probe_began": "probe_since",
    },
):
    """The memory of one service with the attempt of its minimum, and by uid the memory of its
    instances."""

    instances: dict[str, InstanceMemory] = {}
    written: dict[str, str] = {}
    """`Demand.written` of all looks so far: fingerprints of what people wrote, by job or owner. A
    change ends backoff."""
    made: bool | None = None
    """Where others make the pods, of the chosen instances in this attempt: None = not looked at
    yet; False = an owner still has to make pods; True = all instances had pods."""
    served: bool = False
    """The service served, and no attempt of its minimum has ended since: what it lost is kept for
    it."""
    ran_with: tuple[tuple[str, PodRequests], ...] = ()
    """Group of the minimum -> the pod requests of an instance that ran when the service last
    served."""
    lacks_jobs_since: float = 0.0
    """Since when the minimum has too few candidates; 0.0 = it has enough, or the service has not
    served since its last attempt ended."""
    ended_at: float = 0.0
    """When the last attempt of the minimum ended; 0.0 = none, or progress since."""
    expects_since: float = 0.0
    """Since when the minimum waits for expected room, short times on free room included; 0.0 = it
    does not."""
    expects_until: float = 0.0
    """Until when it may wait for expected room; 0.0 = it does not."""
    expects_missing: int = 0
    """The most instances that the minimum missed since it began to wait for expected room."""
    expects_lost_at: float = 0.0
    """When its service, which served, lost another instance while it waited: more of them were
    missing than ever since it began; 0.0 = it has lost none."""
    spent: float = 0.0
    """While it waits for expected room: the seconds of its attempt that were over before."""
    expected_in_vain: bool = False
    """The last backoff followed because expected room did not become free in time."""
    gone_since: float = 0.0
    """Since when the service has no instance, and the owner of those that it had may make others;
    0.0 = it has some."""
    waiting_since: float = 0.0
    """Since when the service waits: of what it misses something could start and would fit, and
    nothing is released; 0.0 = it does not wait."""
    waited: float = 0.0
    """While something of it is released: the seconds that it waited before."""
    goes_first: bool = False
    """The minimum waited for `backoff_max` and has a reservation, or a scale-up waited so long and
    is with the scheduler: it goes before others until its attempt ends."""
    trade_since: float = 0.0
    """Since when an instance is missing for which running surplus of the service would make room;
    0.0 = none is."""
    fits_nowhere_since: float = 0.0
    """Since when the minimum fits nowhere; 0.0 = it fits, or is not looked at."""
    probe_began: float = 0.0
    """When the probe began; 0.0 = no probe runs."""
    probes: int = 0
    """Number of probes that ended without success."""
    victims: tuple[str, ...] = ()
    """Uids of instances whose eviction for the minimum was ordered, and that have not gone yet."""
    has_evicted: bool = False
    """An eviction was made for the minimum, and its attempt has not ended since: no other minimum
    passes it."""
    room_taken: bool = False
    """Others took the room of the last eviction before the attempt of the minimum ended: it may be
    made once more at once."""
    evictions: Evictions = Evictions()
    gave_way_once: bool = False
    """Since the service last served, surplus of it that does not run gave way once although nobody
    else would have been evicted (3.6, 3b.4e)."""
    tried_at: float = 0.0
    """Since when an instance of the minimum has had its attempt; 0.0 = none has."""
    serves_since: float = 0.0
    """Since when the service serves; 0.0 = it does not, or no evictions are counted."""
    wanted: tuple[tuple[int, float], ...] = ()
    """Wanted numbers that still count, each with its end: `Wanted` of `groups.py`."""


class Memory(msgspec.Struct, frozen=True, gc=False):
    """The memory of all services. A decision returns the memory for the next world; after a
    failover it has the counted evictions only (`attempts.remember_evictions`)."""

    services: dict[str, ServiceMemory] = {}
    """`str(ServiceKey)` -> memory of the service."""
    last_bind: float = 0.0
    """`World.last_bind` at the last look."""
    last_binds: dict[str, float] = {}
    """`World.last_binds` at the last look."""


NEVER_SEEN = InstanceMemory()
