"""The sizes with which a training job can be started, and what its metadata says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.world import OnFault
from scaler.workloads.ladder import MOST_SIZES, Steps, Unit, derived, in_pairs, listed
from scaler.workloads.training import (
    Grow,
    Resize,
    TrainingOptions,
    ladder_of,
    takes_part,
    training_of,
    why_left_alone,
    why_no_ladder,
)

FULL = st.integers(1, 1_000)


@pytest.mark.parametrize(
    ("full", "least", "steps", "sizes"),
    [
        (8, 1, Steps.POWERS_OF_TWO, (8, 4, 2, 1)),
        (6, 2, Steps.POWERS_OF_TWO, (6, 4, 2)),
        (8, 3, Steps.POWERS_OF_TWO, (8, 4, 3)),
        (8, 8, Steps.POWERS_OF_TWO, (8,)),
        (1, 1, Steps.POWERS_OF_TWO, (1,)),
        (2, 1, Steps.POWERS_OF_TWO, (2, 1)),
        (8, 5, Steps.EVERY, (8, 7, 6, 5)),
        (3, 1, Steps.EVERY, (3, 2, 1)),
    ],
)
def test_sizes_are_derived_from_the_full_size_and_the_least(
    full: int, least: int, steps: Steps, sizes: tuple[int, ...]
) -> None:
    assert derived(Unit.SERVERS, full, least, steps).sizes == sizes


@given(full=FULL, least=FULL, steps=st.sampled_from(Steps))
def test_a_ladder_falls_from_the_full_size_to_the_least(
    full: int, least: int, steps: Steps
) -> None:
    least = min(least, full)

    ladder = derived(Unit.SERVERS, full, least, steps)

    assert ladder.full == full
    assert ladder.least == least
    assert list(ladder.sizes) == sorted(set(ladder.sizes), reverse=True)
    assert len(ladder.sizes) <= MOST_SIZES


@given(full=FULL, least=FULL)
def test_between_full_size_and_least_only_powers_of_two_stand(full: int, least: int) -> None:
    between = derived(Unit.SERVERS, full, min(least, full), Steps.POWERS_OF_TWO).sizes[1:-1]

    assert [size for size in between if size & (size - 1)] == []


@given(full=st.integers(2, 16), least=st.integers(1, 16), steps=st.sampled_from(Steps))
def test_where_chips_are_used_in_pairs_no_smaller_size_is_odd(
    full: int, least: int, steps: Steps
) -> None:
    ladder = in_pairs(derived(Unit.NPUS, full, min(least, full), steps))

    assert ladder.full == full
    assert [size for size in ladder.sizes[1:] if size % 2] == []
    assert list(ladder.sizes) == sorted(set(ladder.sizes), reverse=True)


@pytest.mark.parametrize(
    ("full", "least", "sizes"),
    [(8, 1, (8, 6, 2)), (8, 4, (8, 6)), (7, 1, (7, 6, 2)), (6, 1, (6, 2)), (1, 1, (1,))],
    ids=["as listed", "least cuts", "edited between", "edited to one listed", "below all"],
)
def test_a_list_is_taken_as_far_as_the_job_has_so_many_servers(
    full: int, least: int, sizes: tuple[int, ...]
) -> None:
    assert listed(Unit.SERVERS, full, least, (8, 6, 2)).sizes == sizes


def test_without_annotations_a_job_of_several_servers_has_one_size() -> None:
    assert ladder_of(TrainingOptions(), 8, 8, pairs=False).sizes == (8,)


def test_a_job_on_one_server_has_sizes_in_npus() -> None:
    ladder = ladder_of(TrainingOptions(), 1, 8, pairs=False)

    assert ladder.unit is Unit.NPUS
    assert ladder.sizes == (8, 4, 2, 1)


def test_a_job_on_one_server_of_atlas_a3_has_only_even_sizes() -> None:
    assert ladder_of(TrainingOptions(), 1, 16, pairs=True).sizes == (16, 8, 4, 2)


def test_metadata_of_the_resilience_controller_is_read_unchanged() -> None:
    labels = {"elastic-scheduling": "on", "fault-scheduling": "grace"}

    training = training_of(labels, {"minReplicas": "1"})

    assert takes_part(labels)
    assert training.faults == ()
    assert training.options == TrainingOptions(least_servers=1, on_fault=OnFault.GRACE)
    assert ladder_of(training.options, 8, 8, pairs=False).sizes == (8, 4, 2, 1)


def test_our_annotations_name_sizes_growth_and_price() -> None:
    annotations = {
        "mind-cluster/sizes": "8, 6, 2",
        "mind-cluster/grow": "on",
        "mind-cluster/restart-cost": "20m",
        "mind-cluster/resize": "replace",
    }

    training = training_of({}, annotations)

    assert training.faults == ()
    assert training.options == TrainingOptions(
        sizes=(8, 6, 2), grow=Grow.ON, restart_cost=1200.0, resize=Resize.REPLACE
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minReplicas", "0"),
        ("minReplicas", "two"),
        ("minReplicas", "99999999"),
        ("minReplicas", 2),
        ("mind-cluster/min-npus", "-1"),
        ("mind-cluster/sizes", "2,4,8"),
        ("mind-cluster/sizes", "8,8"),
        ("mind-cluster/sizes", "8,,4"),
        ("mind-cluster/sizes", ""),
        ("mind-cluster/grow", "yes"),
        ("mind-cluster/restart-cost", "20 minutes"),
        ("mind-cluster/resize", "delete"),
    ],
)
def test_an_unusable_value_is_said_with_what_to_write(name: str, value: object) -> None:
    training = training_of({}, {name: value})

    assert training.options == TrainingOptions()
    assert len(training.faults) == 1
    assert training.faults[0].startswith(f"InvalidSizes: {name} is ")
    assert "; write " in training.faults[0]


@pytest.mark.parametrize(
    ("options", "servers", "npus"),
    [(TrainingOptions(least_servers=9), 8, 8), (TrainingOptions(least_npus=16), 1, 8)],
)
def test_a_minimum_above_the_full_size_is_said(
    options: TrainingOptions, servers: int, npus: int
) -> None:
    assert len(list(why_no_ladder(options, servers, npus))) == 1
    assert ladder_of(options, servers, npus, pairs=False).full in (servers, npus)


def test_a_minimum_of_the_full_size_is_well() -> None:
    assert list(why_no_ladder(TrainingOptions(least_servers=8), 8, 8)) == []


@pytest.mark.parametrize(
    ("labels", "annotations", "whose"),
    [
        ({"kueue.x-k8s.io/queue-name": "q"}, {}, "Kueue"),
        ({}, {"recover-strategy": "retry, elastic-training"}, "ClusterD"),
    ],
)
def test_a_job_that_another_system_resizes_is_left_alone(
    labels: dict[str, str], annotations: dict[str, str], whose: str
) -> None:
    assert whose in why_left_alone(labels, annotations)


def test_other_strategies_of_recovery_are_no_reason_to_leave_a_job_alone() -> None:
    assert why_left_alone({}, {"recover-strategy": "retry,recover,dump"}) == ""


@pytest.mark.parametrize(
    ("grow", "grace", "cost", "grows"),
    [
        (Grow.AUTO, 30.0, None, False),
        (Grow.AUTO, 31.0, None, True),
        (Grow.AUTO, 30.0, 1200.0, True),
        (Grow.ON, 0.0, None, True),
        (Grow.OFF, 900.0, 1200.0, False),
    ],
)
def test_a_job_grows_by_itself_where_a_restart_saves_its_work(
    grow: Grow, grace: float, cost: float | None, grows: bool
) -> None:
    assert TrainingOptions(grow=grow, restart_cost=cost).may_grow(grace) is grows
