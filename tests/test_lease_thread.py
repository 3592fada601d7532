"""The Lease in a thread of its own, in real time: with a main loop that stands still, and one that
does not."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from scaler.clock import Clock
from scaler.election import Election, LeadershipLost
from scaler.kube.api import LEASES, PODS, KubeApi, Object
from scaler.kube.errors import ForbiddenError, NotSentError
from scaler.kube.writer import NotLeaderError, Writer
from scaler.names import RELEASED_BY
from scaler.settings import Settings
from scaler.sim.cluster import SimCluster
from scaler.threads import PATIENCE, lead_in_thread

NS = "kube-system"
NAME = "scaler"
TIMING = Settings(
    lease_duration=2.5,
    renew_deadline=2.0,
    retry_period=0.1,
    lease_namespace=NS,
    lease_name=NAME,
    identity="me",
)
SHORT = 3.0
LONG = 9.0
"""Seconds: a pause beyond the deadline, and one beyond patience and deadline."""


class Stage:
    """One candidate. Its cluster lives in the candidate's thread; `renewed` is the time of the last
    renewal."""

    def __init__(self) -> None:
        self.clock = Clock(1_800_000_000.0)
        self.cluster = SimCluster(self.clock)
        vacant = {"apiVersion": LEASES.api_version, "kind": "Lease", "spec": {}}
        metadata = {"name": NAME, "namespace": NS, "annotations": {RELEASED_BY: "nobody"}}
        self.cluster.apply([vacant | {"metadata": metadata}])
        self.election = Election(self.clock, TIMING, rng=random.Random(1))
        self.writer = Writer(self.cluster, deadline=self.election.deadline, rng=random.Random(1))
        self.threads: set[str] = set()
        self.working = asyncio.Event()
        self.ended = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[KubeApi]:
        self.threads.add(threading.current_thread().name)
        yield self.cluster.client("candidate")

    async def work(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.working.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True

    def lease(self) -> Object:
        spec: Object = self.cluster.peek(LEASES, NS)[0]["spec"]
        return spec

    def renewals(self) -> int:
        return len(self.cluster.writes("candidate"))


async def led(stage: Stage) -> asyncio.Task[None]:
    leading = asyncio.create_task(lead_in_thread(stage.election, stage.connect, stage.work))
    async with asyncio.timeout(20):
        await stage.working.wait()
    return leading


async def test_a_main_loop_that_stands_still_for_a_while_stays_the_leader() -> None:
    assert PATIENCE * TIMING.lease_duration > SHORT
    stage = Stage()
    leading = await led(stage)
    before = stage.renewals()
    time.sleep(SHORT)  # noqa: ASYNC251 - that is what is tried
    assert stage.renewals() > before + 1
    assert stage.election.deadline() > asyncio.get_running_loop().time()
    assert stage.threads == {"MainThread", "lease"}
    leading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leading
    assert stage.ended
    assert not stage.lease().get("holderIdentity")


async def test_a_main_loop_that_stands_still_for_too_long_sends_nothing_when_it_wakes() -> None:
    assert PATIENCE * TIMING.lease_duration + TIMING.renew_deadline < LONG
    stage = Stage()
    leading = await led(stage)
    time.sleep(LONG)  # noqa: ASYNC251
    assert stage.election.deadline() <= asyncio.get_running_loop().time()
    with pytest.raises(NotLeaderError):
        await stage.writer.create(PODS, NS, {"metadata": {"name": "late"}})
    with pytest.raises(LeadershipLost, match="no renewal came through"):
        await leading
    assert stage.ended
    assert stage.lease()["holderIdentity"] == "me"


async def test_what_ends_the_work_ends_the_thread_with_the_same_error() -> None:
    stage = Stage()

    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lead_in_thread(stage.election, stage.connect, fail)
    assert not stage.lease().get("holderIdentity")
    assert "lease" not in {thread.name for thread in threading.enumerate()}


async def test_a_connection_that_cannot_be_made_is_told_to_who_wants_to_lead() -> None:
    def refused() -> AbstractAsyncContextManager[KubeApi]:
        raise NotSentError("no usable configuration of a cluster")

    with pytest.raises(NotSentError):
        await lead_in_thread(Stage().election, refused, Stage().work)


async def test_the_connection_of_the_election_writes_nothing_outside_of_its_own_namespace() -> None:
    stage = Stage()
    refused = list[str]()

    async def lead(api: KubeApi, work: Callable[[], Awaitable[None]]) -> None:
        for resource, namespace in ((PODS, NS), (LEASES, "elsewhere")):
            with pytest.raises(ForbiddenError):
                await api.create(resource, namespace, {"metadata": {"name": "evil"}})
            refused.append(namespace)

    stage.election.lead = lead  # type: ignore[method-assign]
    await lead_in_thread(stage.election, stage.connect, stage.work)
    assert (refused, stage.renewals()) == ([NS, "elsewhere"], 0)
