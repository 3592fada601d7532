"""The least cluster that a decision can take effect on: it starts what is admitted, and nothing else ever happens."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from scaler.decide.decide import decide
from scaler.decide.world import Action, Admit, Complete, Decision, Evict, Instance, RestartBudget, Revoke, World

LIMIT = 12
GONE: dict[str, Any] = {
    "pods": 0, "gated": 0, "running": 0, "ready": 0, "ended": 0, "admitted_at": 0.0, "newest": 0.0, "leftovers": False,
}  # fmt: skip
"""Of an instance without live pods."""


class Settled(NamedTuple):
    world: World
    history: list[Decision]

    @property
    def passes(self) -> int:
        """Passes that had something to do."""
        return sum(any(plan.actions for plan in made.plans) for made in self.history)


def settle(world: World) -> Settled:
    """Decide and let each decision take effect, with the cluster otherwise unchanged, until one has no action left."""
    history: list[Decision] = []
    for _ in range(LIMIT):
        made = decide(world)
        history.append(made)
        if not any(plan.actions for plan in made.plans):
            break
        world = msgspec.structs.replace(apply(world, made), memory=made.memory)
    return Settled(world, history)


def apply(world: World, made: Decision) -> World:
    """The world when all of the decision has been done: the nodes are as they were, since no scheduler ran."""
    actions = {action.uid: action for plan in made.plans for action in plan.actions}
    services = tuple(
        msgspec.structs.replace(
            service, instances=tuple(perform(one, actions.get(one.uid), world.now) for one in service.instances)
        )
        for service in world.services
    )
    return msgspec.structs.replace(world, services=services)


def perform(one: Instance, action: Action | None, now: float) -> Instance:
    """All pods of an instance, unbound, or none of them: what a working actuator leaves behind."""
    if isinstance(action, Evict):
        going = one.terminating + one.bound
        return msgspec.structs.replace(
            one, **GONE, bound=0, crashing=0, faulty=0, terminating=going, ends_by=now, unbound=one.needs, seats=()
        )
    if not one.made_by_us:
        return perform_on_others(one, action, now)
    if isinstance(action, Admit | Complete):
        pods = one.expected - one.terminating if one.terminating < one.expected else one.pods
        since = one.admitted_at if isinstance(action, Complete) else now
        newest = now if pods > one.pods else one.newest
        return msgspec.structs.replace(
            one, pods=max(pods, one.pods), gated=0, admitted_at=since, newest=newest, leftovers=True, stripped=False
        )
    if action is not None:
        return msgspec.structs.replace(one, **GONE, stripped=False)
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
                one, gated=one.pods, bound=0, ended=0, admitted_at=0.0, newest=now, misplaced=False, budget=used
            )
        case _:
            return one
