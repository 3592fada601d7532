"""One service's decision: section 3 of the contract. Values in, values out.

    snapshot -> states and groups -> target -> complete, admit, revoke -> one verdict for each instance

Must not do I/O, read a clock, log, or know what an AscendJob is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import msgspec

from scaler.decide.groups import Group
from scaler.decide.lifecycle import next_step, recheck_at
from scaler.decide.members import (
    Member,
    affords_revoke,
    can_be_released,
    in_order,
    newest_admission_first,
    why_not_admissible,
)
from scaler.decide.state import (
    NEVER_SEEN,
    counts_as_running,
    is_in_flight,
    observe_restarts,
    observe_state,
    runs_undisturbed,
    state_of,
)
from scaler.decide.verdicts import notes, verdicts
from scaler.decide.world import (
    Action,
    Admit,
    Complete,
    Instance,
    Memory,
    Plan,
    Policy,
    Reason,
    Revoke,
    Snapshot,
    State,
)
from scaler.rules.rule import Ratio, Rule


class Target(msgspec.Struct, frozen=True):
    """The ratio to work towards. `unreachable` ratios, all larger, need more instances than are live."""

    index: int
    complete: bool
    unreachable: int


def plan(snapshot: Snapshot) -> tuple[Plan, Memory]:
    """The plan for one service and the memory for its next snapshot."""
    members = [_look_at(instance, snapshot) for instance in snapshot.instances]
    groups = _sort_into_groups(members, snapshot)
    target: Target | None = None
    actions: list[Action] = []
    if snapshot.rule is not None:
        target = _set_targets(groups, snapshot.rule)
        actions = [] if snapshot.options.paused else _act(groups, snapshot)
    elif not snapshot.key.rule:
        actions = _serve_without_rule(members, snapshot.now)
    result = Plan(
        key=snapshot.key,
        target_index=target.index if target else -1,
        target={name: group.target for name, group in groups.items()} if target else {},
        complete=target.complete if target else not snapshot.key.rule,
        groups={name: group.plan() for name, group in groups.items()},
        verdicts=verdicts(snapshot, members, groups),
        actions=(*actions, *(member.step for member in members if member.step is not None)),
        notes=notes(snapshot, groups, target.unreachable if target else 0),
        recheck_at=_recheck_at(members, snapshot),
    )
    return result, _memory(members, snapshot.memory)


def _set_targets(groups: dict[str, Group], rule: Rule) -> Target:
    running = {name: group.running for name, group in groups.items()}
    live = {name: group.live for name, group in groups.items()}
    target = choose_target(rule.ratios, running, live)
    ratio = rule.ratios[target.index]
    for name, group in groups.items():
        group.aim(ratio.of(name))
    return target


def choose_target(ratios: Sequence[Ratio], running: Mapping[str, int], live: Mapping[str, int]) -> Target:
    """From the smallest ratio upward the first that is not satisfied, among those that have enough live instances.

    Ratios never rise from first to last (the rule's own check), so both "satisfied" and "reachable" hold from
    some index on, and two binary searches find the answer in ladders of any length.
    """
    satisfied_from = bisect_left(ratios, True, key=lambda ratio: _covers(running, ratio))
    reachable_from = bisect_left(ratios, True, key=lambda ratio: _covers(live, ratio))
    if reachable_from == len(ratios):
        # In a rollout more may run than will be left when it is over.
        return Target(len(ratios) - 1, complete=satisfied_from < len(ratios), unreachable=len(ratios))
    if satisfied_from > reachable_from:
        return Target(satisfied_from - 1, complete=False, unreachable=reachable_from)
    return Target(reachable_from, complete=True, unreachable=reachable_from)


def _covers(counts: Mapping[str, int], ratio: Ratio) -> bool:
    for group, number in ratio.counts.items():  # noqa: SIM110 - on the hot path, a third of the time of all()
        if counts.get(group, 0) < number:
            return False
    return True


# 1. what is there


def _look_at(instance: Instance, snapshot: Snapshot) -> Member:
    now, policy = snapshot.now, snapshot.policy
    remembered = snapshot.memory.instances.get(instance.uid, NEVER_SEEN)
    step = next_step(instance, now)
    if runs_undisturbed(instance, remembered):
        return Member(instance, remembered, State.RUNNING, running=True, step=step)
    memory = observe_restarts(instance, remembered, now)
    state = state_of(instance, memory, now, policy)
    member = Member(instance, observe_state(instance, state, memory, now), state, step=step)
    member.running = counts_as_running(instance, state, snapshot.options.counts_from)
    member.in_flight = not member.running and is_in_flight(state, member.memory, now, policy)
    return member


def _sort_into_groups(members: list[Member], snapshot: Snapshot) -> dict[str, Group]:
    """Counts per group: those of the rule, then any other that an instance names (its target is 0)."""
    groups = {name: Group() for name in snapshot.rule.groups} if snapshot.rule else {}
    for member in members:
        name = member.instance.group
        if name is None or member.instance.label_problem:
            continue
        group = groups.get(name)
        if group is None:
            group = groups[name] = Group()
        _count(member, group)
    for group in groups.values():
        if group.rolling:
            group.roll()
    return groups


def _count(member: Member, group: Group) -> None:
    group.members.append(member)
    if member.running:
        group.running += 1
        if member.instance.outdated:
            group.rolling = True
    elif member.in_flight:
        group.in_flight += 1
    if member.step is not None:
        pass  # not the ratio's business in this pass
    elif member.state is State.HELD:
        group.held.append(member)
    elif member.state is State.ADMITTED or member.state is State.BROKEN or member.instance.stripped:
        group.partly.append(member)
    if not (member.instance.owner_deleting or member.instance.owner_finished):
        group.live += 1


# 2. what to do


def _act(groups: dict[str, Group], snapshot: Snapshot) -> list[Action]:
    missing = any(group.running < group.target for group in groups.values())
    actions: list[Action] = []
    for group in groups.values():
        if group.partly:
            actions += _complete(group)
        if group.held:
            actions += _admit(group, snapshot)
            group.claimed = group.places
            actions += _tidy(group)
        if group.partly:
            actions += _revoke(group, groups, snapshot.policy, missing=missing and snapshot.policy.revoke)
    return actions


def _complete(group: Group) -> list[Action]:
    """Heal instances that have live pods, before anything new starts. One without a slot needs a free one."""
    return [
        Complete(member.instance.uid)
        for member in in_order(member for member in group.partly if _is_incomplete(member))
        if (group.keeps(member) if member.running or member.in_flight else group.seat(member))
    ]


def _is_incomplete(member: Member) -> bool:
    """Has live pods, and something to create or release. One whose old pod is still terminating has to wait for it, one
    whose job was spoilt meanwhile until that is mended. What others make can be released, never made."""
    i = member.instance
    has_pods = member.state in (State.ADMITTED, State.STARTING, State.RUNNING, State.BROKEN)
    lacks = i.gated > 0 or i.misplaced or (i.made_by_us and (i.stripped or i.pods + i.terminating < i.expected))
    return has_pods and lacks and not i.faults


def _admit(group: Group, snapshot: Snapshot) -> list[Action]:
    """Those that can start now get the places; what is left is kept for those whose pods are yet to come."""
    if group.taken >= group.target and not group.rollouts:
        return []
    actions: list[Action] = []
    candidates = in_order(m for m in group.held if why_not_admissible(m, snapshot.now) is None)
    candidates.sort(key=can_be_released, reverse=True)
    for member in candidates:
        beside = group.taken >= group.target
        if not group.seat(member):
            continue
        if not can_be_released(member):
            member.stays = Reason.WAITING_FOR_SCHEDULER
            continue
        member.reason = _once_admitted(member)
        group.admit += 1
        group.beside += beside
        actions.append(Admit(member.instance.uid))
    return actions


def _once_admitted(member: Member) -> Reason:
    """What was refused before has to succeed first: nobody wants to read every few minutes that it was tried again."""
    return Reason.CREATE_REFUSED if member.memory.refused else Reason.WAITING_FOR_SCHEDULER


def _revoke(group: Group, groups: dict[str, Group], policy: Policy, *, missing: bool) -> list[Action]:
    """Take unbound surplus back when some group misses an instance; a half-made surplus instance in any case. What
    nothing holds would come again, and so without end."""
    if group.occupied <= group.target:
        return []
    admitted = (m for m in group.partly if m.state is State.ADMITTED and not m.instance.unheld)
    unbound = (m for m in admitted if not m.instance.bound)
    candidates = newest_admission_first(m for m in unbound if missing or _is_incomplete(m))
    candidates.sort(key=lambda m: affords_revoke(m.instance, policy), reverse=True)
    chosen: list[Member] = []
    for member in candidates:
        if group.places <= group.target:
            break
        if not group.unseat(member):
            continue
        if affords_revoke(member.instance, policy):
            chosen.append(member)
        else:
            member.stays = Reason.REVOKE_WOULD_COST_RESTARTS
    awaited = ", ".join(sorted(name for name, other in groups.items() if other.running < other.target))
    for member in chosen:
        member.reason = Reason.REVOKEED
        member.memory = msgspec.structs.replace(member.memory, revoked=awaited or "-")
    group.revoke = len(chosen)
    return [Revoke(member.instance.uid) for member in chosen]


def _tidy(group: Group) -> list[Action]:
    """A held instance keeps no PodGroup of ours: the scheduler would reserve room for it."""
    return [
        Revoke(member.instance.uid)
        for member in group.held
        if member.instance.leftovers and member.instance.made_by_us and member.reason is None
    ]


def _serve_without_rule(members: list[Member], now: float) -> list[Action]:
    """Jobs that name no rule (MindIE's controller and coordinator) have nothing to wait for."""
    actions: list[Action] = []
    for member in members:
        # A training job above all is not ours, whatever it lacks; what others make was never held.
        if member.instance.label_problem or not member.instance.made_by_us or member.step is not None:
            continue
        if member.state is State.HELD and why_not_admissible(member, now) is None:
            member.reason = _once_admitted(member)
            actions.append(Admit(member.instance.uid))
        elif _is_incomplete(member):
            actions.append(Complete(member.instance.uid))
    return actions


# 3. what to remember


def _memory(members: list[Member], before: Memory) -> Memory:
    """The next memory; the same object when nothing changed, so that a pass at rest allocates nothing lasting."""
    after = {member.instance.uid: member.memory for member in members}
    return before if after == before.instances else Memory(after)


def _recheck_at(members: list[Member], snapshot: Snapshot) -> float:
    """The earliest moment after now at which time alone may change a state or a verdict; 0.0 = never."""
    policy = snapshot.policy
    moments = []
    for member in members:
        memory = member.memory
        if memory.broken_since:
            moments.append(memory.broken_since + policy.broken_grace)
        if memory.restarted_at:
            moments.append(memory.restarted_at + policy.stable_after)
        if memory.refused_until:
            moments.append(memory.refused_until)
        life = member.instance.life
        if not member.instance.made_by_us:
            continue
        if life.failed or life.policy.deadline or member.instance.owner_finished:  # few, and this is the hot path
            moments += recheck_at(member.instance)
    return min((moment for moment in moments if moment > snapshot.now), default=0.0)
