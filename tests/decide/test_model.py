"""Every state of small services, walked through exhaustively with the real planner, a scheduler and
limited nodes.

Faults can lead anywhere, so every combination of states is a start, and only fault-free steps
follow: decide, act on that (perhaps outdated) decision, bind one where a node is free, let a bound
one run, let a broken one go. Checked: there is no endless walk (L4), and where nothing can happen
any more the service is at the largest ratio that can be had without deleting a bound pod. Where
more would fit on empty nodes, running surplus of another group is in the way, always: that is the
work of the trade, and of nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from scaler.decide.decide import decide as decided
from scaler.decide.decision import Admit, Revoke, State
from scaler.decide.invariants import violations
from scaler.decide.world import Instance
from scaler.rules.rule import Rule
from tests.builders import instance, rule, service, world
from tests.decide.graph import ends
from tests.parts import short_and_long


def every_ladder(prefill: int, decode: int, ratios: int) -> list[str]:
    """All rules of up to `ratios` different ratios with at most so many instances."""
    numbers = list(itertools.product(range(prefill + 1), range(decode + 1)))
    chains = (
        chain
        for length in range(1, ratios + 1)
        for chain in itertools.permutations(numbers, length)
    )
    ladders = []
    for chain in chains:
        if falls(chain) and any(chain[-1]):
            ladders.append(" > ".join(f"{p}P{d}D" for p, d in chain))
    return ladders


def falls(chain: tuple[tuple[int, int], ...]) -> bool:
    """No ratio has more of anything than the one before it."""
    return all(
        less <= more
        for larger, smaller in itertools.pairwise(chain)
        for more, less in zip(larger, smaller, strict=True)
    )


LADDERS = (*every_ladder(2, 2, 3), "3P1D > 2P1D > 1P1D", "2P1D > 1P", "2P1D1E > 1P1D1E")
STATES = (
    State.HELD,
    State.ADMITTED,
    State.STARTING,
    State.RUNNING,
    State.BROKEN,
    State.TERMINATING,
)


class Group(NamedTuple):
    """How many instances of a group are in each state; one instance needs one node."""

    held: int
    admitted: int
    starting: int
    running: int
    broken: int
    terminating: int

    @property
    def nodes(self) -> int:
        return self.starting + self.running + self.broken + self.terminating


Fleet = tuple[Group, ...]
Moves = tuple[tuple[int, int], ...]
"""Per group: how many to admit, and how many to revoke."""


class Node(NamedTuple):
    """A fleet, and the decision that the controller has in hand, made on this fleet or on an older
    one."""

    fleet: Fleet
    moves: Moves | None = None


@cache
def decide(ladder: str, fleet: Fleet) -> Moves:
    found = tuple(
        instance(f"{name}-{state}-{number}", state, group=name)
        for name, group in zip(rule(ladder).groups, fleet, strict=True)
        for state, most in zip(STATES, group, strict=True)
        for number in range(most)
    )
    seen = world(service(ladder, found))
    made = decided(seen)
    assert violations(seen, made) == ()
    by_uid = {one.uid: one for one in found}
    actions = made.plans[0].actions
    admitted = [by_uid[one.uid] for one in actions if isinstance(one, Admit)]
    revoked = [by_uid[one.uid] for one in actions if isinstance(one, Revoke)]
    return tuple((_in(admitted, name), _in(revoked, name)) for name in rule(ladder).groups)


def _in(instances: list[Instance], group: str) -> int:
    return sum(one.group == group for one in instances)


def act(fleet: Fleet, moves: Moves) -> Fleet:
    """What is still possible of the decision: uid preconditions let the rest fail."""
    return tuple(
        group._replace(
            held=group.held - min(admit, group.held) + min(revoke, group.admitted),
            admitted=group.admitted + min(admit, group.held) - min(revoke, group.admitted),
        )
        for group, (admit, revoke) in zip(fleet, moves, strict=True)
    )


def steps(ladder: str, node: Node, capacity: int) -> Iterator[Node]:
    fleet, moves = node
    if moves is not None:
        yield Node(act(fleet, moves))
    elif any(map(any, decide(ladder, fleet))):
        yield Node(fleet, decide(ladder, fleet))
    for index, group in enumerate(fleet):
        if group.admitted and sum(other.nodes for other in fleet) < capacity:
            yield Node(
                _put(fleet, index, admitted=group.admitted - 1, starting=group.starting + 1), moves
            )
        if group.starting:
            yield Node(
                _put(fleet, index, starting=group.starting - 1, running=group.running + 1), moves
            )
        if group.broken:
            yield Node(
                _put(fleet, index, broken=group.broken - 1, terminating=group.terminating + 1),
                moves,
            )
        if group.terminating:
            yield Node(
                _put(fleet, index, terminating=group.terminating - 1, held=group.held + 1), moves
            )


def _put(fleet: Fleet, index: int, **counts: int) -> Fleet:
    return (*fleet[:index], fleet[index]._replace(**counts), *fleet[index + 1 :])


def every_world(ladder: Rule, spares: int) -> Iterator[Fleet]:
    """All ways to spread the jobs over the states: as many as the largest ratio asks for, and
    spares of one group."""
    jobs = [
        ladder.largest.of(name) + (spares if index == 0 else 0)
        for index, name in enumerate(ladder.groups)
    ]
    return itertools.product(*(list(_spread(max(0, number))) for number in jobs))


def _spread(jobs: int) -> Iterator[Group]:
    for counts in itertools.product(range(jobs + 1), repeat=len(STATES) - 1):
        if sum(counts) <= jobs:
            yield Group(jobs - sum(counts), *counts)


def nodes_of(fleet: Fleet) -> int:
    return sum(group.nodes for group in fleet)


def walk(ladder: str, capacity: int, spares: int = 0) -> list[Fleet]:
    """The worlds where nothing can happen any more; fails on an endless walk."""
    worlds = every_world(rule(ladder), spares)
    starts = (Node(fleet) for fleet in worlds if nodes_of(fleet) <= capacity)
    return [node.fleet for node in ends(starts, lambda node: steps(ladder, node, capacity))]


def satisfied(ladder: Rule, fleet: Fleet, index: int) -> bool:
    counts = ladder.ratios[index].counts
    return all(
        group.running >= counts.get(name, 0)
        for name, group in zip(ladder.groups, fleet, strict=True)
    )


def best(ladder: Rule, fleet: Fleet, capacity: int, *, bound_stays: bool) -> int | None:
    """The largest ratio that jobs and nodes allow, beside what is bound already or as if everything
    could be moved."""
    for index, ratio in enumerate(ladder.ratios):
        wanted = [ratio.of(name) for name in ladder.groups]
        if bound_stays:
            wanted = [
                max(number, group.running) for number, group in zip(wanted, fleet, strict=True)
            ]
        live = all(
            ratio.of(name) <= sum(group) for name, group in zip(ladder.groups, fleet, strict=True)
        )
        if live and sum(wanted) <= capacity:
            return index
    return None


@pytest.mark.parametrize("spares", [-1, 1])
@pytest.mark.parametrize("ladder", short_and_long(LADDERS[::-1], short=12, why="more rules"))
def test_every_walk_ends_at_the_largest_ratio_that_can_be_had_without_a_trade(
    ladder: str, spares: int
) -> None:
    jobs = rule(ladder)
    for capacity in range(sum(jobs.largest.counts.values()) + 2):
        for fleet in walk(ladder, capacity, spares):
            reachable = best(jobs, fleet, capacity, bound_stays=True)
            assert reachable is None or satisfied(jobs, fleet, reachable), (fleet, capacity)
            ideal = best(jobs, fleet, capacity, bound_stays=False)
            if ideal is not None and not satisfied(jobs, fleet, ideal):
                surplus = [
                    g.running > jobs.ratios[ideal].of(n)
                    for n, g in zip(jobs.groups, fleet, strict=True)
                ]
                assert any(surplus), (fleet, capacity)


def running(fleet: Fleet) -> tuple[int, ...]:
    return tuple(group.running for group in fleet)


def test_two_prefill_without_a_decode_and_without_a_node_need_the_trade() -> None:
    stuck = [
        fleet
        for fleet in walk("2P1D > 1P1D", capacity=2)
        if not satisfied(rule("2P1D > 1P1D"), fleet, 1)
    ]
    assert {running(fleet) for fleet in stuck} == {(2, 0)}
    assert {(prefill.admitted, decode.admitted) for prefill, decode in stuck} == {(0, 1)}


def test_a_third_node_is_all_that_those_two_prefill_lack() -> None:
    quiet = walk("2P1D > 1P1D", capacity=3)
    assert {running(fleet) for fleet in quiet} == {(2, 1)}
