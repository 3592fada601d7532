"""The scaler lives with the rights of manifests/: all of them are enough, and none is too many.

One story makes it need each of them once: answers are lost, a write meets a conflict, a job is refused, an admission is
taken back, a service is deleted, a replica stands by. The API server's audit log says what was asked.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS, Object
from scaler.kube.errors import NotFoundError
from scaler.names import GATE
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.apiserver.crds import definitions, workload_definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.proxy import LOST, Fault, proxied, status
from tests.control_plane.scaler_process import NAMESPACE, USER, install, scaler
from tests.control_plane.stage import Stage, staged, until

pytestmark = [
    pytest.mark.every_kubernetes,
    pytest.mark.plane_options(
        audit=True,
        crds=[*definitions(), *workload_definitions()],
        apiserver_flags=("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",),
    ),
]

_CONTAINER = {"name": "ascend", "image": "none", "imagePullPolicy": "Sometimes"}  # no such policy
_ODD_LABELS = {"app": "mindie-ms-server", "jobID": "odd", "framework": "pytorch"}
_OTHERS = ("group0", "group1")
"""A pod for each group of the rule: half a service would be held, because the example's has nodes in common with it."""
_ODD_JOB: Object = {
    "apiVersion": ASCEND_JOBS.api_version,
    "kind": ASCEND_JOBS.kind,
    "metadata": {"name": "odd-policy", "namespace": "odd", "labels": _ODD_LABELS},
    "spec": {"replicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": [_CONTAINER]}}}}},
}


def _others_pod(group: str) -> Object:
    labels = {"mind-cluster/scaling-rule": "scaling-rule", "mind-cluster/group-name": group, "jobID": "others"}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": f"others-{group}", "namespace": "mindie", "labels": labels},
        "spec": {
            "schedulerName": "volcano",
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "main", "image": "none"}],
        },
    }


class Right(NamedTuple):
    """One verb on one resource (`pods`, `ascendjobs/status`)."""

    group: str
    resource: str
    verb: str


