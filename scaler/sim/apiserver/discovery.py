"""The documents by which kubectl learns what a server serves: groups, resources, and as much OpenAPI as it insists on.

The OpenAPI says only that field validation and dry runs are known to the server, which keeps kubectl from validating
by itself; it describes no schemas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scaler.kube.api import Object
from scaler.sim.apiserver.kinds import Kind

_IN_ALL = frozenset({"Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"})
"""What `kubectl get all` shows."""
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]

VERSION: Object = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.0+simulated",
    "platform": "linux/amd64",
}


def document(path: str, kinds: Iterable[Kind]) -> Object | None:
    """The discovery document at that path (without slashes at its ends), None when there is none."""
    served = list(kinds)
    if path == "version":
        return VERSION
    if path == "api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "apis":
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name, served) for name in _groups(served)],
        }
    if path == "openapi/v3":
        return {"paths": {base: {"serverRelativeURL": f"/openapi/v3/{base}"} for base in _bases(served)}}
    if path.startswith("openapi/v3/"):
        return _openapi(path.removeprefix("openapi/v3/"), served)
    if path.startswith("apis/") and path.count("/") == 1 and path[5:] in _groups(served):
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(path[5:], served)}
    return _resources(path, served) if path in _bases(served) else None


def base_path(kind: Kind) -> str:
    """`api/v1` or `apis/group/version`."""
    return f"apis/{kind.resource.api_version}" if kind.resource.group else f"api/{kind.resource.version}"


def _bases(kinds: list[Kind]) -> list[str]:
    return list(dict.fromkeys(base_path(kind) for kind in kinds))


def _groups(kinds: list[Kind]) -> list[str]:
    return list(dict.fromkeys(kind.resource.group for kind in kinds if kind.resource.group))


def _group(name: str, kinds: list[Kind]) -> Object:
    versions = dict.fromkeys(kind.resource.version for kind in kinds if kind.resource.group == name)
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(base: str, kinds: list[Kind]) -> Object:
    entries: list[Object] = []
    for kind in kinds:
        if base_path(kind) == base:
            entries.append(_entry(kind, ""))
            if kind.status:
                entries.append(_entry(kind, "/status"))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": base.partition("/")[2],
        "resources": entries,
    }


def _entry(kind: Kind, subresource: str) -> Object:
    entry: Object = {
        "name": kind.resource.plural + subresource,
        "singularName": "" if subresource else kind.singular,
        "namespaced": kind.resource.namespaced,
        "kind": kind.resource.kind,
        "verbs": ["get", "patch", "update"] if subresource else _VERBS,
    }
    if kind.short_names and not subresource:
        entry["shortNames"] = list(kind.short_names)
    if kind.resource.kind in _IN_ALL and not kind.custom and not subresource:
        entry["categories"] = ["all"]
    return entry


def _openapi(base: str, kinds: list[Kind]) -> Object | None:
    paths = {_item_path(kind): {"patch": _patch_operation(kind)} for kind in kinds if base_path(kind) == base}
    if not paths:
        return None
    info = {"title": "Kubernetes, simulated", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _item_path(kind: Kind) -> str:
    namespace = "namespaces/{namespace}/" if kind.resource.namespaced else ""
    return f"/{base_path(kind)}/{namespace}{kind.resource.plural}/{{name}}"


def _patch_operation(kind: Kind) -> Object:
    resource = kind.resource
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("fieldValidation", "dryRun")
    ]
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
