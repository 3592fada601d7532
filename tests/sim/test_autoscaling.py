"""A HorizontalPodAutoscaler as its documentation says: the examples of its pages, and what must
hold of any series."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.load.service import Advice, Look, by_metric, desired
from scaler.sim.stories.loads import Autoscaler


def policy(**given: Any) -> Autoscaler:
    return Autoscaler.model_validate(
        {"metrics": [{"of": "queue", "average": 1}], "least": 1, "most": 100, **given}
    )


WIDE = policy()


def written(by: Autoscaler, series: list[float], start: int, *, average: float = 1.0) -> list[int]:
    """What it writes every 15 s, where all that is written runs at once."""
    replicas = start
    found = list[int]()
    past: tuple[Advice, ...] = ()
    for number, total in enumerate(series):
        replicas, past = desired(
            by, Look(15.0 * number, replicas, replicas, [(total, average)]), past
        )
        found.append(replicas)
    return found


@pytest.mark.parametrize(
    ("total", "average", "running", "wanted"),
    [
        (200, 100, 1, 2),  # twice as much: twice as many
        (50, 100, 1, 1),
        (400, 100, 8, 4),
        (109, 100, 1, 1),  # within the tolerance
        (111, 100, 1, 2),
        (91, 100, 1, 1),
        (0, 100, 3, 0),
        (250, 100, 0, 3),  # none runs: as many as the total asks for
    ],
)
def test_replicas_are_the_total_by_the_average_within_the_tolerance(
    total: float, average: float, running: int, wanted: int
) -> None:
    assert by_metric(total, average, running, 0.1) == wanted


def test_of_several_metrics_the_largest_demand_counts() -> None:
    assert desired(WIDE, Look(0.0, 2, 2, [(2, 1.0), (30, 10.0), (1, 1.0)]), ())[0] == 3


def test_it_goes_down_to_the_most_that_was_asked_for_in_the_window() -> None:
    by = policy(down=60.0)
    assert written(by, [8, 5, 3, 3, 3, 3, 3, 3], start=8) == [8, 8, 8, 8, 5, 3, 3, 3]


def test_it_goes_up_at_once_and_with_a_window_to_the_least_of_it() -> None:
    assert written(WIDE, [2, 5], start=2) == [2, 5]
    assert written(policy(up=30.0), [2, 5, 4, 4], start=2) == [2, 2, 4, 4]


def test_it_adds_four_or_as_many_again_at_once() -> None:
    assert written(WIDE, [50] * 5, start=1) == [5, 10, 20, 40, 50]


@pytest.mark.parametrize(("specified", "wanted"), [(1_000_000, 8), (1, 2)])
def test_a_number_outside_least_and_most_is_brought_inside_first(
    specified: int, wanted: int
) -> None:
    assert desired(policy(least=2, most=8), Look(0.0, specified, 0, [(5, 1.0)]), ())[0] == wanted


def test_0_switches_it_off_unless_it_may_go_to_0_itself() -> None:
    assert desired(policy(least=1, most=8), Look(0.0, 0, 0, [(5, 1.0)]), ())[0] == 0
    assert desired(policy(least=0, most=8), Look(0.0, 0, 0, [(5, 1.0)]), ())[0] == 4


@given(
    st.lists(st.floats(0, 200), max_size=40),
    st.integers(2, 20),
    st.sampled_from((0.0, 60.0, 300.0)),
)
def test_what_it_writes_stays_within_least_and_most_and_never_falls_below_recent_advice(
    series: list[float], start: int, down: float
) -> None:
    by = policy(least=2, most=20, down=down)
    found = written(by, series, start)
    for number, (before, after) in enumerate(zip([start, *found], found, strict=False)):
        assert 2 <= after <= 20
        if after < before:
            recent = series[max(0, number - max(1, int(down // 15)) + 1) : number + 1]
            assert after >= min(20, max(recent) / 1.1)


def test_old_advice_is_forgotten() -> None:
    past = tuple(Advice(15.0 * number, 3) for number in range(100))
    assert len(desired(WIDE, Look(1500.0, 3, 3, [(3, 1.0)]), past)[1]) <= 21
