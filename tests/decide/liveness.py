"""What must hold where a small world comes to rest, or to turns without an end: liveness, section 6 of the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from scaler.decide.world import Decision
from scaler.rules.rule import Trade
from tests.decide.facts import Facts
from tests.decide.packing import packs
from tests.decide.small_worlds import Shape, State


def wrong(of: Shape, states: list[State], decide: Callable[[State], Decision]) -> set[str]:
    """States that lead only to each other. What waits in all of them though it could go."""
    if len({tuple(tuple(p for p in inst.pods if p[0] in "srt") for inst in s.insts) for s in states}) > 1:
        return {"L4: what is bound changes for ever"}
    s = states[0]
    if s.out:
        return set()
    at = Facts(of, s, decide(s).memory)
    found: set[str] = set()
    for team in at.teams:
        if at.is_limited(team) and not of.budget:
            found |= {
                f"3c: s{team} keeps more of {group} than are wanted"
                for group in at.ratios(team)[0]
                for bound, most in [at.beyond(team, group)]
                if len(bound) > most
            }
        found |= _scale_ups(at, team) if at.serves(team) else _minimum(at, team, states)
    return found


def _is_healthy(at: Facts, number: int) -> bool:
    """It exists, is not bound, and nothing ever went wrong with it."""
    inst = at.insts[number]
    return inst.there and not at.jobs[number].curse and not inst.count("s", "r", "t")


def _scale_ups(at: Facts, team: int) -> set[str]:
    """L1, L5: an instance that the target has a place for, that fits, and that would be bound."""
    for group, number in at.target(team).items():
        mine = at.members(team, group)
        bound = [one for one in mine if at.insts[one].bound and (at.runs(one) or at.has_slot(one))]
        fits = [one for one in mine if _is_healthy(at, one) and packs(at.room(), at.pods_of((one,)))]
        if len(bound) < number and fits:
            return {f"L1, L5: a scale-up of s{team} fits and waits for ever"}
        newest_fits = any(not at.jobs[one].outdated for one in fits)
        if newest_fits and any(at.jobs[one].outdated and at.runs(one) for one in mine):
            return {f"3.8: a rollout of s{team} waits for ever"}
    return set()


def _minimum(at: Facts, team: int, states: list[State]) -> set[str]:
    choices = [
        choice
        for choice in at.minimums(team)
        if choice and all(not at.jobs[n].curse and (at.insts[n].bound or _is_healthy(at, n)) for n in choice)
    ]
    if any(packs(at.room(), at.pods_of(choice)) for choice in choices):
        return {f"L1, L5: the minimum of s{team} fits and waits for ever"}
    before = [Facts(at.of, s) for s in states]
    fresh = [choice for choice in choices if not any(then.had_turn(one) for then in before for one in choice)]
    rooms = []
    if at.of.teams[team].trade is not Trade.OFF:
        rooms = [("own surplus would do", at.freed(lost)) for lost in at.spared(team)]
    for other in range(len(at.of.teams)):
        if at.may_evict(team, other):
            rooms = [
                (f"{what}, or evicting", room + at.freed(lost))
                for what, room in rooms or [("", Counter[int]())]
                for lost in at.spared(other)
            ]
    for what, room in rooms:
        if any(packs(at.room() + room, at.pods_of(choice)) for choice in fresh):
            return {f"L1: the minimum of s{team} waits for ever though {what}"}
    return set()
