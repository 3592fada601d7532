"""`scaler lint` and `scaler schema` as a user calls them: arguments and files in, output and exit
code out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from scaler.cli import main
from tests.rules.documents import TWO_TO_ONE, config_map, job, text

BROKEN = config_map(TWO_TO_ONE.replace('"version": "1.0",', '"version": "1.0",  # fixed'))
WARNED = config_map(text({"group0": 1, "group1": 1}, version="2.0"))
MEMBERS = ["file", "level", "code", "pointer", "line", "column", "message", "hint"]


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    return tmp_path / "rule.yaml"


@pytest.mark.parametrize(
    ("said", "code"), [(config_map(TWO_TO_ONE), 0), (WARNED, 0), (BROKEN, 1), ("", 1)]
)
def test_the_exit_code_is_1_for_errors_only(rule: Path, said: str, code: int) -> None:
    rule.write_text(said)
    assert main(["lint", str(rule)]) == code


def test_a_clean_file_says_what_was_checked(rule: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule.write_text(config_map(TWO_TO_ONE))
    main(["lint", str(rule)])
    assert capsys.readouterr().out == "1 rule checked: 0 errors, 0 warnings\n"


def test_a_finding_is_shown_with_place_line_caret_and_hint_and_without_colours(
    rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule.write_text(BROKEN)
    main(["lint", str(rule)])
    assert capsys.readouterr().out.splitlines() == [
        f"{rule}:9:26: error: CommentInJson JSON has no # comments",
        '          "version": "1.0",  # fixed',
        "                             ^",
        "    hint: delete the comment",
        "1 rule checked: 1 error, 0 warnings",
    ]


def test_the_json_form_has_just_the_promised_members(
    rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule.write_text(BROKEN)
    assert main(["lint", "-o", "json", str(rule)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["ok", "findings", "checked", "leftOut", "left_out"]
    assert (answer["checked"], answer["left_out"]) == ({"rule": 1}, {})
    assert all(list(found) == MEMBERS for found in answer["findings"])
    assert answer["ok"] is False
    assert [
        (found["code"], found["line"], found["column"], found["file"])
        for found in answer["findings"]
    ] == [("CommentInJson", 9, 26, str(rule))]


def test_a_folder_is_searched_to_the_bottom_and_judged_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "rule.yml").write_text(config_map(TWO_TO_ONE))
    (tmp_path / "job.yaml").write_text(job(group="    mind-cluster/group-name: group9\n"))
    (tmp_path / "other.json").write_text('{"ranktable": 1}')
    (tmp_path / "notes.txt").write_text("{")
    assert main(["lint", str(tmp_path), "-o", "json"]) == 1
    assert [found["code"] for found in json.loads(capsys.readouterr().out)["findings"]] == [
        "GroupUnknown"
    ]


def test_standard_input_is_read_for_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(BROKEN.encode())))
    assert main(["lint", "-"]) == 1
    assert capsys.readouterr().out.startswith("<stdin>:9:26: error:")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-", "-"],
        ["--fix", "."],
        ["--fix", "a", "b"],
        ["--fix", "-o", "json", "-"],
        ["--write", "-"],
    ],
)
def test_wrong_usage_is_answered_with_2_and_the_way_to_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", *arguments]) == 2
    assert "scaler lint --help" in capsys.readouterr().err


def test_a_folder_without_manifests_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", str(tmp_path)]) == 2
    assert "no *.yaml, *.yml, *.json below" in capsys.readouterr().err


def test_fix_prints_the_corrected_file_and_leaves_the_file_alone(
    rule: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    rule.write_bytes(BROKEN.replace("\n", "\r\n").encode())
    assert main(["lint", "--fix", str(rule)]) == 0
    assert capsysbinary.readouterr().out == config_map(TWO_TO_ONE).replace("\n", "\r\n").encode()
    assert rule.read_bytes() == BROKEN.replace("\n", "\r\n").encode()


def test_fix_leaves_what_is_in_doubt_prints_the_rest_corrected_and_says_why(
    rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rising = text({"group0": 1}, {"group0": 2})
    rule.write_text(config_map(rising.replace('"1.0",', '"1.0", # words')))
    assert main(["lint", "--fix", str(rule)]) == 1
    printed = capsys.readouterr()
    assert printed.out == config_map(rising)
    assert "GroupNumRising" in printed.err
    assert "1 error left" in printed.err


def test_write_corrects_in_place_and_keeps_what_was_there_before(
    rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule.write_text(BROKEN)
    rule.chmod(0o640)
    assert main(["lint", "--write", str(rule)]) == 0
    assert rule.read_text() == config_map(TWO_TO_ONE)
    assert rule.stat().st_mode & 0o777 == 0o640
    assert rule.with_name("rule.yaml.bak").read_text() == BROKEN
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "rule.yaml.bak" in printed.err
    assert [file.name for file in sorted(rule.parent.iterdir())] == ["rule.yaml", "rule.yaml.bak"]


def test_a_backup_is_never_written_over(rule: Path) -> None:
    for _ in range(2):
        rule.write_text(BROKEN)
        main(["lint", "--write", str(rule)])
    rule.write_text(WARNED)
    assert main(["lint", "--write", str(rule)]) == 0
    assert sorted(file.name for file in rule.parent.iterdir()) == [
        "rule.yaml",
        "rule.yaml.bak",
        "rule.yaml.bak.1",
    ]


def test_write_takes_a_folder_and_corrects_jobs_by_the_rule_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rule.yaml").write_text(config_map(TWO_TO_ONE))
    (tmp_path / "job.yaml").write_text(job(group="    mind-cluster/group-name: gruop0\n"))
    assert main(["lint", "--fix", "--write", str(tmp_path)]) == 0
    assert (tmp_path / "job.yaml").read_text() == job()
    assert not (tmp_path / "rule.yaml.bak").exists()
    assert capsys.readouterr().out == ""


def test_a_file_behind_a_link_is_corrected_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    there = tmp_path / "real" / "rule.yaml"
    link = tmp_path / "link.yaml"
    there.write_text(BROKEN)
    link.symlink_to(there)
    assert main(["lint", "--write", str(link)]) == 0
    assert link.is_symlink()
    assert there.read_text() == config_map(TWO_TO_ONE)


def test_what_was_not_looked_at_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(
        config_map(TWO_TO_ONE) + "---\nkind: Service\n---\nkind: Service\n"
    )
    assert main(["lint", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "not looked at: 2 Services",
        "1 rule checked: 0 errors, 0 warnings",
    ]


def test_the_schema_of_the_rule_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "rule"]) == 0
    jsonschema.validate(json.loads(TWO_TO_ONE), json.loads(capsys.readouterr().out))


def test_a_mixture_that_no_ratio_names_is_said_and_is_neither_an_error_nor_a_warning(
    rule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule.write_text(
        text({"group0": 4, "group1": 2}, {"group0": 2, "group1": 2}, {"group0": 1, "group1": 1})
    )
    assert main(["lint", str(rule)]) == 0
    printed = capsys.readouterr().out
    assert "info: MixturePossible 5 combinations" in printed
    assert printed.endswith("1 rule checked: 0 errors, 0 warnings\n")
