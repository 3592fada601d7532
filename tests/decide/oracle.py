"""A second opinion on the decision about one service whose nodes are not known, from the contract
alone: slow, declarative, no code shared with the decision.

Each function is a sentence of the contract, so where decision and oracle differ the sentence says
which is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from msgspec import structs

from scaler.decide.decision import State
from scaler.decide.memory import HadAttempt, InstanceMemory, ServiceMemory
from scaler.decide.world import Instance, Policy, Service, World
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.rules.rule import CountsFrom
from tests.decide.contract import Counts, attainable, covers, limited, target_of

Instances = list[Instance]


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
    """With held instances whose PodGroup goes, because the scheduler would keep room for it."""
    held: dict[str, Reason] = field(default_factory=dict)
    """Why each held instance that is not admitted now is held."""
    drain: frozenset[str] = frozenset()
    unaffordable: frozenset[str] = frozenset()
    """Surplus that stays because its job has too few restarts left."""
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per group: running and in flight."""


class Seen(NamedTuple):
    """The one service of a world, and what the decision about it depends on."""

    service: Service
    memory: ServiceMemory
    now: float
    policy: Policy

    @property
    def instances(self) -> tuple[Instance, ...]:
        return self.service.instances

    @property
    def full(self) -> list[Counts]:
        """Ratios of the rule; empty where there is none."""
        return [ratio.counts for ratio in self.service.rule.ratios] if self.service.rule else []

    @property
    def ratios(self) -> list[Counts]:
        """As if the larger ones were not there, where fewer instances are wanted."""
        return limited(self.full, self.service.replicas) if self.full else []


# the service


def judge(world: World) -> Judgement:
    (service,) = world.services
    memory = world.memory.services.get(str(service.key), ServiceMemory())
    seen = Seen(service, memory, world.now, world.policy)
    seen = with_gave_place(seen, gave_place(seen))
    states = {one.uid: state(one, seen) for one in seen.instances}
    if not service.key.rule:
        return without_rule(seen, states)
    if not seen.full:
        held = [one for one in seen.instances if states[one.uid] is State.HELD]
        return Judgement(
            states=states, held={one.uid: barred(one, seen) or Reason.RULE_MISSING for one in held}
        )
    return with_rule(seen, states)


