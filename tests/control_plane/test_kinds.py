"""One story for every kind of workload whose pods others make, on real controllers where they can
be had.

A service starts at its smallest ratio, climbs, is scaled, gets another rule, loses nodes, degrades,
recovers and is deleted. The scaler decides by taking its gate off; the gates stand in the pod
templates, or policies set them (beside Ascend Operator). With the real Volcano, its scheduler binds
the pods, and its controller manager makes PodGroups for those that name none, and the pods of
Volcano Jobs; left out, with a line at the end, where VOLCANO_BIN_DIR is not set
(docs/howto/test-against-a-real-control-plane.md)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaler.kube.api import PODS
from scaler.names import GROUP_LABEL, JOB_ID_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.actors.operators import InferOperator, Ome
from scaler.sim.actors.storm_services import StormServices
from scaler.sim.actors.volcano_jobs import VolcanoJobs
from scaler.sim.stories.manifests import read_manifests
from tests.control_plane.plane import ControlPlane
from tests.control_plane.services import Platform, PlatformStage, ascend_jobs, played
from tests.control_plane.stage import EXAMPLE, EXAMPLES, kinds_definitions, until

pytestmark = [
    pytest.mark.plane_options(lws=True, crds=kinds_definitions()),
    pytest.mark.long("a minute for each platform; LeaderWorkerSet's manager"),
]


def _set(kind: str, name: str, path: str) -> Callable[[PlatformStage, int], None]:
    """The number of prefill instances stands in one field."""

    def scale(stage: PlatformStage, prefills: int) -> None:
        patch(stage, kind, name, [{"op": "replace", "path": path, "value": prefills}])

    return scale


def patch(stage: PlatformStage, kind: str, name: str, patch: Any) -> None:
    """`kubectl patch`: a list is a JSON patch, anything else a merge patch."""
    encoding = "json" if isinstance(patch, list) else "merge"
    place = ("--namespace", stage.platform.namespace, kind, name)
    stage.plane.kubectl("patch", *place, "--type", encoding, "--patch", json.dumps(patch))


async def has(stage: PlatformStage, instances: int, group: str) -> bool:
    """Whether there are so many, held ones included."""
    return sum(view.group == group for view in await stage.views()) == instances


async def reasons(stage: PlatformStage) -> dict[str, list[str]]:
    """What the scaler says of the instances that do not run: reasons by group."""
    found: dict[str, list[str]] = {}
    for instance in await stage.said(stage.platform.namespace):
        found.setdefault(instance["group"], []).append(instance["reason"])
    return found


async def says(stage: PlatformStage, group: str, reason: str) -> None:
    """Wait until an instance of the group has this reason."""
    what = f"an instance of {group} says {reason}"
    await until(lambda: reasons(stage), what, fits=lambda said: reason in said.get(group, []))


def _one_job_more_or_less(stage: PlatformStage, prefills: int) -> None:
    """An instance is a job of its own."""
    (job,) = read_manifests(EXAMPLES / "volcano-jobs" / "11-prefill-p1.yaml")
    job["metadata"]["name"] = "qwen-p2"
    verb = "create" if prefills == 3 else "delete"
    stage.plane.kubectl(verb, "-f", "-", text=json.dumps(job))


PLATFORMS = {
    folder: Platform(folder, job_id, (EXAMPLES / folder,), minimum, scale, (owner,))
    for folder, job_id, minimum, owner, scale in (
        ("ome-deployment", "qwen", 2, Ome, _set("isvc", "qwen", "/spec/engine/minReplicas")),
        (
            "ome-leaderworkerset",
            "deepseek",
            3,
            Ome,
            _set("isvc", "deepseek", "/spec/engine/minReplicas"),
        ),
        (
            "aibrix",
            "qwen",
            3,
            StormServices,
            _set("stormservice", "qwen", "/spec/template/spec/roles/0/replicas"),
        ),
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


WITH_VOLCANO: dict[str, Platform] = {
    **PLATFORMS,
    "ascend-jobs": ascend_jobs(2, EXAMPLE, by_operator=False),
}


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_service_climbs_degrades_and_recovers(
    name: str, plane: ControlPlane, tmp_path: Path
) -> None:
    await _climb_degrade_and_recover(plane, PLATFORMS[name], tmp_path)


@pytest.mark.kubernetes_from(36)
@pytest.mark.plane_options(lws=False)
async def test_a_service_beside_ascend_operator_does_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await _climb_degrade_and_recover(plane, ascend_jobs(2, EXAMPLE), tmp_path)


@pytest.mark.parametrize("name", WITH_VOLCANO)
@pytest.mark.plane_options(volcano=True)
async def test_with_the_real_volcano_it_does_too(
    name: str, plane: ControlPlane, tmp_path: Path
) -> None:
    await _climb_degrade_and_recover(plane, WITH_VOLCANO[name], tmp_path)


@pytest.mark.kubernetes_from(36)
@pytest.mark.plane_options(volcano=True)
async def test_with_both_it_does_too(plane: ControlPlane, tmp_path: Path) -> None:
    await _climb_degrade_and_recover(plane, ascend_jobs(2, EXAMPLE), tmp_path)


async def _climb_degrade_and_recover(plane: ControlPlane, platform: Platform, folder: Path) -> None:
    async with played(plane, platform, folder) as stage:
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await stage.add_npu_nodes(2)
        await stage.runs_both(2, 1)
        await _scale_and_edit_the_rule(stage)
        await _degrade_and_recover(stage)


async def _scale_and_edit_the_rule(stage: PlatformStage) -> None:
    """A third prefill instance waits, although there is room, until the rule has one. Scaled down
    it goes first."""
    running = stage.nodes_by_instance()
    stage.platform.scale(stage, 3)
    await says(stage, stage.platform.prefill, "NotInRatio")
    stage.platform.scale(stage, 2)
    await until(
        lambda: has(stage, 2, stage.platform.prefill), "the third instance is gone", stage.views
    )
    assert stage.nodes_by_instance() == running
    stage.platform.scale(stage, 3)
    await says(stage, stage.platform.prefill, "NotInRatio")
    await stage.edit_rule((3, 1), (2, 1), (1, 1))
    await stage.runs_both(3, 1)
    stage.platform.scale(stage, 2)
    await stage.runs_both(2, 1)
    (empty, *_) = await until(stage.empty_nodes, "a node has no pods", stage.views)
    await stage.remove_node(empty)


async def _degrade_and_recover(stage: PlatformStage) -> None:
    """With fewer nodes than instances the decode instance comes first, whatever waits already."""
    first = await stage.lose(stage.platform.prefill)
    await stage.runs_both(1, 1)
    second = await stage.lose(stage.platform.decode)
    await stage.runs_both(1, 0)
    await stage.node(first, NodeFate.READY)
    await stage.runs_both(1, 1)
    await stage.node(second, NodeFate.READY)
    await stage.runs_both(2, 1)


def _change_a_deployment(stage: PlatformStage) -> None:
    patch(stage, "isvc", "qwen", {"spec": {"engine": {"labels": _REVISION}}})


def _change_omes_leader_worker_set(stage: PlatformStage) -> None:
    """OME's own strategy has a surge of one group."""
    patch(stage, "isvc", "deepseek", {"spec": {"decoder": {"labels": _REVISION}}})


