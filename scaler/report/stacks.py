"""Writes to stderr where every thread and task is: files, lines and functions, never values, so no
secrets."""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import structlog

STILL = 5.0
"""Seconds without a turn of the loop after which all threads are written."""
PERIOD = 1.0
MOST = 200
"""Different stacks of tasks that are written at most."""
_DEEPEST = 30
_log = structlog.get_logger("stacks")


def write_on(number: signal.Signals) -> None:
    """Write all threads and all tasks of this loop on each signal `number`; the tasks as soon as
    the loop runs."""
    stream = sys.__stderr__ or sys.stdout
    asyncio.get_running_loop().add_signal_handler(
        number, lambda: print(tasks(), file=stream, end="", flush=True)
    )
    faulthandler.register(number, file=sys.__stderr__ or 2, all_threads=True, chain=True)


async def watch() -> None:
    """Write all threads while this loop is blocked, and log for how long it was, until
    cancelled."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            faulthandler.dump_traceback_later(STILL, file=sys.__stderr__ or 2)
            began = loop.time()
            await asyncio.sleep(PERIOD)
            still = loop.time() - began - PERIOD
            if still > STILL - PERIOD:
                _log.warning("loop stood still", seconds=round(still, 1), threads="on stderr")
    finally:
        faulthandler.cancel_dump_traceback_later()


def tasks() -> str:
    """All tasks of this loop, as text; tasks that wait at the same place are one entry."""
    places = Counter(_place(task) for task in asyncio.all_tasks())
    lines = [f"{count} x {place}" for place, count in places.most_common(MOST)]
    left_out = [f"... and {len(places) - MOST} other places"] if len(places) > MOST else []
    return "\n".join([f"{places.total()} tasks (outermost call first):", *lines, *left_out]) + "\n"


def _place(task: asyncio.Task[Any]) -> str:
    """Coroutine by coroutine, from the one of the task to the one that waits."""
    calls: list[str] = []
    inner: Any = task.get_coro()
    while inner is not None and len(calls) < _DEEPEST:
        frame = _first_attribute(inner, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            code = frame.f_code
            calls.append(
                f"{'/'.join(Path(code.co_filename).parts[-2:])}:{frame.f_lineno} {code.co_qualname}"
            )
        inner = _first_attribute(inner, "cr_await", "gi_yieldfrom", "ag_await")
    return " > ".join(calls) or "not begun"


def _first_attribute(of: Any, *names: str) -> Any:
    for name in names:
        found = getattr(of, name, None)
        if found is not None:
            return found
    return None
