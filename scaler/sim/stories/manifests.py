"""Reads YAML manifests, and applies or deletes their objects in kubectl's order.

`apply` is similar to `kubectl apply`: create, or merge into the existing object. Must not: change
the user's files, or know what the objects mean. Kinds that have nothing to do with the scaler are
skipped and named."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from scaler.kube import api as kube
from scaler.kube.api import KubeApi, Object, PatchType, Resource
from scaler.kube.errors import AlreadyExistsError, NotFoundError
from scaler.sim.apiserver.kinds import WORKLOADS
from scaler.sim.apiserver.schema import without_nulls

KINDS: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        kube.ASCEND_JOBS,
        kube.CONFIG_MAPS,
        kube.DEPLOYMENTS,
        kube.ELASTIC_SERVICES,
        kube.NAMESPACES,
        kube.NODES,
        kube.POD_GROUPS,
        kube.PODS,
        kube.PRIORITY_CLASSES,
        kube.QUEUES,
        kube.SERVICES,
        kube.REPLICA_SETS,
        kube.STATEFUL_SETS,
        *WORKLOADS,
    )
}
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The same language in both; the loader in C is ten times as fast and not in every build."""

SHORT_FILES: list[Callable[[Path, str], Sequence[Object]]] = []
"""Functions from a file and its text to objects, for texts with `app_name`, a short file of `scaler
deploy`; they raise ManifestError. Empty if scaler.tools.simulate is not loaded."""
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


class ManifestError(Exception):
    """A manifest is unreadable; `str()` names the file and, if known, the line."""


def files_of(path: Path) -> list[Path]:
    """The file, or the manifests of a folder by name, as with `kubectl apply -f`."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    return [path]


def read_manifests(path: Path, replace: Mapping[str, str] | None = None) -> list[Object]:
    """Every object in a file or folder, in order, without nulls and status. Raises ManifestError.

    `replace`: texts to replace in the files before they are read as YAML."""
    found: list[Object] = []
    for file in files_of(path):
        found += _read_file(file, replace or {})
    return found


def _read_file(path: Path, replace: Mapping[str, str]) -> Iterable[Object]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        for before, after in replace.items():
            text = text.replace(before, after)
        documents = list(yaml.load_all(text, Loader=_LOADER))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ManifestError(f"{path}: {' '.join(str(error).split())}") from None
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue
        if (
            SHORT_FILES
            and isinstance(document, dict)
            and "app_name" in document
            and "kind" not in document
        ):
            yield from (without_nulls(obj) for obj in SHORT_FILES[0](path, text))
            return
        if not _is_object(document):
            raise ManifestError(
                f"{path}: document {number} is not a Kubernetes object (kind and metadata.name)"
            )
        for obj in document["items"] if document["kind"] == "List" else [document]:
            cleaned: Object = without_nulls(obj)
            cleaned.pop("status", None)
            yield cleaned


def _is_object(document: Any) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        return False
    if document["kind"] == "List":
        return isinstance(document.get("items"), list) and all(
            _is_object(item) for item in document["items"]
        )
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def copied(objs: Iterable[Object], namespace: str) -> list[Object]:
    """The same objects in another namespace; cluster-scoped ones are the same for all copies."""
    moved = []
    for obj in objs:
        resource = KINDS.get(obj["kind"])
        field = (
            "name"
            if resource == kube.NAMESPACES
            else "namespace"
            if resource and resource.namespaced
            else ""
        )
        moved.append({**obj, "metadata": {**obj["metadata"], field: namespace}} if field else obj)
    return moved


async def apply(api: KubeApi, obj: Object) -> bool:
    """Create the object or merge it into the existing one; False if its kind is skipped."""
    resource = KINDS.get(obj["kind"])
    if resource is None or resource.api_version != obj.get("apiVersion"):
        return False
    namespace, name = place_of(resource, obj)
    if namespace is not None:
        await ensure_namespace(api, namespace)
    try:
        await api.create(resource, namespace, obj)
    except AlreadyExistsError:
        await api.patch(resource, namespace, name, obj, patch_type=PatchType.MERGE)
    return True


async def delete(api: KubeApi, obj: Object) -> None:
    """Delete the object by kind and name; no effect if it is missing or its kind is skipped."""
    resource = KINDS.get(obj["kind"])
    if resource is None or obj.get("apiVersion", resource.api_version) != resource.api_version:
        return
    namespace, name = place_of(resource, obj)
    with contextlib.suppress(NotFoundError):
        await api.delete(resource, namespace, name, propagation_policy="Background")


def place_of(resource: Resource, obj: Object) -> tuple[str | None, str]:
    """(namespace, name) of an object; None for cluster-scoped ones."""
    metadata = obj["metadata"]
    return (metadata.get("namespace") or "default") if resource.namespaced else None, metadata[
        "name"
    ]


async def ensure_namespace(api: KubeApi, namespace: str) -> None:
    try:
        await api.get(kube.NAMESPACES, None, namespace)
    except NotFoundError:
        body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await api.create(kube.NAMESPACES, None, body)
