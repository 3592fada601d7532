"""`scaler preflight` and the quick start on a real API server: what is missing, stale or taken away
is named."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from scaler.clock import Clock
from scaler.kube.api import DEPLOYMENTS, KubeApi
from scaler.serve import certificates
from scaler.sim.actors.devices import report_chips
from scaler.sim.apiserver.crds import definitions
from scaler.sim.stories.manifests import ensure_namespace
from tests.control_plane.plane import ControlPlane, kubectl_path
from tests.control_plane.scaler_process import ACCOUNT, LEASE, NAMESPACE, scaler
from tests.control_plane.stage import MANIFESTS, staged, until
from tests.jobs import manifest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quick-start.md"
VOLCANO = "volcano-system"
ROLE = f"{ACCOUNT}-release"
OTHERS = [
    one for one in definitions() if not one["metadata"]["name"].startswith("elasticservices.")
]
pytestmark = [
    pytest.mark.plane_options(crds=()),
    pytest.mark.long("whole installs, one after the other"),
]


async def preflight(kubeconfig: Path, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and by check the words and the advice of what was found, by level."""
    command = [
        sys.executable,
        "-m",
        "scaler",
        "preflight",
        "-o",
        "json",
        "--kubeconfig",
        str(kubeconfig),
        *words,
    ]
    ran = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    found: dict[str, dict[str, str]] = {}
    for check in json.loads(ran.stdout)["checks"]:
        levels = found.setdefault(check["name"], {})
        for finding in check["findings"]:
            levels[finding["level"]] = (
                f"{levels.get(finding['level'], '')}{finding['text']} -> {finding['advice']}\n"
            )
    return ran.returncode, found


