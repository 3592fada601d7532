"""Server-side apply by the schema of a custom resource. Pure.

Every manager owns what it applied last, and nobody else's claims are looked at: there are no conflicts here, and what
somebody writes by other means belongs to nobody.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def applied(live: Any, before: Any, wanted: Any, schema: Schema) -> Any:
    """`live` after `wanted` was applied by a manager that applied `before` last: what is in `before` only goes."""
    if isinstance(wanted, dict) and isinstance(live, dict) and schema.get("x-kubernetes-map-type") != "atomic":
        return _object(live, before if isinstance(before, dict) else {}, wanted, schema)
    if isinstance(wanted, list) and isinstance(live, list) and schema.get("x-kubernetes-list-type") == "map":
        return _keyed(live, before if isinstance(before, list) else [], wanted, schema)
    return wanted


def _object(live: dict[str, Any], before: dict[str, Any], wanted: dict[str, Any], schema: Schema) -> dict[str, Any]:
    result = {}
    for name, value in live.items():
        inner = _inner(schema, name)
        if name in wanted:
            result[name] = applied(value, before.get(name), wanted[name], inner)
        elif name not in before:
            result[name] = value
        elif isinstance(value, dict) and (left := applied(value, before[name], {}, inner)):
            result[name] = left
    return result | {name: value for name, value in wanted.items() if name not in live}


def _inner(schema: Schema, name: str) -> Schema:
    found = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _keyed(live: list[Any], before: list[Any], wanted: list[Any], schema: Schema) -> list[Any]:
    names = schema.get("x-kubernetes-list-map-keys") or ()

    def by_key(items: list[Any]) -> dict[tuple[Any, ...], Any]:
        return {tuple(item.get(name) for name in names): item for item in items}

    there, mine, new = by_key(live), by_key(before), by_key(wanted)
    result = []
    for key, item in there.items():
        if key in new:
            result.append(applied(item, mine.get(key), new[key], schema.get("items") or {}))
        elif key not in mine:
            result.append(item)
    return result + [item for key, item in new.items() if key not in there]
