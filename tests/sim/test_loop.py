"""Virtual time: it jumps, it is deterministic, and it never hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scaler.sim.loop import VirtualTimeError, run


async def _order_of_ten() -> list[int]:
    order: list[int] = []

    async def note(number: int) -> None:
        await asyncio.sleep(1)
        order.append(number)
        await asyncio.sleep(0)
        order.append(number)

    await asyncio.gather(*(note(number) for number in range(10)))
    return order


def test_a_day_passes_without_waiting() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400 * 3)
        return asyncio.get_running_loop().time()

    assert run(main()) == 86_400 * 3


def test_timers_fire_after_a_century() -> None:
    async def main() -> float:
        await asyncio.sleep(3.2e9)
        await asyncio.sleep(0.5)
        return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(3.2e9 + 0.5)


def test_seed_zero_keeps_the_order_of_scheduling() -> None:
    assert run(_order_of_ten()) == [*range(10), *range(10)]


def test_a_seed_gives_one_order_and_another_seed_another() -> None:
    first = run(_order_of_ten(), seed=7)
    assert first == run(_order_of_ten(), seed=7)
    assert len({tuple(run(_order_of_ten(), seed=seed)) for seed in range(1, 6)}) > 1


def test_waiting_for_nothing_is_reported_instead_of_hanging() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualTimeError, match="deadlock"):
        run(main())


def test_time_beyond_the_limit_is_reported() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(10)

    with pytest.raises(VirtualTimeError, match=r"time is up.*100"):
        run(main(), limit=100)


def test_a_loop_that_never_lets_time_pass_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.sim.loop._MAX_ITERATIONS_PER_MOMENT", 1000)

    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(VirtualTimeError, match="stands still"):
        run(main())


def test_what_is_left_running_is_cancelled_and_generators_are_closed() -> None:
    ended: list[str] = []

    async def ticks() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await asyncio.sleep(1)
        finally:
            ended.append("generator")

    async def forever() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(5)
            ended.append("task")

    async def main() -> object:
        generator = ticks()
        await anext(generator)
        task = asyncio.create_task(forever())
        await asyncio.sleep(1)
        return generator, task

    run(main())
    assert sorted(ended) == ["generator", "task"]


def test_deadlines_work() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == 30
