"""Every rollout of a small Deployment, walked through exhaustively: maker, planner and scheduler in
any order.

Every combination of held, admitted and running pods of both revisions is a start, the planner may
act on a decision that is no longer current, and another group may miss an instance all the while,
so that unbound surplus is taken back. Checked: there is no endless walk, no more of the newest
revision are out than the target, and where nothing can happen any more the rollout has ended,
exactly for the numbers of docs/explanation/holding-by-gates.md."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import msgspec
import pytest

from scaler.decide.decide import decide as decided
from scaler.decide.decision import Admit, Revoke
from scaler.decide.invariants import violations
from scaler.decide.world import Instance
from tests.builders import NOW, instance, service, world
from tests.decide.graph import ends
from tests.decide.test_rollouts import pod, start

Chosen = dict[type[Admit | Revoke], set[str]]
"""Uids by what is done."""


class Pods(NamedTuple):
    """Pods of one revision; one that is bound runs at once."""

    held: int
    admitted: int
    running: int


class Moves(NamedTuple):
    """What to do with the pods of one revision."""

    admit: int
    revoke: int


class Node(NamedTuple):
    """Both revisions, and the decision that the planner has in hand."""

    old: Pods
    new: Pods
    moves: tuple[Moves, Moves] | None = None


class Case(NamedTuple):
    """A Deployment, what the ratio wants of it, and the nodes."""

    replicas: int
    surge: int
    unavailable: int
    target: int
    nodes: int
    missing: bool
    """Another group misses an instance."""

    def ends(self) -> bool:
        """The last outdated pod goes when more are available than have to be: with it, as many as
        are out or fit."""
        available = min(self.target + 1, self.nodes)
        return available > self.replicas - self.unavailable


def cases(replicas: int) -> Iterator[Case]:
    for surge, unavailable in itertools.product(range(2), range(replicas + 1)):
        for target in range(1, replicas + 1):
            for nodes, missing in itertools.product((target, target + 1), (False, True)):
                if surge + unavailable:
                    yield Case(replicas, surge, unavailable, target, nodes, missing)


@cache
def decide(old: Pods, new: Pods, replicas: int, target: int, missing: bool) -> tuple[Moves, Moves]:
    found = [*_instances(old, replicas, outdated=True), *_instances(new, replicas, outdated=False)]
    others = (instance("d0", "Terminating"),) if missing else ()
    seen = world(service(f"{target}P1D" if missing else f"{target}P", (*found, *others)))
    made = decided(seen)
    assert violations(seen, made) == ()
    actions = made.plans[0].actions
    chosen: Chosen = {
        Admit: {one.uid for one in actions if isinstance(one, Admit)},
        Revoke: {one.uid for one in actions if isinstance(one, Revoke)},
    }
    return (_moves(found, chosen, outdated=True), _moves(found, chosen, outdated=False))


def _instances(pods: Pods, replicas: int, *, outdated: bool) -> Iterator[Instance]:
    for number in range(sum(pods)):
        one = pod(number, outdated=outdated, wanted=replicas)
        if number < pods.running:
            yield start(one)
        elif number < pods.running + pods.admitted:
            yield msgspec.structs.replace(one, gated=0, admitted_at=NOW)
        else:
            yield one


def _moves(found: list[Instance], chosen: Chosen, *, outdated: bool) -> Moves:
    uids = {one.uid for one in found if one.outdated is outdated}
    return Moves(len(uids & chosen[Admit]), len(uids & chosen[Revoke]))


def act(pods: Pods, moves: Moves) -> Pods:
    """What is still possible of a decision: uid preconditions let the rest fail."""
    out = min(moves.admit, pods.held)
    back = min(moves.revoke, pods.admitted)
    return Pods(pods.held - out + back, pods.admitted + out - back, pods.running)


def make(case: Case, old: Pods, new: Pods) -> tuple[Pods, Pods]:
    """First up with the new ReplicaSet, then down with the old one: held pods first, then those
    that wait."""
    more = min(case.replicas + case.surge - sum(old) - sum(new), case.replicas - sum(new))
    if more > 0:
        return old, new._replace(held=new.held + more)
    least = case.replicas - case.unavailable
    spare = sum(old) + sum(new) - least - new.held - new.admitted
    if spare <= 0:
        return old, new
    old = _shrink(old, min(spare, old.held + old.admitted))
    return _shrink(old, max(0, old.running + new.running - least)), new


def _shrink(pods: Pods, by: int) -> Pods:
    left = []
    for number in pods:
        left.append(number - min(number, by))
        by -= min(number, by)
    return Pods(*left)


def steps(case: Case, node: Node) -> Iterator[Node]:
    old, new, moves = node
    decided = decide(old, new, case.replicas, case.target, case.missing)
    if moves is not None:
        yield Node(act(old, moves[0]), act(new, moves[1]))
    elif any(map(any, decided)):
        yield Node(old, new, decided)
    made = make(case, old, new)
    if made != (old, new):
        yield Node(*made, moves)
    if old.running + new.running < case.nodes:
        if old.admitted:
            yield Node(Pods(old.held, old.admitted - 1, old.running + 1), new, moves)
        if new.admitted:
            yield Node(old, Pods(new.held, new.admitted - 1, new.running + 1), moves)


def starts(case: Case) -> Iterator[Node]:
    """Any pods that the Deployment allows; the planner never let out more of the newest than the
    target."""
    numbers = range(case.replicas + case.surge + 1)
    for counts in itertools.product(numbers, repeat=6):
        old = Pods(*counts[:3])
        new = Pods(*counts[3:])
        allowed = (
            sum(counts) <= case.replicas + case.surge
            and sum(new) <= case.replicas
            and sum(old) <= case.replicas
        )
        if (
            allowed
            and old.running + new.running <= case.nodes
            and new.admitted + new.running <= case.target
        ):
            yield Node(old, new)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_every_walk_ends_and_the_rollout_with_it_for_the_documented_numbers(replicas: int) -> None:
    for case in cases(replicas):
        for end in ends(starts(case), lambda node, case=case: steps(case, node)):  # type: ignore[misc]
            assert end.new.admitted + end.new.running <= case.target, (case, end)
            assert not case.ends() or sum(end.old) == 0, (case, end)
