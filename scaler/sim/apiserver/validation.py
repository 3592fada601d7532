"""What an API server says about names, labels and annotations. Pure: problems out, as `path: what`, nothing raised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scaler.kube.api import Object, Resource

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PATH_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/%]+")

_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_SERVICE_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_QUALIFIED_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)
_CONFIG_KEY_WORDS = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_NAME_RULES: dict[str, tuple[re.Pattern[str], int, str]] = {
    "Namespace": (_DNS_LABEL, 63, _LABEL_WORDS),
    "Service": (_SERVICE_NAME, 63, _SERVICE_WORDS),
}
_RBAC_GROUP = "rbac.authorization.k8s.io"
_MAX_ANNOTATIONS = 256 * 1024
_MAX_CONFIG_MAP = 1024 * 1024


def name_problems(resource: Resource, name: str) -> Iterator[str]:
    """What is wrong with a name for that kind."""
    rule, longest, words = _NAME_RULES.get(resource.kind, (_DNS_SUBDOMAIN, 253, _SUBDOMAIN_WORDS))
    if resource.group == _RBAC_GROUP:
        rule, words = _PATH_SEGMENT, "may not be '.' or '..' and may not contain '/' or '%'"
    if len(name) > longest:
        yield f'metadata.name: Invalid value: "{name}": must be no more than {longest} characters'
    if not rule.fullmatch(name):
        yield f'metadata.name: Invalid value: "{name}": {words}'


def metadata_problems(metadata: Object) -> Iterator[str]:
    """What is wrong with labels, annotations, finalizers and owner references."""
    yield from _label_problems("metadata.labels", metadata.get("labels"))
    yield from _annotation_problems(metadata.get("annotations"))
    for finalizer in metadata.get("finalizers") or ():
        yield from _qualified_problems("metadata.finalizers", finalizer)
    yield from _owner_problems(metadata.get("ownerReferences") or ())


def _owner_problems(owners: Any) -> Iterator[str]:
    for index, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner, dict) or not owner.get(field):
                yield f'metadata.ownerReferences[{index}].{field}: Invalid value: "": {field} must not be empty'
    if sum(1 for owner in owners if isinstance(owner, dict) and owner.get("controller")) > 1:
        yield "metadata.ownerReferences: Invalid value: Only one reference can have Controller set to true"


def _label_problems(path: str, labels: Mapping[str, Any] | None) -> Iterator[str]:
    for key, value in (labels or {}).items():
        yield from _qualified_problems(path, key)
        if len(value) > 63:
            yield f'{path}: Invalid value: "{value}": must be no more than 63 characters'
        if value and not _QUALIFIED.fullmatch(value):
            yield f'{path}: Invalid value: "{value}": {_VALUE_WORDS}'


def _annotation_problems(annotations: Mapping[str, Any] | None) -> Iterator[str]:
    size = 0
    for key, value in (annotations or {}).items():
        yield from _qualified_problems("metadata.annotations", key.lower())
        size += len(key.encode()) + len(value.encode())
    if size > _MAX_ANNOTATIONS:
        yield f"metadata.annotations: Too long: may not be more than {_MAX_ANNOTATIONS} bytes"


def _qualified_problems(path: str, key: str) -> Iterator[str]:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        yield f'{path}: Invalid value: "{key}": prefix part {_SUBDOMAIN_WORDS}'
    if not name:
        yield f'{path}: Invalid value: "{key}": name part must be non-empty'
    elif len(name) > 63:
        yield f'{path}: Invalid value: "{key}": name part must be no more than 63 characters'
    elif not _QUALIFIED.fullmatch(name):
        yield f'{path}: Invalid value: "{key}": {_QUALIFIED_WORDS}'


def config_map_problems(obj: Object) -> Iterator[str]:
    """Keys and size of a ConfigMap."""
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (obj.get(field) or {}).items():
            if not _CONFIG_KEY.fullmatch(key) or len(key) > 253:
                yield f'{field}[{key}]: Invalid value: "{key}": {_CONFIG_KEY_WORDS}'
            size += len(str(value).encode("utf-8", "surrogatepass"))
    if size > _MAX_CONFIG_MAP:
        yield f"[]: Too long: may not be more than {_MAX_CONFIG_MAP} bytes"
