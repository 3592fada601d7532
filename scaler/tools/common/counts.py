"""The decision on bare counts: the answers of `scaler plan`, without instances, names or times.

The decision's own function chooses the target; this module adds the sums that the decision gets by
counting instances, and a property test compares the two. Every in-flight instance counts as
admitted with no pod bound, so it can be revoked; none is broken, refused or misspelt. Must not add
rules of its own."""

from __future__ import annotations

from typing import Annotated

import msgspec

from scaler.decide.service.groups import choose_target
from scaler.reasons.reasons import Reason
from scaler.rules.rule import ALL, Rule

MOST = ALL
"""The largest number in a rule, and so the largest count with a meaning."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Counts = dict[str, Count]


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instances per group; a group that is not mentioned has none."""

    running: Counts = {}
    in_flight: Counts = {}
    held: Counts = {}
    replicas: Count = ALL
    """Instances wanted in all, like `spec.replicas` of an ElasticService; 0 = the service rests."""


class GroupDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of one group. `reasons`: reason -> instances that stay held for it; `drain`: running
    instances beyond the wanted number, which are deleted."""

    target: int
    running: int
    in_flight: int
    held: int
    admit: int
    revoke: int
    reasons: dict[Reason, int]
    drain: int = 0


class TargetRatio(msgspec.Struct, frozen=True):
    """`index` counts from 0 = the largest ratio, -1 = none: the service rests; `counts` has all
    groups of the rule."""

    index: int
    counts: dict[str, int]


class CountsDecision(msgspec.Struct, frozen=True):
    target: TargetRatio
    complete: bool
    groups: dict[str, GroupDecision]


def unknown_groups(rule: Rule, case: Case) -> tuple[str, ...]:
    """Groups in the case that no ratio names, in the order of the case."""
    named = (*case.running, *case.in_flight, *case.held)
    return tuple(name for name in dict.fromkeys(named) if name not in rule.groups)


def aimed_at(rule: Rule, replicas: int) -> int:
    """Index of the largest ratio for this number of wanted instances; -1 for none."""
    return len(rule.ratios) - len(rule.limited(replicas).ratios) if replicas else -1


def decide(rule: Rule, case: Case, *, paused: bool = False) -> CountsDecision:
    """The decision for a service with these counts. Groups that no ratio names are ignored."""
    names = rule.groups
    wanted = rule if case.replicas == ALL else rule.limited(case.replicas)
    live = {}
    for name in names:
        live[name] = (
            case.running.get(name, 0) + case.in_flight.get(name, 0) + case.held.get(name, 0)
        )
    target = choose_target(wanted.ratios, case.running, live)
    ratio = wanted.ratios[target.index]
    index = target.index + len(rule.ratios) - len(wanted.ratios) if case.replicas else -1
    counts = {}
    shares = {}
    for name in names:
        counts[name] = ratio.of(name)
        share = _share(case, name, counts[name], (wanted, rule))
        shares[name] = _paused(share) if paused else share
    return CountsDecision(TargetRatio(index, counts), target.complete, shares)


def _share(case: Case, name: str, target: int, rules: tuple[Rule, Rule]) -> GroupDecision:
    """Fill the group up to its target, or revoke unbound instances above it. `rules`: the rule
    within the wanted number, and the full rule."""
    running = case.running.get(name, 0)
    in_flight = case.in_flight.get(name, 0)
    held = case.held.get(name, 0)
    within_number, full = rules
    wanted = within_number.largest.of(name)
    largest = full.largest.of(name)
    admit = max(0, min(target - running - in_flight, held))
    revoke = max(0, min(running + in_flight - target, in_flight))
    released = running + in_flight + admit
    still_held = held - admit
    waiting = min(still_held, max(0, wanted - released))
    within = min(still_held, max(0, largest - released))
    reasons: dict[Reason, int] = {}
    for reason, number in (
        (Reason.WAITING_FOR_RATIO, waiting),
        (Reason.SCALED_DOWN, within - waiting),
        (Reason.NOT_IN_RATIO, still_held - within),
    ):
        if number:
            reasons[reason] = number
    drain = max(0, running - wanted) if case.replicas <= full.largest.total else 0
    return GroupDecision(target, running, in_flight, held, admit, revoke, reasons, drain)


def _paused(share: GroupDecision) -> GroupDecision:
    reasons = {Reason.PAUSED: share.held} if share.held else {}
    return msgspec.structs.replace(share, admit=0, revoke=0, drain=0, reasons=reasons)
