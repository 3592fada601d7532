"""What a service remembers of its instances: those that exist, and those that are gone and whose
owner makes others in their place; 3b.5c of the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from scaler.decide.attempts import MOST_GONE, outlives_its_pods
from scaler.decide.memory import InstanceMemory, ServiceMemory


def remembered_of(
    seen: ServiceMemory, after: dict[str, InstanceMemory], now: float
) -> ServiceMemory:
    """The memory of a service with the memories `after` of its instances. The same object when
    nothing changed, so that a decision without changes allocates no lasting memory."""
    if seen.instances and after.keys() != seen.instances.keys():
        for uid in _gone(seen, after, now)[:MOST_GONE]:
            after[uid] = seen.instances[uid]
    return seen if after == seen.instances else msgspec.structs.replace(seen, instances=after)


def _gone(seen: ServiceMemory, after: Mapping[str, InstanceMemory], now: float) -> list[str]:
    """Instances that are gone, and whose memory still holds. The first ones of an owner have handed
    theirs on to the new instances of that owner."""
    new = Counter([memory.owner for uid, memory in after.items() if uid not in seen.instances])
    gone = []
    for uid, memory in seen.instances.items():
        if uid in after or not outlives_its_pods(memory, now):
            continue
        if memory.owner and new[memory.owner]:
            new[memory.owner] -= 1
        else:
            gone.append(uid)
    return gone