@pytest.fixture(scope="module")
def story(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Everything that the API server was asked by the scaler's account."""
    asyncio.run(_tell(plane, tmp_path_factory.mktemp("scalers")))
    return plane.audit_events(USER)


def test_nothing_is_refused_for_want_of_a_right(story: list[dict[str, Any]]) -> None:
    refused = [event for event in story if event["responseStatus"].get("code") == 403]
    assert [(event["verb"], event["requestURI"], event["responseStatus"].get("message")) for event in refused] == []


def test_every_right_is_needed(plane: ControlPlane, story: list[dict[str, Any]]) -> None:
    unseen = {
        Right("mindxdl.gitee.com", "ascendjobs/finalizers", "update"),  # asked by an admission plugin, see below
        Right("mindxdl.gitee.com", "ascendjobs", "delete"),  # a finished job whose time is over
        Right("apiextensions.k8s.io", "customresourcedefinitions", "list"),  # of kinds that are not installed
        Right("apiextensions.k8s.io", "customresourcedefinitions", "watch"),
    }
    assert _granted(plane) - _used(story) == unseen


def test_without_the_right_to_finalizers_owner_references_are_refused(plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install(plane)
    role = json.loads(plane.kubectl("get", "clusterrole", "mind-cluster-scaler-services", "--output", "json"))
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["ascendjobs/finalizers"]]
    plane.kubectl("replace", "-f", "-", text=json.dumps(role))
    try:
        refusal = asyncio.run(_refusal(plane, kubeconfig, tmp_path))
    finally:
        install(plane)
    assert "cannot set blockOwnerDeletion" in refusal


async def _refusal(plane: ControlPlane, kubeconfig: Path, folder: Path) -> str:
    """Why the example's first instance gets no pods."""
    async with staged(plane) as stage, scaler(folder, kubeconfig):
        await stage.apply()
        await until(lambda: _is_refused(stage, "mindie-server-d0"), "d0 is refused", stage.views)
        found = await stage.api.get(ASCEND_JOBS, "mindie", "mindie-server-d0")
    return str(found["status"]["conditions"][-1]["message"])


async def _is_refused(stage: Stage, job: str, namespace: str = "mindie") -> bool:
    found = await stage.api.get(ASCEND_JOBS, namespace, job)
    conditions = (found.get("status") or {}).get("conditions") or [{}]
    return bool(conditions[-1].get("reason") == "CreateRefused")


async def _tell(plane: ControlPlane, folder: Path) -> None:
    install(plane)
    async with proxied(plane.port, plane.authority) as proxy, staged(plane, npu_nodes=2) as stage:
        proxy.judge = _Once()
        kubeconfig = plane.grant(NAMESPACE, "mind-cluster-scaler", server=proxy.url)
        async with scaler(folder, kubeconfig, name="one"), scaler(folder, kubeconfig, name="two"):
            await _live(stage, plane)


async def _live(stage: Stage, plane: ControlPlane) -> None:
    """The life of a service, with what may come between."""
    await stage.apply()
    await stage.runs(group0=1, group1=1)
    await until(lambda: _has_pods(stage, "mindie-server-p1"), "p1 is admitted and waits for a node", stage.views)

    lost = await stage.node_of("mindie-server-d0")
    await stage.node(lost, NodeFate.NOT_READY)
    await until(lambda: _not(_has_pods(stage, "mindie-server-p1")), "p1 is taken back for d0", stage.views)
    await stage.node(lost, NodeFate.READY)
    await stage.runs(group0=1, group1=1)
    await until(lambda: _events_were_counted(plane), "an event is told again", stage.views)

    for group in _OTHERS:
        await stage.api.create(PODS, "mindie", _others_pod(group))
    for group in _OTHERS:
        await until(partial(_is_released, stage, f"others-{group}"), "what somebody else created is released")
    for group in _OTHERS:
        with suppress(NotFoundError):  # the second one is half a service by now, and taken back
            await stage.api.delete(PODS, "mindie", f"others-{group}")

    plane.kubectl("create", "namespace", "odd")
    await stage.api.create(ASCEND_JOBS, "odd", _ODD_JOB)
    await until(lambda: _is_refused(stage, "odd-policy", "odd"), "a job with an unheard-of pull policy is refused")

    plane.kubectl("delete", "ascendjobs", "--all", "--namespace", "mindie", "--wait=false")
    await until(lambda: _status_is_gone(stage), "the status goes with the service")


class _Once:
    """Each of these befalls the first request of its kind."""

    def __init__(self) -> None:
        self._left: list[tuple[str, str, Fault]] = [
            ("POST", r"/namespaces/mindie/pods$", LOST),
            ("POST", r"/namespaces/mindie/services$", LOST),
            ("POST", r"/namespaces/mindie/podgroups$", LOST),
            ("PUT", r"/leases/", LOST),
            ("PATCH", r"/ascendjobs/[^/]+/status$", status(409, "Conflict")),
        ]

    def __call__(self, method: str, path: str) -> Fault:
        for entry in self._left:
            if entry[0] == method and re.search(entry[1], path):
                self._left.remove(entry)
                return entry[2]
        return None


async def _has_pods(stage: Stage, job: str) -> bool:
    names = [pod["metadata"]["name"] for pod in (await stage.api.list(PODS, "mindie")).items]
    return any(name.startswith(f"{job}-") for name in names)


async def _is_released(stage: Stage, pod: str) -> bool:
    return not (await stage.api.get(PODS, "mindie", pod))["spec"].get("schedulingGates")


async def _not(condition: Any) -> bool:
    return not await condition


async def _events_were_counted(plane: ControlPlane) -> bool:
    return any(event["verb"] == "patch" and _resource(event) == "events" for event in plane.audit_events(USER))


async def _status_is_gone(stage: Stage) -> bool:
    try:
        await stage.api.get(CONFIG_MAPS, "mindie", "scaling-rule-scaler-status")
    except NotFoundError:
        return True
    return False


def _granted(plane: ControlPlane) -> set[Right]:
    """What manifests/cluster-wide gives."""
    text = plane.kubectl("get", "clusterroles,roles", "--all-namespaces", "--output", "json", "--selector", _PART_OF)
    rules = [rule for role in json.loads(text)["items"] for rule in role["rules"]]
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


_PART_OF = "app.kubernetes.io/part-of=mind-cluster-scaler"


def _used(events: list[dict[str, Any]]) -> set[Right]:
    asked = [event for event in events if "objectRef" in event]
    return {Right(event["objectRef"].get("apiGroup", ""), _resource(event), event["verb"]) for event in asked}


def _resource(event: dict[str, Any]) -> str:
    ref = event.get("objectRef") or {}
    return "/".join(filter(None, (ref.get("resource", ""), ref.get("subresource", ""))))
