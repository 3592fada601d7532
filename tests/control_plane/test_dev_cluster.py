"""The cluster for people: it says how to use it, serves kubectl, and is gone afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.control_plane.plane import kubectl_path
from tests.control_plane.stage import EXAMPLE

_ROOT = Path(__file__).parents[2]


@pytest.mark.long("a cluster of its own, as a person starts it")
def test_a_person_can_play_with_the_product(programs_needed: None, tmp_path: Path) -> None:
    log = tmp_path / "dev-cluster.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.control_plane.dev_cluster"],
            cwd=_ROOT,
            stdout=output,
            stderr=output,
        )
    try:
        kubeconfig = Path(_wait_for(log, r"KUBECONFIG=(\S+)"))
        _kubectl(kubeconfig, "apply", "-f", str(EXAMPLE))
        running = ("wait", "--for=condition=Running", "--timeout=60s", "--namespace", "mindie")
        _kubectl(kubeconfig, *running, "ascendjob/mindie-server-p1", "ascendjob/mindie-server-d0")
        columns = _kubectl(kubeconfig, "get", "ascendjobs", "--namespace", "mindie")
        text = _kubectl(kubeconfig, "get", "esvc", "--namespace", "mindie")
    finally:
        process.send_signal(signal.SIGINT)
        exit_code = process.wait(30)
    assert re.search(r"mindie-server-d0 +Running", columns)
    assert re.search(r"scaling-rule-mindie +2P1D +2P1D +all +True +ok +Complete", text)
    assert exit_code == 0, log.read_text()
    assert not kubeconfig.parent.exists()


def _kubectl(kubeconfig: Path, *arguments: str) -> str:
    command = [kubectl_path(), "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    ).stdout


def _wait_for(log: Path, pattern: str) -> str:
    for _ in range(600):
        if found := re.search(pattern, log.read_text()):
            return found[1]
        time.sleep(0.2)
    raise AssertionError(log.read_text())
