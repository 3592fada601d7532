"""The draft of one service, which a decision fills, and the plan made from it, with the reason of
each instance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from scaler.decide.decision import (
    NOBODY,
    Action,
    Admit,
    Complete,
    Evict,
    Note,
    Plan,
    Revoke,
    State,
    Verdict,
)
from scaler.decide.memory import NEVER_SEEN, InstanceMemory, ServiceMemory
from scaler.decide.nodes import NodeClass, PodRequests, joined
from scaler.decide.service.demand import Demand
from scaler.decide.service.groups import why_not_drained
from scaler.decide.service.states import (
    Member,
    candidate_order,
    in_order,
    may_be_revoked,
    restart_reserve,
    why_not_admissible,
)
from scaler.decide.world import Instance, Policy, Reason, Service, Warning
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.rules.finding import shown
from scaler.rules.labels import nearest
from scaler.rules.rule import ALL, Rule

_LABELS = {
    Reason.RULE_MISSING: RULE_LABEL,
    Reason.GROUP_LABEL_MISSING: GROUP_LABEL,
    Reason.JOB_ID_MISSING: JOB_ID_LABEL,
}
_BEYOND = (Reason.NOT_IN_RATIO, Reason.SURPLUS_RUNNING, Reason.SCALED_DOWN)
_OF_STATE = {
    State.FINISHED: Reason.FINISHED,
    State.TERMINATING: Reason.TERMINATING,
    State.BROKEN: Reason.BROKEN,
    State.STARTING: Reason.STARTING,
    State.ADMITTED: Reason.WAITING_FOR_SCHEDULER,
}
Why = tuple[Reason, tuple[str, ...]]
NOT_MADE = "its pods do not exist yet"


class Draft:
    """Changed during one decision. An instance that the draft does not name stays as it is, or
    held."""

    def __init__(
        self, demand: Demand, classes: frozenset[NodeClass] = frozenset(), *, shares: bool = True
    ) -> None:
        """`classes`: of nodes that the service may use. `shares`: another service may use one of
        these nodes."""
        self.demand = demand
        self.classes = classes
        self.shares = shares
        self.memory: ServiceMemory = demand.memory
        self._changed: dict[str, InstanceMemory] = {}
        self.groups = {name: group.copy() for name, group in demand.groups.items()}
        self.admitted: dict[str, Why] = {}
        self.revoked: dict[str, Why] = {}
        self.stays = {member.uid for member in demand.undrained}
        """Uids of instances that should be revoked or drained, and cannot be."""
        self.waits: dict[str, Why] = {}
        self.evicted = {member.uid: NOBODY for member in demand.drained}
        """Uid -> the beneficiary; `NOBODY` when `spec.replicas` asks for fewer instances."""
        self.nominated = set(self.evicted)
        """Uids of victims whose room is reserved already: evicted now, or after `trade_after`."""
        for uid in self.evicted:
            self.remember_of(uid, preempted_for=NOBODY)
        self.chosen: set[str] = set()
        """Uids of the instances chosen for the minimum: it is reserved or probed, or the service
        shares no nodes."""
        self.short = False
        """An instance beyond the minimum is missing, and running surplus of the service would make
        room for it."""
        self.decide_again = False
        """This decision makes other actions possible: decide again at once."""

    def shares_nodes_with(self, other: Draft) -> bool:
        """Whether some node could run pods of both services."""
        return other is self or not self.classes.isdisjoint(other.classes)

    def remember(self, **changes: Any) -> None:
        self.memory = msgspec.structs.replace(self.memory, **changes)

    def memory_of(self, uid: str) -> InstanceMemory:
        """The memory of an instance, with the changes so far."""
        return self._changed.get(uid) or self.memory.instances.get(uid, NEVER_SEEN)

    def remember_of(self, uid: str, **changes: Any) -> None:
        before = self.memory_of(uid)
        after = msgspec.structs.replace(before, **changes)
        if after != before:
            self._changed[uid] = after

    def outcome(self) -> ServiceMemory:
        """The next memory of the service; the same object as before when nothing changed."""
        if self._changed:
            self.remember(instances={**self.memory.instances, **self._changed})
        return self.demand.seen if self.memory == self.demand.seen else self.memory

    @property
    def lacking(self) -> list[str]:
        """Groups that run fewer instances than the target."""
        return [name for name, group in self.demand.groups.items() if group.running < group.target]

    @property
    def awaited(self) -> str:
        return ", ".join(sorted(self.lacking)) or NOBODY

    @property
    def has_changes(self) -> bool:
        return bool(self._changed or self.admitted or self.revoked)

    @property
    def heeds_room(self) -> bool:
        """Something of the service waits for room or takes it: a change of what is free alone may
        change the plan."""
        demand = self.demand
        return bool(
            demand.lacks_minimum
            or demand.hands
            or demand.irrevocable
            or self.waits
            or self.admitted
        )

    @property
    def plan_inputs(self) -> tuple[Collection[str], ...]:
        """All that the plan depends on beside the demand; all empty in a new draft of a service
        without drains."""
        return self.admitted, self.revoked, self.stays, self.waits, self.evicted

    def admit(self, member: Member, about: tuple[str, ...] = ()) -> None:
        """Give the instance pods that may be scheduled, and a place where a ratio counts. After a
        refused creation the reason stays `CreateRefused` until a creation succeeds: otherwise each
        new try would cause events."""
        if self.demand.target is not None:
            self.groups[member.instance.group or ""].admit(member)
        refused = self.memory_of(member.uid).refused
        why = (
            (Reason.CREATE_REFUSED, (refused,))
            if refused
            else (Reason.WAITING_FOR_SCHEDULER, about)
        )
        self.admitted[member.uid] = why

    def revoke(self, member: Member, why: Why) -> bool:
        """Revoke the admission of the instance. False when that is not possible: the instance stays
        admitted."""
        if member.uid in self.revoked:
            return True
        if not self.demand.policy.revoke or member.instance.unheld:
            return False
        if not may_be_revoked(member.instance, self.demand.policy):
            self.stays.add(member.uid)
            return False
        self.revoked[member.uid] = why
        ended = (
            self.memory_of(member.uid).turn_over
            or self.memory.ended_at
            or self.memory_of(member.uid).backoff_until
        )
        words = (
            "the scheduler did not bind it in its turn"
            if ended
            else "; ".join(why[1]) or why[0].value
        )
        self.remember_of(member.uid, turn_since=0.0, revoked=words)
        return True


def requests_of(members: Iterable[Member]) -> PodRequests:
    """The requests of all unbound pods of these instances."""
    return joined(*(member.instance.unbound for member in members))


def plan_of(draft: Draft, now: float) -> Plan:
    """The plan of one service; without actions while writes for the service are under way."""
    demand = draft.demand
    service = demand.service
    target = demand.target
    if service.assumed:  # no actions, so the verdicts name none
        draft = Draft(demand)
    revoked = [member.instance.group for member in demand.hands if member.uid in draft.revoked]
    return Plan(
        key=service.key,
        target_index=target.index + demand.left_out if target and demand.replicas else -1,
        target=(
            {name: group.target for name, group in demand.groups.items()}
            if target and demand.replicas
            else {}
        ),
        complete=target.complete if target else not service.key.rule,
        groups={
            name: group.plan(revoke=revoked.count(name)) for name, group in draft.groups.items()
        },
        verdicts=_verdicts(draft, now),
        actions=() if service.assumed else tuple(_actions(draft)),
        notes=_notes(demand),
        serves=demand.serves and target is not None,
        replicas=demand.replicas,
    )


def _actions(draft: Draft) -> Iterator[Action]:
    demand = draft.demand
    if demand.completes:
        completes = demand.completes - draft.revoked.keys() - draft.evicted.keys()
        yield from (Complete(member.uid) for member in demand.members if member.uid in completes)
    yield from map(Admit, draft.admitted)
    yield from map(Revoke, draft.revoked)
    if demand.target is not None and not demand.paused:
        # A held instance must not keep a PodGroup of ours: the scheduler would reserve room for the
        # PodGroup.
        left = (m for group in demand.groups.values() for m in group.held if m.instance.leftovers)
        yield from (
            Revoke(m.uid) for m in left if m.instance.made_by_us and m.uid not in draft.admitted
        )
    yield from (Evict(uid, beneficiary) for uid, beneficiary in draft.evicted.items())
    yield from [member.step for member in demand.members if member.step is not None]


def _verdicts(draft: Draft, now: float) -> tuple[Verdict, ...]:
    demand = draft.demand
    full = demand.service.rule
    rule = demand.rule
    # Uid of each instance beyond the largest ratio -> the reason: of the full rule, or only of the
    # limited one.
    beyond: dict[str, Reason] = {}
    if full is not None and rule is not None:
        if rule is not full:
            beyond = dict.fromkeys(_beyond_largest(rule, draft, now), Reason.SCALED_DOWN)
        beyond |= dict.fromkeys(_beyond_largest(full, draft, now), Reason.NOT_IN_RATIO)
    return tuple(
        [
            Verdict(
                m.uid,
                m.instance.name,
                m.instance.group,
                *_verdict(m, draft, beyond.get(m.uid), now),
            )
            for m in demand.members
        ]
    )


def _beyond_largest(rule: Rule, draft: Draft, now: float) -> Iterator[str]:
    """Uids of instances beyond the largest ratio, of each group: the last running ones, then the
    last held ones."""
    for name, group in draft.demand.groups.items():
        most = rule.largest.of(name)
        if len(group.members) <= most:
            continue
        running = [m for m in group.members if m.state is State.RUNNING]
        if len(running) - group.paired > most:
            yield from (m.uid for m in in_order(running)[most + group.paired :])
        places = max(0, most - group.fewest)
        if len(group.held) > places:
            named = draft.admitted.keys() | draft.waits.keys()
            held = [m for m in group.held if m.uid in named or why_not_admissible(m, now) is None]
            held.sort(key=lambda m: (m.uid not in named, candidate_order(m)))
            yield from (m.uid for m in held[places:] if m.uid not in named)


def _verdict(
    member: Member, draft: Draft, beyond: Reason | None, now: float
) -> tuple[State, Reason, tuple[str, ...]]:
    instance = member.instance
    uid = member.uid
    if uid in draft.evicted:
        reason = _why_evicted(draft.evicted[uid])
        return State.TERMINATING, reason, _about(reason, member, draft)
    wrong = beyond or instance.label_problem or instance.mislabelled or draft.demand.target is None
    if member.running and member.state is State.RUNNING and not wrong:
        return State.RUNNING, Reason.RUNNING, ()
    if uid in draft.admitted:
        reason, about = draft.admitted[uid]
        return State.HELD if reason is Reason.CREATE_REFUSED else State.ADMITTED, reason, about
    if uid in draft.revoked:
        return State.HELD, *draft.revoked[uid]
    if uid in draft.stays:
        return (
            member.state,
            Reason.REVOKE_WOULD_COST_RESTARTS,
            (_why_it_stays(instance, draft.demand.policy),),
        )
    if uid in draft.waits:
        return State.HELD, *draft.waits[uid]
    wrong_label = _wrong_label(instance, draft.demand.service)
    if wrong_label is not None and member.state in (State.RUNNING, State.STARTING, State.ADMITTED):
        return member.state, *wrong_label
    reason = _reason(member, draft.demand.service, beyond, now)
    return member.state, reason, _about(reason, member, draft)


def _reason(member: Member, service: Service, beyond: Reason | None, now: float) -> Reason:
    if member.instance.label_problem is Reason.NOT_SERVED:
        return Reason.NOT_SERVED
    if member.state is State.HELD:
        return _held_reason(member, service, beyond, now)
    if member.state is State.TERMINATING and member.memory.preempted_for:
        return _why_evicted(member.memory.preempted_for)
    if member.state is State.RUNNING:
        if beyond:
            return Reason.SURPLUS_RUNNING
        return Reason.RUNNING if member.running else Reason.STARTING
    return _OF_STATE[member.state]


def _why_evicted(beneficiary: str) -> Reason:
    return Reason.SCALED_DOWN if beneficiary == NOBODY else Reason.PREEMPTED


def _wrong_label(instance: Instance, service: Service) -> Why | None:
    rule = service.rule
    problem = service.problem
    if instance.mislabelled:
        return instance.mislabelled[0], instance.mislabelled[1:]
    if instance.label_problem in _LABELS:
        words = (
            f"label {_LABELS[instance.label_problem]} is missing or empty, so it counts for no"
            " service: set it"
        )
        return instance.label_problem, (words,)
    if rule is None and problem is not None:
        words = (
            f"it counts for nothing: {problem.message}. Mend that, or correct label {RULE_LABEL}"
        )
        return Reason(problem.kind.value), (words,)
    if rule is None or instance.group is None or instance.group in rule.groups:
        return None
    near = nearest(instance.group, rule.groups)
    guess = f"did you mean {near}?" if near else f"they name {', '.join(rule.groups)}."
    words = (
        f"label {GROUP_LABEL} is {shown(instance.group)}, which no ratio of the rule names: {guess}"
    )
    return Reason.GROUP_UNKNOWN, (
        f"{words} It counts for nothing until the label or the rule is corrected",
    )


def _held_reason(member: Member, service: Service, beyond: Reason | None, now: float) -> Reason:
    """The first reason that applies: first what people have to mend, then what people set, then
    what ends by itself."""
    instance = member.instance
    rule = service.rule
    if instance.label_problem:
        return instance.label_problem
    if not (instance.made_by_us or service.key.rule):
        return Reason.NOT_SERVED
    if rule is None and service.key.rule:
        return (
            Reason(service.problem.kind.value)
            if service.problem is not None
            else Reason.RULE_MISSING
        )
    if rule is not None and instance.group not in rule.groups:
        return Reason.GROUP_UNKNOWN
    if service.options.paused:
        return Reason.PAUSED
    otherwise = Reason.REVOKED if member.memory.revoked else Reason.WAITING_FOR_RATIO
    return why_not_admissible(member, now) or beyond or otherwise


def _about(reason: Reason, member: Member, draft: Draft) -> tuple[str, ...]:
    """The words that the reason refers to; `decide/explain.py` makes a sentence of them."""
    instance = member.instance
    service = draft.demand.service
    rule = service.rule if reason is Reason.NOT_IN_RATIO else draft.demand.rule
    memory = draft.memory_of(member.uid)
    if rule and instance.group is not None and reason in _BEYOND:
        limited = reason is Reason.SURPLUS_RUNNING and draft.demand.replicas < ALL
        stays = "its rule is paused" if draft.demand.paused else why_not_drained(member)
        return str(rule.largest.of(instance.group)), *((stays,) if limited and stays else ())
    slot = (
        "it holds its slot for a grace period"
        if member.has_slot
        else "its slot is free for another"
    )
    problem = service.problem.message if service.problem else ""
    words: dict[Reason, tuple[str, ...]] = {
        Reason.WAITING_FOR_RATIO: tuple(draft.lacking),
        Reason.GROUP_UNKNOWN: rule.groups if rule else (),
        Reason.NAME_TAKEN: (instance.name_taken,),
        Reason.CREATE_REFUSED: (memory.refused,),
        Reason.JOB_INVALID: instance.faults,
        Reason.REVOKED: (memory.revoked,),
        Reason.PREEMPTED: (memory.preempted_for,),
        Reason.RULE_MISSING: (problem,),
        Reason.RULE_INVALID: (problem,),
        Reason.BROKEN: (instance.trouble, slot),
        Reason.RUNNING: (),
    }
    return tuple(filter(None, words.get(reason, (instance.trouble,))))


def _notes(demand: Demand) -> tuple[Note, ...]:
    """The warnings about the rule, ratios without enough jobs, spoilt jobs, and instances of
    another size."""
    service = demand.service
    rule = demand.rule
    found: list[Note] = []
    if service.problem:
        found.append(Note(service.problem.kind, service.problem.message))
    found += [Note(Warning.OBJECT_UNREADABLE, words) for words in service.unread]
    found += [
        Note(warning, words, each.uid)
        for each in service.instances
        for warning, words in each.warnings
    ]
    for instance in [each for each in service.instances if each.faults and each.pods]:
        after = "none is replaced" if instance.made_by_us else "none is released"
        words = f"{'; '.join(instance.faults)}: its pods stay, {after}"
        found.append(Note(Warning.JOB_INVALID, words, instance.uid))
    if rule is None:
        return tuple(found)
    if demand.target is not None and demand.target.unreachable:
        # the smallest of these ratios, and the jobs that it lacks
        index = demand.target.unreachable - 1
        exist = {
            name: (number, demand.groups[name].live)
            for name, number in rule.ratios[index].counts.items()
        }
        lacking = [
            f"{number} of {name}, {live} exist"
            for name, (number, live) in exist.items()
            if live < number
        ]
        words = f"ratio {index + demand.left_out} needs {'; '.join(lacking)}"
        found.append(Note(Warning.TARGET_UNREACHABLE, words))
    for instance in service.instances:
        size = rule.largest.sizes.get(instance.group or "", instance.expected)
        if size != instance.expected:
            words = (
                f"{instance.name} has {instance.expected} pods, server_num_per_group of"
                f" {instance.group} is {size}; it counts as one instance all the same"
            )
            found.append(Note(Warning.INSTANCE_SIZE_MISMATCH, words, instance.uid))
    return tuple(found)


def _why_it_stays(instance: Instance, policy: Policy) -> str:
    budget = instance.budget
    if budget is None:
        return "revocations are off"
    reserve = restart_reserve(budget, policy)
    return f"{budget.used} of its {budget.limit} restarts are used, {reserve} are kept for faults"
