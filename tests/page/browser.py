"""A real Chromium for tests, where there is one, and `scaler ui` in a process of its own.

The fixture `chromium` is its plugin for pytest: tests that take it are left out where there is none, with a line.
"""

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
from typing import Any

import pytest

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


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """They belong to `make test-rest`: a browser is a program of others."""
    wanted = [item for item in items if isinstance(item, pytest.Function) and "chromium" in item.fixturenames]
    for item in wanted:
        item.add_marker(pytest.mark.long("a browser"))
        item.add_marker(pytest.mark.flaky(reruns=1))
        if "plane" not in item.fixturenames:  # these stay with their plane
            item.add_marker(pytest.mark.xdist_group("browser"))
    if wanted and not program():
        config.hook.pytest_deselected(items=wanted)
        items[:] = [item for item in items if item not in set(wanted)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"browser: {program() or 'none, the tests of the page in a browser were not run'}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Playwright's Browser. Its loop runs, so no test of asyncio can: it ends with its module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        yield browser
        browser.close()
