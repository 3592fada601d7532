"""A service of AscendJobs, and Ascend Operator that makes its pods, held and released by gates alone.

The policies of manifests/admission-policy move the labels and set the gates; the operator is the simulation's stand-in.
Must not: judge.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from scaler.kube.api import DEPLOYMENTS, NAMESPACES, KubeApi
from scaler.kube.errors import AlreadyExistsError
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeSpec
from scaler.sim.actors.operator import NAMESPACE, AscendOperator
from scaler.sim.stories.manifests import read_manifests
from scaler.workloads.ascendjob import RULE_LABEL
from tests.control_plane.kinds_stage import WATCHED, KindsStage, Platform, census_of_pods, kinds_staged
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.stage import EXAMPLE, until, wall_clock
from tests.control_plane.witness import witnessed
from tests.deployed_operator import deployment

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


def ascend_jobs(nodes: int, *files: Path, by_operator: bool = True) -> Platform:
    """A service of AscendJobs; if not Ascend Operator, the scaler makes their pods."""
    makers = (_Operator,) if by_operator else ()
    return Platform("mindie", "mindie", files, nodes, makers, _one_prefill_more_or_less, "group0", "group1")


@asynccontextmanager
async def beside(plane: ControlPlane, platform: Platform, folder: Path) -> AsyncIterator[KindsStage]:
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
