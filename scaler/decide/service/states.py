"""One instance in a decision: state, slot, memory, why it cannot be admitted, order. Section 2 of
the contract."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from scaler.decide import attempts
from scaler.decide.decision import LifeAction, State
from scaler.decide.memory import InstanceMemory
from scaler.decide.service.lifecycle import is_pausing, next_step, recheck_at
from scaler.decide.training import remember
from scaler.decide.world import Instance, Policy, RestartBudget, Service
from scaler.reasons.reasons import Reason
from scaler.rules.rule import CountsFrom

_NUMBER = re.compile("[0-9]+")
Order = tuple[bool, float, str, str]


def state_of(instance: Instance, memory: InstanceMemory, now: float, policy: Policy) -> State:
    """The first state that applies, in the order of the contract."""
    i = instance
    if i.owner_finished:
        return State.FINISHED
    if i.owner_deleting or (i.pods == 0 and i.terminating):
        return State.TERMINATING
    if i.pods == i.gated or (memory.never_placed and not i.bound):
        return State.HELD
    restarted = memory.restarted_at > 0 and now - memory.restarted_at < policy.stable_after
    healthy = i.may_go_on and not (i.terminating or i.crashing or i.faulty or restarted)
    if i.running == i.pods == i.expected and healthy:
        return State.BROKEN if memory.gave_place else State.RUNNING
    # Other owners have some time to make pods; an owner that waits for the first to be ready, as
    # long as that takes.
    in_time = not i.made_by_us and (awaits_owner(i, memory) or now < makes_until(i, policy))
    lacks_pods = i.pods < i.expected and not in_time
    if i.bound and (i.ended or not healthy or lacks_pods or fails_to_run(i, memory, now, policy)):
        return State.BROKEN
    if i.bound == i.pods == i.expected:
        return State.STARTING
    return State.ADMITTED


def awaits_owner(instance: Instance, memory: InstanceMemory) -> bool:
    """Whether the pods that are missing are made only when the first pods are ready. An instance
    that ran has lost pods, unless its first pods have to become ready again."""
    return instance.more_to_come and not (instance.first_are_ready and memory.ran)


def makes_until(instance: Instance, policy: Policy) -> float:
    """The end of the time in which an owner has to make the other pods of an instance."""
    return instance.newest + policy.minimum_timeout


def fails_to_run(instance: Instance, memory: InstanceMemory, now: float, policy: Policy) -> bool:
    """Whether the instance is bound in part and its attempt has ended, or is bound for
    `start_timeout` without running."""
    if 0 < instance.bound < instance.expected and memory.gives_way:
        return True
    return memory.bound_since > 0 and now - memory.bound_since >= policy.start_timeout


def counts_as_running(instance: Instance, state: State, counts_from: CountsFrom) -> bool:
    """Whether the instance counts as running by `counts_from`; otherwise it is in flight or without
    a slot."""
    if state is State.RUNNING:
        return counts_from is not CountsFrom.READY or instance.ready == instance.expected
    return state is State.STARTING and counts_from is CountsFrom.BOUND


class Look(NamedTuple):
    """A look at the instances of a service: what is the same for all of them."""

    service: Service
    now: float
    policy: Policy


def with_counts(instance: Instance, memory: InstanceMemory, look: Look) -> InstanceMemory:
    """The memory with `restarts`, `restarted_at` and `bound_since` of now. The first look is no
    restart: it may follow a failover. Pods that are made anew have not restarted."""
    i = instance
    now = look.now
    restarted_at = now if 0 <= memory.restarts < i.restarts else memory.restarted_at
    if not i.pods:
        restarted_at = 0.0
    well = i.running
    if look.service.options.counts_from is CountsFrom.READY:
        well = min(i.running, i.ready)
    is_whole = i.bound == i.pods == i.expected
    waits = i.bound > 0 and (awaits_owner(i, memory) or (is_whole and well < i.expected))
    since = (memory.bound_since or now) if waits else 0.0
    gave_place = memory.gave_place and waits
    owner = "" if i.made_by_us else i.owner
    after = (i.restarts, restarted_at, since, gave_place, owner)
    before = (memory.restarts, memory.restarted_at, memory.bound_since, memory.gave_place)
    if after == (*before, memory.owner):
        return memory
    return replace(
        memory,
        restarts=i.restarts,
        restarted_at=restarted_at,
        bound_since=since,
        gave_place=gave_place,
        owner=owner,
    )


def with_state(
    instance: Instance, state: State, memory: InstanceMemory, look: Look
) -> InstanceMemory:
    """The memory with `broken_since` of now, and without what ends with the state. An instance that
    runs forgets its attempts."""
    if state is State.RUNNING:
        after = _of_one_that_runs(memory)
        if memory.bound_since:  # it is not Ready, where that counts
            after = replace(after, bound_since=memory.bound_since)
        return memory if after == memory else after
    broken_since = (memory.broken_since or look.now) if state is State.BROKEN else 0.0
    released = state not in (State.HELD, State.TERMINATING, State.FINISHED)
    after = replace(
        attempts.after_look(
            memory,
            lost=state is State.BROKEN and _never_ran(instance, memory, broken_since, look),
            all_bound=state is State.STARTING,
        ),
        broken_since=broken_since,
        ran=memory.ran and (released or instance.pods > 0),
        unmade_until=0.0 if owner_made(instance, memory) else memory.unmade_until,
        revoked="" if released else memory.revoked,
        preempted_for=memory.preempted_for if state is State.TERMINATING else "",
    )
    # while writes for the service are under way, pods are no proof of a creation
    if released and not look.service.assumed:
        after = replace(after, refused="", refused_times=0, refused_until=0.0)
    return memory if after == memory else after


def _never_ran(instance: Instance, memory: InstanceMemory, broken_since: float, look: Look) -> bool:
    """Whether a broken instance fails to run, or lost its slot without ever having run."""
    if fails_to_run(instance, memory, look.now, look.policy):
        return True
    lost_slot = broken_since > 0 and look.now - broken_since >= look.policy.broken_grace
    return lost_slot and not memory.ran


class Pause(Enum):
    """Why nothing of an instance is made for a while."""

    NONE = "none runs"
    CREATION_REFUSED = "its creation was refused"
    REFUSED_BY_KUBELET = "a kubelet refused a pod of it"


class Member(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One instance with its state. `memory`: the memory of the instance after this look."""

    instance: Instance
    memory: InstanceMemory
    state: State
    running: bool = False
    in_flight: bool = False
    step: LifeAction | None = None
    """The next step of its life (`lifecycle.py`). An instance with a step gets no other action."""
    pause: Pause = Pause.NONE
    """The pause that runs: nothing of it is made until it is over."""
    follows: bool = False
    """2: its owner makes its pods only when instances of another role are ready, which are held or
    start. It is on its way."""
    is_replaced: bool = False
    """3.8: it is outdated, and an instance of the newest revision of its owner needs no place of
    its own beside it."""

    @property
    def uid(self) -> str:
        return self.instance.uid

    @property
    def pauses(self) -> bool:
        return self.pause is not Pause.NONE

    @property
    def is_ours(self) -> bool:
        """Whether the scaler makes it, also without a rule. Left alone: an instance with a label
        problem (a training job), an instance of others, which is never held then, and an instance
        with a step."""
        return self.instance.made_by_us and not self.instance.label_problem and self.step is None

    @property
    def has_slot(self) -> bool:
        return self.running or self.in_flight

    @property
    def is_with_the_scheduler(self) -> bool:
        """Admitted and no pod bound: the scheduler may bind the instance at any moment."""
        return self.state is State.ADMITTED and not self.instance.bound

    @property
    def is_live(self) -> bool:
        """The owner exists, is not being deleted, has not finished, and its pods can be made."""
        i = self.instance
        hindrance = i.faults or i.name_taken or self.memory.never_placed
        cannot_be_made = self.state is State.HELD and bool(hindrance)
        return not (i.owner_deleting or i.owner_finished or cannot_be_made)

    @property
    def lacks_binds(self) -> bool:
        return self.has_slot and 0 < self.instance.bound < self.instance.expected

    @property
    def is_whole(self) -> bool:
        """3b.1a: it has a slot, and every pod is on a node and has not ended. What its owner makes
        only later is not missing."""
        i = self.instance
        is_first_part = i.on_nodes == i.pods and awaits_owner(i, self.memory)
        return self.has_slot and (is_first_part or i.on_nodes >= i.expected)

    @property
    def is_lost(self) -> bool:
        """3b.1b: Broken, without a slot, and without a pod that it had: one that failed, ended, is
        gone, terminates, or is not made again or released yet. One whose blocks would be broken by
        that is not asked for before all its pods are gone."""
        i = self.instance
        released = i.pods - i.gated - i.ended
        lacks_pods = released < i.expected and not awaits_owner(i, self.memory)
        is_out = self.state is State.BROKEN and not self.has_slot
        return is_out and lacks_pods and not i.displaced

    @property
    def is_half_made(self) -> bool:
        """Broken and without a slot, because its attempt ended while it was bound in part. The
        scheduler has its other pods."""
        i = self.instance
        is_out = self.state is State.BROKEN and not self.has_slot
        return is_out and self.memory.gives_way and 0 < i.bound < i.expected

    @property
    def in_part(self) -> bool:
        """Bound in part, and the scheduler has the other pods or gets them at once: no owner holds
        them back."""
        return self.lacks_binds and not self.awaits_owner

    @property
    def awaits_owner(self) -> bool:
        """2: the pods that exist are bound, and the owner makes the others when these are ready."""
        i = self.instance
        return i.bound == i.pods and awaits_owner(i, self.memory)


