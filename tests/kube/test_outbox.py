"""The outbox: the first write at once, then paced; failures retried; nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.kube.errors import KubeError, TooManyRequestsError
from scaler.kube.outbox import Outbox
from scaler.sim.loop import run

Script = Callable[[Outbox[str]], Coroutine[Any, Any, None]]


class Desk:
    """Where letters are written: at which second which key, and what goes wrong."""

    def __init__(self, *, takes: float = 0.0, errors: tuple[Exception, ...] = ()) -> None:
        self.written: list[tuple[float, str]] = []
        self.busiest = 0
        self._under_way = 0
        self._takes = takes
        self._errors = list(errors)

    async def write(self, key: str) -> None:
        self._under_way += 1
        self.busiest = max(self.busiest, self._under_way)
        await asyncio.sleep(self._takes)
        self._under_way -= 1
        self.written.append((round(asyncio.get_running_loop().time(), 3), key))
        if self._errors:
            raise self._errors.pop(0)


def play(
    desk: Desk, script: Script, *, parallel: int = 2, namespace_of: Callable[[str], str] = str
) -> None:
    async def main() -> None:
        outbox: Outbox[str] = Outbox(
            desk.write, interval=1.0, most=parallel, most_of_one=1, namespace_of=namespace_of
        )
        task = asyncio.create_task(outbox.run())
        await script(outbox)
        await asyncio.sleep(10_000)
        assert (outbox._waiting, outbox._under_way) == (set(), set())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with capture_logs():
        run(main())


def test_the_first_write_goes_out_at_once_and_a_burst_after_it_becomes_one() -> None:
    async def script(outbox: Outbox[str]) -> None:
        for _ in range(100):
            outbox.mark("a")
            await asyncio.sleep(0.01)

    desk = Desk()
    play(desk, script)
    assert desk.written == [(0.0, "a"), (1.0, "a")]


def test_objects_do_not_wait_for_each_other() -> None:
    async def script(outbox: Outbox[str]) -> None:
        outbox.mark("a")
        await asyncio.sleep(0.5)
        outbox.mark("b")

    desk = Desk()
    play(desk, script)
    assert desk.written == [(0.0, "a"), (0.5, "b")]


def test_what_changes_during_a_write_is_written_once_more() -> None:
    async def script(outbox: Outbox[str]) -> None:
        outbox.mark("a")
        await asyncio.sleep(0.1)
        outbox.mark("a")
        outbox.mark("a")

    desk = Desk(takes=0.3)
    play(desk, script)
    assert desk.written == [(0.3, "a"), (1.6, "a")]


def test_no_more_writes_are_under_way_than_allowed() -> None:
    async def script(outbox: Outbox[str]) -> None:
        for number in range(10):
            outbox.mark(str(number))

    desk = Desk(takes=0.9)
    play(desk, script, parallel=3)
    assert (desk.busiest, len(desk.written)) == (3, 10)


def test_a_failure_is_retried_with_growing_pauses_until_it_succeeds() -> None:
    async def script(outbox: Outbox[str]) -> None:
        outbox.mark("a")

    desk = Desk(errors=tuple(KubeError("no") for _ in range(4)))
    play(desk, script)
    assert [at for at, _ in desk.written] == [0.0, 1.0, 3.0, 7.0, 15.0]


def test_the_server_may_ask_for_a_longer_pause() -> None:
    async def script(outbox: Outbox[str]) -> None:
        outbox.mark("a")

    desk = Desk(errors=(TooManyRequestsError(429, "TooManyRequests", "", retry_after=30.0),))
    play(desk, script)
    assert [at for at, _ in desk.written] == [0.0, 30.0]


def test_a_bug_in_one_report_does_not_stop_the_others() -> None:
    async def script(outbox: Outbox[str]) -> None:
        outbox.mark("a")
        outbox.mark("b")

    desk = Desk(errors=(ZeroDivisionError(),))
    play(desk, script)
    assert desk.written == [(0.0, "a"), (0.0, "b"), (1.0, "a")]


def test_a_namespace_whose_writes_hang_does_not_keep_the_reports_of_others() -> None:
    async def script(outbox: Outbox[str]) -> None:
        for number in range(50):
            outbox.mark(f"slow/{number}")
        outbox.mark("fast/0")

    desk = Desk(takes=10.0)
    play(desk, script, parallel=2, namespace_of=lambda key: key.partition("/")[0])
    assert {key: at for at, key in desk.written}["fast/0"] == 10.0


def test_many_writes_that_need_no_answer_let_the_loop_turn() -> None:
    between: list[int] = []

    async def script(outbox: Outbox[str]) -> None:
        for number in range(1000):
            outbox.mark(str(number))
        while len(desk.written) < 1000:
            before = len(desk.written)
            await asyncio.sleep(0)
            between.append(len(desk.written) - before)

    desk = Desk()
    play(desk, script, parallel=4)
    assert max(between) <= 4


def test_what_waits_has_no_task_of_its_own() -> None:
    tasks: list[int] = []

    async def script(outbox: Outbox[str]) -> None:
        for number in range(1000):
            outbox.mark(f"{number % 2}/{number}")
        await asyncio.sleep(0.5)
        tasks.append(len(asyncio.all_tasks()))

    desk = Desk(takes=1.0)
    play(desk, script, namespace_of=lambda key: key[0])
    assert (len(desk.written), desk.busiest) == (1000, 2)
    assert tasks[0] <= 5
