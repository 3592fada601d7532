"""A live service moves from Ascend Operator to the scaler and back on a real API server; no pod
notices.

The operator is the simulation's stand-in, stopped and started by `kubectl scale` as a user would.
The scaler and the check are the programs themselves, with the rights of manifests/cluster-wide."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    SERVICES,
)
from scaler.names import KEEP_LABEL, RANK_TABLE_KEY, RANK_TABLE_PREFIX
from scaler.sim.actors import objects
from scaler.sim.actors.devices import DevicePlugin
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node
from scaler.sim.actors.operator import NAMESPACE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import USER, install, scaler
from tests.control_plane.stage import Stage, staged, until
from tests.stand_ins import DEPLOYMENT, DeployedOperator, deployment

pytestmark = pytest.mark.plane_options(audit=True)

DECODE = "mindie-server-d0"
PREFILL = "mindie-server-p0"
_ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def _operated(plane: ControlPlane) -> AsyncIterator[Stage]:
    """A service that an operator has brought to 2P1D."""
    async with staged(plane, npu_nodes=3) as stage, plane.client() as api:
        await add_node(api, NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        await stage.api.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
        await stage.api.create(DEPLOYMENTS, NAMESPACE, deployment())
        actors = [
            asyncio.create_task(a.run())
            for a in (DeployedOperator(api, Clock()), DevicePlugin(api))
        ]
        try:
            await stage.apply()
            await stage.runs(group0=2, group1=1)
            await until(
                lambda: _whole(stage),
                "every pod runs and every rank table is completed",
                stage.views,
            )
            yield stage
            assert [actor for actor in actors if actor.done()] == []
        finally:
            for actor in actors:
                actor.cancel()
            await asyncio.gather(*actors, return_exceptions=True)


async def _whole(stage: Stage) -> bool:
    """MindIE's own controller and coordinator included."""
    pods = (await stage.api.list(PODS, "mindie")).items
    completed = [status for status, _ in (await _tables(stage)).values()] == ["completed"] * 3
    return len(pods) == 5 and all(objects.phase(pod) == "Running" for pod in pods) and completed


async def _tables(stage: Stage) -> dict[str, tuple[str, str]]:
    """Of each rank table: status and the ConfigMap's resourceVersion."""
    return {
        objects.name(found): (
            json.loads(found["data"][RANK_TABLE_KEY])["status"],
            found["metadata"]["resourceVersion"],
        )
        for found in (await stage.api.list(CONFIG_MAPS, "mindie")).items
        if objects.name(found).startswith(RANK_TABLE_PREFIX)
    }


async def _uids(stage: Stage) -> dict[str, str]:
    return {
        f"{resource.plural} {objects.name(obj)}": objects.uid(obj)
        for resource in (PODS, POD_GROUPS, SERVICES)
        for obj in (await stage.api.list(resource, "mindie")).items
    }


def _scale_operator(plane: ControlPlane, replicas: int) -> None:
    plane.kubectl(
        "scale", "deployment", DEPLOYMENT, f"--replicas={replicas}", "--namespace", NAMESPACE
    )


async def _loses_its_node_and_regains_it(stage: Stage, job: str) -> None:
    """Until the pod has been deleted, made anew (which the operator does only when there is room),
    and runs again."""
    node = await stage.node_of(job)
    pod = f"pods {job}-master-0"
    before = (await _uids(stage))[pod]
    await stage.node(node, NodeFate.NOT_READY)
    await until(lambda: _is_gone(stage, pod, before), f"{pod} is deleted")
    await stage.node(node, NodeFate.READY)
    await until(lambda: _whole(stage), "every pod runs", stage.views)
    await stage.runs(group0=2, group1=1)


async def _is_gone(stage: Stage, pod: str, uid: str) -> bool:
    return (await _uids(stage)).get(pod) != uid


async def _check(kubeconfig: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of `scaler takeover --check`."""
    words = ["takeover", "--check", "-o", "json", "--kubeconfig", str(kubeconfig)]
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "scaler", *words],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ran.returncode, json.loads(ran.stdout)


async def _acts(stage: Stage) -> bool:
    """The scaler has written its first status."""
    return any(
        "status" in found for found in (await stage.api.list(ELASTIC_SERVICES, "mindie")).items
    )


async def _kept(stage: Stage) -> set[str]:
    """Pods with the label of a minimum, which the scaler gives to what already runs, too."""
    found = await stage.api.list(PODS, "mindie", label_selector=f"{KEEP_LABEL}=true")
    return {pod["metadata"]["name"] for pod in found.items}


def _writes(plane: ControlPlane) -> set[str]:
    """What the scaler changed of pods, PodGroups, Services; how often is the fault's matter."""
    return {
        f"{event['verb']} {event['objectRef']['resource']} {event['objectRef'].get('name', '')}"
        f" {event['responseStatus']['code']}"
        for event in plane.audit_events(USER)
        if event["verb"] not in ("get", "list", "watch")
        and event.get("objectRef", {}).get("resource") in ("pods", "podgroups", "services")
    }


@pytest.mark.long("there and back in real time")
async def test_a_service_moves_to_the_scaler_and_back_and_every_pod_stays(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install(plane)
    async with _operated(plane) as stage:
        made_by_the_operator = await _uids(stage)
        code, report = await _check(kubeconfig)
        assert (code, report["operator"]) == (0, f"{NAMESPACE}/{DEPLOYMENT}")
        told = [
            remark
            for job in report["jobs"]
            for remark in job["remarks"]
            if remark["weight"] != "expected"
        ]
        assert (told, len(report["jobs"])) == ([], 5)

        async with scaler(tmp_path, kubeconfig):  # beside the operator: it stands back
            await _loses_its_node_and_regains_it(stage, DECODE)
            assert not await _acts(stage)
            beside = await _uids(stage)
            assert {name for name in beside if beside[name] != made_by_the_operator.get(name)} == {
                f"pods {DECODE}-master-0"
            }

            tables = await _tables(stage)
            _scale_operator(plane, 0)
            await until(lambda: _acts(stage), "the scaler acts")
            await until(
                lambda: _kept(stage), "the minimum is kept", fits=lambda names: len(names) == 2
            )
            await asyncio.sleep(2)
            kept = {f"patch pods {name} 200" for name in await _kept(stage)}
            assert (await _uids(stage), _writes(plane), await _tables(stage)) == (
                beside,
                kept,
                tables,
            )

            await _loses_its_node_and_regains_it(stage, DECODE)
            made = {write for write in _writes(plane) if not write.startswith("patch pods ")}
            assert made == {f"create pods {DECODE}-master-0 201"}
            made_by_the_scaler = await _uids(stage)
            assert {name for name in beside if made_by_the_scaler[name] != beside[name]} == {
                f"pods {DECODE}-master-0"
            }

        assert (await _check(kubeconfig))[0] == 0
        _scale_operator(plane, 1)
        await asyncio.sleep(3)
        assert await _uids(stage) == made_by_the_scaler
        await _loses_its_node_and_regains_it(stage, PREFILL)
