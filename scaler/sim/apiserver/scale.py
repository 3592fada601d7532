"""The `scale` subresource of custom resources: an object of autoscaling/v1 in front of three of their fields. Pure."""

from __future__ import annotations

from scaler.kube.api import Object, Resource
from scaler.sim.apiserver import refusals
from scaler.sim.apiserver.kinds import Kind, ScalePaths, at
from scaler.sim.apiserver.store import Record

SCALE = "scale"
KIND = Kind(resource=Resource("autoscaling", "v1", "", "Scale"))
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def shown(kind: Kind, record: Record) -> Record:
    """The Scale of an object. InternalError (500), as from a real API server, when the object has no number."""
    (path, status_path, selector_path), obj = _paths(kind), record.object
    spec = {"replicas": at(obj, path)}
    if spec["replicas"] is None:
        raise refusals.internal(f'the spec replicas field ".{".".join(path)}" does not exist')
    metadata = {name: obj["metadata"][name] for name in _METADATA if name in obj["metadata"]}
    status: Object = {"replicas": at(obj, status_path) or 0}
    if selector_path and (selector := at(obj, selector_path)):
        status["selector"] = selector
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}
    return Record(scale, record.version)


def scaled(kind: Kind, record: Record, scale: Object) -> Object:
    """The object with the number of a Scale; uid and resourceVersion of the Scale, if set, are preconditions."""
    whole = inner = record.copy()
    name, sent = whole["metadata"]["name"], scale["metadata"]
    if sent.get("name") != name:
        raise refusals.bad_request(f"the name of the object ({name} based on URL) does not match or is missing")
    whole["metadata"] |= {key: sent[key] for key in ("uid", "resourceVersion") if key in sent}
    *path, last = _paths(kind)[0]
    for field in path:
        inner = inner.setdefault(field, {})
    inner[last] = at(scale, ("spec", "replicas")) or 0
    return whole


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise refusals.unknown_resource()
    return kind.scale
