"""Server-side apply by the schema of a custom resource. Pure.

Every manager owns what it applied last; what somebody writes by other means belongs to nobody. Lists are owned whole.
"""

from __future__ import annotations

from typing import Any

from scaler.kube.api import Object

Schema = dict[str, Any]
Path = tuple[str, ...]


class Claims:
    """Who applied what last."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, str], Object]] = {}

    def of(self, obj: Object) -> dict[tuple[str, str], Object]:
        """By subresource and manager."""
        return self._known.setdefault(obj["metadata"]["uid"], {})

    def forget(self, obj: Object) -> None:
        self._known.pop(obj["metadata"]["uid"], None)

    def claimed(self, obj: Object, subresource: str, manager: str, body: Object) -> Object:
        """The object with this claim noted, in `managedFields` too where it is no subresource."""
        self.of(obj)[subresource, manager] = body
        if not subresource:
            entries = [_entry(who, known) for (part, who), known in sorted(self.of(obj).items()) if not part]
            obj["metadata"]["managedFields"] = entries
        return obj

    def conflicts(self, obj: Object, subresource: str, manager: str, body: Object) -> list[tuple[str, Path]]:
        """Manager and path of all that `body` would change and others applied."""
        known = self.of(obj).items()
        return _conflicts(obj, body, {who: one for (part, who), one in known if part == subresource and who != manager})


def _entry(manager: str, body: Object) -> Object:
    wanted = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    metadata = {name: value for name, value in body.get("metadata", {}).items() if name in ("labels", "annotations")}
    fields = _fields(wanted | ({"metadata": metadata} if metadata else {}))
    return {
        "manager": manager, "operation": "Apply", "apiVersion": body["apiVersion"], "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }  # fmt: skip


def _fields(value: Any) -> Object:
    return {f"f:{name}": _fields(inner) for name, inner in value.items()} if isinstance(value, dict) else {}


def _conflicts(live: Any, wanted: Any, others: dict[str, Any], path: Path = ()) -> list[tuple[str, Path]]:
    if isinstance(live, dict) and isinstance(wanted, dict):
        found = []
        for name, value in wanted.items():
            inner = {who: body[name] for who, body in others.items() if isinstance(body, dict) and name in body}
            found += _conflicts(live.get(name), value, inner, (*path, name)) if inner else []
        return found
    return [] if live == wanted else [(who, path) for who in others]


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
