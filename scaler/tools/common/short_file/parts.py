"""Small parts that objects of every platform have."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from scaler.kube.api import Object
from scaler.rules.finding import Finding, Path
from scaler.tools.common.short_file.source import mistake

NPU_RESOURCE = "huawei.com/Ascend910"
T = TypeVar("T")


def part(section: T | None) -> T:
    """A section whose presence read_service has checked."""
    if section is None:
        raise AssertionError("read_service asks for it")
    return section


def given(**fields: Any) -> Object:
    """The fields that are not empty."""
    found = {}
    for name, value in fields.items():
        if value not in (None, {}, []):
            found[name] = value
    return found


def replaced(own: dict[str, str], users: dict[str, str]) -> list[Object]:
    """Environment variables: ours, with the user's value for the same name, and then the other ones
    of the user."""
    return [{"name": name, "value": value} for name, value in {**own, **users}.items()]


def npus(count: int | str) -> Object:
    """Requests and limits of a container with this number of NPUs."""
    return {"requests": {NPU_RESOURCE: count}, "limits": {NPU_RESOURCE: count}}


_NODE = re.compile(r"(?:module|card)-(?:910b|a3)-([0-9]+)(?:-super-pod)?")


def node_faults(path: Path, npus_of_pod: int, node_selector: dict[str, str]) -> list[Finding]:
    """The fault of a pod that requests more NPUs than a node of its selector has."""
    kind = node_selector.get("accelerator-type", "")
    found = _NODE.fullmatch(kind)
    if found is None or npus_of_pod <= int(found[1]):
        return []
    return [
        mistake(path, f"a node of {kind} has {found[1]} NPUs, and a pod asks for {npus_of_pod}")
    ]
