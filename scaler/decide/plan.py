"""The plan of one service: the actions of its draft, the verdict of each instance, the warnings."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.decision import Action, Admit, Complete, Evict, GroupPlan, Plan, Restart, Revoke
from scaler.decide.draft import Draft
from scaler.decide.notes import notes_of
from scaler.decide.service.states import may_be_revoked
from scaler.decide.training.plan import changes_of_size, starting_size
from scaler.decide.verdicts import verdicts_of


def plan_of(draft: Draft, now: float) -> Plan:
    """The plan of one service; without actions while writes for the service are under way."""
    if draft.demand.service.assumed:
        untouched = Draft(draft.demand)  # no actions, so the verdicts name none
        return _plan_of(untouched, (), now)
    return _plan_of(draft, tuple(_actions(draft)), now)


def _plan_of(draft: Draft, actions: tuple[Action, ...], now: float) -> Plan:
    demand = draft.demand
    target = demand.target
    target_index = -1
    target_numbers: dict[str, int] = {}
    if target is not None and demand.replicas:
        target_index = target.index + demand.left_out
        target_numbers = {name: group.target for name, group in demand.groups.items()}
    is_complete = not demand.service.key.rule if target is None else target.complete
    return Plan(
        key=demand.service.key,
        target_index=target_index,
        target=target_numbers,
        complete=is_complete,
        groups=_group_plans(draft),
        verdicts=verdicts_of(draft, now),
        actions=actions,
        notes=notes_of(demand),
        serves=demand.serves and target is not None,
        replicas=demand.replicas,
        unplaced=draft.unplaced,
    )


def _group_plans(draft: Draft) -> dict[str, GroupPlan]:
    revoked: list[str | None] = []
    for member in draft.demand.with_the_scheduler:
        if member.uid in draft.revoked:
            revoked.append(member.instance.group)
    plans = {}
    for name, group in draft.groups.items():
        plans[name] = group.plan(revoke=revoked.count(name))
    return plans


def _actions(draft: Draft) -> Iterator[Action]:
    demand = draft.demand
    completes = demand.made_whole - draft.revoked.keys() - draft.evicted.keys()
    completes -= draft.restarted.keys()
    if completes:
        for member in demand.members:
            if member.uid in completes:
                yield Complete(member.uid)
    yield from _admissions(draft)
    for uid in draft.revoked:
        yield Revoke(uid)
    if demand.target is not None and not demand.paused:
        yield from _revocations_of_leftovers(draft)
    yield from draft.restarted.values()
    for uid, beneficiary in draft.evicted.items():
        yield Evict(uid, beneficiary)
    for member in demand.members:
        if member.step is not None:
            yield member.step


def _admissions(draft: Draft) -> Iterator[Admit | Restart]:
    """3d.2: a job whose owner has made pods of another size gets its size first."""
    changes = {change.uid: change for change in changes_of_size(draft)}
    for uid in draft.admitted:
        if uid not in changes:
            yield Admit(uid, starting_size(draft, uid))
    yield from changes.values()


def _revocations_of_leftovers(draft: Draft) -> Iterator[Revoke]:
    """A held instance must not keep a PodGroup of ours: the scheduler would reserve room for the
    PodGroup. Nor pods that the scheduler never places."""
    for group in draft.demand.groups.values():
        for member in group.held:
            i = member.instance
            is_left = i.leftovers and i.made_by_us
            if i.pods > i.gated:
                is_left = may_be_revoked(i, draft.demand.policy)
            if is_left and member.uid not in draft.admitted:
                yield Revoke(member.uid)
