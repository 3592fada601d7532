"""The plan of one service: the actions of its draft, the verdict of each instance, the warnings."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.decision import Action, Admit, Complete, Evict, Plan, Revoke
from scaler.decide.draft import Draft
from scaler.decide.notes import notes_of
from scaler.decide.verdicts import verdicts_of


def plan_of(draft: Draft, now: float) -> Plan:
    """The plan of one service; without actions while writes for the service are under way."""
    demand = draft.demand
    service = demand.service
    target = demand.target
    if service.assumed:  # no actions, so the verdicts name none
        draft = Draft(demand)
    revoked = [
        member.instance.group for member in demand.with_the_scheduler if member.uid in draft.revoked
    ]
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
        verdicts=verdicts_of(draft, now),
        actions=() if service.assumed else tuple(_actions(draft)),
        notes=notes_of(demand),
        serves=demand.serves and target is not None,
        replicas=demand.replicas,
    )


def _actions(draft: Draft) -> Iterator[Action]:
    demand = draft.demand
    completes = demand.made_whole - draft.revoked.keys() - draft.evicted.keys()
    for member in demand.members if completes else ():
        if member.uid in completes:
            yield Complete(member.uid)
    yield from map(Admit, draft.admitted)
    yield from map(Revoke, draft.revoked)
    if demand.target is not None and not demand.paused:
        yield from _revocations_of_leftovers(draft)
    yield from (Evict(uid, beneficiary) for uid, beneficiary in draft.evicted.items())
    yield from [member.step for member in demand.members if member.step is not None]


def _revocations_of_leftovers(draft: Draft) -> Iterator[Revoke]:
    """A held instance must not keep a PodGroup of ours: the scheduler would reserve room for the
    PodGroup."""
    for group in draft.demand.groups.values():
        for member in group.held:
            is_left = member.instance.leftovers and member.instance.made_by_us
            if is_left and member.uid not in draft.admitted:
                yield Revoke(member.uid)
