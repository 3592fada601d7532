"""Histories aimed at what random ones rarely meet, attacks among them; the mistakes they are for: test_mutants.py."""

from __future__ import annotations

import pytest

from tests.chaos.aimed import FAMILIES
from tests.chaos.catalogue import NOT_YET
from tests.chaos.stage import play
from tests.parts import short_and_long

LARGE = ("hostile rules", "hostile crowd", "hostile flood")


def _known(family: str) -> object:
    """What succeeds today is expected to, so that whoever mends it hears of the line that has to go."""
    marks = [pytest.mark.xfail(reason=NOT_YET[family], strict=True)] if family in NOT_YET else []
    marks += [pytest.mark.long("hundreds of objects, or large ones")] if family in LARGE else []
    return pytest.param(family, marks=marks)


@pytest.mark.parametrize("family", [_known(family) for family in FAMILIES])
@pytest.mark.parametrize("seed", short_and_long(range(3), short=1, why="more seeds of the same"))
def test_no_promise_is_broken(seed: int, family: str) -> None:
    assert play(FAMILIES[family](seed), family=family).failures == []
