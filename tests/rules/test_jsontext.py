from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from scaler.rules.document import MAX_FINDINGS
from scaler.rules.quotes import Edit
from scaler.rules.text import MAX_DEPTH
from scaler.tools.lint.brackets import read
from scaler.tools.lint.jsontext import Node

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
nearly_json = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"a"',
            '"b"',
            "1",
            "-0.5e3",
            "01",
            "null",
            "tru",
            " ",
            "\n",
            "# c {\n",
            "//x\n",
            "，",
            "“a”",
            "\\",
            '"\\u00e9"',
            '"\\x"',
            "\x00",
            "\u00a0",
            "/* */",
            "'s'",
            "\ufeff",
            "NaN",
        ]
    ),
    max_size=14,
).map("".join)


def codes(text: str) -> list[str]:
    return [fault.code for fault in read(text).faults]


def edits(text: str) -> list[Edit]:
    return [fault.edit for fault in read(text).faults if fault.edit]


@given(json_values, st.sampled_from([None, 0, 2]), st.booleans())
def test_what_json_dumps_writes_is_read_without_fault_and_with_the_same_value(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    reading = read(text)
    assert reading.faults == []
    assert reading.root is not None
    assert reading.root.value == json.loads(text)


@given(st.one_of(nearly_json, st.text(max_size=30)))
@example('"\\ud83d\\ude00"')
@example('{"a": 1, "a": 2}')
def test_texts_without_fault_are_just_what_json_loads_accepts(text: str) -> None:
    assume("NaN" not in text and "Infinity" not in text)
    faults = [code for code in codes(text) if code != "DuplicateKey"]
    try:
        value = json.loads(text)
    except ValueError:
        assert faults
    else:
        root = read(text).root
        assert not faults
        assert root is not None
        assert root.value == value


@given(json_values)
def test_every_value_stands_where_its_node_says(value: Any) -> None:
    text = json.dumps(value, indent=1)
    root = read(text).root
    assert root is not None
    stack: list[Node] = [root]
    while stack:
        node = stack.pop()
        assert json.loads(text[node.start : node.end]) == node.value
        assert all(
            json.loads(text[at : text.index(":", at + len(json.dumps(key)))]) == key
            for key, at in node.keys.items()
        )
        stack += node.children.values()


@pytest.mark.parametrize(
    ("text", "code", "value", "edit"),
    [
        ('{"a": 1} # c', "CommentInJson", {"a": 1}, Edit(8, 12, "")),
        ("[1, // c\n2]", "CommentInJson", [1, 2], Edit(3, 8, "")),
        ("[1 /* c */]", "CommentInJson", [1], Edit(2, 10, "")),
        ("[1,]", "TrailingComma", [1], Edit(2, 3, "")),
        ("[1 2]", "MissingComma", [1, 2], Edit(2, 2, ",")),
        ("[1，2]", "FullWidthPunctuation", [1, 2], Edit(2, 3, ",")),
        ("【1]", "FullWidthPunctuation", [1], Edit(0, 1, "[")),
        ('{"a"：1}', "FullWidthPunctuation", {"a": 1}, Edit(4, 5, ":")),
        ("[“a”]", "FullWidthPunctuation", ["a"], Edit(1, 4, '"a"')),
        ('["a”]', "FullWidthPunctuation", ["a"], Edit(1, 4, '"a"')),
        ("['a\"']", "SingleQuotes", ['a"'], Edit(1, 5, '"a\\""')),
        ("{a: 1}", "UnquotedKey", {"a": 1}, Edit(1, 2, '"a"')),
        ("\ufeff[1]", "ByteOrderMark", [1], Edit(0, 1, "")),
        ("[\u00a0\u200b1]", "OddSpace", [1], Edit(1, 3, " ")),
    ],
)
def test_a_fault_whose_meaning_is_beyond_doubt_is_read_over_and_has_a_cure(
    text: str, code: str, value: object, edit: Edit
) -> None:
    reading = read(text)
    assert [fault.code for fault in reading.faults] == [code]
    assert reading.root is not None
    assert reading.root.value == value
    assert edits(text) == [edit]


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("", 0, "the document is empty"),
        ("[1", 2, "`,` or `]` must follow"),
        ('{"a" 1}', 5, "expected `:`, found 1"),
        ('["a]\n1]', 1, "no end on this line"),
        ("{&quot;a&quot;: 1}", 1, "HTML entities"),
        ("[1}", 2, "expected `,` or `]`, found }"),
    ],
)
def test_where_reading_cannot_go_on_the_last_fault_says_where_and_what_was_expected(
    text: str, offset: int, words: str
) -> None:
    reading = read(text)
    assert reading.root is None
    assert reading.faults[-1].start == offset
    assert words in reading.faults[-1].message


@pytest.mark.parametrize(
    ("text", "offset"),
    [("[NaN]", 1), ("[0x2]", 1), ("[007]", 1), ("[True]", 1), ('["\\x"]', 2), ('["a\tb"]', 3)],
)
def test_what_only_looks_like_a_value_is_a_fault_without_cure(text: str, offset: int) -> None:
    reading = read(text)
    assert [(fault.code, fault.start, fault.edit) for fault in reading.faults] == [
        ("NotJson", offset, None)
    ]
    assert reading.root is not None


def test_a_second_document_behind_the_first_is_reported_where_it_begins() -> None:
    assert [(fault.code, fault.start) for fault in read("{}\n{}").faults] == [("TrailingText", 3)]


def test_a_name_written_twice_is_reported_at_the_second() -> None:
    assert [(fault.code, fault.start) for fault in read('{"a": 1, "a": 2}').faults] == [
        ("DuplicateKey", 9)
    ]


def test_a_bracket_behind_a_comment_sign_is_taken_for_real_when_only_that_makes_sense() -> None:
    reading = read('[ # words {\n"a": 1}]')
    assert reading.root is not None
    assert reading.root.value == [{"a": 1}]
    assert sorted(fault.code for fault in reading.faults) == ["BraceInComment", "CommentInJson"]
    assert [fault.start for fault in reading.faults if fault.code == "BraceInComment"] == [10]


def test_a_bracket_in_a_comment_that_is_not_needed_stays_a_part_of_the_comment() -> None:
    assert codes("[1, # such as [2]\n3]") == ["CommentInJson"]


def test_no_cure_is_offered_when_two_readings_of_a_bracket_make_sense() -> None:
    text = '{"a": [ # []\n]}'
    assert sorted(codes(text)) == ["BraceInComment", "CommentInJson"]
    assert edits(text) == []


def test_nesting_is_read_down_to_the_limit_and_not_deeper() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert codes(deepest) == []
    assert codes("[" * 100_000) == ["NestedTooDeep"]


def test_after_many_faults_reading_ends() -> None:
    assert len(codes("[" + "a " * 1000 + "]")) == MAX_FINDINGS


@given(st.text(st.characters(), max_size=60) | nearly_json)
def test_reading_never_raises_and_every_fault_and_cure_lies_in_the_text(text: str) -> None:
    for fault in read(text).faults:
        assert 0 <= fault.start <= len(text)
        assert fault.edit is None or 0 <= fault.edit.start <= fault.edit.end <= len(text)


def test_numbers_of_any_length_are_read_without_overflow() -> None:
    root = read("[1e400, " + "9" * 5000 + "]").root
    assert root is not None
    assert all(math.isinf(number) for number in root.value)
