"""Every real input gets the verdict that it deserves; the table says which, file by file.

Codes with ~ are warnings, the others errors; "" = clean. Where a verdict is not Ascend Operator's,
docs/explanation/judged-differently.md says why. Jobs are linted beside a rule of 2 prefill
instances of 2 pods."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import yaml

from scaler.rules.document import read_rule
from scaler.rules.rule import Ratio
from scaler.tools.lint.document import read_document
from scaler.tools.lint.files import lint
from scaler.tools.lint.repair import repair
from scaler.tools.lint.source import Source

BAD = {
    "ascendjob": {
        "container_not_ascend.yaml": "InvalidContainer",
        "empty_scaling_rule_label.yaml": "RuleLabelEmpty",
        "extra_unknown_field.yaml": "~UnknownField",
        "fault_scheduling_typo.yaml": "~FaultSchedulingUnknown",
        "jobid_integer.yaml": "LabelNotAString",
        "jobid_with_space.yaml": "LabelInvalid",
        "min_available_placeholder.yaml": "MinAvailableInvalid",
        "min_available_too_big.yaml": "~MinAvailableTooBig",
        "npu_limit_differs.yaml": "NpuLimitDiffers",
        "old_api_version.yaml": "ApiVersionUnknown",
        "other_namespace.yaml": "~RuleNotFound",
        "other_scaling_rule.yaml": "~RuleNotFound",
        "queue_unknown.yaml": "",
        "replicas_do_not_match_rule.yaml": "~InstanceSizeMismatch",
        "replicas_negative.yaml": "InvalidReplicaSpec",
        "replicas_string.yaml": "InvalidReplicaSpec",
        "sp_block_not_multiple.yaml": "~SpBlockMismatch",
        "unknown_group.yaml": "GroupUnknown",
        "worker_only.yaml": "~MinAvailableTooBig InvalidReplicaType ~InstanceSizeMismatch",
    },
    "real_docs": {
        "fullwidth_colon_*L58.yaml.txt": "NotYaml",
        "scaling-rule_doc_en_create_example.configmap.yaml": "CommentInJson BraceInComment",
        "scaling-rule_doc_en_create_example.elastic_scaling.json.txt": (
            "CommentInJson BraceInComment"
        ),
        "scaling-rule_doc_en_scale_down_example.configmap.yaml": "CommentInJson",
        "scaling-rule_doc_en_scale_up_example.comments_cut.json.txt": "",
        "scaling-rule_doc_en_scale_up_example.configmap.yaml": "CommentInJson",
        "scaling-rule_doc_zh-before-fix_scale_down_example.comments_cut.json.txt": "",
        "scaling-rule_doc_zh-before-fix_scale_down_example.configmap.yaml": "CommentInJson",
        "scaling-rule_doc_zh-before-fix_scale_down_example.elastic_scaling.json.txt": (
            "CommentInJson"
        ),
        "scaling-rule_doc_zh-before-fix_scale_up_example.elastic_scaling.json.txt": "CommentInJson",
        "scaling-rule_doc_zh_create_example.comments_cut.json.txt": "",
        "scaling-rule_doc_zh_result_example.comments_cut.json.txt": "",
        "scaling-rule_doc_zh_result_example.configmap.yaml": "CommentInJson",
        "scaling-rule_doc_zh_scale_down_example.comments_cut.json.txt": "",
        "scaling-rule_doc_zh_scale_down_example.configmap.yaml": "CommentInJson",
        "scaling-rule_doc_zh_scale_up_example.comments_cut.json.txt": "",
        "scaling-rule_doc_zh_scale_up_example.elastic_scaling.json.txt": "CommentInJson",
        "switch_fault_code_leading_zeros.json.txt": (
            "ListMissing ~VersionUnknown ~UnknownKey NotJson"
        ),
    },
    "real_shipped": {
        "MindIE-Motor_single_container_init.yaml": "",
    },
    "scaling_rule_configmap": {
        "data_empty.yaml": "KeyMissing",
        "duplicate_data_key.yaml": "DuplicateKey ListMissing ~VersionUnknown",
        "folded_scalar.yaml": "",
        "immutable.yaml": "~RuleImmutable",
        "missing_key_hyphen.yaml": "KeyMissing",
        "missing_key_rule_json.yaml": "KeyMissing",
        "no_data.yaml": "KeyMissing",
        "other_name.yaml": "",
        "secret_instead.yaml": "NotAConfigMap",
        "tab_indentation.yaml": "NotYaml",
        "value_is_mapping.yaml": "ValueNotAString",
        "value_is_null.yaml": "ValueNotAString",
    },
    "scaling_rule_json": {
        "00_unchanged_control": "",
        "bom_utf8": "ByteOrderMark",
        "camel_case_keys": "ListMissing ~UnknownKey",
        "crlf": "",
        "deep_nesting": "NestedTooDeep",
        "duplicate_json_keys": "DuplicateKey ~ServerCountDiffers ~EqualNeighbours",
        "empty": "NotJson",
        "empty_object": "ListMissing ~VersionUnknown",
        "empty_rule_list": "ListEmpty",
        "entry_null": "WrongType",
        "entry_without_groups": "RatioWithoutGroups",
        "fullwidth_brackets": "FullWidthPunctuation",
        "fullwidth_colon": "FullWidthPunctuation",
        "fullwidth_comma": "FullWidthPunctuation",
        "fullwidth_quotes": "FullWidthPunctuation",
        "gbk_comment": "NotUtf8",
        "group_list_object": "WrongType",
        "group_name_70_chars": "GroupNameInvalid",
        "group_name_chinese": "GroupNameInvalid",
        "group_name_empty": "GroupNameInvalid",
        "group_name_lone_surrogate": "GroupNameInvalid",
        "group_name_missing": "FieldMissing",
        "group_name_number": "WrongType",
        "group_name_zero_width_space": "GroupNameInvalid",
        "group_null": "WrongType",
        "group_num_hex": "NotADecimalString",
        "group_num_missing": "FieldMissing",
        "group_num_newline": "NotADecimalString",
        "group_num_number_only_one": "NotADecimalString",
        "group_num_over_int64": "NumberTooLarge",
        "group_num_plus_sign": "NotADecimalString",
        "group_num_unquoted_huge": "NotADecimalString",
        "group_num_zero_everywhere": "OnlyZeros ~ServerCountDiffers ~EqualNeighbours",
        "group_num_zero_last_entry": "~ZeroRatioIgnored ~ServerCountDiffers",
        "hash_comment": "CommentInJson",
        "html_escaped": "NotJson",
        "identical_entries": "~EqualNeighbours",
        "json_null": "WrongType",
        "list_is_object": "WrongType",
        "many_entries_1024": "",
        "missing_last_brace": "NotJson",
        "misspelt_list_key": "ListMissing ~UnknownKey",
        "misspelt_server_num": "FieldMissing ~UnknownKey",
        "nan": "NotJson NotADecimalString",
        "no_break_space": "OddSpace",
        "other_key_case": "ListMissing ~UnknownKey",
        "raw_control_character": "NotJson",
        "raw_tab_in_string": "NotJson",
        "server_count_wrong": "~ServerCountDiffers",
        "server_num_per_group_decreases": "ServerNumDiffers ~ServerCountDiffers",
        "single_entry": "",
        "single_quotes": "SingleQuotes",
        "size_over_1_mib": "DocumentTooLarge",
        "slash_comment": "CommentInJson",
        "top_level_array": "WrongType",
        "top_level_string": "WrongType",
        "trailing_comma_in_object": "TrailingComma",
        "trailing_text": "TrailingText",
        "two_documents": "TrailingText",
        "unknown_fields": "~UnknownKey",
        "unquoted_keys": "UnquotedKey",
        "utf16_le": "NotUtf8",
        "version_2": "~VersionUnknown",
        "version_missing": "~VersionUnknown",
        "version_number": "WrongType",
    },
}
RULE = "motor/A2_2P1D_p2pod_d4pod/configmaps/scaling-rule.yaml"


def sources(real_data: Path, folder: str, name: str) -> list[Source]:
    path = real_data / "rules_bad" / folder
    suffix = ".elastic_scaling.json" if folder == "scaling_rule_json" else ""
    (file,) = path.glob(name + suffix)
    beside = [Source("rule", (real_data / RULE).read_bytes())] if folder == "ascendjob" else []
    return [Source(file.name, file.read_bytes()), *beside]


@pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder, names in BAD.items() for name in names]
)
def test_every_bad_input_gets_its_verdict(real_data: Path, folder: str, name: str) -> None:
    findings = lint(sources(real_data, folder, name)).findings
    said = dict.fromkeys(
        ("~" if finding.level == "warning" else "") + finding.code for finding in findings
    )
    assert " ".join(said) == BAD[folder][name]


def test_no_bad_input_is_left_out_of_the_table(real_data: Path) -> None:
    with (real_data / "rules_bad" / "INDEX.tsv").open(encoding="utf-8") as index:
        rows = [row["file"].split("/", 1) for row in csv.DictReader(index, delimiter="\t")]
    assert len(rows) == sum(len(names) for names in BAD.values())
    assert {folder for folder, _ in rows} == set(BAD)


def test_every_valid_rule_is_accepted_as_ascend_operator_reads_it(real_data: Path) -> None:
    with (real_data / "rules_valid" / "INDEX.tsv").open(encoding="utf-8") as index:
        meanings = {
            row[0]: row[2] for row in csv.reader(index, delimiter="\t", quoting=csv.QUOTE_NONE)
        }
    files = list((real_data / "rules_valid").glob("*.json"))
    assert len(files) > 20
    for file in files:
        rule, findings = read_document(file.read_text())
        assert findings == (), file.name
        assert rule is not None
        assert (
            " | ".join(as_ascend_operator_prints(ratio) for ratio in rule.ratios)
            == meanings[file.name]
        )


def as_ascend_operator_prints(ratio: Ratio) -> str:
    return " ".join(
        f'"{group}":{count}*{ratio.sizes[group]}' for group, count in ratio.counts.items()
    )


@pytest.mark.parametrize(
    "name", [name for name, codes in BAD["real_docs"].items() if "configmap" in name]
)
def test_the_examples_of_the_documentation_are_corrected_to_what_they_mean(
    real_data: Path, name: str
) -> None:
    (source,) = sources(real_data, "real_docs", name)
    result = repair(source)
    assert result.remaining == []
    cut = (
        real_data
        / "rules_bad"
        / "real_docs"
        / name.replace(".configmap.yaml", ".comments_cut.json.txt")
    )
    if cut.exists():
        assert rule_in(result.text) == read_document(cut.read_text())[0]


def rule_in(manifest: str) -> object:
    return read_rule(yaml.safe_load(manifest)["data"], [], {}).rule


def test_the_brace_behind_a_comment_in_the_documentation_is_pointed_at(real_data: Path) -> None:
    findings = lint(
        sources(real_data, "real_docs", "scaling-rule_doc_en_create_example.configmap.yaml")
    ).findings
    (brace,) = [finding for finding in findings if finding.code == "BraceInComment"]
    comments = [finding for finding in findings if finding.code == "CommentInJson"]
    assert (brace.line, brace.column) == (8, 94)
    assert all("JSON has no # comments" in finding.message for finding in comments)
    assert [finding.line for finding in comments] == [5, 6, 8, 9, 10, 11, 21]


@pytest.mark.parametrize(
    "case", ["A2_1P1D_p1pod_d1pod", "A2_2P1D_p2pod_d4pod", "A3_4P2D_p1pod_d4pod"]
)
def test_what_the_deployer_applies_is_clean(real_data: Path, case: str) -> None:
    files = sorted(
        file
        for file in (real_data / "motor" / case).rglob("*")
        if file.suffix in (".yaml", ".json")
    )
    report = lint([Source(str(file), file.read_bytes(), listed=False) for file in files])
    assert report.findings == []
    assert report.rules == 2
    assert report.jobs >= 4
