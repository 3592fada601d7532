from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scaler.names import RULE_KEY
from scaler.rules.check import check
from scaler.rules.document import read_rule
from scaler.rules.finding import Finding, pointer
from scaler.rules.limits import MAX_BYTES, MAX_GROUPS, MAX_INSTANCES, MAX_PODS, MAX_RATIOS
from scaler.rules.rule import Ratio, Rule, RuleOptions
from scaler.tools.lint.document import examine, read_document
from tests.jobs import document, group
from tests.rules.documents import TWO_TO_ONE, good_documents, odd_documents, text


def found(*ratios: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    """Code and pointer of every finding, errors first."""
    _, findings = read_document(text(*ratios, **more))
    return [
        (finding.code, finding.pointer)
        for finding in sorted(findings, key=lambda finding: finding.level)
    ]


def errors_with_group(**members: Any) -> list[str]:
    """Codes of a document whose one group has these members."""
    _, findings = read_document(
        json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": [members]}]})
    )
    return [finding.code for finding in findings]


def number_at(entry: int, member: str = "group_num", group: int = 0) -> str:
    return f"/elastic_scaling_list/{entry}/group_list/{group}/{member}"


def test_a_good_document_becomes_the_rule_that_it_says() -> None:
    rule, findings = read_document(
        text({"group0": (2, 1), "group1": (1, 4)}, {"group0": (1, 1), "group1": (1, 4)})
    )
    sizes = {"group0": 1, "group1": 4}
    assert rule == Rule(
        (Ratio({"group0": 2, "group1": 1}, sizes), Ratio({"group0": 1, "group1": 1}, sizes))
    )
    assert findings == ()


def test_what_the_deployer_adds_is_no_finding() -> None:
    said = document({"group0": 1, "group1": 1}, status="completed")
    said["elastic_scaling_list"][0]["server_count"] = "2"
    assert read_document(json.dumps(said))[1] == ()


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([{"a": 1}, {"a": 2}], [("GroupNumRising", number_at(1))]),
        (
            [{"a": 2}, {"a": 1, "b": 1}],
            [("GroupNotInPreviousRatio", number_at(1, "group_name", 1))],
        ),
        (
            [{"a": (2, 1)}, {"a": (1, 2)}],
            [("ServerNumDiffers", number_at(1, "server_num_per_group"))],
        ),
        (
            [{"a": (2, 2)}, {"a": (1, 1)}],
            [("ServerNumDiffers", number_at(1, "server_num_per_group"))],
        ),
        ([{"a": 0, "b": 0}, {"a": 0}], [("OnlyZeros", "/elastic_scaling_list")]),
        ([{"a": 1}, {"a": 0}], [("ZeroRatioIgnored", "/elastic_scaling_list/1")]),
        ([{"a": 1}, {"a": 1}], [("EqualNeighbours", "/elastic_scaling_list/1")]),
        ([{"a": 1, "b": 1}, {"a": 1}], [("GroupNotInSmallest", "/elastic_scaling_list/1")]),
        (
            [{"a": 1, "b": 1}, {"a": 1, "b": 0}],
            [("GroupNotInSmallest", number_at(1, "group_num", 1))],
        ),
        (
            [{"a": 2, "b": 1}, {"b": 1, "a": 1}],
            [("GroupOrderDiffers", "/elastic_scaling_list/1/group_list")],
        ),
        ([], [("ListEmpty", "/elastic_scaling_list")]),
        ([{"a": 1}, {}], [("RatioWithoutGroups", "/elastic_scaling_list/1/group_list")]),
    ],
)
def test_how_ratios_must_follow_from_each_other(
    ratios: list[dict[str, Any]], expected: list[tuple[str, str]]
) -> None:
    assert found(*ratios) == expected


@pytest.mark.parametrize(
    "num",
    [
        "-1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "01",
        "１",
        "0x2",
        "1.0",
        "",
        "two",
        2,
        2.5,
        True,
        None,
        [],
        {},
        "٢",
    ],
)
def test_only_plain_decimal_digits_in_quotes_are_numbers(num: object) -> None:
    assert errors_with_group(**group("a", num)) == ["NotADecimalString"]


@pytest.mark.parametrize(
    ("num", "size", "code"),
    [
        ("10001", "1", "NumberTooLarge"),
        ("1", "1001", "NumberTooLarge"),
        ("1", "9" * 40, "NumberTooLarge"),
        ("1", "0", "ServerNumZero"),
    ],
)
def test_numbers_have_bounds(num: str, size: str, code: str) -> None:
    assert errors_with_group(**group("a", num, size)) == [code]


def test_the_largest_number_is_accepted() -> None:
    assert errors_with_group(**group("a", str(MAX_INSTANCES), str(MAX_PODS))) == []


