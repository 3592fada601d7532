"""Random histories of full clusters; more with `python -m tests.contention.full_clusters`."""

from __future__ import annotations

import pytest

from tests.contention.full_clusters import Loss, history, play
from tests.repeat import played

SHORT = range(4)
LONG = range(4, 60)


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
    assert len(losses) == 11
    assert len(kinds) == 12


def test_what_is_lost_is_lost_for_less_than_a_service_keeps_its_place() -> None:
    for seed in range(50):
        for loss in history(seed).losses:
            assert isinstance(loss, Loss)
            assert 0.0 < loss.until - loss.at < 300.0
