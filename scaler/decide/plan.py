"""The plan of one service, from its draft: actions, one verdict for each instance, counts; and the counts of all
services. Decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from scaler.decide import turn
from scaler.decide.draft import Draft
from scaler.decide.members import is_incomplete
from scaler.decide.verdicts import notes, verdicts
from scaler.decide.world import NOBODY, Action, Admit, Complete, Evict, Plan, Policy, Revoke, State, Tally, World


def plan_of(draft: Draft, now: float, policy: Policy) -> Plan:
    """What to do for one service. Nothing, while writes for it are under way."""
    demand = draft.demand
    service, target = demand.service, demand.target
    if service.assumed:  # nothing is done, so nothing else is said
        draft = Draft(demand)
    revoked = [member.instance.group for member in demand.hands if member.uid in draft.revoked]
    groups = {}
    for name, group in demand.groups.items():
        places = draft.places(name)
        groups[name] = group.plan(admit=places.admitted, beside=places.beside, revoke=revoked.count(name))
    return Plan(
        key=service.key,
        target_index=target.index + demand.left_out if target and demand.replicas else -1,
        target={name: group.target for name, group in demand.groups.items()} if target and demand.replicas else {},
        complete=target.complete if target else not service.key.rule,
        groups=groups,
        verdicts=verdicts(draft, now, policy),
        actions=() if service.assumed else tuple(_actions(draft)),
        notes=notes(demand),
        serves=demand.serves and target is not None,
        replicas=demand.replicas,
    )


def _actions(draft: Draft) -> Iterator[Action]:
    demand = draft.demand
    if demand.completes:
        completes = demand.completes - draft.revoked.keys() - draft.evicted.keys()
        yield from (Complete(member.uid) for member in demand.members if member.uid in completes)
    elif demand.target is None and not demand.service.key.rule:
        yield from _completed_without_rule(draft)
    yield from map(Admit, draft.admitted)
    yield from map(Revoke, draft.revoked)
    yield from _tidied(draft)
    yield from (Evict(uid, beneficiary) for uid, beneficiary in draft.evicted.items())
    yield from [member.step for member in demand.members if member.step is not None]


def _completed_without_rule(draft: Draft) -> Iterator[Action]:
    for member in draft.demand.members:
        instance = member.instance
        ours = instance.made_by_us and not instance.label_problem and member.step is None
        if ours and member.state is not State.HELD and is_incomplete(member):
            yield Complete(member.uid)


def _tidied(draft: Draft) -> Iterator[Action]:
    """A held instance keeps no PodGroup of ours: the scheduler would reserve room for it."""
    if draft.demand.target is None or draft.demand.paused:
        return
    for group in draft.demand.groups.values():
        for member in group.held:
            if member.instance.leftovers and member.instance.made_by_us and member.uid not in draft.admitted:
                yield Revoke(member.uid)


def tally_of(drafts: Iterable[Draft], active: Sequence[Draft], world: World) -> Tally:
    """What is counted of services that were weighed; `active` are those with something to weigh."""
    idle = Counter[str]()
    for draft in active:
        for instance in () if draft.demand.serves else draft.demand.service.instances:
            for _, request in instance.seats:
                idle.update(dict(request.requests))
    acted_on = [draft for draft in drafts if not draft.demand.service.assumed]
    return Tally(
        minimums_waiting=sum([draft.demand.lacks_minimum for draft in active]),
        scale_ups_waiting=sum([len(draft.waits) for draft in active if draft.demand.serves]),
        in_backoff=sum([turn.in_backoff(draft.memory, world) for draft in active]),
        probing=sum([turn.is_probing(draft.memory, world) for draft in active]),
        revoked=sum([len(draft.revoked) for draft in acted_on]),
        evicted=sum([beneficiary != NOBODY for draft in acted_on for beneficiary in draft.evicted.values()]),
        idle=dict(idle),
    )


def total(tallies: Sequence[Tally], serving: int) -> Tally:
    """All together."""
    idle = Counter[str]()
    for tally in tallies:
        if tally.idle:
            idle.update(tally.idle)
    numbers = {name: sum([getattr(tally, name) for tally in tallies]) for name in _SUMMED}
    return Tally(serving=serving, idle=dict(idle), **numbers)


_SUMMED = [name for name in Tally.__struct_fields__ if name not in ("serving", "idle")]
