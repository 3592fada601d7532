"""The memory: what one decision hands to the next, of services and instances. After a failover the
memory is empty."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Turns(IntEnum):
    """Whether an instance had its turn and was not bound. If so, no instance is evicted for it."""

    NONE = 0
    SINCE_LAST_BIND = 1
    """The turn ended, and no pod of any service was bound since: the scheduler may have been
    away."""
    FOR_GOOD = 2


class TurnMemory(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A turn and the backoff after it: of the minimum of a service, or of one instance."""

    turn_since: float = 0.0
    """Since when the turn runs without progress; 0.0 = it does not run."""
    failures: int = 0
    """Turns that ended without a bind. Of these, `failures - counted` since the last bind of any
    pod."""
    counted: int = 0
    backoff_until: float = 0.0
    pardoned: bool = False
    """The pardon was used: a bind of any pod has taken back a turn or backoff once."""


class InstanceMemory(TurnMemory, frozen=True, gc=False):
    """The memory of one instance. It has a turn as a scale-up, or while it is bound in part."""

    broken_since: float = 0.0
    bound_since: float = 0.0
    """Since when all its pods are bound, and not all run; or since when its owner waits for the
    first pods."""
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
    preempted_for: str = ""
    """The beneficiary of its eviction, until its pods are gone; `NOBODY` = fewer instances are
    wanted, "" = none."""
    turn_over: bool = False
    """The turn ended without a bind: other candidates go first, and pods that are bound in part are
    of no use."""
    turns: Turns = Turns.NONE


class ServiceMemory(TurnMemory, frozen=True, gc=False):
    """The memory of one service with the turn of its minimum, and by uid the memory of its
    instances."""

    instances: dict[str, InstanceMemory] = {}
    bound: int = 0
    """Bound pods at the last look: a larger number is progress."""
    jobs: str = ""
    """`Demand.jobs` at the last look, a fingerprint of jobs and rule: a change ends backoff."""
    made: bool | None = None
    """Where others make the pods: whether all chosen instances had pods in this turn; None = not
    looked at."""
    ended_at: float = 0.0
    """When the last turn of the minimum ended; 0.0 = none, or progress since."""
    short_since: float = 0.0
    """Since when an instance is missing for which running surplus of the service would make room;
    0.0 = none is."""
    held_since: float = 0.0
    """Since when the minimum fits nowhere; 0.0 = it fits, or is not looked at."""
    probe_since: float = 0.0
    probes: int = 0
    """Number of probes that ended without success."""
    victims: tuple[str, ...] = ()
    """Uids of instances that were evicted for the minimum and still exist."""
    wanted: tuple[tuple[int, float], ...] = ()
    """Wanted numbers that still count, each with its end: `Wanted` of `groups.py`."""


class Memory(msgspec.Struct, frozen=True, gc=False):
    """The memory of all services. A decision returns the memory for the next world; after a
    failover it is empty."""

    services: dict[str, ServiceMemory] = {}
    """`str(ServiceKey)` -> memory of the service."""
    last_bind: float = 0.0
    """`World.last_bind` at the last look."""


NEVER_SEEN = InstanceMemory()
FIRST_REFUSAL = 1.0
LONGEST_REFUSAL = 300.0
"""Seconds until a refused creation is tried again, doubled with each refusal up to the longest."""


def refuse(
    memory: Memory, name: str, uid: str, words: str, *, now: float, generation: int
) -> Memory:
    """Note that the API server refused a creation, and when to try again. The instance had its
    turn. `name`: the service, as `str(ServiceKey)`."""
    service = memory.services.get(name, ServiceMemory())
    before = service.instances.get(uid, NEVER_SEEN)
    wait = min(FIRST_REFUSAL * 2.0 ** min(before.refused_times, 16), LONGEST_REFUSAL)
    after = msgspec.structs.replace(
        before,
        refused=words,
        refused_until=now + wait,
        refused_times=before.refused_times + 1,
        refused_generation=generation,
        turns=Turns.FOR_GOOD,
    )
    changed = msgspec.structs.replace(service, instances={**service.instances, uid: after})
    return msgspec.structs.replace(memory, services={**memory.services, name: changed})
