"""The least cluster that a plan can take effect on: it starts what is admitted, and nothing else ever happens."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from scaler.decide.planner import plan
from scaler.decide.world import Action, Admit, Complete, Instance, Plan, RestartBudget, Revoke, Snapshot

LIMIT = 12


class Settled(NamedTuple):
    snapshot: Snapshot
    history: list[Plan]

    @property
    def passes(self) -> int:
        """Passes that had something to do."""
        return sum(bool(made.actions) for made in self.history)


def settle(snapshot: Snapshot) -> Settled:
    """Plan and let each plan take effect, with the cluster otherwise unchanged, until a plan has no action left."""
    history: list[Plan] = []
    for _ in range(LIMIT):
        made, memory = plan(snapshot)
        history.append(made)
        if not made.actions:
            break
        snapshot = msgspec.structs.replace(apply(snapshot, made), memory=memory)
    return Settled(snapshot, history)


def apply(snapshot: Snapshot, made: Plan) -> Snapshot:
    actions = {action.uid: action for action in made.actions}
    after = tuple(perform(one, actions.get(one.uid), snapshot.now) for one in snapshot.instances)
    return msgspec.structs.replace(snapshot, instances=after)


def perform(one: Instance, action: Action | None, now: float) -> Instance:
    """All pods of an instance, unbound, or none of them: what a working actuator leaves behind."""
    if not one.made_by_us:
        return perform_on_others(one, action, now)
    if isinstance(action, Admit | Complete):
        pods = one.expected - one.terminating if one.terminating < one.expected else one.pods
        since = one.admitted_at if isinstance(action, Complete) else now
        return msgspec.structs.replace(
            one, pods=max(pods, one.pods), gated=0, admitted_at=since, leftovers=True, stripped=False
        )
    if action is not None:
        return msgspec.structs.replace(
            one, pods=0, gated=0, running=0, ready=0, ended=0, admitted_at=0.0, leftovers=False, stripped=False
        )
    return one


def perform_on_others(one: Instance, action: Action | None, now: float) -> Instance:
    """Its pods lose their gates, or its released ones are made anew by their owner, gated."""
    match action:
        case Admit() | Complete():
            since = now if isinstance(action, Admit) else one.admitted_at
            return msgspec.structs.replace(one, gated=0, misplaced=False, admitted_at=since)
        case Revoke():
            used = RestartBudget(one.budget.limit, one.budget.used + 1) if one.budget else None
            return msgspec.structs.replace(
                one, gated=one.pods, bound=0, ended=0, admitted_at=0.0, misplaced=False, budget=used
            )
        case _:
            return one
