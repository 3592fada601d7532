"""The page at 10,000 instances: how long until something is to be seen, and until a change is.

    python -m tests.bench.bench_page [SERVICES]

A simulated API server with 1,000 services of ten instances each (10,000 pods, 10,000 nodes) over
HTTP, `scaler ui` and Chromium, each in its own process. Milliseconds, as a person would see them:

* `started`: from the start of `scaler ui` until the page has a list, the browser opening as soon as
  it has the address;
* `first view`: from opening the page until it has a list, with `scaler ui` up; of each view;
* `change`: from the write at the API server until the page says it, median and worst."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.page.browser import ROOT, command, program

CHANGES = 20
LIST = "() => document.querySelectorAll('.rows .row').length > 5"
NODES = (
    "() => document.querySelectorAll('.kind').length > 0 &&"
    " document.querySelectorAll('.line.nodes').length > 5"
)
SERVICE = "() => document.querySelectorAll('.line.instances').length > 5"
SEEN = """text => new Promise(done => {
  const look = () => {
    if (document.body.innerText.includes(text)) { done(Date.now()); return true; }
  };
  if (!look()) {
    const watcher = new MutationObserver(() => { if (look()) watcher.disconnect(); });
    watcher.observe(document.body, {subtree: true, childList: true, characterData: true});
  }
})"""

SEEN_IN_NODES = SEEN.replace(
    "document.body.innerText", "(document.querySelector('.line.nodes')?.innerText || '')"
)

VIEWS = (
    ("list", "", LIST),
    ("service", "#/service/team-0007%2Frule%2Fmindie", SERVICE),
    ("cluster", "#/cluster", NODES),
)


def main(services: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "kubeconfig"
        cluster = subprocess.Popen(
            [sys.executable, "-m", "tests.page.many_services", str(services), str(config)],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert cluster.stdout is not None
            assert cluster.stdout.readline().strip() == "ready"
            asyncio.run(measure(services, config, cluster))
        finally:
            cluster.kill()
            cluster.wait()


async def measure(services: int, config: Path, cluster: subprocess.Popen[str]) -> None:
    from playwright.async_api import async_playwright

    began = time.time()
    with command("ui", "--kubeconfig", str(config), log=config.with_name("log")) as address:
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
            tell("address printed", (time.time() - began) * 1000)
            page = await browser.new_page()
            await page.goto(address)
            await page.wait_for_function(LIST, timeout=120_000)
            tell(f"started, {services} services", (time.time() - began) * 1000)
            await page.wait_for_function("() => !window.scalerPage.head.reading", timeout=120_000)
            tell("everything read", (time.time() - began) * 1000)
            for name, part, shown in VIEWS:
                took = await first_views(browser, address, part, shown)
                tell(f"first view: {name}, median", statistics.median(took))
                tell(f"first view: {name}, worst of {len(took)}", max(took))
            await page.bring_to_front()
            await fail_nodes(page, cluster)
            for name, part in (
                ("list", "#/"),
                ("service", f"#/service/team-{services // 2:04d}%2Frule%2Fmindie"),
            ):
                await changes(page, cluster, name, part, services // 2)
            await browser.close()


async def first_views(browser: Any, address: str, part: str, shown: str) -> list[float]:
    took = []
    for _ in range(5):
        page = await browser.new_page()
        began = time.time()
        await page.goto(address.replace("/#", f"/{part or '#/'}&", 1) if part else address)
        await page.wait_for_function(shown, timeout=60_000)
        took.append((time.time() - began) * 1000)
        await page.close()
    return took


async def changes(
    page: Any, cluster: subprocess.Popen[str], name: str, part: str, number: int
) -> None:
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    await page.evaluate("to => { location.hash = to; }", part)
    await page.wait_for_timeout(3000)
    if name == "list":  # the row has to be in sight
        await page.fill("input[type=search]", f"team-{number:04d}")
    took = []
    for turn in range(CHANGES):
        words = f"flip {number} {name}-{turn}-end"
        seen = asyncio.ensure_future(page.evaluate(SEEN, words))
        await asyncio.sleep(0.2)
        cluster.stdin.write(f"{words}\n")
        cluster.stdin.flush()
        written = float(await asyncio.to_thread(cluster.stdout.readline))
        took.append(await asyncio.wait_for(seen, 30) - written * 1000)
        await asyncio.sleep(0.3)
    tell(f"change: {name}, median", statistics.median(took))
    tell(f"change: {name}, worst of {CHANGES}", max(took))


async def fail_nodes(page: Any, cluster: subprocess.Popen[str]) -> None:
    """One after the other, on the view of the cluster."""
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    await page.evaluate("() => { location.hash = '#/cluster'; }")
    await page.wait_for_timeout(3000)
    took = []
    for number in range(10):
        row = f"npu-{number:05d}"
        await page.fill(".card input[type=search]", row)
        seen = asyncio.ensure_future(page.evaluate(SEEN_IN_NODES, "NotReady"))
        await asyncio.sleep(0.5)
        cluster.stdin.write(f"node {number}\n")
        cluster.stdin.flush()
        written = float(await asyncio.to_thread(cluster.stdout.readline))
        took.append(await asyncio.wait_for(seen, 60) - written * 1000)
        await asyncio.sleep(0.5)
    tell("change: cluster, median", statistics.median(took))
    tell("change: cluster, worst of 10", max(took))


def tell(what: str, milliseconds: float) -> None:
    print(f"{what:36} {milliseconds:8.0f} ms", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