def with_rule(seen: Seen, states: dict[str, State]) -> Judgement:
    ratios = seen.ratios
    held = [one for one in seen.instances if states[one.uid] is State.HELD]
    named = (one.group for one in seen.instances if one.group is not None)
    groups = sorted({*named, *ratios[0]})
    run = {group: members(seen, group, counts_as_running) for group in groups}
    placed = {group: run[group] + members(seen, group, is_in_flight) for group in groups}
    live = {group: len(members(seen, group, is_live)) - passing(seen, group) for group in groups}
    kept = seen.memory.served and not covers({g: len(run[g]) for g in groups}, ratios[-1])
    refused_ones = [] if kept else [one for one in held if is_refused(one, seen)]
    pausing = [one for one in refused_ones if barred(one, seen) is Reason.CREATE_REFUSED]
    numbers = {group: len(run[group]) for group in groups}
    sure = without(live, refused_ones)
    due = without(live, pausing)
    index, complete = target_of(ratios, numbers, sure)
    tried_alone = target_of(ratios, numbers, due)[0] < index
    if tried_alone:  # a refused creation that is due again, judged as if it were live
        index, complete = target_of(ratios, numbers, due)
    live = due if tried_alone else sure
    said = index + len(seen.full) - len(ratios) if seen.service.replicas else -1
    target = {group: ratios[index].get(group, 0) for group in groups}
    # A pair counts once, as far as that keeps the group within its target.
    occupied = {
        group: sorted((slots(placed[group], seen), target[group], len(placed[group])))[1]
        for group in groups
    }
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
    in_slots = {}
    for group in groups:
        in_slots[group] = placed[group] + [one for one in healed[group] if has_no_slot(one, seen)]
    given = {
        group: give_slots(held, group, seen, in_slots[group], target[group]) for group in groups
    }
    chosen = [one for group in groups for one in given[group]]
    ready = [one for one in chosen if may_go(one, seen)]
    if tried_alone and serves:
        ready = [one for one in ready if is_refused(one, seen)][:1] or ready
    # An instance whose creation, or release, was refused is tried again alone: its partners go when
    # it has pods.
    refused = [] if serves else [one for one in ready if remembered(one, seen).refused]
    admit = frozenset(one.uid for one in refused[:1] or ready)
    bound = {}
    for group in groups:
        bound[group] = sum(bool(one.bound) for one in placed[group] if one not in run[group])
    short = any(running[group] + bound[group] < target[group] for group in groups)
    # what is free is not known: surplus could take it from what is missing
    most = target if short else largest
    drains = [
        drained(seen, group, number, target[group], run[group])
        for group, number in ratios[0].items()
    ]
    going_down = [one for going, _ in drains for one in going]
    back = [beyond(seen, group, placed[group], target[group], most[group]) for group in groups]
    going = [one for group in back for one in group] if seen.policy.revoke else []
    staying = [one for one in going if not affordable(one, seen)] + [
        one for _, stays in drains for one in stays
    ]
    reasons = {
        one.uid: Reason.WAITING_FOR_RATIO
        if one in ready
        else Reason.WAITING_FOR_SCHEDULER
        if one in chosen
        else barred(one, seen)
        or waiting(one, seen, in_slots[one.group or ""], held, given[one.group or ""])
        for one in held
        if one.uid not in admit
    }
    left_over = [one for one in held if is_left_over(one, seen)]
    taken_back = [one for one in going if affordable(one, seen)] + [
        one for one in left_over if one.uid not in admit
    ]
    return replace(
        found,
        admit=admit,
        complete_pods=frozenset(
            one.uid for group in groups for one in healed[group] if one not in going_down
        ),
        drain=frozenset(one.uid for one in going_down),
        revoke=frozenset(one.uid for one in taken_back),
        unaffordable=frozenset(one.uid for one in staying),
        held=reasons,
    )


def drained(
    seen: Seen, group: str, wanted: int, target: int, running: Instances
) -> tuple[Instances, Instances]:
    """One after the other, while more are bound than wanted, a pair of revisions counted once: the
    least useful first, of running ones only what is beyond. Those that cannot pay for it stay,
    where the others are not enough."""
    gone_by_itself = (State.TERMINATING, State.FINISHED)
    here = members(
        seen, group, lambda one, seen: one.bound > 0 and state(one, seen) not in gone_by_itself
    )
    placed = members(seen, group, lambda one, seen: one in running or is_in_flight(one, seen))
    owners = {one.owner for one in placed}
    ending = sum(pairs_that_end(owner, group, placed, running, seen) for owner in owners)
    paired = min(pairs(placed, seen), max(0, len(placed) - target), ending)
    going: Instances = []
    staying: Instances = []
    for pays, gone in ((True, going), (False, staying)):
        for one in sorted(
            sorted(here, key=age, reverse=True), key=lambda one: use(one, seen, running)
        ):
            left = [other for other in here if other not in going + staying]
            runs = [other for other in left if other in running]
            may = one not in running or len(runs) > wanted + paired
            comes_again = not (one.irreplaceable or one.unheld)
            if (
                len(left) > wanted + paired
                and may
                and comes_again
                and affordable(one, seen) == pays
                and one in left
            ):
                gone.append(one)
    return (going, staying) if seen.service.replicas <= sum(seen.full[0].values()) else ([], [])


def pairs_that_end(
    owner: str, group: str, placed: Instances, running: Instances, seen: Seen
) -> int:
    """Pairs of which both are bound, where the newest one is yet to run, or there is more than the
    owner wants."""
    mine = [one for one in placed if one.owner == owner]
    begun = [one for one in mine if not one.outdated and one not in running]
    wanted = wanted_by(owner, group, seen)
    unbound = sum(state(one, seen) is State.ADMITTED and not one.bound for one in begun)
    return max(0, pairs(mine, seen) - unbound) if begun or not wanted or len(mine) > wanted else 0


