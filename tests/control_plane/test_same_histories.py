"""Random histories of operations end the same way on the simulated cluster and on a real API
server, step by step.

Compared is what a controller may rely on: the kind of refusal, or metadata, data, gates and phase
of the answer. Versions and uids are each cluster's own, so steps name them as `now`, `old` or
`other`. What is empty may be left out."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.clock import Clock
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import KubeError
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.control_plane.plane import ControlPlane
from tests.jobs import manifest

pytestmark = [pytest.mark.every_kubernetes, pytest.mark.shares_plane("clients")]
_numbers = itertools.count(1)
_NO_SUCH_UID = "00000000-0000-4000-8000-000000000000"
_RESOURCES = {resource.plural: resource for resource in (CONFIG_MAPS, PODS, ASCEND_JOBS)}
_SPECS: dict[str, Object] = {
    "configmaps": {"data": {"key": "first"}},
    "pods": {
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGates": [{"name": "a/ours"}, {"name": "b/theirs"}],
        }
    },
    "ascendjobs": {
        "spec": {
            "replicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": []}}}}
        },
    },
}
_METADATA: tuple[Object, ...] = (
    {"labels": {"a": "1"}},
    {"labels": {"a": None, "b": "2"}},
    {"annotations": {"note": "x"}},
    {"finalizers": ["example.org/hold"]},
    {"finalizers": []},
    {"finalizers": None, "labels": {"bad label": "x"}},
    {"name": "another"},
)
_BODIES: dict[str, tuple[Object, ...]] = {
    "configmaps": ({}, {"data": {"key": "second"}}, {"data": {"key": None}}),
    "pods": (
        {},
        {"spec": {"schedulingGates": [{"name": "a/ours"}]}},
        {"spec": {"schedulingGates": []}},
        {"spec": {"schedulingGates": [{"name": "c/new"}]}},
        {"spec": {"nodeName": "somewhere"}},
        {"status": {"phase": "Running"}},
    ),
    "ascendjobs": ({}, {"spec": {"replicaSpecs": {"Master": {"replicas": 2}}}}),
}
"""Only fields that the kind has: what it does not know of a built-in kind an API server drops, the
simulation keeps."""
_JSON_PATCHES: tuple[Any, ...] = (
    [{"op": "add", "path": "/metadata/labels", "value": {"c": "3"}}],
    [{"op": "remove", "path": "/metadata/labels"}],
    [
        {"op": "test", "path": "/data/key", "value": "first"},
        {"op": "replace", "path": "/data/key", "value": "third"},
    ],
    [{"op": "remove", "path": "/spec/schedulingGates/0"}],
)


def _step(resource: str) -> st.SearchStrategy[dict[str, Any]]:
    """One operation. A custom resource knows no strategic patch, and is told so before or after it
    is looked for."""
    verbs = ["create", "create", "merge", "strategic", "json", "replace", "delete", "get"]
    return st.fixed_dictionaries(
        {
            "verb": st.sampled_from(
                [verb for verb in verbs if (resource, verb) != ("ascendjobs", "strategic")]
            ),
            "resource": st.just(resource),
            "name": st.sampled_from(("a", "b")),
            "uid": st.sampled_from(("none", "none", "now", "other")),
            "version": st.sampled_from(("none", "none", "now", "old", "other")),
            "metadata": st.sampled_from(_METADATA),
            "body": st.sampled_from(_BODIES[resource]),
            "operations": st.sampled_from(_JSON_PATCHES),
            "subresource": st.sampled_from(("", "", "", "status")),
            "grace": st.sampled_from((None, 0)),
        }
    )


_steps = st.lists(st.sampled_from(tuple(_RESOURCES)).flatmap(_step), min_size=5, max_size=25)


class _Player:
    """Plays steps on one cluster and says how each ended."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._seen: dict[tuple[str, str], list[Object]] = {}

    async def play(self, steps: list[dict[str, Any]]) -> list[Any]:
        await self._api.create(NAMESPACES, None, manifest(NAMESPACES, self._namespace))
        return [await self._outcome(step) for step in steps]

    async def _outcome(self, step: dict[str, Any]) -> Any:
        resource = _RESOURCES[step["resource"]]
        try:
            answer = await self._do(step, resource)
        except KubeError as error:
            return type(error).__name__
        if answer is None:
            return "deleted"
        self._seen.setdefault((step["resource"], step["name"]), []).append(answer["metadata"])
        return _essence(answer)

    async def _do(self, step: dict[str, Any], resource: Resource) -> Object | None:
        name = step["name"]
        place = (resource, self._namespace, step["name"])
        conditions = {"uid": self._uid(step), "resourceVersion": self._version(step)}
        # Of several things that are wrong with a request each server names the one that it looks at
        # first.
        renaming = step["metadata"].get("name")
        given = {key: value for key, value in conditions.items() if value and not renaming}
        match step["verb"]:
            case "create":
                return await self._api.create(
                    resource, self._namespace, manifest(resource, name, **_SPECS[resource.plural])
                )
            case "get":
                return await self._api.get(*place)
            case "replace":
                old = await self._api.get(*place)
                metadata = {**old["metadata"], **_without_nulls(step["metadata"]), "name": name}
                for key in ("resourceVersion", "uid"):
                    metadata.pop(key, None)
                body = {**old, **_SPECS[resource.plural], "metadata": {**metadata, **given}}
                return await self._api.replace(*place, body)
            case "delete":
                grace = step["grace"]
                await self._api.delete(
                    *place,
                    uid=conditions["uid"],
                    resource_version=conditions["resourceVersion"],
                    grace_period_seconds=grace,
                )
                return None
            case "json":
                return await self._api.patch(*place, step["operations"], patch_type=PatchType.JSON)
        patch = {**step["body"], "metadata": {**step["metadata"], **given}}
        patch_type = PatchType.MERGE if step["verb"] == "merge" else PatchType.STRATEGIC
        subresource = step["subresource"] if resource is not CONFIG_MAPS else ""
        return await self._api.patch(*place, patch, patch_type=patch_type, subresource=subresource)

    def _uid(self, step: dict[str, Any]) -> str:
        seen = self._seen.get((step["resource"], step["name"]))
        known = seen[-1]["uid"] if seen else ""
        return {"none": "", "now": known, "other": _NO_SUCH_UID}[step["uid"]]

    def _version(self, step: dict[str, Any]) -> str:
        seen = self._seen.get((step["resource"], step["name"])) or [{"resourceVersion": ""}]
        now = seen[-1]["resourceVersion"]
        old = seen[0]["resourceVersion"]
        return str({"none": "", "now": now, "old": old, "other": "1"}[step["version"]])


