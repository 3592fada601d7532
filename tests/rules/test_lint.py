from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source, is_manifest
from tests.rules.documents import TWO_TO_ONE, config_map, job, text


def codes(*files: str | bytes, listed: bool = True) -> list[str]:
    sources = [
        Source(f"f{index}", file if isinstance(file, bytes) else file.encode(), listed)
        for index, file in enumerate(files)
    ]
    return [finding.code for finding in lint(sources).findings]


HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: scaling-rule, namespace: mindie}\n"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (config_map(TWO_TO_ONE), []),
        (HEAD, ["KeyMissing"]),
        (HEAD + "data: {}\n", ["KeyMissing"]),
        (HEAD + "data: {elastic-scaling.json: x}\n", ["KeyMissing"]),
        (HEAD + "binaryData: {elastic_scaling.json: eA==}\n", ["KeyInBinaryData"]),
        (HEAD + "data:\n  elastic_scaling.json:\n    version: '1.0'\n", ["ValueNotAString"]),
        (HEAD + "data:\n  elastic_scaling.json:\n", ["ValueNotAString"]),
        (HEAD + "data:\n  elastic_scaling.json: 1\n", ["ValueNotAString"]),
        (HEAD + "data:\n  elastic_scaling.json: ''\n", ["NotJson"]),
        (config_map(TWO_TO_ONE) + "immutable: true\n", ["RuleImmutable"]),
        (
            config_map(TWO_TO_ONE) + "  elastic_scaling.json: 'null'\n",
            ["DuplicateKey", "WrongType"],
        ),
        (config_map(TWO_TO_ONE).replace("kind: ConfigMap", "kind: Secret"), ["NotAConfigMap"]),
        (
            config_map(TWO_TO_ONE).replace(
                "  name", "  annotations: {mind-cluster/trade: x}\n  name"
            ),
            ["AnnotationInvalid"],
        ),
        (config_map(TWO_TO_ONE).replace("    ", "\t"), ["NotYaml"]),
        ("", ["NotJson"]),
        ("kind: Deployment\n", ["NothingToCheck"]),
    ],
)
def test_a_config_map_that_is_linted_alone_is_taken_for_a_rule(
    manifest: str, expected: list[str]
) -> None:
    assert codes(manifest) == expected


def test_bare_json_is_a_rule_and_json_with_a_kind_is_a_manifest() -> None:
    assert not is_manifest(TWO_TO_ONE)
    assert not is_manifest(TWO_TO_ONE + "\nkind: ConfigMap\n")
    assert not is_manifest("[1]")
    assert is_manifest('{"kind": "List", "items": []}')
    assert is_manifest("{apiVersion: v1, kind: ConfigMap}")
    assert is_manifest(config_map(TWO_TO_ONE))


def test_config_maps_of_others_in_a_folder_are_not_our_business() -> None:
    foreign = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\ndata: {a: b}\n"
    assert (
        codes(config_map(TWO_TO_ONE), foreign, '{"ranktable": []}', b"\xff\xfe", listed=False) == []
    )
    assert codes(foreign + "---\n" + config_map(TWO_TO_ONE)) == []


def test_a_config_map_that_a_job_names_is_a_rule_even_without_the_key() -> None:
    assert codes(job(), HEAD + "data: {rule.json: x}\n", listed=False) == ["KeyMissing"]


def test_a_manifest_without_namespace_is_matched_by_name() -> None:
    assert codes(
        job(group="    mind-cluster/group-name: other\n"),
        config_map(TWO_TO_ONE).replace("  namespace: mindie\n", ""),
    ) == ["GroupUnknown"]


@pytest.mark.parametrize(
    ("data", "hint", "line", "column"),
    [
        (TWO_TO_ONE.encode("utf-16"), "UTF-16", 1, 1),
        ('{"version": "1.0",\n "说明": 1}'.encode("gbk"), "GBK", 2, 4),
        (b"{\n\xff", "UTF-8", 2, 1),
    ],
)
def test_a_file_that_is_not_utf8_is_said_to_be_so_where_it_begins(
    data: bytes, hint: str, line: int, column: int
) -> None:
    (finding,) = lint([Source("f", data)]).findings
    assert (finding.code, finding.line, finding.column) == ("NotUtf8", line, column)
    assert hint in finding.hint


def test_findings_come_in_the_order_of_files_and_lines() -> None:
    rule = config_map(text({"group0": (1, 2)}, {"group0": (2, 2)}, version="2.0"))
    report = lint(
        [Source("b", rule.encode()), Source("a", job(framework="", version="v0").encode())]
    )
    assert [finding.file for finding in report.findings] == ["b", "b", "a", "a"]
    assert [finding.line for finding in report.findings if finding.file == "a"] == [1, 7]
    assert (report.rules, report.jobs, report.ok) == (1, 1, False)


def test_the_brace_that_the_documentation_hides_behind_a_comment_is_named() -> None:
    hidden = TWO_TO_ONE.replace('"group_list": [\n        {', '"group_list": [   # Job ratio  {', 1)
    assert codes(config_map(hidden)) == ["CommentInJson", "BraceInComment"]


@given(
    st.binary(max_size=80)
    | st.text(max_size=80).map(lambda said: said.encode("utf-8", "surrogatepass"))
)
def test_linting_any_bytes_never_raises(data: bytes) -> None:
    report = lint([Source("f", data)])
    assert report.findings


@given(st.text(st.sampled_from("{}[]:,|> \n\t\"'#a：“0\\-"), max_size=60))
def test_linting_any_value_in_a_config_map_never_raises(value: str) -> None:
    report = lint([Source("f", (HEAD + "data:\n  elastic_scaling.json: " + value).encode())])
    assert not report.ok
