"""`scaler run` before it reaches any cluster: what is wrong is said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scaler import cli


def test_a_kubeconfig_that_is_not_there_is_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "nowhere")
    assert cli.main(["run", "--kubeconfig", missing]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert missing in json.loads(line)["error"]
    assert "exception" not in json.loads(line)


def test_a_setting_that_is_wrong_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--broken-grace", "-5"]) == 2
    assert "--broken-grace" in capsys.readouterr().err
