"""One instance in a decision: its state, whether it has a slot, what is remembered of it, what bars it by itself, and
the order of instances. Section 2 of the contract, as pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from scaler.decide.lifecycle import LifeAction, next_step, recheck_at
from scaler.decide.memory import InstanceMemory, Turns
from scaler.decide.nodes import PodRequests
from scaler.decide.world import Instance, Policy, Reason, RestartBudget, Service, State
from scaler.rules.rule import CountsFrom

Order = tuple[bool, float, tuple[tuple[int, int, str], ...], str]


def state_of(instance: Instance, memory: InstanceMemory, now: float, policy: Policy) -> State:
    """The first state that applies, in the order of the contract."""
    i = instance
    if i.owner_finished:
        return State.FINISHED
    if i.owner_deleting or (i.pods == 0 and i.terminating):
        return State.TERMINATING
    if i.pods == i.gated:
        return State.HELD
    restarted = memory.restarted_at > 0 and now - memory.restarted_at < policy.stable_after
    healthy = not (i.terminating or i.crashing or i.faulty or restarted)
    if i.running == i.pods == i.expected and healthy:
        return State.RUNNING
    if i.bound and (i.ended or not healthy or lacks_pods(i, now, policy) or is_of_no_use(i, memory, now, policy)):
        return State.BROKEN
    if i.bound == i.pods == i.expected:
        return State.STARTING
    return State.ADMITTED


def lacks_pods(instance: Instance, now: float, policy: Policy) -> bool:
    """Whether pods are missing that should be there. What others make may take them a moment; an owner that waits for
    the first pods to be ready takes as long as those take."""
    if instance.pods >= instance.expected:
        return False
    return instance.made_by_us or not (instance.more_to_come or now < makes_until(instance, policy))


def makes_until(instance: Instance, policy: Policy) -> float:
    """When an owner has had its time to make the rest of an instance."""
    return instance.newest + policy.minimum_timeout


def is_of_no_use(instance: Instance, memory: InstanceMemory, now: float, policy: Policy) -> bool:
    """Whether it is bound in part and its turn has ended, or was bound for too long without running."""
    if 0 < instance.bound < instance.expected and memory.turn_over:
        return True
    return memory.bound_since > 0 and now - memory.bound_since >= policy.start_timeout


def counts_as_running(instance: Instance, state: State, counts_from: CountsFrom) -> bool:
    """Whether the instance meets `counts_from`; otherwise it is in flight or without a slot."""
    if state is State.RUNNING:
        return counts_from is not CountsFrom.READY or instance.ready == instance.expected
    return state is State.STARTING and counts_from is CountsFrom.BOUND


def observe(instance: Instance, memory: InstanceMemory, now: float) -> InstanceMemory:
    """When its restart count rose (the first sight is no restart: after a failover none is known of), and since when
    all its pods have been bound and not all run, or its owner has waited for the first ones."""
    i = instance
    restarted_at = now if 0 <= memory.restarts < i.restarts else memory.restarted_at
    waits = i.bound > 0 and (i.more_to_come or i.bound == i.pods == i.expected > i.running)
    since = (memory.bound_since or now) if waits else 0.0
    if (i.restarts, restarted_at, since) == (memory.restarts, memory.restarted_at, memory.bound_since):
        return memory
    return msgspec.structs.replace(memory, restarts=i.restarts, restarted_at=restarted_at, bound_since=since)


def observe_state(
    instance: Instance, state: State, memory: InstanceMemory, now: float, policy: Policy
) -> InstanceMemory:
    """Keep first-seen times: since when it is broken; what was held against an instance ends when it runs."""
    if state is State.RUNNING:
        after = InstanceMemory(restarts=memory.restarts, ran=True)
        return memory if after == memory else after
    broken_since = (memory.broken_since or now) if state is State.BROKEN else 0.0
    lost_slot = memory.broken_since > 0 and now - memory.broken_since >= policy.broken_grace
    was_never_of_use = is_of_no_use(instance, memory, now, policy) or (lost_slot and not memory.ran)
    released = state not in (State.HELD, State.TERMINATING, State.FINISHED)
    after = msgspec.structs.replace(
        memory,
        broken_since=broken_since,
        turns=Turns.FOR_GOOD if state is State.BROKEN and was_never_of_use else memory.turns,
        ran=memory.ran and (released or instance.pods > 0),
        turn_over=memory.turn_over and state is not State.STARTING,
        revoked="" if released else memory.revoked,
        refused="" if released else memory.refused,
        refused_times=0 if released else memory.refused_times,
        refused_until=0.0 if released else memory.refused_until,
        preempted_for=memory.preempted_for if state is State.TERMINATING else "",
    )
    return memory if after == memory else after


class Member(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One instance with its state. `memory` is what is remembered after this look."""

    instance: Instance
    memory: InstanceMemory
    state: State
    running: bool = False
    in_flight: bool = False
    step: LifeAction | None = None
    """What its own life asks for now; then nothing else is done about it."""

    @property
    def uid(self) -> str:
        return self.instance.uid

    @property
    def has_slot(self) -> bool:
        return self.running or self.in_flight

    @property
    def in_hands(self) -> bool:
        """Admitted and nothing of it bound: the scheduler may bind it at any moment."""
        return self.state is State.ADMITTED and not self.instance.bound

    @property
    def is_live(self) -> bool:
        """Its owner exists, goes on, and can be made into pods."""
        i = self.instance
        return not (i.owner_deleting or i.owner_finished or (i.faults and self.state is State.HELD))

    @property
    def lacks_binds(self) -> bool:
        """Some pods of it are bound, and others are not."""
        return self.has_slot and 0 < self.instance.bound < self.instance.expected

    @property
    def in_part(self) -> bool:
        """The others are with the scheduler or will be at once: no owner waits with them for the first ones."""
        return self.lacks_binds and not self.instance.more_to_come

    @property
    def unbound(self) -> PodRequests:
        """What its pods ask for that are still to be bound."""
        return self.instance.unbound


