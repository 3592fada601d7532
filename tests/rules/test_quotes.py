"""A forgotten quote is told as one, with the line mended, and `--fix` writes nothing that is still
broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.tools.lint.document import examine, read_document
from scaler.tools.lint.repair import repair
from scaler.tools.lint.source import Source
from tests.rules.documents import TWO_TO_ONE

QUOTES = [place for place, char in enumerate(TWO_TO_ONE) if char == '"']


def without(place: int) -> str:
    return TWO_TO_ONE[:place] + TWO_TO_ONE[place + 1 :]


@pytest.mark.parametrize("place", QUOTES)
def test_each_quote_that_is_missing_is_told_with_its_line_mended(place: int) -> None:
    text = without(place)
    _, (fault,) = read_document(text)
    mended = TWO_TO_ONE.splitlines()[fault.line - 1].strip()
    assert (fault.code, fault.start) == ("MissingQuote", place)
    assert fault.hint == f"write {mended}"


@given(st.sampled_from(QUOTES), st.sampled_from(QUOTES))
def test_a_document_without_two_quotes_is_mended_or_left_as_it_is(one: int, other: int) -> None:
    first, second = sorted((one, other))
    text = TWO_TO_ONE[:first] + TWO_TO_ONE[first + 1 : second] + TWO_TO_ONE[second + 1 :]
    mended = repair(Source("rule.json", text.encode()))
    assert mended.remaining or mended.text == TWO_TO_ONE or examine(mended.text).rule is not None
    if mended.remaining:
        assert "MissingQuote" not in {edit.text for edit in examine(mended.text).edits}


def test_where_several_places_make_sense_the_line_is_named_and_nothing_is_written() -> None:
    text = '{"version: "1.0" "elastic_scaling_list": []}'
    mended = repair(Source("rule.json", text.encode()))
    assert mended.text == text
    assert "MissingQuote" in {fault.code for fault in mended.remaining}


def test_what_follows_a_forgotten_quote_is_still_checked() -> None:
    text = TWO_TO_ONE.replace('"group_num": "2"', '"group_num: "2"', 1)
    text = text.replace('"server_num_per_group": "1"', '"server_num_per_group": "x"')
    codes = {fault.code for fault in read_document(text)[1]}
    assert "MissingQuote" in codes
    assert len(codes) > 1
