"""A second opinion on the decision, from the contract alone: slow, declarative, no code shared with the planner.

Each function is a sentence of the contract, so where planner and oracle differ the sentence says who is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from scaler.decide.world import Instance, InstanceMemory, Reason, Snapshot, State, Warning
from scaler.rules.rule import CountsFrom, Rule


@dataclass(frozen=True)
class Judgement:
    target_index: int = -1
    complete: bool = False
    states: dict[str, State] = field(default_factory=dict)
    admit: frozenset[str] = frozenset()
    complete_pods: frozenset[str] = frozenset()
    """Instances with live pods that get their missing or gated members."""
    revoke: frozenset[str] = frozenset()
    tidy: frozenset[str] = frozenset()
    """Held instances whose PodGroup goes, because the scheduler would keep room for it."""
    held: dict[str, Reason] = field(default_factory=dict)
    """Why each held instance that is not admitted now is held."""
    unaffordable: frozenset[str] = frozenset()
    """Surplus that stays because its job has too few restarts left."""
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per group: running and in flight."""


def judge(snapshot: Snapshot) -> Judgement:
    states = {one.uid: state(one, snapshot) for one in snapshot.instances}
    held = [one for one in snapshot.instances if states[one.uid] is State.HELD]
    if not snapshot.key.rule:
        return without_rule(snapshot, states)
    if snapshot.rule is None:
        return Judgement(states=states, held={one.uid: barred(one, snapshot) or Reason.RULE_MISSING for one in held})
    named = (one.group for one in snapshot.instances if one.group is not None)
    groups = sorted({*named, *snapshot.rule.groups})
    run = {group: members(snapshot, group, counts_as_running) for group in groups}
    placed = {group: run[group] + members(snapshot, group, is_in_flight) for group in groups}
    live = {group: len(members(snapshot, group, is_live)) - passing(snapshot, group) for group in groups}
    index, complete = target_of(snapshot.rule, {group: len(run[group]) for group in groups}, live)
    if snapshot.options.paused:
        return Judgement(
            index, complete, states, held={one.uid: barred(one, snapshot) or Reason.PAUSED for one in held}
        )
    target = {group: snapshot.rule.ratios[index].counts.get(group, 0) for group in groups}
    occupied = {group: counted(placed[group], target[group], snapshot) for group in groups}
    running = {group: min(len(run[group]), occupied[group]) for group in groups}
    missing = snapshot.policy.revoke and any(running[group] < target[group] for group in groups)
    healed = {group: heal(snapshot, group, placed[group], target[group]) for group in groups}
    seated = {group: placed[group] + [one for one in healed[group] if has_no_slot(one, snapshot)] for group in groups}
    given = {group: give_places(held, group, snapshot, seated[group], target[group]) for group in groups}
    chosen = [one for group in groups for one in given[group]]
    admit = frozenset(one.uid for one in chosen if is_ready_to_go(one))
    awaited = frozenset(one.uid for one in chosen) - admit
    back = [surplus(snapshot, group, placed[group], target[group], missing=missing) for group in groups]
    return Judgement(
        index,
        complete,
        states,
        admit=admit,
        complete_pods=frozenset(one.uid for group in groups for one in healed[group]),
        revoke=frozenset(one.uid for going in back for one in going if affordable(one, snapshot)),
        unaffordable=frozenset(one.uid for going in back for one in going if not affordable(one, snapshot)),
        tidy=frozenset(
            one.uid
            for one in held
            if one.leftovers and one.made_by_us and one.uid not in admit and not one.label_problem
        ),
        held={
            one.uid: Reason.WAITING_FOR_SCHEDULER
            if one.uid in awaited
            else barred(one, snapshot) or waiting(one, snapshot, seated, held, given)
            for one in held
            if one.uid not in admit
        },
        counts={group: (running[group], occupied[group] - running[group]) for group in groups},
    )


def members(snapshot: Snapshot, group: str, what: Callable[[Instance, Snapshot], bool]) -> list[Instance]:
    return [one for one in snapshot.instances if one.group == group and not one.label_problem and what(one, snapshot)]


def is_passing(one: Instance, snapshot: Snapshot) -> bool:
    return one.outdated and one.owner != "" and counts_as_running(one, snapshot)


