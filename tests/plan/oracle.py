"""A second opinion on the decision, from the contract alone: slow, declarative, no code shared with the planner.

Each function is a sentence of the contract, so where planner and oracle differ the sentence says who is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from scaler.plan.model import Instance, InstanceMemory, Reason, Snapshot, State, Warning
from scaler.rules.rule import CountsFrom, Rule


@dataclass(frozen=True)
class Judgement:
    target_index: int = -1
    complete: bool = False
    states: dict[str, State] = field(default_factory=dict)
    admit: frozenset[str] = frozenset()
    complete_pods: frozenset[str] = frozenset()
    """Instances with live pods that get their missing or gated members."""
    reclaim: frozenset[str] = frozenset()
    tidy: frozenset[str] = frozenset()
    """Held instances whose PodGroup goes, because the scheduler would keep room for it."""
    held: dict[str, Reason] = field(default_factory=dict)
    """Why each held instance that is not admitted now is held."""


def judge(snapshot: Snapshot) -> Judgement:
    states = {one.uid: state(one, snapshot) for one in snapshot.instances}
    held = [one for one in snapshot.instances if states[one.uid] is State.HELD]
    if not snapshot.key.rule:
        return without_rule(snapshot, states)
    if snapshot.rule is None:
        return Judgement(states=states, held={one.uid: barred(one, snapshot) or Reason.RULE_MISSING for one in held})
    named = (one.group for one in snapshot.instances if one.group is not None)
    groups = sorted({*named, *snapshot.rule.groups})
    running = {group: count(snapshot, group, counts_as_running) for group in groups}
    flying = {group: count(snapshot, group, is_in_flight) for group in groups}
    live = {group: count(snapshot, group, is_live) for group in groups}
    index, complete = target_of(snapshot.rule, running, live)
    if snapshot.options.paused:
        return Judgement(
            index, complete, states, held={one.uid: barred(one, snapshot) or Reason.PAUSED for one in held}
        )
    target = {group: snapshot.rule.ratios[index].counts.get(group, 0) for group in groups}
    room = {group: target[group] - running[group] - flying[group] for group in groups}
    missing = snapshot.policy.reclaim and any(running[group] < target[group] for group in groups)
    healed = {group: heal(snapshot, group, room[group]) for group in groups}
    admit = frozenset(
        uid
        for group in groups
        for uid in oldest(held, group, snapshot)[: max(0, room[group] - rejoining(healed[group], snapshot))]
    )
    occupied = {group: running[group] + flying[group] for group in groups}
    return Judgement(
        index,
        complete,
        states,
        admit=admit,
        complete_pods=frozenset(one.uid for group in groups for one in healed[group]),
        reclaim=frozenset(uid for group in groups for uid in surplus(snapshot, group, room[group], missing=missing)),
        tidy=frozenset(one.uid for one in held if one.leftovers and one.uid not in admit and not one.label_problem),
        held={
            one.uid: barred(one, snapshot) or waiting(one, snapshot, occupied, held)
            for one in held
            if one.uid not in admit
        },
    )


def without_rule(snapshot: Snapshot, states: dict[str, State]) -> Judgement:
    """Jobs that name no rule have nothing to wait for: created whole at once, healed like any other."""
    barriers = {one.uid: barred(one, snapshot) for one in snapshot.instances if states[one.uid] is State.HELD}
    return Judgement(
        complete=True,
        states=states,
        admit=frozenset(uid for uid, barrier in barriers.items() if barrier is None),
        complete_pods=frozenset(one.uid for one in snapshot.instances if is_partial(one, snapshot)),
        held={uid: barrier for uid, barrier in barriers.items() if barrier is not None},
    )


def target_of(rule: Rule, running: dict[str, int], live: dict[str, int]) -> tuple[int, bool]:
    """From the last ratio upward, the first with a group below its number; those beyond the live jobs are left out."""
    indexes = range(len(rule.ratios))
    attainable = [i for i in indexes if all(n <= live.get(g, 0) for g, n in rule.ratios[i].counts.items())]
    unsatisfied = [i for i in attainable if any(running.get(g, 0) < n for g, n in rule.ratios[i].counts.items())]
    if not attainable:
        return len(rule.ratios) - 1, False
    return (max(unsatisfied), False) if unsatisfied else (min(attainable), True)


def state(one: Instance, snapshot: Snapshot) -> State:
    return next(state for state, holds in STATES.items() if holds(one, snapshot))


def restarted_lately(one: Instance, snapshot: Snapshot) -> bool:
    memory = remembered(one, snapshot)
    seen_before = memory.restarts >= 0 and one.restarts > memory.restarts
    return seen_before or (
        memory.restarted_at > 0 and snapshot.now - memory.restarted_at < snapshot.policy.stable_after
    )


def troubled(one: Instance, snapshot: Snapshot) -> bool:
    return bool(one.crashing or one.faulty or one.ended or one.terminating) or restarted_lately(one, snapshot)


STATES = {
    State.FINISHED: lambda one, _: one.owner_finished,
    State.TERMINATING: lambda one, _: one.owner_deleting or (one.pods == 0 and one.terminating > 0),
    State.HELD: lambda one, _: one.pods == one.gated,
    State.RUNNING: lambda one, s: one.pods == one.running == one.expected and not troubled(one, s),
    State.BROKEN: lambda one, s: one.bound > 0 and (one.pods < one.expected or troubled(one, s)),
    State.STARTING: lambda one, _: one.pods == one.bound == one.expected,
    State.ADMITTED: lambda *_: True,
}


def remembered(one: Instance, snapshot: Snapshot) -> InstanceMemory:
    return snapshot.memory.instances.get(one.uid, InstanceMemory())


def count(snapshot: Snapshot, group: str, what: Callable[[Instance, Snapshot], bool]) -> int:
    return sum(what(one, snapshot) for one in snapshot.instances if one.group == group and not one.label_problem)


def counts_as_running(one: Instance, snapshot: Snapshot) -> bool:
    found = state(one, snapshot)
    if snapshot.options.counts_from is CountsFrom.BOUND:
        return found in (State.RUNNING, State.STARTING)
    ready = one.ready >= one.expected or snapshot.options.counts_from is not CountsFrom.READY
    return found is State.RUNNING and ready


def is_in_flight(one: Instance, snapshot: Snapshot) -> bool:
    found = state(one, snapshot)
    since = remembered(one, snapshot).broken_since or snapshot.now
    in_grace = found is State.BROKEN and snapshot.now - since < snapshot.policy.broken_grace
    occupies = in_grace or found in (State.ADMITTED, State.STARTING, State.RUNNING)
    return occupies and not counts_as_running(one, snapshot)


def is_live(one: Instance, _: Snapshot) -> bool:
    return not one.owner_deleting and not one.owner_finished


def barred(one: Instance, snapshot: Snapshot) -> Reason | None:
    """What keeps this instance from being admitted whatever the counts are."""
    problem = snapshot.problem.kind if snapshot.problem else Warning.RULE_MISSING
    memory = remembered(one, snapshot)
    refused = memory.refused and snapshot.now < memory.refused_until and one.generation == memory.refused_generation
    causes = {
        one.label_problem: one.label_problem is not None,
        Reason(problem.value): snapshot.rule is None and snapshot.key.rule != "",
        Reason.GROUP_UNKNOWN: snapshot.rule is not None and one.group not in snapshot.rule.groups,
        Reason.PAUSED: snapshot.options.paused and snapshot.rule is not None,
        Reason.JOB_INVALID: bool(one.faults),
        Reason.NAME_TAKEN: bool(one.name_taken),
        Reason.CREATE_REFUSED: bool(refused),
    }
    return next((reason for reason, applies in causes.items() if applies), None)


def waiting(one: Instance, snapshot: Snapshot, occupied: dict[str, int], held: list[Instance]) -> Reason:
    """Above the largest ratio, counting those before it in the queue; else it waits for its turn."""
    assert snapshot.rule is not None
    group = one.group or ""
    queue = oldest(held, group, snapshot)
    if occupied[group] + queue.index(one.uid) >= snapshot.rule.ratios[0].counts.get(group, 0):
        return Reason.NOT_IN_RATIO
    return Reason.RECLAIMED if remembered(one, snapshot).reclaimed else Reason.WAITING_FOR_RATIO


def heal(snapshot: Snapshot, group: str, room: int) -> list[Instance]:
    """Missing members come back while running + in flight stays within the target, counting the instance itself."""
    healed: list[Instance] = []
    for one in sorted((one for one in snapshot.instances if one.group == group), key=age):
        without_slot = has_no_slot(one, snapshot)
        if is_partial(one, snapshot) and room - rejoining(healed, snapshot) - without_slot >= 0:
            healed.append(one)
    return healed


def rejoining(healed: list[Instance], snapshot: Snapshot) -> int:
    return sum(has_no_slot(one, snapshot) for one in healed)


def has_no_slot(one: Instance, snapshot: Snapshot) -> bool:
    return not is_in_flight(one, snapshot) and not counts_as_running(one, snapshot)


def is_partial(one: Instance, snapshot: Snapshot) -> bool:
    """It has live pods, and lacks members or what belongs to them (those still terminating are not missing yet)."""
    lacks = one.stripped or one.gated > 0 or one.pods + one.terminating < one.expected
    alive = state(one, snapshot) not in (State.HELD, State.TERMINATING, State.FINISHED)
    return lacks and alive and not one.label_problem and not one.faults


def surplus(snapshot: Snapshot, group: str, room: int, *, missing: bool) -> list[str]:
    """Unbound surplus goes, newest first, when something is missing; half-made surplus goes always (S2)."""
    unbound = [
        one
        for one in snapshot.instances
        if one.group == group and not one.label_problem and state(one, snapshot) is State.ADMITTED and one.bound == 0
    ]
    newest = sorted(unbound, key=lambda one: (one.admitted_at, age(one)), reverse=True)
    return [one.uid for one in newest if missing or is_partial(one, snapshot)][: max(0, -room)]


def age(one: Instance) -> tuple[object, ...]:
    """Oldest job first, then natural name order: p2 before p10."""
    words = re.split(r"(\d+)", one.name)
    return one.created, [(1, 0, word) if index % 2 == 0 else (0, int(word), "") for index, word in enumerate(words)]


def oldest(held: list[Instance], group: str, snapshot: Snapshot) -> list[str]:
    return [one.uid for one in sorted(held, key=age) if one.group == group and not barred(one, snapshot)]
