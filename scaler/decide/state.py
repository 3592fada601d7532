"""The state of an instance, whether it occupies a slot, and what is remembered of it: section 2 of the contract, as
pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from scaler.decide.world import (
    Instance,
    InstanceMemory,
    Memory,
    Policy,
    Service,
    ServiceKey,
    ServiceMemory,
    State,
    Turns,
)
from scaler.rules.rule import CountsFrom

NEVER_SEEN = InstanceMemory()


def state_of(instance: Instance, memory: InstanceMemory, now: float, policy: Policy) -> State:
    """The first state that applies, in the order of the contract."""
    i = instance
    if i.owner_finished:
        return State.FINISHED
    if i.owner_deleting or (i.pods == 0 and i.terminating):
        return State.TERMINATING
    if i.pods == i.gated:
        return State.HELD
    healthy = not (i.terminating or i.crashing or i.faulty) and not is_unstable(memory, now, policy)
    if i.running == i.pods == i.expected and healthy:
        return State.RUNNING
    if i.bound and (i.ended or not healthy or lacks_pods(i, now, policy) or is_of_no_use(i, memory, now, policy)):
        return State.BROKEN
    if i.bound == i.pods == i.expected:
        return State.STARTING
    return State.ADMITTED


def lacks_pods(instance: Instance, now: float, policy: Policy) -> bool:
    """Whether pods are missing that should be there. What others make may take them a moment; an owner that waits for
    the first pods to be ready takes as long as those take."""
    if instance.pods >= instance.expected:
        return False
    return instance.made_by_us or not (instance.more_to_come or now < makes_until(instance, policy))


def makes_until(instance: Instance, policy: Policy) -> float:
    """When an owner has had its time to make the rest of an instance."""
    return instance.newest + policy.minimum_timeout


def is_of_no_use(instance: Instance, memory: InstanceMemory, now: float, policy: Policy) -> bool:
    """Whether it is bound in part and its turn has ended, or was bound for too long without running."""
    if 0 < instance.bound < instance.expected and memory.turn_over:
        return True
    return memory.bound_since > 0 and now - memory.bound_since >= policy.start_timeout


def runs_undisturbed(instance: Instance, memory: InstanceMemory) -> bool:
    """Whether it runs however one counts, with nothing to remember: the short cut for what most instances do."""
    i = instance
    return (
        i.ready == i.running == i.pods == i.expected > 0
        and i.restarts == memory.restarts
        and not (i.gated or i.terminating or i.crashing or i.faulty or i.owner_deleting or i.owner_finished)
        and memory.ran
        and not (memory.restarted_at or memory.broken_since or memory.bound_since)
    )


def waits_undisturbed(instance: Instance, memory: InstanceMemory) -> bool:
    """Whether it is held however one counts, with nothing to remember: the short cut for what waits."""
    i = instance
    held = i.pods == i.gated and not (i.bound or i.terminating or i.owner_deleting or i.owner_finished)
    return held and (memory is NEVER_SEEN or memory == seen_first(i.restarts))


@lru_cache(maxsize=64)
def seen_first(restarts: int) -> InstanceMemory:
    """What is remembered of an instance of which nothing but its restarts was ever seen."""
    return InstanceMemory(restarts=restarts)


def is_unstable(memory: InstanceMemory, now: float, policy: Policy) -> bool:
    """Whether a container restarted less than `stable_after` ago, as far as we saw it happen."""
    return memory.restarted_at > 0 and now - memory.restarted_at < policy.stable_after


def counts_as_running(instance: Instance, state: State, counts_from: CountsFrom) -> bool:
    """Whether the instance meets `counts_from`; otherwise it is in flight or without a slot."""
    if state is State.RUNNING:
        return counts_from is not CountsFrom.READY or instance.ready == instance.expected
    return state is State.STARTING and counts_from is CountsFrom.BOUND


def is_in_flight(state: State, memory: InstanceMemory, now: float, policy: Policy) -> bool:
    """Whether an instance that does not count as running occupies a slot all the same."""
    if state is State.BROKEN:
        return now - memory.broken_since < policy.broken_grace
    return state in (State.ADMITTED, State.STARTING, State.RUNNING)


def observe_restarts(instance: Instance, memory: InstanceMemory, now: float) -> InstanceMemory:
    """Notice an increase of the restart count. The first sight is no restart: after a failover we know of none."""
    if instance.restarts == memory.restarts:
        return memory
    restarted_at = now if 0 <= memory.restarts < instance.restarts else memory.restarted_at
    return msgspec.structs.replace(memory, restarts=instance.restarts, restarted_at=restarted_at)


def observe_bound(instance: Instance, memory: InstanceMemory, now: float) -> InstanceMemory:
    """Since when all its pods have been bound and not all run, or its owner has waited for the first ones."""
    i = instance
    waits = i.bound > 0 and (i.more_to_come or i.bound == i.pods == i.expected > i.running)
    since = (memory.bound_since or now) if waits else 0.0
    return memory if since == memory.bound_since else msgspec.structs.replace(memory, bound_since=since)


def observe_state(
    instance: Instance, state: State, memory: InstanceMemory, now: float, policy: Policy
) -> InstanceMemory:
    """Keep first-seen times: since when it is broken; what was held against an instance ends when it runs."""
    if state is State.RUNNING:
        after = InstanceMemory(restarts=memory.restarts, ran=True)
        return memory if after == memory else after
    broken_since = (memory.broken_since or now) if state is State.BROKEN else 0.0
    turns = memory.turns
    if state is State.BROKEN and _was_never_of_use(instance, memory, now, policy):
        turns = Turns.FOR_GOOD
    released = state not in (State.HELD, State.TERMINATING, State.FINISHED)
    after = msgspec.structs.replace(
        memory,
        broken_since=broken_since,
        turns=turns,
        ran=memory.ran and (released or instance.pods > 0),
        turn_over=memory.turn_over and state is not State.STARTING,
        revoked="" if released else memory.revoked,
        refused="" if released else memory.refused,
        refused_times=0 if released else memory.refused_times,
        refused_until=0.0 if released else memory.refused_until,
        preempted_for=memory.preempted_for if state is State.TERMINATING else "",
    )
    return memory if after == memory else after


def still_refused(memory: InstanceMemory, before: InstanceMemory) -> InstanceMemory:
    """The same, with what was remembered of refusals: pods that are assumed do not prove that they were made."""
    return msgspec.structs.replace(
        memory, refused=before.refused, refused_times=before.refused_times, refused_until=before.refused_until
    )


def _was_never_of_use(instance: Instance, memory: InstanceMemory, now: float, policy: Policy) -> bool:
    """It had its turn: nobody is evicted for it again."""
    if is_of_no_use(instance, memory, now, policy):
        return True
    lost_slot = memory.broken_since > 0 and now - memory.broken_since >= policy.broken_grace
    return lost_slot and not memory.ran


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
        after |= {uid: seen.instances[uid] for uid in left[new : new + _MOST_LEFT]}
    return seen if after == seen.instances else msgspec.structs.replace(seen, instances=after)


_MOST_LEFT = 64
"""Instances that are gone and still remembered, of one service."""


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
