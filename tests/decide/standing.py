"""How a small world stands: who runs, who has a slot, what is missing, what may be spared. Written from the contract.

Of what the controller remembers only three things are read: since when an instance is broken, whether its turn is over,
and whether it had one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory, Turns
from scaler.decide.world import Preempt
from tests.builders import GROUPS, NOW, rule
from tests.decide.contract import Counts, covers, limited, target_of
from tests.decide.packing import Pod
from tests.decide.small_worlds import POLICY, Inst, Shape, State, key, uid, unbound_pods, wanted


def remembered(of: Shape, memory: Memory, number: int) -> InstanceMemory:
    mine = memory.services.get(str(key(of.jobs[number].team)), ServiceMemory())
    return mine.instances.get(uid(number), InstanceMemory())


def runs(s: State, number: int) -> bool:
    """All of its pods run, on nodes that are ready."""
    return all(phase == "r" and s.nodes[place][0] not in "XG" for phase, place in s.insts[number].pods)


def is_up(inst: Inst) -> bool:
    """Some of it is released, or bound."""
    return inst.there and inst.count("u", "s", "r") > 0


def has_slot(of: Shape, s: State, memory: Memory, number: int) -> bool:
    """In flight or running; `memory` is what was remembered after looking at this state."""
    since = remembered(of, memory, number).broken_since
    return is_up(s.insts[number]) and not (since and NOW - since >= POLICY.broken_grace)


def members(of: Shape, team: int, group: str) -> list[int]:
    return [number for number in of.of(team) if GROUPS[of.jobs[number].letter] == group]


def ratios(of: Shape, s: State, team: int) -> list[Counts]:
    """Of its rule, those that are not larger than the smallest with as many instances as are wanted."""
    ladder = rule(of.teams[team].ladder)
    return limited([{group: ratio.of(group) for group in ladder.groups} for ratio in ladder.ratios], s.replicas[team])


def is_limited(of: Shape, s: State, team: int) -> bool:
    """As many are wanted as its rule names, or fewer."""
    return s.replicas[team] <= rule(of.teams[team].ladder).largest.total


def smallest(of: Shape, s: State, team: int) -> Counts:
    return ratios(of, s, team)[-1]


def serves(of: Shape, s: State, team: int) -> bool:
    least = smallest(of, s, team)
    return covers({group: sum(runs(s, n) for n in members(of, team, group)) for group in least}, least)


def target(of: Shape, s: State, team: int) -> Counts:
    found = ratios(of, s, team)
    groups = found[0]
    live = {group: _lasting(of, s, members(of, team, group)) for group in groups}
    running = {group: sum(runs(s, n) for n in members(of, team, group)) for group in groups}
    return found[target_of(found, running, live)[0]]


def _lasting(of: Shape, s: State, mine: list[int]) -> int:
    """Instances of a group that are still there when its rollout is over."""
    there = [n for n in mine if s.insts[n].there]
    old = sum(of.jobs[n].outdated and runs(s, n) for n in there)
    new = sum(not of.jobs[n].outdated for n in there)
    return len(there) - (min(old, new, max(0, len(there) - wanted(of, mine[0]))) if mine and of.owner(mine[0]) else 0)


def shares(of: Shape, s: State, team: int) -> bool:
    """Whether another service that exists could use one of its nodes."""
    return any(share(of, s, team, other) for other in range(len(of.teams)) if other != team)


def share(of: Shape, s: State, one: int, other: int) -> bool:
    """Whether there is a node that both could use."""
    return bool(_usable(of, s, one) & _usable(of, s, other))


def _usable(of: Shape, s: State, team: int) -> frozenset[int]:
    gone = {n for n, (state, _) in enumerate(s.nodes) if state == "G"}
    return frozenset().union(*(of.jobs[number].nodes - gone for number in of.of(team) if s.insts[number].there))


def may_evict(of: Shape, beneficiary: int, victim: int) -> bool:
    """Whether a service may evict scale-ups of another one."""
    one, other = of.teams[beneficiary], of.teams[victim]
    if beneficiary == victim or other.protected or of.preempt is Preempt.NEVER:
        return False
    return other.priority < one.priority or (of.preempt is Preempt.EQUAL_OR_HIGHER and other.priority == one.priority)


def had_turn(of: Shape, memory: Memory, number: int) -> bool:
    return remembered(of, memory, number).turns is not Turns.NONE


def minimums(of: Shape, s: State, memory: Memory, team: int) -> Iterator[tuple[int, ...]]:
    """Every choice of instances that would make up the minimum, beside those that are bound whole and have a slot."""
    pools, numbers = [], []
    for group, least in smallest(of, s, team).items():
        mine = [n for n in members(of, team, group) if s.insts[n].there]
        kept = [n for n in mine if _whole(of, s, n) and has_slot(of, s, memory, n)]
        pools.append([n for n in mine if n not in kept and _may_be_chosen(of, s, memory, n)])
        numbers.append(max(0, least - len(kept)))
    for choice in itertools.product(*(itertools.combinations(p, n) for p, n in zip(pools, numbers, strict=True))):
        yield tuple(number for part in choice for number in part)


def _whole(of: Shape, s: State, number: int) -> bool:
    return s.insts[number].bound == of.jobs[number].pods


def _may_be_chosen(of: Shape, s: State, memory: Memory, number: int) -> bool:
    """Held, in hands, bound in part with a slot, or going away on nodes that are ready."""
    inst = s.insts[number]
    if inst.bound:
        return has_slot(of, s, memory, number) and not _whole(of, s, number)
    return all(phase != "t" or s.nodes[place][0] in "RC" for phase, place in inst.pods)


def pods_of(of: Shape, s: State, numbers: tuple[int, ...]) -> list[Pod]:
    return [pod for number in numbers for pod in unbound_pods(of, s, number)]


def to_come(of: Shape, s: State) -> dict[int, int]:
    """Room of pods that are going away on nodes that are ready, for as long as it counts."""
    room: dict[int, int] = {}
    for job, inst in zip(of.jobs, s.insts, strict=True):
        for phase, place in inst.pods:
            if phase == "t" and s.nodes[place][0] == "R" and inst.ending < POLICY.due_back:
                room[place] = room.get(place, 0) + job.units
    return room


def freed(of: Shape, s: State, numbers: list[int]) -> dict[int, int]:
    """Room that these instances hold on schedulable nodes."""
    room: dict[int, int] = {}
    for number in numbers:
        for phase, place in s.insts[number].pods:
            if phase in "sr" and s.nodes[place][0] == "R":
                room[place] = room.get(place, 0) + of.jobs[number].units
    return room


def beyond(of: Shape, s: State, team: int, group: str) -> tuple[list[int], int]:
    """What is bound of a group, and the most of it that is wanted: a pair of revisions counts once."""
    bound = [n for n in members(of, team, group) if s.insts[n].bound]
    pairs = min(sum(of.jobs[n].outdated == old for n in bound) for old in (True, False))
    return bound, ratios(of, s, team)[0][group] + pairs


def added(*rooms: dict[int, int]) -> dict[int, int]:
    return {place: sum(room.get(place, 0) for room in rooms) for place in set().union(*rooms)}


def spared(of: Shape, s: State, memory: Memory, team: int) -> Iterator[list[int]]:
    """Every largest set of bound instances of a service that it can lose so that no group that has its minimum loses
    it, nor comes nearer to losing it."""
    choices = []
    for group, least in smallest(of, s, team).items():
        bound = [n for n in members(of, team, group) if s.insts[n].bound]
        bound = [n for n in bound if all(s.nodes[place][0] != "X" for _, place in s.insts[n].pods if place >= 0)]
        choices.append(list(_losable(of, s, memory, bound, least)))
    for choice in itertools.product(*choices):
        yield [number for part in choice for number in part]


def _losable(of: Shape, s: State, memory: Memory, bound: list[int], least: int) -> Iterator[list[int]]:
    sets = [c for size in range(len(bound), -1, -1) for c in itertools.combinations(bound, size)]
    fine = [set(c) for c in sets if keeps_minimum(of, s, memory, bound, set(c), least)]
    for one in fine:
        if not any(one < other for other in fine):
            yield sorted(one)


def keeps_minimum(of: Shape, s: State, memory: Memory, bound: list[int], lost: set[int], least: int) -> bool:
    def count(numbers: list[int]) -> tuple[int, int]:
        slots = sum(has_slot(of, s, memory, n) for n in numbers)
        return min(sum(runs(s, n) for n in numbers), least), min(slots, least)

    left = [n for n in bound if n not in lost]
    return count(left) == count(bound)
