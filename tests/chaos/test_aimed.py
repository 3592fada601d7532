"""Histories aimed at what random ones rarely meet, attacks among them; the mistakes they are for:
test_mutants.py."""

from __future__ import annotations

import pytest

from tests.chaos.aimed import FAMILIES
from tests.chaos.stage import play
from tests.parts import short_and_long

LARGE = ("hostile rules", "hostile crowd", "hostile flood")


def _family(name: str) -> object:
    return pytest.param(
        name,
        marks=[pytest.mark.long("hundreds of objects, or large ones")] if name in LARGE else [],
    )


@pytest.mark.parametrize("family", [_family(name) for name in FAMILIES])
@pytest.mark.parametrize("seed", short_and_long(range(3), short=1, why="more seeds of the same"))
def test_no_promise_is_broken(seed: int, family: str) -> None:
    assert play(FAMILIES[family](seed), family=family).failures == []