async def mindcluster(plane: ControlPlane, api: KubeApi) -> None:
    """Beside the stand-ins what of MindCluster is looked at: a scheduler's Deployment, and fault
    data."""
    await ensure_namespace(api, VOLCANO)
    labels = {"app": "volcano-scheduler"}
    container = {"name": "scheduler", "image": "volcanosh/vc-scheduler:v1.9.0"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await api.create(
        DEPLOYMENTS,
        VOLCANO,
        manifest(DEPLOYMENTS, "volcano-scheduler", VOLCANO, labels=labels, spec=spec),
    )
    for number in range(3):
        await report_chips(api, Clock(), f"npu-{number}", [], healthy=True)
    await asyncio.to_thread(
        plane.kubectl,
        "rollout",
        "status",
        "deployment/volcano-scheduler",
        "-n",
        VOLCANO,
        "--timeout=60s",
    )


def levels(found: dict[str, dict[str, str]]) -> set[str]:
    return {level for check in found.values() for level in check}


@pytest.mark.every_kubernetes
async def test_a_cluster_is_checked_before_and_after_the_install(
    plane: ControlPlane, tmp_path: Path
) -> None:
    code, found = await preflight(plane.admin)
    assert code == 0
    assert "not installed" in found["scaler"]["warning"]
    assert "ElasticService is not installed" in found["kinds"]["warning"]
    assert "kubectl apply -k manifests/cluster-wide" in found["scaler"]["warning"]
    assert f"v{plane.binaries.version} is supported" in found["Kubernetes"]["ok"]

    plane.install(OTHERS)
    plane.kubectl("apply", "-k", MANIFESTS / "cluster-wide")
    flags = (*LEASE, "--mode", "auto")
    async with (
        staged(plane, npu_nodes=3) as stage,
        scaler(tmp_path, plane.grant(NAMESPACE, ACCOUNT), flags=flags),
    ):
        await mindcluster(plane, stage.api)
        await until(lambda: _well(plane), "preflight finds nothing", lambda: preflight(plane.admin))
        await _a_right_goes(plane)
        await _a_certificate_ends(plane)
        await _nobody_may_read(plane)


async def _well(plane: ControlPlane) -> bool:
    code, found = await preflight(plane.admin)
    return code == 0 and levels(found) == {"ok"}


async def _a_right_goes(plane: ControlPlane) -> None:
    patch = '[{"op": "replace", "path": "/rules/0/verbs", "value": ["get", "delete"]}]'
    plane.kubectl("patch", "clusterrole", ROLE, "--type=json", "--patch", patch)
    code, found = await preflight(plane.admin)
    assert (code, levels(found)) == (1, {"ok", "error"})
    assert f"may not patch pods (role {ROLE})" in found["its rights"]["error"]
    plane.kubectl("apply", "-k", MANIFESTS / "cluster-wide")
    assert (await preflight(plane.admin))[0] == 0


async def _a_certificate_ends(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", MANIFESTS / "admission-webhook" / "mutating.yaml")
    _, found = await preflight(plane.admin)
    assert "has no caBundle" in found["admission"]["error"]
    keys = certificates.advance(None, "it.svc", time.time() - 181 * certificates.DAY)
    assert keys is not None
    trusted = base64.b64encode(keys.trusted).decode()
    patch = [
        {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": trusted}
        for number in range(2)
    ]
    plane.kubectl(
        "patch",
        "mutatingwebhookconfiguration",
        ACCOUNT,
        "--type=json",
        "--patch",
        json.dumps(patch),
    )
    code, found = await preflight(plane.admin)
    assert code == 1
    assert (
        f"the certificate in MutatingWebhookConfiguration {ACCOUNT} expired 24h ago"
        in found["admission"]["error"]
    )
    plane.kubectl("delete", "mutatingwebhookconfiguration", ACCOUNT)


async def _nobody_may_read(plane: ControlPlane) -> None:
    plane.kubectl("create", "namespace", "tenant")
    plane.kubectl("create", "serviceaccount", "nobody", "--namespace", "tenant")
    code, found = await preflight(plane.grant("tenant", "nobody"))
    assert code == 1  # most of it is not known
    assert "the right to list nodes is missing" in found["NPU nodes"]["not known"]
    assert "you may not install" in found["your rights"]["warning"]


# the quick start


def blocks() -> list[tuple[str, str]]:
    """Each block of commands of the page, with the output that is shown after it, "" where none
    is."""
    text = PAGE.read_text("utf-8")
    return re.findall(r"^```sh\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", text, re.DOTALL | re.MULTILINE)


class Shell:
    """Runs blocks one after the other as they stand; variables that they set are kept."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        (programs / "scaler").write_text(f'#!/bin/sh\nexec {sys.executable} -m scaler "$@"\n')
        (programs / "kubectl").write_text(f'#!/bin/sh\nexec {kubectl_path()} "$@"\n')
        for program in programs.iterdir():
            program.chmod(0o755)
        self._kept = folder / "variables"
        self._kept.touch()
        self._environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "160",
            "KUBECONFIG": str(plane.admin),
            "NO_PROXY": "127.0.0.1",
        }

    async def __call__(self, block: str) -> str:
        script = (
            f'set -e\n. {self._kept}\n{block}\nif [ -n "$NODE" ]; then echo NODE=$NODE >'
            f" {self._kept}; fi\n"
        )
        ran = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", script],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert ran.returncode == 0, f"{block}{ran.stdout}{ran.stderr}"
        return ran.stdout


def as_shown(line: str, printed: str) -> bool:
    """Whether a line of the page is among what was printed: numbers, versions and ages may
    differ."""
    age = r"(?:\\d+[smhd])+"
    words = [
        re.sub(r"\d+[smhd]\b", age, re.sub(r"\d+(?![\dsmhd])", r"\\d+", re.escape(word)))
        for word in line.split()
    ]
    return re.search(r"^\s*" + r"\s+".join(words) + r"\s*$", printed, re.MULTILINE) is not None


@pytest.mark.plane_options(crds=OTHERS)
async def test_the_quick_start_does_what_it_says(plane: ControlPlane, tmp_path: Path) -> None:
    shell = Shell(plane, tmp_path)
    steps = blocks()
    assert len(steps) == 7
    async with staged(plane, npu_nodes=3) as stage:
        await mindcluster(plane, stage.api)
        await shell(steps[0][0])
        async with scaler(
            tmp_path, plane.grant(NAMESPACE, ACCOUNT), flags=(*LEASE, "--mode", "auto")
        ):
            for commands, shown in steps[1:5]:
                plays = partial(_plays, shell, commands, shown)
                await until(plays, f"{commands} prints {shown}", seconds=180)
            await shell(steps[5][0])
            assert await stage.running() == {"group0": 2, "group1": 1}
            await shell(steps[6][0])


async def _plays(shell: Shell, commands: str, shown: str) -> bool:
    printed = await shell(commands)
    return all(as_shown(line, printed) for line in shown.splitlines())