class Use(IntEnum):
    """How much a bound instance does for its service: what does less is evicted first, whatever
    `counts_from` says (3c, 3.6, 3b.4c)."""

    WITHOUT_SLOT = 0
    IN_PART = 1
    NOT_RUNNING = 2
    NOT_READY = 3
    READY = 4


def use_of(member: Member) -> Use:
    if member.state is State.RUNNING:
        is_ready = member.instance.ready == member.instance.expected
        return Use.READY if is_ready else Use.NOT_READY
    if not member.has_slot:
        return Use.WITHOUT_SLOT
    return Use.IN_PART if member.in_part else Use.NOT_RUNNING


def look_at(instance: Instance, remembered: InstanceMemory, look: Look) -> Member:
    """The instance with its state. `remembered`: its memory before this look."""
    step = next_step(instance, look.now)
    if _runs_as_before(instance, remembered):
        return Member(
            instance,
            remembered,
            State.RUNNING,
            running=True,
            step=step,
            is_replaced=_is_of_old_revision(instance),
        )
    memory = with_counts(instance, remembered, look)
    memory = attempts.after_scheduler_spoke(memory, instance, look.now)
    state = state_of(instance, memory, look.now, look.policy)
    memory = with_state(instance, state, memory, look)
    running = counts_as_running(instance, state, look.service.options.counts_from)
    in_flight = state in (State.ADMITTED, State.STARTING, State.RUNNING)
    if state is State.BROKEN:
        in_flight = look.now - memory.broken_since < look.policy.broken_grace
    is_replaced = (running or in_flight) and _is_of_old_revision(instance)
    if is_replaced and not running:
        is_replaced = _does_not_start(state, memory, look)
    return Member(
        instance,
        memory,
        state,
        running,
        in_flight and not running,
        step,
        pause=_pause_of(instance, memory, look.now),
        follows=_follows(instance, look),
        is_replaced=is_replaced,
    )


