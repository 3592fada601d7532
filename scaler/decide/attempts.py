"""Turns and backoff: section 3b.5 of the contract. The clock of a turn runs while instances are in
hands or bound in part. The last bind of any pod shows whether the scheduler works. Must not look at
nodes or other services."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial

from scaler.decide.decision import State
from scaler.decide.draft import Draft
from scaler.decide.memory import ServiceMemory, TurnMemory, Turns
from scaler.decide.world import Policy, Reason, World

LONGEST_WAIT = 3600.0
"""Seconds: the longest time between two probes."""


def observe(draft: Draft, world: World, node_back_at: float) -> None:
    """Update the memory after a bind of any pod, progress, changed jobs, or a node's return.
    `node_back_at`: when a node that the service may use last appeared or returned; 0.0 = never."""
    demand = draft.demand
    if world.last_bind > world.memory.last_bind and heeds_binds(draft):
        _pardon(draft, world)
    if demand.bound > draft.memory.bound:
        draft.remember(
            turn_since=0.0, made=None, failures=0, counted=0, ended_at=0.0, backoff_until=0.0
        )
        for member in demand.members:
            if not member.instance.bound and draft.memory_of(member.uid).turn_over:
                draft.remember_of(member.uid, turn_over=False)
    if demand.bound != draft.memory.bound:
        draft.remember(bound=demand.bound)
    if demand.jobs != draft.memory.jobs:
        if draft.memory.jobs:
            _forget_turns(draft)
        draft.remember(jobs=demand.jobs)
    # the node ends the backoff after an earlier turn
    for remember, clock in _clocks(draft) if node_back_at else ():
        if clock.backoff_until and node_back_at > clock.backoff_until - _pause(
            clock.failures, world
        ):
            remember(backoff_until=0.0)


def _clocks(draft: Draft) -> Iterator[tuple[Callable[..., None], TurnMemory]]:
    yield draft.remember, draft.memory
    for member in draft.demand.members:
        yield partial(draft.remember_of, member.uid), draft.memory_of(member.uid)


def heeds_binds(draft: Draft) -> bool:
    """Whether a bind of any pod in the cluster may change the turns or the backoff of the
    service."""
    return bool(draft.demand.has_turns or draft.memory.turn_since or draft.memory.failures)


def _pardon(draft: Draft, world: World) -> None:
    """Before this bind the scheduler may have been away: turns without any bind in the cluster are
    taken back, once for each service and instance until it serves or its jobs change. `turns`
    stays, so that evictions are bounded."""
    before = draft.memory
    waited = [
        m.uid for m in draft.demand.members if draft.memory_of(m.uid).turns is Turns.SINCE_LAST_BIND
    ]
    for remember, clock in _clocks(draft):
        # The turn is over by the clock, and before the new bind no pod of any service was bound in
        # the turn.
        late = is_over(clock, world) and world.memory.last_bind <= clock.turn_since
        failed = clock.failures > clock.counted
        if not clock.pardoned and (late or failed):
            turn_since = world.now if late else clock.turn_since
            backoff_until = 0.0 if failed else clock.backoff_until
            remember(
                turn_since=turn_since,
                failures=clock.counted,
                backoff_until=backoff_until,
                pardoned=True,
            )
        elif failed:
            remember(counted=clock.failures)
    if before.failures and not draft.memory.failures:
        draft.remember(ended_at=0.0)
    if waited and not before.pardoned:
        draft.remember(pardoned=True)
    for uid in waited:
        draft.remember_of(
            uid, turns=Turns.FOR_GOOD, turn_over=draft.memory_of(uid).turn_over and before.pardoned
        )


def _forget_turns(draft: Draft) -> None:
    """The jobs or the rule changed: forget turns and backoff, as for a new service."""
    draft.remember(backoff_until=0.0, pardoned=False)
    for uid, memory in draft.memory.instances.items():
        if memory.turns or memory.backoff_until or memory.turn_over:
            bound = any(m.uid == uid and m.instance.bound for m in draft.demand.members)
            draft.remember_of(
                uid, turns=Turns.NONE, backoff_until=0.0, turn_over=memory.turn_over and bound
            )


def is_over(memory: TurnMemory, world: World) -> bool:
    """Whether the turn is over by the clock: no progress within `minimum_timeout`."""
    return memory.turn_since > 0 and world.now - memory.turn_since >= world.policy.minimum_timeout


def begins_anew(memory: TurnMemory, world: World) -> bool:
    """Whether the clock of a turn without progress may start again: after a bind of any pod, or
    after `backoff_max`."""
    return (
        world.last_bind > memory.turn_since
        or world.now - memory.turn_since >= world.policy.backoff_max
    )


def ended(memory: TurnMemory, world: World) -> dict[str, float]:
    """The changes of the memory when a turn ends: one more failure, and backoff."""
    failures = memory.failures + 1
    return {
        "turn_since": 0.0,
        "failures": failures,
        "backoff_until": world.now + _pause(failures, world),
    }


def had_turn(draft: Draft, uids: Iterable[str]) -> None:
    """Remember that these instances had their turn: no instance is evicted for them, other
    candidates go first."""
    for uid in uids:
        draft.remember_of(uid, turns=max(draft.memory_of(uid).turns, Turns.SINCE_LAST_BIND))


def _pause(failures: int, world: World) -> float:
    return min(
        world.policy.backoff * 2.0 ** min(max(0, failures - 1), 16), world.policy.backoff_max
    )


def in_backoff(memory: TurnMemory, world: World) -> bool:
    return world.now < memory.backoff_until


def not_scheduled(memory: TurnMemory, reason: Reason) -> tuple[Reason, tuple[str, ...]]:
    """The reason after a turn that ended, with words: how many turns ended, and when the next one
    begins."""
    until = datetime.fromtimestamp(memory.backoff_until, UTC).strftime("%H:%M:%S UTC")
    times = "once" if memory.failures == 1 else f"{memory.failures} times"
    return reason, (f"not bound in its turn, {times} so far; tried again at {until}",)


def settle(draft: Draft, world: World) -> None:
    """The last step: clocks run only for instances in hands or bound in part; a service that serves
    forgets turns."""
    demand = draft.demand
    memory = draft.memory
    if demand.serves:
        short_since = memory.short_since if draft.short else 0.0
        draft.memory = ServiceMemory(
            memory.instances,
            memory.bound,
            memory.jobs,
            short_since=short_since,
            wanted=memory.wanted,
        )
    elif not demand.lacks_minimum:
        draft.remember(
            turn_since=0.0, made=None, short_since=0.0, victims=(), held_since=0.0, probe_since=0.0
        )
    if not draft.memory.turn_since and draft.memory.made is not None:
        draft.remember(made=None)
    if demand.has_turns or demand.hands or demand.irrevocable or draft.has_changes:
        for member in demand.members:
            uid = member.uid
            one = draft.memory_of(member.uid)
            of_minimum = uid in draft.chosen
            with_scheduler = (
                (member.in_hands and uid not in draft.revoked)
                or member.in_part
                or uid in draft.admitted
            )
            if one.turn_since and (of_minimum or not with_scheduler):
                draft.remember_of(uid, turn_since=0.0)
            elif with_scheduler and not of_minimum and not one.turn_since and not one.turn_over:
                draft.remember_of(uid, turn_since=world.now)
            if demand.serves and one.turns and member.state is not State.BROKEN:
                draft.remember_of(uid, turns=Turns.NONE)
    memory = draft.memory
    waits = memory.failures or memory.backoff_until or memory.turn_since or demand.jobs
    if memory.jobs and not waits and not draft.has_changes and not demand.has_turns:
        draft.remember(jobs="")


def moments(draft: Draft, world: World) -> Iterator[float]:
    """The times at which the decision may change by time alone; 0.0 = never, times in the past
    included."""
    policy = world.policy
    memory = draft.memory
    uids = memory.instances if draft.demand.has_turns or draft.has_changes else ()
    for clock in (memory, *map(draft.memory_of, uids)):
        if clock.turn_since:
            yield clock.turn_since + policy.minimum_timeout
            yield clock.turn_since + policy.backoff_max
        yield clock.backoff_until
    if memory.short_since:
        yield memory.short_since + policy.trade_after
    if memory.probe_since:
        yield memory.probe_since + policy.minimum_timeout
    elif memory.held_since:
        yield memory.held_since + probe_after(memory, policy)


def probe_after(memory: ServiceMemory, policy: Policy) -> float:
    """Seconds that a minimum which fits nowhere waits for its next probe."""
    return min(policy.fit_patience * 2.0 ** min(memory.probes, 16), LONGEST_WAIT)


def is_probing(memory: ServiceMemory, world: World) -> bool:
    return memory.probe_since > 0 and world.now - memory.probe_since < world.policy.minimum_timeout