def use(one: Instance, seen: Seen, running: Instances) -> tuple[object, ...]:
    found = state(one, seen)
    slot = one in running or is_in_flight(one, seen)
    in_part = slot and one.bound < one.expected
    in_part = in_part and not (waits_for_first(one, seen) and one.bound == one.pods)
    rank = (slot, not in_part, one in running, found is State.RUNNING)
    return one in running, sum(rank), one.budget is not None, one.deletion_cost


def members(seen: Seen, group: str, what: Callable[[Instance, Seen], bool]) -> Instances:
    return [
        one
        for one in seen.instances
        if one.group == group and not one.label_problem and what(one, seen)
    ]


def pairs(placed: Instances, seen: Seen) -> int:
    """How many of the newest can stand beside a passing outdated one of their owner, one beside
    each."""
    outdated = Counter(one.owner for one in placed if is_passing(one, seen))
    newest = Counter(one.owner for one in placed if not one.outdated)
    return (outdated & newest).total()


def slots(placed: Instances, seen: Seen) -> int:
    """A pair takes one."""
    return len(placed) - pairs(placed, seen)


def passing(seen: Seen, group: str) -> int:
    """Live instances beyond what owners in the middle of a rollout are to have; without that, one
    of each pair."""
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
    """Within the target, or beside a passing outdated one of its owner and within it when those are
    gone."""
    after = [*placed, one]
    partners = not one.outdated and any(
        is_passing(other, seen) and other.owner == one.owner for other in placed
    )
    left = [other for other in after if not is_passing(other, seen)]
    if partners:
        return len(left) <= target and slots(after, seen) <= max(target, slots(placed, seen))
    return len(after) <= target


def may_stay(one: Instance, placed: Instances, target: int, seen: Seen) -> bool:
    """Within the target, a pair once; or beside a passing outdated one, so that nothing would be
    gained without it."""
    without = [other for other in placed if other is not one]
    return slots(placed, seen) <= max(target, slots(without, seen))


def give_slots(
    held: Instances, group: str, seen: Seen, placed: Instances, target: int
) -> Instances:
    """In order, those that can go at once first; a held one whose pods are yet to come keeps what
    is left."""
    given: Instances = []
    for one in sorted(oldest(held, group, seen), key=lambda one: not may_go(one, seen)):
        if may_join(one, [*placed, *given], target, seen):
            given.append(one)
    return given


def without_rule(seen: Seen, states: dict[str, State]) -> Judgement:
    """Jobs that name no rule have nothing to wait for: ours are created whole at once, and healed
    like any other."""
    if seen.service.assumed:
        return Judgement(complete=True, states=states)
    barriers = {
        one.uid: barred(one, seen) if one.made_by_us else one.label_problem or Reason.NOT_SERVED
        for one in seen.instances
        if states[one.uid] is State.HELD
    }
    later = {one.uid for one in seen.instances if was_refused(one, seen)}
    admit = frozenset(
        uid for uid, barrier in barriers.items() if barrier is None and uid not in later
    )
    partial = frozenset(
        one.uid for one in seen.instances if one.made_by_us and is_partial(one, seen)
    )
    held = {uid: barrier for uid, barrier in barriers.items() if barrier is not None}
    return Judgement(complete=True, states=states, admit=admit, complete_pods=partial, held=held)


def waiting(
    one: Instance, seen: Seen, placed: Instances, held: Instances, given: Instances
) -> Reason:
    """Above the largest ratio, counting those before it in the queue; else it waits for its
    turn."""
    group = one.group or ""
    queue = [other for other in oldest(held, group, seen) if other not in given]
    number = slots([*placed, *given], seen) + queue.index(one)
    if number >= seen.full[0].get(group, 0):
        return Reason.NOT_IN_RATIO
    if number >= seen.ratios[0].get(group, 0):
        return Reason.SCALED_DOWN
    return Reason.REVOKED if remembered(one, seen).revoked else Reason.WAITING_FOR_RATIO


