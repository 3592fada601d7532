"""Replicas of the controller, each the real `App`, and one client for each process that a replica
has.

A process can die, freeze, get old lists, write too late, and write as the release before does. One
that ends by itself is a finding, unless it lost its leadership; either way it is started again, as
Kubernetes would."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from scaler.clock import Clock
from scaler.defaults import Mode
from scaler.election import LeadershipLost
from scaler.kube import api
from scaler.kube.api import Object, Page, Resource
from scaler.kube.errors import KubeError
from scaler.sim.apiserver.client import Interceptor, Request, SimClient
from scaler.sim.apiserver.list_watch import Seen
from scaler.sim.apiserver.store import Record
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import real_controller
from tests.chaos.decisions import Decisions
from tests.chaos.schedule import Schedule
from tests.chaos.witness import Witness
from tests.chaos.writes import Writes

LATENCY = 0.002
LINGERING = (api.PODS, api.POD_GROUPS, api.SERVICES, api.ASCEND_JOBS, api.EVENTS, api.LEASES)
"""Not the scaler's own ConfigMaps: a status that arrives after its successor stays until the next
change, by design."""
LATE = (0.5, 20.0)
"""Seconds that a lingering write spends in the network."""
EARLIER = "-earlier"
"""How the name of a life ends that is of the release before."""
RESTART = 3.0
"""Seconds until Kubernetes starts a process again that ended by itself."""
TERMINATION = 10.0
"""Seconds that Kubernetes leaves a process to end after SIGTERM."""


class Gate(Interceptor):
    """Faults of the API, behind a process that may be frozen (nothing leaves or arrives) or dead
    (for ever)."""

    def __init__(self, faults: Interceptor, server: Clock) -> None:
        self.dead = False
        self.frozen_until = 0.0
        self.clock: Clock | None = None
        """Of the process, which every answer tells the time of the server."""
        self._faults = faults
        self._server = server
        self._sent_at: dict[int, float] = {}

    async def before(self, request: Request) -> None:
        self._sent_at[id(request)] = asyncio.get_running_loop().time()
        await self._pass()
        await self._faults.before(request)
        await self._pass()

    async def after(self, request: Request) -> None:
        await self._faults.after(request)
        await self._pass()
        if self.clock is not None:
            took = asyncio.get_running_loop().time() - self._sent_at.pop(id(request))
            self.clock.saw(float(int(self._server.now())), took)

    async def deliver(self, request: Request, event: Seen) -> bool:
        delivered = await self._faults.deliver(request, event)
        await self._pass()
        return delivered

    async def _pass(self) -> None:
        now = asyncio.get_running_loop().time
        # Less takes no time at all, and would for ever.
        # It may be frozen again meanwhile.
        while (left := self.frozen_until - now()) > 1e-6:  # noqa: ASYNC110
            await asyncio.sleep(left)
        if self.dead:
            await asyncio.Event().wait()


class Life(SimClient):
    """The client of one process life. `linger` and `stale`: shares of the writes and lists, while
    the storm lasts."""

    # Wiring: everything that a client works with, and what goes wrong with it.
    def __init__(  # noqa: PLR0913
        self,
        cluster: SimCluster,
        name: str,
        writes: Writes,
        *,
        faults: Interceptor,
        seed: int,
        linger: float = 0.0,
        stale: float = 0.0,
        latency: float = LATENCY,
    ) -> None:
        self.gate = Gate(faults, cluster.server.clock)
        super().__init__(
            cluster.server,
            name,
            latency=latency,
            seed=seed,
            audit=cluster.audit,
            interceptor=self.gate,
        )
        self.late: list[asyncio.Task[Record]] = []
        self._writes = writes
        self._chance = random.Random(f"life-{seed}-{name}")
        self.linger = linger
        self.stale = stale
        self._answers: dict[tuple[Resource, str], Page[Any]] = {}

    async def list(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> Page[Any]:
        """See KubeApi.list; now and then with an earlier answer to the same question, as from a
        server that has fallen behind. What follows a first page is of the version that its token
        names."""
        page: Page[Any] = await super().list(resource, namespace, **options)
        if options.get("continue_token"):
            return page
        question = (namespace, *map(options.get, ("label_selector", "field_selector", "limit")))
        key = (resource, str(question))
        if key in self._answers and self._chance.random() < self.stale:
            self._writes.counts["stale list"] += 1
            return self._answers[key]
        self._answers[key] = page
        return page

    async def _write(self, request: Request, effect: Callable[[], Record]) -> Record:
        self._writes.attempted(self.name, request)
        if self.linger and request.resource in LINGERING and self._chance.random() < self.linger:
            self._writes.counts["lingering write"] += 1
            self.late.append(asyncio.create_task(self._arrive_late(request, effect)))
            return await asyncio.shield(self.late[-1])
        try:
            record = await super()._write(request, partial(self._take_effect, request, effect))
        except KubeError as error:
            self._writes.answered(self.name, request, error)
            raise
        self._writes.answered(self.name, request, None)
        return record

    async def _arrive_late(self, request: Request, effect: Callable[[], Record]) -> Record:
        """The request is on its way already, whatever becomes of the process."""
        await asyncio.sleep(self._chance.uniform(*LATE))
        return self._take_effect(request, effect, late=True)

    def _take_effect(
        self, request: Request, effect: Callable[[], Record], *, late: bool = False
    ) -> Record:
        with self._writes.acting(self.name, request, late=late):
            return effect()


def earlier(resource: Resource, body: Any) -> Any:
    """`body` as v0.1.0 writes it."""
    if resource == api.CONFIG_MAPS and "data" in body:
        return body | {
            "data": {key: value for key, value in body["data"].items() if key != "format"}
        }
    if resource == api.ELASTIC_SERVICES and "status" in body:
        said = {
            key: value for key, value in body["status"].items() if key not in ("selector", "wanted")
        }
        said["conditions"] = [
            each for each in said["conditions"] if each["type"] != "ScalingLimited"
        ]
        said["rule"] = {key: value for key, value in said["rule"].items() if key != "state"}
        return body | {"status": said}
    return body


class EarlierLife(Life):
    """One of the release before."""

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        return await super().create(resource, namespace, earlier(resource, body))

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Any, **options: Any
    ) -> Object:
        return await super().patch(resource, namespace, name, earlier(resource, patch), **options)


class Replica:
    """One pod of the controller's Deployment."""

    # Wiring: everything that a replica works with.
    def __init__(  # noqa: PLR0913, PLR0917
        self,
        slot: int,
        born: Callable[[str], Life],
        decisions: Decisions,
        witness: Witness,
        made: Schedule,
        mode: Mode,
    ) -> None:
        self.life: Life | None = None
        self.ahead = 0.0
        """Seconds by which the clock of its machine is; a process reads it when it starts."""
        self._decisions = decisions
        self._slot = slot
        self._born = born
        self._witness = witness
        self._made = made
        self._mode = mode
        self.earlier = made.earlier
        """Whether its next life is of the release before."""
        self._number = 0
        self._task: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._lives: list[Life] = []
        self._closed = False
        self._leaving = False
        """Whether a life may still end its writes, and no Lease keeps the next one apart from
        it."""

    def start(self) -> None:
        if self._closed or self._leaving or self._task is not None:
            return
        self._number += 1
        name = f"scaler-{self._slot}.{self._number}{EARLIER if self.earlier else ''}"
        life = self.life = self._born(name)
        self._lives.append(life)
        self._witness.note(f"{name} starts")
        loop_time = asyncio.get_running_loop().time()
        clock = life.gate.clock = Clock(self._witness.clock.now() - loop_time + self.ahead)
        seed = self._made.seed + self._number
        controller = real_controller(
            seed, leader_election=self._made.election, identity=name, mode=self._mode
        )
        self._task = asyncio.create_task(
            controller(life, clock, partial(self._decisions.judge, name))
        )
        self._tasks.append(self._task)
        self._task.add_done_callback(lambda task: self._ended(task, name))

    def crash(self, pause: float) -> None:
        """The process is gone at once: nothing more is sent, nothing arrives; a new one after
        `pause` seconds."""
        if self._task is None or self.life is None:
            return
        self._witness.note(f"{self.life.name} crashes")
        self.life.gate.dead = True
        self._leave(pause)

    def stop(self, pause: float) -> None:
        """SIGTERM: it may finish what is under way. A new life begins after `pause` seconds,
        overlapping or not; without a Lease only time keeps the two apart: it waits for TERMINATION
        as well, whoever wants it sooner."""
        if self._task is not None and self.life is not None:
            self._witness.note(f"{self.life.name} is stopped")
            self._leaving = not self._made.election
            self._leave(pause + TERMINATION if self._leaving else pause)

    def roll(self, pause: float) -> None:
        """It is stopped, and its next life is of the other release."""
        self.earlier = not self.earlier
        self.stop(pause)

    def freeze(self, seconds: float) -> None:
        """Nothing leaves the process or reaches it for a while; its clock runs on."""
        if self.life is not None:
            self.life.gate.frozen_until = asyncio.get_running_loop().time() + seconds

    async def close(self) -> None:
        """End the last life and everything that is left of earlier ones; what is still under way
        may be refused."""
        self._closed = True
        self._task = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for life in self._lives:
            for answer in await asyncio.gather(*life.late, return_exceptions=True):
                if isinstance(answer, BaseException) and not isinstance(answer, KubeError):
                    raise answer

    def _leave(self, pause: float) -> None:
        task = self._task
        self._task = None
        if task is not None:
            task.cancel()
        asyncio.get_running_loop().call_later(pause, self._return)

    def _return(self) -> None:
        self._leaving = False
        self.start()

    def _ended(self, task: asyncio.Task[None], name: str) -> None:
        if task is not self._task:
            return  # crashed or stopped by the schedule
        self._task = None
        error = None if task.cancelled() else task.exception()
        causes = _leaves(error)
        self._witness.note(f"{name} ends: {'; '.join(map(repr, causes))}")
        if causes and all(isinstance(cause, LeadershipLost) for cause in causes):
            self._witness.counts["leadership lost"] += 1
        else:
            self._witness.fail(f"process: {name} ended by itself: {causes or 'it returned'}")
        asyncio.get_running_loop().call_later(RESTART, self.start)


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [] if error is None else [error]
