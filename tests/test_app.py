"""What a process says of itself while it cannot work yet."""

from __future__ import annotations

import asyncio
import random

from scaler.app import App
from scaler.clock import Clock
from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS
from scaler.settings import Settings
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.rig import START


def test_readiness_names_what_is_not_installed_and_nothing_else() -> None:
    async def story() -> list[str]:
        clock = Clock(START)
        cluster = SimCluster(clock)
        await cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, "podgroups.scheduling.volcano.sh")
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

    what = "podgroups.scheduling.volcano.sh"
    assert run(story()) == [f"waiting for {what}: {what} are not installed in the cluster"]
