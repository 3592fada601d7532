"""How many instances are wanted in all, and what is bound beyond that: section 3c of the contract.

    spec.replicas -> the number that counts now -> the largest ratio aimed at -> what is deleted

Without a delay in the rule the number of `spec.replicas` counts. With a delay, a higher number
counts until it ended that long ago: with 300 s, a service that wanted 6 instances and wants 4 since
100 s ago still aims at 6, for 200 s."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from scaler.decide.decision import State
from scaler.decide.service.groups import Group
from scaler.decide.service.states import Member, affords_revoke, age, use_of
from scaler.decide.world import Policy, Service
from scaler.rules.rule import ALL, Ratio, Rule

Wanted = tuple[tuple[int, float], ...]
"""(wanted number, end of that number; 0.0 = now in force), the highest number first. An older
number is kept only while it is higher than the number in force and ended less than the delay
ago."""


class Limit(msgspec.Struct, frozen=True):
    """What is wanted of a service now."""

    rule: Rule | None
    """Without the ratios larger than `spec.replicas` needs; None when no rule is in force."""
    left_out: int = 0
    """How many ratios are left out; of no meaning while the service rests."""
    replicas: int = ALL
    """Instances of the largest ratio that remains; `ALL` = none is left out, 0 = the service
    rests."""


class ScaleDown(msgspec.Struct, frozen=True):
    """Bound instances beyond `Limit.replicas`."""

    deleted: tuple[Member, ...] = ()
    kept_for_restarts: tuple[Member, ...] = ()
    """They stay: a deletion would cost restarts that are kept for faults."""


def followed(seen: Wanted, service: Service, now: float) -> Wanted:
    """The wanted numbers up to now; the same object when nothing changed. The first number counts.
    Empty when the rule names no delay. With an empty memory, `_bound_in_all` was wanted until
    now."""
    rule = service.rule
    delay = service.options.scale_down_delay
    if rule is None or not delay:
        return ()
    wanted = in_all(rule, service.replicas)
    before = seen or ((_bound_in_all(rule, service), now),)
    still_counted = []
    for number, ended in before:
        end = ended or now
        if number > wanted and now < end + delay:
            still_counted.append((number, end))
    after = (*still_counted, (wanted, 0.0))
    return seen if after == seen else after


def limit_of(service: Service, wanted: Wanted) -> Limit:
    """The ratios that are aimed at. `wanted`: the numbers of `followed`."""
    rule = service.rule
    replicas = wanted[0][0] if wanted else service.replicas
    if rule is None or in_all(rule, replicas) == ALL:
        return Limit(rule)
    limited = rule.limited(replicas)
    return Limit(limited, len(rule.ratios) - len(limited.ratios), limited.largest.total)


def in_all(rule: Rule, replicas: int) -> int:
    """Instances of the smallest ratio with at least `replicas` instances; `ALL` when no ratio has
    so many."""
    return ALL if replicas > rule.largest.total else rule.limited(replicas).largest.total


def _bound_in_all(rule: Rule, service: Service) -> int:
    """Instances of the smallest ratio that has places for all bound instances; `ALL` when no ratio
    has."""
    bound = Counter[str]()
    for instance in service.instances:
        if instance.bound and instance.group is not None and instance.group in rule.groups:
            bound[instance.group] += 1
    if not bound:
        return 0

    def lacks_places(ratio: Ratio) -> bool:
        return any(number > ratio.of(group) for group, number in bound.items())

    too_small_from = bisect_left(rule.ratios, True, key=lacks_places)
    return rule.ratios[too_small_from - 1].total if too_small_from else ALL


def scale_down(group: Group, most: int, policy: Policy) -> ScaleDown:
    """Bound instances of a group beyond the number `most`. `most` running instances always stay.

    The least useful are deleted first; then those whose operator counts no restarts, the lowest
    deletion cost, the newest."""
    bound = _bound(group.members)
    pairs = _pairs_that_end(group) if group.paired else 0
    beyond = len(bound) - most - pairs
    if beyond <= 0:
        return ScaleDown()
    running = max(0, _running(bound) - most - pairs)
    able = [member for member in bound if not why_not_deleted(member)]
    able.sort(key=age, reverse=True)
    able.sort(key=lambda m: (use_of(m), m.instance.budget is not None, m.instance.deletion_cost))
    affordable = [member for member in able if affords_revoke(member.instance, policy)]
    deleted = _first(affordable, beyond, running)
    others = [member for member in able if member not in deleted]
    kept = _first(others, beyond - len(deleted), running - _running(deleted))
    return ScaleDown(tuple(deleted), tuple(kept))


def why_not_deleted(member: Member) -> str:
    """Why a bound instance beyond what is wanted must not be deleted: its pods would come again at
    once, or never again; "" when it may."""
    if member.instance.irreplaceable:
        return "nothing would make its pods again"
    return "nothing would hold its pods again" if member.instance.unheld else ""


def _bound(members: Iterable[Member]) -> list[Member]:
    """The bound instances that stay if nothing is done about them."""
    bound = []
    for member in members:
        ends = member.state in (State.TERMINATING, State.FINISHED)
        if member.instance.bound and member.step is None and not ends:
            bound.append(member)
    return bound


def _pairs_that_end(group: Group) -> int:
    """Bound pairs of revisions that the owner ends itself: the newest instance is about to run, or
    the owner has more instances than its spec says. Otherwise the owner waits for one more newest
    instance, beyond the number."""
    ending = 0
    for owner, rollout in group.rollouts.items():
        existing = 0
        starting = 0
        unbound = 0
        for member in group.members:
            if member.instance.owner == owner and member.has_slot:
                existing += 1
                if not (member.instance.outdated or member.running):
                    starting += 1
                    unbound += member.is_with_the_scheduler
        if starting or not rollout.wanted or existing > rollout.wanted:
            ending += max(0, rollout.pairs - unbound)
    return min(group.paired, ending)


def _running(members: Sequence[Member]) -> int:
    return sum(member.running for member in members)


def _first(members: Sequence[Member], number: int, running: int) -> list[Member]:
    """The first `number` members, those that do not run first; at most `running` running ones."""
    idle: list[Member] = []
    runs: list[Member] = []
    for member in members:
        if member.running:
            runs.append(member)
        else:
            idle.append(member)
    idle = idle[:number]
    return idle + runs[: max(0, min(number - len(idle), running))]
