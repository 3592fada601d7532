"""The resources of the simulated API server, and the behaviour of each.

Built-in kinds are one table; custom ones are derived from their CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from scaler.kube import api
from scaler.kube.api import Object, Resource
from scaler.sim.apiserver import refusals
from scaler.sim.apiserver.store import Record
from scaler.workloads.inferenceservice import INFERENCE_SERVICES
from scaler.workloads.inferserviceset import INFER_SERVICE_SETS, INFER_SERVICES, INSTANCE_SETS
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from scaler.workloads.stormservice import POD_SETS, ROLE_SETS, STORM_SERVICES
from scaler.workloads.volcanojob import VOLCANO_JOBS

BINDINGS = Resource("", "v1", "bindings", "Binding")
"""Create one of these, named like a pod, to bind the pod to `target.name`; works on a real API
server as well.

So does the same kind by the name of the subresource, `pods/binding`."""

WORKLOADS = (
    VOLCANO_JOBS,
    LEADER_WORKER_SETS,
    STORM_SERVICES,
    ROLE_SETS,
    POD_SETS,
    INFER_SERVICE_SETS,
    INFER_SERVICES,
    INSTANCE_SETS,
    INFERENCE_SERVICES,
)
"""Custom resources of which a stand-in makes pods, besides AscendJobs."""


def at(obj: Any, path: Iterable[str]) -> Any:
    """The value at a path of field names; None when there is none."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


ScalePaths = tuple[tuple[str, ...], ...]
"""Paths of the fields in an object's Scale: spec, status and selector, which is empty if the
definition names none."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One served resource. `schema` and `columns` are set for custom resources only."""

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    custom: bool = False
    status: bool = False
    """Whether `status` can be written through the subresource only."""
    scale: ScalePaths | None = None
    """Set if the kind has the `scale` subresource."""
    generation: bool = False
    """Whether `metadata.generation` counts changes of the user's part."""
    unconditional_update: bool = True
    """Whether a PUT without resourceVersion is accepted."""
    create_on_update: bool = False
    """Whether a PUT of a missing object creates it."""
    schema: dict[str, Any] | None = None
    columns: tuple[dict[str, Any], ...] = ()

    @property
    def built_in(self) -> str:
        """The name of a built-in kind; empty for a custom one, which may be named alike."""
        return "" if self.custom else self.resource.kind


def _builtin(resource: Resource, *short_names: str, **behaviour: Any) -> Kind:
    return Kind(
        resource=resource, singular=resource.kind.lower(), short_names=short_names, **behaviour
    )


_CONTROLLED = {"status": True, "generation": True}

BUILT_IN: tuple[Kind, ...] = (
    _builtin(api.PODS, "po", **_CONTROLLED),
    _builtin(api.SERVICES, "svc", status=True),
    _builtin(api.CONFIG_MAPS, "cm"),
    _builtin(api.EVENTS, "ev", create_on_update=True),
    _builtin(api.NODES, "no", status=True),
    _builtin(api.NAMESPACES, "ns", status=True),
    _builtin(api.DEPLOYMENTS, "deploy", **_CONTROLLED),
    _builtin(api.LEASES, unconditional_update=False, create_on_update=True),
    _builtin(api.PRIORITY_CLASSES, "pc"),
    _builtin(
        api.CUSTOM_RESOURCE_DEFINITIONS, "crd", "crds", unconditional_update=False, **_CONTROLLED
    ),
    _builtin(api.SECRETS),
    _builtin(api.MUTATING_WEBHOOKS),
    _builtin(api.VALIDATING_WEBHOOKS),
    _builtin(Resource("", "v1", "serviceaccounts", "ServiceAccount"), "sa"),
    _builtin(Resource("", "v1", "endpoints", "Endpoints"), "ep"),
    _builtin(
        Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"), "pvc", status=True
    ),
    _builtin(
        Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
        "pv",
        status=True,
    ),
    _builtin(Resource("", "v1", "resourcequotas", "ResourceQuota"), "quota", status=True),
    _builtin(api.REPLICA_SETS, "rs", **_CONTROLLED),
    _builtin(api.STATEFUL_SETS, "sts", **_CONTROLLED),
    _builtin(Resource("apps", "v1", "daemonsets", "DaemonSet"), "ds", **_CONTROLLED),
    _builtin(Resource("batch", "v1", "jobs", "Job"), **_CONTROLLED),
    _builtin(api.DISRUPTION_BUDGETS, "pdb", **_CONTROLLED),
    _builtin(api.POD_TEMPLATES),
    _builtin(
        Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
        "netpol",
        generation=True,
    ),
    _builtin(api.ROLES),
    _builtin(api.ROLE_BINDINGS),
    _builtin(api.CLUSTER_ROLES),
    _builtin(api.CLUSTER_ROLE_BINDINGS),
)


