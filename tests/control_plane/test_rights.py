"""The scaler lives with the rights of manifests/: all of them are enough, and none is too many.

One story makes it need each of them once: answers are lost, a write meets a conflict, a job is
refused, an admission is taken back, a service is deleted, a replica stands by. The API server's
audit log says what was asked."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    ELASTIC_SERVICES,
    PODS,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, NotFoundError
from scaler.names import BUDGET, GATE, MANAGED_BY, MANAGED_BY_LABEL
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.apiserver.crds import definitions, workload_definitions
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError, free_ports
from tests.control_plane.proxy import LOST, Fault, proxied, status
from tests.control_plane.scaler_process import (
    ACCOUNT,
    LEASE,
    NAMESPACE,
    USER,
    install,
    metrics_for,
    scaler,
)
from tests.control_plane.stage import Stage, staged, until
from tests.jobs import manifest

pytestmark = [
    pytest.mark.every_kubernetes,
    pytest.mark.plane_options(
        audit=True,
        crds=[*definitions(), *workload_definitions()],
        apiserver_flags=("--enable-admission-plugins=OwnerReferencesPermissionEnforcement",),
    ),
]

_MANIFESTS = Path(__file__).parents[2] / "manifests"
_GUARD = _MANIFESTS / "account-guard" / "account-guard.yaml"
_GUARDED_FROM = 30
"""The minor version of Kubernetes that serves it."""
_WEBHOOKS = ("mutating", "validating", "webhook-role")
_EVERYTHING = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["*/*"],
    "scope": "*",
}
_PATCHES_OF_WEBHOOKS: tuple[tuple[str, Object], ...] = tuple(
    (kind, {"op": op, "path": f"/webhooks/0/{path}", "value": value})
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
    for op, path, value in (
        ("add", "rules/-", _EVERYTHING),
        ("replace", "clientConfig/service/namespace", "evil"),
        ("replace", "clientConfig", {"url": "https://evil.example", "caBundle": ""}),
        ("replace", "namespaceSelector", {}),
        ("replace", "failurePolicy", "Fail"),
        ("add", "matchConditions", [{"name": "never", "expression": "false"}]),
    )
)
_OPTED_IN = "mind-cluster/scaling=enabled"
_CONTAINER = {"name": "ascend", "image": "none", "imagePullPolicy": "Sometimes"}  # no such policy
_ODD_LABELS = {"app": "mindie-ms-server", "jobID": "odd", "framework": "pytorch"}
_OTHERS = ("group0", "group1")
"""A pod for each group of the rule: half a service would be held, because the example's has nodes
in common with it."""
_ODD_JOB: Object = {
    "apiVersion": ASCEND_JOBS.api_version,
    "kind": ASCEND_JOBS.kind,
    "metadata": {"name": "odd-policy", "namespace": "odd", "labels": _ODD_LABELS},
    "spec": {
        "replicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"containers": [_CONTAINER]}}}
        }
    },
}


def _others_pod(group: str) -> Object:
    labels = {
        "mind-cluster/scaling-rule": "scaling-rule",
        "mind-cluster/group-name": group,
        "jobID": "others",
    }
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
    at_home: bool = False
    """In the scaler's own namespace, by a right that holds only there."""


