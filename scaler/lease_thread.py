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
import math
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


class LeaseThread:
    """An Election of another loop. `build` makes it for a connection; as Election in everything else."""

    def __init__(self, connect: Connect, build: Callable[[KubeApi], Election], timing: LeaseTiming) -> None:
        self._connect = connect
        self._build = build
        self._retry = timing.retry
        self._patience = patience(timing)
        self._beat = -math.inf
        self._election: Election | None = None

    def deadline(self) -> float:
        """As Election.deadline; from any thread."""
        return self._election.deadline() if self._election is not None else -math.inf

    @property
    def transitions(self) -> int:
        """As Election.transitions; from any thread."""
        return self._election.transitions if self._election is not None else 0

    async def lead(self, work: Work) -> None:
        """As Election.lead; `work` runs in the loop that calls this."""
        main = asyncio.get_running_loop()
        self._beat = main.time()
        beating = main.create_task(self._beat_for_ever())
        try:
            with loop_in_thread("lease") as there:
                await run_in(there, lambda: self._lead_there(main, work))
        finally:
            beating.cancel()

    async def _lead_there(self, main: asyncio.AbstractEventLoop, work: Work) -> None:
        async with self._connect() as api:
            self._election = self._build(Guarded(api, self._refuse_when_still))
            await self._election.lead(lambda: run_in(main, work))

    async def _beat_for_ever(self) -> None:
        while True:
            self._beat = asyncio.get_running_loop().time()
            await asyncio.sleep(self._retry)

    def _refuse_when_still(self, *_: object) -> None:
        still = asyncio.get_running_loop().time() - self._beat
        if still > self._patience:
            raise NotSentError(f"the main loop stands still since {still:.0f} s: the Lease is left to others")
