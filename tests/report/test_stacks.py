"""What a process in trouble says of itself: where it is, and nothing of what it holds."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

from scaler.report import stacks

PROGRAM = """
import asyncio, os, signal, sys, threading, time
from scaler.report import stacks

def burn():
    while True:
        deep(50)

def deep(calls):
    return deep(calls - 1) if calls else [str(n) for n in range(20)]

async def holds(secret):
    await asyncio.Event().wait()

async def main():
    stacks.STILL = {still}
    stacks.PERIOD = stacks.STILL / 5
    stacks.write_on(signal.SIGUSR2)
    waiting = [asyncio.create_task(holds("hunter" + str(2))) for _ in range(3)]
    watching = asyncio.create_task(stacks.watch())
    await asyncio.sleep(0.2)
    {what}
    await asyncio.sleep(0.3)

asyncio.run(main())
"""


def said(what: str, *, still: float = 60.0) -> tuple[str, str]:
    """Output and errors of a program in which this happens. `still`: stacks.STILL."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("{what}", what).replace("{still}", str(still))],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout, done.stderr


def test_a_signal_writes_down_threads_and_tasks_without_values() -> None:
    _, errors = said("os.kill(os.getpid(), signal.SIGUSR2)")
    assert "(most recent call first)" in errors
    assert "5 tasks" in errors
    assert "3 x <string>:13 holds > asyncio/locks.py" in errors
    assert "hunter" not in errors


def test_a_loop_that_stands_still_is_written_down_and_logged_when_it_turns_again() -> None:
    output, errors = said("time.sleep(1)", still=0.3)
    assert errors.startswith("The loop has not turned for 0.3 s.")
    assert 'File "<string>", line 22 in main' in errors
    assert "loop stood still" in output


BUSY = """[threading.Thread(target=burn, daemon=True).start() for _ in range(3)]
    for _ in range(60):
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            deep(50)
        await asyncio.sleep(0.03)"""


def test_to_write_busy_threads_down_ends_no_process() -> None:
    """Without the interpreter's lock about one in twenty ended it with SIGSEGV."""
    _, errors = said(BUSY, still=0.05)
    written = errors.count("The loop has not turned")
    assert written > 20
    assert errors.count(" in burn") > written


def test_a_loop_that_turns_is_not_spoken_of() -> None:
    assert said("pass") == ("", "")


async def _reads() -> None:
    await _waits()


async def _waits() -> None:
    await asyncio.Event().wait()


async def test_a_task_is_shown_down_to_where_it_waits() -> None:
    reading = [asyncio.create_task(_reads()) for _ in range(2)]
    await asyncio.sleep(0)
    shown = stacks.tasks()
    for task in reading:
        task.cancel()
    (line,) = [line for line in shown.splitlines() if "_reads" in line]
    assert re.fullmatch(
        r"2 x report/test_stacks.py:\d+ _reads > report/test_stacks.py:\d+ _waits > asyncio/.*",
        line,
    )