@pytest.fixture(scope="module")
def story(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Everything that the API server was asked by the scaler's account."""
    asyncio.run(_tell(plane, tmp_path_factory.mktemp("scalers")))
    return plane.audit_events(USER)


def test_nothing_is_refused_for_want_of_a_right(story: list[dict[str, Any]]) -> None:
    refused = [event for event in story if event["responseStatus"].get("code") == 403]
    assert [
        (event["verb"], event["requestURI"], event["responseStatus"].get("message"))
        for event in refused
    ] == []


def test_every_right_is_needed(plane: ControlPlane, story: list[dict[str, Any]]) -> None:
    unseen = {
        # asked by an admission plugin, see below
        Right("mindxdl.gitee.com", "ascendjobs/finalizers", "update"),
        Right("mind-cluster", "gates", "release"),  # asked by the gate guard
        Right("", "configmaps", "list", at_home=True),  # those of every namespace are listed
        Right("", "configmaps", "watch", at_home=True),
        # in the namespaces of installs: there is only our own
        Right("coordination.k8s.io", "leases", "list"),
        Right("", "configmaps", "get"),  # rank tables, see test_ranktables.py
        Right("", "configmaps", "patch"),
        Right("", "configmaps", "delete"),  # for replicas of v0.2.0
        Right("mindxdl.gitee.com", "ascendjobs", "delete"),  # a finished job whose time is over
        # of a kind that is not installed
        Right("workloads.x-k8s.io", "rolebasedgroups", "watch"),
        Right("topology.volcano.sh", "hypernodes", "watch"),
    }
    assert _granted(plane) - _used(story) == unseen


def test_without_the_right_to_finalizers_owner_references_are_refused(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = install(plane)
    role = json.loads(
        plane.kubectl("get", "clusterrole", "mind-cluster-scaler-create", "--output", "json")
    )
    role["rules"] = [
        rule for rule in role["rules"] if rule["resources"] != ["ascendjobs/finalizers"]
    ]
    plane.kubectl("replace", "-f", "-", text=json.dumps(role))
    try:
        refusal = asyncio.run(_refusal(plane, kubeconfig, tmp_path))
    finally:
        install(plane)
    assert "cannot set blockOwnerDeletion" in refusal


def test_with_its_token_and_the_account_guard_nobody_writes_what_is_not_its_business(
    plane: ControlPlane, story: list[dict[str, Any]], tmp_path: Path
) -> None:
    if plane.minor < _GUARDED_FROM:
        pytest.skip("ValidatingAdmissionPolicy is served from Kubernetes 1.30 on")
    token = install(plane)
    named = ("mind-cluster/scaling-rule=x",)
    refused = "ValidatingAdmissionPolicy 'mind-cluster-scaler-account'"
    plane.kubectl("apply", "-f", str(_GUARD))
    for namespace in ("other", "enabled"):
        plane.kubectl("create", "namespace", namespace)
        for name, labels in (("plain", ()), ("ours", named)):
            plane.kubectl(
                "run",
                name,
                "--image=none",
                "--namespace",
                namespace,
                *(f"--labels={one}" for one in labels),
            )
        plane.kubectl("create", "configmap", "theirs", "--namespace", namespace)
    theirs = {**_ODD_JOB, "metadata": {"name": "theirs", "namespace": "other"}}
    plane.kubectl("create", "-f", "-", text=json.dumps(theirs))
    plane.kubectl("label", "namespace", "enabled", _OPTED_IN)
    somebodys = tmp_path / "somebodys.json"
    somebodys.write_text(
        json.dumps(manifest(ELASTIC_SERVICES, "evil", spec={"rule": "a", "jobID": "b"}))
    )
    resting = tmp_path / "resting.json"
    spec = {"rule": "a", "jobID": "b", "replicas": 0}
    made_by_us = manifest(
        ELASTIC_SERVICES, "rests", labels={MANAGED_BY_LABEL: MANAGED_BY}, spec=spec
    )
    resting.write_text(json.dumps(made_by_us))
    image = '{"spec":{"containers":[{"name":"%s","image":"evil"}]}}'
    for request in (
        ("patch", "pod", "plain", "-n", "enabled", "-p", image % "plain"),
        ("patch", "pod", "ours", "-n", "enabled", "-p", image % "ours"),
        ("patch", "pod", "ours", "-n", "other", "-p", '{"metadata":{"labels":{"a":"b"}}}'),
        ("delete", "pod", "plain", "-n", "enabled"),
        ("delete", "pod", "ours", "-n", "other"),
        ("run", "evil", "--image=none", "-n", "enabled", "--labels=mind-cluster/scaling-rule=x"),
        ("run", "evil", "--image=none", "-n", "kube-system"),
        ("patch", "configmap", "theirs", "-n", "enabled", "-p", '{"data":{"a":"b"}}'),
        ("delete", "configmap", "theirs", "-n", "enabled"),
        ("create", "-n", "kube-system", "-f", str(somebodys)),
        ("create", "-n", "enabled", "-f", str(somebodys)),
        ("create", "-n", "enabled", "-f", str(resting)),
        ("create", "service", "clusterip", "evil", "--tcp=80", "-n", "enabled"),
        (
            "create",
            "poddisruptionbudget",
            "evil",
            "--selector=a=b",
            "--min-available=1",
            "-n",
            "enabled",
        ),
    ):
        with pytest.raises(ControlPlaneError, match=refused):
            plane.kubectl(*request, kubeconfig=token)
    with pytest.raises(ForbiddenError, match=refused):  # kubectl would read the status before
        asyncio.run(_fail(plane, token, "other", "theirs"))
    plane.kubectl(
        "patch",
        "pod",
        "ours",
        "-n",
        "enabled",
        "-p",
        '{"metadata":{"labels":{"a":"b"}}}',
        kubeconfig=token,
    )
    plane.kubectl("delete", "pod", "ours", "-n", "enabled", kubeconfig=token)


def test_with_its_token_and_the_account_guard_only_the_ca_of_a_webhook_can_be_changed(
    plane: ControlPlane,
) -> None:
    """Who adds a rule to a webhook has objects of others sent to itself, Secrets too."""
    if plane.minor < _GUARDED_FROM:
        pytest.skip("ValidatingAdmissionPolicy is served from Kubernetes 1.30 on")
    token = install(plane)
    webhooks = [str(_MANIFESTS / "admission-webhook" / f"{name}.yaml") for name in _WEBHOOKS]
    files = [argument for name in (*webhooks, str(_GUARD)) for argument in ("-f", name)]
    plane.kubectl("apply", *files)
    try:
        for kind, patch in _PATCHES_OF_WEBHOOKS:
            request = ("patch", kind, ACCOUNT, "--type=json", "-p", json.dumps([patch]))
            _wait_for_refusal(plane, token, *request)
            with pytest.raises(
                ControlPlaneError, match="changes nothing of a webhook but caBundle"
            ):
                plane.kubectl(*request, kubeconfig=token)
        ca = base64.b64encode(plane.authority.read_bytes()).decode()
        trusted = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ca}
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            plane.kubectl(
                "patch", kind, ACCOUNT, "--type=json", "-p", json.dumps([trusted]), kubeconfig=token
            )
    finally:
        plane.kubectl("delete", *files, "--ignore-not-found")


def _wait_for_refusal(plane: ControlPlane, token: Path, *request: str) -> None:
    """Until the API server has taken in the policy, some seconds at most."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            plane.kubectl(*request, "--dry-run=server", kubeconfig=token)
        except ControlPlaneError:
            return
        time.sleep(0.2)


async def _fail(plane: ControlPlane, kubeconfig: Path, namespace: str, job: str) -> None:
    """Say that a job has failed."""
    failed = {
        "conditions": [{"type": "Failed", "status": "True", "reason": "Forged"}],
        "replicaStatuses": {},
    }
    async with plane.client(kubeconfig) as api:
        await api.patch(
            ASCEND_JOBS,
            namespace,
            job,
            {"status": failed},
            patch_type=PatchType.MERGE,
            subresource="status",
        )


@pytest.mark.long("services in real time")
def test_an_install_that_only_releases_is_refused_nothing_and_may_make_no_pod(
    plane: ControlPlane, story: list[dict[str, Any]], tmp_path: Path
) -> None:
    plane.kubectl("delete", "-k", str(_MANIFESTS / "cluster-wide"), "--ignore-not-found")
    token = install(plane, "gates-only")
    before = len(plane.audit_events(USER))
    asyncio.run(_release(plane, token, tmp_path))
    after = plane.audit_events(USER)[before:]
    assert [
        event["requestURI"] for event in after if event["responseStatus"].get("code") == 403
    ] == []
    assert _used(after) <= {
        *_granted(plane),
        *(right._replace(at_home=True) for right in _granted(plane)),
    }
    for request in (
        ("run", "evil", "--image=none", "-n", "default"),
        ("delete", "ascendjobs.mindxdl.gitee.com", "theirs", "-n", "default"),
        ("create", "configmap", "evil", "-n", "default"),
        ("create", "secret", "generic", "evil", "-n", NAMESPACE),
    ):
        with pytest.raises(ControlPlaneError, match="is forbidden: User"):
            plane.kubectl(*request, kubeconfig=token)


async def _release(plane: ControlPlane, kubeconfig: Path, folder: Path) -> None:
    """Somebody else's pods are released, and their status is told."""
    flags = (*LEASE, "--mode", "gates")
    async with staged(plane) as stage, scaler(folder, kubeconfig, flags=flags):
        await stage.apply()
        for group in _OTHERS:
            await stage.api.create(PODS, "mindie", _others_pod(group))
        for group in _OTHERS:
            await until(
                partial(_is_released, stage, f"others-{group}"),
                "what somebody else created is released",
            )
        await until(lambda: _status_is_told(stage), "the status is told")
        await asyncio.sleep(3)


async def _status_is_told(stage: Stage) -> bool:
    names = {
        found["metadata"]["name"] for found in (await stage.api.list(CONFIG_MAPS, NAMESPACE)).items
    }
    statuses = [
        found.get("status") for found in (await stage.api.list(ELASTIC_SERVICES, "mindie")).items
    ]
    return "mindie.scaling-rule-scaler-last-valid" in names and any(statuses)


def _opted_in(obj: Object) -> Object:
    if obj["kind"] == "Namespace":
        obj["metadata"].setdefault("labels", {}).update([_OPTED_IN.split("=")])
    return obj


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
    if plane.minor >= _GUARDED_FROM:
        plane.kubectl("apply", "-f", str(_GUARD))
    async with proxied(plane.port, plane.authority) as proxy, staged(plane, npu_nodes=2) as stage:
        proxy.judge = _Once()
        plane.kubectl("create", "namespace", "mindie")
        plane.kubectl("label", "namespace", "mindie", _OPTED_IN)
        kubeconfig = plane.grant(NAMESPACE, "mind-cluster-scaler", server=proxy.url)
        flags = (*LEASE, "--disruption-budgets")
        (port,) = free_ports(1)
        with_metrics = (*flags, "--metrics-port", str(port))
        one = scaler(folder, kubeconfig, name="one", flags=with_metrics)
        async with one, scaler(folder, kubeconfig, name="two", flags=flags):
            token = plane.kubectl("create", "token", ACCOUNT, "--namespace", NAMESPACE).strip()
            assert (await metrics_for(port, token))[0] == 403  # its own right is to ask
            await _live(stage, plane)


async def _live(stage: Stage, plane: ControlPlane) -> None:
    """The life of a service, with what may come between."""
    await stage.apply(change=_opted_in)
    await stage.runs(group0=1, group1=1)
    await until(
        lambda: _not(_is_gone(stage, DISRUPTION_BUDGETS, BUDGET)),
        "evictions are kept from the minimum",
    )
    plane.kubectl(
        "annotate", "configmap", "scaling-rule", "--namespace", "mindie", "mind-cluster/trade=off"
    )
    await until(
        lambda: _has_pods(stage, "mindie-server-p1"),
        "p1 is admitted and waits for a node",
        stage.views,
    )

    lost = await stage.node_of("mindie-server-d0")
    await stage.node(lost, NodeFate.NOT_READY)
    await until(
        lambda: _not(_has_pods(stage, "mindie-server-p1")), "p1 is taken back for d0", stage.views
    )
    await stage.node(lost, NodeFate.READY)
    await stage.runs(group0=1, group1=1)
    await until(lambda: _events_were_counted(plane), "an event is told again", stage.views)

    for group in _OTHERS:
        await stage.api.create(PODS, "mindie", _others_pod(group))
    for group in _OTHERS:
        await until(
            partial(_is_released, stage, f"others-{group}"),
            "what somebody else created is released",
        )
    for group in _OTHERS:
        with suppress(NotFoundError):  # the second one is half a service by now, and taken back
            await stage.api.delete(PODS, "mindie", f"others-{group}")

    plane.kubectl("create", "namespace", "odd")
    plane.kubectl("label", "namespace", "odd", _OPTED_IN)
    await stage.api.create(ASCEND_JOBS, "odd", _ODD_JOB)
    await until(
        lambda: _is_refused(stage, "odd-policy", "odd"),
        "a job with an unheard-of pull policy is refused",
    )

    plane.kubectl("delete", "ascendjobs", "--all", "--namespace", "mindie", "--wait=false")
    await until(lambda: _is_gone(stage, DISRUPTION_BUDGETS, BUDGET), "so does the budget")
    await until(
        lambda: _is_gone(stage, ELASTIC_SERVICES, "scaling-rule-mindie"),
        "the status goes with the service",
    )
    kept = "mindie.scaling-rule-scaler-last-valid"
    await until(
        lambda: _is_gone(stage, CONFIG_MAPS, kept, NAMESPACE), "the last valid rule goes, too"
    )


class _Once:
    """Each of these is injected into the first request of its kind."""

    def __init__(self) -> None:
        self._left: list[tuple[str, str, Fault]] = [
            ("POST", r"/namespaces/mindie/pods$", LOST),
            ("POST", r"/namespaces/mindie/services$", LOST),
            ("POST", r"/namespaces/mindie/podgroups$", LOST),
            ("POST", r"/namespaces/mindie/elasticservices$", LOST),
            ("POST", r"/namespaces/mindie/poddisruptionbudgets$", LOST),
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
    return any(
        event["verb"] == "patch" and _resource(event) == "events"
        for event in plane.audit_events(USER)
    )


async def _is_gone(stage: Stage, resource: Resource, name: str, namespace: str = "mindie") -> bool:
    try:
        await stage.api.get(resource, namespace, name)
    except NotFoundError:
        return True
    return False


def _granted(plane: ControlPlane) -> set[Right]:
    """What manifests/cluster-wide gives the scaler: what is added to Kubernetes' own roles, and
    the path of the metrics, is for others."""
    text = plane.kubectl(
        "get", "clusterroles,roles", "--all-namespaces", "--output", "json", "--selector", _PART_OF
    )
    roles = [
        role
        for role in json.loads(text)["items"]
        if "aggregate-to-" not in json.dumps(role["metadata"]["labels"])
    ]
    rules = [(role, rule) for role in roles for rule in role["rules"] if "resources" in rule]
    return {
        Right(group, resource, verb, role["kind"] == "Role")
        for role, rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


_PART_OF = "app.kubernetes.io/part-of=mind-cluster-scaler"


def _used(events: list[dict[str, Any]]) -> set[Right]:
    asked = [event for event in events if "objectRef" in event]
    return {
        Right(
            ref.get("apiGroup", ""),
            _resource(event),
            event["verb"],
            ref.get("namespace") == NAMESPACE,
        )
        for event in asked
        for ref in [event["objectRef"]]
    }


def _resource(event: dict[str, Any]) -> str:
    ref = event.get("objectRef") or {}
    return "/".join(filter(None, (ref.get("resource", ""), ref.get("subresource", ""))))