@pytest.mark.parametrize(
    ("num", "hint"),
    [
        (2, '"2"'),
        ("+2", '"2"'),
        (" 2", '"2"'),
        ("２", '"2"'),
        ("007", '"7"'),
        ("-1", "decimal digits"),
        ("", "decimal digits"),
    ],
)
def test_the_hint_says_the_number_that_was_meant_when_there_is_one(num: object, hint: str) -> None:
    _, findings = read_document(
        json.dumps(document() | {"elastic_scaling_list": [{"group_list": [group("a", num)]}]})
    )
    assert hint in findings[0].hint


@pytest.mark.parametrize("name", ["", "预填充", "a b", "x" * 64, "-a", "a\n", "a\u200b", "\ud800"])
def test_a_name_that_cannot_be_a_label_value_names_no_group(name: str) -> None:
    assert errors_with_group(**group(name, "1")) == ["GroupNameInvalid"]


@pytest.mark.parametrize("member", ["group_name", "group_num", "server_num_per_group"])
def test_a_missing_member_is_named_and_a_near_one_is_asked_about(member: str) -> None:
    members = group("a", "1")
    members[member.replace("_", "")] = members.pop(member)
    _, findings = read_document(
        json.dumps(document() | {"elastic_scaling_list": [{"group_list": [members]}]})
    )
    assert [finding.code for finding in findings] == ["FieldMissing", "UnknownKey"]
    assert all(member in finding.message + finding.hint for finding in findings)


def test_all_findings_are_reported_at_once_in_the_order_of_the_text() -> None:
    said = document(
        {"a": (1, 1), "b": (1, 2)}, {"a": (2, 2), "b": (1, 2)}, version="2.0", owner="me"
    )
    said["elastic_scaling_list"][0]["group_list"][1]["group_num"] = 1
    said["elastic_scaling_list"][1]["server_count"] = "7"
    _, findings = read_document(json.dumps(said, indent=1))
    assert [finding.code for finding in findings] == [
        "VersionUnknown",
        "NotADecimalString",
        "GroupNumRising",
        "ServerNumDiffers",
        "ServerCountDiffers",
        "UnknownKey",
    ]
    assert [finding.line for finding in findings] == sorted(finding.line for finding in findings)


def test_faults_of_writing_do_not_hide_faults_of_meaning() -> None:
    broken = text({"a": 1}, {"a": 2}).replace('"version": "1.0",', '"version": "1.0",  # fixed')
    assert [finding.code for finding in read_document(broken)[1]] == [
        "CommentInJson",
        "GroupNumRising",
    ]


def test_a_finding_says_line_column_what_was_found_and_what_to_write() -> None:
    lines = [
        '{"version": "1.0",',
        ' "elastic_scaling_list": [{"group_list": [',
        '  {"group_name": "a", "group_num": 2, "server_num_per_group": "1"}]}]}',
    ]
    _, (finding,) = read_document("\n".join(lines))
    assert (finding.level, finding.code, finding.pointer) == (
        "error",
        "NotADecimalString",
        number_at(0),
    )
    assert str(finding) == 'line 3, column 36: 2 is not a decimal number in quotes; write "2"'


def test_a_group_named_twice_in_one_ratio_is_an_error() -> None:
    twice = {
        "version": "1.0",
        "elastic_scaling_list": [{"group_list": [group("a", "1"), group("a", "2")]}],
    }
    assert [finding.code for finding in read_document(json.dumps(twice))[1]] == ["DuplicateGroup"]


def test_a_name_written_twice_is_an_error_though_json_would_take_the_last() -> None:
    twice = TWO_TO_ONE.replace('"version": "1.0"', '"version": "1.0", "version": "1.0"')
    assert [finding.code for finding in read_document(twice)[1]] == ["DuplicateKey"]


def test_ratios_of_only_zeros_are_left_out_of_the_rule() -> None:
    rule, _ = read_document(text({"a": 1}, {"a": 0}))
    assert rule == Rule((Ratio({"a": 1}, {"a": 1}),))


def test_documents_and_ladders_have_an_upper_bound() -> None:
    assert [finding.code for finding in read_document(" " * (MAX_BYTES + 1))[1]] == [
        "DocumentTooLarge"
    ]
    for_each = [{"a": MAX_RATIOS + 2 - number} for number in range(MAX_RATIOS + 1)]
    assert [finding.code for finding in read_document(text(*for_each))[1]] == ["TooManyEntries"]
    assert read_document(text(*for_each[1:]))[0] is not None
    groups = {f"g{number}": 1 for number in range(MAX_GROUPS + 1)}
    (finding,) = read_document(text(groups))[1]
    assert (finding.code, finding.pointer) == (
        "TooManyEntries",
        "/elastic_scaling_list/0/group_list",
    )
    assert "more than 8 groups" in finding.message
    assert finding.hint


