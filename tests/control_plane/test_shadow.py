"""A shadow beside an operator on a real API server: with the rights of manifests/shadow it reads,
notes, and writes nothing else; the audit log says so. Beside an install that acts, neither minds
the other."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, DEPLOYMENTS, ELASTIC_SERVICES, EVENTS, NAMESPACES, Object
from scaler.kube.errors import NotFoundError
from scaler.sim.actors.devices import DevicePlugin
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node
from scaler.sim.actors.operator import NAMESPACE as OPERATORS
from scaler.sim.apiserver.crds import definitions
from scaler.tools.shadow.command import USUAL
from scaler.tools.shadow.record import NAME
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.plugin import FreshPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import install, leads, scaler
from tests.control_plane.stage import Stage, staged, until
from tests.stand_ins import DeployedOperator, deployment

pytestmark = [pytest.mark.plane_options(audit=True), pytest.mark.long("services in real time")]

ACCOUNT = "mind-cluster-scaler-shadow"
USER = f"system:serviceaccount:{USUAL}:{ACCOUNT}"
FLAGS = ("--lease-namespace", USUAL)
SHADOW = "scaler shadow"
READING = {"get", "list", "watch"}
_ROOT = Path(__file__).parents[2]


def shadowed(plane: ControlPlane) -> Path:
    """The manifests applied as a user would; the kubeconfig of the shadow's account."""
    plane.kubectl("apply", "-k", str(_ROOT / "manifests" / "shadow"))
    plane.kubectl("scale", "deployment", ACCOUNT, "--replicas=0", "--namespace", USUAL)
    return plane.grant(USUAL, ACCOUNT)


@asynccontextmanager
async def operated(plane: ControlPlane) -> AsyncIterator[Stage]:
    """Ascend Operator's stand-in makes pods; three nodes, and the documented example is not applied
    yet."""
    async with staged(plane, npu_nodes=3) as stage, plane.client() as api:
        await add_node(api, NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        await stage.api.create(NAMESPACES, None, {"metadata": {"name": OPERATORS}})
        await stage.api.create(DEPLOYMENTS, OPERATORS, deployment())
        actors = [
            asyncio.create_task(a.run())
            for a in (DeployedOperator(api, Clock()), DevicePlugin(api))
        ]
        try:
            yield stage
            assert [actor for actor in actors if actor.done()] == []
        finally:
            for actor in actors:
                actor.cancel()
            await asyncio.gather(*actors, return_exceptions=True)


def reported(plane: ControlPlane) -> dict[str, Any]:
    """`scaler shadow report -o json`, as an administrator types it."""
    command = [
        sys.executable,
        "-m",
        "scaler",
        "shadow",
        "report",
        "-o",
        "json",
        "--kubeconfig",
        str(plane.admin),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_it_notes_what_it_would_do_and_the_audit_log_has_no_other_write_of_it(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = shadowed(plane)
    async with (
        operated(plane) as stage,
        scaler(tmp_path, kubeconfig, flags=FLAGS, module=SHADOW) as process,
    ):
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        lost = await stage.node_of("mindie-server-d0")
        await stage.node(lost, NodeFate.NOT_READY)
        await stage.runs(group0=2, group1=0)
        await stage.node(lost, NodeFate.READY)
        await stage.runs(group0=2, group1=1)
        await until(lambda: _is_noted(stage), "the notes are written", stage.views)
        found = await asyncio.to_thread(reported, plane)
        assert process.errors() == []
        statuses = (await stage.api.list(ELASTIC_SERVICES)).items
        events = (await stage.api.list(EVENTS)).items
    assert statuses == []
    assert [
        event
        for event in events
        if event.get("source", {}).get("component") == "mind-cluster-scaler"
    ] == []
    (service,) = found["services"]
    assert service["service"] == "mindie/scaling-rule/mindie"
    assert service["serving"] > 0
    asked = plane.audit_events(USER)
    assert [
        event["requestURI"] for event in asked if event["responseStatus"].get("code") == 403
    ] == []
    written = {_where(event) for event in asked if event["verb"] not in READING}
    assert written == {(USUAL, "leases"), (USUAL, "configmaps")}
    for request in (
        ("run", "evil", "--image=none", "-n", "mindie"),
        ("delete", "pod", "mindie-server-d0-master-0", "-n", "mindie"),
        ("create", "configmap", "evil", "-n", "mindie"),
        ("create", "secret", "generic", "evil", "-n", USUAL),
    ):
        with pytest.raises(ControlPlaneError, match="is forbidden: User"):
            plane.kubectl(*request, kubeconfig=kubeconfig)


async def test_a_shadow_beside_an_install_that_acts_leaves_no_trace(
    fresh_plane: FreshPlane, tmp_path: Path
) -> None:
    # nodes and pods of the test above are in the other one
    plane = fresh_plane(PlaneOptions(crds=definitions()))
    acting = install(plane)
    watching = shadowed(plane)
    async with staged(plane, npu_nodes=3) as stage:
        await add_node(stage.api, NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        async with (
            scaler(tmp_path, watching, name="shadow", flags=FLAGS, module=SHADOW) as shadow,
            scaler(tmp_path, acting, name="acts") as acts,
        ):
            await stage.apply()
            await stage.runs(group0=2, group1=1)
            assert await leads(stage, "acts")
            await until(lambda: _is_noted(stage), "the notes are written", stage.views)
            (service,) = (await asyncio.to_thread(reported, plane))["services"]
            assert service["differences"]["evict"]["count"] == 0
            assert acts.errors() == shadow.errors() == []
        plane.kubectl("delete", "-k", str(_ROOT / "manifests" / "shadow"), "--wait=false")
        assert (await stage.api.list(ELASTIC_SERVICES, "mindie")).items
        left = plane.kubectl("get", "clusterrole,clusterrolebinding", "--output", "name")
    assert not [line for line in left.splitlines() if line.endswith("-shadow")]
    assert [line for line in left.splitlines() if line.endswith("mind-cluster-scaler-watch")]


async def _is_noted(stage: Stage) -> bool:
    try:
        found: Object = await stage.api.get(CONFIG_MAPS, USUAL, NAME)
    except NotFoundError:
        return False
    return bool(found.get("binaryData"))


def _where(event: dict[str, Any]) -> tuple[str, str]:
    ref = event["objectRef"]
    return ref.get("namespace", ""), ref["resource"]
