"""What must hold where a small world comes to rest, or to turns without an end: liveness, section 6 of the contract."""

from __future__ import annotations

from collections.abc import Callable

from scaler.decide.world import Decision
from scaler.rules.rule import Trade
from tests.decide.packing import packs
from tests.decide.small_worlds import Shape, State, free
from tests.decide.standing import (
    added,
    beyond,
    freed,
    had_turn,
    has_slot,
    is_limited,
    may_evict,
    members,
    minimums,
    pods_of,
    ratios,
    runs,
    serves,
    spared,
    target,
)

Decide = Callable[[State], Decision]


def serving(of: Shape, s: State) -> int:
    """How many services serve."""
    return sum(serves(of, s, team) for team in range(len(of.teams)) if any(s.insts[n].there for n in of.of(team)))


def wrong(of: Shape, states: list[State], decide: Decide) -> set[str]:
    """States that lead only to each other. What waits in all of them though it could go."""
    if len({tuple(tuple(p for p in inst.pods if p[0] in "srt") for inst in s.insts) for s in states}) > 1:
        return {"L4: what is bound changes for ever"}
    s = states[0]
    if s.out:
        return set()
    found: set[str] = set()
    for team in range(len(of.teams)):
        if not any(s.insts[number].there for number in of.of(team)):
            continue
        if is_limited(of, s, team) and not of.budget:
            groups = ratios(of, s, team)[0]
            kept = [group for group in groups if _keeps_more(of, s, team, group)]
            found |= {f"3c: s{team} keeps more of {group} than are wanted" for group in kept}
        if serves(of, s, team):
            found |= _scale_ups(of, s, team, decide)
        else:
            found |= _minimum(of, s, states, team, decide)
    return found


def _is_healthy(of: Shape, s: State, number: int) -> bool:
    """It exists, is not bound, and nothing ever went wrong with it."""
    inst = s.insts[number]
    return inst.there and not of.jobs[number].curse and not inst.count("s", "r", "t")


def _keeps_more(of: Shape, s: State, team: int, group: str) -> bool:
    bound, most = beyond(of, s, team, group)
    return len(bound) > most


def _scale_ups(of: Shape, s: State, team: int, decide: Decide) -> set[str]:
    """L1, L5: an instance that the target has a place for, that fits, and that would be bound."""
    memory = decide(s).memory
    for group, number in target(of, s, team).items():
        mine = members(of, team, group)
        bound = [one for one in mine if s.insts[one].bound and (runs(s, one) or has_slot(of, s, memory, one))]
        fits = [one for one in mine if _is_healthy(of, s, one) and packs(free(of, s), pods_of(of, s, (one,)))]
        if len(bound) < number and fits:
            return {f"L1, L5: a scale-up of s{team} fits and waits for ever"}
        if any(of.jobs[one].outdated and runs(s, one) for one in mine) and any(
            not of.jobs[one].outdated for one in fits
        ):
            return {f"3.8: a rollout of s{team} waits for ever"}
    return set()


def _minimum(of: Shape, s: State, states: list[State], team: int, decide: Decide) -> set[str]:
    memory = decide(s).memory
    choices = [
        choice
        for choice in minimums(of, s, memory, team)
        if choice
        and all(_is_healthy(of, s, one) or s.insts[one].bound for one in choice)
        and all(not of.jobs[one].curse for one in choice)
    ]
    if any(packs(free(of, s), pods_of(of, s, choice)) for choice in choices):
        return {f"L1, L5: the minimum of s{team} fits and waits for ever"}
    fresh = [choice for choice in choices if not any(had_turn(of, t.memory, one) for t in states for one in choice)]
    rooms = []
    if of.teams[team].trade is not Trade.OFF:
        rooms = [("own surplus would do", freed(of, s, lost)) for lost in spared(of, s, memory, team)]
    for other in range(len(of.teams)):
        if may_evict(of, team, other):
            rooms = [
                (f"{what}, or evicting", added(room, freed(of, s, lost)))
                for what, room in rooms or [("", {})]
                for lost in spared(of, s, memory, other)
            ]
    for what, room in rooms:
        if any(packs(added(free(of, s), room), pods_of(of, s, choice)) for choice in fresh):
            return {f"L1: the minimum of s{team} waits for ever though {what}"}
    return set()
