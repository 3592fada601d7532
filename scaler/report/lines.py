"""Lines of text for people to a file descriptor that may be full, closed, or read by nobody.

Whoever logs never waits and never fails. A thread writes the lines in their order. What cannot be
written is dropped and counted: a disk that is full, a pipe whose reader has gone, and what is above
MOST_BYTES while nobody reads a pipe. The next line that can be written is written."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable

MOST_BYTES = 4 * 2**20
"""Bytes that wait to be written; a line beyond them is dropped."""
LONGEST_BATCH = 64 * 2**10
"""Bytes that are written together at most: what a pipe takes at once."""
PATIENCE = 10.0
"""Seconds for which nothing could be written, after which that is said."""
RETRY = 0.1
"""Seconds before another try of a descriptor that takes nothing now and does not block."""


class LineWriter:
    """A stream as `structlog.WriteLogger`, `logging.StreamHandler` and `print` expect it. For any
    thread. `descriptor`: None = it was closed when the process began. `now`: seconds, for any
    thread."""

    encoding = "utf-8"

    def __init__(self, descriptor: int | None, name: str, now: Callable[[], float]) -> None:
        self._descriptor = descriptor
        self._now = now
        self.name = name
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._refused = "it is closed" if descriptor is None else ""
        """Why the last write failed; "" when it succeeded."""
        self._waits_since = 0.0
        """When the write began that goes on now, by `now`; 0.0 = none."""
        self._is_cut = False
        """The last line that was begun has no end: the next one begins with a line break."""
        self._is_over = False
        """`close` was called: the thread ends when nothing waits."""
        self._thread = threading.Thread(target=self._write_all, name=f"writes {name}", daemon=True)
        if descriptor is not None:
            self._thread.start()

    @property
    def dropped(self) -> int:
        """How many lines were not written since the start."""
        return self._dropped

    @property
    def problem(self) -> str:
        """Why lines are not written now; "" when they are."""
        began = self._waits_since
        waits = self._now() - began if began else 0.0
        why = self._refused
        if waits > PATIENCE:
            why = f"nobody has read it for {waits:.0f} s"
        if not why:
            return ""
        return f"{self.name} cannot be written, {why}; {self._dropped} lines lost"

    def write(self, text: str) -> int:
        """Have this written soon, or drop it. Returns its length, as streams do."""
        line = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if self._descriptor is None or self._bytes + len(line) > MOST_BYTES:
                self._dropped += text.count("\n")
            else:
                self._lines.append(line)
                self._bytes += len(line)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing to do: each line is written as soon as possible."""

    def isatty(self) -> bool:
        return False

    def close(self, seconds: float) -> None:
        """Write what waits, for so many seconds at most. Lines after that are dropped."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._bytes, seconds)
            self._descriptor = None

    def _write_all(self) -> None:
        """What the thread does until `close`."""
        while True:
            batch = self._next()
            if not batch:
                return
            self._write(batch)
            with self._changed:
                self._bytes -= len(batch)
                self._changed.notify_all()

    def _next(self) -> bytes:
        """The lines that wait, as far as they may be written together; none at the end."""
        with self._changed:
            while not self._lines and not self._is_over:
                self._changed.wait()
            batch = bytearray()
            while self._lines and (not batch or len(batch) + len(self._lines[0]) <= LONGEST_BATCH):
                batch += self._lines.popleft()
            return bytes(batch)

    def _write(self, batch: bytes) -> None:
        whole = b"\n" + batch if self._is_cut else batch
        left = memoryview(whole)
        self._waits_since = self._now()
        while left and self._descriptor is not None:
            try:
                left = left[os.write(self._descriptor, left) :]
                self._refused = ""
                self._waits_since = self._now()
            except BlockingIOError:
                with self._changed:
                    self._changed.wait(RETRY)
            except OSError as error:
                self._refused = error.strerror or str(error)
                break
        self._waits_since = 0.0
        written = whole[: len(whole) - len(left)]
        if written:
            self._is_cut = not written.endswith(b"\n")
        with self._changed:
            self._dropped += bytes(left).count(b"\n")


def descriptor_of(stream: object) -> int | None:
    """The file descriptor of a standard stream; None when it is closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return int(stream.fileno())  # type: ignore[attr-defined]
    return None