def pairs(placed: list[Instance], snapshot: Snapshot) -> int:
    """How many of the newest can stand beside a running outdated one of their owner, one beside each."""
    outdated = Counter(one.owner for one in placed if is_passing(one, snapshot))
    newest = Counter(one.owner for one in placed if not one.outdated)
    return (outdated & newest).total()


def counted(placed: list[Instance], target: int, snapshot: Snapshot) -> int:
    """A pair counts once, as far as that keeps the group within its target."""
    return sorted((len(placed) - pairs(placed, snapshot), target, len(placed)))[1]


def passing(snapshot: Snapshot, group: str) -> int:
    """Live instances beyond what owners in the middle of a rollout are told to have; without that, one of each pair."""
    alive = members(snapshot, group, is_live)
    makers = {one.owner for one in members(snapshot, group, is_passing)}
    return sum(of_one_maker(snapshot, group, [one for one in alive if one.owner == maker], maker) for maker in makers)


def of_one_maker(snapshot: Snapshot, group: str, alive: list[Instance], maker: str) -> int:
    outdated = sum(one.owner == maker for one in members(snapshot, group, is_passing))
    wanted = max(one.wanted for one in members(snapshot, group, lambda one, _: one.owner == maker))
    return min(outdated, sum(not one.outdated for one in alive), max(0, len(alive) - wanted))


def may_join(one: Instance, placed: list[Instance], target: int, snapshot: Snapshot) -> bool:
    """Within the target, or beside a running outdated one of its owner and within it when those are gone."""
    after = [*placed, one]
    partners = not one.outdated and any(is_passing(other, snapshot) and other.owner == one.owner for other in placed)
    slots = len(after) - pairs(after, snapshot)
    left = [other for other in after if not is_passing(other, snapshot)]
    if partners:
        return len(left) <= target and slots <= max(target, len(placed) - pairs(placed, snapshot))
    return len(after) <= target


def may_stay(one: Instance, placed: list[Instance], target: int, snapshot: Snapshot) -> bool:
    """Within the target, a pair once; or beside a running outdated one, so that nothing would be gained without it."""
    slots = len(placed) - pairs(placed, snapshot)
    without = [other for other in placed if other is not one]
    return slots <= target or slots == len(without) - pairs(without, snapshot)


def give_places(
    held: list[Instance], group: str, snapshot: Snapshot, placed: list[Instance], target: int
) -> list[Instance]:
    """In order, those that can go at once first; a held one whose pods are yet to come keeps what is left."""
    queue = oldest(held, group, snapshot)
    given: list[Instance] = []
    for one in [*filter(is_ready_to_go, queue), *(one for one in queue if not is_ready_to_go(one))]:
        if may_join(one, [*placed, *given], target, snapshot):
            given.append(one)
    return given


def is_ready_to_go(one: Instance) -> bool:
    return one.made_by_us or one.gated > 0


def affordable(one: Instance, snapshot: Snapshot) -> bool:
    if one.budget is None:
        return True
    half = max(one.budget.limit / 2, 2)
    reserve = half if snapshot.policy.restart_reserve == -1 else snapshot.policy.restart_reserve
    return one.budget.limit - one.budget.used > reserve


def without_rule(snapshot: Snapshot, states: dict[str, State]) -> Judgement:
    """Jobs that name no rule have nothing to wait for: ours are created whole at once, and healed like any other."""
    barriers = {
        one.uid: barred(one, snapshot) if one.made_by_us else one.label_problem or Reason.NOT_SERVED
        for one in snapshot.instances
        if states[one.uid] is State.HELD
    }
    return Judgement(
        complete=True,
        states=states,
        admit=frozenset(uid for uid, barrier in barriers.items() if barrier is None),
        complete_pods=frozenset(one.uid for one in snapshot.instances if one.made_by_us and is_partial(one, snapshot)),
        held={uid: barrier for uid, barrier in barriers.items() if barrier is not None},
    )


def target_of(rule: Rule, running: dict[str, int], live: dict[str, int]) -> tuple[int, bool]:
    """From the last ratio upward, the first with a group below its number; those beyond the live jobs are left out."""
    indexes = range(len(rule.ratios))
    attainable = [i for i in indexes if all(n <= live.get(g, 0) for g, n in rule.ratios[i].counts.items())]
    unsatisfied = [i for i in attainable if any(running.get(g, 0) < n for g, n in rule.ratios[i].counts.items())]
    if not attainable:
        last = rule.ratios[-1].counts
        return len(rule.ratios) - 1, all(running.get(g, 0) >= n for g, n in last.items())
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
    State.BROKEN: lambda one, s: one.bound > 0 and (lost_some(one, s) or troubled(one, s)),
    State.STARTING: lambda one, _: one.pods == one.bound == one.expected,
    State.ADMITTED: lambda *_: True,
}