def _follows(instance: Instance, look: Look) -> bool:
    """2: whether the instance is made only when those of another role are ready: as long as those
    are held, and for `start_timeout` after they are bound."""
    if not instance.more_to_come or instance.pods or instance.terminating:
        return False
    began = instance.newest
    return began <= 0 or look.now < began + look.policy.start_timeout


def _is_of_old_revision(instance: Instance) -> bool:
    """3.8: whether its owner makes instances of a newer revision now."""
    return instance.outdated and bool(instance.owner)


def _does_not_start(state: State, memory: InstanceMemory, look: Look) -> bool:
    """3.8: whether an instance that does not count as running does not start: it is Broken, it runs
    and is not Ready where that counts, or it was bound for `minimum_timeout` and does not run. A
    pod waits for its image, for example, or for a Secret that does not exist."""
    if state in (State.BROKEN, State.RUNNING):
        return True
    since = memory.bound_since
    return since > 0 and look.now - since >= look.policy.minimum_timeout


def _runs_as_before(instance: Instance, remembered: InstanceMemory) -> bool:
    """The short cut for most instances: the instance runs, by any `counts_from`, and its memory
    does not change."""
    i = instance
    if not (remembered.ran and i.ready == i.running == i.pods == i.expected > 0):
        return False
    if i.gated or i.terminating or i.crashing or i.faulty or i.owner_deleting or i.owner_finished:
        return False
    if not i.may_go_on:
        return False
    return i.restarts == remembered.restarts and remembered == _of_one_that_runs(remembered)


