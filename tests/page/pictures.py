"""Pictures of the page for the documents: a simulated cluster that has lost some nodes, in Chromium.

make page-pictures          writes docs/pictures/page-*.png
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.page.browser import ROOT, command, program

STORY = ROOT / "tests" / "page" / "pictures.yaml"
SPEED = 15
MOMENT = 300.0
"""Seconds of the story at which the pictures are taken."""
CHAT = "#/service/chat-1%2Fscaling-rule%2Fmindie"
PICTURES = (
    # name, part, what must be there, height, language, theme
    ("services", "#/", ".row", 760, "en", "light"),
    ("services-zh", "#/", ".row", 760, "zh", "dark"),
    ("service", CHAT, ".chart path.run", 1160, "en", "light"),
    ("service-zh", CHAT, ".chart path.run", 1160, "zh", "dark"),
    ("cluster", "#/cluster", ".line.nodes", 1000, "en", "dark"),
    ("cluster-zh", "#/cluster", ".line.nodes", 1000, "zh", "light"),
)


def main(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as logs, sync_playwright() as driver:
        log = Path(logs) / "log"
        with command("simulate", str(STORY), "--ui", "--speed", str(SPEED), "--seed", "1", log=log) as address:
            browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
            wait(browser, address)
            for name, part, ready, height, language, theme in PICTURES:
                take(browser, address, folder / f"page-{name}.png", (part, ready, height, language, theme))
            browser.close()


def wait(browser: Any, address: str) -> None:
    """Until the story is where the pictures are to be taken: so long after the first service was seen."""
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector(".row", timeout=120_000)
    began = page.evaluate("() => window.scalerPage.now()")
    page.wait_for_function(f"() => window.scalerPage.now() > {began + MOMENT}", timeout=600_000)
    page.close()


def take(browser: Any, address: str, path: Path, what: tuple[str, str, int, str, str]) -> None:
    part, ready, height, language, theme = what
    locale = "zh-CN" if language == "zh" else "en-GB"
    viewport = {"width": 1240, "height": height}
    context = browser.new_context(viewport=viewport, locale=locale, color_scheme=theme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(address.replace("/#", f"/{part}&", 1))
    page.wait_for_selector(ready, timeout=60_000)
    page.wait_for_timeout(800)
    page.screenshot(path=path)
    print(path, path.stat().st_size)
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
