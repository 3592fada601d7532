"""Lines that cannot be written are dropped and counted; nobody waits for them."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.report import lines
from scaler.report.lines import MOST_BYTES, LineWriter, descriptor_of

LEAVE = 10.0
"""Seconds for which a test waits for the thread that writes; it takes milliseconds."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        with contextlib.suppress(OSError):  # closed by the test
            os.close(end)


def wait_until(writer: LineWriter, problem: str) -> None:
    end = time.monotonic() + LEAVE
    while problem not in writer.problem:
        assert time.monotonic() < end, writer.problem
        time.sleep(0.01)


def test_lines_are_written_in_their_order_by_several_threads(pipe: tuple[int, int]) -> None:
    reader, descriptor = pipe
    writer = LineWriter(descriptor, "stdout", time.monotonic)

    def say(name: str) -> None:
        for number in range(100):
            writer.write(f"{name} {number}\n")

    threads = [threading.Thread(target=say, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close(LEAVE)
    os.close(descriptor)
    with os.fdopen(os.dup(reader)) as stream:
        said = stream.read().splitlines()
    for name in "ab":
        assert [line for line in said if line[0] == name] == [f"{name} {n}" for n in range(100)]
    assert (len(said), writer.dropped, writer.problem) == (200, 0, "")


def test_a_full_disk_costs_the_lines_alone_and_is_said(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    writer = LineWriter(full, "stdout", time.monotonic)
    writer.write("one\n")
    wait_until(writer, "No space left on device; 1 lines lost")
    os.dup2(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT), full)  # there is room again
    writer.write("two\n")
    writer.close(LEAVE)
    assert (tmp_path / "log").read_text() == "two\n"
    assert (writer.dropped, writer.problem) == (1, "")


def test_a_reader_that_has_gone_costs_the_lines_alone_and_is_said(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    writer = LineWriter(pipe[1], "stdout", time.monotonic)
    writer.write("one\n")
    wait_until(writer, "stdout cannot be written, Broken pipe; 1 lines lost")


def test_a_pipe_that_nobody_reads_holds_nobody_up(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PATIENCE", 0.05)
    writer = LineWriter(pipe[1], "stdout", time.monotonic)
    line = "x" * 999 + "\n"
    for _ in range(2 * MOST_BYTES // 1000):
        writer.write(line)
    assert MOST_BYTES / 1000 - 200 < writer.dropped < 1.2 * MOST_BYTES / 1000
    wait_until(writer, "nobody has read it for")
    began = time.monotonic()
    writer.close(0.1)
    assert time.monotonic() - began < LEAVE
    os.set_blocking(pipe[0], False)
    assert os.read(pipe[0], 2000).startswith(line.encode())


def test_a_stream_that_was_closed_at_the_start_drops_every_line() -> None:
    writer = LineWriter(None, "stdout", time.monotonic)
    writer.write("one\ntwo\n")
    writer.close(LEAVE)
    assert (writer.dropped, writer.problem) == (
        2,
        "stdout cannot be written, it is closed; 2 lines lost",
    )
    assert descriptor_of(None) is None


def test_after_half_a_line_the_next_one_begins_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = bytearray()
    answers: Iterator[int | OSError] = iter([4, OSError(errno.ENOSPC, "no room"), 100])
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        if descriptor != 99:
            return real(descriptor, data)
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        part = bytes(data)[:answer]
        written.extend(part)
        return len(part)

    monkeypatch.setattr(os, "write", write)
    writer = LineWriter(99, "stdout", time.monotonic)
    writer.write("a long line\n")
    wait_until(writer, "no room")
    writer.write("another\n")
    writer.close(LEAVE)
    assert bytes(written) == b"a lo\nanother\n"
    assert writer.dropped == 1
