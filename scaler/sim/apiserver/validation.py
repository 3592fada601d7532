"""What an API server says about names, labels and annotations. Pure: problems out, as `path: what`, nothing raised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from scaler.kube.api import Object, Resource

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_RBAC_GROUP = "rbac.authorization.k8s.io"
_MAX_ANNOTATIONS = 256 * 1024
_MAX_CONFIG_MAP = 1024 * 1024


class _Rule(NamedTuple):
    words: str
    pattern: str
    longest: int

    def problems(self, path: str, value: str) -> Iterator[str]:
        if len(value) > self.longest:
            yield f'{path}: Invalid value: "{value}": must be no more than {self.longest} characters'
        if not re.fullmatch(self.pattern, value):
            yield f'{path}: Invalid value: "{value}": must be {self.words} (regex used for validation: {self.pattern})'


_SUBDOMAIN = _Rule("a lowercase RFC 1123 subdomain", rf"{_LABEL}(\.{_LABEL})*", 253)
_PATH_SEGMENT = _Rule("a path segment", r"(?!\.{1,2}$)[^/%]+", 253)
_NAMES = {
    "Namespace": _Rule("a lowercase RFC 1123 label", _LABEL, 63),
    "Service": _Rule("a DNS-1035 label", r"[a-z]([-a-z0-9]*[a-z0-9])?", 63),
}
_QUALIFIED = _Rule("a qualified name", r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", 63)
_VALUE = _Rule("a valid label", rf"({_QUALIFIED.pattern})?", 63)
_CONFIG_KEY = _Rule("a valid config key", r"[-._a-zA-Z0-9]+", 253)


def name_problems(resource: Resource, name: str) -> Iterator[str]:
    """What is wrong with a name for that kind."""
    rule = _PATH_SEGMENT if resource.group == _RBAC_GROUP else _NAMES.get(resource.kind, _SUBDOMAIN)
    return rule.problems("metadata.name", name)


def metadata_problems(metadata: Object) -> Iterator[str]:
    """What is wrong with labels, annotations, finalizers and owner references."""
    for key, value in (metadata.get("labels") or {}).items():
        yield from _label_problems(key, value)
    yield from _annotation_problems(metadata.get("annotations") or {})
    for finalizer in metadata.get("finalizers") or ():
        yield from _key_problems("metadata.finalizers", finalizer)
    yield from _owner_problems(metadata.get("ownerReferences") or ())


@lru_cache(4096)
def _label_problems(key: str, value: str) -> tuple[str, ...]:
    """A few labels come again with every write."""
    return (*_key_problems("metadata.labels", key), *_VALUE.problems("metadata.labels", value))


@lru_cache(4096)
def _key_problems(path: str, key: str) -> tuple[str, ...]:
    """Of `name` or `prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    found = tuple(_SUBDOMAIN.problems(path, prefix)) if slash else ()
    return (*found, *_QUALIFIED.problems(path, name))


def _annotation_problems(annotations: Mapping[str, Any]) -> Iterator[str]:
    for key in annotations:
        yield from _key_problems("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MAX_ANNOTATIONS:
        yield f"metadata.annotations: Too long: may not be more than {_MAX_ANNOTATIONS} bytes"


def _owner_problems(owners: Any) -> Iterator[str]:
    for index, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner, dict) or not owner.get(field):
                yield f'metadata.ownerReferences[{index}].{field}: Invalid value: "": {field} must not be empty'
    if sum(1 for owner in owners if isinstance(owner, dict) and owner.get("controller")) > 1:
        yield "metadata.ownerReferences: Invalid value: Only one reference can have Controller set to true"


def config_map_problems(obj: Object) -> Iterator[str]:
    """Keys and size of a ConfigMap."""
    entries = [(field, *entry) for field in ("data", "binaryData") for entry in (obj.get(field) or {}).items()]
    for field, key, _ in entries:
        yield from _CONFIG_KEY.problems(f"{field}[{key}]", key)
    if sum(len(str(value).encode("utf-8", "surrogatepass")) for *_, value in entries) > _MAX_CONFIG_MAP:
        yield f"[]: Too long: may not be more than {_MAX_CONFIG_MAP} bytes"
