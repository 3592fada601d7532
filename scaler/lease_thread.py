"""The Lease, renewed by a thread with its own loop and connection: the main loop cannot delay the renewal.

    main loop  --beats-->  thread: Election  --renews, as long as the beats are fresh-->  Lease
        ^ works                     |
        +------- starts, ends ------+

A main loop that is blocked for too long must not lead: the Lease expires and another replica takes over. When the main
loop runs again, the deadline of every writer is past, so it sends nothing before it ends. Loops of one process share
one monotonic clock, so a deadline means the same in both."""

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
"""Connects to the cluster, for the loop that calls it."""
Work = Callable[[], Coroutine[Any, Any, None]]


def patience(timing: LeaseTiming) -> float:
    """Seconds that the main loop may be blocked: two leases, and another replica then needs one more. If shorter, one
    long decision would end every leader in turn; if longer, services would wait for a loop that hangs."""
    return 2 * timing.duration


async def lead_in_thread(election: Election, connect: Connect, work: Work) -> None:
    """As `election.lead`, in a thread and over a connection of its own; `work` runs in the loop of the caller."""
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
