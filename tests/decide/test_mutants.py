"""Every mistake of `mutants` can still be made; whether somebody notices takes minutes, and is asked there."""

from __future__ import annotations

import pytest

from tests.decide.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mutant_can_be_made_and_names_those_who_should_notice(mutant: Mutant) -> None:
    compile(mutant.broken(), mutant.file, "exec")
    assert all((ROOT / file).is_file() for file in mutant.test_files)
    assert mutant.tests


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.mistake for mutant in MUTANTS}) == len(MUTANTS)
