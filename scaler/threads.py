"""Loops in threads of their own, for what must not wait for the main loop, nor delay it: the
servers, and the Lease.

Loops exchange awaited results and immutable values; servers also read the main loop's stores. The
Lease is renewed over a connection of its own, as long as the beats of the main loop are fresh. A
main loop that is blocked for too long must not lead: the Lease expires and another replica takes
over. When the main loop runs again, the deadline of every writer is past, so it sends nothing
before it ends. Loops of one process share a monotonic clock: a deadline means the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from scaler.clock import loop_time
from scaler.election import Election
from scaler.kube.api import KubeApi
from scaler.kube.confined import Guarded, confined
from scaler.kube.errors import NotSentError

T = TypeVar("T")
Connect = Callable[[], AbstractAsyncContextManager[KubeApi]]
"""Connects to the cluster, for the loop that calls it."""

LEAVE = 5.0
"""Seconds for the thread of a loop to end after the loop was stopped; after that it ends with the
process."""
PATIENCE = 2
"""Lease durations that the main loop may be blocked; another replica then needs one more. If fewer,
one long decision would end every leader in turn; if more, services would wait for a loop that
hangs."""


@contextmanager
def loop_in_thread(name: str) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread until the block ends: of the same class, so that both have one
    clock."""
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
    """The result of `work` in the loop of another thread. On cancellation `work` is cancelled and
    awaited first."""
    task: asyncio.Task[Any] | None = None

    async def begin() -> T:
        nonlocal task
        task = asyncio.current_task()
        return await work()

    async def end() -> None:  # a coroutine, so that its first step comes after that of `begin`
        if task is not None:
            task.cancel()

    ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(begin(), there))
    # a cancelled caller does not ask for it
    ended.add_done_callback(lambda done: done.cancelled() or done.exception())
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


async def lead_in_thread(
    election: Election, connect: Connect, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """As `election.lead`, in a thread and over a connection of its own; `work` runs in the loop of
    the caller."""
    main = asyncio.get_running_loop()
    longest = PATIENCE * election.settings.lease_duration
    beat = main.time()

    async def beat_for_ever() -> None:
        nonlocal beat
        while True:
            beat = main.time()
            await asyncio.sleep(election.settings.retry_period)

    def refuse_when_still(*_: object) -> None:
        still = loop_time() - beat
        if still > longest:
            raise NotSentError(
                f"the main loop stands still since {still:.0f} s: the Lease is left to others"
            )

    async def lead_there() -> None:
        async with connect() as api:
            # a bug in the election can write nothing else
            own = confined(api, election.settings.lease_namespace)
            await election.lead(Guarded(own, refuse_when_still), lambda: run_in(main, work))

    beating = main.create_task(beat_for_ever())
    try:
        with loop_in_thread("lease") as there:
            await run_in(there, lead_there)
    finally:
        beating.cancel()
