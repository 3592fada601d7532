"""Histories aimed at what random ones rarely meet; and each kind of mistake that they are for, noticed every time."""

from __future__ import annotations

import pytest

from tests.campaign.aimed import FAMILIES
from tests.campaign.gated_stage import play_any
from tests.campaign.mutants import GATED, MUTANTS, killed_by
from tests.mutants import Mutant, broken

SEEDS = range(3)
AIMED_AT = [mutant for mutant in (*MUTANTS, *GATED) if mutant.aimed]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_promise_is_broken(family: str) -> None:
    for seed in SEEDS:
        assert (seed, play_any(FAMILIES[family](seed), family=family).failures) == (seed, [])


@pytest.mark.parametrize("mutant", AIMED_AT, ids=lambda mutant: mutant.mistake)
def test_each_of_them_notices_the_mistake_that_it_is_aimed_at(mutant: Mutant) -> None:
    assert [killed_by(mutant, most=1, first=seed)[0] for seed in SEEDS] == [1] * len(SEEDS)


def test_every_family_is_aimed_at_some_mistake() -> None:
    assert {mutant.aimed for mutant in AIMED_AT} == FAMILIES.keys()


@pytest.mark.parametrize("mutant", [*MUTANTS, *GATED], ids=lambda mutant: mutant.mistake)
def test_every_mistake_can_still_be_made(mutant: Mutant) -> None:
    with broken(mutant):
        pass
    assert mutant.old != mutant.new
