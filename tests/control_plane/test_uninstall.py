"""`scaler uninstall` as a user runs it, on a real API server: what runs goes on, and nothing stays
behind the gate."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGTERM

import pytest

from scaler.kube.api import (
    ASCEND_JOBS,
    DEPLOYMENTS,
    ELASTIC_SERVICES,
    PODS,
    KubeApi,
    Object,
    PatchType,
)
from scaler.names import GATE, NAMESPACE_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.volcano import PodGroups
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import (
    ACCOUNT,
    LEASE,
    NAMESPACE,
    ScalerProcess,
    install,
    scaler,
)
from tests.control_plane.stage import (
    EXAMPLE,
    MANIFESTS,
    Stage,
    kinds_definitions,
    playing,
    staged,
    until,
)

pytestmark = [
    pytest.mark.plane_options(crds=kinds_definitions()),
    pytest.mark.long("services in real time"),
]

RULE = EXAMPLE / "00-rule.yaml"
_ROOT = Path(__file__).parents[2]


def uninstall(
    plane: ControlPlane, *words: str, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "scaler",
        "uninstall",
        "--kubeconfig",
        str(kubeconfig or plane.admin),
        *words,
    ]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )


@asynccontextmanager
async def governed(
    plane: ControlPlane, folder: Path, kubeconfig: Path, mode: str
) -> AsyncIterator[None]:
    """A scaler that ends when its Deployment is scaled to 0, as its pods would."""
    plane.kubectl("scale", "deployment", ACCOUNT, "--replicas=2", "--namespace", NAMESPACE)
    async with (
        plane.client() as api,
        scaler(folder, kubeconfig, flags=(*LEASE, "--mode", mode)) as process,
    ):
        ending = asyncio.create_task(_end(api, process))
        yield
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


async def _end(api: KubeApi, process: ScalerProcess) -> None:
    async def asked() -> bool:
        return not (await api.get(DEPLOYMENTS, NAMESPACE, ACCOUNT))["spec"]["replicas"]

    await until(asked, "the Deployment is scaled to 0", seconds=300)
    await asyncio.to_thread(process.stop, SIGTERM)


def engine(name: str, group: str, replicas: int) -> Object:
    labels = {
        "mind-cluster/scaling-rule": "scaling-rule",
        "mind-cluster/group-name": group,
        "jobID": "mindie",
    }
    container = {
        "name": "server",
        "image": "server",
        "resources": {
            "requests": {"huawei.com/Ascend910": "8"},
            "limits": {"huawei.com/Ascend910": "8"},
        },
    }
    template = {
        "metadata": {"labels": {**labels, "app": name}},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "mindie"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


async def pods_of(stage: Stage) -> list[Object]:
    return (await stage.api.list(PODS, "mindie")).items


async def bound(stage: Stage) -> dict[str, str]:
    return {
        objects.uid(pod): objects.name(pod) for pod in await pods_of(stage) if objects.node_of(pod)
    }


async def held(stage: Stage) -> set[str]:
    return {objects.name(pod) for pod in await pods_of(stage) if objects.gated(pod)}


async def served(plane: ControlPlane, stage: Stage) -> dict[str, str]:
    """2P1D of Deployments in a namespace whose pods are held, and one prefill too many: what runs,
    by uid."""
    plane.kubectl("create", "namespace", "mindie")
    plane.kubectl("label", "namespace", "mindie", f"{NAMESPACE_LABEL}=enabled")
    plane.kubectl("apply", "-f", MANIFESTS / "admission-policy" / "pods.yaml")
    await stage.apply(RULE)
    await until(lambda: _is_gated(plane), "pods get the gate")
    for name, group, replicas in (("prefill", "group0", 3), ("decode", "group1", 1)):
        await stage.api.create(DEPLOYMENTS, "mindie", engine(name, group, replicas))

    async def whole() -> bool:
        return len(await bound(stage)) == 3 and len(await held(stage)) == 1

    await until(whole, "2P1D runs and one prefill is held", seconds=60)
    return await bound(stage)


async def _is_gated(plane: ControlPlane) -> bool:
    words = (
        "run",
        "probe",
        "--image=none",
        "--labels=mind-cluster/scaling-rule=scaling-rule",
        "--dry-run=server",
    )
    said = await asyncio.to_thread(
        plane.kubectl, *words, "-n", "mindie", "-o", "jsonpath={.spec.schedulingGates}"
    )
    return GATE in said


def run_each(plane: ControlPlane, said: str, verb: str) -> list[str]:
    """Run every kubectl command with this verb that was printed, as printed; those that were
    run."""
    lines = [line.strip() for line in said.splitlines()]
    found = [line for line in lines if line.startswith("kubectl ") and f" {verb} " in line]
    for line in found:
        plane.kubectl(*shlex.split(line)[1:])
    return found


@pytest.mark.kubernetes_from(36)
async def test_what_is_held_is_released_what_runs_is_not_touched_and_nothing_is_left(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install(plane)
    async with (
        staged(plane, npu_nodes=3) as stage,
        playing(stage.api, [PodGroups(stage.api)]),
        governed(plane, tmp_path, kubeconfig, "gates"),
    ):
        before = await served(plane, stage)
        done = await asyncio.to_thread(uninstall, plane, "--release")
        assert (done.returncode, done.stderr) == (0, "")
        assert await held(stage) == set()
        assert await bound(stage) == before
        plane.kubectl("scale", "deployment", "prefill", "--replicas=5", "--namespace", "mindie")
        await until(lambda: _has_pods(stage, 6), "the new pods are made")
        assert await held(stage) == set()
        assert await bound(stage) == before
        again = await asyncio.to_thread(uninstall, plane, "--release")
        assert (again.returncode, again.stderr) == (0, "")
        assert run_each(plane, again.stdout, "delete")
        left = (
            "clusterroles,clusterrolebindings,crds,namespaces,"
            "mutatingadmissionpolicies,validatingadmissionpolicies"
        )
        there = plane.kubectl("get", left, "-o", "name").split()
        gone = [
            name
            for name in there
            if "mind-cluster-scaler" in name and not name.startswith("namespace/")
        ]
        assert gone == []
        assert await bound(stage) == before
        plane.kubectl("delete", "namespace", "mindie")
        await stage.clear()


@pytest.mark.kubernetes_from(36)
async def test_listed_pods_stay_held_until_the_printed_commands_release_them(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install(plane)
    async with (
        staged(plane, npu_nodes=3) as stage,
        playing(stage.api, [PodGroups(stage.api)]),
        governed(plane, tmp_path, kubeconfig, "gates"),
    ):
        before = await served(plane, stage)
        foretold = await asyncio.to_thread(uninstall, plane, "--list", "--dry-run")
        assert "Nothing has been changed." in foretold.stdout
        done = await asyncio.to_thread(uninstall, plane, "--list")
        assert (done.returncode, done.stderr) == (0, "")
        assert len(await held(stage)) == 1
        assert len(run_each(plane, done.stdout, "patch")) == 1
        assert await held(stage) == set()
        assert await bound(stage) == before
        plane.kubectl("delete", "namespace", "mindie")
        await stage.clear()


async def test_who_lacks_a_right_is_told_which_and_nothing_is_changed(plane: ControlPlane) -> None:
    account = install(plane)
    done = await asyncio.to_thread(uninstall, plane, "--release", kubeconfig=account)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "you may not" in said
    assert plane.kubectl("get", "deployment", ACCOUNT, "-n", NAMESPACE, "-o", "name").strip()


async def test_pods_of_ascend_jobs_stay_and_go_with_their_job(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install(plane)
    async with staged(plane, npu_nodes=2) as stage, governed(plane, tmp_path, kubeconfig, "create"):
        await stage.apply()
        await stage.runs(group0=1, group1=1)
        wanted = {"spec": {"replicas": 2}}
        await stage.api.patch(
            ELASTIC_SERVICES, "mindie", "scaling-rule-mindie", wanted, patch_type=PatchType.MERGE
        )
        await until(lambda: _lacks(stage, "mindie-server-p1"), "the second prefill has no pods")
        before = await bound(stage)
        done = await asyncio.to_thread(uninstall, plane, "--release")
        assert done.returncode == 0, done.stderr
        assert await bound(stage) == before
        assert "1 AscendJobs have no pods: mindie/mindie-server-p1" in done.stdout
        run_each(plane, done.stdout, "delete")
        assert await bound(stage) == before
        (job,) = [
            one
            for one in (await stage.api.list(ASCEND_JOBS, "mindie")).items
            if objects.name(one).endswith("d0")
        ]
        assert "finalizers" not in job["metadata"]
        await stage.api.delete(ASCEND_JOBS, "mindie", objects.name(job))
        await until(
            lambda: _lacks(stage, objects.name(job)), "the garbage collector takes its pods"
        )
        plane.kubectl("delete", "namespace", "mindie")
        await stage.clear()


async def _has_pods(stage: Stage, count: int) -> bool:
    return len(await pods_of(stage)) == count


async def _lacks(stage: Stage, name: str) -> bool:
    return not [pod for pod in await pods_of(stage) if objects.name(pod).startswith(name)]
