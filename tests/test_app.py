"""What a process says of itself while it cannot work yet."""

from __future__ import annotations

import asyncio
import random

from scaler.app import App
from scaler.clock import Clock
from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS, NODES
from scaler.settings import Settings
from scaler.sim.apiserver.interceptor import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.rig import START


class Slow(Interceptor):
    """The API server answers lists of nodes late."""

    async def before(self, request: Request) -> None:
        if request.verb == "list" and request.resource == NODES:
            await asyncio.sleep(30)


def test_it_is_not_ready_before_all_nodes_are_listed_unless_it_may_not_list_them() -> None:
    async def story() -> list[list[str]]:
        clock = Clock(START)
        api = SimCluster(clock).client("scaler", Slow())
        settings = Settings(leader_election=False, http_port=0)
        app = App(api, settings, clock, observer=None, rng=random.Random(0), on_synced=lambda: None)
        running = asyncio.create_task(app.run())
        said = []
        for seconds in (12, 36):
            await asyncio.sleep(seconds)
            said.append(app.health.missing())
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return said

    assert run(story()) == [["waiting for nodes: not listed yet"], []]


def test_a_cluster_without_volcano_and_ascend_jobs_gets_ready() -> None:
    async def story() -> list[str]:
        clock = Clock(START)
        cluster = SimCluster(clock)
        for name in ("podgroups.scheduling.volcano.sh", "ascendjobs.mindxdl.gitee.com"):
            await cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, name)
        settings = Settings(leader_election=False, http_port=0)
        app = App(
            cluster.client("scaler"), settings, clock, observer=None, rng=random.Random(0), on_synced=lambda: None
        )
        running = asyncio.create_task(app.run())
        await asyncio.sleep(12)
        said = app.health.missing()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return said

    assert run(story()) == []
