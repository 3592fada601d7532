"""A small part of the campaign with every change: what goes wrong is random, what is promised is not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaign import schedule as catalogue
from tests.campaign.plugin import told
from tests.campaign.schedule import schedule
from tests.campaign.sieve import differences, plans, reference
from tests.campaign.stage import play
from tests.faults import Fault
from tests.parts import short_and_long

ROOT = Path(__file__).parents[2]
SEEDS = range(500)
BATCH = 10
BUSY = 14
"""A seed with two replicas, crashes and API faults."""


@pytest.mark.parametrize("first", short_and_long(SEEDS[::BATCH], short=2, why="more seeds of the same"))
def test_no_promise_is_broken_whatever_goes_wrong(first: int, record_property: Callable[[str, object], None]) -> None:
    for seed in range(first, first + BATCH):
        result = play(schedule(seed))
        record_property(*told(result))
        assert (seed, result.failures) == (seed, [])


def test_the_fixed_schedules_know_every_event_and_every_fault() -> None:
    made = [schedule(seed) for seed in SEEDS]
    happens = {event.what for one in made for event in one.events}
    scene = catalogue.Scene(made[0].world.services, made[0].world.nodes, 1)
    known = (*catalogue.EVENTS, *catalogue.ATTACKS)
    assert happens == {maker(random.Random(0), 0.0, scene).what for maker, _ in known} | {catalogue.SCALED}
    assert {weather.fault for one in made for weather in one.weather} == set(Fault)


def test_a_seed_gives_one_schedule_and_another_seed_another() -> None:
    assert schedule(BUSY) == schedule(BUSY)
    assert len({str(schedule(seed)) for seed in SEEDS}) == len(SEEDS)


def test_a_seed_replays_to_the_same_trace() -> None:
    first, second = play(schedule(BUSY), keep_trace=True), play(schedule(BUSY))
    assert len(first.trace) > 100
    assert first.digest == second.digest


def test_the_hash_seed_of_the_process_does_not_change_the_trace() -> None:
    command = [sys.executable, "-m", "tests.campaign", "--seed", str(BUSY)]
    told = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
                       cwd=ROOT).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1


@pytest.mark.long("every write of a history, in every way")
def test_each_write_of_a_pod_may_fail_in_every_way_and_it_ends_the_same() -> None:
    expected, writes = reference()
    assert (expected.failures, len(writes) > 80) == ([], True)
    assert [found for plan in plans(writes, only=frozenset({"Pod"})) for found in differences(plan, expected)] == []


def test_a_schedule_is_told_in_words() -> None:
    made = schedule(BUSY)
    told = catalogue.describe(made)
    assert all(event.what in told for event in made.events)
    assert all(weather.what in told for weather in made.weather)
