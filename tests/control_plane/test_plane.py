"""The control plane itself: it comes up, says why it does not, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scaler.kube.api import NAMESPACES, PODS
from scaler.sim.actors.nodes import NodeSpec, add_node
from tests.control_plane.build import VERSIONS, Binaries, binaries
from tests.control_plane.plane import ControlPlane, PlaneOptions
from tests.control_plane.programs import ControlPlaneError, Program

pytestmark = [pytest.mark.every_kubernetes, pytest.mark.shares_plane("clients")]


async def test_an_empty_cluster_answers_with_its_namespaces(plane: ControlPlane) -> None:
    async with plane.client() as api:
        page = await api.list(NAMESPACES)
    assert {"default", "kube-system"} <= {item["metadata"]["name"] for item in page.items}


def test_it_is_the_version_that_was_asked_for(plane: ControlPlane) -> None:
    assert f'"gitVersion": "v{plane.binaries.version}"' in plane.kubectl("get", "--raw", "/version")


def test_nobody_has_rights_that_were_not_granted(plane: ControlPlane) -> None:
    plane.kubectl("create", "serviceaccount", "nobody")
    nobody = plane.grant("default", "nobody")
    with pytest.raises(ControlPlaneError, match="forbidden"):
        plane.kubectl("get", "pods", kubeconfig=nobody)


async def test_the_data_outlives_a_restart_of_the_api_server(plane: ControlPlane) -> None:
    plane.kubectl("create", "configmap", "kept")
    plane.kill("kube-apiserver")
    plane.revive("kube-apiserver")
    assert "kept" in plane.kubectl("get", "configmaps", "--output", "name")


async def test_a_pod_on_a_fake_node_runs_and_goes(plane: ControlPlane) -> None:
    async with plane.client() as api:
        await add_node(api, NodeSpec("fake-0"))
        plane.kubectl("create", "-f", "-", text=_BOUND_POD)
        plane.kubectl("wait", "--for=condition=Ready", "pod/bound", "--timeout=30s")
        plane.kubectl("delete", "pod", "bound", "--timeout=30s")
        assert (await api.list(PODS, "default")).items == []


def test_a_port_in_use_is_one_error_with_the_end_of_the_log(
    tmp_path: Path, programs_needed: None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = PlaneOptions(ports={"kube-apiserver": taken.getsockname()[1]})
        started = ControlPlane(tmp_path, binaries(VERSIONS[0]), options)
        with (
            pytest.raises(
                ControlPlaneError, match=r"kube-apiserver exited(.|\n)*address already in use"
            ),
            started,
        ):
            pass
    assert [program.exit_code is None for program in started.programs.values()] == [False, False]


def test_a_missing_program_is_named_and_nothing_keeps_running(
    tmp_path: Path, programs_needed: None
) -> None:
    programs = binaries(VERSIONS[0]).programs | {"kube-apiserver": tmp_path / "kube-apiserver"}
    lacking = Binaries(VERSIONS[0], programs)
    started = ControlPlane(tmp_path / "plane", lacking)
    with pytest.raises(ControlPlaneError, match="kube-apiserver is not there"), started:
        pass
    assert started.programs["etcd"].exit_code is not None


def test_a_program_that_does_not_start_is_shown_with_its_own_words(tmp_path: Path) -> None:
    program = Program("liar", ["/bin/sh", "-c", "echo no such luck; exit 3"], tmp_path)
    program.start()
    with pytest.raises(ControlPlaneError, match=r"liar exited with 3\n(.|\n)*no such luck"):
        program.wait_for(lambda: False)


def test_children_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, time; from tests.control_plane.programs import Program; "
        "p = Program('child', ['/bin/sleep', '600'], pathlib.Path(sys.argv[1])); p.start(); "
        "print(p.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    assert _ends(child)


def _ends(pid: int) -> bool:
    """Whether the process is gone, or a zombie that nobody waits for, within ten seconds."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


_BOUND_POD = """
apiVersion: v1
kind: Pod
metadata: {name: bound, namespace: default}
spec: {nodeName: fake-0, containers: [{name: main, image: none}], tolerations: [{operator: Exists}]}
"""