def heal(seen: Seen, group: str, placed: Instances, target: int) -> Instances:
    """Missing members come back while running + in flight stays within the target, counting the
    instance itself."""
    healed: Instances = []
    for one in sorted(
        (one for one in seen.instances if one.group == group and is_partial(one, seen)), key=age
    ):
        in_slots = [*placed, *(other for other in healed if has_no_slot(other, seen))]
        may = may_join if has_no_slot(one, seen) else may_stay
        if may(one, in_slots, target, seen):
            healed.append(one)
    return healed


def beyond(seen: Seen, group: str, placed: Instances, target: int, largest: int) -> Instances:
    """Unbound instances beyond the largest ratio go, newest first; beyond the target while
    something is missing that needs room, and half-made ones (S2). Those that cannot pay for it only
    say so, where the others are not enough; one of a pair makes no room. What nothing holds would
    come again."""
    unbound = members(
        seen, group, lambda one, seen: state(one, seen) is State.ADMITTED and one.bound == 0
    )
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
    """Those that have not had their attempt go first."""
    queue = [one for one in sorted(held, key=age) if one.group == group and not barred(one, seen)]
    return sorted(queue, key=lambda one: remembered(one, seen).had_attempt is not HadAttempt.NO)


# one instance


def state(one: Instance, seen: Seen) -> State:
    return next(state for state, holds in STATES.items() if holds(one, seen))


def is_left_over(one: Instance, seen: Seen) -> bool:
    """A held one has pods that the scheduler never places, or objects of ours without pods."""
    if one.label_problem:
        return False
    if one.pods > one.gated:
        return seen.policy.revoke and not one.unheld and affordable(one, seen)
    return one.leftovers and one.made_by_us


def is_never_placed(one: Instance, seen: Seen) -> bool:
    """The scheduler says so now, or said so of the job as it is still written."""
    memory = remembered(one, seen)
    as_written = memory.never_placed_as == f"{one.generation} {one.revision} {one.asks}"
    says_so = one.never_placed and seen.now >= one.newest + 3
    return not one.bound and bool(
        says_so or (memory.never_placed and (as_written or one.never_placed))
    )


def troubled(one: Instance, seen: Seen) -> bool:
    memory = remembered(one, seen)
    restarted = memory.restarts >= 0 and one.restarts > memory.restarts
    lately = memory.restarted_at > 0 and seen.now - memory.restarted_at < seen.policy.stable_after
    return bool(one.crashing or one.faulty or one.ended or one.terminating) or restarted or lately


STATES: dict[State, Callable[[Instance, Seen], bool]] = {
    State.FINISHED: lambda one, _: one.owner_finished,
    State.TERMINATING: lambda one, _: one.owner_deleting or (one.pods == 0 and one.terminating > 0),
    State.HELD: lambda one, s: one.pods == one.gated or is_never_placed(one, s),
    State.RUNNING: lambda one, s: is_running(one, s) and not has_given_its_place(one, s),
    State.BROKEN: lambda one, s: (
        one.bound > 0
        and (
            lost_some(one, s)
            or troubled(one, s)
            or never_ran(one, s)
            or has_given_its_place(one, s)
        )
    ),
    State.STARTING: lambda one, _: one.pods == one.bound == one.expected,
    State.ADMITTED: lambda *_: True,
}


def lost_some(one: Instance, seen: Seen) -> bool:
    """Others may take their time to make the rest, counted from the newest pod; some wait for the
    first to be ready."""
    if one.pods >= one.expected:
        return False
    lately = seen.now - one.newest < seen.policy.minimum_timeout
    in_time = waits_for_first(one, seen) or lately
    return one.made_by_us or not in_time


def waits_for_first(one: Instance, seen: Seen) -> bool:
    """Its owner makes the rest when the first are ready; what ran has lost something, unless the
    first are not ready any more."""
    return one.more_to_come and not (one.first_are_ready and remembered(one, seen).ran)


def never_ran(one: Instance, seen: Seen) -> bool:
    """It has been bound for the start timeout, as far as we saw it; or its first pods have, and its
    owner waits."""
    return not is_running(one, seen) and is_overdue(one, seen)


def is_running(one: Instance, seen: Seen) -> bool:
    return one.pods == one.running == one.expected and not troubled(one, seen)


