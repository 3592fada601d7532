from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.names import RULE_KEY
from scaler.rules.document import read_rule
from scaler.rules.finding import Path
from scaler.rules.text import MAX_DEPTH, decode, offsets
from scaler.tools.lint.brackets import read
from scaler.tools.lint.document import read_document
from scaler.tools.lint.jsontext import Node
from tests.rules.documents import TWO_TO_ONE
from tests.rules.test_jsontext import json_values, nearly_json

MISTAKES = [
    ('"1.0",', '"1.0", # fixed', "CommentInJson", 2, 21),
    ('"1.0",', '"1.0", // fixed', "CommentInJson", 2, 21),
    ('"group_num": "2"', '"group_num": "2" /* two */', "CommentInJson", 8, 28),
    ('"group_num": "2"', '"group_num": “2”', "FullWidthPunctuation", 8, 24),
    ('"group_num": "2"', '"group_num"： "2"', "FullWidthPunctuation", 8, 22),
    ('"group_num": "2",', '"group_num": "2"，', "FullWidthPunctuation", 8, 27),
    ('"group_num": "2"', "\"group_num\": '2'", "SingleQuotes", 8, 24),
    ('"group_num": "2"', 'group_num: "2"', "UnquotedKey", 8, 11),
    ('"server_num_per_group": "1"', '"server_num_per_group": "1",', "TrailingComma", 9, 38),
    ('"group_num": "2",', '"group_num": "2"', "MissingComma", 9, 11),
    ('"group_num": "2"', '"group_num":\u00a0"2"', "OddSpace", 8, 23),
    ('"group_num": "2"', '"group_num": 0x2', "MissingComma", 8, 25),
    ('"group_num": "2"', '"group_num": two', "NotJson", 8, 24),
    ('"group_num": "2"', '"group_num": NaN', "NotJson", 8, 24),
    ('"group_num": "2"', '"group_num": "2', "MissingQuote", 8, 26),
    ('"group_num": "2"', '"group_num: "2"', "MissingQuote", 8, 21),
    ('"group_num": "2"', 'group_num": "2"', "MissingQuote", 8, 11),
    ('"group_num": "2"', '"group_num": 2"', "MissingQuote", 8, 24),
    ('"group_num": "2"', '"group_num": "\\x"', "NotJson", 8, 25),
    ('"group_num": "2"', '&quot;group_num&quot;: "2"', "NotJson", 8, 11),
]


@pytest.mark.parametrize(("old", "new", "code", "line", "column"), MISTAKES)
def test_what_is_no_json_is_told_with_its_place_and_what_to_write(
    old: str, new: str, code: str, line: int, column: int
) -> None:
    assert old in TWO_TO_ONE
    reading = read_rule({RULE_KEY: TWO_TO_ONE.replace(old, new, 1)}, [], {})
    assert reading.rule is None
    assert [(error.code, error.line, error.column) for error in reading.errors] == [
        (code, line, column)
    ]
    assert all(error.message and error.hint for error in reading.errors)


@pytest.mark.parametrize(
    ("text", "code", "offset", "words"),
    [
        ("", "NotJson", 0, "the document is empty"),
        ("[1", "NotJson", 2, "must follow"),
        ('{"a" 1}', "NotJson", 5, "expected `:`, found 1"),
        ("[1}", "NotJson", 2, "expected `,` or a closing bracket, found }"),
        ("[,1]", "NotJson", 1, "expected a value, found ,"),
        ("{}\n{}", "TrailingText", 3, "text after the end"),
        ("\ufeff[1]", "ByteOrderMark", 0, "byte order mark"),
        ("[1 # such\n]", "CommentInJson", 3, "found # such"),
        ('{"NaN": "Infinity", "a": [-Infinity]}', "NotJson", 26, "found -Infinity"),
        ("[" * 100_000, "NestedTooDeep", 0, "32"),
    ],
)
def test_where_json_ends_is_said_with_what_was_expected(
    text: str, code: str, offset: int, words: str
) -> None:
    (fault,) = decode(text)[1]
    assert (fault.code, fault.start) == (code, offset)
    assert words in fault.message


def test_nesting_is_read_down_to_the_limit_and_not_deeper() -> None:
    assert decode("[" * MAX_DEPTH + "]" * MAX_DEPTH)[1] == []
    assert [fault.code for fault in decode("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2))[1]] == [
        "NestedTooDeep"
    ]


def test_a_name_written_twice_is_told_wherever_it_stands_and_as_often() -> None:
    twice = (
        '{"version": "1.0", "x": [{"a": 1, "a": 2, "b": 1}], "version": "1.0",'
        ' "elastic_scaling_list": []}'
    )
    told = [
        error
        for error in read_rule({RULE_KEY: twice}, [], {}).errors
        if error.code == "DuplicateKey"
    ]
    assert [(error.pointer, error.column) for error in told] == [("/x/0/a", 35), ("/version", 53)]


@given(json_values, st.sampled_from([None, 0, 2]))
def test_every_value_stands_where_its_offset_says(value: object, indent: int | None) -> None:
    text = json.dumps({"v": value}, indent=indent)
    root = read(text).root
    assert root is not None
    wanted: dict[Path, tuple[int, int]] = {}
    stack: list[tuple[Path, Node, int]] = [((), root, 0)]
    while stack:
        path, node, name = stack.pop()
        wanted[path] = (node.start, name if name >= 0 else node.start)
        names: dict[Any, int] = {**node.keys}
        stack += [
            ((*path, step), inner, names.get(step, -1)) for step, inner in node.children.items()
        ]
    assert offsets(text, wanted) == wanted


@given(nearly_json | st.text(max_size=30))
def test_the_controller_refuses_just_what_lint_refuses(text: str) -> None:
    reading = read_rule({RULE_KEY: text}, [], {})
    assert bool(reading.errors) == any(
        finding.level == "error" for finding in read_document(text)[1]
    )
    assert all(error.message and error.line for error in reading.errors)


def test_the_one_name_that_is_written_twice_is_found_among_very_many() -> None:
    members = ", ".join(f'"n{number}": 0' for number in range(50_000))
    assert [fault.path for fault in decode(f'{{{members}, "n": 1, "n": 2}}')[1]] == [("n",)]
