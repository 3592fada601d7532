"""Writes to stderr where every thread and task is: files, lines and functions, never values, so no
secrets."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import structlog

STILL = 5.0
"""Seconds without a turn of the loop after which all threads are written."""
PERIOD = 1.0
MOST = 200
"""Different stacks of tasks that are written at most."""
_DEEPEST = 30
_LEAVE = 5.0
"""Seconds for the watching thread to end."""
_log = structlog.get_logger("stacks")


def write_on(number: signal.Signals) -> None:
    """Write all threads and all tasks of this loop on each signal `number`: the threads between
    two steps of the main thread, the tasks as soon as the loop runs."""
    loop = asyncio.get_running_loop()

    def write(_number: int, _frame: FrameType | None) -> None:
        _write(threads())
        loop.call_soon_threadsafe(lambda: _write(tasks()))

    signal.signal(number, write)
    # So that a system call of the main thread goes on, and none ends with an error.
    signal.siginterrupt(number, False)


async def watch() -> None:
    """Write all threads while this loop is blocked, and log for how long it was, until
    cancelled."""
    loop = asyncio.get_running_loop()
    turns = _Turns()
    with _watched(turns):
        while True:
            turns.count += 1
            began = loop.time()
            await asyncio.sleep(PERIOD)
            still = loop.time() - began - PERIOD
            if still > STILL - PERIOD:
                _log.warning("loop stood still", seconds=round(still, 1), threads="on stderr")


class _Turns:
    """How often the loop has turned, for the thread that watches it."""

    def __init__(self) -> None:
        self.count = 0
        self.over = threading.Event()


@contextlib.contextmanager
def _watched(turns: _Turns) -> Iterator[None]:
    """A thread writes all threads once when the loop does not turn for STILL seconds, each time.

    A thread of Python and not `faulthandler.dump_traceback_later`: that one walks the frames of
    running threads without the interpreter's lock, and now and then ends the process with
    SIGSEGV. The price: while C code keeps the lock, nothing is written until it lets go."""
    thread = threading.Thread(target=_write_when_still, args=(turns,), name="stacks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        turns.over.set()
        thread.join(_LEAVE)


def _write_when_still(turns: _Turns) -> None:
    seen = turns.count
    while not turns.over.wait(STILL):
        if turns.count == seen:
            _write(f"The loop has not turned for {STILL:g} s.\n{threads()}")
            if not _turned(turns, seen):
                return
        seen = turns.count


def _turned(turns: _Turns, seen: int) -> bool:
    """Whether the loop turns again. False at the end."""
    while turns.count == seen:
        if turns.over.wait(PERIOD):
            return False
    return True


def _write(text: str) -> None:
    """To stderr, or nowhere: a process in trouble does not end for what it cannot say."""
    stream: TextIO | None = sys.stderr
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=stream, end="", flush=True)


def threads() -> str:
    """All threads, as text, the most recent call first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lines = []
    for ident, frame in sys._current_frames().items():
        lines.append(f"Thread {names.get(ident, ident)} (most recent call first):")
        for place, line in _calls(frame):
            code = place.f_code
            lines.append(f'  File "{code.co_filename}", line {line} in {code.co_name}')
    return "\n".join(lines) + "\n"


def _calls(frame: FrameType) -> list[tuple[FrameType, int]]:
    """The calls of a thread from the innermost outwards, each with its line."""
    found = list(traceback.walk_stack(frame))
    return found[:_DEEPEST]


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
