"""The documents from which kubectl learns the kinds of a server: groups, resources, and the OpenAPI
that it needs.

The OpenAPI says only that the server does field validation and dry runs, so that kubectl does not
validate by itself; it has no schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler.kube.api import Object
from scaler.sim.apiserver.kinds import Kind

_IN_ALL = frozenset(
    {"Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"}
)
"""The kinds of `kubectl get all`."""
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_PATCH: Object = {
    "parameters": [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("fieldValidation", "dryRun")
    ],
    "responses": {"200": {"description": "OK"}},
}

VERSION: Object = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.0+simulated",
    "platform": "linux/amd64",
}


def document(path: str, kinds: Iterable[Kind]) -> Object | None:
    """The discovery document at that path (without slashes at its ends), None when there is
    none."""
    bases: dict[str, list[Kind]] = {}
    groups: dict[str, dict[str, None]] = {}
    for kind in kinds:
        bases.setdefault(base_path(kind), []).append(kind)
        if kind.resource.group:
            groups.setdefault(kind.resource.group, {})[kind.resource.version] = None
    found: dict[str, Object] = {
        "version": VERSION,
        "api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(*item) for item in groups.items()],
        },
        "openapi/v3": {
            "paths": {base: {"serverRelativeURL": f"/openapi/v3/{base}"} for base in bases}
        },
    }
    for name, versions in groups.items():
        found[f"apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}
    for base, served in bases.items():
        entries: list[Object] = []
        for kind in served:
            entries += _entries(kind)
        version = base.partition("/")[2]
        found[base] = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": version,
            "resources": entries,
        }
        found[f"openapi/v3/{base}"] = _openapi(served)
    return found.get(path)


def base_path(kind: Kind) -> str:
    """`api/v1` or `apis/group/version`."""
    return (
        f"apis/{kind.resource.api_version}"
        if kind.resource.group
        else f"api/{kind.resource.version}"
    )


def _group(name: str, versions: Iterable[str]) -> Object:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _entries(kind: Kind) -> Iterator[Object]:
    """The resource and its subresources."""
    plural = kind.resource.plural
    common = {"namespaced": kind.resource.namespaced, "kind": kind.resource.kind}
    entry: Object = {**common, "name": plural, "singularName": kind.singular, "verbs": _VERBS}
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.built_in in _IN_ALL:
        entry["categories"] = ["all"]
    yield entry
    part = {**common, "singularName": "", "verbs": ["get", "patch", "update"]}
    if kind.status:
        yield {**part, "name": f"{plural}/status"}
    if kind.scale:
        yield {
            **part,
            "name": f"{plural}/scale",
            "group": "autoscaling",
            "version": "v1",
            "kind": "Scale",
        }


def _openapi(kinds: list[Kind]) -> Object:
    paths = {}
    for kind in kinds:
        namespace = "namespaces/{namespace}/" if kind.resource.namespaced else ""
        item = f"/{base_path(kind)}/{namespace}{kind.resource.plural}/{{name}}"
        names = {
            "group": kind.resource.group,
            "version": kind.resource.version,
            "kind": kind.resource.kind,
        }
        operation = {
            "operationId": f"patch{kind.resource.kind}",
            "x-kubernetes-group-version-kind": names,
        }
        paths[item] = {"patch": {**operation, **_PATCH}}
    info = {"title": "Kubernetes, simulated", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}
