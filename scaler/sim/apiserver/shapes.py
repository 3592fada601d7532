"""The shapes that an API server insists on before it looks at an object: what fits is decoded, the rest is a 400.

Only the fields that this package reads are typed, as in the Go types; a null stands for what is absent. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.sim.apiserver.kinds import Kind

_Text = str | None
_Texts = dict[str, str] | None
_Map = dict[str, Any] | None


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all shapes."""


class _Owner(_Shape, frozen=True):
    api_version: _Text = None
    kind: _Text = None
    name: _Text = None
    uid: _Text = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(_Shape, frozen=True):
    name: _Text = None
    generate_name: _Text = None
    namespace: _Text = None
    uid: _Text = None
    resource_version: _Text = None
    labels: _Texts = None
    annotations: _Texts = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


class _Condition(_Shape, frozen=True):
    type: _Text = None
    status: _Text = None


class _Status(_Shape, frozen=True):
    phase: _Text = None
    conditions: list[_Condition] | None = None
    capacity: _Map = None
    allocatable: _Map = None


class _Any(_Shape, frozen=True):
    metadata: _Metadata | None = None


class _Object(_Any, frozen=True):
    spec: _Map = None
    status: _Status | None = None


class _Source(_Shape, frozen=True):
    field_ref: _Map = None


class _Variable(_Shape, frozen=True):
    name: _Text = None
    value: _Text = None
    value_from: _Source | None = None


class _Resources(_Shape, frozen=True):
    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class _Container(_Shape, frozen=True):
    name: _Text = None
    image: _Text = None
    env: list[_Variable] | None = None
    ports: list[dict[str, Any]] | None = None
    resources: _Resources | None = None


class _Gate(_Shape, frozen=True):
    name: _Text = None


class _PodSpec(_Shape, frozen=True):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    scheduling_gates: list[_Gate] | None = None
    tolerations: list[dict[str, Any]] | None = None
    volumes: list[dict[str, Any]] | None = None
    node_name: _Text = None
    node_selector: _Texts = None
    restart_policy: _Text = None
    scheduler_name: _Text = None
    priority_class_name: _Text = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    priority: int | None = None


class _Pod(_Any, frozen=True):
    spec: _PodSpec | None = None
    status: _Status | None = None


class _ConfigMap(_Any, frozen=True):
    data: _Texts = None
    binary_data: _Texts = None


class _Port(_Shape, frozen=True):
    port: int | None = None
    protocol: _Text = None
    name: _Text = None


class _ServiceSpec(_Shape, frozen=True):
    type: _Text = None
    cluster_ip: _Text = msgspec.field(name="clusterIP", default=None)
    ports: list[_Port] | None = None
    selector: _Texts = None


class _Service(_Any, frozen=True):
    spec: _ServiceSpec | None = None
    status: _Map = None


class _Reference(_Shape, frozen=True):
    kind: _Text = None
    name: _Text = None
    namespace: _Text = None


class _Event(_Any, frozen=True):
    involved_object: _Reference | None = None
    reason: _Text = None
    message: _Text = None
    type: _Text = None


class _LeaseSpec(_Shape, frozen=True):
    holder_identity: _Text = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: _Text = None
    renew_time: _Text = None


class _Lease(_Any, frozen=True):
    spec: _LeaseSpec | None = None


class _Names(_Shape, frozen=True):
    plural: str
    kind: str
    singular: _Text = None
    short_names: list[str] | None = None


class _Version(_Shape, frozen=True):
    name: str
    storage: bool = False
    served: bool = False
    schema: _Map = None
    subresources: _Map = None
    additional_printer_columns: list[dict[str, Any]] | None = None


class _DefinitionSpec(_Shape, frozen=True):
    group: str
    scope: str
    names: _Names
    versions: list[_Version]


class _Definition(_Any, frozen=True, kw_only=True):
    spec: _DefinitionSpec


class _Binding(_Any, frozen=True):
    target: _Reference | None = None


_SHAPES: dict[str, type[_Any]] = {
    "Pod": _Pod,
    "ConfigMap": _ConfigMap,
    "Service": _Service,
    "Event": _Event,
    "Lease": _Lease,
    "CustomResourceDefinition": _Definition,
}


def problem(kind: Kind, body: Any) -> str:
    """Why the body is no object of that kind, empty when it is one. A custom resource needs no more than metadata."""
    shape = _Any if kind.custom else _SHAPES.get(kind.resource.kind, _Object)
    return _mismatch(body, shape)


def binding_problem(body: Any) -> str:
    """Why the body is no Binding, empty when it is one."""
    return _mismatch(body, _Binding)


def _mismatch(body: Any, shape: type[Any]) -> str:
    try:
        msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def without_nulls(obj: Object) -> Object:
    """A built-in object as its Go type would hold it: a null is the same as nothing."""
    return {name: _without_nulls(value) for name, value in obj.items() if value is not None}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
