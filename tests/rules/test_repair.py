from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.tools.lint.repair import Repair, repair
from scaler.tools.lint.source import Source
from tests.rules.documents import TWO_TO_ONE, config_map, good_documents, job


def fixed(text: str) -> Repair:
    return repair(Source("f", text.encode()))


FAULTS = {
    "comment": ('"version": "1.0",', '"version": "1.0",  # fixed field', '"version": "1.0",'),
    "slashes": ('"version": "1.0",', '"version": "1.0", // fixed field', '"version": "1.0",'),
    "comma": (
        '"server_num_per_group": "1"',
        '"server_num_per_group": "1",',
        '"server_num_per_group": "1"',
    ),
    "colon": ('"version":', '"version"：', '"version":'),
    "quotes": ('"group0"', "“group0”", '"group0"'),
    "single": ('"group0"', "'group0'", '"group0"'),
    "bare number": ('"2"', "2", '"2"'),
    "missing comma": ('"version": "1.0",', '"version": "1.0"', '"version": "1.0",'),
    "no-break space": ('"version": "1.0"', '"version":\u00a0"1.0"', '"version": "1.0"'),
    "hidden brace": (
        '"group_list": [\n        {',
        '"group_list": [  # words  {',
        '"group_list": [{',
    ),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("style", ["|-", ">", "bare"])
def test_what_is_beyond_doubt_is_corrected_and_nothing_else_changes(name: str, style: str) -> None:
    right, wrong, cured = FAULTS[name]
    wrapped = (
        (lambda text: text)
        if style == "bare"
        else (lambda text: config_map(text, style=style) + "# the end\n")
    )
    before = wrapped(TWO_TO_ONE.replace(right, wrong))
    after = wrapped(TWO_TO_ONE.replace(right, cured))
    assert before != after
    assert fixed(before).text == after


def test_a_byte_order_mark_is_taken_out_of_a_document_but_left_in_a_manifest() -> None:
    assert fixed("\ufeff" + TWO_TO_ONE).text == TWO_TO_ONE
    assert fixed("\ufeff" + config_map(TWO_TO_ONE)).text == "\ufeff" + config_map(TWO_TO_ONE)


def test_windows_line_ends_stay() -> None:
    broken = config_map(TWO_TO_ONE.replace('"1.0",', '"1.0", # c')).replace("\n", "\r\n")
    assert fixed(broken).text == config_map(TWO_TO_ONE).replace("\n", "\r\n")


def test_a_document_in_a_quoted_scalar_is_corrected_in_its_own_style() -> None:
    broken = json.dumps(
        {"kind": "ConfigMap", "data": {"elastic_scaling.json": TWO_TO_ONE.replace('"2"', "“2”")}}
    )
    result = fixed(broken)
    assert json.loads(json.loads(result.text)["data"]["elastic_scaling.json"]) == json.loads(
        TWO_TO_ONE
    )
    single = (
        "kind: ConfigMap\ndata:\n  elastic_scaling.json:"
        f" '{json.dumps(json.loads(TWO_TO_ONE))[:-1]},}}'\n"
    )
    assert fixed(single).text == single.replace(",}'", "}'")


def test_text_in_wrong_quotes_is_kept_as_it_is_written() -> None:
    wrong = TWO_TO_ONE.replace('"version"', '"status": ‘a\\ud800 "b" 说’, "version"')
    assert fixed(wrong).text == TWO_TO_ONE.replace(
        '"version"', '"status": "a\\ud800 \\"b\\" 说", "version"'
    )


def test_only_the_rules_of_a_file_are_touched() -> None:
    text = (
        "# a comment\n"
        + job()
        + "---\n"
        + config_map(TWO_TO_ONE.replace('"1.0",', '"1.0", # c')).replace('"1"', '"2"')
    )
    result = fixed(text)
    assert result.changed == 1
    assert result.text == text.replace(" # c", "")


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ('"group_num": "2"', '"group_num": "x"', "NotADecimalString"),
        ('"version": "1.0"', '"version" {"1.0"', "NotJson"),
        ('"group_list": [\n', '"note": [ # []\n], "group_list": [\n', "CommentInJson"),
    ],
)
def test_what_is_in_doubt_stays_and_is_said_with_the_reason(
    right: str, wrong: str, code: str
) -> None:
    broken = TWO_TO_ONE.replace(right, wrong, 1)
    result = fixed(broken)
    assert (result.text, result.changed) == (broken, 0)
    assert code in {finding.code for finding in result.remaining}


def test_a_right_file_comes_out_as_it_is() -> None:
    assert fixed(config_map(TWO_TO_ONE)) == Repair(config_map(TWO_TO_ONE), 0, [])


def test_more_faults_than_are_shown_at_once_are_all_corrected() -> None:
    commented = (
        "".join(f"{line} # c\n" for line in TWO_TO_ONE.splitlines() for _ in (0,))
        + "# more\n" * 300
    )
    assert json.loads(fixed(commented).text) == json.loads(TWO_TO_ONE)


@given(good_documents(), st.data())
def test_comments_and_trailing_commas_anywhere_are_cured_without_changing_the_meaning(
    said: dict[str, Any], data: st.DataObject
) -> None:
    said["elastic_scaling_list"].insert(0, said["elastic_scaling_list"][0])
    lines = json.dumps(said, indent=1).splitlines()
    broken: list[str] = []
    for line in lines:
        comma = (
            data.draw(st.sampled_from(["", ","]))
            if line.strip() in ("]", "}") and broken[-1].strip()[:1] in '}]"'
            else ""
        )
        if comma and "#" not in broken[-1]:
            broken[-1] += comma
        broken.append(line + data.draw(st.sampled_from(["", "", " # words", " // 说明"])))
    result = fixed("\n".join(broken))
    if not any(finding.code == "OnlyZeros" for finding in result.remaining):
        assert json.loads(result.text) == said


@given(st.text(max_size=60), st.booleans())
def test_correcting_never_raises_and_what_comes_out_has_nothing_left_to_correct(
    text: str, manifest: bool
) -> None:
    result = repair(
        Source("f", (config_map(text) if manifest else text).encode("utf-8", "surrogatepass"))
    )
    again = fixed(result.text) if result.text else result
    assert result.changed >= 0
    assert again.text == result.text
    assert again.changed in (0, result.changed if again is result else 0)


def test_what_is_sure_is_corrected_although_something_else_is_not() -> None:
    rising = TWO_TO_ONE.replace('"group_num": "1"', '"group_num": "9"', 1).replace(
        '"1.0",', '"1.0",  # words'
    )
    result = fixed(config_map(rising.replace('"group_num": "2"', '"group_num": 2')))
    assert result.changed == 2
    assert "# words" not in result.text
    assert '"group_num": "2"' in result.text
    assert {finding.code for finding in result.remaining} == set()
    unread = TWO_TO_ONE.replace('"1.0",', '"1.0",  # words', 1).replace(
        '"group_num": "2"', '"group_num": two2'
    )
    half = fixed(config_map(unread))
    assert "# words" not in half.text
    assert "two2" in half.text
    assert half.remaining != []


def test_nothing_behind_a_place_that_nobody_can_read_is_touched() -> None:
    text = TWO_TO_ONE.replace('"version": "1.0"', '"version" {"1.0"', 1) + "# words"
    assert fixed(text).text == text