def waits(one: Instance, seen: Seen) -> bool:
    """All its pods are on nodes, and some do not run, or are not Ready where that is asked for; or
    its owner waits."""
    asks = seen.service.options.counts_from is CountsFrom.READY
    well = min(one.running, one.ready) if asks else one.running
    whole = one.bound == one.pods == one.expected
    return one.bound > 0 and (waits_for_first(one, seen) or (whole and well < one.expected))


def is_overdue(one: Instance, seen: Seen) -> bool:
    since = remembered(one, seen).bound_since
    return waits(one, seen) and since > 0 and seen.now - since >= seen.policy.start_timeout


def gave_place_before(one: Instance, seen: Seen) -> bool:
    return remembered(one, seen).gave_place and waits(one, seen)


def has_given_its_place(one: Instance, seen: Seen) -> bool:
    return gave_place_before(one, seen) and is_running(one, seen)


def gave_place(seen: Seen) -> set[str]:
    """Who is not Ready for the start timeout, one after the other, as many as there are spares that
    fit in their places and were not tried; where another instance is Ready."""
    asks = seen.service.options.counts_from is CountsFrom.READY
    if not (asks and seen.full and seen.service.key.rule) or seen.service.options.paused:
        return set()
    states = {one.uid: state(one, seen) for one in seen.instances}
    found = with_rule(seen, states)
    others_ready = any(members(seen, group, counts_as_running) for group in found.counts)
    ratio = seen.full[found.target_index] if found.target_index >= 0 else {}
    given = set[str]()
    for group, (running, in_flight) in found.counts.items():
        late = members(seen, group, lambda one, s: is_running(one, s) and is_overdue(one, s))
        late = [one for one in late if states[one.uid] is State.RUNNING]
        # There is a spare for its place, also when it does not run any more.
        in_grace = members(
            seen, group, lambda one, s: gave_place_before(one, s) and is_in_flight(one, s)
        )
        places = max(0, ratio.get(group, 0) - running - in_flight) + len(in_grace)
        spares = members(
            seen, group, lambda one, s: states[one.uid] is State.HELD and is_untried(one, s)
        )
        if others_ready:
            late.sort(key=lambda one: (remembered(one, seen).bound_since, age(one)))
            given.update(one.uid for one in late[: max(0, len(spares) - places)])
    return given


def is_untried(one: Instance, seen: Seen) -> bool:
    memory = remembered(one, seen)
    tried = memory.had_attempt is not HadAttempt.NO or memory.gives_way
    return may_go(one, seen) and barred(one, seen) is None and not tried


def with_gave_place(seen: Seen, uids: set[str]) -> Seen:
    changed = {}
    for uid in uids:
        memory = seen.memory.instances[uid]
        changed[uid] = structs.replace(memory, gave_place=True)
    instances = {**seen.memory.instances, **changed}
    return seen._replace(memory=structs.replace(seen.memory, instances=instances))


def remembered(one: Instance, seen: Seen) -> InstanceMemory:
    return seen.memory.instances.get(one.uid, InstanceMemory())


def counts_as_running(one: Instance, seen: Seen) -> bool:
    found = state(one, seen)
    if seen.service.options.counts_from is CountsFrom.BOUND:
        return found in (State.RUNNING, State.STARTING)
    ready = one.ready >= one.expected or seen.service.options.counts_from is not CountsFrom.READY
    return found is State.RUNNING and ready


def is_in_flight(one: Instance, seen: Seen) -> bool:
    found = state(one, seen)
    since = remembered(one, seen).broken_since or seen.now
    in_grace = found is State.BROKEN and seen.now - since < seen.policy.broken_grace
    occupies = in_grace or found in (State.ADMITTED, State.STARTING, State.RUNNING)
    return occupies and not counts_as_running(one, seen)


def is_live(one: Instance, seen: Seen) -> bool:
    """What no pods can be made of is not live, nor what cannot be made for want of a name."""
    hindered = one.faults or one.name_taken or is_never_placed(one, seen)
    spoilt = bool(hindered) and state(one, seen) is State.HELD
    return not (one.owner_deleting or one.owner_finished or spoilt)


