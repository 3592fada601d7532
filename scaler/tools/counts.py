"""The decision on bare counts: what `scaler plan` answers, without instances, names or times.

The target is chosen by the planner's own function; what remains are the sums that it gets by counting instances,
and a property test holds the two together. Every in-flight instance is taken as admitted with no pod bound, so it can
be revoked; nothing is broken, refused or misspelt. Must not grow rules of its own.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from scaler.decide.target import choose_target
from scaler.decide.world import Reason
from scaler.rules.rule import Rule

MOST = 1_000_000
"""The largest number that a rule may hold, and so the largest count that means anything."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Counts = dict[str, Count]


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instances per group; a group that is not mentioned has none."""

    running: Counts = {}
    in_flight: Counts = {}
    held: Counts = {}


class GroupDecision(msgspec.Struct, frozen=True):
    """One group's share. `reasons` says why the instances that stay held do: reason -> how many."""

    target: int
    running: int
    in_flight: int
    held: int
    admit: int
    revoke: int
    reasons: dict[Reason, int]


class TargetRatio(msgspec.Struct, frozen=True):
    """`index` counts from 0 = the largest ratio; `counts` names every group of the rule."""

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


def decide(rule: Rule, case: Case, *, paused: bool = False) -> Decision:
    """What the planner would do for a service with these counts. Groups that no ratio names are not looked at."""
    names = rule.groups
    live = {name: case.running.get(name, 0) + case.in_flight.get(name, 0) + case.held.get(name, 0) for name in names}
    target = choose_target(rule.ratios, case.running, live)
    ratio = rule.ratios[target.index]
    share = _paused_share if paused else _share
    return Decision(
        TargetRatio(target.index, {name: ratio.of(name) for name in names}),
        target.complete,
        {name: share(case, name, ratio.of(name), rule.largest.of(name)) for name in names},
    )


def _share(case: Case, name: str, target: int, largest: int) -> GroupDecision:
    """Fill this group up to its target, or revoke what is above it and not bound."""
    running, in_flight, held = case.running.get(name, 0), case.in_flight.get(name, 0), case.held.get(name, 0)
    admit = max(0, min(target - running - in_flight, held))
    revoke = max(0, min(running + in_flight - target, in_flight))
    waiting = max(0, min(held - admit, largest - running - in_flight - admit))
    reasons = {Reason.WAITING_FOR_RATIO: waiting, Reason.NOT_IN_RATIO: held - admit - waiting}
    reasons = {reason: number for reason, number in reasons.items() if number}
    return GroupDecision(target, running, in_flight, held, admit, revoke, reasons)


def _paused_share(case: Case, name: str, target: int, largest: int) -> GroupDecision:
    share = _share(case, name, target, largest)
    return msgspec.structs.replace(share, admit=0, revoke=0, reasons={Reason.PAUSED: share.held} if share.held else {})
