"""What must hold of one decision about a small world: section 6 of the contract, written here anew.

What one service's instances and its plan show, `scaler.decide.invariants` asks as well; here stands what takes other
services and room into account, counted apart from the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scaler.decide.world import NOBODY, Admit, Complete, Decision, Evict, Revoke
from scaler.rules.rule import Trade
from tests.builders import GROUPS, NOW
from tests.decide.packing import Pod, can_spoil, packs, room_of
from tests.decide.small_worlds import Shape, State, free, key
from tests.decide.standing import (
    added,
    freed,
    had_turn,
    has_slot,
    keeps_minimum,
    may_evict,
    members,
    minimums,
    pods_of,
    remembered,
    runs,
    serves,
    shares,
    smallest,
    target,
    to_come,
)


def broken(of: Shape, s: State, made: Decision) -> list[str]:
    """Every promise that this decision breaks."""
    done: dict[type, list[int]] = {Admit: [], Complete: [], Revoke: [], Evict: []}
    for_whom: dict[int, int] = {}
    drained: list[int] = []
    teams = {str(key(team)): team for team in range(len(of.teams))}
    for plan in made.plans:
        for action in plan.actions:
            number = int(action.uid.removeprefix("job-"))
            done[type(action)].append(number)
            if isinstance(action, Evict) and action.beneficiary == NOBODY:
                drained.append(number)
            elif isinstance(action, Evict):
                for_whom[number] = teams[action.beneficiary]
    return [
        *_slots(of, s, made, done),
        *_victims(of, s, made, for_whom),
        *_beneficiaries(of, s, made, for_whom, drained),
        *_reserved_whole(of, s, made, done),
        *_spoilt(of, s, made, done),
        *_in_the_way(of, s, made, done),
    ]


def _slots(of: Shape, s: State, made: Decision, done: dict[type, list[int]]) -> Iterator[str]:
    admitted = Counter((of.jobs[number].team, GROUPS[of.jobs[number].letter]) for number in done[Admit])
    for (team, group), number in admitted.items():
        mine = members(of, team, group)
        slots = sum(has_slot(of, s, made.memory, one) for one in mine)
        old = sum(of.jobs[one].outdated and runs(s, one) for one in mine)
        new = sum(
            not of.jobs[one].outdated and (one in done[Admit] or has_slot(of, s, made.memory, one)) for one in mine
        )
        before = sum(not of.jobs[one].outdated and has_slot(of, s, made.memory, one) for one in mine)
        most = max(target(of, s, team)[group], slots - min(old, before))
        if slots + number - min(old, new) > most:
            yield f"S1: s{team} has {slots} of {group} up and gets {number} more, above its target"


def _victims(of: Shape, s: State, made: Decision, for_whom: dict[int, int]) -> Iterator[str]:
    for number, beneficiary in for_whom.items():
        team, group = of.jobs[number].team, GROUPS[of.jobs[number].letter]
        own = team == beneficiary and of.teams[team].trade is not Trade.OFF
        if not own and not may_evict(of, beneficiary, team):
            yield f"S3: s{team} is evicted for s{beneficiary}, which may not do that"
        least = smallest(of, s, team).get(group, 0)
        bound = [one for one in members(of, team, group) if s.insts[one].bound]
        lost = {one for one in for_whom if one in bound}
        if number == min(lost) and not keeps_minimum(of, s, made.memory, bound, lost, least):
            yield f"S3: {group} of s{team} loses its minimum"
        if any(place >= 0 and s.nodes[place][0] == "X" for _, place in s.insts[number].pods):
            yield "S3: a victim on a node that is not ready"


def _beneficiaries(of: Shape, s: State, made: Decision, for_whom: dict[int, int], drained: list[int]) -> Iterator[str]:
    for team in set(for_whom.values()):
        victims = [number for number, beneficiary in for_whom.items() if beneficiary == team]
        if serves(of, s, team):
            if of.teams[team].trade is not Trade.ALWAYS or any(of.jobs[v].team != team for v in victims):
                yield f"S11: evicted for s{team}, which serves"
            continue
        room = added(free(of, s), to_come(of, s), freed(of, s, [*victims, *drained]))
        choices = list(minimums(of, s, made.memory, team))
        fitting = [choice for choice in choices if packs(room, pods_of(of, s, choice))]
        if not fitting:
            yield f"S11: what is evicted for s{team} does not place its minimum"
        elif all(any(had_turn(of, s.memory, one) for one in choice) for choice in fitting):
            yield f"S11: evicted for s{team}, of which what fits has had its turn"
        for victim in (v for v in victims if of.jobs[v].team != team or runs(s, v)):
            spared = [v for v in (*victims, *drained) if v != victim]
            less = added(free(of, s), to_come(of, s), freed(of, s, spared))
            if len(for_whom) == len(victims) and not _other_minimums(of, s, made, team):
                fine = (c for c in fitting if not any(had_turn(of, s.memory, one) for one in c))
                if any(packs(less, pods_of(of, s, choice)) for choice in fine):
                    yield f"3b.4: a victim of s{team} could have been spared"


def _other_minimums(of: Shape, s: State, made: Decision, team: int) -> bool:
    """Whether another service lacks something of its minimum: then room may be reserved for it."""
    return any(
        other != team and not serves(of, s, other) and any(s.insts[number].there for number in of.of(other))
        for other in range(len(of.teams))
    )


def _reserved_whole(of: Shape, s: State, made: Decision, done: dict[type, list[int]]) -> Iterator[str]:
    """S10: all minimums of which something is admitted now fit together, whole, on room that is free."""
    begun = sorted({of.jobs[number].team for number in done[Admit]})
    begun = [team for team in begun if not serves(of, s, team) and shares(of, s, team) and not probes(made, team)]
    if not begun:
        return
    choices = []
    for team in begun:
        new = {number for number in done[Admit] if of.jobs[number].team == team}
        choices.append([c for c in minimums(of, s, made.memory, team) if new <= set(c)])
    if not _together(of, s, choices, []):
        yield f"S10: of {', '.join(f's{team}' for team in begun)} not all are reserved whole"


def probes(made: Decision, team: int) -> bool:
    """3b.9: its minimum is tried though it fits nowhere."""
    mine = made.memory.services.get(str(key(team)))
    return mine is not None and mine.probe_since > 0


def in_backoff(made: Decision, team: int) -> bool:
    """3b.5: the turn of its minimum has ended. What is bound in part stays with the scheduler, on no reservation."""
    mine = made.memory.services.get(str(key(team)))
    return mine is not None and mine.backoff_until > NOW


def _together(of: Shape, s: State, choices: list[list[tuple[int, ...]]], pods: list[Pod]) -> bool:
    if not packs(free(of, s), pods):
        return False
    if not choices:
        return True
    return any(_together(of, s, choices[1:], pods + pods_of(of, s, choice)) for choice in choices[0])


def _spoilt(of: Shape, s: State, made: Decision, done: dict[type, list[int]]) -> Iterator[str]:
    """S9: wherever scale-ups that are admitted land, the minimums in the scheduler's hands still fit."""
    new = [number for number in done[Admit] if serves(of, s, of.jobs[number].team)]
    if not new:
        return
    reserved: list[int] = []
    for team in range(len(of.teams)):
        mine = [n for n in of.of(team) if n not in done[Revoke] and (n in done[Admit] or s.insts[n].count("u"))]
        whole = [c for c in minimums(of, s, made.memory, team) if set(c) <= set(mine)]
        if not serves(of, s, team) and shares(of, s, team) and whole and not in_backoff(made, team):
            reserved += whole[0]
    movers = [number for number in new if shares(of, s, of.jobs[number].team)]
    owned = [tuple((n, pod) for n in jobs for pod in pods_of(of, s, (n,))) for jobs in (movers, reserved)]
    room = room_of(free(of, s))
    if packs(room, [pod for _, pod in owned[1]]) and can_spoil(room, *owned):
        yield "S9: a scale-up that is admitted can spoil what is reserved"


def _in_the_way(of: Shape, s: State, made: Decision, done: dict[type, list[int]]) -> Iterator[str]:
    """3b.6: what a minimum is released on is free beside everything that is still in the scheduler's hands. What
    is probed does not count: it has no reservation, and holds nobody up."""
    new = [n for n in done[Admit] if not serves(of, s, of.jobs[n].team) and shares(of, s, of.jobs[n].team)]
    new = [n for n in new if not probes(made, of.jobs[n].team)]
    hands = [
        n
        for n, inst in enumerate(s.insts)
        if inst.there and inst.count("u") and n not in new and not remembered(of, made.memory, n).turn_over
    ]
    hands = [n for n in hands if not probes(made, of.jobs[n].team)]
    if of.budget or not new or not hands:
        return
    pods = [pod for n in [*hands, *new] for pod in pods_of(of, s, (n,))]
    if not packs(free(of, s), pods):
        yield "3b.6: a minimum is released though it does not fit beside what is in the scheduler's hands"
