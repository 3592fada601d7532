"""What the arbiter says against one service's plan, and the plan with it: admissions become holds, or are taken back.

Must not decide anything, and can only ever take away: it never adds an admission.
"""

from __future__ import annotations

import msgspec

from scaler.plan.model import (
    Action,
    Admit,
    Complete,
    Evict,
    GroupPlan,
    Plan,
    Reason,
    Reclaim,
    Snapshot,
    State,
    Verdict,
)

Why = tuple[Reason, tuple[str, ...]]
"""The reason, and what it refers to."""


class Ruling(msgspec.Struct):
    """By uid of the instance."""

    held: dict[str, Why] = {}
    taken_back: dict[str, Why] = {}
    kept: dict[str, Why] = {}
    """Should be taken back and cannot be."""
    evicted: dict[str, Why] = {}


def applied(snapshot: Snapshot, plan: Plan, ruling: Ruling) -> Plan:
    """The plan that is left."""
    lost = {action.uid for action in plan.actions if isinstance(action, Admit) and action.uid in ruling.held}
    changed = ruling.held.keys() | ruling.taken_back.keys() | ruling.kept.keys() | ruling.evicted.keys()
    leftovers = [one.uid for one in snapshot.instances if one.uid in lost and one.leftovers and one.made_by_us]
    groups = [verdict.group for verdict in plan.verdicts if verdict.uid in lost]
    return msgspec.structs.replace(
        plan,
        actions=(
            *(action for action in plan.actions if not _is_against(action, ruling)),
            *map(Reclaim, leftovers),
            *map(Reclaim, ruling.taken_back),
            *map(Evict, ruling.evicted),
        ),
        verdicts=tuple([_verdict(one, ruling, lost) if one.uid in changed else one for one in plan.verdicts]),
        groups={name: _without(group, groups.count(name)) for name, group in plan.groups.items()}
        if lost
        else plan.groups,
    )


def _is_against(action: Action, ruling: Ruling) -> bool:
    barred = action.uid in ruling.held or action.uid in ruling.taken_back
    return barred and isinstance(action, Admit | Complete)


def _without(group: GroupPlan, lost: int) -> GroupPlan:
    if not lost:
        return group
    admit = group.admit - lost
    return msgspec.structs.replace(group, admit=admit, beside=min(group.beside, admit))


def _verdict(verdict: Verdict, ruling: Ruling, lost: set[str]) -> Verdict:
    """An instance with bound pods that must not be completed now keeps its state; only the reason is another."""
    uid = verdict.uid
    if uid in ruling.taken_back:
        return _said(verdict, State.HELD, ruling.taken_back[uid])
    if uid in ruling.held:
        return _said(verdict, State.HELD if uid in lost else verdict.state, ruling.held[uid])
    if uid in ruling.evicted:
        return _said(verdict, State.TERMINATING, ruling.evicted[uid])
    return _said(verdict, verdict.state, ruling.kept[uid])


def _said(verdict: Verdict, state: State, why: Why) -> Verdict:
    return msgspec.structs.replace(verdict, state=state, reason=why[0], about=why[1])
