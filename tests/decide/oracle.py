"""A second opinion on the decision about one service whose nodes are not known, from the contract alone: slow,
declarative, no code shared with the decision.

Each function is a sentence of the contract, so where decision and oracle differ the sentence says which is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scaler.decide.memory import ServiceMemory, Turns
from scaler.decide.world import Instance, Reason, State, World
from tests.decide.contract import attainable, covers, target_of
from tests.decide.oracle_instance import (
    Seen,
    affordable,
    age,
    barred,
    counts_as_running,
    has_no_slot,
    is_in_flight,
    is_live,
    is_partial,
    is_passing,
    is_ready_to_go,
    remembered,
    state,
)

Instances = list[Instance]
Slots = dict[str, Instances]
"""Instances by group."""


@dataclass(frozen=True)
class Judgement:
    target_index: int = -1
    complete: bool = False
    serves: bool = False
    states: dict[str, State] = field(default_factory=dict)
    admit: frozenset[str] = frozenset()
    complete_pods: frozenset[str] = frozenset()
    """Instances with live pods that get their missing or gated members."""
    revoke: frozenset[str] = frozenset()
    tidy: frozenset[str] = frozenset()
    """Held instances whose PodGroup goes, because the scheduler would keep room for it."""
    held: dict[str, Reason] = field(default_factory=dict)
    """Why each held instance that is not admitted now is held."""
    drain: frozenset[str] = frozenset()
    unaffordable: frozenset[str] = frozenset()
    """Surplus that stays because its job has too few restarts left."""
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per group: running and in flight."""


def judge(world: World) -> Judgement:
    (service,) = world.services
    memory = world.memory.services.get(str(service.key), ServiceMemory())
    seen = Seen(service, memory, world.now, world.policy)
    states = {one.uid: state(one, seen) for one in seen.instances}
    if not service.key.rule:
        return without_rule(seen, states)
    if not seen.full:
        held = [one for one in seen.instances if states[one.uid] is State.HELD]
        return Judgement(states=states, held={one.uid: barred(one, seen) or Reason.RULE_MISSING for one in held})
    return with_rule(seen, states)


def with_rule(seen: Seen, states: dict[str, State]) -> Judgement:
    ratios = seen.ratios
    held = [one for one in seen.instances if states[one.uid] is State.HELD]
    named = (one.group for one in seen.instances if one.group is not None)
    groups = sorted({*named, *ratios[0]})
    run = {group: members(seen, group, counts_as_running) for group in groups}
    placed = {group: run[group] + members(seen, group, is_in_flight) for group in groups}
    live = {group: len(members(seen, group, is_live)) - passing(seen, group) for group in groups}
    index, complete = target_of(ratios, {group: len(run[group]) for group in groups}, live)
    said = index + len(seen.full) - len(ratios) if seen.service.replicas else -1
    target = {group: ratios[index].get(group, 0) for group in groups}
    occupied = {group: counted(placed[group], target[group], seen) for group in groups}
    running = {group: min(len(run[group]), occupied[group]) for group in groups}
    counts = {group: (running[group], occupied[group] - running[group]) for group in groups}
    serves = covers(running, ratios[-1])
    found = Judgement(said, complete, serves, states, counts=counts)
    if seen.service.options.paused:
        return replace(found, held={one.uid: barred(one, seen) or Reason.PAUSED for one in held})
    if seen.service.assumed:
        return found
    largest = {group: ratios[attainable(ratios, live)[0]].get(group, 0) for group in groups}
    healed = {group: heal(seen, group, placed[group], target[group]) for group in groups}
    in_slots = {group: placed[group] + [one for one in healed[group] if has_no_slot(one, seen)] for group in groups}
    given = {group: give_slots(held, group, seen, in_slots[group], target[group]) for group in groups}
    chosen = [one for group in groups for one in given[group]]
    ready = [one for one in chosen if is_ready_to_go(one)]
    # An instance whose creation, or release, was refused is tried again alone: its partners go when it has pods.
    refused = [] if serves else [one for one in ready if remembered(one, seen).refused]
    admit = frozenset(one.uid for one in refused[:1] or ready)
    bound = {group: sum(bool(one.bound) for one in placed[group] if one not in run[group]) for group in groups}
    short = any(running[group] + bound[group] < target[group] for group in groups)
    most = target if short else largest  # what is free is not known: surplus could take it from what is missing
    drains = [drained(seen, group, number, target[group], run[group]) for group, number in ratios[0].items()]
    going_down = [one for going, _ in drains for one in going]
    back = [beyond(seen, group, placed[group], target[group], most[group]) for group in groups]
    going = [one for group in back for one in group] if seen.policy.revoke else []
    staying = [one for one in going if not affordable(one, seen)] + [one for _, stays in drains for one in stays]
    reasons = {
        one.uid: Reason.WAITING_FOR_RATIO
        if one in ready
        else Reason.WAITING_FOR_SCHEDULER
        if one in chosen
        else barred(one, seen) or waiting(one, seen, in_slots, held, given)
        for one in held
        if one.uid not in admit
    }
    left_over = [one for one in held if one.leftovers and one.made_by_us and not one.label_problem]
    return replace(
        found,
        admit=admit,
        complete_pods=frozenset(one.uid for group in groups for one in healed[group] if one not in going_down),
        drain=frozenset(one.uid for one in going_down),
        revoke=frozenset(one.uid for one in going if affordable(one, seen)),
        unaffordable=frozenset(one.uid for one in staying),
        tidy=frozenset(one.uid for one in left_over if one.uid not in admit),
        held=reasons,
    )


