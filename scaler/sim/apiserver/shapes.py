"""The shapes that an API server insists on before it looks at an object: what fits is decoded, the rest is a 400.

Only the fields that this package reads are typed, as in the Go types; a null stands for what is absent. Pure.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any

import msgspec

from scaler.sim.apiserver.kinds import Kind

_TEXTS = dict[str, str]
_MAP = dict[str, Any]


def _shape(name: str, *, required: dict[str, Any] | None = None, text: str = "", **fields: Any) -> type[Any]:
    """Fields by their JSON names; `text` lists those that hold a string, and `[kind]` is a list of that kind."""
    optional = {**dict.fromkeys(text.split(), str), **fields}
    return msgspec.defstruct(
        name,
        [
            *((field, _kind(kind)) for field, kind in (required or {}).items()),
            *((field, _kind(kind) | None, None) for field, kind in optional.items()),
        ],
        frozen=True,
    )


def _kind(kind: Any) -> Any:
    return GenericAlias(list, (kind[0],)) if isinstance(kind, list) else kind


_METADATA = _shape(
    "ObjectMeta", text="name generateName namespace uid resourceVersion", labels=_TEXTS, annotations=_TEXTS,
    finalizers=[str],
    ownerReferences=[
        _shape("OwnerReference", text="apiVersion kind name uid", controller=bool, blockOwnerDeletion=bool)
    ],
)  # fmt: skip
_STATUS = _shape(
    "Status", text="phase", conditions=[_shape("Condition", text="type status")], capacity=_MAP, allocatable=_MAP
)
_REFERENCE = _shape("ObjectReference", text="kind name namespace")

_AMOUNTS = dict[str, str | int | float]
_VARIABLE = _shape("EnvVar", text="name value", valueFrom=_shape("EnvVarSource", fieldRef=_MAP))
_CONTAINER = _shape(
    "Container", text="name image", env=[_VARIABLE], ports=[_MAP],
    resources=_shape("ResourceRequirements", limits=_AMOUNTS, requests=_AMOUNTS),
)  # fmt: skip
_POD_SPEC = _shape(
    "PodSpec", text="nodeName restartPolicy schedulerName priorityClassName", containers=[_CONTAINER],
    initContainers=[_CONTAINER], schedulingGates=[_shape("PodSchedulingGate", text="name")], tolerations=[_MAP],
    volumes=[_MAP], nodeSelector=_TEXTS, terminationGracePeriodSeconds=int, activeDeadlineSeconds=int, priority=int,
)  # fmt: skip
_SERVICE_SPEC = _shape(
    "ServiceSpec", text="type clusterIP", ports=[_shape("ServicePort", text="protocol name", port=int)], selector=_TEXTS
)
_LEASE_SPEC = _shape(
    "LeaseSpec", text="holderIdentity acquireTime renewTime", leaseDurationSeconds=int, leaseTransitions=int
)
_NAMES = _shape("Names", required={"plural": str, "kind": str}, text="singular", shortNames=[str])
_VERSION = _shape(
    "Version", required={"name": str}, storage=bool, served=bool, schema=_MAP, subresources=_MAP,
    additionalPrinterColumns=[_MAP],
)  # fmt: skip
_DEFINITION_SPEC = _shape(
    "DefinitionSpec", required={"group": str, "scope": str, "names": _NAMES, "versions": [_VERSION]}
)

_CUSTOM = _shape("Custom", metadata=_METADATA)
_ANY = _shape("Any", metadata=_METADATA, spec=_MAP, status=_STATUS)
_BINDING = _shape("Binding", metadata=_METADATA, target=_REFERENCE)
_SHAPES = {
    "Pod": _shape("Pod", metadata=_METADATA, spec=_POD_SPEC, status=_STATUS),
    "ConfigMap": _shape("ConfigMap", metadata=_METADATA, data=_TEXTS, binaryData=_TEXTS),
    "Service": _shape("Service", metadata=_METADATA, spec=_SERVICE_SPEC, status=_MAP),
    "Event": _shape("Event", metadata=_METADATA, text="reason message type", involvedObject=_REFERENCE),
    "Lease": _shape("Lease", metadata=_METADATA, spec=_LEASE_SPEC),
    "CustomResourceDefinition": _shape("Definition", required={"spec": _DEFINITION_SPEC}, metadata=_METADATA),
}


def problem(kind: Kind, body: Any) -> str:
    """Why the body is no object of that kind, empty when it is one. A custom resource needs no more than metadata."""
    return _mismatch(body, _CUSTOM if kind.custom else _SHAPES.get(kind.resource.kind, _ANY))


def binding_problem(body: Any) -> str:
    """Why the body is no Binding, empty when it is one."""
    return _mismatch(body, _BINDING)


def _mismatch(body: Any, shape: type[Any]) -> str:
    try:
        msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def without_nulls(value: Any) -> Any:
    """A built-in object as its Go type would hold it: a null is the same as nothing."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
