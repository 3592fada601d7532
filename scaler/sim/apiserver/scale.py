"""The `scale` subresource of custom resources: an object of autoscaling/v1 in front of three of their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from scaler.kube.api import Object, PatchType, Resource
from scaler.sim.apiserver import refusals
from scaler.sim.apiserver.kinds import ScalePaths
from scaler.sim.apiserver.patches import json_patch, merge_patch
from scaler.sim.apiserver.server import ApiServer
from scaler.sim.apiserver.store import Record

SCALE = "scale"
_TYPE = ("autoscaling/v1", "Scale")


class _Spec(msgspec.Struct):
    replicas: int = 0


class _Scale(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    metadata: dict[str, Any] = {}


def read(server: ApiServer, resource: Resource, namespace: str | None, name: str) -> Record:
    """The Scale of an object. InternalError (500), as from a real one, when the object has no number."""
    paths = _paths(server, resource)
    record = server.get(resource, namespace, name)
    found = _of(record.object, paths)
    if found["spec"]["replicas"] is None:
        raise refusals.internal(f'the spec replicas field "{_dotted(paths.spec)}" does not exist')
    return Record(found, record.version)


def replace(server: ApiServer, resource: Resource, namespace: str | None, name: str, body: Any) -> Record:
    """PUT of a Scale; its resourceVersion, if it has one, and uid are preconditions."""
    return _write(server, (resource, namespace, name), lambda _: body)


def patch(
    server: ApiServer, resource: Resource, namespace: str | None, name: str, change: Any, patch_type: PatchType
) -> Record:
    """PATCH of a Scale. Whoever applies owns nothing here: it is a merge."""
    if patch_type is PatchType.STRATEGIC:
        raise refusals.unsupported_media_type((PatchType.JSON, PatchType.MERGE, PatchType.APPLY))
    how = json_patch if patch_type is PatchType.JSON else merge_patch
    return _write(server, (resource, namespace, name), lambda old: how(old, change))


def _write(server: ApiServer, place: tuple[Resource, str | None, str], change: Callable[[Object], Any]) -> Record:
    resource, namespace, name = place
    paths = _paths(server, resource)
    record = server.get(resource, namespace, name)
    scale = _accept(change(_of(record.object, paths)), name)
    found = scale.metadata
    meta = record.object["metadata"] | {key: found[key] for key in ("uid", "resourceVersion") if found.get(key)}
    written = server.replace(resource, namespace, name, _with(record.copy(), paths.spec, scale.spec.replicas, meta))
    return Record(_of(written.object, paths), written.version)


def _accept(body: Any, name: str) -> _Scale:
    if not isinstance(body, dict):
        raise refusals.bad_request("the body is not an object")
    found = (body.get("apiVersion") or _TYPE[0], body.get("kind") or _TYPE[1])
    if found != _TYPE:
        raise refusals.bad_request(f"the API version in the data {found} does not match the expected {_TYPE}")
    try:
        scale = msgspec.convert(body, _Scale)
    except msgspec.ValidationError as error:
        raise refusals.bad_request(f"Scale in version {_TYPE[0]!r} cannot be handled: {error}") from None
    if scale.metadata.get("name") != name:
        raise refusals.bad_request(f"the name of the object ({name} based on URL) does not match or is missing")
    return scale


def _paths(server: ApiServer, resource: Resource) -> ScalePaths:
    paths = server.catalog.find(resource).scale
    if paths is None:
        raise refusals.unknown_resource()
    return paths


def _of(obj: Object, paths: ScalePaths) -> Object:
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    status: Object = {"replicas": _at(obj, paths.status) or 0}
    if selector := _at(obj, paths.selector):
        status["selector"] = selector
    spec = {"replicas": _at(obj, paths.spec)}
    return {"kind": _TYPE[1], "apiVersion": _TYPE[0], "metadata": metadata, "spec": spec, "status": status}


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if path else None


def _with(obj: Object, path: tuple[str, ...], number: int, metadata: Object) -> Object:
    whole = inner = obj | {"metadata": metadata}
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = number
    return whole


def _dotted(path: tuple[str, ...]) -> str:
    return "." + ".".join(path)
