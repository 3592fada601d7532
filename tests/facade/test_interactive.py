"""The interactive demo as a new user meets it: a kubeconfig is printed, kubectl moves the service,
Ctrl-C ends it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
KUBECTL = Path(sys.executable).parent / "kubectl"
PATIENCE = 60.0


class Demo:
    """A running `scaler demo --interactive`."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "demo.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scaler", "demo", "--interactive"],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self.kubeconfig = self.until(lambda: self._printed(r"KUBECONFIG=(\S+)"))

    def _printed(self, pattern: str) -> str:
        found = re.search(pattern, self._log.read_text())
        return found[1] if found else ""

    def kubectl(self, *arguments: str, **environment: str) -> str:
        ran = subprocess.run(
            [KUBECTL, "--kubeconfig", self.kubeconfig, *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return ran.stdout + ran.stderr

    def until(self, see) -> str:  # type: ignore[no-untyped-def]
        """Ask again until the answer is not empty: the demo runs in real time."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            seen = see()
            if seen:
                return str(seen)
            time.sleep(0.2)
        raise AssertionError(self._log.read_text())

    def shows(self, *arguments: str, words: str) -> str:
        return self.until(lambda: words in (seen := self.kubectl(*arguments)) and seen)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    running = Demo(tmp_path)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def editor(folder: Path, expression: str) -> str:
    """An EDITOR that changes the file as a person would."""
    script = folder / "editor"
    script.write_text(f"#!/bin/sh\nsed -i '{expression}' \"$1\"\n")
    script.chmod(0o755)
    return str(script)


STATUS = ("describe", "esvc", "scaling-rule-mindie")


def test_a_new_user_edits_the_rule_and_sees_the_service_move(demo: Demo, tmp_path: Path) -> None:
    demo.shows("get", "esvc", words="Complete")
    assert "Running" in demo.kubectl("get", "acjob")
    smaller = editor(tmp_path, 's/"group_num": *"2"/"group_num": "1"/')
    assert "edited" in demo.kubectl("edit", "configmap", "scaling-rule", EDITOR=smaller)
    demo.shows(*STATUS, words="SurplusRunning")
    typo = editor(tmp_path, 's/"version"/version/')
    assert "edited" in demo.kubectl("edit", "configmap", "scaling-rule", EDITOR=typo)
    assert "last valid rule" in demo.shows(*STATUS, words="RuleInvalid")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(timeout=PATIENCE) == 0
