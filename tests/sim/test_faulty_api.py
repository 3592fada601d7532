"""Faults on demand: requests fail in either direction, watches break, and afterwards everything is
as before."""

from __future__ import annotations

import asyncio

import pytest

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS
from scaler.kube.errors import UnknownOutcomeError
from scaler.sim.actors.faulty_api import FaultyApi
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run


def test_a_failed_write_may_have_taken_effect_or_not() -> None:
    async def main() -> int:
        cluster = SimCluster(Clock(0.0))
        flaky = FaultyApi(cluster, seed=1)
        flaky.fail(share=1.0, lasting=60)
        for number in range(40):
            with pytest.raises(UnknownOutcomeError):
                await flaky.create(CONFIG_MAPS, "default", {"metadata": {"name": f"c{number}"}})
        return len(cluster.peek(CONFIG_MAPS, "default"))

    assert 5 < run(main()) < 35


def test_faults_end_with_their_time() -> None:
    async def main() -> int:
        flaky = FaultyApi(SimCluster(Clock(0.0)))
        flaky.fail(share=1.0, lasting=10)
        with pytest.raises(UnknownOutcomeError):
            await flaky.list(CONFIG_MAPS)
        await asyncio.sleep(10)
        return len((await flaky.list(CONFIG_MAPS)).items)

    assert run(main()) == 0


def test_a_cut_watch_raises_and_can_be_started_again() -> None:
    async def main() -> str:
        flaky = FaultyApi(SimCluster(Clock(0.0)))
        version = (await flaky.list(CONFIG_MAPS)).resource_version
        asyncio.get_running_loop().call_later(5, flaky.cut_watches)
        with pytest.raises(UnknownOutcomeError, match="cut"):
            await anext(flaky.watch(CONFIG_MAPS, resource_version=version))
        await flaky.create(CONFIG_MAPS, "default", {"metadata": {"name": "c"}})
        event = await anext(flaky.watch(CONFIG_MAPS, resource_version=version))
        return str(event.object and event.object["metadata"]["name"])

    assert run(main()) == "c"
