"""Every mistake of `mutants` can still be made; whether somebody notices takes minutes, and is
asked there."""

from __future__ import annotations

import pytest

from tests.decide.mutants import MUTANTS
from tests.mutants import DECISION, Mutant, broken


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mutant_can_be_made_and_names_those_who_should_notice(mutant: Mutant) -> None:
    with broken(mutant):
        assert all((DECISION / f"{name}.py").is_file() for name in mutant.by.split())
    assert mutant.by
    assert mutant.sentence


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.mistake for mutant in MUTANTS}) == len(MUTANTS)
