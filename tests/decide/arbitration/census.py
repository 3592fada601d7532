"""Visits every state of every small world, smallest first, and prints how many there were and whatever is wrong.

    python -m tests.decide.arbitration.census --pods 4 [--kinds 2] [--shard 1/4] [--seconds 600] ...

Jobs arrive one by one, at any time and in any order: what can be there with a job more are all states without it, the
job added, and all that follows from these. So all worlds with the same jobs are one, and no state is visited twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import NamedTuple

from tests.decide.arbitration import timed
from tests.decide.arbitration.catalogue import Bound, Stratum, before, strata, world_of
from tests.decide.arbitration.explore import explore
from tests.decide.arbitration.sweep import expected
from tests.decide.arbitration.timed import Moment
from tests.decide.arbitration.view import Setting
from tests.decide.arbitration.world import ABSENT, State, World

MOST_NODES = 8
ENDLESS = 10**9


@dataclass
class Count:
    """How far one got on some nodes."""

    worlds: int = 0
    """Different sets of jobs with their order of arrival, on so many nodes; with time, also by who is never bound."""
    states: int = 0
    """With time: moments."""
    complete: int = 0
    """All worlds of up to so many pods were visited."""
    wrong: list[str] = field(default_factory=list)


class Case(NamedTuple):
    stratum: Stratum
    never: frozenset[int] = frozenset()
    """Services of which the scheduler binds nothing."""


class Visited(NamedTuple):
    states: int
    wrong: list[str]
    reached: Iterable[State] | Iterable[Moment]


Reached = dict[Case, Iterable[State] | Iterable[Moment]]


def clusters(bound: Bound) -> list[tuple[int, ...]]:
    """Nodes of each kind: up to one more than there are pods, since more are never scarce. Which kind is which
    makes no difference."""
    most = min(MOST_NODES, bound.pods + bound.faults)
    numbers = product(range(1, most + 1), repeat=bound.kinds)
    return [each for each in numbers if sum(each) <= MOST_NODES and each == tuple(sorted(each, reverse=True))]


def census(nodes: tuple[int, ...], bound: Bound, end: float = float("inf")) -> Count:
    """All worlds within the bound on these nodes, or those up to the first that is wrong, or until the time is over."""
    count = Count()
    reached: Reached = {Case(()): _visited(Case(()), nodes, bound, {}).reached}
    for pods in range(1, bound.pods + 1):
        for case in _cases(bound, pods):
            if time.monotonic() > end:
                return count
            found = _visited(case, nodes, bound, reached)
            count.worlds, count.states = count.worlds + 1, count.states + found.states
            count.wrong += found.wrong
            if count.wrong:
                return count
            if pods < bound.pods:
                reached[case] = found.reached
        count.complete = pods
        reached = {case: states for case, states in reached.items() if _pods(case) > pods - max(bound.sizes)}
    return count


def _cases(bound: Bound, pods: int) -> Iterator[Case]:
    for stratum in strata(bound, pods):
        for number in range(len(stratum) + 1 if bound.timed else 1):
            for never in combinations(range(len(stratum)), number):
                yield Case(stratum, frozenset(never))


def _pods(case: Case) -> int:
    return sum(form.pods for form in case.stratum)


def _visited(case: Case, nodes: tuple[int, ...], bound: Bound, reached: Reached) -> Visited:
    w = world_of(case.stratum, nodes, bound.faults)
    starts = _starts(w, case, bound, reached)
    if bound.timed:
        since = (s for s in starts if isinstance(s, Moment))
        moments = timed.explore(w, case.never, Setting(blurred=bound.blurred), most=ENDLESS, starts=since)
        return Visited(moments.moments, [f"{_named(case, w)}: {words}" for words in moments.wrong], moments.reached)
    found = explore(w, most=ENDLESS, starts=(s for s in starts if isinstance(s, State)))
    wrong = [f"{_named(case, w)}: {words}" for words in found.wrong]
    should = expected(w)
    if not wrong and should is not None and found.fewest < should:
        wrong = [f"{_named(case, w)}: only {found.fewest} services serve, {should} could by their order"]
    return Visited(found.states, wrong, found.reached)


def _named(case: Case, w: World) -> str:
    """To be pasted into a test."""
    services = "".join(f', "{form}"' for form in case.stratum)
    never = f", never bound: {set(case.never)}" if case.never else ""
    return f"world({w.nodes}{services}, faults={w.faults}){never}"


def _starts(w: World, case: Case, bound: Bound, reached: Reached) -> Iterator[State | Moment]:
    """Every state without one of the jobs that may have come last, and that job."""
    for service, less in before(case.stratum, bound):
        place = sum(len(form.jobs) for form in case.stratum[: service + 1]) - 1
        new = (ABSENT,) * w.jobs[place].pods
        for s in reached[Case(less, case.never & frozenset(range(len(less))))]:
            old = s.state if isinstance(s, Moment) else s
            state = old._replace(pods=(*old.pods[:place], new, *old.pods[place:]))
            yield s._replace(state=state) if isinstance(s, Moment) else state


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    bound = Bound(
        asked.pods, asked.counts, tuple(range(1, asked.size + 1)), asked.kinds, asked.services, asked.ratios,
        asked.spare, asked.faults, asked.either_way, asked.timed or asked.blurred, asked.blurred,
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
    parser.add_argument("--timed", action="store_true", help="with timers, trades and services that are never bound")
    parser.add_argument("--blurred", action="store_true", help="with time, and nothing fits as far as can be seen")
    parser.add_argument("--shard", default="0/1", help="only the i-th of n parts, by nodes: i/n")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop then, complete or not")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
