"""How many instances of a service are wanted, and which instances are drained: section 3c of the contract.

Values in, values out. A drain is an eviction without a beneficiary; this module orders none.
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
"""(wanted number, end of that number; 0.0 = now in force), the highest number first. An older number is kept only while
it is higher than the number in force and ended less than the delay ago."""


def followed(seen: Wanted, service: Service, now: float) -> Wanted:
    """The wanted numbers up to now; the same object when nothing changed. The first number counts. Empty when the rule
    names no delay. With an empty memory, `_bound_in_all` was wanted until now."""
    rule, delay = service.rule, service.options.scale_down_delay
    if rule is None or not delay:
        return ()
    wanted = in_all(rule, service.replicas)
    higher = [(number, ended or now) for number, ended in seen or ((_bound_in_all(rule, service), now),)]
    recent = [(number, ended) for number, ended in higher if number > wanted and now < ended + delay]
    found = (*recent, (wanted, 0.0))
    return seen if found == seen else found


def in_all(rule: Rule, replicas: int) -> int:
    """Instances of the smallest ratio with at least `replicas` instances; `ALL` when no ratio has so many."""
    return ALL if replicas > rule.largest.total else rule.limited(replicas).largest.total


def _bound_in_all(rule: Rule, service: Service) -> int:
    """Instances of the smallest ratio that has places for all bound instances; `ALL` when no ratio has."""
    bound = Counter(one.group for one in service.instances if one.bound and one.group in rule.groups)
    if not bound:
        return 0
    small = bisect_left(rule.ratios, True, key=lambda ratio: any(n > ratio.of(g or "") for g, n in bound.items()))
    return rule.ratios[small - 1].total if small else ALL


def drained(group: Group, most: int, policy: Policy) -> tuple[list[Member], list[Member]]:
    """Bound instances beyond the number `most`. First list: instances to delete. Second list: instances that stay,
    because a deletion would cost restarts that are kept for faults. `most` running instances always stay."""
    ending = (State.TERMINATING, State.FINISHED)
    bound = [m for m in group.members if m.instance.bound and m.step is None and m.state not in ending]
    pairs = _pairs_that_end(group) if group.paired else 0
    beyond = len(bound) - most - pairs
    if beyond <= 0:
        return [], []
    spare = max(0, sum(m.running for m in bound) - most - pairs)
    # The least useful instances first; then those without a restart budget, the lowest deletion cost, the newest.
    able = sorted((m for m in bound if not why_not_drained(m)), key=age, reverse=True)
    able.sort(key=lambda m: (_use(m), m.instance.budget is not None, m.instance.deletion_cost))
    chosen = _first([m for m in able if affords_revoke(m.instance, policy)], beyond, spare)
    spare -= sum(m.running for m in chosen)
    return chosen, _first([m for m in able if m not in chosen], beyond - len(chosen), spare)


def why_not_drained(member: Member) -> str:
    """Why an instance must not be drained: its pods would come again at once, or never again; "" when it may."""
    if member.instance.irreplaceable:
        return "nothing would make its pods again"
    return "nothing would hold its pods again" if member.instance.unheld else ""


def _pairs_that_end(group: Group) -> int:
    """Bound pairs of revisions that the owner ends itself: the newest instance is about to run, or the owner has more
    instances than its spec says. Otherwise the owner waits for one more newest instance, beyond the number."""
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