def kind_of(definition: Object) -> Kind:
    """The resource of a (validated) CustomResourceDefinition: its storage version, as nothing here
    converts them."""
    spec = definition["spec"]
    names = spec["names"]
    version = next(version for version in spec["versions"] if version.get("storage"))
    namespaced = spec["scope"] == "Namespaced"
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    named = [
        str((scale or {}).get(f"{name}Path", ""))
        for name in ("specReplicas", "statusReplicas", "labelSelector")
    ]
    paths = tuple(tuple(filter(None, path.split("."))) for path in named)
    return Kind(
        resource=Resource(
            spec["group"], version["name"], names["plural"], names["kind"], namespaced
        ),
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        custom=True,
        status="status" in subresources,
        scale=paths if scale else None,
        generation=True,
        unconditional_update=False,
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
        columns=tuple(version.get("additionalPrinterColumns") or ()),
    )


SCALE = "scale"
SCALES = Kind(resource=Resource("autoscaling", "v1", "", "Scale"))
"""The `scale` subresource of custom resources: an object in front of three of their fields."""
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, record: Record) -> Record:
    """The Scale of an object. InternalError (500), as from a real API server, when the object has
    no number."""
    obj = record.object
    (path, status_path, selector_path) = _paths(kind)
    spec = {"replicas": at(obj, path)}
    if spec["replicas"] is None:
        raise refusals.internal(f'the spec replicas field ".{".".join(path)}" does not exist')
    metadata = {name: obj["metadata"][name] for name in _SHOWN if name in obj["metadata"]}
    status: Object = {"replicas": at(obj, status_path) or 0}
    if selector_path and (selector := at(obj, selector_path)):
        status["selector"] = selector
    scale = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }
    return Record(scale, record.version)


def scaled(kind: Kind, record: Record, scale: Object) -> Object:
    """The object with the number of a Scale; uid and resourceVersion of the Scale, if set, are
    preconditions."""
    whole = inner = record.copy()
    name = whole["metadata"]["name"]
    sent = scale["metadata"]
    if sent.get("name") != name:
        raise refusals.bad_request(
            f"the name of the object ({name} based on URL) does not match or is missing"
        )
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


class Catalog:
    """The kinds that are served now."""

    def __init__(self) -> None:
        self._kinds = {_key(kind.resource): kind for kind in BUILT_IN}
        self.definitions: dict[str, Kind] = {}
        """Name of a CustomResourceDefinition -> its kind."""

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._kinds.values()))

    def find(self, resource: Resource) -> Kind:
        """The served kind of that group, version and plural; NotFoundError when there is none."""
        return self.named(*_key(resource))

    def named(self, group: str, version: str, plural: str) -> Kind:
        kind = self._kinds.get((group, version, plural))
        if kind is None:
            raise refusals.unknown_resource()
        return kind

    def of(self, obj: Object) -> Kind:
        """The kind named in an object; NotFoundError when it is not served."""
        for kind in self._kinds.values():
            if kind.resource.kind == obj.get("kind") and kind.resource.api_version == obj.get(
                "apiVersion"
            ):
                return kind
        raise refusals.unknown_resource()

    def define(self, definition: Object) -> None:
        """Starts serving a CustomResourceDefinition, or serves its new form."""
        name = definition["metadata"]["name"]
        self.undefine(name)
        kind = self.definitions[name] = kind_of(definition)
        self._kinds[_key(kind.resource)] = kind

    def undefine(self, name: str) -> None:
        """Stops serving the kind of a CustomResourceDefinition, if it was served."""
        kind = self.definitions.pop(name, None)
        if kind is not None:
            del self._kinds[_key(kind.resource)]


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural
