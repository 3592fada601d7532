"""Why each instance is where it is: exactly one reason for each, and the warnings beside them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.groups import Group
from scaler.decide.members import Member, in_order, restart_reserve, why_not_admissible
from scaler.decide.world import Instance, Note, Policy, Reason, Snapshot, State, Verdict, Warning
from scaler.rules.rule import Rule

_OF_STATE = {
    State.FINISHED: Reason.FINISHED,
    State.TERMINATING: Reason.TERMINATING,
    State.BROKEN: Reason.BROKEN,
    State.STARTING: Reason.STARTING,
    State.ADMITTED: Reason.WAITING_FOR_SCHEDULER,
}

_AFTERWARDS = {
    Reason.WAITING_FOR_SCHEDULER: State.ADMITTED,
    Reason.CREATE_REFUSED: State.HELD,
    Reason.REVOKEED: State.HELD,
}
"""The state that an instance moved by this plan has once the plan took effect, or once it was refused again."""


def verdicts(snapshot: Snapshot, members: list[Member], groups: dict[str, Group]) -> tuple[Verdict, ...]:
    """One verdict per instance, in the order of the snapshot."""
    rule = snapshot.rule
    beyond = set(_beyond_largest(rule, groups)) if rule else set()
    awaited = tuple(name for name, group in groups.items() if group.running < group.target)
    return tuple([_verdict(member, snapshot, awaited, member.instance.uid in beyond) for member in members])


def _beyond_largest(rule: Rule, groups: dict[str, Group]) -> Iterator[str]:
    """Uids of the instances that even the largest ratio has no place for: running ones last come, then held ones."""
    for name, group in groups.items():
        most = rule.largest.of(name)
        if len(group.members) <= most:
            continue
        running = [m for m in group.members if m.state is State.RUNNING]
        if len(running) - group.paired > most:
            yield from (m.instance.uid for m in in_order(running)[most + group.paired :])
        places = max(0, most - group.claimed)
        if len(group.held) - group.admit > places:
            held = in_order(m for m in group.held if m.reason is None and m.stays is None)
            yield from (m.instance.uid for m in held[places:])


def _verdict(member: Member, snapshot: Snapshot, awaited: tuple[str, ...], beyond: bool) -> Verdict:
    instance = member.instance
    if member.running and member.state is State.RUNNING and not (beyond or instance.label_problem):
        return Verdict(instance.uid, instance.name, instance.group, State.RUNNING, Reason.RUNNING)
    if member.reason is not None:
        state, reason = _AFTERWARDS[member.reason], member.reason
    elif member.stays is not None:
        words = _why_it_stays(instance, member.stays, snapshot.policy)
        return Verdict(instance.uid, instance.name, instance.group, member.state, member.stays, (words,))
    else:
        state, reason = member.state, _reason(member, snapshot, beyond)
    about = _about(reason, member, snapshot, awaited) if reason is not Reason.RUNNING else ()
    return Verdict(instance.uid, instance.name, instance.group, state, reason, about)


def _reason(member: Member, snapshot: Snapshot, beyond: bool) -> Reason:
    if member.instance.label_problem is Reason.NOT_SERVED:
        return Reason.NOT_SERVED
    if member.state is State.HELD:
        return _held_reason(member, snapshot, beyond)
    if member.state is State.RUNNING:
        if beyond:
            return Reason.SURPLUS_RUNNING
        return Reason.RUNNING if member.running else Reason.STARTING
    return _OF_STATE[member.state]


def _held_reason(member: Member, snapshot: Snapshot, beyond: bool) -> Reason:
    """The first that applies: what no pass of time mends, what a person must undo, then what passes by itself."""
    instance, rule = member.instance, snapshot.rule
    if instance.label_problem:
        return instance.label_problem
    if not (instance.made_by_us or snapshot.key.rule):
        return Reason.NOT_SERVED
    if rule is None and snapshot.key.rule:
        invalid = snapshot.problem is not None and snapshot.problem.kind is Warning.RULE_INVALID
        return Reason.RULE_INVALID if invalid else Reason.RULE_MISSING
    if rule is not None and instance.group not in rule.groups:
        return Reason.GROUP_UNKNOWN
    if snapshot.options.paused:
        return Reason.PAUSED
    own = why_not_admissible(member, snapshot.now)
    if own is not None:
        return own
    if beyond:
        return Reason.NOT_IN_RATIO
    return Reason.REVOKEED if member.memory.revoked else Reason.WAITING_FOR_RATIO


def _about(reason: Reason, member: Member, snapshot: Snapshot, awaited: tuple[str, ...]) -> tuple[str, ...]:
    """What the reason refers to; plan.explain makes a sentence of it."""
    instance, rule = member.instance, snapshot.rule
    match reason:
        case Reason.WAITING_FOR_RATIO:
            return awaited
        case Reason.NOT_IN_RATIO | Reason.SURPLUS_RUNNING if rule and instance.group is not None:
            return (str(rule.largest.of(instance.group)),)
        case Reason.GROUP_UNKNOWN if rule:
            return rule.groups
        case Reason.NAME_TAKEN:
            return (instance.name_taken,)
        case Reason.CREATE_REFUSED:
            return (member.memory.refused,)
        case Reason.JOB_INVALID:
            return instance.faults
        case Reason.REVOKEED:
            return (member.memory.revoked,)
        case Reason.RULE_MISSING | Reason.RULE_INVALID:
            return (snapshot.problem.message,) if snapshot.problem else ()
        case _:
            return (instance.trouble,) if instance.trouble else ()


def notes(snapshot: Snapshot, groups: dict[str, Group], unreachable: int) -> tuple[Note, ...]:
    """The warnings: about the rule, about ratios without enough jobs, about instances of another size."""
    rule = snapshot.rule
    found: list[Note] = []
    if snapshot.problem:
        found.append(Note(snapshot.problem.kind, snapshot.problem.message))
    found += [Note(warning, words, each.uid) for each in snapshot.instances for warning, words in each.warnings]
    found += [
        Note(Warning.JOB_INVALID, _fault_words(instance), instance.uid)
        for instance in snapshot.instances
        if instance.faults and instance.pods
    ]
    if rule is None:
        return tuple(found)
    if unreachable:
        found.append(Note(Warning.TARGET_UNREACHABLE, _unreachable_words(rule, groups, unreachable)))
    sizes = rule.largest.sizes
    found += [
        Note(Warning.INSTANCE_SIZE_MISMATCH, _size_words(instance, size), instance.uid)
        for instance in snapshot.instances
        if (size := sizes.get(instance.group or "", instance.expected)) != instance.expected
    ]
    return tuple(found)


def _why_it_stays(instance: Instance, reason: Reason, policy: Policy) -> str:
    budget = instance.budget
    if reason is Reason.REVOKE_WOULD_COST_RESTARTS and budget is not None:
        reserve = restart_reserve(budget, policy)
        return f"{budget.used} of its {budget.limit} restarts are used, {reserve} are kept for faults"
    return instance.trouble or "its pods do not exist yet: its PodGroup waits in the queue"


def _fault_words(instance: Instance) -> str:
    after = "none is replaced" if instance.made_by_us else "none is released"
    return f"{'; '.join(instance.faults)}: its pods stay, {after}"


def _unreachable_words(rule: Rule, groups: dict[str, Group], unreachable: int) -> str:
    """Names the smallest ratio that is out of reach: the next one that more jobs would open."""
    ratio = rule.ratios[unreachable - 1]
    lacking = [
        f"{number} of {name}, {groups[name].live} exist"
        for name, number in ratio.counts.items()
        if groups[name].live < number
    ]
    return f"ratio {unreachable - 1} needs {'; '.join(lacking)}"


def _size_words(instance: Instance, size: int) -> str:
    return (
        f"{instance.name} has {instance.expected} pods, server_num_per_group of {instance.group} is {size}; "
        f"it counts as one instance all the same"
    )
