"""A decision that is too much work for one call is made in several: 3b.10c of the contract.

    decide(world 1)   so much work, then it stops     nobody has an action, N services wait
    decide(world 2)   the same decision goes on       the same
    decide(world 3)   it ends, as decided in world 1   each action whose instance is as it was

What is decided is decided about one world, the first one: it is what `decide_anew` says of it, in
however many slices. So nothing is released beside a service that was not weighed, and no order,
invariant or clock knows of slices. What changes meanwhile is for the next decision, which begins
when this one has ended: changes cannot hold it up, and it has weighed everybody. The controller
reads no world in between (`controller.py`), so its decisions always end in the world they were made
about.

Pure, as all of `decide`: work is counted (`work.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from scaler.decide.decision import Action, Decision, Plan
from scaler.decide.memory import Memory, ServiceMemory
from scaler.decide.world import Instance, Service, ServiceKey, World

SLICE = 20_000
"""Units of work of one call, about as many microseconds. One step more may be done: the step about
one service that is being weighed."""
AT_ONCE = 0.001
"""Seconds until the decision goes on."""

Plans = Mapping[ServiceKey, Plan]


def without_actions(plan: Plan) -> Plan:
    """The plan of a service that keeps what it has."""
    return replace(plan, actions=()) if plan.actions else plan


def as_before(world: World, plans: Plans, last: Decision | None, *, waiting: int) -> Decision:
    """The answer while a decision is under way: every service keeps what it has. `plans`: the last
    plans. `waiting`: the number of services that are not weighed yet."""
    kept = []
    for service in world.services:
        plan = plans.get(service.key)
        kept.append(Plan(service.key, -1, {}, False, {}, ()) if plan is None else plan)
    return Decision(
        plans=tuple(kept),
        memory=world.memory,
        recheck_at=world.now + AT_ONCE,
        heeds_room=True,
        tally=last.tally if last is not None else None,
        not_weighed_yet=max(1, waiting),
    )


def in_force(made: Decision, before: World, now: World, *, waiting: int) -> Decision:
    """A decision about the world `before`, when the world is another one now: each action stands
    whose instance is as it was. The next decision is due at once, for `waiting` services."""
    known: dict[ServiceKey, tuple[Service, Plan]] = {}
    for service, plan in zip(before.services, made.plans, strict=True):
        known[service.key] = service, plan
    plans = []
    for service in now.services:
        if service.key not in known:
            plans.append(Plan(service.key, -1, {}, False, {}, ()))
            continue
        as_decided, plan = known[service.key]
        stands = service is as_decided or _stand(plan.actions, as_decided, service)
        plans.append(plan if stands else without_actions(plan))
    return replace(
        made,
        plans=tuple(plans),
        memory=_memory(made.memory, before.memory, now.memory),
        recheck_at=now.now + AT_ONCE,
        not_weighed_yet=max(1, waiting),
    )


def _stand(actions: tuple[Action, ...], before: Service, now: Service) -> bool:
    """Whether each instance that something is done to is as it was, and the rule too."""
    if not actions:
        return True
    same_rule = (before.rule, before.options) == (now.rule, now.options)
    if not same_rule or before.replicas != now.replicas or now.assumed:
        return False
    was = {instance.uid: instance for instance in before.instances}
    there = {instance.uid: instance for instance in now.instances}
    for action in actions:
        one = there.get(action.uid)
        if one is None or _pods(one) != _pods(was[action.uid]):
            return False
    return True


def _pods(instance: Instance) -> tuple[object, ...]:
    """What an action depends on: which pods there are, and where."""
    return (
        instance.pods,
        instance.gated,
        instance.bound,
        instance.expected,
        instance.unbound,
        instance.bound_pods,
        instance.terminating,
        instance.owner_deleting,
    )


def _memory(made: Memory, before: Memory, now: Memory) -> Memory:
    """The next memory: of what was noted by others since, the newer entry stays."""
    if now is before:
        return made
    services: dict[str, ServiceMemory] = dict(now.services)
    for name in {*before.services, *made.services}:
        was = before.services.get(name)
        after = made.services.get(name)
        if after is was or now.services.get(name) is not was:
            continue
        if after is None:
            del services[name]
        else:
            services[name] = after
    return Memory(services, made.last_bind, made.last_binds)
