"""Services that are not weighed against others. Those that decide alone: where nodes may not be read, or their rule
says so, or their jobs name no rule. And those at which deciding fails, which cost the others nothing.

Every place of the target is given away at once. What is in the scheduler's hands and beyond the target is revoked while
something is missing that it could keep from a node: it is not known what is free.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import msgspec

from scaler.decide.demand import Demand
from scaler.decide.draft import NOT_MADE, Draft
from scaler.decide.groups import Group
from scaler.decide.memory import ServiceMemory
from scaler.decide.state import Member, is_made, may_be_revoked, newest_admission_first, why_not_admissible
from scaler.decide.world import Note, Plan, Policy, Reason, Service, ServiceKey, State, Warning


def decide_alone(draft: Draft, now: float) -> None:
    """Fill the draft."""
    demand = draft.demand
    if demand.target is None:
        if not demand.service.key.rule:
            _without_rule(draft, now)
        return
    if demand.paused:
        return
    # Whether an instance of the target is missing that needs room: what is bound and merely does not run needs none.
    missing = any(
        group.running + sum(1 for m in group.members if m.in_flight and m.instance.bound) < group.target
        for group in demand.groups.values()
    )
    chosen = {name: _chosen(draft, name) for name, group in demand.groups.items() if group.wants}
    # An instance whose creation was refused is tried again alone: its partners are admitted when it has pods.
    refused = next((m for members in chosen.values() for m in members if m.memory.refused and is_made(m)), None)
    alone = None if demand.serves else refused
    for name, group in demand.groups.items():
        for member in chosen.get(name, ()):
            if alone in (None, member) and is_made(member):
                draft.admit(member)
                continue
            draft.places(member).give_place(member)
            if is_made(member):
                draft.waits[member.uid] = Reason.WAITING_FOR_RATIO, tuple(draft.lacking)
            else:
                draft.waits[member.uid] = Reason.WAITING_FOR_SCHEDULER, (NOT_MADE,)
        _revoke(draft, name, group, missing=missing)


def _chosen(draft: Draft, name: str) -> list[Member]:
    """Those that can start now get the places; what is left is kept for those whose pods are yet to come."""
    group, chosen = draft.demand.groups[name].copy(), []
    held = (member for member in draft.demand.candidates[name] if member.state is State.HELD)
    for member in sorted(held, key=is_made, reverse=True):
        if group.has_place_for(member):
            group.give_place(member)
            chosen.append(member)
    return chosen


def _without_rule(draft: Draft, now: float) -> None:
    """Jobs that name no rule (MindIE's controller and coordinator) have nothing to wait for."""
    for member in draft.demand.members:
        instance = member.instance
        # A training job above all is not ours, whatever it lacks; what others make was never held.
        if instance.label_problem or not instance.made_by_us or member.step is not None:
            continue
        if member.state is State.HELD and why_not_admissible(member, now) is None:
            draft.admit_without_place(member)


def _revoke(draft: Draft, name: str, group: Group, *, missing: bool) -> None:
    demand = draft.demand
    beyond = group.fewest - group.target
    above = group.running + group.in_flight - demand.largest(name)
    unbound = [member for member in demand.hands if member.instance.group == name]
    candidates = newest_admission_first(m for m in unbound if not (group.keeps(m) or m.instance.unheld))
    candidates.sort(key=lambda m: may_be_revoked(m.instance, demand.policy), reverse=True)
    for member in candidates[: max(0, beyond)]:
        if missing or above > 0 or member.uid in demand.half_made:
            above -= 1
            draft.revoke(member, (Reason.REVOKED, (draft.awaited,)))


PAUSE = 300.0
"""Seconds until it is tried again although nothing of it changed."""
MOST_FAILING = 4
"""Services that are looked for in one part at a time; then the whole part waits."""


class NotDecided(msgspec.Struct, frozen=True):
    """Why deciding about a service failed, and until when it is not tried again."""

    words: str = ""
    until: float = 0.0


def not_decided(error: Exception, now: float) -> NotDecided:
    """With the innermost place in our code."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return NotDecided(f"{type(error).__name__}: {error}"[:500] + f" (at {place})", now + PAUSE)


def nothing_of(service: Service, seen: ServiceMemory, failed: NotDecided, policy: Policy) -> Demand:
    """It asks for nothing, and what was remembered of it stays."""
    demand = Demand(Service(service.key, ()), ServiceMemory(), failed.until - PAUSE, policy)
    demand.service, demand.seen, demand.memory, demand.until = service, seen, seen, failed.until
    return demand


def left_alone(key: ServiceKey, failed: NotDecided) -> Plan:
    """The plan that does and says nothing else."""
    words = f"deciding about this service failed, it is left as it is: {failed.words}"
    return Plan(key, -1, {}, False, {}, (), notes=(Note(Warning.NOT_DECIDED, words),))


def why_not_decided(plan: Plan) -> str:
    """Why nothing was decided about the service; "" when something was."""
    return next((note.message for note in plan.notes if note.warning is Warning.NOT_DECIDED), "")


def first_failing(positions: Sequence[int], attempt: Callable[[Sequence[int]], object]) -> int:
    """The first of these without which all before it can be decided about, given that all together cannot."""

    def fails(number: int) -> bool:
        try:
            attempt(positions[:number])
        except Exception:
            return True
        return False

    return positions[bisect_left(range(len(positions)), True, lo=1, key=fails) - 1]
