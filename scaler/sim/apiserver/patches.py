"""Patches of all four types, with an API server's answers to bad ones. Pure: inputs may be reused,
results share parts.

JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch for built-in kinds, and
server-side apply by the schema of a custom resource. In server-side apply every manager owns what
it applied last; fields that are written by other means have no owner, and lists are owned as a
whole."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from scaler.kube.api import Object
from scaler.rules.values import as_list
from scaler.sim.apiserver.refusals import bad_request, unprocessable


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(document: Any, operations: Any) -> Any:
    """RFC 6902. BadRequestError for a body that is no patch; InvalidError (422) for an impossible
    operation."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal the JSON patch: an array of operations is wanted")
    root = {"": copy.deepcopy(document)}  # every path begins with the empty name
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("json: a JSON patch operation is an object with op and path")
        _apply(root, operation)
    return root.get("")


def _apply(root: dict[str, Any], operation: dict[str, Any]) -> None:
    op = operation.get("op")
    path = _pointer(operation["path"])
    value = copy.deepcopy(operation.get("value"))
    if op in ("move", "copy"):
        source = _pointer(str(operation.get("from", "")))
        value = copy.deepcopy(_locate(root, source))
        if op == "move":
            if path[: len(source)] == source and path != source:
                raise unprocessable(
                    "move operation does not apply: a value cannot move into itself"
                )
            _remove(root, source)
    if op in ("add", "replace", "move", "copy"):
        _add(root, path, value, replace=op == "replace")
    elif op == "remove":
        _remove(root, path)
    elif op != "test":
        raise unprocessable(f"unexpected kind of JSON patch operation: {op!r}")
    else:
        found = _locate(root, path)
        if found != value or isinstance(found, bool) != isinstance(value, bool):
            raise unprocessable(f"testing value {operation['path']} failed: test failed")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise unprocessable(f"the path {text!r} does not start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _locate(value: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list):
            value = value[_index(part, len(value) - 1)]
        else:
            raise _missing(path)
    return value


def _index(part: str, last: int) -> int:
    if not (part.isascii() and part.isdigit()) or int(part) > last:
        raise unprocessable(f"invalid index referenced: {part!r}")
    return int(part)


def _missing(path: list[str]) -> Exception:
    return unprocessable(
        f"operation does not apply: doc is missing path: {'/'.join(path)}: missing value"
    )


def _add(root: dict[str, Any], path: list[str], value: Any, *, replace: bool) -> None:
    """Unlike the RFC, an API server adds a missing key on `replace`."""
    parent = _locate(root, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif not isinstance(parent, list):
        raise _missing(path)
    elif replace:
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        parent.insert(len(parent) if path[-1] == "-" else _index(path[-1], len(parent)), value)


def _remove(root: dict[str, Any], path: list[str]) -> None:
    _locate(root, path)
    parent = _locate(root, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]


_DIRECTIVES = ("$patch", "$retainKeys")

# Merge keys by the name of the list. Kubernetes has them by Go type; the names are unambiguous in
# the served kinds.
_MERGE_KEYS: dict[str, str] = {
    **dict.fromkeys(
        ("containers", "initContainers", "ephemeralContainers", "env", "volumes", "secrets"), "name"
    ),
    **dict.fromkeys(("imagePullSecrets", "schedulingGates", "resourceClaims"), "name"),
    **dict.fromkeys(("podIPs", "hostIPs", "hostAliases"), "ip"),
    **dict.fromkeys(("conditions", "addresses"), "type"),
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
}


def strategic_merge(target: Any, patch: Any, name: str = "") -> Any:
    """`target` with `patch` merged in; `name` is the field with both. BadRequestError for a wrong
    directive."""
    if isinstance(patch, dict):
        return _merge_map(target if isinstance(target, dict) else {}, patch)
    if isinstance(patch, list):
        return _merge_list(target if isinstance(target, list) else [], patch, name)
    return patch


def _merge_map(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key not in _DIRECTIVES}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type found: {directive}")
    result = dict(target)
    # Directives refer to the merged lists, so they come last.
    for key, value in sorted(patch.items(), key=lambda item: item[0].startswith("$")):
        if key.startswith("$"):
            _obey(result, key, value)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic_merge(result.get(key), value, key)
    return result


def _obey(result: dict[str, Any], directive: str, value: Any) -> None:
    kind, _, field = directive.partition("/")
    if not isinstance(value, list):
        return
    if kind == "$retainKeys":
        for key in [key for key in result if key not in value]:
            del result[key]
    elif kind == "$deleteFromPrimitiveList":
        result[field] = [item for item in result.get(field) or [] if item not in value]
    elif kind == "$setElementOrder" and isinstance(result.get(field), list):
        result[field] = _in_order(result[field], value, _merge_key(field, value))


def _in_order(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Elements that are not in `order` keep their place at the end."""

    def identity(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) and key else item

    names = [identity(entry) for entry in order]

    def place(item: Any) -> int:
        return names.index(identity(item)) if identity(item) in names else len(names)

    return sorted(items, key=place)


def _merge_key(name: str, items: list[Any]) -> str:
    if name == "ports":
        of_container = items and isinstance(items[0], dict) and "containerPort" in items[0]
        return "containerPort" if of_container else "port"
    return _MERGE_KEYS.get(name, "")


def _merge_list(target: list[Any], patch: list[Any], name: str) -> list[Any]:
    if name == "finalizers":  # a list of plain values that merges as a set
        return target + [item for item in patch if item not in target]
    key = _merge_key(name, patch)
    if not key or not all(isinstance(item, dict) for item in patch):
        return patch
    replacing = [item for item in patch if item.get("$patch") != "replace"]
    if len(replacing) < len(patch):
        return replacing
    result = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        place = _place_of(result, key, item[key])
        merged = _merge_map(result[place] if place < len(result) else {}, item)
        result[place : place + 1] = [] if item.get("$patch") == "delete" else [merged]
    return result


def _place_of(items: list[Any], key: str, value: Any) -> int:
    """The index of the first item with this value; one after the last if there is none."""
    for index, item in enumerate(items):
        if isinstance(item, dict) and item.get(key) == value:
            return index
    return len(items)


Schema = dict[str, Any]
Path = tuple[str, ...]


class FieldManagers:
    """The last applied configuration of each manager, for each object."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, str], Object]] = {}

    def of(self, obj: Object) -> dict[tuple[str, str], Object]:
        """By subresource and manager."""
        return self._known.setdefault(obj["metadata"]["uid"], {})

    def forget(self, obj: Object) -> None:
        self._known.pop(obj["metadata"]["uid"], None)

    def note(self, obj: Object, subresource: str, manager: str, body: Object) -> None:
        """Note what the manager has applied, without a subresource also in the object's
        `managedFields`."""
        known = self.of(obj)
        known[subresource, manager] = body
        if not subresource:
            others = as_list(obj["metadata"].get("managedFields"))
            updates = [one for one in others if one["operation"] == "Update"]
            obj["metadata"]["managedFields"] = updates + [
                {
                    "manager": who,
                    "operation": "Apply",
                    "apiVersion": said["apiVersion"],
                    "fieldsType": "FieldsV1",
                    "fieldsV1": _fields(said),
                }
                for who, said in sorted(self._of_part(obj, "").items())
            ]

    def conflicts(
        self, obj: Object, subresource: str, manager: str, body: Object
    ) -> list[tuple[str, Path]]:
        """Manager and path of all fields that `body` would change and that others applied."""
        others = self._of_part(obj, subresource)
        others.pop(manager, None)
        return _conflicts(obj, body, others)

    def _of_part(self, obj: Object, subresource: str) -> dict[str, Object]:
        """Manager -> what it has applied to this part of the object."""
        return {who: said for (part, who), said in self.of(obj).items() if part == subresource}


def note_update(obj: Object, manager: str, subresource: str, now: str, fields: Object) -> None:
    """Note in the object's `managedFields` that this manager updates these fields now. Unlike in a
    real API server they stay those of their former managers, too."""
    entry: Object = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": obj["apiVersion"],
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(fields),
    }
    if subresource:
        entry["subresource"] = subresource
    kept = []
    for one in as_list(obj["metadata"].get("managedFields")):
        who = (one["manager"], one["operation"], one.get("subresource", ""))
        if who == (manager, "Update", subresource):
            entry["fieldsV1"] = {**one["fieldsV1"], **entry["fieldsV1"]}
        else:
            kept.append(one)
    obj["metadata"]["managedFields"] = [*kept, entry]


def _fields(body: Object) -> Object:
    """The body, with only labels and annotations in its metadata."""

    wanted = dict(body)
    for name in ("apiVersion", "kind"):
        wanted.pop(name, None)
    sent = wanted.pop("metadata", {})
    metadata = {name: sent[name] for name in sent if name in ("labels", "annotations")}
    if metadata:
        wanted["metadata"] = metadata
    return _named(wanted)


def _named(value: Any) -> Object:
    """The names of all fields, as managedFields writes them."""
    if not isinstance(value, dict):
        return {}
    return {f"f:{name}": _named(inner) for name, inner in value.items()}


def _conflicts(
    live: Any, wanted: Any, others: dict[str, Any], path: Path = ()
) -> list[tuple[str, Path]]:
    if isinstance(live, dict) and isinstance(wanted, dict):
        found = []
        for name, value in wanted.items():
            inner = {}
            for who, body in others.items():
                if isinstance(body, dict) and name in body:
                    inner[who] = body[name]
            if inner:
                found += _conflicts(live.get(name), value, inner, (*path, name))
        return found
    return [] if live == wanted else [(who, path) for who in others]


def applied(live: Any, before: Any, wanted: Any, schema: Schema) -> Any:
    """`live` after a manager that applied `before` last applies `wanted`: fields only in `before`
    are removed."""
    if (
        isinstance(wanted, dict)
        and isinstance(live, dict)
        and schema.get("x-kubernetes-map-type") != "atomic"
    ):
        return _object(live, before if isinstance(before, dict) else {}, wanted, schema)
    if (
        isinstance(wanted, list)
        and isinstance(live, list)
        and schema.get("x-kubernetes-list-type") == "map"
    ):
        return _keyed(live, before if isinstance(before, list) else [], wanted, schema)
    return wanted


def _object(
    live: dict[str, Any], before: dict[str, Any], wanted: dict[str, Any], schema: Schema
) -> dict[str, Any]:
    result = {}
    for name, value in live.items():
        inner = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
        inner = inner if isinstance(inner, dict) else {}
        if name in wanted:
            result[name] = applied(value, before.get(name), wanted[name], inner)
        elif name not in before:
            result[name] = value
        elif isinstance(value, dict) and (left := applied(value, before[name], {}, inner)):
            result[name] = left
    return result | {name: value for name, value in wanted.items() if name not in live}


def _keyed(live: list[Any], before: list[Any], wanted: list[Any], schema: Schema) -> list[Any]:
    names = schema.get("x-kubernetes-list-map-keys") or ()

    there = _by_key(live, names)
    mine = _by_key(before, names)
    new = _by_key(wanted, names)
    result = []
    for key, item in there.items():
        if key in new:
            result.append(applied(item, mine.get(key), new[key], schema.get("items") or {}))
        elif key not in mine:
            result.append(item)
    return result + [item for key, item in new.items() if key not in there]


def _by_key(items: list[Any], names: Iterable[str]) -> dict[tuple[Any, ...], Any]:
    """The items, each under its values of these fields."""
    found = {}
    for item in items:
        found[tuple(map(item.get, names))] = item
    return found
