"""`scaler plan` as a user types it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.cli import main
from scaler.tools.plan.command import answers
from tests import builders
from tests.jobs import rule_document
from tests.rules.documents import job
from tests.rules.documents import text as text_of

BARE = rule_document({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}, pods=2)
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: rule, annotations: {mind-cluster/paused: "PAUSED"}}
data:
  elastic_scaling.json: |
    DOCUMENT
"""


@pytest.fixture
def rule(tmp_path: Path) -> str:
    return written(tmp_path, "rule.json", BARE)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_json_answer_has_the_documented_shape(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = ["--running", "group0=1", "--in-flight", "group0=0", "--held", "group0=1,group1=1"]
    assert main(["plan", rule, *counts, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["target"] == {"index": 1, "counts": {"group0": 1, "group1": 1}}
    assert answer["complete"] is False
    assert answer["groups"]["group0"] == {
        "target": 1,
        "running": 1,
        "inFlight": 0,
        "in_flight": 0,
        "held": 1,
        "admit": 0,
        "revoke": 0,
        "reasons": {"WaitingForRatio": 1},
    }
    assert answer["groups"]["group1"]["admit"] == 1


def test_text_answer_names_target_verdict_and_reason(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", rule, "--running", "group0=1", "--held", "group0=3,group1=1"]) == 0
    text = capsys.readouterr().out
    assert "target: 1 group0 + 1 group1; line 2 of" in text
    assert "group0: hold 1 (WaitingForRatio): wait for group1 (0 of 1 running)" in text
    assert "hold 2 (NotInRatio)" in text
    assert "group1: admit 1" in text


def test_a_number_of_wanted_instances_limits_what_is_aimed_at(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", rule, "--replicas", "2", "--running", "group0=2,group1=1"]) == 0
    text = capsys.readouterr().out
    assert "target: 1 group0 + 1 group1; line 2 of" in text
    assert "group0: drain 1 of those that run, they are more than is wanted" in text
    assert main(["plan", rule, "--replicas", "0", "--held", "group0=2,group1=1"]) == 0
    text = capsys.readouterr().out
    assert "target: none: the service rests" in text
    assert "group0: hold 2 (ScaledDown): are more than is wanted" in text


def test_the_table_says_which_ratio_each_number_of_wanted_instances_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ladder = text_of({"a": 2, "b": 2}, {"a": 2, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 1})
    assert main(["plan", written(tmp_path, "rule.json", ladder), "--table"]) == 0
    shown = capsys.readouterr().out.split("and the ratio aimed at:\n")[1].split("\n\n")[0]
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "0 none: the service rests",
        "1 to 2 1 a + 1 b (the minimum)",
        "3 2 a + 1 b",
        "4 and more 2 a + 2 b",
    ]


def test_a_manifest_among_others_is_read_with_its_annotations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = MANIFEST.replace("DOCUMENT", BARE).replace("PAUSED", "true")
    assert (
        main(
            [
                "plan",
                written(tmp_path, "rule.yaml", manifest),
                "--held",
                "group0=1",
                "-o",
                "json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["groups"]["group0"]["reasons"] == {"Paused": 1}


def test_the_rule_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    standard_input(monkeypatch, BARE)
    assert main(["plan", "-", "--held", "group0=1,group1=1"]) == 0
    assert "admit 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--running", "prefill=1"], "no ratio of the rule names group 'prefill'"),
        (["--running", "group0=-1"], "'-1' in 'group0=-1' is not a whole number"),
        (["--held", "group0=one"], "'one' in 'group0=one' is not a whole number"),
        (["--held", "group0=1000001"], "from 0 to 1000000"),
        (["--held", "group0=٣"], "is not a whole number"),
        (["--in-flight", "group0"], "'group0' is not GROUP=NUMBER"),
        (["--held", "group0=1,group0=2"], "counted twice"),
        (["--table", "--cases", "x"], "two different questions"),
        (["--table", "--held", "group0=1"], "leave them out"),
        (["--table", "-o", "json"], "use --cases"),
        (["--cases", "/nowhere/cases"], "No such file"),
        (["--replicas", "-1"], "'-1' is not a whole number from 0 to 1000000"),
        (["--replicas", "all"], "'all' is not a whole number"),
        (["--replicas", "2", "--table"], "--table shows what each means"),
        (["--replicas", "2", "--cases", "x"], 'say {"replicas": N}'),
    ],
)
def test_bad_arguments_are_usage_errors_that_say_what_to_write(
    rule: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", rule, *arguments]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "rule.json:1:"),
        ("", "rule.json"),
        (BARE.replace('"1.0",', '"1.0", # largest first'), "JSON has no"),
        ("kind: ConfigMap\ndata: {other: x}", "no key elastic_scaling.json; it has other"),
        ("kind: ConfigMap\ndata: [", "not YAML"),
        (
            MANIFEST.replace("DOCUMENT", BARE) + "---" + MANIFEST.replace("DOCUMENT", BARE),
            "this file has rule, rule",
        ),
        ("\x00", "rule.json"),
    ],
)
def test_a_bad_rule_is_told_with_place_and_cure(
    tmp_path: Path, content: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", written(tmp_path, "rule.json", content)]) == 1
    assert says in capsys.readouterr().err


def test_a_rule_file_that_cannot_be_read_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert main(["plan", str(tmp_path / "binary")]) == 1
    assert main(["plan", str(tmp_path / "absent")]) == 2
    errors = capsys.readouterr().err
    assert "not UTF-8" in errors
    assert "No such file" in errors


def test_cases_are_answered_line_by_line_and_bad_ones_say_why(
    rule: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        '{"held": {"group0": 1}}',
        "",
        '{"held": {"x": 1}}',
        '{"running": {"group0": -1}}',
        '{"hold": {}}',
        "[]",
    ]
    standard_input(monkeypatch, "\n".join(lines) + "\n")
    assert main(["plan", rule, "--cases", "-"]) == 1
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers[0]["groups"]["group0"]["admit"] == 1
    assert [answer["error"]["line"] for answer in answers[1:]] == [2, 3, 4, 5, 6]
    assert all(answer["error"]["message"] and answer["error"]["hint"] for answer in answers[1:])


def test_good_cases_from_a_file_exit_clean(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = written(tmp_path, "cases.jsonl", '{"running": {"group0": 1}}\n{}\n')
    assert main(["plan", rule, "--cases", cases]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_table_shows_every_state_of_the_ladder(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", rule, "--table"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]
    assert [row[:2] for row in rows] == [
        ["0", "0"],
        ["0", "1"],
        ["1", "0"],
        ["1", "1"],
        ["2", "0"],
        ["2", "1"],
    ]
    assert rows[3][2:5] == ["2+1", "1", "."]


def test_a_table_too_long_to_read_says_that_it_is_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = written(tmp_path, "big.json", BARE.replace('"group_num": "2"', '"group_num": "5000"'))
    assert main(["plan", big, "--table"]) == 0
    assert "cut: 200 of 10,002 states are shown" in capsys.readouterr().out


@pytest.mark.parametrize(("most", "said"), [("2", False), ("4", True)])
def test_the_table_names_the_mixtures_that_no_ratio_names(
    tmp_path: Path, most: str, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    big = written(tmp_path, "big.json", BARE.replace('"group_num": "2"', f'"group_num": "{most}"'))
    assert main(["plan", big, "--table"]) == 0
    said_line = (
        "2 combinations that no ratio names can run while instances are lost or find no room, such"
        " as 3"
        " group0 + 1 group1"
    )
    assert (said_line in capsys.readouterr().out.splitlines()) is said


COUNTS = st.dictionaries(
    st.sampled_from(("group0", "group1", "nobody")), st.integers() | st.floats() | st.text()
)
LINES = st.binary() | st.dictionaries(
    st.sampled_from(("running", "in_flight", "held", "x")), COUNTS
).map(lambda case: json.dumps(case).encode())


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES, max_size=4))
def test_whatever_the_lines_hold_each_gets_one_line_of_json(lines: list[bytes]) -> None:
    answered = list(answers(builders.rule("2P1D > 1P1D"), lines, paused=False))
    assert len(answered) == len(lines)
    for text, complaint in answered:
        assert text.count("\n") == 1
        assert ("error" in json.loads(text)) is complaint


def test_a_job_where_a_rule_is_asked_about_is_called_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(job())
    assert main(["plan", str(tmp_path / "job.yaml")]) == 1
    assert "no ConfigMap with elastic_scaling.json, but 1 AscendJob" in capsys.readouterr().err
