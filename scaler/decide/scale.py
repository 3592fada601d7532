"""How many instances are wanted of a service, and what is drained for that: section 3c of the contract.

Values in, values out. Must not act: a drain is an eviction without a beneficiary.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from scaler.decide.groups import Group
from scaler.decide.state import Member, affords_revoke, age
from scaler.decide.world import Policy, Service, State
from scaler.rules.rule import ALL, Rule

Wanted = tuple[tuple[int, float], ...]
"""Instances that were wanted in all, each time with when that ended, 0.0 = it has not: the highest first, and only what
was wanted within the delay after all that was higher."""


def followed(seen: Wanted, service: Service, now: float) -> Wanted:
    """What was wanted of the service, up to now; the same object when nothing changed. The first counts. Nothing where
    its rule names no delay. Where nothing is remembered, as many as are bound were wanted until now."""
    rule, delay = service.rule, service.options.scale_down_delay
    if rule is None or not delay:
        return ()
    wanted = in_all(rule, service.replicas)
    higher = [(number, ended or now) for number, ended in seen or ((_bound_in_all(rule, service), now),)]
    recent = [(number, ended) for number, ended in higher if number > wanted and now < ended + delay]
    found = (*recent, (wanted, 0.0))
    return seen if found == seen else found


def in_all(rule: Rule, replicas: int) -> int:
    """Instances in the smallest ratio that has so many; `ALL` where none has."""
    return ALL if replicas > rule.largest.total else rule.limited(replicas).largest.total


def _bound_in_all(rule: Rule, service: Service) -> int:
    """Instances in the smallest ratio that has place for all that is bound."""
    bound = Counter(one.group for one in service.instances if one.bound and one.group in rule.groups)
    if not bound:
        return 0
    small = bisect_left(rule.ratios, True, key=lambda ratio: any(n > ratio.of(g or "") for g, n in bound.items()))
    return rule.ratios[small - 1].total if small else ALL


def drained(group: Group, most: int, policy: Policy) -> tuple[list[Member], list[Member]]:
    """Bound instances beyond this number, whole ones, that are to be deleted, and those that should be and cost their
    jobs restarts that are kept for faults. A group never loses running ones that the number has place for."""
    ending = (State.TERMINATING, State.FINISHED)
    bound = [m for m in group.members if m.instance.bound and m.step is None and m.state not in ending]
    pairs = _pairs_that_end(group) if group.paired else 0
    beyond = len(bound) - most - pairs
    if beyond <= 0:
        return [], []
    spare = max(0, sum(m.running for m in bound) - most - pairs)
    # First what is of the least use, of that what costs no restart, then by deletion cost, then the newest.
    able = sorted((m for m in bound if not why_not_drained(m)), key=age, reverse=True)
    able.sort(key=lambda m: (_use(m), m.instance.budget is not None, m.instance.deletion_cost))
    chosen = _first([m for m in able if affords_revoke(m.instance, policy)], beyond, spare)
    spare -= sum(m.running for m in chosen)
    return chosen, _first([m for m in able if m not in chosen], beyond - len(chosen), spare)


def why_not_drained(member: Member) -> str:
    """Why deleting its pods would not end it, or would end it for good; "" when neither."""
    if member.instance.irreplaceable:
        return "nothing would make its pods again"
    return "nothing would hold its pods again" if member.instance.unheld else ""


def _pairs_that_end(group: Group) -> int:
    """Pairs of revisions, both bound, that need not be ended here: the newest one is about to run, or the owner has
    more than its spec says. Else the owner waits for another one of the newest, which would be beyond."""
    found = 0
    for owner, rollout in group.rollouts.items():
        mine = [m for m in group.members if m.instance.owner == owner and m.has_slot]
        newest = [m for m in mine if not (m.instance.outdated or m.running)]
        if newest or not rollout.wanted or len(mine) > rollout.wanted:
            found += max(0, rollout.pairs - sum(m.in_hands for m in newest))
    return min(group.paired, found)


def _first(members: Sequence[Member], number: int, running: int) -> list[Member]:
    """So many of them, and of running ones only so many."""
    idle = [m for m in members if not m.running][:number]
    return idle + [m for m in members if m.running][: max(0, min(number - len(idle), running))]


def _use(member: Member) -> int:
    return member.has_slot + (not member.in_part) + member.running + (member.state is State.RUNNING)
