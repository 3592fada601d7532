"""Leadership by a Lease: at most one replica may send writes, and a standby takes over fast.

Only the loop's time decides, measured locally: timestamps in the Lease are for people. A leader may send until
`deadline()`, counted from before its last successful renewal was sent; a candidate waits for the whole lease from
when it saw the last change. It performs no work itself and writes nothing but its Lease.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

from scaler.clock import Clock
from scaler.kube.api import LEASES, EventType, KubeApi, Object
from scaler.kube.errors import ConflictError, KubeError, NotFoundError

RELEASED_BY = "mind-cluster/released-by"
"""Annotation of a vacant Lease: this holder stopped its work before it let go, nobody has to wait for it."""
LONGEST_LEASE = 60.0
"""Seconds: a longer leaseDurationSeconds in a Lease that somebody edited is not believed."""
RELEASE_TIMEOUT = 2.0

_log = structlog.get_logger(__name__)


class LeadershipLost(Exception):  # noqa: N818 - not an error of the code: another replica leads, or no renewal came through
    """The process has to end: what it knows may be outdated from here on."""


class LeaseTiming(msgspec.Struct, frozen=True):
    """Seconds. `duration - renew_deadline` is what clocks may drift and a request may linger."""

    duration: float = 8.0
    renew_deadline: float = 5.0
    retry: float = 1.0


class Election:
    """One candidate. `identity` must be unique to the life of this process (pod name and a random part)."""

    def __init__(
        self, api: KubeApi, clock: Clock, *, namespace: str, name: str, identity: str, rng: random.Random,
        timing: LeaseTiming = LeaseTiming(),
    ) -> None:  # fmt: skip
        self.identity = identity
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._rng = rng
        self._timing = timing
        self._deadline = -math.inf
        self._lease: Object | None = None
        self._observed: Any = _NOTHING_YET
        self._observed_at = math.inf
        self._attempted: Any = None
        self._changed = asyncio.Event()

    def deadline(self) -> float:
        """Loop time after which nothing may be sent; -inf while not leading."""
        return self._deadline

    @property
    def leading(self) -> bool:
        return asyncio.get_running_loop().time() < self._deadline

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait until leader, then run `work` until it ends, leadership is lost (LeadershipLost) or this is cancelled.

        However it ends, `work` is cancelled and awaited first and the Lease released afterwards.
        """
        raise NotImplementedError
