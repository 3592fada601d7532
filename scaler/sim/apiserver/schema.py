"""The API server's checks before it stores an object. Pure.

For built-in kinds only the fields that this package reads have types, as in the Go types: a
mismatch is a 400, and null means absent. The structural schema of a custom resource prunes, adds
defaults and checks types, required fields, enumerations and bounds; no CEL, no patterns."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from types import GenericAlias
from typing import Any

import msgspec

Schema = dict[str, Any]

_TYPES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
ROOT_FIELDS = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: Schema) -> Any:
    """The value without fields that are not in its schema, and with defaults for absent ones."""
    if isinstance(value, list):
        items = schema.get("items")
        return [prune(item, items) for item in value] if items else value
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    open_end = schema.get("x-kubernetes-preserve-unknown-fields") or extra is True
    result = {}
    for name, item in value.items():
        inner = properties.get(name, extra)
        if isinstance(inner, dict):
            # A null where none is allowed counts as absent.
            if item is not None or inner.get("nullable"):
                result[name] = prune(item, inner)
        elif open_end or (schema.get("x-kubernetes-embedded-resource") and name in ROOT_FIELDS):
            result[name] = item
    for name, inner in properties.items():
        if "default" in inner and name not in result:
            result[name] = copy.deepcopy(inner["default"])
    return result


def problems(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """What is wrong with the object, or with the value at `path` in it, as `path: what`."""
    if value is None and schema.get("nullable"):
        return
    wrong = _type_problem(value, schema)
    if wrong:
        yield f"{path or '<root>'}: Invalid value: {wrong}"
        return
    yield from _value_problems(value, schema, path)
    if isinstance(value, list) and schema.get("items"):
        for index, item in enumerate(value):
            yield from problems(item, schema["items"], f"{path}[{index}]")
    if isinstance(value, dict):
        for name in schema.get("required") or ():
            if name not in value:
                yield f"{path}.{name}: Required value".lstrip(".")
        for name, item in value.items():
            inner = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
            if isinstance(inner, dict):
                yield from problems(item, inner, f"{path}.{name}".lstrip("."))


def _type_problem(value: Any, schema: Schema) -> str:
    found = _TYPES.get(type(value), "null")
    if schema.get("x-kubernetes-int-or-string"):
        return (
            "" if found in ("integer", "string") else f'"{found}": must be an integer or a string'
        )
    wanted = schema.get("type", found)
    fits = found == wanted or (found == "integer" and wanted == "number")
    return "" if fits else f'"{found}": must be of type {wanted}: "{found}"'


def _value_problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{word}"' for word in schema["enum"])
        yield f'{path}: Unsupported value: "{value}": supported values: {supported}'
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield (
                f"{path}: Invalid value: {value}: should be greater than or equal to"
                f" {schema['minimum']}"
            )
        if value > schema.get("maximum", value):
            yield (
                f"{path}: Invalid value: {value}: should be less than or equal to"
                f" {schema['maximum']}"
            )


_TEXTS = dict[str, str]
_MAP = dict[str, Any]


def _shape(
    name: str, *, required: dict[str, Any] | None = None, text: str = "", **fields: Any
) -> type[Any]:
    """Fields by their JSON names; `text` lists those that hold a string, and `[kind]` is a list of
    that kind."""
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
    "ObjectMeta",
    text="name generateName namespace uid resourceVersion",
    labels=_TEXTS,
    annotations=_TEXTS,
    finalizers=[str],
    ownerReferences=[
        _shape(
            "OwnerReference",
            text="apiVersion kind name uid",
            controller=bool,
            blockOwnerDeletion=bool,
        )
    ],
)
_STATUS = _shape(
    "Status",
    text="phase",
    conditions=[_shape("Condition", text="type status")],
    capacity=_MAP,
    allocatable=_MAP,
)
_REFERENCE = _shape("ObjectReference", text="kind name namespace")

_AMOUNTS = dict[str, str | int | float]
_VARIABLE = _shape("EnvVar", text="name value", valueFrom=_shape("EnvVarSource", fieldRef=_MAP))
_CONTAINER = _shape(
    "Container",
    text="name image",
    env=[_VARIABLE],
    ports=[_MAP],
    resources=_shape("ResourceRequirements", limits=_AMOUNTS, requests=_AMOUNTS),
)
_POD_SPEC = _shape(
    "PodSpec",
    text="nodeName restartPolicy schedulerName priorityClassName",
    containers=[_CONTAINER],
    initContainers=[_CONTAINER],
    schedulingGates=[_shape("PodSchedulingGate", text="name")],
    tolerations=[_MAP],
    volumes=[_MAP],
    nodeSelector=_TEXTS,
    terminationGracePeriodSeconds=int,
    activeDeadlineSeconds=int,
    priority=int,
)
_SERVICE_SPEC = _shape(
    "ServiceSpec",
    text="type clusterIP",
    ports=[_shape("ServicePort", text="protocol name", port=int)],
    selector=_TEXTS,
)
_LEASE_SPEC = _shape(
    "LeaseSpec",
    text="holderIdentity acquireTime renewTime",
    leaseDurationSeconds=int,
    leaseTransitions=int,
)
_NAMES = _shape("Names", required={"plural": str, "kind": str}, text="singular", shortNames=[str])
_VERSION = _shape(
    "Version",
    required={"name": str},
    storage=bool,
    served=bool,
    schema=_MAP,
    subresources=_MAP,
    additionalPrinterColumns=[_MAP],
)
_DEFINITION_SPEC = _shape(
    "DefinitionSpec", required={"group": str, "scope": str, "names": _NAMES, "versions": [_VERSION]}
)

_ANY = _shape("Any", metadata=_METADATA, spec=_MAP, status=_STATUS)
_SHAPES = {
    "": _shape("Custom", metadata=_METADATA),
    "Binding": _shape("Binding", metadata=_METADATA, target=_REFERENCE),
    "Scale": _shape("Scale", metadata=_METADATA, spec=_shape("ScaleSpec", replicas=int)),
    "Pod": _shape("Pod", metadata=_METADATA, spec=_POD_SPEC, status=_STATUS),
    "ConfigMap": _shape("ConfigMap", metadata=_METADATA, data=_TEXTS, binaryData=_TEXTS),
    "Service": _shape("Service", metadata=_METADATA, spec=_SERVICE_SPEC, status=_MAP),
    "Event": _shape(
        "Event", metadata=_METADATA, text="reason message type", involvedObject=_REFERENCE
    ),
    "Lease": _shape("Lease", metadata=_METADATA, spec=_LEASE_SPEC),
    "CustomResourceDefinition": _shape(
        "Definition", required={"spec": _DEFINITION_SPEC}, metadata=_METADATA
    ),
}


def mismatch(built_in: str, body: Any) -> str:
    """Why the body is no object of that built-in kind, or no custom resource (""); empty when it is
    one."""
    try:
        msgspec.convert(body, _SHAPES.get(built_in, _ANY))
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def without_nulls(value: Any) -> Any:
    """A built-in object as its Go type would hold it: null means absent."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
