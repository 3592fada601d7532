"""What a user types and reads: kubectl on a real API server, with the scaler at work."""

from __future__ import annotations

import asyncio
import re
import stat
from pathlib import Path

import pytest

from scaler.sim.stories.instances import Condition
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import install, scaler
from tests.control_plane.stage import EXAMPLE, Stage, staged, until

pytestmark = pytest.mark.every_kubernetes
_HERE = ("--namespace", "mindie")


async def test_a_user_applies_edits_reads_and_deletes(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = install(plane)

    async def kubectl(*words: str) -> str:
        return await asyncio.to_thread(plane.kubectl, *words)

    async with staged(plane, npu_nodes=2) as stage, scaler(tmp_path, kubeconfig):
        await kubectl("apply", "-f", str(EXAMPLE))
        await stage.runs(group0=1, group1=1)
        await kubectl(
            "wait", *_HERE, "--for=condition=Running", "ascendjob/mindie-server-d0", "--timeout=30s"
        )

        # Two nodes hold 1P1D; the second prefill instance waits for a third, and everything says
        # so.
        await until(
            lambda: _status_says(plane, "WaitingForScheduler"), "the status says what p1 waits for"
        )
        lines = (await kubectl("get", "esvc", "--all-namespaces")).splitlines()
        assert lines[0].split() == [
            "NAMESPACE",
            "NAME",
            "RUNNING",
            "TARGET",
            "WANTED",
            "AVAILABLE",
            "RULE",
            "REASON",
            "SINCE",
        ]
        assert re.search(
            r"^mindie +scaling-rule-mindie +1P1D +2P1D +all +True +ok +"
            r"WaitingForScheduler +\d+\w+$",
            lines[1],
        )
        assert max(map(len, lines)) <= 120
        assert "mindie-server-p1: Needs 1 node, 0 free" in await kubectl(
            "get", *_HERE, "esvc", "--output", "wide"
        )
        await kubectl(
            "wait", *_HERE, "--for=condition=Available", "esvc/scaling-rule-mindie", "--timeout=30s"
        )
        await kubectl(
            "wait",
            *_HERE,
            "--for=condition=Complete=False",
            "esvc/scaling-rule-mindie",
            "--timeout=30s",
        )
        columns = await kubectl("get", *_HERE, "ascendjobs")
        assert re.search(r"^mindie-server-d0 +Running ", columns, re.MULTILINE)
        assert re.search(r"^mindie-server-p1 +Created ", columns, re.MULTILINE)
        described = await kubectl("describe", *_HERE, "ascendjob", "mindie-server-p1")
        assert re.search(r"Normal +WaitingForScheduler .*mind-cluster-scaler", described)

        # A smaller rule, written in an editor, completes the service and takes nothing that runs.
        monkeypatch.setenv(
            "KUBE_EDITOR", str(_editor(tmp_path, r"s/group_num\(.*\)2/group_num\11/"))
        )
        assert "edited" in await kubectl("edit", *_HERE, "configmap", "scaling-rule")
        await kubectl(
            "wait", *_HERE, "--for=condition=Complete", "esvc/scaling-rule-mindie", "--timeout=30s"
        )
        assert await stage.running() == {"group0": 1, "group1": 1}

        # A typo is told where users look, and the last valid rule stays in force.
        typo = '{"data": {"elastic_scaling.json": "{"}}'
        await kubectl("patch", *_HERE, "configmap", "scaling-rule", "--type=merge", "--patch", typo)
        await until(lambda: _status_says(plane, "RuleInvalid"), "the typo is told")
        assert "RuleInvalid" in await kubectl("events", *_HERE, "--types=Warning")

        # What happened to the service is told in order.
        await until(
            lambda: _story(plane),
            "the story is told",
            fits=lambda told: told == ["Available", "RuleChanged", "RuleInvalid"],
        )

        # A deleted job takes its pods with it.
        await kubectl("delete", *_HERE, "ascendjob", "mindie-server-p0")
        await until(lambda: _has_gone(stage, "mindie-server-p0"), "p0 is gone", stage.views)
        assert "mindie-server-p0-" not in await kubectl("get", *_HERE, "pods,services,podgroups")


def _editor(folder: Path, expression: str) -> Path:
    """An editor that makes one substitution."""
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\nexec sed -i '{expression}' \"$1\"\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _status(plane: ControlPlane) -> str:
    return plane.kubectl("describe", *_HERE, "elasticservices")


async def _story(plane: ControlPlane) -> list[str]:
    """The reasons of the events about the service, as they are listed."""
    events = (await asyncio.to_thread(_status, plane)).partition("\nEvents:")[2]
    return [line.split()[1] for line in events.splitlines()[3:]]


async def _status_says(plane: ControlPlane, words: str) -> bool:
    return words in await asyncio.to_thread(_status, plane)


async def _has_gone(stage: Stage, job: str) -> bool:
    views = {view.name: view for view in await stage.views()}
    left = [view for view in views.values() if view.condition is Condition.RUNNING]
    pods = await stage.pods("mindie")
    return job not in views and bool(left) and not any(name.startswith(f"{job}-") for name in pods)
