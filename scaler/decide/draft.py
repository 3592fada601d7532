"""The draft of the plan of one service, which a decision fills: what is admitted, revoked or
evicted, what waits and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from scaler.decide import attempts
from scaler.decide.decision import NOBODY, Cause, Restart
from scaler.decide.events import Event, Evicted, Restarted, Revoked
from scaler.decide.explain import preempted_size_in_words, refusal_in_words
from scaler.decide.memory import InstanceMemory, ServiceMemory
from scaler.decide.nodes import NodeClass, PodRequests, joined
from scaler.decide.service.demand import Demand
from scaler.decide.service.states import Member, Pause, may_be_revoked
from scaler.reasons.reasons import Reason


class Why(NamedTuple):
    """Why an instance waits, goes or stays: a reason, and the words that it refers to."""

    reason: Reason
    about: tuple[str, ...]


NOT_MADE = "its pods do not exist yet"
MADE_IN_PART = (
    "not all of its pods exist yet, and the scheduler has to see all of them at once to choose"
    " blocks of a super-pod"
)


def not_made(member: Member) -> Why:
    """Why a chosen instance is not admitted yet (`states.is_made`)."""
    if member.pause is Pause.CREATION_REFUSED:
        return Why(Reason.CREATE_REFUSED, (member.memory.refused,))
    words = MADE_IN_PART if member.instance.pods else NOT_MADE
    if member.pause is Pause.REFUSED_BY_KUBELET:
        words = refusal_in_words(member.instance.refusals)
    return Why(Reason.WAITING_FOR_SCHEDULER, (words,))


class Draft:
    """Changed during one decision. An instance that the draft does not name stays as it is, or
    held."""

    def __init__(
        self, demand: Demand, classes: frozenset[NodeClass] = frozenset(), *, shares: bool = True
    ) -> None:
        """`classes`: of nodes that the service may use. `shares`: another service may use one of
        these nodes."""
        self.demand = demand
        self.classes = classes
        self.shares = shares
        self.memory: ServiceMemory = demand.memory
        """The memory after all that has happened in this decision."""
        self.events: list[Event] = []
        """What has happened in this decision."""
        self.groups = {name: group.copy() for name, group in demand.groups.items()}
        self.admitted: dict[str, Why] = {}
        self.revoked: dict[str, Why] = {}
        self.cannot_go = {member.uid for member in demand.kept_for_restarts}
        """Uids of instances that should be revoked or deleted, and cannot be."""
        self.sizes: dict[str, int] = {}
        """3d.2: uid of a training job that starts -> the size that it has come to."""
        self.restarted: dict[str, Restart] = {}
        """3d: uid -> the restart of a training job at a size."""
        self.waits: dict[str, Why] = {}
        self.without_room: dict[str, tuple[str, ...]] = {}
        """Uid of an instance that is with the scheduler although it has no room -> what is missing,
        in words."""
        self.evicted = {member.uid: NOBODY for member in demand.scaled_down}
        """Uid -> the beneficiary; `NOBODY` when `spec.replicas` asks for fewer instances."""
        self.nominated = set(self.evicted)
        """Uids of victims whose room is reserved already: evicted now, or after `trade_after`."""
        if self.evicted:
            self.note(Evicted(tuple(self.evicted), NOBODY))
        self.unplaced: PodRequests = ()
        """3b.9b: the pods that the minimum lacks, where they have no room; empty while they have
        room, or none is looked for."""
        self.chosen: set[str] = set()
        """Uids of the instances chosen for the minimum: it is reserved or probed, or the service
        shares no nodes."""

    def shares_nodes_with(self, other: Draft) -> bool:
        """Whether some node could run pods of both services."""
        return other is self or not self.classes.isdisjoint(other.classes)

    def note(self, *events: Event) -> None:
        """Note what happened to the service, in the memory too."""
        if not events:
            return
        self.events += events
        self.memory = attempts.after(self.memory, events, self.demand.policy)

    def memory_of(self, uid: str) -> InstanceMemory:
        """The memory of an instance after all that has happened in this decision."""
        return attempts.memory_of(self.memory, uid)

    def next_memory(self) -> ServiceMemory:
        """The next memory of the service; the same object as before when nothing changed."""
        return self.demand.seen if self.memory == self.demand.seen else self.memory

    @property
    def lacking(self) -> list[str]:
        """Groups that run fewer instances than the target."""
        return [name for name, group in self.demand.groups.items() if group.running < group.target]

    @property
    def awaited(self) -> str:
        return ", ".join(sorted(self.lacking)) or NOBODY

    @property
    def has_changes(self) -> bool:
        changed = self.memory.instances is not self.demand.memory.instances
        return bool(changed or self.admitted or self.revoked)

    @property
    def heeds_room(self) -> bool:
        """Something of the service waits for room or takes it: a change of what is free alone may
        change the plan."""
        demand = self.demand
        return bool(
            demand.lacks_minimum
            or demand.with_the_scheduler
            or demand.irrevocable
            or self.waits
            or self.without_room
            or self.admitted
            or demand.may_change_size
        )

    @property
    def plan_inputs(self) -> tuple[Collection[object], ...]:
        """All that the plan depends on beside the demand; all empty in a new draft of a service
        without drains."""
        return (
            self.admitted,
            self.revoked,
            self.cannot_go,
            self.waits,
            self.without_room,
            self.evicted,
            self.unplaced,
            self.sizes,
            self.restarted,
        )

    def admit(self, member: Member, about: tuple[str, ...] = ()) -> None:
        """Give the instance pods that may be scheduled, and a place where a ratio counts. After a
        refused creation the reason stays `CreateRefused` until a creation succeeds: otherwise each
        new try would cause events."""
        if self.demand.target is not None:
            self.groups[member.instance.group or ""].admit(member)
        refused = self.memory_of(member.uid).refused
        if refused:
            self.admitted[member.uid] = Why(Reason.CREATE_REFUSED, (refused,))
        else:
            self.admitted[member.uid] = Why(Reason.WAITING_FOR_SCHEDULER, about)

    def evict(self, member: Member, beneficiary: str) -> None:
        """Evict the instance for another service, or for an instance of the same one."""
        self.evicted[member.uid] = beneficiary
        self.note(Evicted((member.uid,), beneficiary))

    def restart(self, restart: Restart, words: str = "") -> None:
        """3d: delete all pods of a training job, which then starts anew at that size. `words`: what
        was wrong with it."""
        self.restarted[restart.uid] = restart
        self.note(Restarted(restart.uid, restart.cause.value, words))

    def shrink(self, member: Member, size: int, beneficiary: str) -> None:
        """3d.6: a training job gives room to another service, and goes on at a smaller size."""
        self.note(Evicted((member.uid,), beneficiary))
        restart = Restart(member.uid, size, Cause.PREEMPTION, beneficiary)
        self.restart(restart, preempted_size_in_words(member.instance, size))

    def wait(self, member: Member, why: Why) -> None:
        """A held instance waits. One whose creation was refused says so until it is due again."""
        waits_after_refusal = member.pause is Pause.CREATION_REFUSED
        self.waits[member.uid] = not_made(member) if waits_after_refusal else why

    def revoke_if_possible(self, member: Member, why: Why) -> None:
        """Revoke the admission of the instance, once: `revoked` names it then. An instance that
        cannot be revoked stays admitted, and `revoked` does not name it."""
        if member.uid in self.revoked:
            return
        policy = self.demand.policy
        if not policy.revoke or member.instance.unheld:
            return
        if not may_be_revoked(member.instance, policy):
            self.cannot_go.add(member.uid)
            return
        self.revoked[member.uid] = why
        self.note(Revoked(member.uid, self._why_revoked(member, why)))

    def _why_revoked(self, member: Member, why: Why) -> str:
        """What is remembered as the reason, in words."""
        memory = self.memory_of(member.uid)
        if memory.gives_way or self.memory.ended_at or memory.backoff_until:
            return "the scheduler did not bind it in time"
        return "; ".join(why.about) or why.reason.value


def requests_of(members: Iterable[Member]) -> PodRequests:
    """The requests of all unbound pods of these instances."""
    return joined(*(member.instance.unbound for member in members))
