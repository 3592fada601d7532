"""Beside Ascend Operator: its own jobs, files unchanged, held and released by gates alone, without any server of ours.

The policies of manifests/admission-policy move the labels and set the gates; the operator is the simulation's stand-in.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from scaler.kube.api import ASCEND_JOBS, DEPLOYMENTS, NAMESPACES, PODS, KubeApi, Object
from scaler.kube.errors import AlreadyExistsError
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate, NodeSpec
from scaler.sim.actors.operator import NAMESPACE, AscendOperator, deployment
from scaler.sim.stories.manifests import read_manifests
from scaler.workloads.ascendjob import RULE_LABEL
from scaler.workloads.gates import MOVED_RULE
from tests.control_plane.kinds_stage import (
    WATCHED,
    KindsStage,
    Platform,
    census_of_pods,
    climb_degrade_and_recover,
    kinds_definitions,
    kinds_staged,
)
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.stage import EXAMPLE, until, wall_clock
from tests.control_plane.witness import witnessed
from tests.simulation.test_motor import SERVICES

pytestmark = [pytest.mark.kubernetes_from(36), pytest.mark.plane_options(crds=kinds_definitions())]

_POLICIES = Path(__file__).parents[2] / "manifests" / "admission-policy"
_LABELS = ("mind-cluster/scaling=enabled", "mind-cluster/beside-ascend-operator=true")


class _Operator:
    """Ascend Operator, with the clock of the loop that runs it."""

    def __init__(self, api: KubeApi) -> None:
        self._operator = AscendOperator(api, wall_clock())

    async def run(self) -> None:
        await self._operator.run()


def _one_prefill_more_or_less(stage: KindsStage, prefills: int) -> None:
    job = read_manifests(EXAMPLE / "21-prefill-p1.yaml")[-1]
    job["metadata"]["name"] = "mindie-server-p2"
    stage.plane.kubectl("apply" if prefills == 3 else "delete", "-f", "-", text=json.dumps(job))


def _platform(nodes: int, *files: Path) -> Platform:
    return Platform("mindie", "mindie", files, nodes, (_Operator,), _one_prefill_more_or_less, "group0", "group1")


@asynccontextmanager
async def _beside(plane: ControlPlane, platform: Platform, folder: Path) -> AsyncIterator[KindsStage]:
    """An operator that has replicas, the policies in force, a scaler in mode auto, and room for what needs no NPUs."""
    kubeconfig = install(plane)
    plane.kubectl("apply", "-f", _POLICIES / "pods.yaml", "-f", _POLICIES / "ascendjobs.yaml")
    async with kinds_staged(plane, platform) as stage, witnessed(stage.api, WATCHED, census_of_pods):
        with suppress(ControlPlaneError):
            plane.kubectl("create", "namespace", "mindie")
        plane.kubectl("label", "--overwrite", "namespace", "mindie", *_LABELS)
        for resource, namespace, body in (
            (NAMESPACES, None, {"metadata": {"name": NAMESPACE}}),
            (DEPLOYMENTS, NAMESPACE, deployment()),
        ):
            with suppress(AlreadyExistsError):
                await stage.api.create(resource, namespace, body)
        await stage.add_node(NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        await until(lambda: _in_force(plane), "the policies are in force")
        async with scaler(folder, kubeconfig, flags=(*ALONE, "--mode", "auto")) as process:
            yield stage
            assert process.errors() == []
            assert [line["acting"] for line in process.lines("mode")] == ["releases pods"]


async def _in_force(plane: ControlPlane) -> bool:
    """A job would lose its label, and a pod would get the gate."""
    job = read_manifests(EXAMPLE / "20-prefill-p0.yaml")[-1]
    words = ("create", "-f", "-", "--dry-run=server", "--output", "json")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**job["metadata"]}}
    pod["spec"] = job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
    moved, gated = [json.loads(plane.kubectl(*words, text=json.dumps(body))) for body in (job, pod)]
    return RULE_LABEL not in objects.labels_of(moved) and objects.gated(gated)


async def test_a_service_climbs_degrades_and_recovers(plane: ControlPlane, tmp_path: Path) -> None:
    async with _beside(plane, _platform(2, EXAMPLE), tmp_path) as stage:
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await climb_degrade_and_recover(stage)


async def test_applying_the_files_again_changes_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    async with _beside(plane, _platform(3, EXAMPLE), tmp_path) as stage:
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
    async with _beside(plane, _platform(0, folder / "configmaps", folder / "deployment"), tmp_path) as stage:
        await stage.add_npu_nodes(nodes, a3=name.startswith("A3"))
        stage.kubectl("apply")
        await stage.runs_both(prefills, decodes)
        lost = await stage.lose("group0")
        await stage.runs_both(prefills - 1, decodes)
        await stage.node(lost, NodeFate.READY)
        await stage.runs_both(prefills, decodes)


async def _jobs(stage: KindsStage) -> list[Object]:
    """Those under a rule."""
    found = (await stage.api.list(ASCEND_JOBS, "mindie")).items
    return [job for job in found if objects.name(job).startswith("mindie-server-")]


async def _uids(stage: KindsStage) -> dict[str, str]:
    return {objects.name(pod): objects.uid(pod) for pod in (await stage.api.list(PODS, "mindie")).items}
