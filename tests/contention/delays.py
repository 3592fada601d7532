"""What a seed decides about a world besides its story: how long things take, and how late everybody hears of them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from scaler.clock import Clock
from scaler.kube.api import EventType
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.reading import Seen
from scaler.sim.cluster import SimCluster
from tests.contention.view import Sight


class Delays(msgspec.Struct, frozen=True):
    """Seconds. `lag` is by how much events may be late, `own` for the controller, `others` for the stand-ins."""

    seed: int = 0
    latency: float = 0.002
    own_lag: float = 0.0
    others_lag: float = 0.0
    timing: dict[str, Any] = {}
    """Of the scenario: how long the stand-ins take."""


CALM = Delays()


def delays_of(seed: int) -> Delays:
    """Of one seed; 0 is calm, and everything takes what it takes by default."""
    if not seed:
        return CALM
    rng = dice("weather", seed)
    start, stop = rng.choice([4.0, 8.0, 20.0]), rng.choice([0.5, 1.0, 5.0])
    timing = {
        "start": (start, start * rng.uniform(1.0, 4.0)),
        "stop": (stop, stop * rng.uniform(1.0, 6.0)),
        "schedule_period": round(rng.uniform(0.1, 2.0), 2),
        "fault_detection": round(rng.uniform(0.5, 15.0), 1),
    }
    latency = rng.choice([0.001, 0.002, 0.005, 0.02])
    own, others = (rng.choice([0.0, 0.01, 0.1, 0.4]) for _ in range(2))
    return Delays(seed, latency, own, others, timing)


def dice(what: str, seed: int) -> random.Random:
    """Chance for one purpose, so that more draws for another change nothing here."""
    return random.Random(f"{what}-{seed}")


class Late(Interceptor):
    """Events of watches come up to `lag` seconds after they happened, in their order."""

    def __init__(self, clock: Clock, lag: float, rng: random.Random) -> None:
        self._clock, self._lag, self._rng = clock, lag, rng

    async def deliver(self, request: Request, event: Seen) -> bool:
        if self._lag and event.record is not None:
            late = event.moment + self._rng.uniform(0.0, self._lag) - self._clock.now()
            await asyncio.sleep(max(0.0, late))
        return True


class Eyes(Late):
    """The same, and what is delivered goes into `sight`."""

    def __init__(self, cluster: SimCluster, sight: Sight, clock: Clock, lag: float, rng: random.Random) -> None:
        super().__init__(clock, lag, rng)
        self._cluster, self._sight = cluster, sight

    async def after(self, request: Request) -> None:
        if request.verb == "list":
            records = self._cluster.server.store.table(request.resource).records.values()
            self._sight.take_all(request.resource, [record.object for record in records])

    async def deliver(self, request: Request, event: Seen) -> bool:
        await super().deliver(request, event)
        if event.record is not None:
            gone = event.type is EventType.DELETED
            self._sight.take(request.resource, event.record.object, gone=gone)
        return True
