"""pytest and the browser: the `chromium` fixture. Tests that take it are left out where there is none, with a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.page.browser import program


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
