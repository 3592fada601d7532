"""Hours in small worlds: a scheduler that takes its time or never binds some jobs, one fault, and every timer.

What must come of it: in the end everything that fits is bound, nobody loses what runs but to a trade, and what keeps
being tried in vain is tried ever more rarely.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from scaler.decide.world import ArbiterMemory, Evict
from scaler.rules.rule import RuleOptions
from tests.builders import NOW
from tests.decide.arbitration.oracle import judge
from tests.decide.arbitration.sweep import random_world
from tests.decide.arbitration.view import Setting, controller, wanted
from tests.decide.arbitration.world import UNBOUND, State, World, bindings, events, initial, world

LADDER = "2P1D > 1P1D: p p d"
HOURS = 4 * 3600.0


class End(NamedTuple):
    state: State
    serving: int
    actions: list[tuple[float, int]]
    """When, and how many."""
    evicted: int


def play(w: World, seed: int, never: frozenset[int] = frozenset(), start: State | None = None) -> End:
    """Steps in a random order until nothing moves and no timer runs, or the hours are over."""
    dice = random.Random(seed)
    s, memory, time = start or initial(w), ArbiterMemory(), 0.0
    setting = Setting((RuleOptions(),) * len(w.ladders))
    actions, evicted = [], 0
    while time < HOURS:
        made = controller(w, s, setting, memory, NOW + time)
        memory = made.outcome.memory
        done = [action for plan in made.outcome.plans for action in plan.actions]
        actions += [(time, len(done))] if done else []
        evicted += sum(isinstance(action, Evict) for action in done)
        s = made.after
        following = [after for after in bindings(w, s) if not _binds(s, after, never)]
        outside = list(events(w, s)) if time < 600 and dice.random() < 0.2 else []
        if following or outside:
            s = dice.choice(following + outside)
            time += dice.choice((0.1, 1, 5))
        elif not done and not made.outcome.recheck_at:
            break
        else:
            time = time + 0.1 if done else made.outcome.recheck_at - NOW
    ruled = judge(w, s, wanted(w, made.alone), set())
    return End(s, len(ruled.serving), actions, evicted)


def _binds(before: State, after: State, never: frozenset[int]) -> bool:
    return any(before.pods[job] != after.pods[job] for job in never)


@pytest.mark.parametrize("seed", range(40))
def test_with_a_scheduler_that_binds_all_comes_to_rest(seed: int) -> None:
    w = random_world(seed)
    end = play(w, seed)
    assert not [step for step in end.actions if step[0] > 1500]
    assert not any(UNBOUND in (pods or ()) for pods in end.state.pods if _is_shared(w))


def _is_shared(w: World) -> bool:
    """All services may use all nodes, so none is alone on any."""
    return all(len(job.kinds) == len(w.nodes) for job in w.jobs)


@pytest.mark.parametrize("seed", range(10))
def test_a_minimum_that_is_never_bound_keeps_nobody_from_climbing_and_is_tried_ever_more_rarely(seed: int) -> None:
    w = world((5,), "1P: p2", LADDER)
    end = play(w, seed, never=frozenset({0}))
    assert end.serving == 1
    assert [pods for job, pods in zip(w.jobs, end.state.pods, strict=True) if job.service == 1] == [(0,)] * 3
    late = [number for time, number in end.actions if time > HOURS / 2]
    assert sum(late) <= 2 * (HOURS / 2) / 330 + 2


@pytest.mark.parametrize("seed", range(10))
def test_two_half_services_that_lost_their_decode_serve_again_by_trading(seed: int) -> None:
    w = world((4,), LADDER, LADDER)
    lost = State((4,), (0,), ((0,), (0,), (-1,), (0,), (0,), (-1,)), 0)
    end = play(w, seed, start=lost)
    assert end.serving == 2
    assert end.evicted == 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("nodes", "serving"), [(40, 20), (20, 10), (23, 11)])
def test_as_many_of_twenty_services_serve_as_nodes_can_hold_however_slow_the_scheduler(
    nodes: int, serving: int, seed: int
) -> None:
    assert play(world((nodes,), *[LADDER] * 20), seed).serving == serving