def _of_one_that_runs(memory: InstanceMemory) -> InstanceMemory:
    """An instance that runs forgets its attempts; not that it was bound, until its service
    serves."""
    return InstanceMemory(
        restarts=memory.restarts,
        ran=True,
        most_bound=memory.most_bound,
        owner=memory.owner,
        sizes=remember.of_one_that_runs(memory),
    )


def moments_of(member: Member, policy: Policy) -> Iterator[float]:
    """The times at which the state may change by time alone."""
    memory = member.memory
    instance = member.instance
    life = instance.life
    if instance.made_by_us and (life.failed or life.policy.deadline or instance.owner_finished):
        yield from recheck_at(instance)
    if memory.bound_since:
        yield memory.bound_since + policy.start_timeout
    if member.state is State.RUNNING:
        return
    for refusal in instance.refusals:
        yield refusal.over_at
    begun = (
        (memory.broken_since, policy.broken_grace),
        (memory.restarted_at, policy.stable_after),
        (memory.refused_until, 0.0),
        (memory.unmade_until, 0.0),
        (instance.ends_by, policy.due_back),
        (instance.newest if instance.never_placed else 0.0, attempts.SESSIONS),
    )
    for since, seconds in begun:
        if since > 0:
            yield since + seconds
    if member.follows and instance.newest > 0:
        yield instance.newest + policy.start_timeout
    if memory.bound_since and _is_of_old_revision(instance):
        yield memory.bound_since + policy.minimum_timeout
    if instance.bound and instance.pods < instance.expected and not instance.made_by_us:
        yield makes_until(instance, policy)


@lru_cache(maxsize=1 << 14)
def natural(name: str) -> str:
    """A sort key: p2 before p10. Numbers may have any number of digits and are never converted. The
    key has at most three characters for one of the name: so many names can be remembered, whoever
    chose them."""
    return _NUMBER.sub(_with_length, name)


def _with_length(number: re.Match[str]) -> str:
    """Its digits behind their number: of two numbers the one with fewer digits is smaller. The
    first character is below all of a name: `p2` is before `p-a` and behind `p`."""
    digits = number[0].lstrip("0")
    return f"\0{chr(len(digits))}{digits}"


def age(member: Member) -> Order:
    """Sort key: outdated revisions last, oldest job first, natural order of names, uid. A total
    order."""
    i = member.instance
    return i.outdated, i.created, natural(i.name), i.uid


def in_order(members: Iterable[Member]) -> list[Member]:
    in_any_order = list(members)
    return sorted(in_any_order, key=age) if len(in_any_order) > 1 else in_any_order


def candidate_order(member: Member) -> tuple[bool, bool, bool, bool, bool, Order]:
    """Sort key: what gave way for another instance last (3b.1e); before it candidates that had
    their attempt; then those that are lost or have terminating pods; those with the scheduler
    first; by age."""
    memory = member.memory
    return (
        bool(memory.gave_way_for),
        memory.gives_way,
        memory.had_its_attempt,
        member.state in (State.TERMINATING, State.BROKEN),
        not member.is_with_the_scheduler,
        age(member),
    )


def newest_admission_first(members: Iterable[Member]) -> list[Member]:
    """Newest admission first; of instances that were admitted in the same second, the last by age
    first."""
    return sorted(members, key=lambda m: (m.instance.admitted_at, age(m)), reverse=True)


def why_not_admissible(member: Member, now: float) -> Reason | None:
    """Why a held instance cannot be admitted, whatever the ratio; None when it can."""
    instance = member.instance
    memory = member.memory
    if instance.label_problem:
        return instance.label_problem
    if instance.faults or memory.never_placed:
        return Reason.JOB_INVALID
    if instance.name_taken:
        return Reason.NAME_TAKEN
    if _waits_after_refusal(instance, memory, now):
        return Reason.CREATE_REFUSED
    return None


