"""What was seen may be true no more, above all of a new leader whose watch is behind: nothing that
runs ends by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from scaler.kube.api import Object
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from tests.faults import Fault, Faults, Rule
from tests.jobs import job, node
from tests.rig import NODE, Rig, controller, rig
from tests.test_life import ONE_AND_ONE, last, with_policy
from tests.test_minimums import nodes, not_ready, serve, service

ELECTED = 30.0
"""Seconds in which one that is alone leads."""


class Standby:
    """Waits to lead. `behind` stops a watch of it, `leads` ends the leader."""

    def __init__(self, faults: Faults, leader: AsyncExitStack) -> None:
        self._faults = faults
        self._leader = leader

    def behind(self, kind: str, after: int = 0) -> None:
        """So many events more of this kind, then none."""
        silent = Rule(
            fault=Fault.SILENT, verbs=frozenset({"watch"}), kinds=frozenset({kind}), skip=after
        )
        self._faults.rules.append(silent)

    async def leads(self) -> None:
        await self._leader.aclose()


@asynccontextmanager
async def two_replicas(*objects: Object) -> AsyncIterator[tuple[Rig, Standby]]:
    on = Rig()
    faults = Faults(on.clock)
    on.apply(node(NODE), *objects)
    async with AsyncExitStack() as first:
        await first.enter_async_context(
            controller(on, name="one", identity="one", leader_election=True)
        )
        await on.settle(ELECTED)
        async with controller(
            on, name="two", identity="two", interceptor=faults, leader_election=True
        ):
            await on.settle()
            yield on, Standby(faults, first)


def test_a_job_is_not_ended_for_restarts_whose_pods_the_new_leader_has_not_seen() -> None:
    async def story() -> None:
        async with two_replicas(ONE_AND_ONE, with_policy("p0", backoffLimit=1), job("d0")) as (
            on,
            standby,
        ):
            await on.start("p0", "d0")
            standby.behind("Pod", after=1)
            await on.kill("p0")
            await on.settle(2)
            await on.start("p0")
            await on.settle(2)
            (pod,) = on.pods_of("p0")
            await standby.leads()
            await on.settle(20)
            assert last(on, "p0") != ("Failed", "BackoffLimitExceeded")
            assert [one["metadata"]["uid"] for one in on.pods_of("p0")] == [pod["metadata"]["uid"]]
            assert "deletionTimestamp" not in pod["metadata"]

    run(story())


def test_pods_are_not_too_many_because_the_new_leader_has_not_seen_that_replicas_were_raised() -> (
    None
):
    async def story() -> None:
        async with two_replicas(ONE_AND_ONE, job("p0", pods=2), job("d0")) as (on, standby):
            await on.start("p0", "d0")
            standby.behind("AscendJob")
            await on.edit("p0", "/spec/replicaSpecs/Worker/replicas", 2)
            await on.settle(2)
            await on.start("p0")
            await standby.leads()
            await on.settle(20)
            assert [write for write in on.writes("two") if write.startswith("delete pods")] == []
            assert len(on.pods_of("p0")) == 3

    run(story())


class ComesToRun(Interceptor):
    """Just before a deletion of this pod arrives, it starts to run."""

    def __init__(self, name: str) -> None:
        self.waiting: list[Rig] = []
        self._name = name

    async def before(self, request: Request) -> None:
        if self.waiting and request.verb == "delete" and request.name == self._name:
            on = self.waiting.pop()
            for pod in on.pods_of("a-p1"):
                await on.status(
                    pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}]
                )


def test_surplus_that_runs_since_it_was_seen_is_not_evicted_as_something_that_does_not() -> None:
    async def story() -> None:
        runs = ComesToRun("a-p1-master-0")
        async with rig(*nodes(3), *service("a"), interceptor=runs) as on:
            await serve(on, "a", "n1", "n2")
            (surplus,) = on.pods_of("a-p1")
            await on.bind(surplus, "n3")
            await not_ready(on, "n2")
            runs.waiting.append(on)
            await on.kill("a-d0")
            await on.settle(60)
            assert runs.waiting == []
            (pod,) = on.pods_of("a-p1")
            assert "deletionTimestamp" not in pod["metadata"]
            await on.settle(60)
            (pod,) = on.pods_of("a-p1")
            assert "deletionTimestamp" in pod["metadata"]

    run(story())


@pytest.mark.parametrize("spared", [0, 30], ids=["from the start", "after a while"])
def test_a_new_service_is_served_within_a_minute_of_watches_that_say_nothing_and_never_end(
    spared: int,
) -> None:
    """A middlebox swallows all that the API server says on watches, their ends included."""

    async def story() -> float:
        on = Rig()
        faults = Faults(on.clock)
        on.apply(node(NODE))
        async with controller(on, name="one", identity="one", interceptor=faults):
            await on.settle(spared)
            faults.rules.append(Rule(fault=Fault.SILENT, verbs=frozenset({"watch"})))
            await on.settle(1)
            applied = on.clock.now()
            on.apply(ONE_AND_ONE, job("p0"), job("d0"))
            while not (on.pods_of("p0") and on.pods_of("d0")):
                assert on.clock.now() < applied + 300
                await on.settle(1)
            return on.clock.now() - applied

    assert run(story()) <= 55
