"""A forgotten quote is told as one, with the line mended, and `--fix` writes nothing that is still
broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.rules.document import judge, placed
from scaler.rules.finding import Finding
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


GROUP = '{"group_name": "group0", "group_num": "1", "server_num_per_group": "1"}'
ONE_LINE = '{"version": "1.0", "elastic_scaling_list": [{"group_list": [\n  GROUP\n]}]}'
SLIPS = [
    ('"group0"', '"group0”'),
    ('"group0"', "\"group0'"),
    ('"group0"', "'group0\""),
    ('"group0"', '""group0"'),
    ('"group0"', '"group0""'),
    ('"group_name": "group0"', '"group_name: "group0'),
    ('"group_name": "group0"', '"group_name": group0"'),
    ('"group_name": "group0", "group_num"', '"group_name": "group0, group_num"'),
    ('"group_name": "group0", "group_num"', '"group_name: "group0", "group_num'),
]


@pytest.mark.parametrize(("right", "wrong"), SLIPS)
def test_quotes_of_another_kind_too_many_or_two_missing_are_told_with_the_line_mended(
    right: str, wrong: str
) -> None:
    text = ONE_LINE.replace("GROUP", GROUP.replace(right, wrong))
    mended = ONE_LINE.replace("GROUP", GROUP)
    for faults in (read_document(text)[1], judged(text)):
        (fault,) = faults
        told = fault.hint if fault.code == "MissingQuote" else f"write {GROUP}"
        assert (fault.line, told) == (2, f"write {GROUP}")
    assert repair(Source("rule.json", text.encode())).text == mended


def judged(text: str) -> tuple[Finding, ...]:
    """The findings of the controller."""
    return placed(judge(text)[1], text)


@pytest.mark.parametrize("place", QUOTES)
def test_the_controller_shows_the_line_mended_as_well(place: int) -> None:
    (fault,) = judged(without(place))
    (told,) = read_document(without(place))[1]
    assert (fault.code, fault.hint, fault.start) == ("MissingQuote", told.hint, place)


MARKS = [
    ('"version": "1.0"', '"version"= "1.0"', "`=` stands where `:` must"),
    ('"version": "1.0"', '"version" "1.0"', "a colon is missing"),
    ('"1.0",', '"1.0";', "`;` stands where `,` must"),
    ('"1.0",', '"1.0".', "`.` stands where `,` must"),
    ('"version": "1.0"', '"version":\u00a0"1.0"', "a no-break space (U+00A0)"),
    ('"version": "1.0"', '"version": \\"1.0\\"', "a quote with a backslash before it"),
]


@pytest.mark.parametrize(("right", "wrong", "words"), MARKS)
def test_a_wrong_mark_is_told_as_such(right: str, wrong: str, words: str) -> None:
    text = TWO_TO_ONE.replace(right, wrong, 1)
    for faults in (read_document(text)[1], judged(text)):
        assert [words in fault.message for fault in faults] == [True], faults
    result = repair(Source("rule.json", text.encode())).text
    assert result in (text, TWO_TO_ONE)
    assert (result == text) == ("backslash" in words)


def test_words_in_no_quotes_are_put_in_quotes_unless_they_mean_something_elsewhere() -> None:
    text = TWO_TO_ONE.replace('"group0"', "group0")
    assert repair(Source("rule.json", text.encode())).text == TWO_TO_ONE
    text = TWO_TO_ONE.replace('"group0"', "None")
    assert repair(Source("rule.json", text.encode())).text == text


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        ('["a" "group_num": "2", "x"]', '"group_num"'),
        ("[group0, 1]", "group0"),
        ('["a" {"b": "c"}]', "{"),
        ("['a b', 1]", "'a b'"),
        ("[1 # such\n]", "# such"),
        ('[“a", "b"]', '“a"'),
    ],
)
def test_an_excerpt_is_one_text_with_both_quotes_a_word_or_a_mark(text: str, shows: str) -> None:
    (fault,) = judged(text)
    assert f"{fault.message};".split(shows)[1][:1] in "; "
    assert shows in fault.message


def test_what_is_still_broken_behind_a_cure_is_not_written() -> None:
    text = TWO_TO_ONE.replace('"group_num": "2",', '"group_num": "2"; x "y"', 1)
    mended = repair(Source("rule.json", text.encode()))
    assert mended.text == text
    assert mended.remaining