def _pause_of(instance: Instance, memory: InstanceMemory, now: float) -> Pause:
    if _waits_after_refusal(instance, memory, now):
        return Pause.CREATION_REFUSED
    return Pause.REFUSED_BY_KUBELET if is_pausing(instance, now) else Pause.NONE


def _waits_after_refusal(instance: Instance, memory: InstanceMemory, now: float) -> bool:
    """Whether its creation was refused and is not due again: in time, or by a change of its job."""
    is_due = now >= memory.refused_until or instance.generation != memory.refused_generation
    return bool(memory.refused) and not is_due


def is_kept_though_refused(member: Member, now: float) -> bool:
    """3b.1b, 3b.5a: whether the instance is held for its refused creation alone: it is not made yet
    by us, and asks for its room all the same where its service has lost it."""
    is_held = member.state is State.HELD and member.step is None
    return is_held and why_not_admissible(member, now) is Reason.CREATE_REFUSED


def is_candidate(member: Member, now: float, policy: Policy) -> bool:
    """Whether the instance may get a place: it is held, with the scheduler, or its old pods end and
    their room is expected."""
    if member.step is not None or why_not_admissible(member, now) is not None:
        return False
    if is_left_unmade(member, now):
        return False
    if member.state is State.TERMINATING:
        return not member.instance.owner_deleting and has_expected_room(member, now, policy)
    return member.state is State.HELD or member.is_with_the_scheduler


def is_left_unmade(member: Member, now: float) -> bool:
    """3.3: whether its owner had not made its pods when its last attempt ended, and it is not tried
    again yet."""
    return now < member.memory.unmade_until


def has_expected_room(member: Member, now: float, policy: Policy) -> bool:
    """Whether the room of its terminating pods is expected, and not overdue."""
    return member.instance.ends_by > 0 and now < member.instance.ends_by + policy.due_back


def is_made(member: Member) -> bool:
    """Whether the instance can be admitted now: pods that others make have to exist first, and the
    pause is over that follows when a kubelet refused a pod of it."""
    i = member.instance
    if member.pauses:
        return False
    has_gated = i.gated > 0 and owner_made(i, member.memory)
    return i.made_by_us or has_gated or member.is_with_the_scheduler


def owner_made(instance: Instance, memory: InstanceMemory) -> bool:
    """Whether the owner of an instance has made what is released at once. One pod is enough, except
    of a job of a super-pod: the scheduler chooses its blocks for the pods that it sees in one
    session, so a held instance has to have all of them."""
    i = instance
    if i.seen_together and i.pods == i.gated and not awaits_owner(i, memory):
        return i.pods >= i.expected
    return i.pods > 0


def is_incomplete(member: Member) -> bool:
    """Whether the instance has live pods, and other pods to create or release. Waits for:
    terminating pods to go, an invalid job to be fixed, and where pods of a block cannot return to
    their nodes, all others to go. Pods of other owners can be released, not created."""
    i = member.instance
    has_pods = member.state in (State.ADMITTED, State.STARTING, State.RUNNING, State.BROKEN)
    lacks = (
        i.gated > 0
        or i.misplaced
        or (i.made_by_us and (i.stripped or i.pods + i.terminating < i.expected))
    )
    return has_pods and lacks and not (i.faults or member.pauses or i.displaced)


def may_be_revoked(instance: Instance, policy: Policy) -> bool:
    """Whether the admission can be revoked: no pod bound, the pods can be held again, enough
    restarts remain."""
    return (
        policy.revoke
        and not (instance.bound or instance.unheld)
        and affords_revoke(instance, policy)
    )


def affords_revoke(instance: Instance, policy: Policy) -> bool:
    """Whether a revocation leaves the restarts that are kept for faults."""
    budget = instance.budget
    return budget is None or budget.limit - budget.used > restart_reserve(budget, policy)


def restart_reserve(budget: RestartBudget, policy: Policy) -> int:
    return policy.restart_reserve if policy.restart_reserve >= 0 else max(2, budget.limit // 2)
