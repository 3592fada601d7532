"""The groups of a service: counts, target, pairs of revisions, places, what is wanted, what is
drained; 3.2, 3.3, 3.8 and 3c of the contract. A place is a slot, or one given in this decision.
Must not choose whom to admit or revoke."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import msgspec

from scaler.decide.decision import GroupPlan, State
from scaler.decide.service.states import Member, affords_revoke, age
from scaler.decide.world import Policy, Service
from scaler.rules.rule import ALL, Ratio, Rule


class Target(msgspec.Struct, frozen=True, gc=False):
    """The target ratio. `unreachable`: the number of larger ratios that need more instances than
    are live."""

    index: int
    complete: bool
    unreachable: int


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


def _covers(counts: Mapping[str, int], ratio: Ratio) -> bool:
    # On the hot path, a third of the time of all().
    for group, number in ratio.counts.items():  # noqa: SIM110
        if counts.get(group, 0) < number:
            return False
    return True


class Rollout(msgspec.Struct, eq=False):
    """One owner in one group while an outdated instance runs: its outdated instances and those of
    the newest revision.

    An owner (Deployment, LeaderWorkerSet, StormService) whose template was changed deletes an
    outdated instance only when a newest one runs. If newest instances waited for a free place, the
    rollout would never end. So a running outdated instance and a newest instance of one owner can
    be a pair, which takes one place. Only the number of pairs counts, and only of instances above
    the target: where both have a place of their own, both count."""

    outdated: int = 0
    """Outdated instances that count as running."""
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
    def passing(self) -> int:
        """Live instances that the rollout will delete: the target must not count them as live."""
        return min(self.outdated, self.live_newest, max(0, self.live - self.wanted))


def rollouts_of(members: Iterable[Member]) -> dict[str, Rollout]:
    """Owner -> rollout, for each owner of which an outdated instance runs."""
    found: dict[str, Rollout] = {}
    for member in members:
        if member.running and member.instance.outdated and member.instance.owner:
            found.setdefault(member.instance.owner, Rollout()).outdated += 1
    for member in members if found else ():
        rollout = found.get(member.instance.owner)
        alive = member.is_live
        if rollout is not None:
            rollout.live += alive
            rollout.wanted = max(rollout.wanted, member.instance.wanted)
            if not member.instance.outdated:
                rollout.live_newest += alive
                rollout.newest += member.has_slot
    return found


class Group(msgspec.Struct, eq=False):
    """The members of one group, their counts before the decision takes effect, and the places."""

    members: list[Member] = []
    held: list[Member] = []
    released: list[Member] = []
    """Instances that are admitted, broken or without their PodGroup: no other instance is completed
    or revoked."""
    running: int = 0
    in_flight: int = 0
    live: int = 0
    target: int = 0
    paired: int = 0
    rollouts: dict[str, Rollout] = {}
    taken: int = 0
    """Instances that have a place, those of this decision included. Both instances of a pair
    count."""
    admitted: int = 0
    """Instances that got a place by an admission of this decision. `beside`: those of them in a
    pair."""
    beside: int = 0

    def copy(self) -> Group:
        """A copy on which one decision can give places away."""
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
        elif (
            member.state is State.ADMITTED
            or member.state is State.BROKEN
            or member.instance.stripped
        ):
            self.released.append(member)
        self.live += member.is_live

    def aim(self, target: int) -> None:
        """Set the target. Count pairs as one instance, as many of them as stand above the
        target."""
        self.target = target
        self.taken = self.running + self.in_flight
        if self.rollouts:
            self.paired = min(self.taken - self.fewest, max(0, self.taken - target))
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
    def wants(self) -> bool:
        """Whether one more instance might get a place."""
        return self.taken < self.target or bool(self.rollouts)

    @property
    def fewest(self) -> int:
        """The number of taken places when each possible pair takes one place."""
        return (
            self.taken - sum(rollout.pairs for rollout in self.rollouts.values())
            if self.rollouts
            else self.taken
        )

    def has_place_for(self, member: Member) -> bool:
        """Whether an instance without a place can get one. In a pair an instance needs no place of
        its own, but has to be within the target when all outdated instances are gone: running
        surplus is not replaced."""
        rollout = self._rollout_of(member)
        if rollout is None:
            return self.taken < self.target
        lasting = self.taken - sum(rollout.outdated for rollout in self.rollouts.values())
        return self.fewest < self.target or (
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

    def keeps(self, member: Member) -> bool:
        """Whether the place of an instance is within the target, or is shared with an outdated
        instance."""
        rollout = self._rollout_of(member)
        return self.fewest <= self.target or (
            rollout is not None and rollout.newest <= rollout.outdated
        )

    def _rollout_of(self, member: Member) -> Rollout | None:
        return None if member.instance.outdated else self.rollouts.get(member.instance.owner)


def groups_of(
    rule: Rule | None, members: tuple[Member, ...]
) -> tuple[dict[str, Group], Target | None]:
    """The groups of the rule, then all other groups that instances name (with target 0). And the
    target ratio."""
    groups = {name: Group() for name in rule.groups} if rule else {}
    for member in members:
        name = member.instance.group
        if name is not None and not member.instance.label_problem:
            if name not in groups:
                groups[name] = Group()
            groups[name].add(member)
    for group in groups.values():
        group.rollouts = rollouts_of(group.members)
        group.live -= sum(rollout.passing for rollout in group.rollouts.values())
    if rule is None:
        return groups, None
    running = {name: group.running for name, group in groups.items()}
    live = {name: group.live for name, group in groups.items()}
    target = choose_target(rule.ratios, running, live)
    for name, group in groups.items():
        group.aim(rule.ratios[target.index].of(name))
    return groups, target


Wanted = tuple[tuple[int, float], ...]
"""(wanted number, end of that number; 0.0 = now in force), the highest number first. An older
number is kept only while it is higher than the number in force and ended less than the delay
ago."""


def followed(seen: Wanted, service: Service, now: float) -> Wanted:
    """The wanted numbers up to now; the same object when nothing changed. The first number counts.
    Empty when the rule names no delay. With an empty memory, `_bound_in_all` was wanted until
    now."""
    rule = service.rule
    delay = service.options.scale_down_delay
    if rule is None or not delay:
        return ()
    wanted = in_all(rule, service.replicas)
    higher = [
        (number, ended or now) for number, ended in seen or ((_bound_in_all(rule, service), now),)
    ]
    recent = [
        (number, ended) for number, ended in higher if number > wanted and now < ended + delay
    ]
    found = (*recent, (wanted, 0.0))
    return seen if found == seen else found


def in_all(rule: Rule, replicas: int) -> int:
    """Instances of the smallest ratio with at least `replicas` instances; `ALL` when no ratio has
    so many."""
    return ALL if replicas > rule.largest.total else rule.limited(replicas).largest.total


def _bound_in_all(rule: Rule, service: Service) -> int:
    """Instances of the smallest ratio that has places for all bound instances; `ALL` when no ratio
    has."""
    bound = Counter(
        one.group for one in service.instances if one.bound and one.group in rule.groups
    )
    if not bound:
        return 0
    small = bisect_left(
        rule.ratios, True, key=lambda ratio: any(n > ratio.of(g or "") for g, n in bound.items())
    )
    return rule.ratios[small - 1].total if small else ALL


def drained(group: Group, most: int, policy: Policy) -> tuple[list[Member], list[Member]]:
    """Bound instances beyond the number `most`. First list: instances to delete. Second list:
    instances that stay, because a deletion would cost restarts that are kept for faults. `most`
    running instances always stay."""
    ending = (State.TERMINATING, State.FINISHED)
    bound = [
        m for m in group.members if m.instance.bound and m.step is None and m.state not in ending
    ]
    pairs = _pairs_that_end(group) if group.paired else 0
    beyond = len(bound) - most - pairs
    if beyond <= 0:
        return [], []
    spare = max(0, sum(m.running for m in bound) - most - pairs)
    # The least useful instances first; then those without a restart budget, the lowest deletion
    # cost, the newest.
    able = sorted((m for m in bound if not why_not_drained(m)), key=age, reverse=True)
    able.sort(key=lambda m: (_use(m), m.instance.budget is not None, m.instance.deletion_cost))
    chosen = _first([m for m in able if affords_revoke(m.instance, policy)], beyond, spare)
    spare -= sum(m.running for m in chosen)
    return chosen, _first([m for m in able if m not in chosen], beyond - len(chosen), spare)


def why_not_drained(member: Member) -> str:
    """Why an instance must not be drained: its pods would come again at once, or never again; ""
    when it may."""
    if member.instance.irreplaceable:
        return "nothing would make its pods again"
    return "nothing would hold its pods again" if member.instance.unheld else ""


def _pairs_that_end(group: Group) -> int:
    """Bound pairs of revisions that the owner ends itself: the newest instance is about to run, or
    the owner has more instances than its spec says. Otherwise the owner waits for one more newest
    instance, beyond the number."""
    found = 0
    for owner, rollout in group.rollouts.items():
        mine = [m for m in group.members if m.instance.owner == owner and m.has_slot]
        newest = [m for m in mine if not (m.instance.outdated or m.running)]
        if newest or not rollout.wanted or len(mine) > rollout.wanted:
            found += max(0, rollout.pairs - sum(m.in_hands for m in newest))
    return min(group.paired, found)


def _first(members: Sequence[Member], number: int, running: int) -> list[Member]:
    """The first `number` members, those that do not run first; at most `running` running ones."""
    idle = [m for m in members if not m.running][:number]
    return idle + [m for m in members if m.running][: max(0, min(number - len(idle), running))]


def _use(member: Member) -> int:
    return member.has_slot + (not member.in_part) + member.running + (member.state is State.RUNNING)
