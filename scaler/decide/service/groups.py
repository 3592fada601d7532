"""The groups of a service: counts, target, pairs of revisions and places; 3.1, 3.2, 3.3 and 3.8 of
the contract. A place is a slot, or one given in this decision. Must not choose whom to admit or
revoke."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import msgspec

from scaler.decide.decision import GroupPlan, State
from scaler.decide.service.states import Member, Pause
from scaler.rules.rule import Ratio, Rule


class Target(msgspec.Struct, frozen=True, gc=False):
    """The target ratio. `unreachable`: the number of larger ratios that need more instances than
    are live."""

    index: int
    complete: bool
    unreachable: int
    needs_refused: bool = False
    """Only with an instance whose creation was refused can the ratio be reached: it is tried again
    alone (3.7)."""


def choose_target(
    ratios: Sequence[Ratio], running: Mapping[str, int], live: Mapping[str, int]
) -> Target:
    """From the smallest ratio upward the first that is not satisfied, among those that have enough
    live instances. Two binary searches find it: ratios never rise (the rule's own check), so each
    of the two holds from some index on."""
    satisfied_from = bisect_left(ratios, True, key=lambda ratio: _covers(running, ratio))
    reachable_from = bisect_left(ratios, True, key=lambda ratio: _covers(live, ratio))
    if reachable_from == len(ratios):
        # In a rollout more instances may run than are left after the rollout.
        return Target(
            len(ratios) - 1, complete=satisfied_from < len(ratios), unreachable=len(ratios)
        )
    if satisfied_from > reachable_from:
        return Target(satisfied_from - 1, complete=False, unreachable=reachable_from)
    return Target(reachable_from, complete=True, unreachable=reachable_from)


def target_beside_refused(
    ratios: Sequence[Ratio], running: Mapping[str, int], groups: Mapping[str, Group]
) -> Target:
    """1, live: a ratio that only an instance could fill whose creation was refused is not aimed at
    until the instance is due again; then it is tried again alone."""
    due: dict[str, int] = {}
    sure: dict[str, int] = {}
    for name, group in groups.items():
        pausing = [one for one in group.refused if one.pause is Pause.CREATION_REFUSED]
        due[name] = group.live - len(pausing)
        sure[name] = group.live - len(group.refused)
    target = choose_target(ratios, running, sure)
    if due == sure:
        return target
    with_due = choose_target(ratios, running, due)
    if with_due.index < target.index:
        return msgspec.structs.replace(with_due, needs_refused=True)
    return target


def _covers(counts: Mapping[str, int], ratio: Ratio) -> bool:
    # On the hot path, a third of the time of all().
    for group, number in ratio.counts.items():
        if counts.get(group, 0) < number:
            return False
    return True


class Rollout(msgspec.Struct, eq=False):
    """One owner in one group while an outdated instance runs, or does not start: its outdated
    instances and those of the newest revision.

    An owner (Deployment, LeaderWorkerSet, StormService) whose template was changed deletes an
    outdated instance only when a newest one runs. If newest instances waited for a free place, the
    rollout would never end. So an outdated instance that runs, or does not start, and a newest
    instance of one owner can be a pair, which takes one place. Only the number of pairs counts, and
    only of instances above the target: where both have a place of their own, both count."""

    outdated: int = 0
    """Outdated instances that have a place and run, or do not start."""
    newest: int = 0
    """Instances of the newest revision that take a place, running or in flight."""
    live: int = 0
    live_newest: int = 0
    wanted: int = 0
    """Instances that `spec.replicas` of the owner names; 0 = not known."""

    @property
    def pairs(self) -> int:
        return min(self.outdated, self.newest)

    @property
    def leaving(self) -> int:
        """Live instances that the rollout will delete: the target must not count them as live."""
        return min(self.outdated, self.live_newest, max(0, self.live - self.wanted))


def rollouts_of(members: Iterable[Member]) -> dict[str, Rollout]:
    """Owner -> rollout, for each owner of which an outdated instance runs or does not start."""
    rollouts: dict[str, Rollout] = {}
    for member in members:
        if member.is_replaced:
            rollouts.setdefault(member.instance.owner, Rollout()).outdated += 1
    if not rollouts:
        return rollouts
    for member in members:
        rollout = rollouts.get(member.instance.owner)
        alive = member.is_live
        if rollout is not None:
            rollout.live += alive
            rollout.wanted = max(rollout.wanted, member.instance.wanted)
            if not member.instance.outdated:
                rollout.live_newest += alive
                rollout.newest += member.has_slot
    return rollouts


class Group(msgspec.Struct, eq=False):
    """The members of one group, their counts before the decision takes effect, and the places."""

    members: list[Member] = []
    held: list[Member] = []
    released: list[Member] = []
    """Instances that are admitted, broken or without their PodGroup: no other instance is made
    whole or revoked."""
    running: int = 0
    """A pair of revisions counts once, as running."""
    in_flight: int = 0
    live: int = 0
    """Instances that a ratio may count on: without those that a rollout will delete."""
    target: int = 0
    paired: int = 0
    """Pairs of revisions that count once."""
    rollouts: dict[str, Rollout] = {}
    """Owner -> rollout, for each owner of which an outdated instance runs or does not start."""
    taken: int = 0
    """Instances that have a place, those of this decision included. Both instances of a pair
    count."""
    admitted: int = 0
    """Instances that got a place by an admission of this decision."""
    beside: int = 0
    """Those of them in a pair, without a place of their own."""

    def copy(self) -> Group:
        """A copy on which one decision can give places away."""
        if not self.rollouts:
            return copy(self)
        rollouts = {owner: copy(rollout) for owner, rollout in self.rollouts.items()}
        return msgspec.structs.replace(self, rollouts=rollouts)

    def add(self, member: Member) -> None:
        self.members.append(member)
        self.running += member.running
        self.in_flight += member.in_flight
        if member.step is not None:
            pass  # its step is taken, whatever the ratio says
        elif member.state is State.HELD:
            self.held.append(member)
        elif member.state in (State.ADMITTED, State.BROKEN) or member.instance.stripped:
            self.released.append(member)
        self.live += member.is_live

    def aim(self, target: int) -> None:
        """Set the target. Count pairs as one instance, as many of them as stand above the
        target."""
        self.target = target
        self.taken = self.running + self.in_flight
        if self.rollouts:
            self.paired = min(self.taken - self.taken_in_pairs, max(0, self.taken - target))
            self.running = min(self.running, self.taken - self.paired)
            self.in_flight = self.taken - self.paired - self.running

    def plan(self, *, revoke: int) -> GroupPlan:
        return GroupPlan(
            target=self.target,
            running=self.running,
            in_flight=self.in_flight,
            held=len(self.held),
            live=self.live,
            admit=self.admitted,
            revoke=revoke,
            paired=self.paired,
            beside=self.beside,
        )

    @property
    def refused(self) -> list[Member]:
        """Held instances whose last creation was refused."""
        return [member for member in self.held if member.memory.refused and member.is_live]

    @property
    def wants(self) -> bool:
        """Whether one more instance might get a place."""
        return self.taken < self.target or bool(self.rollouts)

    @property
    def taken_in_pairs(self) -> int:
        """The number of taken places when each possible pair takes one place."""
        pairs = 0
        for rollout in self.rollouts.values():
            pairs += rollout.pairs
        return self.taken - pairs

    def has_place_for(self, member: Member) -> bool:
        """Whether an instance without a place can get one. In a pair an instance needs no place of
        its own, but has to be within the target when all outdated instances are gone: running
        surplus is not replaced."""
        rollout = self._rollout_of(member)
        if rollout is None:
            return self.taken < self.target
        lasting = self.taken - sum(rollout.outdated for rollout in self.rollouts.values())
        return self.taken_in_pairs < self.target or (
            rollout.newest < rollout.outdated and lasting < self.target
        )

    def admit(self, member: Member) -> None:
        self.admitted += 1
        self.beside += self.taken >= self.target
        self.give_place(member)

    def give_place(self, member: Member) -> None:
        rollout = self._rollout_of(member)
        self.taken += 1
        if rollout is not None:
            rollout.newest += 1

    def is_within_target(self, member: Member) -> bool:
        """Whether the place of an instance is within the target, or is shared with an outdated
        instance."""
        rollout = self._rollout_of(member)
        return self.taken_in_pairs <= self.target or (
            rollout is not None and rollout.newest <= rollout.outdated
        )

    def _rollout_of(self, member: Member) -> Rollout | None:
        return None if member.instance.outdated else self.rollouts.get(member.instance.owner)


def groups_of(
    rule: Rule | None, members: tuple[Member, ...], *, keeps_losses: bool = False
) -> tuple[dict[str, Group], Target | None]:
    """The groups of the rule, then all other groups that instances name (with target 0). And the
    target ratio. `keeps_losses`: the service served, and what its minimum lost is kept for it."""
    groups = {name: Group() for name in rule.groups} if rule else {}
    for member in members:
        name = member.instance.group
        if name is not None and not member.instance.label_problem:
            if name not in groups:
                groups[name] = Group()
            groups[name].add(member)
    for group in groups.values():
        group.rollouts = rollouts_of(group.members)
        group.live -= sum(rollout.leaving for rollout in group.rollouts.values())
    if rule is None:
        return groups, None
    running = {name: group.running for name, group in groups.items()}
    is_any_refused = any(member.memory.refused for member in members)
    has_loss_kept = keeps_losses and not _covers(running, rule.smallest)
    if is_any_refused and not has_loss_kept:
        target = target_beside_refused(rule.ratios, running, groups)
    else:
        live = {name: group.live for name, group in groups.items()}
        target = choose_target(rule.ratios, running, live)
    for name, group in groups.items():
        group.aim(rule.ratios[target.index].of(name))
    return groups, target