def without(counts: dict[str, int], ones: Instances) -> dict[str, int]:
    """The counts by group, without these."""
    taken = Counter(one.group for one in ones)
    return {group: number - taken[group] for group, number in counts.items()}


def is_refused(one: Instance, seen: Seen) -> bool:
    """Its last creation, or release, was refused."""
    return bool(remembered(one, seen).refused) and is_live(one, seen)


def has_no_slot(one: Instance, seen: Seen) -> bool:
    return not (is_in_flight(one, seen) or counts_as_running(one, seen))


def is_passing(one: Instance, seen: Seen) -> bool:
    """Outdated, and running or in flight without starting."""
    if not (one.outdated and one.owner):
        return False
    return counts_as_running(one, seen) or (is_in_flight(one, seen) and never_starts(one, seen))


def never_starts(one: Instance, seen: Seen) -> bool:
    """Broken, running and not ready where that counts, or bound for the minimum's timeout without
    running."""
    since = remembered(one, seen).bound_since
    waits = waits_for_first(one, seen) or one.bound == one.pods == one.expected > one.running
    waited = since > 0 and seen.now - since >= seen.policy.minimum_timeout
    too_long = one.bound > 0 and waits and waited
    return state(one, seen) in (State.BROKEN, State.RUNNING) or too_long


def is_partial(one: Instance, seen: Seen) -> bool:
    """It has live pods, and lacks members or what belongs to them (those still terminating are not
    missing yet). What others make can only be released."""
    unmade = one.stripped or one.pods + one.terminating < one.expected
    lacks = one.gated > 0 or one.misplaced or (one.made_by_us and unmade)
    alive = state(one, seen) not in (State.HELD, State.TERMINATING, State.FINISHED)
    barred = one.label_problem or one.faults or was_refused(one, seen)
    return lacks and alive and not barred


def may_go(one: Instance, seen: Seen) -> bool:
    """It has pods, all of them where they take blocks, or we make them; and no kubelet refused one
    of them a moment ago."""
    has_pods = one.gated > 0
    if any(request.block for request, _ in one.requests) and one.gated == one.pods:
        has_pods = one.gated == one.expected or (has_pods and waits_for_first(one, seen))
    return (one.made_by_us or has_pods) and not was_refused(one, seen)


def was_refused(one: Instance, seen: Seen) -> bool:
    """The pauses are 10, 20, 40, 80, 160 and then 300 s."""
    pauses = (10, 20, 40, 80, 160, 300)
    return any(
        seen.now - each.at < pauses[min(each.times, len(pauses)) - 1] for each in one.refusals
    )


def affordable(one: Instance, seen: Seen) -> bool:
    if one.budget is None:
        return True
    reserve = seen.policy.restart_reserve
    return one.budget.limit - one.budget.used > (
        max(one.budget.limit / 2, 2) if reserve == -1 else reserve
    )


def barred(one: Instance, seen: Seen) -> Reason | None:
    """What keeps this instance from being admitted whatever the counts are."""
    problem = seen.service.problem.kind if seen.service.problem else Warning.RULE_MISSING
    memory = remembered(one, seen)
    refused = (
        memory.refused
        and seen.now < memory.refused_until
        and one.generation == memory.refused_generation
    )
    causes = {
        one.label_problem: one.label_problem is not None,
        Reason(problem.value): not seen.full and seen.service.key.rule != "",
        Reason.GROUP_UNKNOWN: bool(seen.full) and one.group not in seen.full[0],
        Reason.PAUSED: seen.service.options.paused and bool(seen.full),
        Reason.JOB_INVALID: bool(one.faults or is_never_placed(one, seen)),
        Reason.NAME_TAKEN: bool(one.name_taken),
        Reason.CREATE_REFUSED: bool(refused),
    }
    return next((reason for reason, applies in causes.items() if applies), None)


def age(one: Instance) -> tuple[object, ...]:
    """Outdated revisions last; oldest job first, then natural name order: p2 before p10."""
    words = enumerate(re.split(r"(\d+)", one.name))
    name = [(0, int(word), "") if index % 2 else (1, 0, word) for index, word in words]
    return one.outdated, one.created, name
