"""The state of an instance and whether it occupies a slot: section 2 of the contract, as pure functions."""

from __future__ import annotations

import msgspec

from scaler.decide.world import Instance, InstanceMemory, Memory, Policy, State
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
    if i.bound and (i.ended or has_lost_pods(i, memory) or not healthy):
        return State.BROKEN
    if i.bound == i.pods == i.expected:
        return State.STARTING
    return State.ADMITTED


def has_lost_pods(instance: Instance, memory: InstanceMemory) -> bool:
    """Whether pods are missing that were there. Others may make the rest only when the first ones run (a
    LeaderWorkerSet's workers after a leader that loads its model): those are still to come."""
    return instance.pods < instance.expected and (instance.made_by_us or memory.whole)


def runs_undisturbed(instance: Instance, memory: InstanceMemory) -> bool:
    """Whether it runs however one counts, with nothing to remember: the short cut for what most instances do."""
    i = instance
    return (
        i.ready == i.running == i.pods == i.expected > 0
        and i.restarts == memory.restarts
        and not (i.gated or i.terminating or i.crashing or i.faulty or i.owner_deleting or i.owner_finished)
        and not (memory.restarted_at or memory.broken_since or memory.revoked or memory.refused)
        and (i.made_by_us or memory.whole)
    )


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


def observe_state(instance: Instance, state: State, memory: InstanceMemory, now: float) -> InstanceMemory:
    """Keep first-seen times: since when it is broken; what was held against an instance ends when it has pods again."""
    broken_since = (memory.broken_since or now) if state is State.BROKEN else 0.0
    has_pods = state not in (State.HELD, State.TERMINATING)
    forgets = has_pods and bool(memory.revoked or memory.refused)
    whole = not instance.made_by_us and has_pods and (memory.whole or instance.pods == instance.expected)
    if broken_since == memory.broken_since and whole == memory.whole and not forgets:
        return memory
    if forgets:
        return InstanceMemory(broken_since, memory.restarts, memory.restarted_at, whole=whole)
    return msgspec.structs.replace(memory, broken_since=broken_since, whole=whole)


FIRST_REFUSAL, LONGEST_REFUSAL = 1.0, 300.0
"""Seconds until a refused creation is tried again, doubled with each refusal up to the longest."""


def refuse(memory: Memory, uid: str, words: str, *, now: float, generation: int) -> Memory:
    """Remember that the API server refused to create an instance, and when to try it again."""
    before = memory.instances.get(uid, NEVER_SEEN)
    times = before.refused_times + 1
    wait = min(FIRST_REFUSAL * 2.0 ** min(times - 1, 16), LONGEST_REFUSAL)
    after = msgspec.structs.replace(
        before, refused=words, refused_until=now + wait, refused_times=times, refused_generation=generation
    )
    return Memory({**memory.instances, uid: after})
