"""The planner's working values: an instance with its state, a group with its counts, and their order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from scaler.plan.life import LifeAction
from scaler.plan.model import GroupPlan, Instance, InstanceMemory, Reason, State


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


class Group:
    """The members of one group and its counts, before the plan takes effect."""

    __slots__ = ("admit", "held", "in_flight", "live", "members", "partly", "reclaim", "rejoining", "running", "target")

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.held: list[Member] = []
        self.partly: list[Member] = []
        """Admitted, broken or stripped: the only ones that may have to be completed or taken back."""
        self.running = self.in_flight = self.live = 0
        self.target = self.admit = self.reclaim = 0
        self.rejoining = 0
        """Instances that lost their slot (broken for too long) and get it back because this plan completes them."""

    @property
    def occupied(self) -> int:
        """Slots in use; an admission must not bring it above the target."""
        return self.running + self.in_flight

    def plan(self) -> GroupPlan:
        return GroupPlan(
            self.target, self.running, self.in_flight, len(self.held), self.live, admit=self.admit, reclaim=self.reclaim
        )


@lru_cache(maxsize=65536)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which p2 comes before p10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name))


def in_order(members: Iterable[Member]) -> list[Member]:
    """Oldest job first, then natural name order, then uid: a total order, so that every plan is reproducible."""
    return sorted(members, key=lambda m: (m.instance.created, natural(m.instance.name), m.instance.uid))


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
