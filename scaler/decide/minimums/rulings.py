"""What the arbiter says against one service's plan, and the plan with it: admissions become holds, or are taken back.

Must not decide anything, and can only ever take away: it never adds an admission.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from scaler.decide.world import (
    Action,
    Admit,
    Complete,
    Evict,
    GroupPlan,
    Plan,
    Reason,
    Revoke,
    Snapshot,
    State,
    Verdict,
)

Why = tuple[Reason, tuple[str, ...]]
"""The reason, and what it refers to."""


class Fate(StrEnum):
    """What becomes of an instance against the plan that its service would follow alone."""

    HELD = "held"
    TAKEN_BACK = "taken back"
    KEPT = "kept"
    """Should be taken back and cannot be."""
    EVICTED = "evicted"


Ruling = dict[str, tuple[Fate, Why]]
"""Of one service: by uid of the instance."""


def applied(snapshot: Snapshot, plan: Plan, ruling: Ruling) -> Plan:
    """The plan that is left."""
    fates = {uid: fate for uid, (fate, _) in ruling.items()}
    lost = {one.uid for one in plan.actions if isinstance(one, Admit) and fates.get(one.uid) is Fate.HELD}
    leftovers = [one.uid for one in snapshot.instances if one.uid in lost and one.leftovers and one.made_by_us]
    groups = [verdict.group for verdict in plan.verdicts if verdict.uid in lost]
    return msgspec.structs.replace(
        plan,
        actions=(
            *(action for action in plan.actions if not _is_against(action, fates)),
            *map(Revoke, leftovers),
            *(Revoke(uid) for uid, fate in fates.items() if fate is Fate.TAKEN_BACK),
            *(Evict(uid) for uid, fate in fates.items() if fate is Fate.EVICTED),
        ),
        verdicts=tuple([_verdict(one, *ruling[one.uid], lost) if one.uid in ruling else one for one in plan.verdicts]),
        groups={name: _without(group, groups.count(name)) for name, group in plan.groups.items()}
        if lost
        else plan.groups,
    )


def _is_against(action: Action, fates: Mapping[str, Fate]) -> bool:
    return isinstance(action, Admit | Complete) and fates.get(action.uid) in (Fate.HELD, Fate.TAKEN_BACK)


def _without(group: GroupPlan, lost: int) -> GroupPlan:
    if not lost:
        return group
    admit = group.admit - lost
    return msgspec.structs.replace(group, admit=admit, beside=min(group.beside, admit))


def _verdict(verdict: Verdict, fate: Fate, why: Why, lost: set[str]) -> Verdict:
    """An instance with bound pods that must not be completed now keeps its state; only the reason is another."""
    state = verdict.state
    if fate is Fate.TAKEN_BACK or (fate is Fate.HELD and verdict.uid in lost):
        state = State.HELD
    elif fate is Fate.EVICTED:
        state = State.TERMINATING
    return msgspec.structs.replace(verdict, state=state, reason=why[0], about=why[1])
