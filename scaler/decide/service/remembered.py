"""What a service remembers of its instances: those that exist, and those that are gone and whose
owner makes others in their place; 3b.5c of the contract."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from scaler.decide.attempts import outlives_its_pods
from scaler.decide.memory import InstanceMemory, ServiceMemory

MOST_GONE = 64
"""The largest number of instances of one service that are remembered though they are gone."""


def remembered_of(
    seen: ServiceMemory, after: dict[str, InstanceMemory], now: float
) -> ServiceMemory:
    """The memory of a service with the memories `after` of its instances. The same object when
    nothing changed, so that a decision without changes allocates no lasting memory."""
    if seen.instances and after.keys() != seen.instances.keys():
        new = len(after.keys() - seen.instances.keys())
        for uid in _gone(seen, after, now)[new : new + MOST_GONE]:
            after[uid] = seen.instances[uid]
    return seen if after == seen.instances else msgspec.structs.replace(seen, instances=after)


def _gone(seen: ServiceMemory, after: Container[str], now: float) -> list[str]:
    """Instances that are gone, and of which an attempt or a backoff counts on. The first of them
    hand their memory on to the new instances."""
    gone = []
    for uid, memory in seen.instances.items():
        if uid not in after and outlives_its_pods(memory, now):
            gone.append(uid)
    return gone
