"""The objects of a service: their labels, their text for people, differences, and what was applied
before. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from scaler.kube.api import Object
from scaler.names import MANAGED_BY_LABEL
from scaler.rules.values import as_list, at
from scaler.tools.common.console import clean

MANAGER = "scaler-deploy"
"""Field manager, and the value of the label for the maker of an object."""
SERVICE_LABEL = "deploy.mind-cluster.io/service"
"""Label of all objects made for a service: the name of the service."""
NAMESPACE_LABEL = "deploy.mind-cluster.io/namespace"
"""Second label: the namespace of the service, for copies in other namespaces and for cluster-scoped
objects."""

_KEPT_BY_THE_SERVER = (
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def labels_of(service: str, namespace: str) -> dict[str, str]:
    """The labels of all objects made for a service."""
    return {MANAGED_BY_LABEL: MANAGER, SERVICE_LABEL: service, NAMESPACE_LABEL: namespace}


def selector_of(service: str, namespace: str) -> str:
    return ",".join(f"{name}={value}" for name, value in labels_of(service, namespace).items())


def labelled(obj: Object, service: str, namespace: str) -> Object:
    """The object as it is sent. Pod templates keep their labels: another label would change the
    pods."""
    labels = {**at(obj, "metadata", "labels"), **labels_of(service, namespace)}
    return {**obj, "metadata": {**at(obj, "metadata"), "labels": labels}}


def is_made_for(obj: Object, service: str, namespace: str) -> bool:
    """Whether this object was made here for this service. Objects that a platform made from it may
    have the same labels, but also have an owner."""
    labels = at(obj, "metadata", "labels")
    made = all(labels.get(name) == value for name, value in labels_of(service, namespace).items())
    return made and not as_list(at(obj, "metadata").get("ownerReferences"))


def maker_of(obj: Object) -> str:
    """The maker of an object of others, as far as the object shows it."""
    metadata = at(obj, "metadata")
    labels = at(metadata, "labels")
    if labels.get(MANAGED_BY_LABEL) == MANAGER and labels.get(SERVICE_LABEL):
        where = f"{clean(labels.get(NAMESPACE_LABEL))}/{clean(labels[SERVICE_LABEL])}"
        return f"made by `scaler deploy` for service {where}"
    for owner in as_list(metadata.get("ownerReferences")):
        return f"owned by {clean(at(owner).get('kind'))} {clean(at(owner).get('name'))}"
    if labels.get(MANAGED_BY_LABEL):
        return f"managed by {clean(labels[MANAGED_BY_LABEL])}"
    found = []
    for entry in as_list(metadata.get("managedFields")):
        found.append(clean(entry.get("manager")))
    managers = dict.fromkeys(found)
    return f"written by {', '.join(managers)}" if managers else "made by somebody else"


def shown(obj: Object) -> Object:
    """The object without fields that the server maintains."""
    metadata = {}
    for name, value in at(obj, "metadata").items():
        if name not in _KEPT_BY_THE_SERVER:
            metadata[name] = value
    return {
        **{name: value for name, value in obj.items() if name != "status"},
        "metadata": metadata,
    }


def differs(before: Object, after: Object) -> bool:
    return shown(before) != shown(after)


def diff(before: Object, after: Object) -> Iterator[str]:
    """The lines that differ, each with three lines around it."""
    old = _lines(before)
    new = _lines(after)
    for number, line in enumerate(difflib.unified_diff(old, new, lineterm="", n=3)):
        if number > 1:
            yield clean(line)


def _lines(obj: Object) -> list[str]:
    return document(shown(obj)).splitlines()


def document(obj: Object) -> str:
    """The object as YAML, without aliases."""
    plain = json.loads(json.dumps(obj))
    made: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return made


class _Dumper(yaml.SafeDumper):
    """Text of several lines is written as a block."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


def as_before(before: Object, now: Object) -> Object | None:
    """What has to be applied so that an object is again as before: all fields that we owned then,
    and those that we have taken since from other owners; None if managedFields do not show it."""
    then, since = (_fields_of(obj) for obj in (before, now))
    if then is None or since is None:
        return None
    found = _owned(before, _both(then, since))
    place = {}
    for name in ("name", "namespace"):
        if name in before["metadata"]:
            place[name] = before["metadata"][name]
    head = {"apiVersion": before["apiVersion"], "kind": before["kind"]}
    return {**found, **head, "metadata": {**at(found, "metadata"), **place}}


def _fields_of(obj: Object) -> Mapping[str, Any] | None:
    """FieldsV1 of our manager."""
    for entry in as_list(at(obj, "metadata").get("managedFields")):
        if (entry.get("manager"), entry.get("operation")) == (MANAGER, "Apply") and not entry.get(
            "subresource"
        ):
            return at(entry, "fieldsV1")
    return None


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of both; {} means the whole value."""
    if not one or not other:
        return {}
    shared = {name: _both(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _owned(value: Any, fields: Mapping[str, Any]) -> Any:
    """The part of `value` that `fields` (FieldsV1) name."""
    inner = [name for name in fields if name != "."]
    if not fields:
        return value
    if isinstance(value, dict):
        names = []
        for name in inner:
            if name.startswith("f:"):
                names.append(name.removeprefix("f:"))
        found = {}
        for name in names:
            if name in value:
                found[name] = _owned(value[name], fields[f"f:{name}"])
        return found
    if isinstance(value, list):
        result = []
        for item in value:
            if _key_of(item, inner) is not None:
                result.append(_owned_item(item, fields))
        return result
    return value


def _owned_item(item: Any, fields: Mapping[str, Any]) -> Any:
    key = _key_of(item, list(fields))
    return _owned(item, at(fields, key)) if key is not None and key.startswith("k:") else item


def _key_of(item: Any, names: list[str]) -> str | None:
    """The key that names an item of a list in FieldsV1: by its keys (`k:`) or by itself (`v:`)."""
    for name in names:
        sign, _, text = name.partition(":")
        if sign == "v" and json.loads(text) == item:
            return name
        if sign == "k" and isinstance(item, dict):
            keys = json.loads(text)
            if all(item.get(key) == value for key, value in keys.items()):
                return name
    return None
