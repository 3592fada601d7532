"""What a service remembers of its instances: those that exist, and those that are gone and whose
owner makes others in their place; 3b.5c of the contract."""

from __future__ import annotations

import msgspec

from scaler.decide.attempts import outlives_its_pods
from scaler.decide.memory import InstanceMemory, ServiceMemory


def remembered_of(
    seen: ServiceMemory, after: dict[str, InstanceMemory], now: float
) -> ServiceMemory:
    """The memory of a service with the memories `after` of its instances. The same object when
    nothing changed, so that a decision without changes allocates no lasting memory."""
    if seen.instances and after.keys() != seen.instances.keys():
        new = sum(uid not in seen.instances for uid in after)
        left = [
            uid
            for uid in seen.instances
            if uid not in after and outlives_its_pods(seen.instances[uid], now)
        ]
        # at most 64 of one service
        after |= {uid: seen.instances[uid] for uid in left[new : new + 64]}
    return seen if after == seen.instances else msgspec.structs.replace(seen, instances=after)
