"""A controller that does not see what it decides on: it says so, stops, lets another lead, and goes
on when it sees.

And one that sees and whose writes hang: it is alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.app import PULSE, STALLED_AFTER, App
from scaler.clock import Clock
from scaler.election import LeadershipLost
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    LEASES,
    POD_GROUPS,
    PODS,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, KubeError, UnknownOutcomeError
from scaler.names import BLIND_SINCE, SEEN_BY
from scaler.settings import Settings
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.list_watch import Seen
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import START
from tests.test_minimums import nodes, service

OUT_OF_TOUCH = Settings().out_of_touch
LONG = OUT_OF_TOUCH + 2 * PULSE
MINUTE = 60.0
NEEDED = frozenset({ASCEND_JOBS, CONFIG_MAPS, POD_GROUPS, PODS})

Trouble = Callable[[], Awaitable[None]]


def answered(error: KubeError) -> Trouble:
    async def refuse() -> None:
        raise error

    return refuse


async def hang() -> None:
    """Until the client gives up."""
    await asyncio.sleep(MINUTE)
    raise UnknownOutcomeError("no answer in time")


TROUBLES: dict[str, Trouble] = {
    "403": answered(ForbiddenError(403, "Forbidden", "rbac")),
    "500": answered(UnknownOutcomeError("500 InternalError: oops")),
    "hangs": hang,
}


class Blind(Interceptor):
    """From `begin` on, these resources can neither be listed nor watched, and open watches say
    nothing."""

    def __init__(self, trouble: Trouble, resources: frozenset[Resource] = NEEDED) -> None:
        self._trouble = trouble
        self._resources = resources
        self.blind = False
        self.hung_creates = False

    async def before(self, request: Request) -> None:
        if self.blind and request.resource in self._resources and request.verb in ("list", "watch"):
            await self._trouble()
        if self.hung_creates and request.resource == PODS and request.verb == "create":
            await hang()

    async def deliver(self, request: Request, event: Seen) -> bool:
        if self.blind and request.resource in self._resources:
            await self._trouble()
        return True


class Replica:
    """One process. It is not started again when it ends."""

    def __init__(
        self, cluster: SimCluster, clock: Clock, name: str, interceptor: Blind, **settings: Any
    ) -> None:
        chosen = Settings(**{"http_port": 0, "identity": name, **settings})
        api = cluster.client(name, interceptor)
        self.view = interceptor
        self.app = App(api, chosen, clock, seed=name)
        self.task = asyncio.create_task(self.app.run())

    @property
    def lost(self) -> str:
        """Why it ended; "" while it runs."""
        error = self.task.exception() if self.task.done() else None
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        assert error is None or isinstance(error, LeadershipLost), error
        return str(error or "")

    @property
    def metric(self) -> float | None:
        return self.app.metrics.registry.get_sample_value("scaler_out_of_touch")

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Play:
    def __init__(self) -> None:
        self.clock = Clock(START)
        self.cluster = SimCluster(self.clock)
        self.cluster.apply([*nodes(3), *service("a", prefill=1)], NAMESPACE)
        self.replicas: list[Replica] = []

    async def start(self, name: str, trouble: Trouble = hang, **settings: Any) -> Replica:
        replica = Replica(self.cluster, self.clock, name, Blind(trouble), **settings)
        self.replicas.append(replica)
        await asyncio.sleep(15)
        return replica

    def status(self, rule: str = "a") -> dict[str, Any]:
        (found,) = [
            each
            for each in self.cluster.peek(ELASTIC_SERVICES, NAMESPACE)
            if each["spec"]["rule"] == rule
        ]
        status: dict[str, Any] = found["status"]
        return status

    @property
    def holder(self) -> str:
        (lease,) = self.cluster.peek(LEASES)
        return str(lease["spec"].get("holderIdentity") or "")

    def notes(self) -> dict[str, str]:
        (lease,) = self.cluster.peek(LEASES)
        return lease["metadata"].get("annotations") or {}

    def writes(self, name: str) -> list[str]:
        return [f"{w.verb} {w.resource.plural} {w.name}" for w in self.cluster.writes(name)]

    def created(self, name: str) -> set[str]:
        """The instances whose pods this replica has made."""
        made = (
            write.name
            for write in self.cluster.writes(name)
            if write.verb == "create" and write.resource == PODS
        )
        return {pod.removesuffix("-master-0") for pod in made}


@asynccontextmanager
async def stage() -> AsyncIterator[Play]:
    made = Play()
    try:
        yield made
    finally:
        for replica in made.replicas:
            await replica.stop()


@pytest.mark.parametrize("what", TROUBLES)
def test_a_leader_that_is_blind_for_ten_minutes_says_so_everywhere_and_stops(what: str) -> None:
    async def story() -> None:
        with capture_logs() as logs:
            async with stage() as on:
                one = await on.start("one", TROUBLES[what])
                assert (one.app.missing(), one.metric) == ([], 0)
                before = on.created("one")
                one.view.blind = True
                on.cluster.cut_all_watches()
                on.cluster.apply(service("b", prefill=1), NAMESPACE)
                await asyncio.sleep(10 * MINUTE)
                assert [line.split(":")[0] for line in one.app.missing()] == [
                    "waiting for ascendjobs.mindxdl.gitee.com",
                    "waiting for configmaps",
                    "waiting for podgroups.scheduling.volcano.sh",
                    "waiting for pods",
                ]
                assert one.app.stalled() == []
                assert one.metric == 1
                said = "nothing heard of ascendjobs, configmaps, podgroups, pods for 120 s"
                assert on.status()["outOfTouch"] == said
                assert on.created("one") == before
                assert (on.holder, one.lost) == ("one", "")
        assert [line["why"] for line in logs if line["event"] == "out of touch"] == [said]

    run(story())


def test_who_does_not_see_how_many_are_wanted_decides_nothing_until_it_does() -> None:
    async def story() -> None:
        async with stage() as on:
            numbers = Blind(hang, frozenset({ELASTIC_SERVICES}))
            one = Replica(on.cluster, on.clock, "one", numbers)
            on.replicas.append(one)
            await asyncio.sleep(15)
            numbers.blind = True
            on.cluster.cut_all_watches()
            await asyncio.sleep(LONG)
            said = "nothing heard of elasticservices for 120 s"
            assert on.status()["outOfTouch"] == said
            patch = {"spec": {"replicas": 0}}
            name = on.cluster.peek(ELASTIC_SERVICES, NAMESPACE)[0]["metadata"]["name"]
            await on.cluster.patch(
                ELASTIC_SERVICES, NAMESPACE, name, patch, patch_type=PatchType.MERGE
            )
            on.cluster.apply([*nodes(6), *service("b", prefill=1)], NAMESPACE)
            await asyncio.sleep(MINUTE)
            assert on.created("one") == {"a-p0", "a-d0"}
            numbers.blind = False
            await asyncio.sleep(MINUTE)
            assert on.created("one") == {"a-p0", "a-d0", "b-p0", "b-d0"}
            assert (on.status()["reason"], one.metric, one.lost) == ("Resting", 0, "")

    run(story())


def test_what_it_sees_again_is_decided_on_again() -> None:
    async def story() -> None:
        async with stage() as on:
            one = await on.start("one", TROUBLES["403"])
            one.view.blind = True
            on.cluster.cut_all_watches()
            await asyncio.sleep(LONG)
            on.cluster.apply([*nodes(6), *service("b", prefill=1)], NAMESPACE)
            await asyncio.sleep(MINUTE)
            assert on.created("one") == {"a-p0", "a-d0"}
            one.view.blind = False
            await asyncio.sleep(MINUTE)
            assert on.created("one") == {"a-p0", "a-d0", "b-p0", "b-d0"}
            assert "outOfTouch" not in on.status()
            assert (one.app.missing(), one.metric) == ([], 0)
            assert BLIND_SINCE not in on.notes()

    run(story())


def test_nothing_that_runs_is_touched_by_a_leader_that_is_blind() -> None:
    async def story() -> None:
        async with stage() as on:
            one = await on.start("one", TROUBLES["500"])
            one.view.blind = True
            on.cluster.cut_all_watches()
            await asyncio.sleep(LONG)
            before = len(
                [
                    line
                    for line in on.writes("one")
                    if "leases" not in line and "configmaps" not in line
                ]
            )
            await asyncio.sleep(30 * MINUTE)
            after = [
                line
                for line in on.writes("one")
                if "leases" not in line and "configmaps" not in line
            ]
            assert after[before:] == []

    run(story())


def test_a_blind_leader_makes_room_for_a_replica_that_sees() -> None:
    async def story() -> None:
        async with stage() as on:
            one = await on.start("one")
            two = await on.start("two")
            one.view.blind = True
            await asyncio.sleep(OUT_OF_TOUCH - 70)
            assert on.holder == "one"
            await asyncio.sleep(70 + MINUTE + 3 * PULSE)
            assert on.holder == "two"
            assert one.lost.startswith("out of touch since 20")
            assert one.lost.endswith("; two sees")
            on.cluster.apply([*nodes(6), *service("b", prefill=1)], NAMESPACE)
            await asyncio.sleep(5)
            assert on.created("two") == {"b-p0", "b-d0"}
            assert two.lost == ""
            assert BLIND_SINCE not in on.notes()

    run(story())


def test_where_nobody_sees_nobody_moves() -> None:
    async def story() -> None:
        async with stage() as on:
            one = await on.start("one")
            two = await on.start("two")
            one.view.blind = True
            await asyncio.sleep(OUT_OF_TOUCH / 2)
            # it heard something later than the leader did, and does not see either
            two.view.blind = True
            await asyncio.sleep(30 * MINUTE)
            assert (on.holder, one.lost, two.lost) == ("one", "", "")
            assert two.app.missing() != []
            assert {line for line in on.writes("two") if "leases" in line} == set()

    run(story())


def test_a_replica_that_is_blind_takes_no_lease() -> None:
    async def story() -> None:
        async with stage() as on:
            one = await on.start("one")
            two = await on.start("two")
            two.view.blind = True
            await asyncio.sleep(LONG)
            await one.stop()
            await asyncio.sleep(MINUTE)
            assert on.holder == ""
            two.view.blind = False
            on.cluster.cut_all_watches()
            await asyncio.sleep(MINUTE)
            assert on.holder == "two"

    run(story())


def test_two_replicas_that_see_write_nothing_about_it() -> None:
    async def story() -> None:
        async with stage() as on:
            await on.start("one")
            await on.start("two")
            await asyncio.sleep(10 * MINUTE)
            assert on.writes("two") == []
            assert not {BLIND_SINCE, SEEN_BY} & on.notes().keys()

    run(story())


def test_a_leader_whose_pod_creations_hang_is_alive_whatever_happens_meanwhile() -> None:
    """As with somebody else's admission webhook that does not answer, and one event a second."""

    async def story() -> None:
        async with stage() as on:
            one = await on.start("one", request_timeout=10)
            one.view.hung_creates = True
            on.cluster.apply(
                [rule_config_map(), job("p0", "group0"), job("d0", "group1")], NAMESPACE
            )
            unhealthy = []
            for number in range(300):
                patch = {"metadata": {"annotations": {"tick": str(number)}}}
                for name in ("p0", "d0"):
                    await on.cluster.patch(
                        ASCEND_JOBS, NAMESPACE, name, patch, patch_type=PatchType.MERGE
                    )
                await asyncio.sleep(1)
                unhealthy += one.app.stalled()
            assert unhealthy == []
            assert on.holder == "one"
            assert one.app.missing() == []

    run(story())


