"""The structural schema of a custom resource: what it prunes, adds and refuses. Pure.

Only what decides about a controller's objects: types, required fields, enumerations, bounds. No CEL, no patterns.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from scaler.kube.api import Object

Schema = dict[str, Any]

_TYPES = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (float,),
}
_ROOT_FIELDS = ("apiVersion", "kind", "metadata")


def prune(obj: Object, schema: Schema | None) -> Object:
    """The object without the fields that its schema does not know, and with its defaults for what is absent.

    apiVersion, kind and metadata stay.
    """
    if schema is None:
        return obj
    kept = {name: obj[name] for name in _ROOT_FIELDS if name in obj}
    rest = {name: value for name, value in obj.items() if name not in _ROOT_FIELDS}
    return {**kept, **_prune(rest, schema)}


def _prune(value: Any, schema: Schema) -> Any:
    if isinstance(value, list):
        items = schema.get("items")
        return [_prune(item, items) for item in value] if items else value
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
                result[name] = _prune(item, inner)
        elif open_end or (schema.get("x-kubernetes-embedded-resource") and name in _ROOT_FIELDS):
            result[name] = item
    for name, inner in properties.items():
        if "default" in inner and name not in result:
            result[name] = copy.deepcopy(inner["default"])
    return result


def problems(obj: Object, schema: Schema | None) -> list[str]:
    """What is wrong with the object, as `path: what`."""
    if schema is None:
        return []
    return list(_problems(obj, schema, ""))


def _problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if value is None and schema.get("nullable"):
        return
    wrong = _type_problem(value, schema)
    if wrong:
        yield f"{path or '<root>'}: Invalid value: {wrong}"
        return
    yield from _value_problems(value, schema, path)
    if isinstance(value, dict):
        yield from _field_problems(value, schema, path)
    elif isinstance(value, list) and schema.get("items"):
        for index, item in enumerate(value):
            yield from _problems(item, schema["items"], f"{path}[{index}]")


def _type_problem(value: Any, schema: Schema) -> str:
    found = next((name for name, types in _TYPES.items() if type(value) in types), "null")
    if schema.get("x-kubernetes-int-or-string"):
        return "" if found in ("integer", "string") else f'"{found}": must be an integer or a string'
    wanted = schema.get("type", found)
    fits = found == wanted or (found == "integer" and wanted == "number") or wanted not in _TYPES
    return "" if fits else f'"{found}": must be of type {wanted}: "{found}"'


def _value_problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{word}"' for word in schema["enum"])
        yield f'{path}: Unsupported value: "{value}": supported values: {supported}'
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"{path}: Invalid value: {value}: should be greater than or equal to {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"{path}: Invalid value: {value}: should be less than or equal to {schema['maximum']}"


def _field_problems(value: Object, schema: Schema, path: str) -> Iterator[str]:
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{path}.{name}: Required value".lstrip(".")
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name, item in value.items():
        inner = properties.get(name, extra)
        if isinstance(inner, dict):
            yield from _problems(item, inner, f"{path}.{name}".lstrip("."))
