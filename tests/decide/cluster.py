"""The least cluster that a decision can take effect on: it starts what is admitted, and nothing
else ever happens."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from scaler.decide.decide import decide
from scaler.decide.decision import Action, Admit, Complete, Decision, Evict, Revoke
from scaler.decide.world import Instance, RestartBudget, World

LIMIT = 12
GONE: dict[str, Any] = {
    "pods": 0,
    "gated": 0,
    "running": 0,
    "ready": 0,
    "ended": 0,
    "admitted_at": 0.0,
    "newest": 0.0,
    "leftovers": False,
}
"""Of an instance without live pods."""


class Settled(NamedTuple):
    world: World
    history: list[Decision]

    @property
    def passes(self) -> int:
        """Passes that had something to do."""
        return sum(has_actions(made) for made in self.history)


def has_actions(made: Decision) -> bool:
    return any(plan.actions for plan in made.plans)


def settle(world: World) -> Settled:
    """Decide and let each decision take effect, with the cluster otherwise unchanged, until one has
    no action left."""
    history: list[Decision] = []
    for _ in range(LIMIT):
        made = decide(world)
        history.append(made)
        if not has_actions(made):
            break
        world = replace(apply(world, made), memory=made.memory)
    return Settled(world, history)


def apply(world: World, made: Decision) -> World:
    """The world when all of the decision has been done: the nodes are as they were, since no
    scheduler ran."""
    actions = {action.uid: action for plan in made.plans for action in plan.actions}
    services = []
    for service in world.services:
        instances = [perform(one, actions.get(one.uid), world.now) for one in service.instances]
        services.append(replace(service, instances=tuple(instances)))
    return replace(world, services=tuple(services))


def perform(one: Instance, action: Action | None, now: float) -> Instance:
    """All pods of an instance, unbound, or none of them: what a working actuator leaves behind.
    Where others make the pods they lose their gates, or released ones are made anew by their owner,
    gated."""
    since = one.admitted_at if isinstance(action, Complete) else now
    match action:
        case Evict():
            going = one.terminating + one.bound
            return replace(
                one,
                **GONE,
                bound=0,
                crashing=0,
                faulty=0,
                terminating=going,
                ends_by=now,
                unbound=one.requests,
                bound_pods=(),
            )
        case Admit() | Complete() if one.made_by_us:
            pods = max(one.pods, one.expected - one.terminating)
            newest = now if pods > one.pods else one.newest
            return replace(
                one,
                pods=pods,
                gated=0,
                admitted_at=since,
                newest=newest,
                leftovers=True,
                stripped=False,
            )
        case Admit() | Complete():
            return replace(one, gated=0, misplaced=False, admitted_at=since)
        case Revoke() if not one.made_by_us:
            used = RestartBudget(one.budget.limit, one.budget.used + 1) if one.budget else None
            return replace(
                one,
                gated=one.pods,
                bound=0,
                ended=0,
                admitted_at=0.0,
                newest=now,
                misplaced=False,
                budget=used,
            )
        case None:
            return one
    return replace(one, **GONE, stripped=False) if one.made_by_us else one
