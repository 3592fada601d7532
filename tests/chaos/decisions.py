"""Whether a decision was right for what it saw: S1, S3, S11 and the order of ratios, counted anew
from the bare facts.

Reads the counts of pods in a world, its nodes and what the plans do; the numbers and states that
the decision found for itself are not looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from types import UnionType

from scaler.decide.decision import NOBODY, Admit, Complete, Decision, Evict, Plan, Revoke
from scaler.decide.invariants import violations
from scaler.decide.world import Instance, Preempt, Service, World
from scaler.rules.rule import Trade
from tests.chaos.witness import Witness
from tests.chaos.writes import Writes
from tests.decide.contract import Counts, limited, target_of

DUE_BACK = 300.0
"""Seconds after their grace period for which the room of ending pods is still to come."""


class Decisions:
    """Judges every decision of every process before it is carried out, and notes whom the scaler
    may evict."""

    def __init__(self, witness: Witness, writes: Writes) -> None:
        self.had_turn: set[str] = set()
        """uid of every instance that had its attempt (3b.5), as the last decision remembers it."""
        self._witness = witness
        self._writes = writes

    def judge(self, life: str, world: World, decision: Decision) -> None:
        self._witness.counts["decision"] += 1
        known = (
            one
            for service in decision.memory.services.values()
            for one in service.instances.items()
        )
        self.had_turn = {uid for uid, memory in known if memory.had_attempt or memory.gives_way}
        for found in (*violations(world, decision), *wrong(world, decision)):
            self._witness.fail(f"{life}: {found}")
        for plan in decision.plans:
            # what comes back under its name is held anew
            self._writes.released -= _ordered(plan, Revoke | Evict)
            self._writes.released |= _ordered(plan, Admit | Complete)
            self._writes.evicted |= _ordered(plan, Evict)
            if plan.actions:
                actions = ", ".join(
                    f"{type(action).__name__} {action.uid[:8]}" for action in plan.actions
                )
                self._witness.note(
                    f"{life} decides for {plan.key}: target {plan.target}: {actions}"
                )


def _ordered(plan: Plan, kinds: UnionType | type) -> set[str]:
    """uid and name of every instance to which such a thing is done."""
    uids = {action.uid for action in plan.actions if isinstance(action, kinds)}
    return uids | {verdict.name for verdict in plan.verdicts if verdict.uid in uids}


def wrong(world: World, decision: Decision) -> Iterator[str]:
    """Each admission and each eviction that the contract does not allow in this world."""
    going = [
        action for plan in decision.plans for action in plan.actions if isinstance(action, Evict)
    ]
    drained = {action.uid for action in going if action.beneficiary == NOBODY}
    for service, plan in zip(world.services, decision.plans, strict=True):
        if service.rule is not None:
            ratios = _ratios(service)
            everything = sum(service.rule.ratios[0].counts.values())
            if service.replicas > everything and any(
                one.uid in drained for one in service.instances
            ):
                yield f"3c anew: {plan.key} is drained though spec.replicas is {service.replicas}"
            yield from _wrong_drains(service, ratios[0], plan, drained)
            yield from _wrong_admissions(service, service.rule.groups, ratios, plan)
    yield from _wrong_evictions(
        world, [action for action in going if action.uid not in drained], drained
    )


def _ratios(service: Service) -> list[Counts]:
    """Of its rule those that are wanted, the largest first."""
    return (
        limited([ratio.counts for ratio in service.rule.ratios], service.replicas)
        if service.rule
        else [{}]
    )


def _wrong_drains(
    service: Service, largest: Counts, plan: Plan, drained: set[str]
) -> Iterator[str]:
    """3c: nothing that runs within what `spec.replicas` orders."""
    mine = [one for one in service.instances if one.uid in drained]
    for group in {one.group for one in mine}:
        own = [one for one in service.instances if one.group == group and one.bound]
        runs = sum(map(_runs, own))
        lost = sum(_runs(one) and one.uid in drained for one in own)
        most = largest.get(group or "", 0)
        if len(own) - sum(one in mine for one in own) < most or (lost and runs - lost < most):
            yield (
                f"3c anew: {lost} of {runs} running {group} of {plan.key} are drained, the ratio"
                f" has {most}"
            )


def _wrong_admissions(
    service: Service, groups: Iterable[str], ratios: Sequence[Counts], plan: Plan
) -> Iterator[str]:
    admitted = {action.uid for action in plan.actions if isinstance(action, Admit)}
    there = service.instances
    live = Counter(
        one.group or "" for one in there if not (one.owner_deleting or one.owner_finished)
    )
    running = Counter(one.group or "" for one in there if _runs(one))
    ratio = ratios[target_of(ratios, running, live)[0]]
    for group in groups:
        own = [instance for instance in service.instances if instance.group == group]
        more = [instance for instance in own if instance.uid in admitted]
        out = [instance for instance in own if _runs(instance) or _is_coming(instance)]
        before = _places(out)
        after = _places([*out, *more])
        if more and after > max(ratio.get(group, 0), before):
            yield (
                f"S1 anew: {plan.key}: {len(more)} of {group} admitted beside {before}, though the"
                f" target is {dict(ratio)}: {', '.join(instance.name for instance in more)}"
            )


def _wrong_evictions(world: World, going: Sequence[Evict], drained: Set[str]) -> Iterator[str]:
    """3.6 and 3b.4: only surplus goes, of services that may lose it, for one that is not served,
    and only where the room then places all that its minimum misses."""
    services = {str(service.key): service for service in world.services}
    evicted = {action.uid for action in going}
    for key, service in services.items():
        own = [one for one in service.instances if one.uid in evicted]
        runs = Counter(one.group for one in service.instances if _runs(one))
        for group, number in Counter(one.group for one in own if _runs(one)).items():
            if runs[group] - number < (least := _ratios(service)[-1].get(group or "", 0)):
                yield (
                    f"S3 anew: {number} of {runs[group]} running {group} of {key} go, the minimum"
                    f" is {least}"
                )
        uids = {one.uid for one in own}
        for other in {action.beneficiary for action in going if action.uid in uids}:
            if not _may_lose(world, service, services[other]):
                yield f"S3 anew: {key} loses bound instances to {other}"
    for key in {action.beneficiary for action in going}:
        service = services[key]
        victims = {action.uid for action in going if action.beneficiary == key}
        minimum = _ratios(service)[-1]
        runs = Counter(one.group for one in service.instances if _runs(one))
        missing = _missing(service, minimum, victims)
        room = _room(world, service, victims | drained)
        served = all(runs[group] >= number for group, number in minimum.items())
        idle = served or not (missing or any(map(_in_trouble, service.instances)))
        if idle and service.options.trade is not Trade.ALWAYS:
            yield f"3.6 anew: {len(victims)} bound instances go for {key}, which misses nothing"
        if missing > room:
            yield (
                f"S11 anew: {key} misses {missing} pods, and has room for {room} once"
                f" {len(victims)} have gone"
            )


def _highest_priority(service: Service) -> int:
    return max(one.priority for one in service.instances)


def _may_lose(world: World, victim: Service, other: Service) -> bool:
    if victim is other:
        return victim.options.trade is not Trade.OFF
    theirs = _highest_priority(victim)
    own = _highest_priority(other)
    policy = world.policy
    allowed = policy.preempt is not Preempt.NEVER and (
        victim.options.preemptable or not policy.honour_preemptable
    )
    return allowed and (
        theirs < own or (theirs == own and policy.preempt is Preempt.EQUAL_OR_HIGHER)
    )


def _missing(service: Service, minimum: Counts, evicted: Set[str]) -> int:
    """Pods of the smallest ratio that are not bound; of each group the nearest instances."""
    count = 0
    for group, number in minimum.items():
        own = [one for one in service.instances if one.group == group and one.uid not in evicted]
        own = [one for one in own if not (one.owner_deleting or one.owner_finished or one.ended)]
        count += sum(sorted(one.expected - one.bound for one in own)[:number])
    return count


def _room(world: World, service: Service, evicted: Set[str]) -> int:
    """Nodes of its pool with no pods but those that go: every pod of these worlds takes all NPUs of
    one."""
    places = []
    for each in world.services:
        for one in each.instances:
            if one.uid in evicted:
                places += [name for name, _ in one.bound_pods]
    where = {need.where for one in service.instances for need, _ in one.requests}
    labels = {pair for one in where for pair in one.selector}
    free = 0
    for node in world.nodes.nodes if world.nodes is not None else ():
        npus = (
            [number for number, name in enumerate(world.nodes.resources) if "/" in name]
            if world.nodes
            else []
        )
        ending = [amounts for until, amounts in node.ending if world.now < until + DUE_BACK]
        whole = True
        for at in npus:
            room = node.free[at] + sum(one[at] for one in ending)
            whole = whole and room >= node.allocatable[at]
        mine = labels <= set(node.node_class.labels) and node.schedulable
        free += mine and (whole or node.name in places)
    return free


def _places(out: list[Instance]) -> int:
    """An outdated one that runs and a newest one of the same owner stand in one place."""
    outdated = Counter(one.owner for one in out if one.outdated and one.owner and _runs(one))
    newest = Counter(one.owner for one in out if not one.outdated)
    return len(out) - (outdated & newest).total()


def _runs(instance: Instance) -> bool:
    """As far as pods tell; one that restarted a moment ago counts here, which only makes the target
    larger."""
    return instance.running == instance.pods == instance.expected and not _in_trouble(instance)


def _in_trouble(instance: Instance) -> bool:
    i = instance
    return bool(
        i.terminating or i.crashing or i.faulty or i.ended or i.owner_deleting or i.owner_finished
    )


def _is_coming(instance: Instance) -> bool:
    """Has pods, and nothing is wrong with them but that they do not run yet. One that is bound in
    part may have had its attempt, which does not show here, so that another goes in its place
    (3b.5)."""
    i = instance
    broken = i.bound and (
        i.ended or i.crashing or i.faulty or i.terminating or i.bound < i.expected
    )
    return i.pods > i.gated and not broken and not (i.owner_deleting or i.owner_finished)
