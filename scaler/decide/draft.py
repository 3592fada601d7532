"""One service's plan in the making: what was decided about its instances so far, and what is to be remembered."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from scaler.decide.demand import Demand
from scaler.decide.groups import Group
from scaler.decide.memory import NEVER_SEEN, InstanceMemory, ServiceMemory
from scaler.decide.nodes import NodeClass, PodRequests, joined
from scaler.decide.state import Member, may_be_revoked
from scaler.decide.world import NOBODY, Reason

Why = tuple[Reason, tuple[str, ...]]
"""The reason, and what it refers to."""
NOT_MADE = "its pods do not exist yet"


class Draft:
    """Mutable, for one decision. Everything starts held or stays as it is unless something is said here."""

    def __init__(self, demand: Demand, classes: frozenset[NodeClass] = frozenset(), *, shares: bool = True) -> None:
        """`classes`: of nodes that any of its instances may run on; `shares`: so may those of another service."""
        self.demand, self.classes, self.shares = demand, classes, shares
        self.memory: ServiceMemory = demand.memory
        self._changed: dict[str, InstanceMemory] = {}
        self._groups: dict[str, Group] = {}
        self.admitted: dict[str, Why] = {}
        self.revoked: dict[str, Why] = {}
        self.stays: set[str] = set()
        """Should be revoked and cannot be."""
        self.waits: dict[str, Why] = {}
        self.evicted: dict[str, str] = {}
        """Uid -> the service that needs the room; `NOBODY` when fewer instances are to run."""
        self.nominated: set[str] = set()
        """Uids of those whose room is reserved for what needs it: evicted now, or after `trade_after`."""
        for member in demand.drained:
            self.evicted[member.uid] = NOBODY
            self.nominated.add(member.uid)
            self.remember_of(member.uid, preempted_for=NOBODY)
        self.stays |= {member.uid for member in demand.undrained}
        self.chosen: set[str] = set()
        """Uids of the instances of its minimum, where one is reserved, tried or alone."""
        self.short = False
        """Something beyond its minimum is missing that its own running surplus would make room for."""
        self.decide_again = False
        """What was decided makes more possible at once."""

    def shares_nodes_with(self, other: Draft) -> bool:
        """Whether some node could run pods of both."""
        return other is self or not self.classes.isdisjoint(other.classes)

    # what is remembered

    def remember(self, **changes: Any) -> None:
        """Change what is remembered of the service."""
        self.memory = msgspec.structs.replace(self.memory, **changes)

    def of(self, uid: str) -> InstanceMemory:
        """What is remembered of an instance, with the changes so far."""
        return self._changed.get(uid) or self.memory.instances.get(uid, NEVER_SEEN)

    def remember_of(self, uid: str, **changes: Any) -> None:
        """Change what is remembered of one instance."""
        before = self.of(uid)
        after = msgspec.structs.replace(before, **changes)
        if after != before:
            self._changed[uid] = after

    def outcome(self) -> ServiceMemory:
        """What is to be remembered; the same object as before when nothing changed."""
        if self._changed:
            self.remember(instances={**self.memory.instances, **self._changed})
        return self.demand.seen if self.memory == self.demand.seen else self.memory

    # what is done

    def group(self, name: str) -> Group:
        """A group with the places that this decision gave away."""
        return self._groups.get(name) or self.demand.groups[name]

    def places(self, member: Member) -> Group:
        """Its group, of which places may be given away in this decision."""
        name = member.instance.group or ""
        if name not in self._groups:
            self._groups[name] = self.demand.groups[name].copy()
        return self._groups[name]

    @property
    def lacking(self) -> list[str]:
        """Groups that miss something of the target."""
        return [name for name, group in self.demand.groups.items() if group.running < group.target]

    @property
    def awaited(self) -> str:
        """The same in words."""
        return ", ".join(sorted(self.lacking)) or NOBODY

    @property
    def has_changes(self) -> bool:
        """Something about its instances is to be remembered, or something is done."""
        return bool(self._changed or self.admitted or self.revoked)

    @property
    def plan_inputs(self) -> tuple[Collection[str], ...]:
        """All that the plan depends on beside the demand."""
        return self.admitted, self.revoked, self.stays, self.waits, self.evicted

    def admit(self, member: Member, about: tuple[str, ...] = ()) -> None:
        """Let it have pods that may be scheduled."""
        self.places(member).admit(member)
        self.admit_without_place(member, about)

    def admit_without_place(self, member: Member, about: tuple[str, ...] = ()) -> None:
        """The same where no ratio counts. What was refused before stays refused until it succeeds: events would
        say every few minutes that it was tried again."""
        refused = self.of(member.uid).refused
        why = (Reason.CREATE_REFUSED, (refused,)) if refused else (Reason.WAITING_FOR_SCHEDULER, about)
        self.admitted[member.uid] = why

    def revoke(self, member: Member, why: Why) -> bool:
        """Take the admission back; False when it cannot be, then it stays and says so."""
        if member.uid in self.revoked:
            return True
        if not self.demand.policy.revoke or member.instance.unheld:
            return False
        if not may_be_revoked(member.instance, self.demand.policy):
            self.stays.add(member.uid)
            return False
        self.revoked[member.uid] = why
        ended = self.of(member.uid).turn_over or self.memory.ended_at or self.of(member.uid).backoff_until
        words = "the scheduler did not bind it in its turn" if ended else "; ".join(why[1]) or why[0].value
        self.remember_of(member.uid, turn_since=0.0, revoked=words)
        return True


def requests_of(members: Iterable[Member]) -> PodRequests:
    """What the unbound pods of these instances ask for, together."""
    return joined(*(member.unbound for member in members))
