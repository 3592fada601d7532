"""`scaler deploy`, as a user types it, on a real API server: apply, undo, put back, prune,
delete."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions, workload_definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import install, scaler
from tests.control_plane.stage import staged

pytestmark = pytest.mark.plane_options(crds=[*definitions(), *workload_definitions()])
LONG = pytest.mark.long("files of each platform, applied again and again")

_ROOT = Path(__file__).parents[2]
_OME = """
app_name: chat
app_namespace: {namespace}
inference_service:
  model_name: llama
  runtime_name: llama-rt
  engine:
    {{min_replicas: {engines}, max_replicas: {engines}, pod_num: 1, image: "sglang:1", npu_num: 8}}
  decoder: {{min_replicas: 1, max_replicas: 1, pod_num: 1, image: "sglang:1", npu_num: 8}}
mf_store: {{image: "{store}", replicas: 1, container_port: {port}}}
"""
_AGGREGATED = """
app_name: chat
app_namespace: {namespace}
inference_service:
  model_name: llama
  engine: {{min_replicas: 1, max_replicas: 1, pod_num: 1, image: "sglang:1", npu_num: 8}}
"""
_MOTOR = """
platform: mindie-motor
app_name: mindie
app_namespace: mindie
ratios: [{ratios}]
motor_service:
  image: mindie:1
  model_path: /data/qwen
  hardware: 800I_A2
  prefill: {{replicas: {prefill}, pod_num: 1}}
  decode: {{replicas: 1, pod_num: 1}}
"""
_POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-new-services"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["services"],
                }
            ]
        },
        "validations": [
            {"expression": "has(request.dryRun) && request.dryRun", "message": "not today"}
        ],
    },
}
_BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-new-services"},
    "spec": {"policyName": "no-new-services", "validationActions": ["Deny"]},
}


def ome(namespace: str, engines: int = 1, store: str = "store:1", port: int = 9000) -> str:
    return _OME.format(namespace=namespace, engines=engines, store=store, port=port)


class Person:
    """Somebody with files and a kubeconfig."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._folder = folder

    def deploy(
        self, *words: str, code: int = 0, file: str = "", kubeconfig: Path | None = None
    ) -> str:
        """What one command prints, errors last."""
        path = self._folder / "service.yaml"
        path.write_text(file)
        given = ("-c", str(path)) if file else ()
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "scaler",
                "deploy",
                *words,
                *given,
                "-k",
                str(kubeconfig or self.plane.admin),
            ],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def objects(self, namespace: str) -> list[dict[str, Any]]:
        """All that a service of OME is made of."""
        kinds = "inferenceservices,deployments,services"
        found = json.loads(
            self.plane.kubectl("get", kinds, "--namespace", namespace, "--output=json")
        )
        return sorted(found["items"], key=lambda one: str(one["kind"]))

    def names(self, namespace: str) -> list[str]:
        return [f"{one['kind']} {one['metadata']['name']}" for one in self.objects(namespace)]


@pytest.fixture
def person(plane: ControlPlane, tmp_path: Path) -> Person:
    return Person(plane, tmp_path)


def _versions(person: Person, namespace: str) -> list[str]:
    """Deployments are left out: their controller writes them, too."""
    found = [one for one in person.objects(namespace) if one["kind"] != "Deployment"]
    return [one["metadata"]["resourceVersion"] for one in found]


def _specs(person: Person, namespace: str) -> list[Any]:
    return [(one["spec"], one["metadata"].get("labels")) for one in person.objects(namespace)]


@LONG
@pytest.mark.every_kubernetes
def test_the_same_file_twice_changes_nothing_and_another_one_shows_what_it_changes(
    person: Person,
) -> None:
    person.deploy("apply", "--no-wait", file=ome("twice"))
    before = _versions(person, "twice")
    again = person.deploy("apply", "--no-wait", file=ome("twice"))
    assert re.findall(r": (\w+)$", again, re.MULTILINE) == ["unchanged"] * 3
    assert _versions(person, "twice") == before
    tried = person.deploy("apply", "--dry-run", file=ome("twice", store="store:2"))
    assert re.search(r"-\s+image: store:1\n\s+\+\s+image: store:2", tried)
    assert _versions(person, "twice") == before
    person.deploy("apply", "--no-wait", file=ome("twice", store="store:2"))
    (deployed,) = (one for one in person.objects("twice") if one["kind"] == "Deployment")
    assert deployed["spec"]["template"]["spec"]["containers"][0]["image"] == "store:2"


@LONG
def test_what_is_refused_midway_is_undone_and_a_change_leaves_what_ran(person: Person) -> None:
    person.deploy("apply", "--no-wait", file=ome("kept"))
    person.plane.kubectl(
        "scale", "deployment", "chat-mf-store", "--replicas=3", "--namespace", "kept"
    )
    before = _specs(person, "kept")
    person.plane.kubectl("apply", "-f", "-", text=yaml.safe_dump_all([_POLICY, _BINDING]))
    try:
        _until_in_force(person)
        said = person.deploy("apply", "--no-wait", file=ome("fresh"), code=1)
        assert "not today" in said
        assert "Namespace fresh: deleted again" in said
        assert "all is as it was before" in said
        changed = ome("kept", engines=4, store="store:2", port=9001)
        said = person.deploy("apply", "--no-wait", "--force-conflicts", file=changed, code=1)
        assert "Deployment chat-mf-store: put back as it was" in said
        assert _specs(person, "kept") == before
    finally:
        person.plane.kubectl("delete", "-f", "-", text=yaml.safe_dump_all([_POLICY, _BINDING]))
    assert "fresh" not in person.plane.kubectl("get", "namespaces", "--output=name")


