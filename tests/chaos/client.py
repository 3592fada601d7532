"""One life of the controller's process at the API server: it can die, freeze, be told old lists, and write too late.

Faults of the API are injected by tests.faults; what becomes of the process
is here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, EVENTS, LEASES, POD_GROUPS, PODS, SERVICES, Page, Resource
from scaler.kube.errors import KubeError
from scaler.sim.apiserver.client import Interceptor, Request, SimClient
from scaler.sim.apiserver.reading import Seen
from scaler.sim.apiserver.store import Record
from scaler.sim.cluster import SimCluster
from tests.chaos.witness import Witness

LATENCY = 0.002
LINGERING = (PODS, POD_GROUPS, SERVICES, ASCEND_JOBS, EVENTS, LEASES)
"""Not the scaler's own ConfigMaps: a status that arrives after its successor stays until the next change, by design."""
LATE = (0.5, 20.0)
"""Seconds that a lingering write spends in the network."""


class Gate(Interceptor):
    """Faults of the API, behind a process that may be frozen (nothing leaves or arrives) or dead (for ever)."""

    def __init__(self, faults: Interceptor, server: Clock) -> None:
        self.dead = False
        self.frozen_until = 0.0
        self.clock: Clock | None = None
        """Of the process, which every answer tells the time of the server."""
        self._faults = faults
        self._server = server
        self._asked: dict[int, float] = {}

    async def before(self, request: Request) -> None:
        self._asked[id(request)] = asyncio.get_running_loop().time()
        await self._pass()
        await self._faults.before(request)
        await self._pass()

    async def after(self, request: Request) -> None:
        await self._faults.after(request)
        await self._pass()
        if self.clock is not None:
            took = asyncio.get_running_loop().time() - self._asked.pop(id(request))
            self.clock.saw(float(int(self._server.now())), took)

    async def deliver(self, request: Request, event: Seen) -> bool:
        delivered = await self._faults.deliver(request, event)
        await self._pass()
        return delivered

    async def _pass(self) -> None:
        now = asyncio.get_running_loop().time
        # Less takes no time at all, and would for ever.
        while (left := self.frozen_until - now()) > 1e-6:  # noqa: ASYNC110 - it may be frozen again meanwhile
            await asyncio.sleep(left)
        if self.dead:
            await asyncio.Event().wait()


class Life(SimClient):
    """The client of one process life. `linger` and `stale`: shares of the writes and lists, while the storm lasts."""

    def __init__(
        self, cluster: SimCluster, name: str, witness: Witness, *, faults: Interceptor, seed: int,
        linger: float = 0.0, stale: float = 0.0,
    ) -> None:  # fmt: skip
        self.gate = Gate(faults, cluster.server.clock)
        super().__init__(
            cluster.server, name, latency=LATENCY, seed=seed, audit=cluster.audit, interceptor=self.gate
        )  # fmt: skip
        self.late: list[asyncio.Task[Record]] = []
        self._witness = witness
        self._chance = random.Random(f"life-{seed}-{name}")
        self._linger = linger
        self._stale = stale
        self._told: dict[tuple[Resource, str], Page[Any]] = {}

    def calm_down(self) -> None:
        """The storm is over."""
        self._linger = self._stale = 0.0

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page[Any]:
        """See KubeApi.list; now and then with an answer from before, as from a server that has fallen behind.

        It answers the same question: what follows a first page is of the version that its token names.
        """
        page: Page[Any] = await super().list(resource, namespace, **options)
        if options.get("continue_token"):
            return page
        asked = (namespace, *map(options.get, ("label_selector", "field_selector", "limit")))
        key = (resource, str(asked))
        if key in self._told and self._chance.random() < self._stale:
            self._witness.counts["stale list"] += 1
            return self._told[key]
        self._told[key] = page
        return page

    async def _write(self, request: Request, effect: Callable[[], Record]) -> Record:
        self._witness.attempted(self.name, request)
        if self._linger and request.resource in LINGERING and self._chance.random() < self._linger:
            self._witness.counts["lingering write"] += 1
            self.late.append(asyncio.create_task(self._arrive_late(request, effect)))
            return await asyncio.shield(self.late[-1])

        def witnessed() -> Record:
            with self._witness.acting(self.name, request):
                return effect()

        try:
            record = await super()._write(request, witnessed)
        except KubeError as error:
            self._witness.answered(self.name, request, error)
            raise
        self._witness.answered(self.name, request, None)
        return record

    async def _arrive_late(self, request: Request, effect: Callable[[], Record]) -> Record:
        """The request is on its way already, whatever becomes of the process."""
        await asyncio.sleep(self._chance.uniform(*LATE))
        with self._witness.acting(self.name, request, late=True):
            return effect()


async def settled(life: Life) -> None:
    """Wait for what is still in the network. Refusals there are nobody's business any more."""
    for answer in await asyncio.gather(*life.late, return_exceptions=True):
        if isinstance(answer, BaseException) and not isinstance(answer, KubeError):
            raise answer
