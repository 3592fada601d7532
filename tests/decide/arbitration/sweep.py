"""Explores random small worlds, one after the other, until the time is over; prints how many and whatever is wrong.

    python -m tests.decide.arbitration.sweep [SECONDS] [SEED]

Up to 4 services with ladders of up to 3 ratios of 2 groups, up to 8 nodes of up to two kinds, jobs that arrive late in
any order, one fault. A world with too many states is left out and counted. The suite plays a fixed part of these.
"""

from __future__ import annotations

import random
import sys
import time

from tests.decide.arbitration.explore import TooLarge, explore
from tests.decide.arbitration.oracle import ladder, placeable
from tests.decide.arbitration.world import World, world

LADDERS = (
    "1P1D", "1P1D", "2P1D > 1P1D", "2P1D > 1P1D", "1P2D > 1P1D", "2P2D > 2P1D > 1P1D", "2P2D > 1P1D", "2P1D", "1P",
    "2P > 1P", "2P1D > 1P0D", "3P1D > 1P1D",
)  # fmt: skip


def random_world(seed: int) -> World:
    """The same for the same seed."""
    dice = random.Random(seed)
    kinds = dice.choice((1, 1, 2))
    nodes = tuple(dice.randint(1, 4 if kinds == 2 else 6) for _ in range(kinds))
    services, late = [], []
    for number in range(dice.choice((2, 2, 2, 3, 3, 4))):
        text = dice.choice(LADDERS)
        services.append(f"{text}: {_jobs(dice, text, kinds)}")
        late += [f"{number}.{name}" for name in ("p0", "p1", "d0", "d1") if dice.random() < 0.15]
    return world(nodes, *services, late=tuple(late), faults=dice.choice((0, 0, 1)))


def _jobs(dice: random.Random, text: str, kinds: int) -> str:
    """As many as the largest ratio asks for; sometimes one fewer or one more. Alike in a group, nearly always."""
    jobs = []
    for letter, number in ladder(text)[0].items():
        size = dice.choice(("", "", "", "2"))
        where = dice.choice(("", "", "@0", "@1")) if kinds > 1 else ""
        for _ in range(max(1, number + dice.choice((0, 0, 0, 0, 1, -1)))):
            odd = dice.random() < 0.1 and kinds > 1
            jobs.append(f"{letter}{size}{dice.choice(('', '@0', '@1')) if odd else where}")
    return " ".join(jobs)


def expected(w: World) -> int | None:
    """How many services serve at every place of rest, by the order of 3b; None where that depends on what happens."""
    if any(job.late for job in w.jobs):
        return None
    taken: list[tuple[int, ...]] = []
    number = 0
    for service, text in enumerate(w.ladders):
        pods: list[tuple[int, ...]] = []
        complete = True
        for group, count in ladder(text)[-1].items():
            chosen = [job for job in w.jobs if job.service == service and job.group == group][:count]
            complete &= len(chosen) == count
            pods += [job.kinds for job in chosen for _ in range(job.pods)]
        if complete and placeable((*taken, *pods), w.nodes):
            taken += pods
            number += not _may_spoil_itself(w, service, pods)
    return number


def _may_spoil_itself(w: World, service: int, pods: list[tuple[int, ...]]) -> bool:
    """Alone on its nodes it is admitted as it would be without an arbiter: its flexible pods may take the only nodes of
    its others."""
    mine = {kind for kinds in pods for kind in kinds}
    shared = any(mine.intersection(job.kinds) for job in w.jobs if job.service != service)
    return len(set(pods)) > 1 and not shared


def problems(w: World, *, most: int, enough: bool = False) -> tuple[int, list[str]]:
    """How many states the world has, and what is wrong in it. `enough`: of a larger world look at so many states."""
    found = explore(w, most=most, enough=enough)
    wrong, should = found.wrong, expected(w)
    if not wrong and should is not None and found.fewest < should:
        wrong = [f"only {found.fewest} services serve, {should} could by their order"]
    return found.states, wrong


def main(seconds: float, seed: int) -> int:
    end, worlds, states, left_out = time.monotonic() + seconds, 0, 0, 0
    while time.monotonic() < end:
        seed += 1
        try:
            number, wrong = problems(random_world(seed), most=20_000)
        except TooLarge:
            left_out += 1
            continue
        worlds, states = worlds + 1, states + number
        if wrong:
            print(seed, random_world(seed), *wrong[:2], sep="\n  ")
            return 1
    print(f"{worlds} worlds with {states} states, {left_out} larger ones left out, nothing wrong; last seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main(float((sys.argv[1:] or ["60"])[0]), int((sys.argv[2:] or ["0"])[0])))
