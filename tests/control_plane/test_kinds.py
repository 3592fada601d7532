"""One story for every kind of workload whose pods others make, on real controllers where they can be had.

A service starts at its smallest ratio, climbs, is scaled, gets another rule, loses nodes, degrades, recovers and is
deleted. The scaler decides by taking its gate off; the gates stand in the pod templates of the examples.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.sim.actors.nodes import NodeFate
from tests.control_plane import instances
from tests.control_plane.kinds_stage import KindsStage, Platform, kinds_definitions, kinds_staged
from tests.control_plane.ome import Ome
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.witness import witnessed

pytestmark = pytest.mark.plane_options(lws=True, crds=kinds_definitions())


def _scale_ome(service: str) -> object:
    def scale(stage: KindsStage, prefills: int) -> None:
        stage.patch("inferenceservice", service, {"spec": {"engine": {"minReplicas": prefills}}})

    return scale


PLATFORMS = (
    Platform("ome-deployment", "qwen", 2, _scale_ome("qwen"), (Ome,)),
    Platform("ome-leaderworkerset", "deepseek", 3, _scale_ome("deepseek"), (Ome,)),
)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.folder)
async def test_a_service_climbs_degrades_and_recovers(platform: Platform, plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install(plane)
    async with (
        kinds_staged(plane, platform) as stage,
        witnessed(stage.api, instances.RESOURCES, instances.census),
        scaler(tmp_path, kubeconfig, flags=ALONE) as process,
    ):
        plane.kubectl("apply", "-f", platform.path)
        await stage.runs_both(1, 1)
        await stage.add_npu_nodes(2)
        await stage.runs_both(2, 1)
        await _scale_and_edit_the_rule(stage)
        await _degrade_and_recover(stage)
        assert process.errors() == []


async def _scale_and_edit_the_rule(stage: KindsStage) -> None:
    """A third prefill instance waits, although there is room, until the rule has one."""
    stage.platform.scale(stage, 3)
    await stage.says(stage.platform.prefill, "NotInRatio")
    await stage.edit_rule((3, 1), (2, 1), (1, 1))
    await stage.runs_both(3, 1)
    stage.platform.scale(stage, 2)
    await stage.runs_both(2, 1)
    await stage.remove_empty_node()


async def _degrade_and_recover(stage: KindsStage) -> None:
    """With fewer nodes than instances the decode instance comes first, whatever waits already."""
    first = await stage.lose(stage.platform.prefill)
    await stage.runs_both(1, 1)
    second = await stage.lose(stage.platform.decode)
    await stage.runs_both(1, 0)
    await stage.node(first, NodeFate.READY)
    await stage.runs_both(1, 1)
    await stage.node(second, NodeFate.READY)
    await stage.runs_both(2, 1)