def test_a_thousand_faults_are_cut_to_what_a_person_reads() -> None:
    rising = text(*[{"a": number} for number in range(1, 1000)])
    findings = read_document(rising)[1]
    assert len(findings) == 101
    assert (findings[-1].code, findings[-1].level) == ("TooManyFindings", "error")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_depth_is_judged_the_same_with_and_without_other_findings(version: str) -> None:
    deep: Any = []
    for _ in range(40):
        deep = [deep]
    assert "NestedTooDeep" in {code for code, _ in found({"a": 1}, version=version, status=deep)}


def test_the_config_map_gives_rule_options_and_warnings_together() -> None:
    reading = read_rule(
        {RULE_KEY: text({"a": 1}, version="2.0")},
        [],
        {"mind-cluster/paused": "true", "mind-cluster/trade": "yes"},
    )
    assert reading.rule is not None
    assert reading.options == RuleOptions(paused=True)
    assert reading.errors == ()
    assert [finding.code for finding in reading.warnings] == ["VersionUnknown", "AnnotationInvalid"]


def test_a_document_with_an_error_is_no_rule() -> None:
    reading = read_rule({RULE_KEY: TWO_TO_ONE + "}"}, [], {})
    assert reading.rule is None
    assert [finding.code for finding in reading.errors] == ["TrailingText"]


@pytest.mark.parametrize(
    ("data", "binary", "code", "words"),
    [
        ({}, [], "KeyMissing", "no data at all"),
        ({"rule.json": "{}"}, [], "KeyMissing", "it has rule.json"),
        ({}, [RULE_KEY], "KeyInBinaryData", "not UTF-8"),
        ({RULE_KEY: None}, [], "ValueNotAString", "not a text"),
    ],
)
def test_a_config_map_without_the_key_says_what_it_has(
    data: dict[str, Any], binary: list[str], code: str, words: str
) -> None:
    (error,) = read_rule(data, binary, {}).errors
    assert error.code == code
    assert words in error.message


@given(good_documents())
def test_good_documents_are_accepted_and_give_the_same_rule_on_both_paths(
    said: dict[str, Any],
) -> None:
    plain = json.dumps(said)
    rule, findings = read_document(plain)
    if any(finding.level == "error" for finding in findings):
        assert [finding.code for finding in findings if finding.level == "error"] == ["OnlyZeros"]
        return
    commented = examine(f"# comment\n{plain}")
    assert rule is not None
    assert [fault.code for fault in commented.faults if fault.level == "error"] == ["CommentInJson"]
    assert check(json.loads(plain))[0] == rule
    assert all(
        later.of(name) <= earlier.of(name)
        for earlier, later in itertools.pairwise(rule.ratios)
        for name in rule.groups
    )


@given(odd_documents, st.sampled_from([None, 1]))
def test_the_controller_finds_in_any_json_what_lint_finds_at_the_same_places(
    said: Any, indent: int | None
) -> None:
    written = json.dumps(said, indent=indent)
    assume("Infinity" not in written)
    reading = read_rule({RULE_KEY: written}, [], {})
    rule, findings = read_document(written)
    assert reading.rule == rule
    assert places(reading.errors + reading.warnings) == places(findings)


def places(findings: Iterable[Finding]) -> list[tuple[object, ...]]:
    return sorted((one.level, one.code, one.pointer, str(one)) for one in findings)


@given(odd_documents)
def test_a_document_is_a_rule_or_has_an_error_and_every_finding_points_into_it(said: Any) -> None:
    written = json.dumps(said, indent=1)
    rule, findings = read_document(written)
    assert (rule is None) == any(finding.level == "error" for finding in findings)
    for finding in findings:
        assert resolves(said, finding.pointer), finding
        assert 1 <= finding.line <= written.count("\n") + 1
        assert finding.message


def resolves(value: Any, place: str) -> bool:
    for step in place.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return True


@given(
    st.dictionaries(
        st.sampled_from([RULE_KEY, "other"]),
        st.text() | st.binary().map(lambda raw: raw.decode("latin-1")),
    ),
    st.lists(st.text()),
    st.dictionaries(
        st.text() | st.sampled_from(["mind-cluster/paused", "mind-cluster/x"]), st.text()
    ),
)
def test_reading_a_rule_never_raises(
    data: dict[str, str], binary: list[str], annotations: dict[str, str]
) -> None:
    reading = read_rule(data, binary, annotations)
    assert (reading.rule is None) == bool(reading.errors)
    for finding in reading.errors + reading.warnings:
        assert (finding.message + finding.hint + finding.pointer).encode(
            "utf-8"
        ).isascii() is not None


def test_pointers_escape_what_rfc_6901_says() -> None:
    assert pointer(("a/b", 0, "c~d")) == "/a~1b/0/c~0d"
