from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from scaler.decide.world import ServiceKey
from scaler.sim.loop import run
from scaler.work_queue import WorkQueue

KEYS = A, B, C, _ = [ServiceKey("n", name, "") for name in "abcd"]


def test_a_burst_becomes_one_pass_with_sorted_keys() -> None:
    async def main() -> list[ServiceKey]:
        queue = WorkQueue()
        loop = asyncio.get_running_loop()
        queue.add(B)
        loop.call_soon(queue.add, A)
        return await queue.take()

    assert run(main()) == [A, B]


def test_a_key_dirtied_while_it_is_processed_comes_once_more_when_done() -> None:
    async def main() -> list[list[ServiceKey]]:
        queue = WorkQueue()
        queue.add(A)
        passes = [await queue.take()]
        queue.add(A)
        queue.add(A)
        queue.add(B)
        passes.append(await queue.take())
        queue.done(A)
        passes.append(await queue.take())
        assert len(queue) == 0
        return passes

    assert run(main()) == [[A], [B], [A]]


def test_the_earliest_of_several_times_counts_and_one_wake_up_serves_all_that_are_due() -> None:
    async def main() -> list[tuple[float, list[ServiceKey]]]:
        queue = WorkQueue()
        queue.add_at(A, 60.0)
        queue.add_at(A, 30.0)
        queue.add_at(A, 45.0)
        queue.add_at(B, 30.0)
        queue.add_at(C, 31.0)
        passes = []
        for _ in range(2):
            keys = await queue.take()
            passes.append((asyncio.get_running_loop().time(), keys))
        return passes

    assert run(main()) == [(30.0, [A, B]), (31.0, [C])]


def test_taking_a_key_forgets_the_time_it_was_to_be_looked_at() -> None:
    async def main() -> list[ServiceKey]:
        queue = WorkQueue()
        queue.add_at(A, 5.0)
        queue.add(A)
        taken = await queue.take()
        queue.done(A)
        await asyncio.sleep(100)
        assert len(queue) == 0
        return taken

    assert run(main()) == [A]


def test_a_time_in_the_past_means_at_once() -> None:
    async def main() -> tuple[list[ServiceKey], float]:
        queue = WorkQueue()
        await asyncio.sleep(10)
        queue.add_at(A, 3.0)
        return await queue.take(), asyncio.get_running_loop().time()

    assert run(main()) == ([A], 10.0)


def test_backoff_doubles_per_key_up_to_thirty_seconds_and_starts_again_once_forgotten() -> None:
    async def main() -> tuple[list[float], float, float]:
        queue = WorkQueue()
        delays = [queue.add_after_backoff(A) for _ in range(40)]
        other = queue.add_after_backoff(B)
        queue.forget(A)
        return delays, other, queue.add_after_backoff(A)

    delays, other, after = run(main())
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert max(delays) == delays[-1] == 30.0
    assert (other, after) == (0.005, 0.005)


Steps = st.lists(
    st.tuples(st.sampled_from(["add", "add_at", "done", "sleep"]), st.integers(0, 3)), max_size=40
)


@given(Steps)
def test_no_key_is_lost_and_none_is_taken_while_it_is_processed(
    steps: list[tuple[str, int]],
) -> None:
    async def main() -> None:
        queue = WorkQueue()
        owed: set[ServiceKey] = set()
        busy: set[ServiceKey] = set()

        async def consume() -> None:
            while True:
                keys = await queue.take()
                assert keys == sorted(set(keys))
                assert not busy & set(keys)
                busy.update(keys)
                owed.difference_update(keys)

        consumer = asyncio.create_task(consume())
        for step, number in steps:
            key = KEYS[number]
            if step == "add":
                owed.add(key)
                queue.add(key)
            elif step == "add_at":
                owed.add(key)
                queue.add_at(key, asyncio.get_running_loop().time() + number)
            elif step == "done":
                busy.discard(key)
                queue.done(key)
            await asyncio.sleep(1 if step == "sleep" else 0)
        for key in KEYS:
            busy.discard(key)
            queue.done(key)
            await asyncio.sleep(5)
        for key in KEYS:
            busy.discard(key)
            queue.done(key)
        await asyncio.sleep(5)
        assert not owed
        consumer.cancel()
        await asyncio.wait({consumer})
        assert consumer.cancelled()

    run(main())


def test_a_key_that_is_held_is_not_given_out_before_it_is_done() -> None:
    async def main() -> None:
        queue = WorkQueue()
        queue.hold(A)
        queue.add(A)
        queue.add(B)
        assert (await queue.take(), queue.is_dirty(A), queue.is_dirty(B)) == ([B], True, False)
        queue.done(A)
        assert await queue.take() == [A]

    run(main())
