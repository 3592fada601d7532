"""Loops in threads of their own, for work that must not wait for the main loop, nor delay it.

Loops exchange only awaited results and immutable values. This module knows nothing of what runs in them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

LEAVE = 5.0
"""Seconds for the tasks of a loop to end; after that they end with the process."""


@contextmanager
def loop_in_thread(name: str) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread until the block ends: of the same class, so that both have one clock."""
    loop = type(asyncio.get_running_loop())()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LEAVE)
        if not thread.is_alive():
            loop.close()


async def run_in(there: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of `work` in the loop of another thread. On cancellation `work` is cancelled and awaited first."""
    task: asyncio.Task[Any] | None = None

    async def begin() -> T:
        nonlocal task
        task = asyncio.current_task()
        return await work()

    async def end() -> None:  # a coroutine, so that its first step comes after that of `begin`
        if task is not None:
            task.cancel()

    ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(begin(), there))
    ended.add_done_callback(lambda done: done.cancelled() or done.exception())  # a cancelled caller does not ask for it
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        asyncio.run_coroutine_threadsafe(end(), there)
        await asyncio.wait({ended})
        raise


@asynccontextmanager
async def entered_in_thread(name: str, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave `manager` in a thread and loop of its own."""
    with loop_in_thread(name) as there:
        found = await run_in(there, manager.__aenter__)
        try:
            yield found
        finally:
            await run_in(there, partial(manager.__aexit__, None, None, None))
