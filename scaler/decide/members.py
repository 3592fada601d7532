"""The planner's working value, an instance with its state; the order of instances, and what bars one by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from scaler.decide.life import LifeAction
from scaler.decide.world import Instance, InstanceMemory, Policy, Reason, RestartBudget, State


class Member(msgspec.Struct):
    """One instance on its way through the planner: what was seen, and what was decided."""

    instance: Instance
    memory: InstanceMemory
    state: State
    running: bool = False
    in_flight: bool = False
    step: LifeAction | None = None
    """What its own life asks for in this pass; then nothing else is done about it."""
    reason: Reason | None = None
    """Set when this pass moves it; otherwise plan.verdicts finds the reason."""
    stays: Reason | None = None
    """Set when it is its turn to be moved and it cannot be: what is said of it where it stays."""


@lru_cache(maxsize=65536)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which p2 comes before p10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name))


def in_order(members: Iterable[Member]) -> list[Member]:
    """Outdated revisions last; oldest job first, then natural name order, then uid: a total order, so that every plan
    is reproducible."""
    return sorted(
        members, key=lambda m: (m.instance.outdated, m.instance.created, natural(m.instance.name), m.instance.uid)
    )


def newest_admission_first(members: Iterable[Member]) -> list[Member]:
    """The reverse of the order of admission; instances admitted in the same second go in the reverse order of jobs."""
    latest = in_order(members)
    latest.reverse()
    latest.sort(key=lambda m: -m.instance.admitted_at)
    return latest


def why_not_admissible(member: Member, now: float) -> Reason | None:
    """What of its own keeps a held instance from being admitted, whatever the ratio; None when nothing does."""
    instance, memory = member.instance, member.memory
    if instance.label_problem:
        return instance.label_problem
    if instance.faults:
        return Reason.JOB_INVALID
    if instance.name_taken:
        return Reason.NAME_TAKEN
    if memory.refused and now < memory.refused_until and instance.generation == memory.refused_generation:
        return Reason.CREATE_REFUSED
    return None


def can_be_released(member: Member) -> bool:
    """Whether admitting it would do anything now: pods that others make have to exist first."""
    return member.instance.made_by_us or member.instance.gated > 0


def affords_revoke(instance: Instance, policy: Policy) -> bool:
    """Whether its admission can be taken back and leave enough of its restarts for faults."""
    budget = instance.budget
    return budget is None or budget.limit - budget.used > restart_reserve(budget, policy)


def restart_reserve(budget: RestartBudget, policy: Policy) -> int:
    """Restarts that are kept for faults."""
    return policy.restart_reserve if policy.restart_reserve >= 0 else max(2, budget.limit // 2)
