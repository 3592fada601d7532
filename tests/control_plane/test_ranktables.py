"""Rank tables and fault reports on a real API server, with the rights of manifests/cluster-wide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scaler.cli import main
from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS
from scaler.sim.actors.clusterd import ClusterD
from scaler.sim.actors.devices import DevicePlugin, report_chips
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions
from scaler.tools.common.check_result import CheckResult
from scaler.tools.common.diagnosis import diagnose
from scaler.tools.why.rank_table import gather
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.stage import Stage, staged, until

JOBS = ("mindie-server-d0", "mindie-server-p0", "mindie-server-p1")


@asynccontextmanager
async def _machines(plane: ControlPlane) -> AsyncIterator[Stage]:
    """Three NPU nodes and one for MindIE's own pods; what gives out chips, and ClusterD."""
    async with (
        staged(plane, npu_nodes=3) as stage,
        plane.client() as api,
        asyncio.TaskGroup() as actors,
    ):
        await add_node(api, NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        tasks = [actors.create_task(actor.run()) for actor in (DevicePlugin(api), ClusterD(api))]
        try:
            yield stage
        finally:
            for task in tasks:
                task.cancel()


async def _table(stage: Stage, job: str) -> tuple[str, int]:
    """Status and version."""
    data = (await stage.api.get(CONFIG_MAPS, "mindie", f"rings-config-{job}"))["data"]
    return json.loads(data["hccl.json"])["status"], int(data.get("version", 0))


async def _statuses(stage: Stage) -> set[str]:
    return {(await _table(stage, job))[0] for job in JOBS}


async def _complete(stage: Stage) -> None:
    async def reached() -> bool:
        return await _statuses(stage) == {"completed"}

    await until(reached, "all rank tables are completed", lambda: _statuses(stage))


async def _withdrawn(stage: Stage, job: str) -> None:
    async def reached() -> bool:
        return (await _table(stage, job))[0] == "initializing"

    await until(reached, f"the table of {job} is withdrawn", lambda: _table(stage, job))


async def test_tables_follow_a_lost_node_and_faulty_chips(
    fresh_plane: FreshPlane, tmp_path: Path
) -> None:
    plane = fresh_plane(PlaneOptions(crds=definitions()))
    async with _machines(plane) as stage, scaler(tmp_path, install(plane), flags=ALONE) as process:
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        await _complete(stage)
        _, first = await _table(stage, "mindie-server-p0")

        await until(
            lambda: _published(stage),
            "ClusterD publishes a global rank table",
            lambda: _diagnosis(stage),
        )
        node = await stage.node_of("mindie-server-p0")
        await stage.node(node, NodeFate.NOT_READY)
        await _withdrawn(stage, "mindie-server-p0")
        await stage.node(node, NodeFate.READY)
        await _complete(stage)
        assert (await _table(stage, "mindie-server-p0"))[1] > first

        node = await stage.node_of("mindie-server-p1")
        await report_chips(stage.api, Clock(), node, [3], healthy=False)
        await _withdrawn(stage, "mindie-server-p1")
        await stage.runs(group0=1, group1=1)
        await report_chips(stage.api, Clock(), node, [3], healthy=True)
        await stage.runs(group0=2, group1=1)
        await _complete(stage)

        await until(
            lambda: _published(stage),
            "ClusterD publishes a global rank table",
            lambda: _diagnosis(stage),
        )
        assert (
            await asyncio.to_thread(
                main, ["why", "--rank-table", "mindie/mindie", "--kubeconfig", str(plane.admin)]
            )
            == 0
        )
        assert process.errors() == []


async def _diagnosis(stage: Stage) -> list[CheckResult]:
    return list(diagnose(await gather(stage.api, "mindie", "mindie")))


async def _published(stage: Stage) -> bool:
    found = await stage.api.get(CONFIG_MAPS, "mindie", "global-ranktable-mindie")
    groups = json.loads(found["data"]["global_ranktable"])["server_group_list"]
    return {group["job"] for group in groups if "job" in group} == set(JOBS)
