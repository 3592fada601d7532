"""What one decision leaves to the next: of a service, and of each of its instances. Lost at failover, by design."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from scaler.decide.world import Service, ServiceKey


class Turns(IntEnum):
    """Whether an instance has had its turn without having been bound: then nothing is evicted for it."""

    NONE = 0
    SINCE_LAST_BIND = 1
    """No pod of any service was bound since: the scheduler may have been away."""
    FOR_GOOD = 2


class InstanceMemory(msgspec.Struct, frozen=True, gc=False):
    """What must be remembered about an instance, by its uid."""

    broken_since: float = 0.0
    bound_since: float = 0.0
    """Since when all its pods have been bound and not all run."""
    restarts: int = -1
    """Restart count seen last; -1 = never seen."""
    restarted_at: float = 0.0
    """When an increase of the restart count was first seen."""
    ran: bool = False
    """It ran since it was admitted."""
    revoked: str = ""
    """Held since its admission was revoked; the value says for whom."""
    refused: str = ""
    """The API server's words when its creation was refused; "" when it was not."""
    refused_until: float = 0.0
    refused_times: int = 0
    refused_generation: int = 0
    preempted_for: str = ""
    """Evicted; the value names the service that needs its room, `NOBODY` when fewer instances are to run."""
    turn_since: float = 0.0
    """Of a scale-up, or of one that is bound in part: since when it has been in the scheduler's hands."""
    turn_over: bool = False
    """It was not bound in its turn: other candidates go first, and what is bound of it is of no use."""
    turns: Turns = Turns.NONE
    failures: int = 0
    """Turns of a scale-up that ended without a bind; since the last bind of any pod: `failures - counted`."""
    counted: int = 0
    backoff_until: float = 0.0
    pardoned: bool = False
    """A bind of any pod has set its clock back once already."""


class ServiceMemory(msgspec.Struct, frozen=True, gc=False):
    """What must be remembered about a service, and about its instances."""

    instances: dict[str, InstanceMemory] = {}
    bound: int = 0
    """Bound pods at the last look: any rise is progress."""
    jobs: str = ""
    """Fingerprint of what is read of its jobs and its rule: a change of it ends backoff."""
    turn_since: float = 0.0
    """Since when its minimum has been in the scheduler's hands without progress; 0.0 = it is not."""
    made: bool | None = None
    """Whether all chosen instances existed when last looked at in this turn; None = not looked at."""
    failures: int = 0
    """Turns of its minimum that ended; since the last bind of any pod: `failures - counted`."""
    counted: int = 0
    ended_at: float = 0.0
    """When a turn of its minimum ended last, without progress since; 0.0 = none."""
    backoff_until: float = 0.0
    pardoned: bool = False
    short_since: float = 0.0
    """Since when something has been missing that its own running surplus would make room for."""
    held_since: float = 0.0
    """Since when its minimum has fitted nowhere; 0.0 = it is not so."""
    probe_since: float = 0.0
    """Since when its minimum is tried although it fits nowhere; 0.0 = it is not."""
    probes: int = 0
    """How often that was in vain."""
    victims: tuple[str, ...] = ()
    """Uids of what was evicted for it and is not gone yet."""
    wanted: tuple[tuple[int, float], ...] = ()
    """Instances wanted in all as far as they still count, and until when; see decide.scale."""


class Memory(msgspec.Struct, frozen=True, gc=False):
    """The successor of a decision is part of the next world; after a failover it starts empty."""

    services: dict[str, ServiceMemory] = {}
    """By service, as `str(ServiceKey)`."""
    last_bind: float = 0.0
    """`World.last_bind` at the last look."""


NEVER_SEEN = InstanceMemory()
FIRST_REFUSAL, LONGEST_REFUSAL = 1.0, 300.0
"""Seconds until a refused creation is tried again, doubled with each refusal up to the longest."""


def refuse(memory: Memory, key: ServiceKey, uid: str, words: str, *, now: float, generation: int) -> Memory:
    """Remember that the API server refused to create an instance, and when to try it again. It had its turn."""
    name = str(key)
    service = memory.services.get(name, ServiceMemory())
    before = service.instances.get(uid, NEVER_SEEN)
    times = before.refused_times + 1
    wait = min(FIRST_REFUSAL * 2.0 ** min(times - 1, 16), LONGEST_REFUSAL)
    after = msgspec.structs.replace(
        before, refused=words, refused_until=now + wait, refused_times=times, refused_generation=generation,
        turns=Turns.FOR_GOOD,
    )  # fmt: skip
    changed = msgspec.structs.replace(service, instances={**service.instances, uid: after})
    return msgspec.structs.replace(memory, services={**memory.services, name: changed})


def remembered_of(seen: ServiceMemory, after: dict[str, InstanceMemory], now: float) -> ServiceMemory:
    """What is to be remembered of a service whose instances are remembered so; the same object when nothing changed, so
    that a decision at rest allocates nothing lasting."""
    if seen.instances and after.keys() != seen.instances.keys():
        new = sum(uid not in seen.instances for uid in after)
        left = [uid for uid in seen.instances if uid not in after and _counts_on(seen.instances[uid], now)]
        after |= {uid: seen.instances[uid] for uid in left[new : new + 64]}  # a bound, of one service
    return seen if after == seen.instances else msgspec.structs.replace(seen, instances=after)


def _counts_on(memory: InstanceMemory, now: float) -> bool:
    """Whether what is remembered of an instance that is gone holds for the one that its owner makes in its place."""
    return memory.turns is not Turns.NONE or memory.backoff_until > now


def inherited(service: Service, before: Mapping[str, InstanceMemory], now: float) -> Mapping[str, InstanceMemory]:
    """An owner that makes a pod again makes another instance: what is held against the old one holds for the new."""
    if not before:
        return before
    uids = {instance.uid for instance in service.instances}
    gone = [memory for uid, memory in before.items() if uid not in uids and _counts_on(memory, now)]
    new = [i.uid for i in service.instances if i.uid not in before and not i.made_by_us and i.owner]
    if not (gone and new):
        return before
    passed_on = (
        InstanceMemory(turns=m.turns, failures=m.failures, counted=m.counted, backoff_until=m.backoff_until)
        for m in gone
    )
    return {**before, **dict(zip(new, passed_on, strict=False))}
