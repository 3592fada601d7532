"""Visits every state of every small world, smallest first, and prints how many there were and whatever is wrong.

    python -m tests.plan.arbitration.census --pods 4 [--kinds 2] [--shard 1/4] [--seconds 600] ...

Jobs arrive one by one, at any time and in any order: what can be there with a job more are all states without it, the
job added, and all that follows from these. So all worlds with the same jobs are one, and no state is visited twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

from tests.plan.arbitration.catalogue import Bound, Stratum, before, strata, world_of
from tests.plan.arbitration.explore import Explored, explore
from tests.plan.arbitration.sweep import expected
from tests.plan.arbitration.world import ABSENT, State, World

MOST_NODES = 8
ENDLESS = 10**9


@dataclass
class Count:
    """How far one got on some nodes."""

    worlds: int = 0
    """Different sets of jobs with their order of arrival, on so many nodes."""
    states: int = 0
    complete: int = 0
    """All worlds of up to so many pods were visited."""
    wrong: list[str] = field(default_factory=list)


def clusters(bound: Bound) -> list[tuple[int, ...]]:
    """Nodes of each kind: up to one more than there are pods, since more are never scarce. Which kind is which
    makes no difference."""
    most = min(MOST_NODES, bound.pods + bound.faults)
    numbers = product(range(1, most + 1), repeat=bound.kinds)
    return [each for each in numbers if sum(each) <= MOST_NODES and each == tuple(sorted(each, reverse=True))]


def census(nodes: tuple[int, ...], bound: Bound, end: float = float("inf")) -> Count:
    """All worlds within the bound on these nodes, or those up to the first that is wrong, or until the time is over."""
    count = Count()
    reached: dict[Stratum, Iterable[State]] = {(): explore(world_of((), nodes, bound.faults), most=ENDLESS).reached}
    largest = max(bound.sizes)
    for pods in range(1, bound.pods + 1):
        for stratum in strata(bound, pods):
            if time.monotonic() > end:
                return count
            w = world_of(stratum, nodes, bound.faults)
            found = explore(w, most=ENDLESS, starts=_starts(w, stratum, bound, reached))
            count.worlds, count.states = count.worlds + 1, count.states + found.states
            count.wrong += _wrong(w, found)
            if count.wrong:
                return count
            if pods < bound.pods:
                reached[stratum] = found.reached
        count.complete = pods
        reached = {key: states for key, states in reached.items() if _pods(key) > pods - largest}
    return count


def _pods(stratum: Stratum) -> int:
    return sum(form.pods for form in stratum)


def _starts(w: World, stratum: Stratum, bound: Bound, reached: dict[Stratum, Iterable[State]]) -> Iterator[State]:
    """Every state without one of the jobs that may have come last, and that job."""
    for service, less in before(stratum, bound):
        place = sum(len(form.jobs) for form in stratum[: service + 1]) - 1
        new = (ABSENT,) * w.jobs[place].pods
        for s in reached[less]:
            yield s._replace(pods=(*s.pods[:place], new, *s.pods[place:]))


def _wrong(w: World, found: Explored) -> list[str]:
    should = expected(w)
    if not found.wrong and should is not None and found.fewest < should:
        return [f"{w}: only {found.fewest} services serve, {should} could by their order"]
    return [f"{w}: {words}" for words in found.wrong]


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    bound = Bound(
        asked.pods, asked.counts, tuple(range(1, asked.size + 1)), asked.kinds, asked.services, asked.ratios,
        asked.spare, asked.faults, asked.either_way,
    )  # fmt: skip
    shard, of = map(int, asked.shard.split("/"))
    began, total, done = time.monotonic(), Count(complete=bound.pods), True
    for nodes in clusters(bound)[shard::of]:
        count = census(nodes, bound, began + asked.seconds)
        print(f"nodes {nodes}: {count.worlds} worlds, {count.states} states, complete to {count.complete} pods")
        total.worlds, total.states = total.worlds + count.worlds, total.states + count.states
        done &= count.complete == bound.pods
        total.wrong += count.wrong
        if total.wrong:
            break
    print(*total.wrong, sep="\n")
    how = "complete" if done else "NOT complete"
    print(f"{bound}\n{how}: {total.worlds} worlds, {total.states} states, {time.monotonic() - began:.0f} s")
    return 1 if total.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=3, help="of all jobs that exist")
    parser.add_argument("--counts", type=int, default=2, help="the most instances of a group in a ratio")
    parser.add_argument("--size", type=int, default=2, help="the most pods of an instance")
    parser.add_argument("--kinds", type=int, default=1, help="of nodes")
    parser.add_argument("--services", type=int, default=4)
    parser.add_argument("--ratios", type=int, default=3, help="of a ladder, at most")
    parser.add_argument("--spare", type=int, default=1, help="jobs of a group beyond its largest ratio")
    parser.add_argument("--faults", type=int, default=1, help="nodes that may be lost, and come back")
    parser.add_argument("--either-way", action="store_true", help="prefill and decode exchanged is no other service")
    parser.add_argument("--shard", default="0/1", help="only the i-th of n parts, by nodes: i/n")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop then, complete or not")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
