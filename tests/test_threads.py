"""Work in the loop of another thread: its result, its errors, and its end when the caller is
cancelled."""

from __future__ import annotations

import asyncio
import gc

from scaler.threads import loop_in_thread, run_in


async def test_an_error_of_cancelled_work_is_not_reported_as_never_retrieved() -> None:
    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: said.append(context))
    begun = asyncio.Event()
    here = asyncio.get_running_loop()

    async def work() -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("while it ended") from None

    with loop_in_thread("work") as there:
        caller = asyncio.create_task(run_in(there, work))
        await begun.wait()
        caller.cancel()
        await asyncio.wait({caller})
        assert caller.cancelled()
        del caller
        gc.collect()
        await asyncio.sleep(0)
    assert said == []