def drained(seen: Seen, group: str, wanted: int, target: int, running: Instances) -> tuple[Instances, Instances]:
    """One after the other, while more are bound than wanted, a pair of revisions counted once: the least useful first,
    of running ones only what is beyond. Those that cannot pay for it stay, where the others are not enough."""
    gone_by_itself = (State.TERMINATING, State.FINISHED)
    here = members(seen, group, lambda one, seen: one.bound > 0 and state(one, seen) not in gone_by_itself)
    placed = members(seen, group, lambda one, seen: one in running or is_in_flight(one, seen))
    ending = sum(pairs_that_end(owner, group, placed, running, seen) for owner in {one.owner for one in placed})
    paired = min(pairs(placed, seen), max(0, len(placed) - target), ending)
    going: Instances = []
    staying: Instances = []
    for pays, gone in ((True, going), (False, staying)):
        for one in sorted(sorted(here, key=age, reverse=True), key=lambda one: use(one, seen, running)):
            left = [other for other in here if other not in going + staying]
            runs = [other for other in left if other in running]
            may = one not in running or len(runs) > wanted + paired
            comes_again = not (one.irreplaceable or one.unheld)
            if len(left) > wanted + paired and may and comes_again and affordable(one, seen) == pays and one in left:
                gone.append(one)
    return (going, staying) if seen.service.replicas <= sum(seen.full[0].values()) else ([], [])


def pairs_that_end(owner: str, group: str, placed: Instances, running: Instances, seen: Seen) -> int:
    """Pairs of which both are bound, where the newest one is yet to run, or there is more than the owner wants."""
    mine = [one for one in placed if one.owner == owner]
    begun = [one for one in mine if not one.outdated and one not in running]
    wanted = wanted_by(owner, group, seen)
    unbound = sum(state(one, seen) is State.ADMITTED and not one.bound for one in begun)
    return max(0, pairs(mine, seen) - unbound) if begun or not wanted or len(mine) > wanted else 0


def use(one: Instance, seen: Seen, running: Instances) -> tuple[object, ...]:
    found = state(one, seen)
    slot = one in running or is_in_flight(one, seen)
    in_part = slot and one.bound < one.expected and not one.more_to_come
    rank = (slot, not in_part, one in running, found is State.RUNNING)
    return one in running, sum(rank), one.budget is not None, one.deletion_cost


def members(seen: Seen, group: str, what: Callable[[Instance, Seen], bool]) -> Instances:
    return [one for one in seen.instances if one.group == group and not one.label_problem and what(one, seen)]


def pairs(placed: Instances, seen: Seen) -> int:
    """How many of the newest can stand beside a running outdated one of their owner, one beside each."""
    outdated = Counter(one.owner for one in placed if is_passing(one, seen))
    newest = Counter(one.owner for one in placed if not one.outdated)
    return (outdated & newest).total()


def slots(placed: Instances, seen: Seen) -> int:
    """A pair takes one."""
    return len(placed) - pairs(placed, seen)


def counted(placed: Instances, target: int, seen: Seen) -> int:
    """A pair counts once, as far as that keeps the group within its target."""
    return sorted((slots(placed, seen), target, len(placed)))[1]


def passing(seen: Seen, group: str) -> int:
    """Live instances beyond what owners in the middle of a rollout are to have; without that, one of each pair."""
    found = 0
    for owner, outdated in Counter(one.owner for one in members(seen, group, is_passing)).items():
        alive = [one for one in members(seen, group, is_live) if one.owner == owner]
        newest = sum(not one.outdated for one in alive)
        found += min(outdated, newest, max(0, len(alive) - wanted_by(owner, group, seen)))
    return found


