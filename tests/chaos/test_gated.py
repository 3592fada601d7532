"""A small part of the chaos tests for services whose pods others make, with every change."""

from __future__ import annotations

import pytest

from tests.chaos.aimed import ROLLOUT
from tests.chaos.schedule import GATED_EVENTS, GATED_KINDS, SCALED, gated_schedule
from tests.chaos.stage import play
from tests.parts import short_and_long

SEEDS = range(12)
BATCH = 4
MANY = range(120)


@pytest.mark.parametrize(
    "first", short_and_long(SEEDS[::BATCH], short=1, why="more seeds of the same")
)
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + BATCH):
        assert (seed, play(gated_schedule(seed), family="gated").failures) == (seed, [])


def test_a_rollout_beside_a_held_instance_breaks_no_promise() -> None:
    assert play(ROLLOUT).failures == []


def test_the_schedules_know_every_event_and_every_kind() -> None:
    made = [gated_schedule(seed) for seed in MANY]
    happens = {event.what for one in made for event in one.events}
    assert happens == {kind.what for kind in GATED_EVENTS} | {SCALED}
    kinds = {service.kind for one in made for service in one.inventory.services}
    assert kinds == set(GATED_KINDS)


def test_a_seed_replays_to_the_same_trace() -> None:
    first = play(gated_schedule(4), keep_trace=True)
    second = play(gated_schedule(4))
    assert len(first.trace) > 100
    assert first.digest == second.digest
