"""What must hold of every decision, whatever the world: section 6 of the contract, as far as one
decision shows it. One function for each invariant, with its name.

The simulation and the tests ask after each decision. Must not decide anything or repair a plan: it
only says what is wrong with it, in words, so that a violation reads like a bug report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET

from scaler.decide import attempts
from scaler.decide.again import why_not_decided
from scaler.decide.decision import (
    NOBODY,
    Action,
    Admit,
    Complete,
    Decision,
    Evict,
    GroupPlan,
    Plan,
    Remove,
    Restart,
    Revoke,
    SlotAction,
    State,
)
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.nodes import PodRequest, Room, joined
from scaler.decide.room.classes import NodeIndex
from scaler.decide.room.placement import Placement
from scaler.decide.service.states import affords_revoke
from scaler.decide.world import Instance, Policy, Service, World
from scaler.reasons.reasons import Reason
from scaler.rules.rule import CountsFrom, Ratio, Rule

_WAITS = Reason.WAITING_FOR_ROOM
_OUT = (State.RUNNING, State.STARTING, State.ADMITTED, State.BROKEN)


class Planned(msgspec.Struct, frozen=True):
    """One service of a world, with what was decided for it."""

    service: Service
    plan: Plan
    policy: Policy
    names: frozenset[str]
    """All services of the world."""
    instances: dict[str, Instance]
    """The instances of the service, by uid."""
    before: Memory = Memory()
    """The memory of the world."""
    now: float = 0.0

    @property
    def touched(self) -> Iterator[tuple[Action, Instance]]:
        """Actions with their instances, as far as these are ours to touch (S8)."""
        for action in self.plan.actions:
            instance = self.instances.get(action.uid)
            if instance is not None and not instance.label_problem:
                yield action, instance

    @property
    def evicted(self) -> Iterator[tuple[Evict, Instance]]:
        """Evictions of bound instances (S3)."""
        for action in self.plan.actions:
            instance = self.instances.get(action.uid)
            if isinstance(action, Evict) and instance is not None and instance.bound:
                yield action, instance

    @property
    def asks_for_ready(self) -> bool:
        """Whether an instance that is not Ready does not count as running."""
        return self.service.options.counts_from is CountsFrom.READY

    @property
    def admits(self) -> list[str]:
        return [action.uid for action in self.plan.actions if isinstance(action, Admit)]


def violations(world: World, decision: Decision) -> tuple[str, ...]:
    """Every broken promise of a decision, each with its name in front; empty when all hold."""
    found: list[str] = []
    names = frozenset([str(service.key) for service in world.services])
    for service, plan in zip(world.services, decision.plans, strict=True):
        instances = {instance.uid: instance for instance in service.instances}
        failed = why_not_decided(plan)
        if failed:  # the plan is empty, so nothing else can be asked of it
            found.append(f"L2: {service.key} has no verdicts: {failed}")
            continue
        planned = Planned(service, plan, world.policy, names, instances, world.memory, world.now)
        for invariant in INVARIANTS:
            found += invariant(planned)
    found += s11_an_eviction_helps(world, decision)
    return tuple(found)


def s1_no_admission_above_the_target(of: Planned) -> Iterator[str]:
    """An admission never brings `running + in_flight` of a group above its target; pairs of
    revisions count once."""
    if not of.service.key.rule:
        return
    states = _states_afterwards(of)
    for name, group in of.plan.groups.items():
        more = group.admit - group.beside
        if more and group.running + group.in_flight + more > group.target:
            yield (
                f"S1: {name} runs {group.running}, has {group.in_flight} in flight and gets {more}"
                f" more: above its target {group.target}"
            )
        pairs = _possible_pairs(of.service, name, states)
        if group.paired + group.beside > pairs:
            yield (
                f"S1: {name} counts {group.paired + group.beside} pairs of revisions, {pairs} are"
                " possible"
            )


def _states_afterwards(of: Planned) -> dict[str, State]:
    """The state of each instance, by uid, when the admissions took effect."""
    states = {verdict.uid: verdict.state for verdict in of.plan.verdicts}
    states |= dict.fromkeys(of.admits, State.ADMITTED)
    for one in of.service.instances:
        # a plan without actions says Held of what is being admitted
        waits = states.get(one.uid) in (State.HELD, State.TERMINATING)
        if waits and one.pods > one.gated:
            states[one.uid] = State.RUNNING if one.bound else State.ADMITTED
    return states


def _possible_pairs(service: Service, group: str, states: dict[str, State]) -> int:
    """As many as outdated instances are bound and newest ones of the same owner are admitted, one
    beside each."""
    outdated = Counter[str]()
    newest = Counter[str]()
    for one in service.instances:
        if one.group != group:
            continue
        if one.outdated and one.bound and states[one.uid] in _OUT:
            outdated[one.owner] += 1
        if not one.outdated and states[one.uid] in _OUT:
            newest[one.owner] += 1
    return (outdated & newest).total()


def s2_whole_or_not_at_all(of: Planned) -> Iterator[str]:
    """An instance is admitted or revoked whole: one action, and nothing of it is there before."""
    for uid, times in Counter(action.uid for action in of.plan.actions).items():
        if times > 1:
            yield f"S2: {times} actions for {uid}, an instance is admitted or revoked whole"
    for action, instance in of.touched:
        if not isinstance(action, Admit):
            continue
        if instance.pods > instance.gated or instance.terminating > instance.pods == 0:
            yield f"S2: {instance.name} is admitted though pods of it are already there"
        if instance.owner_deleting or instance.owner_finished:
            yield f"S2: {instance.name} is admitted though its owner is going away"


def s3_no_bound_pod_is_deleted(of: Planned) -> Iterator[str]:
    """No pod that is bound is deleted, except of a victim; and nothing costs a restart that is kept
    for faults."""
    for action, instance in of.touched:
        if isinstance(action, Revoke):
            yield from _revokes_what_is_bound(instance, of.policy)
        if isinstance(action, Remove) and not instance.owner_finished:
            yield from _removes_what_may_run(instance, action)


def _revokes_what_is_bound(instance: Instance, policy: Policy) -> Iterator[str]:
    if instance.bound:
        yield (
            f"S3: {instance.name} is revoked though {instance.bound} of its pods are bound to a"
            " node"
        )
    if not affords_revoke(instance, policy):
        yield (
            f"S3: {instance.name} is revoked though its job cannot spare a restart:"
            f" {instance.budget}"
        )


def _removes_what_may_run(instance: Instance, action: Remove) -> Iterator[str]:
    """Only what has ended, or what the user no longer wants, may be removed."""
    allowed = {pod.name for pod in instance.life.failed} | set(instance.life.surplus)
    allowed.update(instance.refused)
    if action.pod_group or not allowed.issuperset(action.pods):
        pods = ", ".join(action.pods) or "the PodGroup"
        yield f"S3: {pods} of {instance.name} is removed though it may be running"


def s3_victims_are_beyond_the_minimum(of: Planned) -> Iterator[str]:
    """Only what is bound is evicted, and no group that has its minimum loses it by that."""
    for action in of.plan.actions:
        instance = of.instances.get(action.uid)
        if isinstance(action, Evict) and (instance is None or not instance.bound):
            yield f"S3: {action.uid} is evicted though nothing of it is bound"
    victims = Counter[str | None]()
    scaled_down = Counter[str | None]()
    for eviction, instance in of.evicted:
        counts = scaled_down if eviction.beneficiary == NOBODY else victims
        is_ready = instance.ready == instance.expected or not of.asks_for_ready
        counts[instance.group] += _is_well(instance) and is_ready
    rule = of.service.rule
    smallest = rule.limited(of.plan.replicas).smallest if rule else Ratio({}, {})
    for group, number in victims.items():
        least = smallest.of(group or "")
        if not number:
            continue
        runs = of.plan.groups[group or ""].running - scaled_down[group]
        if runs - number < min(runs, least):
            yield (
                f"S3: {number} of {runs} running instances of {group} are evicted, the minimum is"
                f" {least}"
            )


def s3_what_is_wanted_stays(of: Planned) -> Iterator[str]:
    """3c: what is deleted without a beneficiary is beyond the ratio that `spec.replicas` asks for,
    and costs no restart that is kept for faults."""
    going = set[str]()
    for action in of.plan.actions:
        if isinstance(action, Evict) and action.beneficiary == NOBODY:
            going.add(action.uid)
    rule = of.service.rule
    if not going or rule is None:
        return
    if of.service.replicas > rule.largest.total:
        yield f"S3: {len(going)} instances are deleted though as many are wanted as the rule names"
    for group in rule.groups:
        yield from _loses_what_is_wanted(of.service, rule, group, going)
    for one in of.service.instances:
        if one.uid in going and not affords_revoke(one, of.policy):
            yield f"S3: {one.name} is deleted though its job cannot spare a restart: {one.budget}"


def _loses_what_is_wanted(
    service: Service, rule: Rule, group: str, going: set[str]
) -> Iterator[str]:
    wanted = rule.limited(service.replicas).largest.of(group)
    bound = []
    for one in service.instances:
        if one.group == group and one.bound and not one.owner_deleting:
            bound.append(one)
    left = [one for one in bound if one.uid not in going]
    if len(left) < min(len(bound), wanted):
        yield f"S3: {len(left)} of {group} are left, {wanted} are wanted"
    runs = _well(bound)
    stay = _well(left)
    if stay < runs and stay < wanted:
        yield f"S3: {stay} of {runs} running instances of {group} are left, {wanted} are wanted"


def _well(instances: Iterable[Instance]) -> int:
    return sum(_is_well(one) for one in instances)


def _is_well(instance: Instance) -> bool:
    return instance.running == instance.expected and not (instance.crashing or instance.faulty)


def s4_no_admission_without_a_valid_rule(of: Planned) -> Iterator[str]:
    """Where no valid rule was ever seen, and where the rule is paused, nothing moves."""
    moves = [action for action in of.plan.actions if isinstance(action, SlotAction)]
    if moves and of.service.key.rule and of.service.rule is None:
        yield f"S4: {len(moves)} actions though no valid rule was ever seen"
    if moves and of.service.key.rule and of.service.options.paused:
        yield f"S4: {len(moves)} actions though the rule is paused"


def s5_the_plan_says_what_it_does(of: Planned) -> Iterator[str]:
    """The plan is that of its service, its target is a ratio of the rule, its numbers are those of
    its actions."""
    if of.plan.key != of.service.key:
        yield f"S5: the plan of {of.plan.key} stands where that of {of.service.key} should"
    rule = of.service.rule
    if rule is not None:
        ratio = rule.ratios[of.plan.target_index] if of.plan.replicas else Ratio({}, {})
        if any(number != ratio.of(name) for name, number in of.plan.target.items()):
            yield f"S5: target {of.plan.target} is not ratio {of.plan.target_index} of the rule"
    if not of.service.key.rule or of.service.assumed:
        return
    admitted = Counter[str | None]()
    for uid in of.admits:
        instance = of.instances.get(uid)
        admitted[instance.group if instance is not None else None] += 1
    for name, group in of.plan.groups.items():
        if admitted[name] != group.admit:
            yield f"S5: {name} says {group.admit} admissions, its actions are {admitted[name]}"


def s6_planning_again_gives_nothing_new(of: Planned) -> Iterator[str]:
    """Nothing is done while writes are under way, and no group is filled and emptied at once."""
    if of.service.assumed and of.plan.actions:
        yield f"S6: {of.service.key} is acted on although writes for it are under way"
    for name, group in of.plan.groups.items() if of.service.key.rule else ():
        if _admits_in_places_of_its_own(group) and group.revoke:
            yield f"S6: {name} admits {group.admit} and revocations {group.revoke} in one plan"


def _admits_in_places_of_its_own(group: GroupPlan) -> bool:
    return group.admit != group.beside


def s8_only_what_is_ours_is_written(of: Planned) -> Iterator[str]:
    """Nothing outside the labelled jobs is written, and what others make is released and revoked
    only."""
    for action in of.plan.actions:
        doing = type(action).__name__
        instance = of.instances.get(action.uid)
        if instance is None:
            yield f"S8: {doing} of {action.uid}, which is no instance of this service"
        elif instance.label_problem:
            yield f"S8: {doing} of {instance.name}, not ours to touch: {instance.label_problem}"
    for action, instance in of.touched:
        if isinstance(action, Admit) and instance.name_taken:
            yield (
                f"S8: {instance.name} is admitted though {instance.name_taken} belongs to another"
                " owner"
            )
        if not instance.made_by_us:
            has_rule = bool(of.service.key.rule) or of.service.rule is not None
            yield from _touches_what_others_make(instance, action, has_rule=has_rule)


def _touches_what_others_make(
    instance: Instance, action: Action, *, has_rule: bool
) -> Iterator[str]:
    """Its pods can be released and revoked, where it has a rule; nothing else of it is ours."""
    doing = type(action).__name__
    if isinstance(action, Remove) and set(action.pods) <= set(instance.refused):
        return
    if not has_rule or not isinstance(action, SlotAction):
        yield f"S8: {doing} of {instance.name}, which others make and mind"
    elif isinstance(action, Revoke) and instance.pods == instance.gated:
        yield f"S8: {instance.name} is revoked though none of its pods was released"
    elif isinstance(action, Admit | Complete) and not (instance.gated or instance.misplaced):
        yield f"S8: {doing} of {instance.name}, which has no pod to release or to move"


def t1_t2_sizes_are_of_the_ladder(of: Planned) -> Iterator[str]:
    """A training job is started, and restarted, at a size of its ladder. Pods that its owner has
    made are released at the size that is recorded, so that all are of one size."""
    for action, instance in of.touched:
        if not isinstance(action, Admit | Restart):
            continue
        training = instance.training
        if training is UNSET:
            if isinstance(action, Restart):
                yield f"T2: {instance.name}, which has one size, is restarted"
        elif not 0 <= action.size < len(training.sizes):
            yield f"T2: {instance.name} gets size {action.size}, it has {len(training.sizes)}"
        elif action.size != training.recorded and _releases(action, instance):
            yield f"T1: {instance.name} is released at size {action.size}, not as recorded"


def _releases(action: Action, instance: Instance) -> bool:
    return isinstance(action, Admit) and not instance.made_by_us


def s11_evictions_have_a_beneficiary(of: Planned) -> Iterator[str]:
    """Nobody is evicted but for a service of the world, and none that its rule protects but for its
    own."""
    protected = of.policy.honour_preemptable and not of.service.options.preemptable
    for eviction, instance in of.evicted:
        beneficiary = eviction.beneficiary
        if beneficiary == NOBODY:
            continue
        if beneficiary not in of.names:
            yield f"S11: {instance.name} is evicted for {beneficiary}, which does not exist"
        if protected and beneficiary != str(of.service.key):
            yield f"S11: {instance.name} is evicted for {beneficiary} though its rule protects it"


def s11_a_victim_can_be_spared(of: Planned) -> Iterator[str]:
    """An eviction costs no restart that is kept for faults, and its pods end in time."""
    longest = of.policy.start_timeout - of.policy.due_back
    for eviction, instance in of.evicted:
        if eviction.beneficiary == NOBODY:
            continue
        if not affords_revoke(instance, of.policy):
            yield (
                f"S11: {instance.name} is evicted though its job cannot spare a restart:"
                f" {instance.budget}"
            )
        if instance.grace > longest:
            yield f"S11: {instance.name} is evicted though its pods may take {instance.grace} s"


class _Eviction(msgspec.Struct):
    """All that is evicted for one service in one decision."""

    bound_pods: list[tuple[str, PodRequest]]
    is_own: bool
    """Only instances of the service itself."""


def s11_an_eviction_helps(world: World, decision: Decision) -> Iterator[str]:
    """With what is free and ending, what the victims leave places all that waits for it; and nobody
    of another service is evicted in the pause of 3b.4e."""
    evictions = _evictions(world, decision)
    drained = evictions.pop(NOBODY, None)
    if not evictions or world.nodes is None:
        return
    nodes = NodeIndex(world.nodes)
    for service, plan in zip(world.services, decision.plans, strict=True):
        eviction = evictions.get(str(service.key))
        waits = {verdict.uid for verdict in plan.verdicts if verdict.reason is _WAITS}
        if eviction is None or not waits:
            continue
        placement = Placement(nodes, now=world.now, due_back=world.policy.due_back)
        placement.count_freed(eviction.bound_pods)
        placement.count_freed(drained.bound_pods if drained else ())
        waiting = [instance for instance in service.instances if instance.uid in waits]
        pods = joined(*[instance.unbound for instance in waiting])
        shortage = placement.fits(pods, Room.EXPECTED)
        if shortage is not None and not shortage.undecided:
            yield f"S11: what is evicted for {service.key} does not place its minimum: {shortage}"
        if not eviction.is_own:
            yield from _evicted_in_a_pause(world, decision, str(service.key), waits)


def _evictions(world: World, decision: Decision) -> dict[str, _Eviction]:
    """Beneficiary -> what is evicted for it."""
    evictions: dict[str, _Eviction] = {}
    for service, plan in zip(world.services, decision.plans, strict=True):
        instances = {instance.uid: instance for instance in service.instances}
        for action in plan.actions:
            if not isinstance(action, Evict) or action.uid not in instances:
                continue
            eviction = evictions.setdefault(action.beneficiary, _Eviction([], True))
            eviction.bound_pods += instances[action.uid].bound_pods
            eviction.is_own = eviction.is_own and action.beneficiary == str(service.key)
    return evictions


def _evicted_in_a_pause(
    world: World, decision: Decision, name: str, waits: Iterable[str]
) -> Iterator[str]:
    before = world.memory.services.get(name, ServiceMemory())
    after = decision.memory.services.get(name, ServiceMemory())
    had_attempt = any(attempts.memory_of(after, uid).had_its_attempt for uid in waits)
    if had_attempt and before.tried_at and world.now < attempts.evicts_from(before, world.policy):
        yield f"S11: somebody is evicted for {name}, which has had its attempt"


def s11_evictions_become_ever_rarer(of: Planned) -> Iterator[str]:
    """Nobody is evicted again for a service before its pause is over (3b.4e), but for own surplus
    that does not run, and for what was ordered and has not gone. L4: so evictions end, or become
    ever rarer."""
    own = str(of.service.key)
    for eviction, instance in of.evicted:
        known = of.before.services.get(eviction.beneficiary)
        if known is None or not known.evictions.number or instance.uid in known.victims:
            continue
        if eviction.beneficiary == own and (of.plan.serves or not _is_well(instance)):
            continue
        if attempts.may_repeat(known):
            continue
        if of.now < attempts.evicts_from(known, of.policy):
            yield (
                f"S11: {instance.name} is evicted for {eviction.beneficiary} in the pause after"
                f" {known.evictions.number} evictions"
            )


def l1_complete_is_what_the_counts_say(of: Planned) -> Iterator[str]:
    """`complete` says no more and no less than the counts do."""
    if of.service.rule is None:
        return
    short = []
    for name in of.service.rule.groups:
        if of.plan.groups[name].running < of.plan.groups[name].target:
            short.append(name)
    if of.plan.complete and short:
        yield f"L1: complete though {', '.join(short)} runs fewer than the target"
    if not of.plan.complete and not short:
        yield "L1: not complete though every group runs its target"


def l2_one_reason_for_each_instance(of: Planned) -> Iterator[str]:
    """Every instance has exactly one verdict."""
    expected = Counter(instance.uid for instance in of.service.instances)
    given = Counter(verdict.uid for verdict in of.plan.verdicts)
    for uid in expected.keys() | given.keys():
        if expected[uid] != given[uid]:
            yield f"L2: {given[uid]} verdicts for {expected[uid]} instances of uid {uid}"


def l4_what_cannot_be_held_is_not_revoked(of: Planned) -> Iterator[str]:
    """Pods that came without our gate come again without it: a revocation would go on for ever."""
    for action, instance in of.touched:
        if isinstance(action, Revoke) and instance.unheld:
            yield (
                f"L4: {instance.name} is revoked though nothing would hold {instance.unheld} of"
                " its pods again"
            )


INVARIANTS = (
    s1_no_admission_above_the_target,
    s2_whole_or_not_at_all,
    s3_no_bound_pod_is_deleted,
    s3_victims_are_beyond_the_minimum,
    s3_what_is_wanted_stays,
    s4_no_admission_without_a_valid_rule,
    s5_the_plan_says_what_it_does,
    s6_planning_again_gives_nothing_new,
    s8_only_what_is_ours_is_written,
    t1_t2_sizes_are_of_the_ladder,
    s11_evictions_have_a_beneficiary,
    s11_evictions_become_ever_rarer,
    s11_a_victim_can_be_spared,
    l1_complete_is_what_the_counts_say,
    l2_one_reason_for_each_instance,
    l4_what_cannot_be_held_is_not_revoked,
)
