"""One story for every kind of workload whose pods others make, on real controllers where they can be had.

A service starts at its smallest ratio, climbs, is scaled, gets another rule, loses nodes, degrades, recovers and is
deleted. The scaler decides by taking its gate off; the gates stand in the pod templates of the examples.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scaler.kube.api import PODS
from scaler.sim.actors import objects
from scaler.sim.actors.infer_operator import InferOperator
from scaler.sim.actors.ome import Ome
from scaler.sim.actors.storm_services import StormServices
from scaler.sim.actors.volcano_jobs import VolcanoJobs
from scaler.sim.stories.manifests import read_manifests
from tests.control_plane.kinds_stage import (
    EXAMPLES,
    WATCHED,
    KindsStage,
    Platform,
    Scale,
    census_of_pods,
    climb_degrade_and_recover,
    kinds_definitions,
    kinds_staged,
)
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.stage import until
from tests.control_plane.witness import witnessed

pytestmark = pytest.mark.plane_options(lws=True, crds=kinds_definitions())


def _set(kind: str, name: str, path: str) -> Scale:
    """The number of prefill instances stands in one field."""

    def scale(stage: KindsStage, prefills: int) -> None:
        stage.patch(kind, name, [{"op": "replace", "path": path, "value": prefills}])

    return scale


def _one_job_more_or_less(stage: KindsStage, prefills: int) -> None:
    """An instance is a job of its own."""
    (job,) = read_manifests(EXAMPLES / "volcano-jobs" / "11-prefill-p1.yaml")
    job["metadata"]["name"] = "qwen-p2"
    verb = "create" if prefills == 3 else "delete"
    stage.plane.kubectl(verb, "-f", "-", text=json.dumps(job))


PLATFORMS = {
    folder: Platform(folder, job_id, (EXAMPLES / folder,), minimum, (maker,), scale)
    for folder, job_id, minimum, maker, scale in (
        ("ome-deployment", "qwen", 2, Ome, _set("isvc", "qwen", "/spec/engine/minReplicas")),
        ("ome-leaderworkerset", "deepseek", 3, Ome, _set("isvc", "deepseek", "/spec/engine/minReplicas")),
        ("aibrix", "qwen", 3, StormServices, _set("stormservice", "qwen", "/spec/template/spec/roles/0/replicas")),
        ("volcano-jobs", "qwen", 3, VolcanoJobs, _one_job_more_or_less),
        (
            "infer-operator",
            "qwen",
            3,
            InferOperator,
            _set("inferserviceset", "qwen", "/spec/template/roles/0/replicas"),
        ),
    )
}


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_service_climbs_degrades_and_recovers(name: str, plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install(plane)
    async with (
        kinds_staged(plane, PLATFORMS[name]) as stage,
        witnessed(stage.api, WATCHED, census_of_pods),
        scaler(tmp_path, kubeconfig, flags=ALONE) as process,
    ):
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await climb_degrade_and_recover(stage)
        assert process.errors() == []


def _change_a_deployment(stage: KindsStage) -> None:
    stage.patch("isvc", "qwen", {"spec": {"engine": {"labels": _REVISION}}})


def _change_omes_leader_worker_set(stage: KindsStage) -> None:
    """OME's own strategy has a surge of one group."""
    stage.patch("isvc", "deepseek", {"spec": {"decoder": {"labels": _REVISION}}})


def _change_a_leader_worker_set(stage: KindsStage) -> None:
    """With one unavailable group more than is held, as Kubernetes 1.35 wants it, and without OME's surge, with which it
    would not end (docs/reference/kinds.md)."""
    marked = {"metadata": {"labels": _REVISION}}
    strategy = {"rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 2}}
    templates = {"leaderTemplate": marked, "workerTemplate": marked}
    patch = {"spec": {"rolloutStrategy": strategy, "leaderWorkerTemplate": templates}}
    stage.patch("lws", "lws-deepseek-decoder", patch)


_REVISION = {"example/revision": "2"}
ROLLOUTS = {
    # name: (platform, component, its instances, whether one of them is held, how its template is changed)
    "a-deployment": ("ome-deployment", "engine", 3, True, _change_a_deployment),
    "a-leader-worker-set": ("ome-leaderworkerset", "decoder", 2, True, _change_a_leader_worker_set),
    "a-leader-worker-set-with-surge": ("ome-leaderworkerset", "decoder", 1, False, _change_omes_leader_worker_set),
}


@pytest.mark.parametrize("case", ROLLOUTS)
async def test_a_rolling_update_ends(case: str, plane: ControlPlane, tmp_path: Path) -> None:
    name, component, instances, held, change = ROLLOUTS[case]
    kubeconfig = install(plane)
    async with (
        kinds_staged(plane, PLATFORMS[name]) as stage,
        witnessed(stage.api, WATCHED, census_of_pods) as witness,
        scaler(tmp_path, kubeconfig, flags=ALONE) as process,
    ):
        await stage.add_npu_nodes(4)
        stage.kubectl("apply")
        await stage.runs_both(2, 1)
        stage.patch("isvc", stage.platform.job_id, {"spec": {component: {"minReplicas": instances}}})
        group = {"engine": "prefill", "decoder": "decode"}[component]
        await until(lambda: stage.has(instances, group), f"there are {instances} instances", stage.views)
        witness.pairs = True
        change(stage)
        await until(lambda: _is_updated(stage, component), "every pod is of the new revision", stage.views)
        await stage.runs_both(2, 1)
        await until(lambda: stage.has(instances, group), "nothing is left of the surge", stage.views)
        await until(lambda: _holds_one(stage, group, held), f"one is held: {held}", stage.reasons)
        assert process.errors() == []


async def _is_updated(stage: KindsStage, component: str) -> bool:
    pods = (await stage.api.list(PODS, stage.platform.namespace, label_selector=f"component={component}")).items
    return bool(pods) and all(objects.labels_of(pod).items() >= _REVISION.items() for pod in pods)


async def _holds_one(stage: KindsStage, group: str, held: bool) -> bool:
    return ("NotInRatio" in (await stage.reasons()).get(group, [])) == held