def wanted_by(owner: str, group: str, seen: Seen) -> int:
    """Instances that this owner is to have."""
    return max(one.wanted for one in members(seen, group, lambda one, _: one.owner == owner))


def may_join(one: Instance, placed: Instances, target: int, seen: Seen) -> bool:
    """Within the target, or beside a running outdated one of its owner and within it when those are gone."""
    after = [*placed, one]
    partners = not one.outdated and any(is_passing(other, seen) and other.owner == one.owner for other in placed)
    left = [other for other in after if not is_passing(other, seen)]
    if partners:
        return len(left) <= target and slots(after, seen) <= max(target, slots(placed, seen))
    return len(after) <= target


def may_stay(one: Instance, placed: Instances, target: int, seen: Seen) -> bool:
    """Within the target, a pair once; or beside a running outdated one, so that nothing would be gained without it."""
    without = [other for other in placed if other is not one]
    return slots(placed, seen) <= max(target, slots(without, seen))


def give_slots(held: Instances, group: str, seen: Seen, placed: Instances, target: int) -> Instances:
    """In order, those that can go at once first; a held one whose pods are yet to come keeps what is left."""
    given: Instances = []
    for one in sorted(oldest(held, group, seen), key=lambda one: not is_ready_to_go(one)):
        if may_join(one, [*placed, *given], target, seen):
            given.append(one)
    return given


def without_rule(seen: Seen, states: dict[str, State]) -> Judgement:
    """Jobs that name no rule have nothing to wait for: ours are created whole at once, and healed like any other."""
    found = Judgement(complete=True, states=states)
    if seen.service.assumed:
        return found
    barriers = {
        one.uid: barred(one, seen) if one.made_by_us else one.label_problem or Reason.NOT_SERVED
        for one in seen.instances
        if states[one.uid] is State.HELD
    }
    return replace(
        found,
        admit=frozenset(uid for uid, barrier in barriers.items() if barrier is None),
        complete_pods=frozenset(one.uid for one in seen.instances if one.made_by_us and is_partial(one, seen)),
        held={uid: barrier for uid, barrier in barriers.items() if barrier is not None},
    )


def waiting(one: Instance, seen: Seen, in_slots: Slots, held: Instances, given: Slots) -> Reason:
    """Above the largest ratio, counting those before it in the queue; else it waits for its turn."""
    group = one.group or ""
    before = [*in_slots[group], *given[group]]
    queue = [other for other in oldest(held, group, seen) if other not in given[group]]
    number = slots(before, seen) + queue.index(one)
    if number >= seen.full[0].get(group, 0):
        return Reason.NOT_IN_RATIO
    if number >= seen.ratios[0].get(group, 0):
        return Reason.SCALED_DOWN
    return Reason.REVOKED if remembered(one, seen).revoked else Reason.WAITING_FOR_RATIO


def heal(seen: Seen, group: str, placed: Instances, target: int) -> Instances:
    """Missing members come back while running + in flight stays within the target, counting the instance itself."""
    healed: Instances = []
    for one in sorted((one for one in seen.instances if one.group == group), key=age):
        in_slots = [*placed, *(other for other in healed if has_no_slot(other, seen))]
        joins = has_no_slot(one, seen)
        may = may_join(one, in_slots, target, seen) if joins else may_stay(one, in_slots, target, seen)
        if may and is_partial(one, seen):
            healed.append(one)
    return healed


def beyond(seen: Seen, group: str, placed: Instances, target: int, largest: int) -> Instances:
    """Unbound instances beyond the largest ratio go, newest first; beyond the target while something is missing that
    needs room, and half-made ones (S2). Those that cannot pay for it only say so, where the others are not enough; one
    of a pair makes no room. What nothing holds would come again."""
    unbound = members(seen, group, lambda one, seen: state(one, seen) is State.ADMITTED and one.bound == 0)
    newest = sorted(unbound, key=lambda one: (one.admitted_at, age(one)), reverse=True)
    going: Instances = []
    for one in sorted(newest, key=lambda one: not affordable(one, seen)):
        before = [other for other in placed if other not in going]
        after = [other for other in before if other is not one]
        most = target if is_partial(one, seen) else largest
        if slots(before, seen) > max(most, slots(after, seen)) and not one.unheld:
            going.append(one)
    return going


def oldest(held: Instances, group: str, seen: Seen) -> Instances:
    """Those that have not had their turn go first."""
    queue = [one for one in sorted(held, key=age) if one.group == group and not barred(one, seen)]
    return sorted(queue, key=lambda one: remembered(one, seen).turns is not Turns.NONE)
