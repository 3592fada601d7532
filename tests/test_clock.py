"""What times of objects mean when clocks differ, jump, or stand still. Virtual time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.clock import BELIEVED_FOR, Clock, Skew, SteadyLoop
from scaler.sim.loop import run
from scaler.timestamps import seconds_of

START = 1_800_000_000.0
HOUR = 3600.0
SCALER = Path(__file__).parents[1] / "scaler"


def at_once(story: Callable[[Clock], object]) -> Clock:
    """A clock to which the story, which takes no time, has happened."""
    clock = Clock(START)

    async def tell() -> None:
        story(clock)
        clock.adjust()

    run(tell())
    return clock


def test_what_was_never_answered_is_the_machines_own_time() -> None:
    assert at_once(lambda _: None).skew == Skew()


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_wrong_wall_clock_at_the_start_is_made_good_by_the_first_answer(ahead: float) -> None:
    clock = at_once(lambda clock: clock.saw(START + ahead, 0.01))
    assert clock.skew == Skew(ahead, ahead)
    assert clock.skew.latest(START + ahead) == clock.skew.earliest(START + ahead) == START


def test_of_two_that_differ_the_one_behind_ends_things_and_the_one_ahead_ends_waiting() -> None:
    def both(clock: Clock) -> None:
        clock.saw(START + HOUR, 0.01)
        clock.saw(START, 0.01)

    clock = at_once(both)
    assert clock.skew.latest(START) == START
    assert clock.skew.earliest(START) == START - HOUR


@pytest.mark.parametrize("seen", [(0.0, HOUR), (-HOUR, 0.0), (-HOUR, HOUR), (0.0, 0.0)])
def test_no_single_wrong_clock_gets_into_what_is_written_into_objects(
    seen: tuple[float, float],
) -> None:
    """Neither that of an API server nor the machine's own."""

    async def story(wall: float, seen: tuple[float, ...]) -> float:
        clock = Clock(START + wall)
        for ahead in seen:
            clock.saw(START + ahead, 0.01)
        clock.adjust()
        stamp = START + 7
        assert clock.skew.stamp(clock.skew.earliest(stamp)) == stamp
        return seconds_of(clock.timestamp())

    assert run(story(0.0, seen)) == START
    assert run(story(HOUR, (0.0,))) == run(story(-HOUR, (0.0,))) == START


def test_differences_within_the_precision_of_an_answer_change_nothing() -> None:
    async def story() -> None:
        clock = Clock(START)
        clock.saw(START + HOUR, 0.01)
        clock.adjust()
        adjusted = clock.skew
        for _ in range(100):
            await asyncio.sleep(61.3)
            clock.saw(float(int(clock.now() + HOUR)), 0.9)
            clock.adjust()
            assert clock.skew is adjusted
        assert clock.skew == Skew(HOUR, HOUR)

    run(story())


@pytest.mark.parametrize("date", [0.0, -1e12, 253402300799.0])
def test_an_absurd_date_tells_nothing(date: float) -> None:
    assert at_once(lambda clock: clock.saw(date, 0.01)).skew == Skew()


def test_a_slow_answer_tells_something_only_where_nothing_is_known() -> None:
    def story(clock: Clock) -> None:
        clock.saw(START + HOUR, 9.0)
        clock.saw(START - HOUR, 1.5)

    assert at_once(story).skew == Skew(HOUR, HOUR)


def test_a_step_of_the_api_server_is_believed_backwards_at_once_forwards_after_hours() -> None:
    async def skew_after(step: float, seconds: float) -> tuple[float, float]:
        clock = Clock(START)
        clock.saw(clock.now(), 0.01)
        clock.adjust()
        end = clock.now() + seconds
        while clock.now() < end:
            await asyncio.sleep(30)
            clock.saw(clock.now() + step, 0.01)
            clock.adjust()
        return clock.skew.least, clock.skew.most

    assert run(skew_after(HOUR, BELIEVED_FOR)) == (0.0, HOUR)
    assert run(skew_after(HOUR, 2 * BELIEVED_FOR + 60)) == (HOUR, HOUR)
    assert run(skew_after(-HOUR, 30)) == (-HOUR, 0.0)
    assert run(skew_after(-HOUR, 2 * BELIEVED_FOR + 60)) == (-HOUR, -HOUR)


@pytest.mark.parametrize(
    "steps", [(HOUR,), (-HOUR,), (HOUR, HOUR), (HOUR, -HOUR), (-HOUR, HOUR), (-HOUR, -HOUR, HOUR)]
)
def test_no_time_that_an_api_server_wrote_is_ever_read_as_earlier_than_it_was(
    steps: tuple[float, ...],
) -> None:
    """And, two hours after the last step, no new one as later."""

    async def story() -> None:
        clock = Clock(START - 5 * HOUR)
        ahead = 5 * HOUR
        written: list[tuple[float, float]] = []
        for step in (0.0, *steps):
            ahead += step
            end = clock.now() + 2.5 * HOUR
            while clock.now() < end:
                await asyncio.sleep(200)
                clock.saw(clock.now() + ahead, 0.01)
                clock.adjust()
                written.append((clock.now(), clock.now() + ahead))
                assert all(clock.skew.latest(stamp) >= moment - 1e-3 for moment, stamp in written)
        moment, stamp = written[-1]
        assert clock.skew.latest(stamp) == pytest.approx(moment)

    run(story())


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20))
def test_no_date_whatever_makes_a_timestamp_that_cannot_be_written(dates: list[float]) -> None:
    async def story() -> None:
        clock = Clock(START)
        for date in dates:
            clock.saw(date, 0.01)
        clock.adjust()
        assert seconds_of(clock.timestamp()) > 0

    run(story())


def test_times_that_say_that_there_is_none_stay() -> None:
    skew = Skew(HOUR, 2 * HOUR)
    assert [skew.latest(0.0), skew.earliest(0.0), skew.earliest(-1.0)] == [0.0, 0.0, -1.0]


def test_the_loop_of_the_controller_counts_the_time_of_a_suspended_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = time.clock_gettime
    suspended = 0.0

    def clock_gettime(which: int) -> float:
        return real(which) + (suspended if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)

    async def story() -> float:
        nonlocal suspended
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting = asyncio.ensure_future(asyncio.wait_for(asyncio.sleep(2 * HOUR), HOUR / 2))
        await asyncio.sleep(0.01)
        suspended = HOUR
        with pytest.raises(TimeoutError):
            await waiting
        return loop.time() - began

    with asyncio.Runner(loop_factory=SteadyLoop) as runner:
        assert HOUR <= runner.run(story()) < HOUR + 60


def test_nothing_reads_a_clock_but_the_start_of_a_process_and_the_loop_that_it_runs_in() -> None:
    """Whoever wants to know the time asks the loop or a Clock, so that no step of a wall clock gets
    anywhere."""
    asked = re.compile(
        r"\btime\.(?:time|monotonic|perf_counter|clock_gettime|localtime)\b|\.(?:utc)?now\(UTC|\btoday\("
    )
    found = {
        path.relative_to(SCALER).as_posix()
        for path in SCALER.rglob("*.py")
        if asked.search(path.read_text("utf-8")) and "tools" not in path.parts
    }
    assert found == {"clock.py", "run.py"}
