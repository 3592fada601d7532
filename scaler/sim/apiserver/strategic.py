"""Strategic merge patch for the built-in kinds: lists merge by their merge key where Kubernetes says so.

The table covers pods, services, nodes and metadata; a list that is not in it is replaced whole, as in Kubernetes. Pure.
"""

from __future__ import annotations

from typing import Any

from scaler.sim.apiserver.refusals import bad_request

_DIRECTIVES = ("$patch", "$retainKeys")

# Merge keys by the name of the list. Kubernetes keys them by Go type; the names are unambiguous in the kinds we serve.
_MERGE_KEYS: dict[str, str] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "env", "volumes", "secrets"), "name"),
    **dict.fromkeys(("imagePullSecrets", "schedulingGates", "resourceClaims"), "name"),
    **dict.fromkeys(("podIPs", "hostIPs", "hostAliases"), "ip"),
    **dict.fromkeys(("conditions", "addresses"), "type"),
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
}
# Lists of plain values that merge as sets.
_SETS = frozenset({"finalizers"})


def strategic_merge(target: Any, patch: Any, name: str = "") -> Any:
    """`target` with `patch` merged in; `name` is the field that holds them. BadRequestError for a wrong directive."""
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
    # Directives speak about the merged lists, so they come last.
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
    if kind == "$retainKeys" and isinstance(value, list):
        for key in [key for key in result if key not in value]:
            del result[key]
    elif kind == "$deleteFromPrimitiveList" and isinstance(value, list):
        result[field] = [item for item in result.get(field) or [] if item not in value]
    elif kind == "$setElementOrder" and isinstance(value, list):
        _reorder(result, field, value)


def _reorder(result: dict[str, Any], field: str, order: list[Any]) -> None:
    """kubectl apply states the order of elements; elements that it does not name keep their place at the end."""
    items, key = result.get(field), _merge_key(field)
    if not isinstance(items, list):
        return
    wanted = [entry.get(key) if isinstance(entry, dict) and key else entry for entry in order]

    def position(item: Any) -> int:
        name = item.get(key) if isinstance(item, dict) and key else item
        return wanted.index(name) if name in wanted else len(wanted)

    result[field] = sorted(items, key=position)


def _merge_key(name: str, items: list[Any] | None = None) -> str:
    if name == "ports":
        return "containerPort" if items and isinstance(items[0], dict) and "containerPort" in items[0] else "port"
    return _MERGE_KEYS.get(name, "")


def _merge_list(target: list[Any], patch: list[Any], name: str) -> list[Any]:
    if name in _SETS:
        return target + [item for item in patch if item not in target]
    key = _merge_key(name, patch)
    if not key or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(target)
    for item in patch:
        _merge_item(result, item, key)
    return result


def _merge_item(result: list[Any], item: dict[str, Any], key: str) -> None:
    if key not in item:
        raise bad_request(f"map: {item} does not contain declared merge key: {key}")
    place = next((i for i, old in enumerate(result) if isinstance(old, dict) and old.get(key) == item[key]), None)
    if item.get("$patch") == "delete":
        if place is not None:
            del result[place]
    elif place is None:
        result.append(_merge_map({}, item))
    else:
        result[place] = _merge_map(result[place], item)
