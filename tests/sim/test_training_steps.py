"""The steps of a simulated training job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.load.training import (
    HELD,
    Progress,
    Script,
    ended,
    goodput,
    is_complete,
    later,
    started,
)

SCRIPT = Script(
    steps=10_000, step_time={8: 1.0, 4: 2.0, 2: 4.0}, checkpoint_every=100, starts_in=60.0
)
SAVES = Script(
    steps=10_000,
    step_time={8: 1.0, 4: 2.0},
    checkpoint_every=100,
    starts_in=60.0,
    saves_on_sigterm=90.0,
)


def test_a_lost_node_costs_the_steps_since_the_last_checkpoint() -> None:
    running = started(Progress(), SCRIPT, 0.0, 8)

    after = ended(running, SCRIPT, 310.0, None)

    assert (after.done, after.lost, after.restarts) == (200.0, 50.0, 1)


def test_a_smaller_size_does_fewer_steps_in_the_same_time() -> None:
    at_eight = later(started(Progress(), SCRIPT, 0.0, 8), SCRIPT, 260.0)
    at_four = later(started(Progress(), SCRIPT, 0.0, 4), SCRIPT, 260.0)

    assert (at_eight.done, at_four.done) == (200.0, 100.0)


def test_a_script_that_saves_within_its_grace_period_loses_nothing() -> None:
    after = ended(started(Progress(), SAVES, 0.0, 8), SAVES, 310.0, 90.0)

    assert (after.done, after.lost) == (250.0, 0.0)


@pytest.mark.parametrize("grace", [None, 30.0], ids=["no SIGTERM", "too short"])
def test_a_script_that_cannot_save_in_time_loses_as_any(grace: float | None) -> None:
    after = ended(started(Progress(), SAVES, 0.0, 8), SAVES, 310.0, grace)

    assert (after.done, after.lost) == (200.0, 50.0)


def test_no_step_is_done_before_the_script_has_started() -> None:
    after = ended(started(Progress(), SAVES, 0.0, 8), SAVES, 59.0, 90.0)

    assert (after.done, after.lost, after.restarts) == (0.0, 0.0, 1)


def test_a_complete_job_ends_without_a_restart() -> None:
    short = Script(steps=150, step_time={8: 1.0}, checkpoint_every=100)

    after = ended(started(Progress(), short, 0.0, 8), short, 1_000.0, 0.0)

    assert is_complete(after, short)
    assert (after.done, after.lost, after.restarts) == (150.0, 0.0, 0)


def test_time_is_counted_by_size() -> None:
    progress = started(Progress(), SCRIPT, 10.0, 8)
    progress = ended(progress, SCRIPT, 110.0, None)
    progress = started(progress, SCRIPT, 140.0, 4)

    assert later(progress, SCRIPT, 200.0).seconds_at == {HELD: 40.0, 8: 100.0, 4: 60.0}


def test_goodput_is_one_for_a_job_that_always_runs_at_full_size() -> None:
    at_once = Script(steps=10_000, step_time={8: 1.0}, checkpoint_every=100)

    assert goodput(later(started(Progress(), at_once, 0.0, 8), at_once, 500.0), at_once) == 1.0


def test_goodput_of_a_job_that_has_not_begun_is_zero() -> None:
    assert goodput(Progress(), SCRIPT) == 0.0


@given(
    ends=st.lists(
        st.tuples(st.floats(1, 2_000), st.sampled_from([8, 4, 2]), st.sampled_from([None, 900.0])),
        max_size=8,
    )
)
def test_steps_are_kept_lost_or_still_to_do_whatever_happens(
    ends: list[tuple[float, int, float | None]],
) -> None:
    progress = Progress()
    for seconds, size, grace in ends:
        progress = started(progress, SCRIPT, progress.at, size)
        before = progress
        progress = ended(progress, SCRIPT, progress.at + seconds, grace)
        worked = later(before, SCRIPT, progress.at)
        assert progress.done + progress.lost == pytest.approx(worked.done + worked.lost)
        assert before.saved <= progress.done <= SCRIPT.steps

    assert sum(progress.seconds_at.values()) == pytest.approx(progress.at)
    assert 0.0 <= goodput(progress, SCRIPT) <= 1.0
