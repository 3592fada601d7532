"""What must hold of every decision, whatever the world: section 6 of the contract as far as one
decision shows it.

The simulation and the tests ask after each decision. Must not decide anything or repair a plan: it
only says what is wrong with it, in words, so that a violation reads like a bug report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scaler.decide.decision import (
    NOBODY,
    Action,
    Admit,
    Complete,
    Decision,
    Evict,
    Plan,
    Remove,
    Revoke,
    SlotAction,
    State,
)
from scaler.decide.service.states import affords_revoke
from scaler.decide.world import Instance, Policy, Service, World
from scaler.rules.rule import Ratio

_UP = (State.RUNNING, State.STARTING)
_OUT = (*_UP, State.ADMITTED, State.BROKEN)


def violations(world: World, decision: Decision) -> tuple[str, ...]:
    """Every broken promise of a decision, each with its name in front; empty when all hold."""
    found: list[str] = []
    names = {str(service.key) for service in world.services}
    for service, plan in zip(world.services, decision.plans, strict=True):
        found += _of_service(service, plan, world.policy)
        if any(isinstance(action, Evict) for action in plan.actions):
            found += _evictions(service, plan, names, world.policy)
            found += _drains(service, plan, world.policy)
    return tuple(found)


def _of_service(service: Service, plan: Plan, policy: Policy) -> Iterator[str]:
    if plan.key != service.key:
        yield f"S5: the plan of {plan.key} stands where that of {service.key} should"
    if service.assumed and plan.actions:
        yield f"S6: {service.key} is acted on although writes for it are under way"
    expected = Counter(instance.uid for instance in service.instances)
    given = Counter(verdict.uid for verdict in plan.verdicts)
    for uid in expected.keys() | given.keys():
        if expected[uid] != given[uid]:
            yield f"L2: {given[uid]} verdicts for {expected[uid]} instances of uid {uid}"
    yield from _actions(service, plan, policy)
    yield from _target(service, plan)
    yield from _slots(service, plan)


def _evictions(service: Service, plan: Plan, names: set[str], policy: Policy) -> Iterator[str]:
    """S3, S11: only what is bound, beyond the minimum of its group, and for a service that does not
    run its own."""
    instances = {instance.uid: instance for instance in service.instances}
    smallest = service.rule.limited(plan.replicas).smallest if service.rule else None
    evicted = Counter[str | None]()
    drained = Counter[str | None]()
    for action in plan.actions:
        if not isinstance(action, Evict):
            continue
        instance = instances.get(action.uid)
        if instance is None or not instance.bound:
            yield f"S3: {action.uid} is evicted though nothing of it is bound"
            continue
        if action.beneficiary == NOBODY:
            drained[instance.group] += _is_well(instance)
            continue
        evicted[instance.group] += _is_well(instance)
        if action.beneficiary not in names:
            yield f"S11: {instance.name} is evicted for {action.beneficiary}, which does not exist"
        protected = policy.honour_preemptable and not service.options.preemptable
        if protected and action.beneficiary != str(service.key):
            yield (
                f"S11: {instance.name} is evicted for {action.beneficiary} though its rule"
                " protects it"
            )
    for group, number in evicted.items():
        least = smallest.of(group or "") if smallest else 0
        runs = plan.groups[group or ""].running - drained[group]
        if number and runs - number < min(runs, least):
            yield (
                f"S3: {number} of {runs} running instances of {group} are evicted, the minimum is"
                f" {least}"
            )


def _drains(service: Service, plan: Plan, policy: Policy) -> Iterator[str]:
    """S3, 3c: what is deleted without a beneficiary is beyond the ratio that `spec.replicas` asks
    for, and costs no restart that is kept for faults."""
    going = {
        action.uid
        for action in plan.actions
        if isinstance(action, Evict) and action.beneficiary == NOBODY
    }
    if not going or service.rule is None:
        return
    wanted = service.rule.limited(service.replicas).largest
    if service.replicas > service.rule.largest.total:
        yield f"S3: {len(going)} instances are deleted though as many are wanted as the rule names"
    for group in service.rule.groups:
        bound = [
            one
            for one in service.instances
            if one.group == group and one.bound and not one.owner_deleting
        ]
        left = [one for one in bound if one.uid not in going]
        if len(left) < min(len(bound), wanted.of(group)):
            yield f"S3: {len(left)} of {group} are left, {wanted.of(group)} are wanted"
        runs, stay = (sum(map(_is_well, some)) for some in (bound, left))
        if stay < min(runs, wanted.of(group)) and going & {
            one.uid for one in bound if _is_well(one)
        }:
            yield (
                f"S3: {stay} of {runs} running instances of {group} are left, {wanted.of(group)}"
                " are wanted"
            )
    for one in service.instances:
        if one.uid in going and not affords_revoke(one, policy):
            yield f"S3: {one.name} is deleted though its job cannot spare a restart: {one.budget}"


def _is_well(instance: Instance) -> bool:
    return instance.running == instance.expected and not (instance.crashing or instance.faulty)


def _actions(service: Service, plan: Plan, policy: Policy) -> Iterator[str]:
    instances = {instance.uid: instance for instance in service.instances}
    for uid, times in Counter(action.uid for action in plan.actions).items():
        if times > 1:
            yield f"S2: {times} actions for {uid}, an instance is admitted or revoked whole"
    moves = [action for action in plan.actions if isinstance(action, SlotAction)]
    if moves and service.key.rule and service.rule is None:
        yield f"S4: {len(moves)} actions though no valid rule was ever seen"
    if moves and service.key.rule and service.options.paused:
        yield f"S4: {len(moves)} actions though the rule is paused"
    for action in plan.actions:
        instance = instances.get(action.uid)
        if instance is None:
            yield (
                f"S8: {type(action).__name__} of {action.uid}, which is no instance of this service"
            )
        elif instance.label_problem:
            yield (
                f"S8: {type(action).__name__} of {instance.name}, not ours to touch:"
                f" {instance.label_problem}"
            )
        else:
            yield from _action(instance, action, policy)
            if not instance.made_by_us:
                yield from _made_by_others(instance, action, service.key.rule)


def _action(instance: Instance, action: Action, policy: Policy) -> Iterator[str]:
    match action:
        case Admit():
            yield from _admission(instance)
        case Revoke():
            yield from _revoke(instance, policy)
        case Remove() if not instance.owner_finished:
            # Only what has ended, or what the user no longer wants.
            allowed = {pod.name for pod in instance.life.failed} | set(instance.life.surplus)
            if action.pod_group or not allowed.issuperset(action.pods):
                pods = ", ".join(action.pods) or "the PodGroup"
                yield f"S3: {pods} of {instance.name} is removed though it may be running"


def _admission(instance: Instance) -> Iterator[str]:
    if instance.pods > instance.gated or instance.terminating > instance.pods == 0:
        yield f"S2: {instance.name} is admitted though pods of it are already there"
    if instance.owner_deleting or instance.owner_finished:
        yield f"S2: {instance.name} is admitted though its owner is going away"
    if instance.name_taken:
        yield (
            f"S8: {instance.name} is admitted though {instance.name_taken} belongs to another owner"
        )


def _made_by_others(instance: Instance, action: Action, rule: str) -> Iterator[str]:
    """Its pods can be released and revoked, where it names a rule; nothing else of it is ours."""
    if not rule or not isinstance(action, SlotAction):
        yield f"S8: {type(action).__name__} of {instance.name}, which others make and mind"
    elif isinstance(action, Revoke) and instance.pods == instance.gated:
        yield f"S8: {instance.name} is revoked though none of its pods was released"
    elif isinstance(action, Admit | Complete) and not (instance.gated or instance.misplaced):
        yield (
            f"S8: {type(action).__name__} of {instance.name}, which has no pod to release or to"
            " move"
        )


def _revoke(instance: Instance, policy: Policy) -> Iterator[str]:
    if instance.unheld:
        yield (
            f"L4: {instance.name} is revoked though nothing would hold {instance.unheld} of its"
            " pods again"
        )
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


def _target(service: Service, plan: Plan) -> Iterator[str]:
    """The target is a ratio of the rule, and `complete` says no more than the counts do."""
    if service.rule is None:
        return
    ratio = service.rule.ratios[plan.target_index] if plan.replicas else Ratio({}, {})
    if any(number != ratio.of(name) for name, number in plan.target.items()):
        yield f"S5: target {plan.target} is not ratio {plan.target_index} of the rule"
    short = [
        name for name in service.rule.groups if plan.groups[name].running < plan.groups[name].target
    ]
    if plan.complete and short:
        yield f"L1: complete though {', '.join(short)} runs fewer than the target"
    if not plan.complete and not short:
        yield "L1: not complete though every group runs its target"


def _slots(service: Service, plan: Plan) -> Iterator[str]:
    """S1: no admission takes a group above its target, pairs counted once; S6: none is revoked in
    the same decision."""
    states = {verdict.uid: verdict.state for verdict in plan.verdicts}
    states |= {action.uid: State.ADMITTED for action in plan.actions if isinstance(action, Admit)}
    before = (
        one for one in service.instances if states.get(one.uid) in (State.HELD, State.TERMINATING)
    )
    states |= {
        one.uid: State.RUNNING if one.bound else State.ADMITTED
        for one in before
        if one.pods > one.gated
    }
    groups = {instance.uid: instance.group for instance in service.instances}
    admitted = Counter(
        groups.get(action.uid) for action in plan.actions if isinstance(action, Admit)
    )
    for name, group in plan.groups.items() if service.key.rule else ():
        if admitted[name] != group.admit and not service.assumed:
            yield f"S5: {name} says {group.admit} admissions, its actions are {admitted[name]}"
        more = group.admit - group.beside
        if more and group.running + group.in_flight + more > group.target:
            yield (
                f"S1: {name} runs {group.running}, has {group.in_flight} in flight and gets {more}"
                f" more: above its target {group.target}"
            )
        # As many as outdated instances run and newest ones of the same owner are out of the gate,
        # one beside each.
        instances = [one for one in service.instances if one.group == name]
        outdated = Counter(
            one.owner for one in instances if one.outdated and states[one.uid] in _UP
        )
        newest = Counter(
            one.owner for one in instances if not one.outdated and states[one.uid] in _OUT
        )
        pairs = (outdated & newest).total()
        if group.paired + group.beside > pairs:
            yield (
                f"S1: {name} counts {group.paired + group.beside} pairs of revisions, {pairs} are"
                " possible"
            )
        if more and group.revoke:
            yield f"S6: {name} admits {group.admit} and revocations {group.revoke} in one plan"