def lost_some(one: Instance, snapshot: Snapshot) -> bool:
    """Others may make the rest later: only what was there once is lost."""
    return one.pods < one.expected and (one.made_by_us or remembered(one, snapshot).whole)


def remembered(one: Instance, snapshot: Snapshot) -> InstanceMemory:
    return snapshot.memory.instances.get(one.uid, InstanceMemory())


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


def waiting(
    one: Instance,
    snapshot: Snapshot,
    seated: dict[str, list[Instance]],
    held: list[Instance],
    given: dict[str, list[Instance]],
) -> Reason:
    """Above the largest ratio, counting those before it in the queue; else it waits for its turn."""
    assert snapshot.rule is not None
    group = one.group or ""
    places = [*seated[group], *given[group]]
    queue = [other for other in oldest(held, group, snapshot) if other not in given[group]]
    if len(places) - pairs(places, snapshot) + queue.index(one) >= snapshot.rule.ratios[0].counts.get(group, 0):
        return Reason.NOT_IN_RATIO
    return Reason.REVOKEED if remembered(one, snapshot).revoked else Reason.WAITING_FOR_RATIO


def heal(snapshot: Snapshot, group: str, placed: list[Instance], target: int) -> list[Instance]:
    """Missing members come back while running + in flight stays within the target, counting the instance itself."""
    healed: list[Instance] = []
    for one in sorted((one for one in snapshot.instances if one.group == group), key=age):
        seated = [*placed, *(other for other in healed if has_no_slot(other, snapshot))]
        joins = has_no_slot(one, snapshot)
        may = may_join(one, seated, target, snapshot) if joins else may_stay(one, seated, target, snapshot)
        if may and is_partial(one, snapshot):
            healed.append(one)
    return healed


def has_no_slot(one: Instance, snapshot: Snapshot) -> bool:
    return not is_in_flight(one, snapshot) and not counts_as_running(one, snapshot)


def is_partial(one: Instance, snapshot: Snapshot) -> bool:
    """It has live pods, and lacks members or what belongs to them (those still terminating are not missing yet). What
    others make can only be released."""
    lacks = (
        one.gated > 0
        or one.misplaced
        or (one.made_by_us and (one.stripped or one.pods + one.terminating < one.expected))
    )
    alive = state(one, snapshot) not in (State.HELD, State.TERMINATING, State.FINISHED)
    return lacks and alive and not one.label_problem and not one.faults


def surplus(snapshot: Snapshot, group: str, placed: list[Instance], target: int, *, missing: bool) -> list[Instance]:
    """Unbound surplus goes, newest first, when something is missing; half-made surplus goes always (S2). Those that
    cannot pay for it only say so, where the others are not enough; one of a pair makes no room."""
    unbound = [
        one
        for one in snapshot.instances
        if one.group == group and not one.label_problem and state(one, snapshot) is State.ADMITTED and one.bound == 0
    ]
    newest = sorted(unbound, key=lambda one: (one.admitted_at, age(one)), reverse=True)
    going: list[Instance] = []
    for one in sorted(newest, key=lambda one: not affordable(one, snapshot)):
        before = [other for other in placed if other not in going]
        after = [other for other in before if other is not one]
        slots = len(before) - pairs(before, snapshot)
        if slots > target and len(after) - pairs(after, snapshot) < slots and (missing or is_partial(one, snapshot)):
            going.append(one)
    return going


def age(one: Instance) -> tuple[object, ...]:
    """Outdated revisions last; oldest job first, then natural name order: p2 before p10."""
    words = re.split(r"(\d+)", one.name)
    return (
        one.outdated,
        one.created,
        [(1, 0, word) if index % 2 == 0 else (0, int(word), "") for index, word in enumerate(words)],
    )


def oldest(held: list[Instance], group: str, snapshot: Snapshot) -> list[Instance]:
    return [one for one in sorted(held, key=age) if one.group == group and not barred(one, snapshot)]