def look_at(instance: Instance, remembered: InstanceMemory, service: Service, now: float, policy: Policy) -> Member:
    """The instance with its state, and what is to be remembered of it."""
    step, i = next_step(instance, now), instance
    if remembered.ran and i.ready == i.running == i.pods == i.expected > 0:
        # The short cut for what most instances do: it runs however one counts, with nothing else to remember.
        troubled = i.gated or i.terminating or i.crashing or i.faulty or i.owner_deleting or i.owner_finished
        if not troubled and remembered == InstanceMemory(restarts=i.restarts, ran=True):
            return Member(instance, remembered, State.RUNNING, running=True, step=step)
    memory = observe(instance, remembered, now)
    state = state_of(instance, memory, now, policy)
    memory = observe_state(instance, state, memory, now, policy)
    if service.assumed and remembered.refused:  # pods that are assumed do not prove that they were made
        memory = msgspec.structs.replace(
            memory,
            refused=remembered.refused,
            refused_times=remembered.refused_times,
            refused_until=remembered.refused_until,
        )
    running = counts_as_running(instance, state, service.options.counts_from)
    in_flight = state in (State.ADMITTED, State.STARTING, State.RUNNING)
    if state is State.BROKEN:
        in_flight = now - memory.broken_since < policy.broken_grace
    return Member(instance, memory, state, running, in_flight and not running, step)


def moments_of(member: Member, policy: Policy) -> Iterator[float]:
    """When time alone may change its state."""
    memory, instance = member.memory, member.instance
    life = instance.life
    if instance.made_by_us and (life.failed or life.policy.deadline or instance.owner_finished):
        yield from recheck_at(instance)
    if member.state is State.RUNNING:
        return
    if memory.broken_since:
        yield memory.broken_since + policy.broken_grace
    if memory.restarted_at:
        yield memory.restarted_at + policy.stable_after
    if memory.refused_until:
        yield memory.refused_until
    if memory.bound_since:
        yield memory.bound_since + policy.start_timeout
    if instance.bound and instance.pods < instance.expected and not instance.made_by_us:
        yield makes_until(instance, policy)
    if instance.ends_by > 0:
        yield instance.ends_by + policy.due_back


@lru_cache(maxsize=65536)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which p2 comes before p10. Numbers may have any number of digits, which are never converted."""
    return tuple(
        (0, len(digits := part.lstrip("0")), digits) if part.isdecimal() else (1, 0, part)
        for part in re.split(r"([0-9]+)", name)
    )


def age(member: Member) -> Order:
    """Outdated revisions last; oldest job, natural order of names, uid: a total order, so that decisions repeat."""
    i = member.instance
    return i.outdated, i.created, natural(i.name), i.uid


def in_order(members: Iterable[Member]) -> list[Member]:
    found = list(members)
    return sorted(found, key=age) if len(found) > 1 else found


def candidate_order(member: Member) -> tuple[bool, bool, bool, bool, Order]:
    """First those that have not had their turn, and those in the scheduler's hands before those that are held; one
    whose old pods are still terminating last."""
    memory = member.memory
    terminating = member.state is State.TERMINATING
    return memory.turn_over, memory.turns is not Turns.NONE, terminating, not member.in_hands, age(member)


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


def is_candidate(member: Member, now: float, policy: Policy) -> bool:
    """Whether it may be chosen: it is held, in the scheduler's hands, or its room is to come while its old pods end."""
    if member.step is not None or why_not_admissible(member, now) is not None:
        return False
    if member.state is State.TERMINATING:
        return not member.instance.owner_deleting and is_to_come(member, now, policy)
    return member.state is State.HELD or member.in_hands


def is_to_come(member: Member, now: float, policy: Policy) -> bool:
    """Whether the room of its terminating pods still counts."""
    return member.instance.ends_by > 0 and now < member.instance.ends_by + policy.due_back


def is_made(member: Member) -> bool:
    """Whether admitting it would do anything now: pods that others make have to exist first."""
    i = member.instance
    return i.made_by_us or i.gated > 0 or member.in_hands


def is_incomplete(member: Member) -> bool:
    """Has live pods, and something to create or release. One whose old pod is still terminating has to wait for it, one
    whose job was spoilt meanwhile until that is mended. What others make can be released, never made."""
    i = member.instance
    has_pods = member.state in (State.ADMITTED, State.STARTING, State.RUNNING, State.BROKEN)
    lacks = i.gated > 0 or i.misplaced or (i.made_by_us and (i.stripped or i.pods + i.terminating < i.expected))
    return has_pods and lacks and not i.faults


def may_be_revoked(instance: Instance, policy: Policy) -> bool:
    """Whether its admission can be revoked: unbound, something would hold it again, enough restarts stay for faults."""
    return policy.revoke and not (instance.bound or instance.unheld) and affords_revoke(instance, policy)


def affords_revoke(instance: Instance, policy: Policy) -> bool:
    """Whether its admission can be revoked and leave enough of its restarts for faults."""
    budget = instance.budget
    return budget is None or budget.limit - budget.used > restart_reserve(budget, policy)


def restart_reserve(budget: RestartBudget, policy: Policy) -> int:
    """Restarts that are kept for faults."""
    return policy.restart_reserve if policy.restart_reserve >= 0 else max(2, budget.limit // 2)