def _without_nulls(metadata: Object) -> Object:
    """Null takes away in a patch only; in an object it is the empty text, which nobody writes."""
    kept = {}
    for key, part in metadata.items():
        if part is not None:
            kept[key] = _without_nulls(part) if isinstance(part, dict) else part
    return kept


def _essence(obj: Object) -> Object:
    """What must be the same everywhere. Pods are counted since Kubernetes 1.33, so their generation
    is left out."""
    metadata = obj["metadata"]
    kept = {key: metadata.get(key) for key in ("name", "labels", "annotations", "finalizers")}
    if obj["kind"] != PODS.kind:
        kept["generation"] = metadata.get("generation")
    spec = obj.get("spec") or {}
    status = obj.get("status") or {}
    return {
        "metadata": {key: value for key, value in kept.items() if value},
        "terminating": "deletionTimestamp" in metadata,
        "data": obj.get("data") or None,
        "gates": spec.get("schedulingGates") or None,
        "node": spec.get("nodeName"),
        "replicas": spec.get("replicaSpecs"),
        "phase": status.get("phase"),
    }


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(_steps)
def test_every_step_of_a_history_ends_the_same_way(
    plane: ControlPlane, steps: list[dict[str, Any]]
) -> None:
    namespace = f"history-{next(_numbers)}"

    async def simulated() -> list[Any]:
        return await _Player(SimCluster(Clock(1.7e9)), namespace).play(steps)

    async def real() -> list[Any]:
        async with plane.client() as api:
            return await _Player(api, namespace).play(steps)

    pairs = zip(steps, run(simulated()), asyncio.run(real()), strict=True)
    differing = [
        (step, {"simulated": ours, "real": theirs})
        for step, ours, theirs in pairs
        if ours != theirs
    ]
    assert differing[:1] == []
