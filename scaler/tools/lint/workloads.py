"""Where labels, gates and sizes of pods stand in a manifest, by the value of its kind of workload.

An object whose own labels count has none of these places (jobs.py). An unknown kind is recognized
by the labels in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scaler.rules.finding import Path
from scaler.tools.common.manifest import Object, Value
from scaler.workloads import kind as workload
from scaler.workloads import kinds
from scaler.workloads.kind import TEMPLATE, Look


class Role(msgspec.Struct, frozen=True):
    """A part of a workload that makes instances of one group: all of their pods have the same three
    labels."""

    labels: Mapping[str, Path]
    """Name for people -> path of the labels of its pods, one for each template."""
    gates: tuple[Path, ...] = ()
    """Paths of the gates of its pods, for each template."""
    pods: int | None = None
    """Pods of one instance; None if the manifest does not have the number."""
    pods_at: Path = ()
    """Path of that number."""
    is_instance: bool = True
    """False for a part beside the instances, such as a router."""


def roles_of(found: Object) -> list[Role] | None:
    """None for an unknown kind."""
    written = _written(found)
    if written is None or written.roles is None:
        return None
    return [_role(role) for role in written.roles(_look_into(found.root))]


def made_names_of(found: Object, name: str) -> Iterator[workload.MadeName]:
    """The names that are made of the name of the object, as far as they may be too long."""
    written = _written(found)
    if written is not None and written.made_names is not None:
        yield from written.made_names(name, _look_into(found.root))


def is_on_every_node(found: Object) -> bool:
    """Whether the object makes a pod for each node."""
    written = _written(found)
    return written is not None and written.on_every_node


def _written(found: Object) -> workload.Written | None:
    group = found.root.string_at("apiVersion").partition("/")[0]
    known = kinds.written_as("" if group == "v1" else group, found.kind) if group else None
    return known[1] if known is not None else None


def labels_are_its_own(found: Object) -> bool:
    """Whether the labels of the object itself count; its templates only repeat them."""
    return found.kind in _OWN_LABELS


def _look_into(root: Value) -> Look:
    def look(path: Path) -> Any:
        value = root.get(*path)
        return value.plain(1) if value is not None else None

    return look


def _role(role: workload.Role) -> Role:
    labels = {_words(template.name): template.labels for template in role.templates}
    gates: list[Path] = []
    for template in role.templates:
        gates.extend(template.gates)
    return Role(labels, tuple(gates), role.pods, role.pods_at, role.is_instance)


def _words(name: str) -> str:
    """The name of a template in a sentence."""
    if name == TEMPLATE:
        return "the pod template"
    return f"the template {name}" if name.startswith("of ") else name


_OWN_LABELS = frozenset(
    kind.main.resource.kind for kind in kinds.KINDS if kind.own_labels is not None
)
"""By the name alone: of one with another group or version jobs.py says that it is the wrong one."""
KINDS = ("ConfigMap", *(written.resource.kind for kind in kinds.KINDS for written in kind.written))
