"""The verdict of each instance: its state and its one reason, section 5 of the contract.

The guards stand in order, and the first that applies is the reason: what this decision does with
the instance, then labels that count for nothing, then its state. Nothing is decided here, and the
draft is only read. `explain.py` makes sentences of the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scaler.decide.decision import NOBODY, State, Verdict
from scaler.decide.draft import Draft, Why
from scaler.decide.explain import NOT_RUNNING_YET, REPLACED, refusal_in_words
from scaler.decide.notes import lacking_in_words
from scaler.decide.service.groups import Group
from scaler.decide.service.limit import why_not_deleted
from scaler.decide.service.states import (
    Member,
    Pause,
    age,
    candidate_order,
    in_order,
    restart_reserve,
    why_not_admissible,
)
from scaler.decide.training.words import is_restarting, why_it_runs, why_restarted
from scaler.decide.world import Instance, Policy, Service
from scaler.decide.world import shown as name_for_people
from scaler.names import GROUP_LABEL, RULE_LABEL
from scaler.reasons.reasons import Reason
from scaler.rules.finding import shown
from scaler.rules.labels import nearest
from scaler.rules.rule import ALL, Rule

_RELEASED = (State.RUNNING, State.STARTING, State.ADMITTED)
_OF_STATE = {
    State.FINISHED: Reason.FINISHED,
    State.TERMINATING: Reason.TERMINATING,
    State.BROKEN: Reason.BROKEN,
    State.STARTING: Reason.STARTING,
    State.ADMITTED: Reason.WAITING_FOR_SCHEDULER,
}


def verdicts_of(draft: Draft, now: float) -> tuple[Verdict, ...]:
    """One verdict for each instance of the service, in the order of its instances."""
    beyond = _beyond(draft, now)
    verdicts = []
    for member in draft.demand.members:
        state, reason, about = _verdict(member, draft, beyond.get(member.uid), now)
        instance = member.instance
        verdicts.append(Verdict(member.uid, instance.name, instance.group, state, reason, about))
    return tuple(verdicts)


def _verdict(
    member: Member, draft: Draft, beyond: Reason | None, now: float
) -> tuple[State, Reason, tuple[str, ...]]:
    """`beyond`: the reason of an instance that no ratio has a place for."""
    uid = member.uid
    service = draft.demand.service
    ends = _why_it_ends(member, draft)
    if ends is not None:  # 3b.4 Preempted, 3c ScaledDown, 3d RestartedForFault
        return State.TERMINATING, *ends
    if _runs_as_it_should(member, draft, beyond):  # 2 Running, 3d RunningSmaller
        why = why_it_runs(member)
        return State.RUNNING, why.reason, why.about
    if uid in draft.admitted:  # 3.3, 3b.6 to 3b.9 WaitingForScheduler; CreateRefused
        reason, about = draft.admitted[uid]
        state = State.HELD if reason is Reason.CREATE_REFUSED else State.ADMITTED
        return state, reason, about
    if uid in draft.revoked:  # 3.5 Revoked, or what of 3b revokes it
        reason, about = draft.revoked[uid]
        return State.HELD, reason, about
    if uid in draft.cannot_go:  # 3.5 RevokeWouldCostRestarts
        about = (_why_it_stays(member.instance, draft.demand.policy),)
        return member.state, Reason.REVOKE_WOULD_COST_RESTARTS, about
    if uid in draft.waits:  # 3b.3 to 3b.7, what waits for room
        reason, about = draft.waits[uid]
        return State.HELD, reason, about
    wrong_label = _wrong_label(member.instance, service)
    if wrong_label is not None and member.state in _RELEASED:  # GroupUnknown and the like
        reason, about = wrong_label
        return member.state, reason, about
    reason = _reason_of_state(member, service, beyond, now)
    if reason is Reason.SCALED_DOWN and _is_wanted_again(member, draft):
        reason = Reason.TERMINATING
    return member.state, reason, _about(reason, member, draft)


def _why_it_ends(member: Member, draft: Draft) -> Why | None:
    """Why all its pods are deleted, in this decision or since one before; None where nothing was
    decided. What was evicted before has the reason of its state."""
    if member.uid in draft.restarted or is_restarting(member):
        return why_restarted(draft.memory_of(member.uid))
    if member.uid not in draft.evicted:
        return None
    reason = _why_evicted(draft.evicted[member.uid])
    return Why(reason, _about(reason, member, draft))


def _is_wanted_again(member: Member, draft: Draft) -> bool:
    """3c: whether an instance whose pods were deleted because fewer were wanted has a place now, or
    what its owner makes in its stead has: more are wanted since. The older one has the place."""
    rule = draft.demand.rule
    name = member.instance.group or ""
    group = draft.demand.groups.get(name)
    if member.state is not State.TERMINATING or rule is None or group is None:
        return False
    places = rule.largest.of(name)
    for other in group.members:
        is_going = other.state is State.TERMINATING and other.memory.preempted_for == NOBODY
        if other.is_live and not (is_going and age(other) >= age(member)):
            places -= 1
    return places > 0 if member.is_live else places >= 0


def _runs_as_it_should(member: Member, draft: Draft, beyond: Reason | None) -> bool:
    instance = member.instance
    if not (member.running and member.state is State.RUNNING):
        return False
    wrong_labels = instance.label_problem or instance.mislabelled
    return not (beyond or wrong_labels or draft.demand.target is None)


# What no ratio has a place for


def _beyond(draft: Draft, now: float) -> dict[str, Reason]:
    """Uid of each instance beyond the largest ratio -> its reason: NotInRatio, or ScaledDown where
    only the limited rule has no place for it (3c)."""
    full = draft.demand.service.rule
    limited = draft.demand.rule
    if full is None or limited is None:
        return {}
    beyond: dict[str, Reason] = {}
    if limited is not full:
        beyond.update(dict.fromkeys(_beyond_largest(limited, draft, now), Reason.SCALED_DOWN))
    beyond.update(dict.fromkeys(_beyond_largest(full, draft, now), Reason.NOT_IN_RATIO))
    return beyond


def _beyond_largest(rule: Rule, draft: Draft, now: float) -> Iterator[str]:
    """Uids of instances beyond the largest ratio, of each group: the last running ones, then the
    last held ones."""
    for name, group in draft.demand.groups.items():
        places = rule.largest.of(name)
        if len(group.members) > places:
            yield from _running_beyond(group, places)
            yield from _held_beyond(group, places, draft, now)


def _running_beyond(group: Group, places: int) -> Iterator[str]:
    running = [member for member in group.members if member.state is State.RUNNING]
    places += group.paired  # a pair of revisions counts as one instance
    if len(running) > places:
        for member in in_order(running)[places:]:
            yield member.uid


def _held_beyond(group: Group, places: int, draft: Draft, now: float) -> Iterator[str]:
    left = max(0, places - group.taken_in_pairs)
    if len(group.held) <= left:
        return
    named = draft.admitted.keys() | draft.waits.keys()
    counted = [m for m in group.held if m.uid in named or why_not_admissible(m, now) is None]
    counted.sort(key=lambda member: (member.uid not in named, candidate_order(member)))
    for member in counted[left:]:
        if member.uid not in named:
            yield member.uid


# What follows from the instance itself


def _reason_of_state(member: Member, service: Service, beyond: Reason | None, now: float) -> Reason:
    """The reason of an instance that this decision leaves as it is."""
    if member.instance.label_problem is Reason.NOT_SERVED:
        return Reason.NOT_SERVED
    if member.state is State.HELD:
        return _held_reason(member, service, beyond, now)
    if member.state is State.TERMINATING and member.memory.preempted_for:
        return _why_evicted(member.memory.preempted_for)
    if member.state is State.RUNNING and beyond:
        return Reason.SURPLUS_RUNNING
    if member.state is State.RUNNING:  # without what counts-from asks for it is still starting
        return Reason.RUNNING if member.running else Reason.STARTING
    return _OF_STATE[member.state]


def _held_reason(member: Member, service: Service, beyond: Reason | None, now: float) -> Reason:
    """The first reason that applies: first what people have to fix, then what people set, then
    what ends by itself."""
    instance = member.instance
    rule = service.rule
    if instance.label_problem:
        return instance.label_problem
    if not (instance.made_by_us or service.key.rule or rule):
        return Reason.NOT_SERVED
    if rule is None and service.key.rule:
        problem = service.problem
        return Reason.RULE_MISSING if problem is None else Reason(problem.kind.value)
    if rule is not None and instance.group not in rule.groups:
        return Reason.GROUP_UNKNOWN
    if service.options.paused:
        return Reason.PAUSED
    why_not = why_not_admissible(member, now)
    if why_not:
        return why_not
    if beyond:
        return beyond
    return Reason.REVOKED if member.memory.revoked else Reason.WAITING_FOR_RATIO


def _why_evicted(beneficiary: str) -> Reason:
    return Reason.SCALED_DOWN if beneficiary == NOBODY else Reason.PREEMPTED


def _why_it_stays(instance: Instance, policy: Policy) -> str:
    budget = instance.budget
    if budget is None:
        return "revocations are off"
    reserve = restart_reserve(budget, policy)
    return f"{budget.used} of its {budget.limit} restarts are used, {reserve} are kept for faults"


def _wrong_label(instance: Instance, service: Service) -> Why | None:
    """The reason and words of an instance whose labels count for nothing; None when they are
    right."""
    rule = service.rule
    problem = service.problem
    if instance.mislabelled:
        return Why(instance.mislabelled[0], instance.mislabelled[1:])
    lacks = instance.label_problem
    if lacks is not None and lacks.row.missing_label:
        label = lacks.row.missing_label
        words = f"label {label} is missing or empty, so it counts for no service: set it"
        return Why(lacks, (words,))
    if rule is None and problem is not None:
        words = f"it counts for nothing: {problem.message}. Fix that, or correct label {RULE_LABEL}"
        return Why(Reason(problem.kind.value), (words,))
    if rule is None or instance.group is None or instance.group in rule.groups:
        return None
    near = nearest(instance.group, rule.groups)
    guess = f"did you mean {near}?" if near else f"they name {', '.join(rule.groups)}."
    words = (
        f"label {GROUP_LABEL} is {shown(instance.group)}, which no ratio of the rule names: {guess}"
        " It counts for nothing until the label or the rule is corrected"
    )
    return Why(Reason.GROUP_UNKNOWN, (words,))


# What the reason refers to


def _about(reason: Reason, member: Member, draft: Draft) -> tuple[str, ...]:
    """The words that the reason refers to, without empty ones."""
    words_of = _REFERS_TO.get(reason, _trouble)
    return tuple(word for word in words_of(member, draft) if word)


def _trouble(member: Member, _: Draft) -> tuple[str, ...]:
    return (_trouble_of(member),)


def _trouble_of(member: Member) -> str:
    """What is wrong with its pods; a pod that is only not running yet is no trouble."""
    trouble = member.instance.trouble
    return "" if trouble.startswith(NOT_RUNNING_YET) else trouble


def _awaited_of_scheduler(member: Member, draft: Draft) -> tuple[str, ...]:
    if member.pause is Pause.REFUSED_BY_KUBELET:
        return (refusal_in_words(member.instance.refusals),)
    if member.pause is Pause.CREATION_REFUSED:
        return (member.memory.refused,)
    lacks = draft.without_room.get(member.uid, ())
    return member.instance.scheduler_says, _trouble_of(member), *lacks


def _broken(member: Member, draft: Draft) -> tuple[str, ...]:
    trouble = member.instance.trouble
    if member.memory.gave_place:
        trouble = f"not all its pods were Ready for {draft.demand.policy.start_timeout:g} s"
    if member.has_slot:
        return trouble, "its place is kept for a grace period"
    return trouble, "its place is free for another instance"


def _awaited_of_ratio(_: Member, draft: Draft) -> tuple[str, ...]:
    """The groups that lack an instance; where none does, what the next larger ratio lacks."""
    rule = draft.demand.rule
    if draft.lacking or rule is None:
        return tuple(draft.lacking)
    return (lacking_in_words(draft.demand, rule),)


def _evicted_for(member: Member, draft: Draft) -> tuple[str, ...]:
    return (name_for_people(draft.memory_of(member.uid).preempted_for),)


def _rule_problem(_: Member, draft: Draft) -> tuple[str, ...]:
    problem = draft.demand.service.problem
    return (problem.message,) if problem else ()


def _finished(member: Member, _: Draft) -> tuple[str, ...]:
    return _trouble_of(member), REPLACED if member.instance.replaced else ""


def _groups_of_rule(_: Member, draft: Draft) -> tuple[str, ...]:
    rule = draft.demand.rule
    return rule.groups if rule else ()


def _places_in_rule(member: Member, draft: Draft) -> tuple[str, ...]:
    return _places(draft.demand.service.rule, member)


def _places_wanted(member: Member, draft: Draft) -> tuple[str, ...]:
    return _places(draft.demand.rule, member)


def _places_and_why_not_drained(member: Member, draft: Draft) -> tuple[str, ...]:
    demand = draft.demand
    places = _places(demand.rule, member)
    if demand.replicas >= ALL:
        return places
    if demand.paused:
        return (*places, "its rule is paused")
    return (*places, why_not_deleted(member))


def _places(rule: Rule | None, member: Member) -> tuple[str, ...]:
    """How many instances of its group the largest ratio names."""
    group = member.instance.group
    if rule is None or group is None:
        return (_trouble_of(member),)
    return (str(rule.largest.of(group)),)


_REFERS_TO: dict[Reason, Callable[[Member, Draft], tuple[str, ...]]] = {
    Reason.WAITING_FOR_RATIO: _awaited_of_ratio,
    Reason.NOT_IN_RATIO: _places_in_rule,
    Reason.SCALED_DOWN: _places_wanted,
    Reason.SURPLUS_RUNNING: _places_and_why_not_drained,
    Reason.GROUP_UNKNOWN: _groups_of_rule,
    Reason.RULE_MISSING: _rule_problem,
    Reason.RULE_INVALID: _rule_problem,
    Reason.NAME_TAKEN: lambda member, _: (member.instance.name_taken,),
    Reason.JOB_INVALID: lambda member, _: member.instance.faults or (member.memory.never_placed,),
    Reason.CREATE_REFUSED: lambda member, draft: (draft.memory_of(member.uid).refused,),
    Reason.REVOKED: lambda member, draft: (draft.memory_of(member.uid).revoked,),
    Reason.PREEMPTED: _evicted_for,
    Reason.WAITING_FOR_SCHEDULER: _awaited_of_scheduler,
    Reason.BROKEN: _broken,
    Reason.FINISHED: _finished,
    Reason.RUNNING: lambda _, __: (),
}
"""Of the other reasons: what is wrong with the pods of the instance."""
