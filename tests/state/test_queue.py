from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from scaler.sim.loop import run
from scaler.state.queue import WorkQueue


def test_a_burst_becomes_one_pass_with_sorted_keys() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        loop = asyncio.get_running_loop()
        queue.add("b")
        loop.call_soon(queue.add, "a")
        return await queue.take()

    assert run(main()) == ["a", "b"]


def test_a_key_dirtied_while_it_is_processed_comes_once_more_when_done() -> None:
    async def main() -> list[list[str]]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        passes = [await queue.take()]
        queue.add("a")
        queue.add("a")
        queue.add("b")
        passes.append(await queue.take())
        queue.done("a")
        passes.append(await queue.take())
        return [*passes, ["left", str(len(queue))]]

    assert run(main()) == [["a"], ["b"], ["a"], ["left", "0"]]


def test_the_earliest_of_several_times_counts_and_one_wake_up_serves_all_that_are_due() -> None:
    async def main() -> list[tuple[float, list[str]]]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_at("a", 60.0)
        queue.add_at("a", 30.0)
        queue.add_at("a", 45.0)
        queue.add_at("b", 30.0)
        queue.add_at("c", 31.0)
        passes = []
        for _ in range(2):
            keys = await queue.take()
            passes.append((asyncio.get_running_loop().time(), keys))
        return passes

    assert run(main()) == [(30.0, ["a", "b"]), (31.0, ["c"])]


def test_taking_a_key_forgets_the_time_it_was_to_be_looked_at() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_at("a", 5.0)
        queue.add("a")
        taken = await queue.take()
        queue.done("a")
        await asyncio.sleep(100)
        return taken + ["left"] * len(queue)

    assert run(main()) == ["a"]


def test_a_time_in_the_past_means_at_once() -> None:
    async def main() -> tuple[list[str], float]:
        queue: WorkQueue[str] = WorkQueue()
        await asyncio.sleep(10)
        queue.add_at("a", 3.0)
        return await queue.take(), asyncio.get_running_loop().time()

    assert run(main()) == (["a"], 10.0)


def test_backoff_doubles_per_key_up_to_thirty_seconds_and_starts_again_once_forgotten() -> None:
    async def main() -> tuple[list[float], float, float]:
        queue: WorkQueue[str] = WorkQueue()
        delays = [queue.add_after_backoff("a") for _ in range(40)]
        other = queue.add_after_backoff("b")
        queue.forget("a")
        return delays, other, queue.add_after_backoff("a")

    delays, other, after = run(main())
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert max(delays) == delays[-1] == 30.0
    assert (other, after) == (0.005, 0.005)


Steps = st.lists(st.tuples(st.sampled_from(["add", "add_at", "done", "sleep"]), st.integers(0, 3)), max_size=40)


@given(Steps)
def test_no_key_is_lost_and_none_is_taken_while_it_is_processed(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        queue: WorkQueue[int] = WorkQueue()
        owed: set[int] = set()
        busy: set[int] = set()

        async def consume() -> None:
            while True:
                keys = await queue.take()
                assert keys == sorted(set(keys))
                assert not busy & set(keys)
                busy.update(keys)
                owed.difference_update(keys)

        consumer = asyncio.create_task(consume())
        for step, key in steps:
            if step == "add":
                owed.add(key)
                queue.add(key)
            elif step == "add_at":
                owed.add(key)
                queue.add_at(key, asyncio.get_running_loop().time() + key)
            elif step == "done":
                busy.discard(key)
                queue.done(key)
            await asyncio.sleep(1 if step == "sleep" else 0)
        for key in range(4):
            busy.discard(key)
            queue.done(key)
            await asyncio.sleep(5)
        for key in range(4):
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
        queue: WorkQueue[str] = WorkQueue()
        queue.hold("a")
        queue.add("a")
        queue.add("b")
        assert (await queue.take(), queue.is_dirty("a"), queue.is_dirty("b")) == (["b"], True, False)
        queue.done("a")
        assert await queue.take() == ["a"]

    run(main())
