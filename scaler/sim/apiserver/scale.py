"""The `scale` subresource of custom resources: an object of autoscaling/v1 in front of three of their fields. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.sim.apiserver import refusals
from scaler.sim.apiserver.kinds import Kind, ScalePaths, at
from scaler.sim.apiserver.store import Record

SCALE = "scale"
_TYPE = ("autoscaling/v1", "Scale")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class _Spec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct):
    spec: _Spec = _Spec()
    metadata: dict[str, Any] = {}


def shown(kind: Kind, record: Record) -> Record:
    """The Scale of an object. InternalError (500), as from a real one, when the object has no number."""
    paths, obj = _paths(kind), record.object
    spec = {"replicas": at(obj, paths.spec)}
    if spec["replicas"] is None:
        raise refusals.internal(f'the spec replicas field ".{".".join(paths.spec)}" does not exist')
    metadata = {name: obj["metadata"][name] for name in _METADATA if name in obj["metadata"]}
    status: Object = {"replicas": at(obj, paths.status) or 0}
    if paths.selector and (selector := at(obj, paths.selector)):
        status["selector"] = selector
    scale = {"kind": _TYPE[1], "apiVersion": _TYPE[0], "metadata": metadata, "spec": spec, "status": status}
    return Record(scale, record.version)


def scaled(kind: Kind, record: Record, body: Any) -> Object:
    """The object with the number of a Scale, whose uid and resourceVersion, if it has one, are preconditions."""
    whole = inner = record.copy()
    scale = _accepted(body, whole["metadata"]["name"])
    whole["metadata"] |= {key: scale.metadata[key] for key in ("uid", "resourceVersion") if scale.metadata.get(key)}
    *path, last = _paths(kind).spec
    for name in path:
        inner = inner.setdefault(name, {})
    inner[last] = scale.spec.replicas
    return whole


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise refusals.unknown_resource()
    return kind.scale


def _accepted(body: Any, name: str) -> _Scale:
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
