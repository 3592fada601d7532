"""`scaler explain` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from scaler.cli import main
from scaler.decide.world import ServiceKey
from scaler.rules.rule import Rule
from tests.builders import service, world

RECORDED = msgspec.json.encode(world(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held")))
OTHER = service("1P", "p0 Running", key=ServiceKey("default", "rule", "other"))
TWO = msgspec.json.encode(world(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Held"), OTHER))


def written(folder: Path, content: bytes) -> str:
    (folder / "world.json").write_bytes(content)
    return str(folder / "world.json")


def test_every_instance_of_the_world_gets_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--world", written(tmp_path, RECORDED)]) == 0
    text = capsys.readouterr().out
    assert "default/rule-mindie: 1 group0 + 1 group1, waits for group1 (0 of 1 running)" in text
    assert "p1  Held (WaitingForRatio)" in text
    assert "d0  Admitted (WaitingForScheduler)" in text


def test_an_indented_world_and_json_lines_are_both_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["explain", "--world", written(tmp_path, msgspec.json.format(RECORDED, indent=2))])
        == 0
    )
    once = capsys.readouterr().out
    assert (
        main(["explain", "--world", written(tmp_path, RECORDED + b"\n\n" + RECORDED + b"\n")]) == 0
    )
    assert capsys.readouterr().out == once * 2


def test_json_answer_holds_the_decision_and_the_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--world", written(tmp_path, RECORDED), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["decision"]["plans"][0]["actions"] == [{"action": "Admit", "uid": "uid-d0"}]
    assert "waits for group1" in answer["words"]["default/rule/mindie"]["uid-p1"]


def test_one_service_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, TWO)
    assert main(["explain", "--world", file]) == 0
    assert "default/rule-mindie: " in capsys.readouterr().out
    assert main(["explain", "--world", file, "--service", "default/rule/other"]) == 0
    text = capsys.readouterr().out
    for name in ("default/rule-other", "default/rule/other"):
        assert main(["explain", "--world", file, "--service", name]) == 0
        assert "default/rule-other: " in capsys.readouterr().out
    assert ("default/rule-other: " in text, "default/rule-mindie" in text) == (True, False)
    assert main(["explain", "--world", file, "--service", "default/rule/other", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["key"]["job_id"] == "other"


def test_a_service_that_is_not_in_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["explain", "--world", written(tmp_path, TWO), "--service", "default/rule/nobody"])
        == 1
    )
    told = capsys.readouterr().err
    assert (
        "no service default/rule/nobody in it; it has 2: default/rule-mindie, default/rule-other"
        in told
    )


def test_that_each_service_decides_alone_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = world(OTHER, alone="the nodes may not be read")
    assert main(["explain", "--world", written(tmp_path, msgspec.json.encode(alone))]) == 0
    assert capsys.readouterr().out.startswith(
        "each service decides alone: the nodes may not be read\n"
    )


NO_RATIOS = msgspec.json.encode(world(service(Rule(()), "")))
OLDER = RECORDED.replace(b'"format":2', b'"format":1')
TWICE = msgspec.json.encode(world(OTHER, OTHER))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff", b"not json", b"[" * 100_000, NO_RATIOS, OLDER, TWICE]
)
def test_what_is_no_world_is_said_and_never_raises(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--world", written(tmp_path, content)]) == 1
    assert "not a recorded world" in capsys.readouterr().err


def test_a_bad_line_does_not_hide_the_good_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--world", written(tmp_path, b"{}\n" + RECORDED)]) == 1
    output = capsys.readouterr()
    assert "world.json:1: not a recorded world" in output.err
    assert "p1  Held (WaitingForRatio)" in output.out


def test_a_missing_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--world", str(tmp_path / "absent")]) == 2
    assert "No such file" in capsys.readouterr().err
