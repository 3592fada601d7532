"""Small worlds, in every order of events: each decision as the oracle's, each rest a good one, and no endless cycle.

More of them, for as long as one likes: `python -m tests.decide.arbitration.sweep`.
"""

from __future__ import annotations

import pytest

from tests.decide.arbitration.sweep import problems, random_world
from tests.decide.arbitration.world import World, initial, world

TWO_ONE = "2P1D > 1P1D: p p d"

WORLDS = {
    "one service climbs when nobody waits": world((3,), TWO_ONE),
    "two services, room for both minimums": world((4,), TWO_ONE, TWO_ONE),
    "two services, room for one minimum and a half": world((3,), TWO_ONE, TWO_ONE),
    "three services, room for two": world((5,), TWO_ONE, TWO_ONE, TWO_ONE),
    "four services, room for two": world((4,), TWO_ONE, TWO_ONE, TWO_ONE, TWO_ONE),
    "a late decode": world((4,), TWO_ONE, TWO_ONE, late=("1.d0",), faults=1),
    "a late service": world((4,), TWO_ONE, TWO_ONE, late=("1.p0", "1.p1", "1.d0")),
    "jobs one by one": world((4,), "1P1D: p d", TWO_ONE, late=("0.p0", "0.d0", "1.p0", "1.d0")),
    "a big minimum before small ones": world((4,), "1P1D: p3 d2", "1P1D: p d", "1P1D: p d"),
    "a big minimum that a loss can spoil": world((4,), "2P1D > 1P1D: p2 p2 d", "1P1D: p d", faults=1),
    "pods lost in pairs": world((4,), TWO_ONE, "1P1D: p2 d2", late=("1.p0",), faults=1),
    "each group needs a kind": world((2, 2), TWO_ONE, "1P1D: p@0 d@1", faults=1),
    "one flexible, one not": world((2, 1), "1P1D: p d", "1P1D: p@0 d@1"),
    "kinds that overlap": world((1, 2, 1), "1P1D: p@01 d@12", "1P1D: p@0 d@1", "1P: p@12"),
    "long ladders": world((5,), "2P2D > 2P1D > 1P1D: p p d d", "2P1D > 1P1D: p2 p d", late=("1.p0",)),
    "alone on its nodes": world((1, 2), "1P1D: p@0 d@0", "1P1D: p@1 d@1"),
    "two that share nothing with a third": world((1, 2), "1P1D: p@0 d@0", TWO_ONE.replace("p p d", "p@1 p@1 d@1"),
                                                 "1P1D: p@1 d@1"),
}  # fmt: skip

SEEDS = range(1, 25)
"""With the worlds above 7,500 states. The sweep has played 75 others (seeds 2001 to 2075) with 16,000 states."""


@pytest.mark.parametrize("w", WORLDS.values(), ids=WORLDS)
def test_every_order_of_events_ends_well(w: World) -> None:
    _, wrong = problems(w, most=20_000)
    assert wrong == []


@pytest.mark.parametrize("seed", SEEDS)
def test_every_order_of_events_in_a_random_world_ends_well(seed: int) -> None:
    _, wrong = problems(random_world(seed), most=1_500, enough=True)
    assert wrong == []


def test_random_worlds_are_of_all_sorts() -> None:
    worlds = [random_world(seed) for seed in SEEDS]
    assert {len(w.nodes) for w in worlds} == {1, 2}
    assert {len(w.ladders) for w in worlds} == {2, 3, 4}
    assert {w.faults for w in worlds} == {0, 1}
    assert any(None in initial(w).pods for w in worlds)
