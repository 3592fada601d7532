"""Pictures of the page for the documents: a simulated cluster that has lost some nodes, in
Chromium.

make page-pictures          writes docs/pictures/page-*.png"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.page.browser import ROOT, command, program

STORY = ROOT / "tests" / "page" / "pictures.yaml"
MOMENT = 300.0
"""Seconds of the story at which the pictures are taken."""
CHAT = "#/service/chat-1%2Fscaling-rule%2Fmindie"
PICTURES = (
    # name, part, what must be there, height, theme in English and in Chinese
    ("services", "#/", ".row", 760, "light", "dark"),
    ("service", CHAT, ".chart path.run", 1160, "light", "dark"),
    ("cluster", "#/cluster", ".line.nodes", 1000, "dark", "light"),
)

MADE_OF = ROOT / "docs" / "pictures" / "page-pictures.sha256"
"""What the pictures were made of: digests of the files of the page and of the story."""


def sources() -> str:
    """The digests of what the pictures show now, one file on a line."""
    static = ROOT / "scaler" / "tools" / "ui" / "static"
    files = [STORY, *(file for file in static.iterdir() if file.is_file())]
    lines = []
    for file in sorted(files):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        lines.append(f"{digest}  {file.relative_to(ROOT)}")
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as logs, sync_playwright() as driver:
        log = Path(logs) / "log"
        with command(
            "simulate", str(STORY), "--ui", "--speed", "15", "--seed", "1", log=log
        ) as address:
            browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
            wait(browser, address)
            for name, part, ready, height, *themes in PICTURES:
                for locale, ending, theme in zip(
                    ("en-GB", "zh-CN"), ("", "-zh"), themes, strict=True
                ):
                    look = {
                        "locale": locale,
                        "color_scheme": theme,
                        "viewport": {"width": 1240, "height": height},
                    }
                    path = folder / f"page-{name}{ending}.png"
                    take(browser, address.replace("/#", f"/{part}&", 1), ready, look, path)
            browser.close()
    if folder == MADE_OF.parent:
        MADE_OF.write_text(sources())


def wait(browser: Any, address: str) -> None:
    """Until the story is where the pictures are to be taken: so long after the first service was
    seen."""
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector(".row", timeout=120_000)
    began = page.evaluate("() => window.scalerPage.now()")
    page.wait_for_function(f"() => window.scalerPage.now() > {began + MOMENT}", timeout=600_000)
    page.close()


def take(browser: Any, address: str, ready: str, look: dict[str, Any], path: Path) -> None:
    context = browser.new_context(**look, reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(ready, timeout=60_000)
    page.wait_for_timeout(800)
    page.screenshot(path=path)
    print(path, path.stat().st_size)
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
