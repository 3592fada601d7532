"""A small part of the chaos tests with every change: what goes wrong is random, what is promised is
not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from tests.chaos.inventory import CPU_NODE, HEALTHY, HEALTHY_NODES, Inventory, Service, nodes
from tests.chaos.replica import TERMINATION
from tests.chaos.schedule import (
    ATTACKS,
    EVENTS,
    SCALED,
    Event,
    Schedule,
    api_fault,
    retry_later,
    schedule,
)
from tests.chaos.stage import play, served_by
from tests.faults import WRITES, Fault, Rule
from tests.parts import short_and_long

ROOT = Path(__file__).parents[2]
SEEDS = range(300)
BATCH = 10
BUSY = 14
"""A seed with two replicas, crashes and API faults."""
REFERENCE = Schedule(
    seed=0,
    inventory=Inventory(
        (
            Service(
                "a", "mindie", "a", ladder=((2, 1), (1, 1)), jobs=(2, 1), pods=(2, 1), mindie=True
            ),
        ),
        (CPU_NODE, *nodes("a", 5)),
    ),
    storm=100.0,
    events=(
        Event(30.0, "instance killed", "a-d0"),
        Event(45.0, "node gone", "a-0"),
        Event(75.0, "node back", "a-0"),
    ),
)
"""A cold start of 2P1D, a lost node, its return and the scale-up."""
WAYS = (
    Rule(fault=Fault.CRASH),
    Rule(fault=Fault.CRASH_AFTER),
    Rule(fault=Fault.LOST_REQUEST),
    Rule(fault=Fault.LOST_ANSWER),
    Rule(fault=Fault.REFUSED, status=409),
    Rule(fault=Fault.REFUSED, status=429),
)

"""In which a write goes wrong. A crash is followed by a new process."""


@pytest.mark.parametrize(
    "first", short_and_long(SEEDS[::BATCH], short=1, why="more seeds of the same")
)
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + BATCH):
        assert (seed, play(schedule(seed)).failures) == (seed, [])


def test_the_fixed_schedules_know_every_event_and_every_fault() -> None:
    made = [schedule(seed) for seed in SEEDS]
    happens = {event.what for one in made for event in one.events}
    assert happens == {kind.what for kind in (*EVENTS, *ATTACKS)} | {SCALED}
    assert {rule.fault for one in made for rule in one.api_faults} == set(Fault) - {
        Fault.CRASH,
        Fault.CRASH_AFTER,
    }


def test_a_seed_gives_one_schedule_and_another_seed_another() -> None:
    assert schedule(BUSY) == schedule(BUSY)
    assert len({str(schedule(seed)) for seed in SEEDS}) == len(SEEDS)


def calm(storm: float, *api_faults: Rule, events: tuple[Event, ...] = ()) -> Schedule:
    """Only the healthy service, one replica without a Lease, and nothing goes wrong but this."""
    return Schedule(0, Inventory((HEALTHY,), HEALTHY_NODES), storm, events, api_faults)


def test_the_healthy_service_waits_no_longer_than_the_last_refusal_told_the_scaler_to() -> None:
    late = retry_later(50.0, 10.0)
    away = api_fault(Fault.NOT_SENT, 0.0, 55.0)
    made = calm(60.0, away, late, events=(Event(54.0, "crash", "0", 4.0),))
    assert play(made).failures == []
    assert [
        served_by(one) for one in (made, calm(60.0), msgspec.structs.replace(made, attacked=True))
    ] == [
        186,
        120,
        60,
    ]


def test_a_minute_of_refusals_that_name_no_time_makes_no_storm() -> None:
    """Each pass tries five times within two seconds; the passes come with growing pauses."""
    refused = api_fault(Fault.REFUSED, 0.5, 60.0, verbs=WRITES, status=429)
    assert play(calm(90.0, refused)).failures == []


@pytest.mark.parametrize("election", [False, True])
def test_without_a_lease_a_stopped_life_has_its_time_to_end_before_the_next(
    election: bool,
) -> None:
    stop = Event(59.0, "stop", "0", 0.5)
    made = msgspec.structs.replace(
        schedule(BUSY),
        replicas=1,
        election=election,
        storm=60.0,
        events=(stop,),
        api_faults=(),
        attacked=False,
    )
    trace = play(made, keep_trace=True).trace
    (starts,) = [float(line.split()[0]) for line in trace if line.endswith("scaler-0.2 starts")]
    assert starts == pytest.approx(59.0 + 0.5 + (0.0 if election else TERMINATION), abs=0.1)


def test_a_seed_replays_to_the_same_trace() -> None:
    first = play(schedule(BUSY), keep_trace=True)
    second = play(schedule(BUSY))
    assert len(first.trace) > 100
    assert first.digest == second.digest


def test_the_hash_seed_of_the_process_does_not_change_the_trace() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--seed", str(BUSY), "-v"]
    told = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            cwd=ROOT,
        ).stdout.partition(b"\ntrace ")[0]
        for seed in ("1", "2")
    }
    assert len(told) == 1


def swept(*kinds: str) -> Iterator[list[str]]:
    """What is wrong, for every write (of objects of these kinds) and every way: nothing where it
    ends as it must."""
    expected = play(REFERENCE)
    assert expected.failures == []
    for way in WAYS:
        for number in count():
            rule = msgspec.structs.replace(way, verbs=WRITES, kinds=kinds, skip=number, times=1)
            result = play(msgspec.structs.replace(REFERENCE, one_fault=rule))
            if not result.counts[f"api fault: {way.fault.value}"]:
                break  # there is no write of this number
            ends = (
                []
                if result.said == expected.said
                else [f"ended with {result.said}, not {expected.said}"]
            )
            yield [
                f"{way.fault.value} {way.status} of write {number}: {what}"
                for what in (*result.failures, *ends)
            ]


@pytest.mark.long("every write of a history, in every way")
def test_each_write_of_a_pod_may_fail_in_every_way_and_it_ends_the_same() -> None:
    found = list(swept("Pod"))
    assert (len(found) >= 60, [wrong for wrong in found if wrong]) == (True, [])
