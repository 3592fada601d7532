"""`scaler drain` beside `kubectl drain` on a real API server: it foresees what comes, and what
budgets refuse."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scaler.kube.api import PODS
from scaler.names import KEEP_LABEL
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import LEASE, install, scaler
from tests.control_plane.stage import Stage, staged, until

pytestmark = pytest.mark.long("drains in real time")

DECODE = "mindie-server-d0"
_ROOT = Path(__file__).parents[2]
Json = dict[str, Any]


async def foreseen(plane: ControlPlane, *nodes: str) -> tuple[int, Json]:
    """The exit code of `scaler drain`, and its answer."""
    command = [
        sys.executable,
        "-m",
        "scaler",
        "drain",
        "--kubeconfig",
        str(plane.admin),
        "-o",
        "json",
        *nodes,
    ]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def budget(name: str, job: str, **amount: Any) -> str:
    chosen = {"matchLabels": {"training.kubeflow.org/job-name": job}}
    meta = {"name": name, "namespace": "mindie"}
    spec = {"selector": chosen, **amount}
    return json.dumps(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
    )


async def drains(plane: ControlPlane, node: str, seconds: int) -> str:
    """What kubectl says; "" when the node was drained."""
    try:
        await asyncio.to_thread(plane.kubectl, "drain", node, f"--timeout={seconds}s")
    except ControlPlaneError as error:
        return str(error)
    return ""


async def allows(plane: ControlPlane, name: str, seen: str) -> bool:
    """Whether the budget has been looked at, and what it then says of evictions."""
    path = "jsonpath={.status.conditions[0].reason}"
    return plane.kubectl("get", "pdb", name, "-n", "mindie", "-o", path) == seen


async def test_a_drain_brings_about_what_was_foreseen(plane: ControlPlane, tmp_path: Path) -> None:
    # otherwise the only decode instance would stay where it is
    flags = (*LEASE, "--no-disruption-budgets")
    async with staged(plane, npu_nodes=4) as stage, scaler(tmp_path, install(plane), flags=flags):
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        node = await stage.node_of(DECODE)
        code, found = await foreseen(plane, node)
        (fate,) = found["services"]
        assert (code, fate["ends"], fate["then"]["ratio"], fate["later"]["ratio"]) == (
            1,
            [DECODE],
            -1,
            0,
        )
        assert await drains(plane, node, 60) == ""
        await until(lambda: elsewhere(stage, node), "the decode instance runs elsewhere")
        await stage.runs(group0=2, group1=1)
        assert fate["starts"] == {DECODE: [await stage.node_of(DECODE)]}
        await refused_by_budgets(plane, await stage.node_of(DECODE))
        plane.kubectl("delete", "namespace", "mindie")
        await stage.clear()


async def elsewhere(stage: Stage, node: str) -> bool:
    return [
        view.nodes for view in await stage.views() if view.name == DECODE and view.nodes != (node,)
    ] != []


async def refused_by_budgets(plane: ControlPlane, node: str) -> None:
    """What docs/howto/maintenance.md says of budgets over pods of AscendJobs."""
    plane.kubectl("apply", "-f", "-", text=budget("at-most", DECODE, maxUnavailable=1))
    await until(lambda: allows(plane, "at-most", "SyncFailed"), "the budget allows nothing")
    assert "disruption budget" in await drains(plane, node, 3)
    plane.kubectl("delete", "pdb", "at-most", "-n", "mindie")
    plane.kubectl("apply", "-f", "-", text=budget("whole", DECODE, minAvailable=0))
    await until(lambda: allows(plane, "whole", "SufficientPods"), "the budget allows an eviction")
    assert (await foreseen(plane, node))[1]["evictions"]["refused"] == []
    plane.kubectl("apply", "-f", "-", text=budget("second", DECODE, minAvailable=0))
    (words,) = (await foreseen(plane, node))[1]["evictions"]["refused"]
    assert "2 budgets are about it" in words
    assert "more than one PodDisruptionBudget" in await drains(plane, node, 3)


async def kept(stage: Stage) -> set[str]:
    """The jobs of pods that no eviction may take."""
    pods = (await stage.api.list(PODS, "mindie", label_selector=f"{KEEP_LABEL}=true")).items
    return {str(pod["metadata"]["labels"]["training.kubeflow.org/job-name"]) for pod in pods}


async def test_a_drain_takes_the_surplus_moves_the_label_and_leaves_the_minimum(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with staged(plane, npu_nodes=4) as stage, scaler(tmp_path, install(plane)) as process:
        await stage.apply()
        await stage.runs(group0=2, group1=1)
        await until(
            lambda: kept(stage),
            "the minimum is kept",
            fits=lambda jobs: len(jobs) == 2 and DECODE in jobs,
        )
        (first,) = await kept(stage) - {DECODE}
        second = {"mindie-server-p0": "mindie-server-p1", "mindie-server-p1": "mindie-server-p0"}[
            first
        ]
        assert await drains(plane, await stage.node_of(first), 60) == ""
        await until(
            lambda: kept(stage), "the label has moved", fits=lambda jobs: jobs == {second, DECODE}
        )
        await stage.runs(group0=2, group1=1)
        assert await drains(plane, await stage.node_of(first), 60) == ""
        await stage.runs(group0=1, group1=1)
        for job in (DECODE, second):
            assert "disruption budget" in await drains(plane, await stage.node_of(job), 8)
        await stage.runs(group0=1, group1=1)
        plane.kubectl("drain", await stage.node_of(DECODE), "--disable-eviction", "--timeout=60s")
        await until(
            lambda: kept(stage), "what does not serve is not kept", fits=lambda jobs: not jobs
        )
        assert process.errors() == []
        plane.kubectl("delete", "namespace", "mindie")
        await stage.clear()
