"""The page on a simulated cluster: `demo --ui`, `simulate --ui`, and the loop on which time goes
faster."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import aiohttp
import pytest

from scaler.cli import main
from scaler.tools.simulate.watched import LEAP, PacedLoop
from tests.page.browser import command

STORY = "tests/scenarios/start-degrade-climb.yaml"


STORIES = [("demo", "--ui"), ("simulate", STORY, "--ui", "--speed", "20")]


@pytest.mark.parametrize("arguments", STORIES, ids=lambda one: one[0])
async def test_a_story_is_shown_live(arguments: tuple[str, ...], tmp_path: Path) -> None:
    def opened() -> tuple[str, str]:
        where, _, token = running.__enter__().partition("/#token=")
        return where, token

    running = command(*arguments, log=tmp_path / "log")
    where, token = await asyncio.to_thread(opened)
    try:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{where}/api/watch?view=services"
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(url) as answer,
            asyncio.timeout(120),
        ):
            async for line in answer.content:
                rows = json.loads(line).get("services", {}).get("set", {})
                if any(row["current"] == 0 for row in rows.values()):
                    break
            else:
                raise AssertionError("the stream ended")
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


def test_so_many_seconds_pass_in_one() -> None:
    with asyncio.Runner(loop_factory=lambda: PacedLoop(100.0)) as runner:
        began = time.monotonic()
        runner.run(asyncio.sleep(30))
        assert time.monotonic() - began < 15


def test_time_does_not_leap_over_what_takes_long() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        time.sleep(0.2)  # noqa: ASYNC251 - a machine that is too slow
        await asyncio.sleep(0)
        return loop.time() - began

    with asyncio.Runner(loop_factory=lambda: PacedLoop(100.0)) as runner:
        assert runner.run(story()) <= 3 * LEAP


@pytest.mark.parametrize("speed", ["0", "-1", "1000", "x", "nan", "inf"])
def test_a_speed_that_cannot_be_is_a_usage_error(
    speed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", STORY, "--ui", "--speed", speed]) == 2
    assert "is no speed" in capsys.readouterr().err
