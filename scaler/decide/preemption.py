"""Whose bound instances may be evicted, and which of them: sections 3.6 and 3b.4 of the contract.

Values in, values out: it says who could be spared, and finds the fewest and cheapest that make room. Must not evict.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from scaler.decide.draft import Draft
from scaler.decide.groups import Group
from scaler.decide.members import Member, age
from scaler.decide.nodes import Node
from scaler.decide.world import Policy, Preempt, State
from scaler.rules.rule import Trade


class Victim(msgspec.Struct, frozen=True, eq=False):
    """An instance that may be evicted for somebody."""

    draft: Draft
    member: Member

    @property
    def runs(self) -> bool:
        return self.member.state is State.RUNNING


Helps = Callable[[Node], bool]
"""Whether room on this node could help."""


def surplus(draft: Draft, homes: Mapping[str, Node], helps: Helps, *, running: bool) -> list[Victim]:
    """Bound instances beyond the minimum, newest first. `running` ones, or those of no use: without a slot, or bound
    and not running. A group that has its minimum keeps it. What is on a node that takes no pods counts for nothing."""
    demand = draft.demand
    if demand.paused or demand.service.assumed or demand.rule is None:
        return []
    smallest = demand.rule.smallest
    found: list[Victim] = []
    for name, group in demand.groups.items():
        bound = [member for member in _bound(draft, group) if _on_well_nodes(member, homes)]
        helpful = {m.uid for m in bound if any(helps(homes[node]) for node, _ in m.instance.seats)}
        least = smallest.of(name)
        chosen = _running(bound, helpful, least + group.paired) if running else _useless(bound, helpful, least)
        found += [Victim(draft, member) for member in chosen]
    return found


def _bound(draft: Draft, group: Group) -> list[Member]:
    """Newest first."""
    bound = (m for m in group.members if m.instance.bound and m.step is None and m.uid not in draft.nominated)
    alive = (m for m in bound if m.state not in (State.TERMINATING, State.FINISHED))
    return sorted(alive, key=age, reverse=True)


def _running(bound: Sequence[Member], helpful: Collection[str], least: int) -> list[Member]:
    runs = [member for member in bound if member.state is State.RUNNING]
    return [member for member in runs if member.uid in helpful][: max(0, len(runs) - least)]


def _useless(bound: Sequence[Member], helpful: Collection[str], least: int) -> list[Member]:
    runs = sum(member.state is State.RUNNING for member in bound)
    rest = [member for member in bound if member.state is not State.RUNNING]
    with_slot = sorted((m for m in rest if m.has_slot), key=lambda m: not m.in_part)
    beyond = max(0, min(len(with_slot), runs + len(with_slot) - least))
    chosen = [m for m in rest if not m.has_slot] + [m for m in with_slot if m.uid in helpful][:beyond]
    return [member for member in chosen if member.uid in helpful]


def _on_well_nodes(member: Member, homes: Mapping[str, Node]) -> bool:
    """Its room would come back at once."""
    nodes = [homes.get(name) for name, _ in member.instance.seats]
    return bool(nodes) and all(node is not None and node.ready for node in nodes)


def of_others(
    draft: Draft, drafts: Iterable[Draft], homes: Mapping[str, Node], helps: Helps, policy: Policy
) -> list[Victim]:
    """What may be evicted of other services for a minimum of this one, the cheapest first: lower priority, not running
    before running, newest."""
    found: list[Victim] = []
    for other in drafts:
        if other is not draft and _may_lose(other, draft, policy):
            found += surplus(other, homes, helps, running=False) + surplus(other, homes, helps, running=True)
    found.sort(key=lambda one: age(one.member), reverse=True)
    found.sort(key=lambda one: (one.draft.demand.priority, one.runs))
    return found


def _may_lose(other: Draft, beneficiary: Draft, policy: Policy) -> bool:
    if not other.demand.service.options.preemptable and policy.honour_preemptable:
        return False
    theirs, own = other.demand.priority, beneficiary.demand.priority
    return theirs < own or (theirs == own and policy.preempt is Preempt.EQUAL_OR_HIGHER)


def may_trade(draft: Draft) -> bool:
    """Whether its own running surplus may be evicted for what it misses."""
    trade = draft.demand.service.options.trade
    return trade is Trade.ALWAYS or (trade is Trade.WHEN_NOT_SERVING and not draft.demand.serves)


def fewest(victims: Sequence[Victim], suffices: Callable[[Collection[Victim]], bool]) -> list[Victim]:
    """Of victims that together suffice, those that cannot be spared; the last ones, the costliest, are spared first."""
    few = bisect_left(range(len(victims) + 1), True, key=lambda number: suffices(victims[:number]))
    chosen = list(victims[:few])
    for victim in reversed(victims[: max(0, few - 1)]):
        without = [one for one in chosen if one is not victim]
        if suffices(without):
            chosen = without
    return chosen
