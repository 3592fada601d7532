"""Random histories of full clusters; more with `python -m tests.contention.full_clusters`."""

from __future__ import annotations

import pytest

from tests.contention.full_clusters import (
    ACTS,
    LOSSES,
    REQUESTS,
    SLOWER,
    WIDER,
    History,
    Loss,
    history,
    play,
)
from tests.repeat import played

SHORT = (*range(4), WIDER)
LONG = (
    *range(4, 50),
    *range(WIDER + 1, WIDER + 33),
    *range(SLOWER, SLOWER + 6),
    200,  # a loss was given up for a minimum that needed more than its room
    265,  # and for one that went before it
)


@pytest.mark.parametrize(
    "seed",
    [
        *SHORT,
        *(pytest.param(seed, marks=pytest.mark.long("more histories")) for seed in LONG),
    ],
)
def test_every_service_serves_again_once_all_is_mended_and_nothing_waits_that_fits(
    seed: int,
) -> None:
    played(f"tests.contention.full_clusters {seed}")
    assert play(history(seed)).failures == []


def test_histories_differ_and_a_seed_gives_the_same_one_again() -> None:
    made = [history(seed) for seed in range(50)]
    assert made == [history(seed) for seed in range(50)]
    losses: set[str] = set()
    kinds: set[str] = set()
    for one in made:
        losses |= {loss.what for loss in one.losses}
        kinds |= {repr(service.kind) for service in one.services}
    assert losses == set(LOSSES)
    assert len(kinds) == 12


def test_in_wider_histories_people_act_as_well() -> None:
    made = [history(seed) for seed in range(WIDER, WIDER + 100)]
    assert made == [history(seed) for seed in range(WIDER, WIDER + 100)]
    what = {loss.what for one in made for loss in one.losses}
    assert what == {*LOSSES, *ACTS, *REQUESTS}
    assert {word for one in made for word in one.counts_from.values()} == {
        "running",
        "ready",
        "bound",
    }
    judged = [one for one in made if not _asks(one)]
    assert len(judged) > 50
    assert all(_has_its_newcomers(one) for one in made)


def test_in_slower_histories_pods_take_their_time_and_the_scheduler_leaves_some_out() -> None:
    made = [history(seed) for seed in range(SLOWER, SLOWER + 50)]
    assert any(one.timing["stop"][1] == 30.0 for one in made)
    assert any(loss.what == "not bound" for one in made for loss in one.losses)


def _asks(one: History) -> bool:
    return any(loss.what in REQUESTS for loss in one.losses)


def _has_its_newcomers(one: History) -> bool:
    comes = [loss.service for loss in one.losses if loss.what == "newcomer"]
    return comes == [new.name for new in one.newcomers]


def test_what_is_lost_is_lost_for_less_than_a_service_keeps_its_place() -> None:
    for seed in range(50):
        for loss in history(seed).losses:
            assert isinstance(loss, Loss)
            assert 0.0 < loss.until - loss.at < 300.0
