"""`scaler simulate` and `scaler demo` as users run them: exit codes, text, JSON, picture, recorded
snapshots."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.cli import main

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "tests" / "scenarios" / "cold-start.yaml"


def scenario_that_fails(folder: Path) -> Path:
    path = folder / "s.yaml"
    text = SCENARIO.read_text().replace("../../manifests", str(ROOT / "manifests"))
    path.write_text(text.replace("complete: true}", "complete: false}"))
    return path


def test_a_scenario_that_does_what_it_expects_exits_0_and_tells_the_story(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", str(SCENARIO)]) == 0
    said = capsys.readouterr().out
    assert "mindie-server-p1 WaitingForRatio" in said
    assert "running group0=2 group1=1, target group0=2 group1=1, complete" in said
    assert "FAILED" not in said


def test_a_scenario_that_does_not_exits_1_and_says_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(scenario_that_fails(tmp_path))]) == 1
    assert (
        "FAILED within 30 s of the start: running group0=2 group1=1, not complete"
        in capsys.readouterr().out
    )


def test_a_file_that_is_no_scenario_exits_2_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("nodes: [{}]\nuntill: 5m\n")
    assert main(["simulate", str(path)]) == 2
    assert f"{path}:2:1: untill: unknown key" in capsys.readouterr().err


def test_json_picture_and_snapshots_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "p.svg"
    folder = tmp_path / "snapshots"
    options = ["-o", "json", "--picture", str(picture), "--record", str(folder)]
    assert main(["simulate", str(SCENARIO), *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    assert answer["services"]["mindie/scaling-rule/mindie"][-1]["running"] == {
        "group0": 2,
        "group1": 1,
    }
    assert picture.read_text().startswith("<svg")
    assert main(["explain", "--world", str(max(folder.iterdir()))]) == 0


def test_the_same_story_without_arbitration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ROOT / "docs" / "scenarios" / "removed.yaml"
    picture = tmp_path / "picture.svg"
    assert main(["simulate", str(file), "--no-arbitration", "--picture", str(picture)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("Alone: Eight services")
    assert "but at 300 s: 2 services serve" in told
    assert ">Alone: Eight services" in picture.read_text()


def test_simulate_needs_no_kubernetes_client_and_no_http() -> None:
    code = (
        "import sys; from scaler.cli import main; "
        f"assert main(['simulate', {str(SCENARIO)!r}]) == 0; "
        "assert not {'kubernetes_asyncio', 'aiohttp'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_demo_reaches_its_end_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "2P0D serves nobody" in said
    assert "complete at group0=2 group1=1" in said
    assert "\x1b[" not in said
