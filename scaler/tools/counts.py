"""The decision on bare counts: what `scaler plan` answers, without instances, names or times.

The target is chosen by the decision's own function; what remains are the sums that it gets by counting instances,
and a property test holds the two together. Every in-flight instance is taken as admitted with no pod bound, so it can
be revoked; nothing is broken, refused or misspelt. Must not grow rules of its own.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from scaler.decide.groups import choose_target
from scaler.decide.world import Reason
from scaler.rules.rule import ALL, Rule

MOST = ALL
"""The largest number that a rule may hold, and so the largest count that means anything."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Counts = dict[str, Count]


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instances per group; a group that is not mentioned has none."""

    running: Counts = {}
    in_flight: Counts = {}
    held: Counts = {}
    replicas: Count = ALL
    """Instances wanted in all, as `spec.replicas` of an ElasticService says it; 0 = the service rests."""


class GroupDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One group's share. `reasons` says why the instances that stay held do: reason -> how many; `drain` how many of
    those that run are more than is wanted, and are deleted."""

    target: int
    running: int
    in_flight: int
    held: int
    admit: int
    revoke: int
    reasons: dict[Reason, int]
    drain: int = 0


class TargetRatio(msgspec.Struct, frozen=True):
    """`index` counts from 0 = the largest ratio, -1 = none: the service rests; `counts` names every group of the
    rule."""

    index: int
    counts: dict[str, int]


class Decision(msgspec.Struct, frozen=True):
    target: TargetRatio
    complete: bool
    groups: dict[str, GroupDecision]


def unknown_groups(rule: Rule, case: Case) -> tuple[str, ...]:
    """Groups that the case counts and no ratio names, in the order in which they were written."""
    named = (*case.running, *case.in_flight, *case.held)
    return tuple(name for name in dict.fromkeys(named) if name not in rule.groups)


def aimed_at(rule: Rule, replicas: int) -> int:
    """Index of the largest ratio that is aimed at when so many instances are wanted in all; -1 for none of them."""
    return len(rule.ratios) - len(rule.limited(replicas).ratios) if replicas else -1


def decide(rule: Rule, case: Case, *, paused: bool = False) -> Decision:
    """What the decision would do for a service with these counts. Groups that no ratio names are not looked at."""
    names, wanted = rule.groups, rule if case.replicas == ALL else rule.limited(case.replicas)
    live = {name: case.running.get(name, 0) + case.in_flight.get(name, 0) + case.held.get(name, 0) for name in names}
    target = choose_target(wanted.ratios, case.running, live)
    ratio = wanted.ratios[target.index]
    index = target.index + len(rule.ratios) - len(wanted.ratios) if case.replicas else -1
    shares = {name: _share(case, name, ratio.of(name), (wanted, rule)) for name in names}
    return Decision(
        TargetRatio(index, {name: ratio.of(name) for name in names}),
        target.complete,
        {name: _paused(share) for name, share in shares.items()} if paused else shares,
    )


def _share(case: Case, name: str, target: int, rules: tuple[Rule, Rule]) -> GroupDecision:
    """Fill this group up to its target, or revoke what is above it and not bound. `rules`: as it is to be followed, and
    the full one."""
    running, in_flight, held = case.running.get(name, 0), case.in_flight.get(name, 0), case.held.get(name, 0)
    wanted, largest = (rule.largest.of(name) for rule in rules)
    admit = max(0, min(target - running - in_flight, held))
    revoke = max(0, min(running + in_flight - target, in_flight))
    places = [max(0, number - running - in_flight - admit) for number in (wanted, largest)]
    waiting, within = (min(held - admit, number) for number in places)
    reasons = {
        Reason.WAITING_FOR_RATIO: waiting,
        Reason.SCALED_DOWN: within - waiting,
        Reason.NOT_IN_RATIO: held - admit - within,
    }
    reasons = {reason: number for reason, number in reasons.items() if number}
    drain = max(0, running - wanted) if case.replicas <= rules[1].largest.total else 0
    return GroupDecision(target, running, in_flight, held, admit, revoke, reasons, drain)


def _paused(share: GroupDecision) -> GroupDecision:
    reasons = {Reason.PAUSED: share.held} if share.held else {}
    return msgspec.structs.replace(share, admit=0, revoke=0, drain=0, reasons=reasons)
