"""Each mistake that the chaos tests know is noticed by the history that is named for it, and only
then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import test_histories
from tests.chaos.aimed import ATTACKS, FAMILIES
from tests.chaos.mutants import MUTANTS, failures_of
from tests.mutants import Mutant, broken
from tests.parts import short_and_long

OF_STORIES = "story "
"""How those begin that `tests/contention` plays."""
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "reliability.md"
SEEDS = range(3)


@pytest.mark.parametrize(
    "mutant",
    short_and_long(
        [one for one in MUTANTS if not one.by.startswith(OF_STORIES)], short=12, why="more mistakes"
    ),
    ids=lambda mutant: mutant.mistake,
)
def test_a_mistake_is_noticed_by_the_history_that_is_named_for_it(mutant: Mutant) -> None:
    with broken(mutant):
        assert all(
            failures_of(mutant.by, seed) for seed in (SEEDS if mutant.by in FAMILIES else SEEDS[:1])
        )


def test_every_mistake_can_still_be_made() -> None:
    for mutant in MUTANTS:
        with broken(mutant):
            pass  # an edit that no longer fits raises


def test_every_short_history_and_every_family_but_attacks_is_named_for_a_mistake() -> None:
    named = {mutant.by for mutant in MUTANTS}
    short = {
        name.removeprefix("test_").replace("_", " ")
        for name in vars(test_histories)
        if name.startswith("test_")
    }
    assert short <= named
    assert FAMILIES.keys() - ATTACKS.keys() <= named


def test_the_table_of_the_page_is_that_of_the_mistakes() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| mistake: ")]
    assert rows == [f"| mistake: {mutant.mistake} | {mutant.by} |" for mutant in MUTANTS]
