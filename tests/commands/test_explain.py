"""`scaler explain` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from scaler.cli import main
from scaler.decide.minimums.rulings import Fate, applied
from scaler.decide.planner import plan
from scaler.decide.world import Reason
from scaler.report.recorded import recorded
from scaler.rules.rule import Rule
from tests.builders import service

RECORDED = msgspec.json.encode(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"))


def written(folder: Path, content: bytes) -> str:
    (folder / "snapshot.json").write_bytes(content)
    return str(folder / "snapshot.json")


def test_every_instance_of_the_snapshot_gets_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--snapshot", written(tmp_path, RECORDED)]) == 0
    text = capsys.readouterr().out
    assert "default/rule/mindie: ratio 1 (1 group0 + 1 group1), waits for group1 (0 of 1 running)" in text
    assert "p1  Held (WaitingForRatio)" in text
    assert "d0  Admitted (WaitingForScheduler)" in text


def test_an_indented_snapshot_and_json_lines_are_both_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--snapshot", written(tmp_path, msgspec.json.format(RECORDED, indent=2))]) == 0
    once = capsys.readouterr().out
    assert main(["explain", "--snapshot", written(tmp_path, RECORDED + b"\n\n" + RECORDED + b"\n")]) == 0
    assert capsys.readouterr().out == once * 2


def test_json_answer_holds_the_plan_and_the_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--snapshot", written(tmp_path, RECORDED), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["plan"]["actions"] == [{"action": "Admit", "uid": "uid-d0"}]
    assert "waits for group1" in answer["words"]["uid-p1"]


def test_what_the_arbitration_made_of_it_is_shown_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = service("2P1D > 1P1D", "p0 Running, d0 Held")
    made = plan(alone)[0]
    why = Reason.MINIMUM_DOES_NOT_FIT, ("needs 1 node with 8 free NPUs, 0 there",)
    weighed = applied(alone, made, {"uid-d0": (Fate.HELD, why)})
    file = written(tmp_path, msgspec.json.encode(recorded(alone, weighed)))
    assert main(["explain", "--snapshot", file]) == 0
    before, _, after = capsys.readouterr().out.partition("weighed against the other services:\n")
    assert "  d0  Admitted (WaitingForScheduler)" in before
    assert after.startswith("  d0  Held (MinimumDoesNotFit): ")
    assert ("needs 1 node with 8 free NPUs, 0 there" in after, "p0" in after) == (True, False)
    assert main(["explain", "--snapshot", file, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert ([a["uid"] for a in answer["plan"]["actions"]], answer["together"]["actions"]) == (["uid-d0"], [])
    assert "does not fit" in answer["together_words"]["uid-d0"]


def test_where_the_arbitration_changed_nothing_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = service("2P1D > 1P1D", "p0 Running, d0 Held")
    file = written(tmp_path, msgspec.json.encode(recorded(alone, plan(alone)[0])))
    assert main(["explain", "--snapshot", file]) == 0
    assert "weighed against the other services: nothing changes\n" in capsys.readouterr().out


NO_RATIOS = msgspec.json.encode(msgspec.structs.replace(service("1P", ""), rule=Rule(())))
NEWER = RECORDED.replace(b'"format":1', b'"format":2')


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b"not json", b"[" * 100_000, NO_RATIOS, NEWER])
def test_what_is_no_snapshot_is_said_and_never_raises(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--snapshot", written(tmp_path, content)]) == 1
    assert "not a recorded snapshot" in capsys.readouterr().err


def test_a_bad_line_does_not_hide_the_good_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--snapshot", written(tmp_path, b"{}\n" + RECORDED)]) == 1
    output = capsys.readouterr()
    assert "snapshot.json:1: not a recorded snapshot" in output.err
    assert "p1  Held (WaitingForRatio)" in output.out


def test_a_missing_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--snapshot", str(tmp_path / "absent")]) == 1
    assert "No such file" in capsys.readouterr().err
