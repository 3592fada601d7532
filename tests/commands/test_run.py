"""`scaler run` before it reaches any cluster: what is wrong is said in one line. Processes, for
logging is global."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def scaler_run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scaler", "run", *flags]
    return subprocess.run(
        command, cwd=ROOT, env={}, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_kubeconfig_that_is_not_there_is_one_line_that_names_it(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere")
    done = scaler_run("--kubeconfig", missing)
    (line,) = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert missing in json.loads(line)["error"]
    assert "exception" not in json.loads(line)


def test_a_setting_that_is_wrong_is_a_usage_error() -> None:
    done = scaler_run("--broken-grace", "-5")
    assert done.returncode == 2
    assert "--broken-grace" in done.stderr
