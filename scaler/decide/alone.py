"""Services that are not weighed against others. First: services that decide alone, because nodes may not be read, the
rule says so, or the jobs name no rule. Second: services at which deciding fails; the other services are decided about.

A service that decides alone gives away every place of the target at once. What is free is not known, so an instance in
hands beyond the target is revoked while an instance of the target is missing: both may need the same node."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import msgspec

from scaler.decide.demand import Demand
from scaler.decide.groups import Group
from scaler.decide.memory import ServiceMemory
from scaler.decide.plan import NOT_MADE, Draft
from scaler.decide.state import Member, is_made, may_be_revoked, newest_admission_first, why_not_admissible
from scaler.decide.world import Note, Plan, Policy, Reason, Service, ServiceKey, State, Warning


def decide_alone(demand: Demand, now: float) -> Draft:
    """The draft of a service that decides alone."""
    draft = Draft(demand)
    if demand.target is None and not demand.service.key.rule:
        _without_rule(draft, now)
    if demand.target is None or demand.paused:
        return draft
    # Whether the target lacks an instance that needs room. A bound instance that does not run needs no room.
    missing = any(
        group.running + sum(1 for m in group.members if m.in_flight and m.instance.bound) < group.target
        for group in demand.groups.values()
    )
    chosen = {name: _chosen(draft, name) for name, group in demand.groups.items() if group.wants}
    # An instance whose creation was refused is tried again first, alone: the others are admitted when it has pods.
    refused = next((m for members in chosen.values() for m in members if m.memory.refused and is_made(m)), None)
    alone = None if demand.serves else refused
    for name, group in demand.groups.items():
        for member in chosen.get(name, ()):
            if alone in (None, member) and is_made(member):
                draft.admit(member)
                continue
            draft.groups[name].give_place(member)
            if is_made(member):
                draft.waits[member.uid] = Reason.WAITING_FOR_RATIO, tuple(draft.lacking)
            else:
                draft.waits[member.uid] = Reason.WAITING_FOR_SCHEDULER, (NOT_MADE,)
        _revoke(draft, name, group, missing=missing)
    return draft


def _chosen(draft: Draft, name: str) -> list[Member]:
    """Held candidates that get a place: those that can start now, then those whose pods do not exist yet."""
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
        # Left alone: an instance with a label problem (a training job), and an instance of others, never held.
        if instance.label_problem or not instance.made_by_us or member.step is not None:
            continue
        if member.state is State.HELD and why_not_admissible(member, now) is None:
            draft.admit(member)


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
"""Seconds until a failed service is decided about again although it did not change."""
MOST_FAILING = 4
"""The largest number of failing services that are searched for in one part; after that the whole part waits."""


class NotDecided(msgspec.Struct, frozen=True):
    """Why deciding about a service failed, and until when it is left out."""

    words: str = ""
    until: float = 0.0


def not_decided(error: Exception, now: float) -> NotDecided:
    """The error in words, with the innermost module and line."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return NotDecided(f"{type(error).__name__}: {error}"[:500] + f" (at {place})", now + PAUSE)


def nothing_of(service: Service, seen: ServiceMemory, failed: NotDecided, policy: Policy) -> Demand:
    """A demand for nothing, in place of one that could not be made. The memory of the service stays as it is."""
    demand = Demand(Service(service.key, ()), ServiceMemory(), failed.until - PAUSE, policy)
    demand.service, demand.seen, demand.memory, demand.until = service, seen, seen, failed.until
    return demand


def left_alone(key: ServiceKey, failed: NotDecided) -> Plan:
    """A plan without actions and verdicts, with one note that says why."""
    words = f"deciding about this service failed, it is left as it is: {failed.words}"
    return Plan(key, -1, {}, False, {}, (), notes=(Note(Warning.NOT_DECIDED, words),))


def why_not_decided(plan: Plan) -> str:
    """Why deciding about the service failed; "" when it did not fail."""
    return next((note.message for note in plan.notes if note.warning is Warning.NOT_DECIDED), "")


def first_failing(positions: Sequence[int], attempt: Callable[[Sequence[int]], object]) -> int:
    """The first position at which `attempt` fails for the positions up to it. It has to fail for all positions."""

    def fails(number: int) -> bool:
        try:
            attempt(positions[:number])
        except Exception:
            return True
        return False

    return positions[bisect_left(range(len(positions)), True, lo=1, key=fails) - 1]
