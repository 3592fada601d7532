"""Beside Ascend Operator: its own jobs, files unchanged, held and released by gates alone, without
any server of ours.

The policies of manifests/admission-policy move the labels and set the gates; the operator is the
simulation's stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.kube.api import ASCEND_JOBS, PODS, Object
from scaler.names import MOVED_RULE, RULE_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate
from tests.control_plane.plane import ControlPlane
from tests.control_plane.services import PlatformStage, ascend_jobs, played
from tests.control_plane.stage import EXAMPLE, kinds_definitions
from tests.simulation.test_motor import SERVICES

pytestmark = [
    pytest.mark.kubernetes_from(36),
    pytest.mark.plane_options(crds=kinds_definitions()),
    pytest.mark.long("services in real time"),
]


async def test_applying_the_files_again_changes_nothing(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with played(plane, ascend_jobs(3, EXAMPLE), tmp_path) as stage:
        stage.kubectl("apply")
        await stage.runs_both(2, 1)
        before = await _uids(stage)
        stage.kubectl("apply")
        moved = await _jobs(stage)
        assert {objects.annotations_of(job).get(MOVED_RULE) for job in moved} == {"scaling-rule"}
        assert [job for job in moved if RULE_LABEL in objects.labels_of(job)] == []
        assert await _uids(stage) == before


@pytest.mark.parametrize("name", sorted(SERVICES))
async def test_a_service_of_mindie_motor_degrades_and_recovers(
    real_data: Path, plane: ControlPlane, tmp_path: Path, name: str
) -> None:
    nodes, prefills, decodes = SERVICES[name]
    folder = real_data / "motor" / name
    async with played(
        plane, ascend_jobs(0, folder / "configmaps", folder / "deployment"), tmp_path
    ) as stage:
        await stage.add_npu_nodes(nodes, a3=name.startswith("A3"))
        stage.kubectl("apply")
        await stage.runs_both(prefills, decodes)
        lost = await stage.lose("group0")
        await stage.runs_both(prefills - 1, decodes)
        await stage.node(lost, NodeFate.READY)
        await stage.runs_both(prefills, decodes)


async def _jobs(stage: PlatformStage) -> list[Object]:
    """Those under a rule."""
    found = (await stage.api.list(ASCEND_JOBS, "mindie")).items
    return [job for job in found if objects.name(job).startswith("mindie-server-")]


async def _uids(stage: PlatformStage) -> dict[str, str]:
    return {
        objects.name(pod): objects.uid(pod) for pod in (await stage.api.list(PODS, "mindie")).items
    }
