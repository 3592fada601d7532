"""The rules of each kind for create, update and delete: defaults, and refusals.

A strategy gets a private object and changes it in place. Problems with names, metadata and fields
are returned as `path: what`. Pods have a module of their own; custom resources are checked by their
schema."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from scaler.kube.api import Object, Resource
from scaler.sim.apiserver import pods, refusals, schema
from scaler.sim.apiserver.kinds import Kind
from scaler.timestamps import rfc3339, seconds_of

_Prepare = Callable[[Object], None]
_Check = Callable[[Object], Iterator[str]]
# The server's own fields of metadata: values from a client are ignored.
SYSTEM_FIELDS = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
    "managedFields",
)
_SERVICE_DEFAULTS = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}


def _prepare_namespace(obj: Object) -> None:
    obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    obj["status"] = {"phase": "Active"}
    labels = obj["metadata"].get("labels") or {}
    obj["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": obj["metadata"]["name"]}


def _prepare_node(obj: Object) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    for part, other in (("allocatable", "capacity"), ("capacity", "allocatable")):
        if status.get(other) and not status.get(part):
            status[part] = dict(status[other])


def _prepare_service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for field, value in _SERVICE_DEFAULTS.items():
        spec.setdefault(field, copy.copy(value))
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    obj["status"] = {"loadBalancer": {}}


def _prepare_priority_class(obj: Object) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj["metadata"]["generation"] = 1


def _prepare_definition(obj: Object) -> None:
    names = obj["spec"]["names"]
    names.setdefault("singular", str(names["kind"]).lower())
    names.setdefault("listKind", f"{names['kind']}List")
    obj["spec"].setdefault("conversion", {"strategy": "None"})
    accepted = {"type": "NamesAccepted", "reason": "NoConflicts", "message": "no conflicts found"}
    words = "the initial names have been accepted"
    established = {"type": "Established", "reason": "InitialNamesAccepted", "message": words}
    obj["status"] = {
        "acceptedNames": names,
        "conditions": [{"status": "True", **accepted}, {"status": "True", **established}],
        "storedVersions": _stored_versions(obj),
    }


def _stored_versions(definition: Object) -> list[str]:
    versions = definition["spec"]["versions"]
    return [version["name"] for version in versions if version.get("storage")]


def _definition_problems(obj: Object) -> Iterator[str]:
    spec = obj["spec"]
    if obj["metadata"]["name"] != f"{spec['names']['plural']}.{spec['group']}":
        yield (
            f'metadata.name: Invalid value: "{obj["metadata"]["name"]}": must be'
            ' spec.names.plural+"."+spec.group'
        )
    if spec["scope"] not in ("Namespaced", "Cluster"):
        yield (
            f'spec.scope: Unsupported value: "{spec["scope"]}": supported values: "Cluster",'
            ' "Namespaced"'
        )
    if len(_stored_versions(obj)) != 1:
        yield (
            "spec.versions: Invalid value: must have exactly one version marked as storage version"
        )


def _service_problems(obj: Object) -> Iterator[str]:
    spec = obj["spec"]
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield "spec.ports: Required value"
    for index, port in enumerate(spec.get("ports") or ()):
        number = port.get("port")
        if not isinstance(number, int) or not 0 < number < 65536:
            yield (
                f"spec.ports[{index}].port: Invalid value: {number}: must be between 1 and 65535,"
                " inclusive"
            )


def _event_problems(obj: Object) -> Iterator[str]:
    about = (obj.get("involvedObject") or {}).get("namespace") or "default"
    if about != obj["metadata"].get("namespace"):
        yield 'involvedObject.namespace: Invalid value: "": does not match event.namespace'


def _lease_problems(obj: Object) -> Iterator[str]:
    spec = obj.get("spec") or {}
    for field in ("leaseDurationSeconds", "leaseTransitions"):
        value = spec.get(field)
        least = 1 if field == "leaseDurationSeconds" else 0
        if value is not None and (not isinstance(value, int) or value < least):
            yield f"spec.{field}: Invalid value: {value}: must be greater than 0"


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
            yield (
                f'{path}: Invalid value: "{value}": must be no more than {self.longest} characters'
            )
        if not re.fullmatch(self.pattern, value):
            yield (
                f'{path}: Invalid value: "{value}": must be {self.words} (regex used for'
                f" validation: {self.pattern})"
            )


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


def _metadata_problems(metadata: Object) -> Iterator[str]:
    for key, value in (metadata.get("labels") or {}).items():
        yield from _label_problems(key, value)
    size = 0
    for key, value in (metadata.get("annotations") or {}).items():
        yield from _key_problems("metadata.annotations", key.lower())
        size += len(key.encode()) + len(value.encode())
    if size > _MAX_ANNOTATIONS:
        yield f"metadata.annotations: Too long: may not be more than {_MAX_ANNOTATIONS} bytes"
    for finalizer in metadata.get("finalizers") or ():
        yield from _key_problems("metadata.finalizers", finalizer)
    yield from _owner_problems(metadata.get("ownerReferences") or ())


@lru_cache(4096)
def _label_problems(key: str, value: str) -> tuple[str, ...]:
    """Cached: the same few labels come with every write."""
    return (*_key_problems("metadata.labels", key), *_VALUE.problems("metadata.labels", value))


@lru_cache(4096)
def _key_problems(path: str, key: str) -> tuple[str, ...]:
    """Problems of a key `name` or `prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    found = tuple(_SUBDOMAIN.problems(path, prefix)) if slash else ()
    return (*found, *_QUALIFIED.problems(path, name))


def _owner_problems(owners: Any) -> Iterator[str]:
    controllers = 0
    for index, owner in enumerate(owners):
        if isinstance(owner, dict) and owner.get("controller"):
            controllers += 1
        for field in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner, dict) or not owner.get(field):
                yield (
                    f'metadata.ownerReferences[{index}].{field}: Invalid value: "": {field} must'
                    " not be empty"
                )
    if controllers > 1:
        yield (
            "metadata.ownerReferences: Invalid value: Only one reference can have Controller set to"
            " true"
        )


def _config_map_problems(obj: Object) -> Iterator[str]:
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (obj.get(field) or {}).items():
            yield from _CONFIG_KEY.problems(f"{field}[{key}]", key)
            size += len(str(value).encode("utf-8", "surrogatepass"))
    if size > _MAX_CONFIG_MAP:
        yield f"[]: Too long: may not be more than {_MAX_CONFIG_MAP} bytes"


_PREPARE: dict[str, _Prepare] = {
    "Pod": pods.prepare,
    "Namespace": _prepare_namespace,
    "Node": _prepare_node,
    "Service": _prepare_service,
    "PriorityClass": _prepare_priority_class,
    "CustomResourceDefinition": _prepare_definition,
}
_CHECK_CREATE: dict[str, _Check] = {"Pod": pods.create_problems, "Event": _event_problems}
_CHECK: dict[str, _Check] = {
    "ConfigMap": _config_map_problems,
    "Service": _service_problems,
    "Lease": _lease_problems,
    "CustomResourceDefinition": _definition_problems,
}


def prepare(kind: Kind, obj: Object) -> None:
    """Defaults and first status of an object about to be created, in place."""
    if kind.custom and kind.status:
        obj.pop("status", None)
    elif kind.built_in in _PREPARE:
        _PREPARE[kind.built_in](obj)


def create_problems(kind: Kind, obj: Object) -> list[str]:
    """Why the object must not be created."""
    check = _CHECK_CREATE.get(kind.built_in)
    named = name_problems(kind.resource, obj["metadata"]["name"])
    return [*named, *_problems(kind, obj), *(check(obj) if check else ())]


def update_problems(kind: Kind, old: Object, new: Object) -> list[str]:
    """Why the object must not change like this."""
    found = list(_problems(kind, new))
    if kind.built_in == "Pod":
        found += pods.update_problems(old, new)
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [name for name in new["metadata"].get("finalizers") or () if name not in before]
        if added:
            words = (
                "no new finalizers can be added if the object is being deleted, found new"
                " finalizers"
            )
            found.append(f"metadata.finalizers: Forbidden: {words} {added}")
    return found


def _problems(kind: Kind, obj: Object) -> Iterator[str]:
    yield from _metadata_problems(obj["metadata"])
    if kind.schema is not None:
        yield from schema.problems(obj, kind.schema)
    elif kind.built_in in _CHECK:
        yield from _CHECK[kind.built_in](obj)


# updates


def check_identity(kind: Kind, old: Object, new: Object) -> None:
    """Check name, namespace and version of an update: those of the object, or left out."""
    before = old["metadata"]
    after = new["metadata"]
    name = before["name"]
    if after.get("name") not in (None, "", name):
        words = (
            f"the name of the object ({after['name']}) does not match the name on the URL ({name})"
        )
        raise refusals.bad_request(words)
    if after.get("namespace") not in (None, "", before.get("namespace")):
        raise refusals.bad_request(
            "the namespace of the object does not match the namespace on the request"
        )
    version = after.get("resourceVersion") or "0"
    if not (version.isascii() and version.isdigit()):
        raise refusals.internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version not in ("0", before["resourceVersion"]):
        raise refusals.stale(kind.resource, name)


def merge_update(kind: Kind, old: Object, new: Object, subresource: str) -> Object:
    """The new object, with the parts that this request must not change taken from the old one."""
    metadata = {name: old["metadata"][name] for name in SYSTEM_FIELDS if name in old["metadata"]}
    for name, value in new["metadata"].items():
        if name not in SYSTEM_FIELDS:
            metadata[name] = value
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    if subresource == "status":
        # A custom resource's metadata cannot be changed through its status, a pod's and a node's
        # can.
        result = {**old, "metadata": {**old["metadata"]} if kind.custom else metadata}
        return _with_status(result, new)
    result = {**new, "metadata": metadata}
    if kind.status:
        result = _with_status(result, old)
    if kind.built_in == "Pod":
        pods.fill_defaults(result)
    elif kind.built_in == "Service":
        addresses = ("clusterIP", "clusterIPs")
        kept = {name: old["spec"][name] for name in addresses if name in old["spec"]}
        result["spec"] = kept | (result.get("spec") or {})
    return result


def _with_status(obj: Object, source: Object) -> Object:
    result = {name: value for name, value in obj.items() if name != "status"}
    return result | ({"status": source["status"]} if "status" in source else {})


def wants(kind: Kind, obj: Object) -> Any:
    """The part of an object whose changes generation counts: the user's part."""
    if not kind.custom:
        return obj.get("spec")
    ignored = ("metadata", "status") if kind.status else ("metadata",)
    return {name: value for name, value in obj.items() if name not in ignored}


# deletion: preconditions, grace periods and finalizers, in the order of an API server

_FINALIZER_OF = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


def check_preconditions(kind: Kind, obj: Object, uid: str = "", resource_version: str = "") -> None:
    """ConflictError when uid or resourceVersion are given and differ."""
    metadata = obj["metadata"]
    pairs = (("UID", uid, "uid"), ("ResourceVersion", resource_version, "resourceVersion"))
    for words, wanted, field in pairs:
        if wanted and wanted != metadata[field]:
            why = (
                f"Precondition failed: {words} in precondition: {wanted}, {words} in object meta:"
                f" {metadata[field]}"
            )
            raise refusals.conflict(kind.resource, metadata["name"], why)


class Deletion(Enum):
    """When an object of which the deletion was requested goes."""

    AT_ONCE = "at once"
    LATER = "later"
    """After its grace period, or when its finalizers are gone."""


class _Grace(Enum):
    """What a deletion does to the grace period of a pod."""

    NONE = "none"
    RUNS = "runs"
    UNCHANGED = "unchanged"
    """A running period can only be shortened."""


def mark_deleted(
    kind: Kind, obj: Object, now: float, grace: int | None, propagation_policy: str
) -> Deletion:
    """Notes a DELETE in the metadata of the object (a private copy), unless it goes at once."""
    metadata = obj["metadata"]
    period = _set_grace(obj, grace, now) if kind.built_in == "Pod" else _Grace.NONE
    if period is _Grace.UNCHANGED:
        return Deletion.LATER
    if propagation_policy not in ("", "Background", *_FINALIZER_OF):
        raise refusals.unprocessable(
            f'propagationPolicy: Unsupported value: "{propagation_policy}"'
        )
    if propagation_policy:
        before = metadata.pop("finalizers", ())
        finalizers = [name for name in before if name not in _FINALIZER_OF.values()]
        if propagation_policy in _FINALIZER_OF:
            finalizers.append(_FINALIZER_OF[propagation_policy])
        if finalizers:
            metadata["finalizers"] = finalizers
    if metadata.get("finalizers"):
        _mark(metadata, now, metadata.get("deletionGracePeriodSeconds", 0))
        return Deletion.LATER
    waits = period is _Grace.RUNS and metadata["deletionGracePeriodSeconds"] > 0
    return Deletion.LATER if waits else Deletion.AT_ONCE


def is_over(obj: Object) -> bool:
    """Whether nothing delays the deletion of a changed object any more."""
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not waits


def _set_grace(pod: Object, period: int | None, now: float) -> _Grace:
    """Begins or shortens the grace period (seconds; None: the pod's own)."""
    metadata = pod["metadata"]
    running = metadata.get("deletionGracePeriodSeconds")
    if not metadata.get("deletionTimestamp"):
        seconds = pod["spec"].get("terminationGracePeriodSeconds", 30) if period is None else period
        if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Failed", "Succeeded"):
            seconds = 0
        _mark(metadata, now, max(1, seconds) if seconds < 0 else seconds)
        return _Grace.RUNS
    if not running:
        return _Grace.NONE
    if period is None or period >= running:
        return _Grace.UNCHANGED
    start = seconds_of(metadata["deletionTimestamp"]) - running
    metadata |= {"deletionTimestamp": rfc3339(start + period), "deletionGracePeriodSeconds": period}
    return _Grace.RUNS


def _mark(metadata: Object, now: float, grace: int) -> None:
    if metadata.get("deletionTimestamp"):
        return
    metadata["deletionTimestamp"] = rfc3339(now + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata:
        metadata["generation"] += 1
