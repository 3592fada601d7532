from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from scaler.tools.common.position import Lines, align
from scaler.tools.lint.document import read_document
from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source
from tests.rules.documents import TWO_TO_ONE, config_map, odd_documents

TEXTS = st.text(st.sampled_from("ab é二\n \"'\\{}:#"), max_size=30)


@given(st.text(st.sampled_from("ab\r\n二"), max_size=30), st.integers(0, 30))
def test_a_place_and_its_offset_are_each_others_inverse(text: str, offset: int) -> None:
    assume(offset <= len(text))
    lines = Lines(text)
    line, column = lines.place(offset)
    assert lines.offset(line, column) == offset
    assert (
        line == len(text[:offset].replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        or text[offset - 1 : offset] == "\r"
    )


@given(TEXTS, st.sampled_from(['"', "'"]))
def test_every_character_of_a_quoted_scalar_is_found_where_it_is_written(
    value: str, style: str
) -> None:
    raw = yaml.safe_dump(value, default_style=style, allow_unicode=True, width=20)
    assume(raw[0] in "\"'")  # the writer has its own mind about styles
    spans = align(value, raw, 1, escapes=raw[0] == '"', doubled="'" if raw[0] == "'" else "")
    assert spans is not None
    for char, (start, _) in zip(value, spans, strict=False):
        assert char in ' \n"\\' or raw[start] == char


def test_text_that_is_not_there_has_no_places() -> None:
    assert align("abc", "axc", 0) is None


MARK = '"group_num": "x"'


@pytest.mark.parametrize("style", ["|", "|-", "|+", "|2-", ">", ">-"])
def test_a_finding_stands_where_the_user_sees_it_in_a_block_scalar(style: str) -> None:
    manifest = config_map(TWO_TO_ONE.replace('"group_num": "2"', MARK), style=style)
    assert_found_at_mark(manifest)


@given(odd_documents)
def test_in_a_literal_block_every_finding_is_shifted_by_where_the_block_stands(said: Any) -> None:
    body = json.dumps(said, indent=1)
    alone = [
        (finding.code, finding.line + 7, finding.column + 4) for finding in read_document(body)[1]
    ]
    inside = lint([Source("f", config_map(body).encode())]).findings
    assert [(finding.code, finding.line, finding.column) for finding in inside] == alone


@pytest.mark.parametrize("style", ['"', "'", None])
@pytest.mark.parametrize("width", [40, 1000])
def test_a_finding_stands_where_the_user_sees_it_in_any_other_scalar(
    style: str | None, width: int
) -> None:
    body = TWO_TO_ONE.replace('"group_num": "2"', MARK)
    found = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "r"},
        "data": {"elastic_scaling.json": body},
    }
    assert_found_at_mark(yaml.safe_dump(found, default_style=style, width=width))


def test_a_finding_stands_where_the_user_sees_it_in_a_json_manifest() -> None:
    body = TWO_TO_ONE.replace('"group_num": "2"', MARK)
    assert_found_at_mark(
        json.dumps(
            {"kind": "ConfigMap", "metadata": {"name": "r"}, "data": {"elastic_scaling.json": body}}
        )
    )


def test_windows_line_ends_and_a_byte_order_mark_do_not_move_places() -> None:
    manifest = config_map(TWO_TO_ONE.replace('"group_num": "2"', MARK))
    assert_found_at_mark(manifest.replace("\n", "\r\n"))
    assert_found_at_mark("\ufeff" + manifest)


def assert_found_at_mark(manifest: str) -> None:
    (finding,) = lint([Source("f", manifest.encode())]).findings
    assert finding.code == "NotADecimalString"
    text = manifest.removeprefix("\ufeff")
    at = Lines(text).offset(finding.line, finding.column)
    assert text[at : at + 6].replace("\\", "").startswith('"x"')
