"""A real Chromium for tests, where there is one, and `scaler ui` in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str:
    """Of Chromium: $CHROMIUM, else the one on the path; "" where there is none, or nothing to drive it."""
    if importlib.util.find_spec("playwright") is None:
        return ""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")


@contextmanager
def command(*arguments: str, log: Path) -> Iterator[str]:
    """A command that prints the address of a page, as long as the context lasts; gives the address."""
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "scaler", *arguments], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"http://\S+#token=\S+", log.read_text())
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(log.read_text())
