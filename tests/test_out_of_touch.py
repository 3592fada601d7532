"""Nodes that cannot be read any more: the whole controller goes on, each service for itself, and
comes back."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from scaler.app import PULSE, App
from scaler.clock import Clock
from scaler.kube.api import NODES, Resource
from scaler.kube.errors import ForbiddenError, KubeError, UnknownOutcomeError
from scaler.settings import Settings
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.list_watch import Seen
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.jobs import node
from tests.rig import START, Rig, rig
from tests.test_minimums import foreign, nodes, not_ready, remove, serve, service

OUT_OF_TOUCH = Settings().out_of_touch
LONG = OUT_OF_TOUCH + 2 * PULSE
BACK = 100.0
"""Seconds in which the longest pause between two tries is over, and a bookmark has come."""
FORBIDDEN = ForbiddenError(403, "Forbidden", "not allowed any more")
BROKEN = UnknownOutcomeError("the stream breaks")


class Taken(Interceptor):
    """From `begin` on this resource can neither be listed nor watched; a watch that stands goes on
    until it is cut."""

    def __init__(self, resource: Resource, error: KubeError = FORBIDDEN) -> None:
        self._resource = resource
        self._error = error
        self.away = False

    def begin(self, on: Rig) -> None:
        self.away = True
        on.cluster.cut_all_watches()

    async def before(self, request: Request) -> None:
        if self.away and request.resource == self._resource and request.verb in ("list", "watch"):
            raise self._error

    async def deliver(self, request: Request, event: Seen) -> bool:
        return not (self.away and request.resource == self._resource)


async def one_serves_and_one_waits(on: Rig) -> None:
    await serve(on, "a", "n1", "n2")
    assert on.reason("b-p0") == "MinimumDoesNotFit"


@pytest.mark.parametrize("error", [FORBIDDEN, BROKEN], ids=str)
def test_what_can_no_longer_be_read_is_no_ground_to_hold_anybody(error: KubeError) -> None:
    async def story() -> None:
        taken = Taken(NODES, error)
        with capture_logs() as logs:
            async with rig(
                *nodes(3), *service("a", prefill=1), *service("b", prefill=1), interceptor=taken
            ) as on:
                await one_serves_and_one_waits(on)
                taken.begin(on)
                await on.settle(LONG)
                assert {"b-p0", "b-d0"} <= on.with_pods()
                why = "the nodes cannot be read any more"
                assert [on.said(rule)["alone"] for rule in ("a", "b")] == [why, why]
        assert [line["why"] for line in logs if line["event"].startswith("no arbitration")] == [why]

    run(story())


def test_with_the_right_to_read_them_services_are_weighed_against_each_other_again() -> None:
    async def story() -> None:
        taken = Taken(NODES)
        async with rig(
            *nodes(3), *service("a", prefill=1), *service("b", prefill=1), interceptor=taken
        ) as on:
            await one_serves_and_one_waits(on)
            taken.begin(on)
            await on.settle(LONG)
            taken.away = False
            await on.settle(BACK)
            assert on.reason("b-p0") == "MinimumDoesNotFit"
            assert on.with_pods() == {"a-p0", "a-d0"}
            assert "alone" not in on.said("a")

    run(story())


def test_a_node_that_joined_unseen_is_not_taken_for_a_missing_one() -> None:
    async def story() -> None:
        taken = Taken(NODES)
        async with rig(*nodes(3), *service("a", prefill=1), interceptor=taken) as on:
            taken.begin(on)
            await on.settle(LONG)
            on.apply(node("new"))
            await serve(on, "a", "n1", "new")
            assert on.reason("a-d0") == "Running"

    run(story())


def test_a_short_interruption_changes_nothing() -> None:
    async def story() -> None:
        taken = Taken(NODES)
        async with rig(
            *nodes(3), foreign("train", "n3"), *service("a"), *service("b"), interceptor=taken
        ) as on:
            await one_serves_and_one_waits(on)
            taken.begin(on)
            await on.settle(OUT_OF_TOUCH / 2)
            await not_ready(on, "n2")
            taken.away = False
            await on.settle(BACK)
            assert on.reason("a-d0") == "Broken"
            await remove(on, "train")
            assert not {"b-p0", "b-d0"} & on.with_pods()

    run(story())


def test_a_metric_tells_that_each_service_decides_alone() -> None:
    async def story() -> list[float | None]:
        clock = Clock(START)
        taken = Taken(NODES)
        told: list[float | None] = []
        cluster = SimCluster(clock)
        cluster.apply([*nodes(3), *service("a")], "mindie")
        settings = Settings(leader_election=False, http_port=0)
        api = cluster.client("scaler", taken)
        app = App(api, settings, clock, seed=0)
        running = asyncio.create_task(app.run())
        for away, seconds in ((False, 10.0), (True, LONG), (False, BACK)):
            taken.away = away
            cluster.cut_all_watches()
            await asyncio.sleep(seconds)
            told.append(app.metrics.registry.get_sample_value("scaler_arbitration"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return told

    assert run(story()) == [1, 0, 1]
