"""A cold start of thirty services of mixed sizes on mixed nodes, a scheduler session every 15 s,
drawn from a seed.

Where each service alone gets as many to serve, minimums first takes no longer than that and one
session per level of nested node classes. Only the decision is real here; the scheduler binds whole
instances, the kubelets take their time."""

from __future__ import annotations

import random
import sys
from typing import NamedTuple

import msgspec
import pytest

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from tests.builders import NOW
from tests.decide.facts import Facts
from tests.decide.seen import act, view
from tests.decide.small_worlds import GATED, NOT_THERE, Shape, State, free, initial, shape
from tests.parts import short_and_long

SESSION = 15
SESSIONS = 16
"""So many are played; by then nothing moves any more."""
LADDERS = (
    ("2P1D > 1P1D", "ppd"),
    ("1P1D", "pd"),
    ("3P2D > 2P1D > 1P1D", "pppdd"),
    ("4P2D > 2P1D", "ppppdd"),
)
CLASSES = (("a", "a"), ("a", "b", "ab"), ("a", "b", "ab", "ab"), ("a", "b", "c", "ab", "abc"))
SEEDS = (1, 3, 13, 47)
"""With 3 and 47 who may use any node once took the nodes of who may not, whose pods were not made
yet. With 13 an attempt that had begun before the pods were made once went on while the minimum
waited for more restricted ones."""


class Start(NamedTuple):
    """One cold start: `starting` and `made` are seconds that an instance takes to run, and to get
    its pods."""

    of: Shape
    starting: tuple[int, ...]
    made: tuple[int, ...]
    levels: int
    seed: int


def drawn(seed: int, *, gates: bool) -> Start:
    dice = random.Random(f"cold start {seed}")
    halves = dice.random() < 0.3
    classes = dice.choice(CLASSES)
    teams = []
    least = dict.fromkeys("abc", 0)
    most = dict.fromkeys("abc", 0)
    for _ in range(30):
        ladder, letters = dice.choice(LADDERS)
        kind = dice.choice(classes)
        pods = dice.choice((1, 1, 1, 2, 2, 4))
        units = dice.choice((1, 2)) if halves else 2
        teams.append(
            f"{ladder}: " + " ".join(f"{letter}*{pods}@{kind}:{units}" for letter in letters)
        )
        minimum = 3 if ladder.endswith("2P1D") else 2
        least[kind[0]] += minimum * pods
        most[kind[0]] += len(letters) * pods
    extra = dice.choice((0.0, dice.random(), 1.0))  # of what scale-ups need
    nodes = " ".join(
        f"{kind}:2x{least[kind] + round(extra * (most[kind] - least[kind]))}"
        for kind in "abc"
        if least[kind]
    )
    of = shape(f"cold start {seed}", nodes, *teams, gates=gates)
    starting = tuple(dice.randint(1, 20) for _ in of.jobs)
    made = tuple(dice.randint(1, 3) for _ in of.jobs)
    return Start(of, starting, made, max(len(job.classes) for job in of.jobs), seed)


def when_they_serve(start: Start, *, alone: bool) -> list[int]:
    """Seconds until one service serves, two, three; sessions come at an odd moment."""
    of = start.of
    s = initial(start.of)
    dice = random.Random(start.seed)
    cache = DecisionCache()
    first = dice.randint(1, SESSION)
    bound_at = dict[int, int]()
    last_bind = 0.0
    times = list[int]()
    for time in range(first + SESSIONS * SESSION):
        before = s
        if (time - first) % SESSION == 0:
            s = session(of, s, dice)
            new = [n for n in range(len(of.jobs)) if s.insts[n].bound and n not in bound_at]
            bound_at |= dict.fromkeys(new, time)
            last_bind = NOW + time if new else last_bind
        s = running(
            start, s, {n for n, at in bound_at.items() if time - at >= start.starting[n]}, time
        )
        while s is not before or not time:
            world = msgspec.structs.replace(
                view(of, s), now=NOW + time, last_bind=last_bind, alone=alone
            )
            before = s
            s = act(of, s, decide(world, cache))
            if before.insts == s.insts:
                break
        at = Facts(of, s)
        count = sum(map(at.serves, at.teams))
        times += [time] * (count - len(times))
    return times


def running(start: Start, s: State, ready: set[int], time: int) -> State:
    """Instances get their pods where others make them, and run when they had the time for it."""
    insts = list(s.insts)
    facts = Facts(start.of, s)
    for n, inst in enumerate(insts):
        if start.of.gates and inst.pods[0] == NOT_THERE and time >= start.made[n]:
            insts[n] = inst._replace(pods=(GATED,) * len(inst.pods))
        if n in ready and not facts.runs(n):
            insts[n] = inst._replace(pods=tuple(("r", place) for _, place in inst.pods))
    return s if insts == list(s.insts) else s._replace(insts=tuple(insts))


def session(of: Shape, s: State, dice: random.Random) -> State:
    """Decode goes before prefill, an instance whole or not at all, on whichever nodes."""
    room = free(of, s)
    insts = list(s.insts)
    waiting = [n for n, inst in enumerate(insts) if inst.count("u") == len(inst.pods)]
    for n in sorted(waiting, key=lambda n: (of.jobs[n].letter != "d", dice.random())):
        job = of.jobs[n]
        left = room.copy()
        places = []
        for _ in range(job.pods):
            fitting = [place for place in job.nodes if left[place] >= job.units]
            if not fitting:
                break
            places.append(dice.choice(sorted(fitting)))
            left[places[-1]] -= job.units
        if len(places) == job.pods:
            room = left
            insts[n] = insts[n]._replace(pods=tuple(("s", place) for place in sorted(places)))
    return s if insts == list(s.insts) else s._replace(insts=tuple(insts))


def slower(seed: int, *, gates: bool) -> str:
    """What is wrong with this cold start, and "" where nothing is."""
    start = drawn(seed, gates=gates)
    first = when_they_serve(start, alone=False)
    alone = when_they_serve(start, alone=True)
    count = len(first)
    most = start.levels * SESSION
    if count < len(start.of.teams) and not any(job.units == 1 for job in start.of.jobs):
        return f"{count} serve, and there is room for all"
    if len(alone) >= count and first[-1] > alone[count - 1] + most:
        return (
            f"{count} serve after {first[-1]} s, each alone after {alone[count - 1]} s,"
            f" {start.levels} levels"
        )
    return ""


@pytest.mark.parametrize(
    "gates",
    short_and_long([False, True], short=1, why="the same with gates"),
    ids=["create", "gates"],
)
def test_a_cold_start_takes_one_session_more_for_each_level_of_node_classes_at_most(
    gates: bool,
) -> None:
    assert {seed: wrong for seed in SEEDS if (wrong := slower(seed, gates=gates))} == {}


def test_where_nobody_reserves_fewer_serve_or_later() -> None:
    start = drawn(0, gates=False)
    assert len(when_they_serve(start, alone=True)) < len(start.of.teams)


if __name__ == "__main__":  # python -m tests.decide.test_cold_start FIRST LAST
    for number in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        for others in (False, True):
            print(
                number,
                "gates" if others else "create",
                slower(number, gates=others) or "ok",
                flush=True,
            )
