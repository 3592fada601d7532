"""A real Chromium for tests, where there is one, and `scaler ui` in a process of its own.

The fixture `chromium` is its plugin for pytest: tests that take it are left out where there is
none, with a line."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from tests.control_plane.programs import Program

ROOT = Path(__file__).parent.parent.parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
_ADDRESS = re.compile(r"http://\S+#token=\S+")


def program() -> str:
    """Of Chromium: $CHROMIUM, else the one on the path; "" where there is none, or nothing to drive
    it."""
    if importlib.util.find_spec("playwright") is None:
        return ""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")


@contextmanager
def command(*arguments: str, log: Path) -> Iterator[str]:
    """A command that prints the address of a page, as long as the context lasts; gives the
    address."""
    words = [sys.executable, "-m", "scaler", *arguments]
    process = Program(
        log.stem,
        words,
        log.parent,
        {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    process.start()
    try:
        process.wait_for(lambda: bool(_ADDRESS.search(process.log.read_text())))
        yield _ADDRESS.findall(process.log.read_text())[0]
    finally:
        process.stop(SIGTERM)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """They belong to `make test-rest`: a browser is a program of others."""
    wanted = [
        item
        for item in items
        if isinstance(item, pytest.Function) and "chromium" in item.fixturenames
    ]
    for item in wanted:
        item.add_marker(pytest.mark.long("a browser"))
        item.add_marker(pytest.mark.flaky(reruns=1))
        if "plane" not in item.fixturenames:  # these stay with their plane
            item.add_marker(pytest.mark.xdist_group("browser"))
    if wanted and not program():
        config.hook.pytest_deselected(items=wanted)
        items[:] = [item for item in items if item not in set(wanted)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(
        f"browser: {program() or 'none, the tests of the page in a browser were not run'}"
    )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Playwright's Browser. Its loop runs, so no test of asyncio can: it ends with its module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        yield browser
        browser.close()