def _until_in_force(person: Person) -> None:
    """A policy holds a moment after it was made."""
    for _ in range(60):
        try:
            person.plane.kubectl(
                "create", "service", "clusterip", "probe", "--tcp=1", "--namespace", "default"
            )
        except ControlPlaneError:
            return
        person.plane.kubectl("delete", "service", "probe", "--namespace", "default")
    raise AssertionError("the policy is never in force")


@LONG
@pytest.mark.every_kubernetes
def test_prune_and_delete_take_only_what_was_made_for_the_service(person: Person) -> None:
    person.deploy("apply", "--no-wait", file=ome("own"))
    person.plane.kubectl(
        "create", "service", "clusterip", "theirs", "--tcp=1", "--namespace", "own"
    )
    pruned = person.deploy("apply", "--no-wait", file=_AGGREGATED.format(namespace="own"))
    assert "Deployment chat-mf-store: deleted, the file has it no more" in pruned
    said = person.deploy("delete", "-n", "chat", "-ns", "own")
    assert "InferenceService chat: deleted" in said
    assert "kubectl delete namespace own" in said
    assert person.names("own") == ["Service theirs"]
    person.deploy("delete", "-n", "chat", "-ns", "own", code=1)


@LONG
@pytest.mark.every_kubernetes
def test_what_is_not_ones_own_is_refused_and_nothing_is_written(person: Person) -> None:
    person.plane.kubectl("create", "namespace", "taken")
    person.plane.kubectl(
        "create", "service", "clusterip", "chat-mf-store", "--tcp=1", "--namespace", "taken"
    )
    said = person.deploy("apply", "--no-wait", file=ome("taken"), code=1)
    assert (
        "Service chat-mf-store in namespace taken is there already and is not this service's:"
        " written by" in said
    )
    assert person.names("taken") == ["Service chat-mf-store"]
    person.deploy("apply", "--no-wait", file=ome("hands"))
    person.plane.kubectl(
        "scale", "deployment", "chat-mf-store", "--replicas=3", "--namespace", "hands"
    )
    said = person.deploy("apply", "--no-wait", file=ome("hands"), code=1)
    assert "  .spec.replicas: kubectl" in said
    person.deploy("apply", "--no-wait", "--force-conflicts", file=ome("hands"))
    assert [
        one["spec"]["replicas"] for one in person.objects("hands") if one["kind"] == "Deployment"
    ] == [1]


@LONG
def test_a_right_that_is_lacking_is_named(person: Person) -> None:
    kubectl = person.plane.kubectl
    kubectl("create", "namespace", "tenant")
    kubectl(
        "create",
        "rolebinding",
        "edits",
        "--clusterrole=edit",
        "--serviceaccount=tenant:default",
        "-n",
        "tenant",
    )
    tenant = person.plane.grant("tenant", "default")
    said = person.deploy("apply", "--no-wait", file=ome("tenant"), code=1, kubeconfig=tenant)
    assert "InferenceService chat: you have no right to do that" in said
    assert 'resource "inferenceservices" in API group "ome.io" in the namespace "tenant"' in said
    assert person.names("tenant") == []


async def test_a_service_of_mindie_is_deployed_waited_for_shrunk_and_deleted(
    plane: ControlPlane, tmp_path: Path
) -> None:
    person = Person(plane, tmp_path)

    async def deploy(*words: str, **given: Any) -> str:
        return await asyncio.to_thread(person.deploy, *words, **given)

    kubeconfig = install(plane)
    async with staged(plane, npu_nodes=3) as stage, scaler(tmp_path, kubeconfig):
        await add_node(stage.api, NodeSpec("cpu-0", npu=0))
        said = await deploy(
            "apply", "--timeout", "90s", file=_MOTOR.format(ratios="2P1D, 1P1D", prefill=2)
        )
        assert said.endswith("mindie in namespace mindie: available\n")
        again = await deploy(
            "apply", "--timeout", "60s", file=_MOTOR.format(ratios="2P1D, 1P1D", prefill=2)
        )
        assert set(re.findall(r": (created|changed|unchanged)$", again, re.MULTILINE)) == {
            "unchanged"
        }
        await stage.runs(group0=2, group1=1)
        shown = await deploy("status", "-n", "mindie", "-ns", "mindie")
        assert "2 group0 + 1 group1 (runs), then 1 group0 + 1 group1" in shown
        said = await deploy(
            "apply", "--timeout", "60s", file=_MOTOR.format(ratios="1P1D", prefill=1)
        )
        assert "AscendJob mindie-server-p1: deleted, the file has it no more" in said
        await stage.runs(group0=1, group1=1)
        said = await deploy("delete", "-n", "mindie", "-ns", "mindie")
        assert "PriorityClass mindie-high-priority-d0: deleted" in said
        assert await stage.pods("mindie") == []
