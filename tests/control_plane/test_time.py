"""The clock of a real API server: what `scaler run` is made of, with a wall clock that is wrong."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, PatchType
from scaler.kube.errors import NotFoundError
from scaler.run import run_against
from scaler.settings import Settings
from scaler.sim.stories.manifests import ensure_namespace
from scaler.timestamps import rfc3339
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import Stage, staged, until
from tests.jobs import NAMESPACE, job

HOUR = 3600.0
TTL = 90


async def finished(stage: Stage, name: str, ago: float) -> None:
    """A job that finished so many seconds ago, as the API server counts, which is on this
    machine."""
    await ensure_namespace(stage.api, NAMESPACE)
    made = job(name)
    made["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": TTL}
    await stage.api.create(
        ASCEND_JOBS, NAMESPACE, {**made, "metadata": {**made["metadata"], "namespace": NAMESPACE}}
    )
    at = rfc3339(time.time() - ago)
    ended: dict[str, Any] = {
        "type": "Succeeded",
        "status": "True",
        "reason": "JobSucceeded",
        "message": "done",
    }
    status = {
        "replicaStatuses": {},
        "conditions": [{**ended, "lastTransitionTime": at, "lastUpdateTime": at}],
        "completionTime": at,
    }
    patch = {"status": status}
    await stage.api.patch(
        ASCEND_JOBS, NAMESPACE, name, patch, patch_type=PatchType.MERGE, subresource="status"
    )


async def is_gone(stage: Stage, name: str) -> bool:
    try:
        await stage.api.get(ASCEND_JOBS, NAMESPACE, name)
    except NotFoundError:
        return True
    return False


@pytest.mark.long("a cluster of its own")
async def test_a_finished_job_goes_when_the_api_server_says_so_whatever_the_wall_clock_says(
    plane: ControlPlane,
) -> None:
    async with staged(plane, npu_nodes=0) as stage:
        for wall, young, old in ((HOUR, "young", "old"), (-HOUR, "younger", "older")):
            await finished(stage, young, ago=TTL - 60)
            await finished(stage, old, ago=TTL + 1)
            clock = Clock(time.time() + wall - asyncio.get_running_loop().time())
            settings = Settings(leader_election=False, http_port=0, kubeconfig=str(plane.admin))
            scaler = asyncio.create_task(run_against(settings, clock))
            try:
                await until(partial(is_gone, stage, old), f"{old} is gone")
                await asyncio.sleep(5)
                assert not await is_gone(stage, young)
                assert not scaler.done()
            finally:
                scaler.cancel()
                await asyncio.gather(scaler, return_exceptions=True)
