"""The Lease, renewed from a thread with a loop and a connection of its own: nothing that the main loop does delays it.

    main loop  --beats-->  thread: Election  --renews, as long as the beats are fresh-->  Lease
        ^ works                     |
        +------- starts, ends ------+

A main loop that stands still for too long is no leader: the Lease ends and another replica takes over. When it wakes,
the deadline that every writer asks for is past, so it sends nothing before it has ended. Loops of one process share one
monotonic clock, which is why a deadline of one means the same in the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from scaler.election import Election, LeaseTiming
from scaler.kube.api import KubeApi
from scaler.kube.confined import Guarded
from scaler.kube.errors import NotSentError
from scaler.threads import loop_in_thread, run_in

Connect = Callable[[], AbstractAsyncContextManager[KubeApi]]
"""A connection to the cluster for the loop that calls it."""
Work = Callable[[], Coroutine[Any, Any, None]]


def patience(timing: LeaseTiming) -> float:
    """Seconds that the main loop may stand still: two leases, after which another replica needs one more. If it were
    shorter, one long decision would end every leader in turn; if longer, services would wait for a loop that hangs."""
    return 2 * timing.duration


async def lead_in_thread(election: Election, connect: Connect, work: Work) -> None:
    """As `election.lead`, in a thread and over a connection of its own; `work` runs in the loop that calls this."""
    main, longest = asyncio.get_running_loop(), patience(election.timing)
    beat = main.time()

    async def beat_for_ever() -> None:
        nonlocal beat
        while True:
            beat = main.time()
            await asyncio.sleep(election.timing.retry)

    def refuse_when_still(*_: object) -> None:
        still = asyncio.get_running_loop().time() - beat
        if still > longest:
            raise NotSentError(f"the main loop stands still since {still:.0f} s: the Lease is left to others")

    async def lead_there() -> None:
        async with connect() as api:
            await election.lead(Guarded(api, refuse_when_still), lambda: run_in(main, work))

    beating = main.create_task(beat_for_ever())
    try:
        with loop_in_thread("lease") as there:
            await run_in(there, lead_there)
    finally:
        beating.cancel()