def test_a_decision_loop_that_stops_turning_with_work_to_do_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with stage() as on:
            one = Replica(on.cluster, on.clock, "one", Blind(hang))
            on.replicas.append(one)
            go_on = asyncio.Event()
            take = one.app.queue.take

            async def hanging() -> Any:
                await go_on.wait()
                return await take()

            monkeypatch.setattr(one.app.queue, "take", hanging)
            await asyncio.sleep(15 + STALLED_AFTER + 2 * PULSE)
            (said,) = one.app.stalled()
            assert said.startswith("decision loop: no sign of life for ")
            go_on.set()
            await asyncio.sleep(2 * PULSE)
            assert one.app.stalled() == []

    run(story())


def test_what_it_did_not_see_for_a_moment_between_two_pulses_is_made_up_for() -> None:
    async def story() -> None:
        async with stage() as on:
            one = await on.start("one")
            seen = one.app.controller.stale
            one.app.controller.stale = lambda: "nothing heard of pods"
            on.cluster.apply([*nodes(9), *service("b", prefill=1)], NAMESPACE)
            await asyncio.sleep(1)
            one.app.controller.stale = seen
            before = on.created("one")
            await asyncio.sleep(2 * PULSE)
            assert on.created("one") - before == {"b-p0", "b-d0"}

    run(story())
