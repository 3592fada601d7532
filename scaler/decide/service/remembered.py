"""What a service remembers of its instances: those that exist, and those that are gone and whose
owner makes others in their place; 3b.5c of the contract."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scaler.decide.memory import InstanceMemory, ServiceMemory, Turns
from scaler.decide.world import Service


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
            if uid not in after and _counts_on(seen.instances[uid], now)
        ]
        # at most 64 of one service
        after |= {uid: seen.instances[uid] for uid in left[new : new + 64]}
    return seen if after == seen.instances else msgspec.structs.replace(seen, instances=after)


def _counts_on(memory: InstanceMemory, now: float) -> bool:
    """Whether the memory of an instance that is gone holds for the instance that its owner makes in
    its place."""
    return memory.turns is not Turns.NONE or memory.backoff_until > now


def inherited(
    service: Service, before: Mapping[str, InstanceMemory], now: float
) -> Mapping[str, InstanceMemory]:
    """The memory of instances, where new instances of an owner inherit turns and backoff of
    instances that are gone."""
    if not before:
        return before
    uids = {instance.uid for instance in service.instances}
    gone = [memory for uid, memory in before.items() if uid not in uids and _counts_on(memory, now)]
    new = [i.uid for i in service.instances if i.uid not in before and not i.made_by_us and i.owner]
    if not (gone and new):
        return before
    passed_on = (
        InstanceMemory(
            turns=m.turns, failures=m.failures, counted=m.counted, backoff_until=m.backoff_until
        )
        for m in gone
    )
    return {**before, **dict(zip(new, passed_on, strict=False))}