def _change_a_leader_worker_set(stage: PlatformStage) -> None:
    """With one unavailable group more than is held, as Kubernetes 1.35 wants it, and without OME's
    surge, with which it would not end (docs/reference/kinds.md)."""
    marked = {"metadata": {"labels": _REVISION}}
    strategy = {"rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 2}}
    templates = {"leaderTemplate": marked, "workerTemplate": marked}
    changed = {"spec": {"rolloutStrategy": strategy, "leaderWorkerTemplate": templates}}
    patch(stage, "lws", "lws-deepseek-decoder", changed)


_REVISION = {"example/revision": "2"}
ROLLOUTS = {
    # name: (platform, component, its instances, whether one of them is held, how its template is
    # changed)
    "a-deployment": ("ome-deployment", "engine", 3, True, _change_a_deployment),
    "a-leader-worker-set": ("ome-leaderworkerset", "decoder", 2, True, _change_a_leader_worker_set),
    "a-leader-worker-set-with-surge": (
        "ome-leaderworkerset",
        "decoder",
        1,
        False,
        _change_omes_leader_worker_set,
    ),
}


@pytest.mark.parametrize("case", ROLLOUTS)
async def test_a_rolling_update_ends(case: str, plane: ControlPlane, tmp_path: Path) -> None:
    name, component, instances, held, change = ROLLOUTS[case]
    async with played(plane, PLATFORMS[name], tmp_path) as stage:
        await stage.add_npu_nodes(4)
        stage.kubectl("apply")
        await stage.runs_both(2, 1)
        patch(
            stage, "isvc", stage.platform.job_id, {"spec": {component: {"minReplicas": instances}}}
        )
        group = {"engine": "prefill", "decoder": "decode"}[component]
        await until(
            lambda: has(stage, instances, group), f"there are {instances} instances", stage.views
        )
        stage.witness.pairs = True
        change(stage)
        await until(
            lambda: _is_updated(stage, component), "every pod is of the new revision", stage.views
        )
        await stage.runs_both(2, 1)
        await until(
            lambda: has(stage, instances, group), "nothing is left of the surge", stage.views
        )
        await until(
            lambda: _holds_one(stage, group, held), f"one is held: {held}", lambda: reasons(stage)
        )


async def _is_updated(stage: PlatformStage, component: str) -> bool:
    pods = (
        await stage.api.list(
            PODS, stage.platform.namespace, label_selector=f"component={component}"
        )
    ).items
    return bool(pods) and all(objects.labels_of(pod).items() >= _REVISION.items() for pod in pods)


async def _holds_one(stage: PlatformStage, group: str, held: bool) -> bool:
    return ("NotInRatio" in (await reasons(stage)).get(group, [])) == held


@pytest.mark.parametrize("name", ["ome-deployment", "ome-leaderworkerset"])
@pytest.mark.parametrize("typo", [f"{GROUP_LABEL}=gruop0", f"{JOB_ID_LABEL}-"])
async def test_a_typo_in_a_label_of_what_runs_is_named_and_starts_no_spare(
    name: str, typo: str, plane: ControlPlane, tmp_path: Path
) -> None:
    async with played(plane, PLATFORMS[name], tmp_path) as stage:
        stage.kubectl("apply")
        await stage.runs_both(1, 1)
        await stage.add_npu_nodes(3)
        await stage.runs_both(2, 1)
        stage.platform.scale(stage, 3)
        await says(stage, stage.platform.prefill, "NotInRatio")
        bound = await _bound(stage)
        pod = next(pod for pod, group in sorted(bound.items()) if group == stage.platform.prefill)
        stage.plane.kubectl(
            "label", "pod", pod, "--namespace", stage.platform.namespace, "--overwrite", typo
        )
        await until(
            lambda: _is_told(stage, typo), f"the label of {pod} is named", lambda: reasons(stage)
        )
        await asyncio.sleep(5)
        assert (await _bound(stage)).keys() == bound.keys()


async def _bound(stage: PlatformStage) -> dict[str, str]:
    """Groups of the pods that have a node, by name."""
    pods = (await stage.api.list(PODS, stage.platform.namespace)).items
    return {
        objects.name(pod): objects.labels_of(pod).get(GROUP_LABEL, "")
        for pod in pods
        if objects.node_of(pod)
    }


async def _is_told(stage: PlatformStage, typo: str) -> bool:
    label = typo.partition("=")[0].rstrip("-")
    said = [
        one
        for one in await stage.said(stage.platform.namespace)
        if f"write {label}=" in one["message"]
    ]
    return bool(said) and all(
        one["state"] == "Running" and "delete" not in one["message"] for one in said
    )
