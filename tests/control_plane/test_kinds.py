"""One story for every kind of workload whose pods others make, on real controllers where they can be had.

A service starts at its smallest ratio, climbs, is scaled, gets another rule, loses nodes, degrades, recovers and is
deleted. The scaler decides by taking its gate off; the gates stand in the pod templates of the examples.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scaler.sim.actors.infer_operator import InferOperator
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.actors.storm_services import StormServices
from scaler.sim.actors.volcano_jobs import VolcanoJobs
from scaler.sim.stories.manifests import read_manifests
from tests.control_plane import instances
from tests.control_plane.kinds_stage import KindsStage, Platform, Scale, kinds_definitions, kinds_staged
from tests.control_plane.ome import Ome
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.witness import witnessed

pytestmark = pytest.mark.plane_options(lws=True, crds=kinds_definitions())


def _set(kind: str, name: str, path: str) -> Scale:
    """The number of prefill instances stands in one field."""

    def scale(stage: KindsStage, prefills: int) -> None:
        stage.patch(kind, name, [{"op": "replace", "path": path, "value": prefills}])

    return scale


def _one_job_more_or_less(stage: KindsStage, prefills: int) -> None:
    """An instance is a job of its own."""
    (job,) = read_manifests(stage.platform.path / "11-prefill-p1.yaml")
    job["metadata"]["name"] = "qwen-p2"
    verb = "create" if prefills == 3 else "delete"
    stage.plane.kubectl(verb, "-f", "-", text=json.dumps(job))


_ENGINE = "/spec/engine/minReplicas"
_FIRST_ROLE = "/spec/template/spec/roles/0/replicas"
PLATFORMS = (
    Platform("ome-deployment", "qwen", 2, _set("isvc", "qwen", _ENGINE), (Ome,)),
    Platform("ome-leaderworkerset", "deepseek", 3, _set("isvc", "deepseek", _ENGINE), (Ome,)),
    Platform("aibrix", "qwen", 3, _set("stormservice", "qwen", _FIRST_ROLE), (StormServices,)),
    Platform("volcano-jobs", "qwen", 3, _one_job_more_or_less, (VolcanoJobs,)),
    Platform(
        "infer-operator",
        "qwen",
        3,
        _set("inferserviceset", "qwen", "/spec/template/roles/0/replicas"),
        (InferOperator,),
    ),
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
