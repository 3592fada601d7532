"""What the campaign found in the controller, each as short as it can be told."""

from __future__ import annotations

import asyncio

from scaler.sim.apiserver.interceptor import Interceptor, Request
from scaler.sim.apiserver.watching import Seen
from scaler.sim.loop import run
from tests.jobs import job, rule_config_map, rule_document
from tests.rig import rig

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))


class BlindFor(Interceptor):
    """The watch of pods stands still at the first pod of this name, for two minutes."""

    def __init__(self, pod: str) -> None:
        self._pod = pod

    async def deliver(self, request: Request, event: Seen) -> bool:
        if event.record is not None and event.record.object["metadata"]["name"] == self._pod:
            await asyncio.sleep(120)
        return True


def test_a_pod_group_stays_though_the_watch_of_pods_never_showed_its_pods() -> None:
    """Seed 100: after 30 s the own creations counted as seen, and an instance without pods keeps no PodGroup."""

    async def story() -> None:
        async with rig(*SERVICE, interceptor=BlindFor("p1-master-0")) as on:
            await on.start("p0", "d0")
            await on.start("p1")
            on.apply(rule_config_map(rule_document({"group0": 1, "group1": 1})))
            await on.settle(60)
            assert on.with_pod_group() == {"p0", "p1", "d0"}

    run(story())
