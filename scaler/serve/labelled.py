"""Labels of an object that admission is asked about: where each kind keeps those of its pods, and what is wrong there.

Pure, and in the linter's words (rules.labels). A kind that is not known here is looked at as far as its shape allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from scaler.names import GROUP_LABEL, MOVED_RULE, RULE_LABEL
from scaler.rules.finding import Fault
from scaler.rules.labels import group_fault, label_faults

GroupsOf = Callable[[str, str], tuple[str, ...] | None]
"""The groups of the rule (namespace, name) that is in force, None when none is known. Must not do I/O."""

Labels = Mapping[str, Any]

_ONE_INSTANCE = frozenset({"AscendJob", "LeaderWorkerSet", "Job"})
"""Kinds whose templates make the pods of one instance: the labels belong on all of them or on none."""


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    deletion_timestamp: str | None = None


class Template(msgspec.Struct):
    """Of a pod; or, of a StormService, of what holds roles with templates of their own."""

    metadata: Metadata | None = None
    spec: TemplateSpec | None = None

    @property
    def labels(self) -> Labels:
        return (self.metadata.labels if self.metadata else None) or {}


class Holder(msgspec.Struct):
    """A role of a StormService, a task of a Volcano Job, a replica type of an AscendJob."""

    name: str = ""
    template: Template | None = None


class TemplateSpec(msgspec.Struct):
    roles: list[Holder] | None = None


class LeaderWorkerTemplate(msgspec.Struct, rename="camel"):
    leader_template: Template | None = None
    worker_template: Template | None = None


class Gate(msgspec.Struct):
    name: str = ""


class Spec(msgspec.Struct, rename="camel"):
    """What is read of the spec of a pod (the first two) or of anything that makes pods."""

    node_name: str | None = None
    scheduling_gates: list[Gate] | None = None
    template: Template | None = None
    replica_specs: dict[str, Holder] | None = None
    leader_worker_template: LeaderWorkerTemplate | None = None
    tasks: list[Holder] | None = None


class Workload(msgspec.Struct):
    """A pod, or anything that makes pods."""

    metadata: Metadata
    spec: Spec = msgspec.field(default_factory=Spec)

    @property
    def labels(self) -> Labels:
        return self.metadata.labels or {}

    @property
    def annotations(self) -> Labels:
        return self.metadata.annotations or {}


def label_warnings(kind: str, namespace: str, obj: Workload, groups_of: GroupsOf) -> Iterator[str]:
    """What to tell the user about the labels of this object, one line each."""
    for what, labels in _carriers(kind, obj):
        for fault in _faults(what, labels, namespace, groups_of):
            yield f"{what}: {fault.message}; {fault.hint}"
    yield from _misplaced(kind, obj)


def _faults(what: str, labels: Labels, namespace: str, groups_of: GroupsOf) -> Iterator[Fault]:
    yield from label_faults(labels, what)
    rule, group = labels.get(RULE_LABEL), labels.get(GROUP_LABEL)
    groups = groups_of(namespace, rule) if isinstance(rule, str) and rule and group else None
    unknown = group_fault(str(group), groups) if groups else None
    if unknown is not None:
        yield unknown


def _carriers(kind: str, obj: Workload) -> Iterator[tuple[str, Labels]]:
    """Each set of labels that says what pods belong to, and how to call it."""
    if kind == "Pod":
        yield "this pod", obj.labels
    elif kind == "AscendJob":  # its own labels count, wherever they were moved; its templates repeat them
        moved = obj.annotations.get(MOVED_RULE)
        yield "this job", obj.labels if moved is None else {RULE_LABEL: moved, **obj.labels}
    else:
        yield from ((f"pod template {name}", template.labels) for name, template in _templates(obj))


def _templates(obj: Workload) -> Iterator[tuple[str, Template]]:
    """The pod templates of an object, by where they stand below `spec`."""
    spec = obj.spec
    pair = spec.leader_worker_template or LeaderWorkerTemplate()
    roles = spec.template.spec.roles if spec.template and spec.template.spec else None
    found = {
        "template": None if roles else spec.template,
        "leaderTemplate": pair.leader_template,
        "workerTemplate": pair.worker_template,
        **{f"of role {role.name}": role.template for role in roles or []},
        **{f"of task {task.name}": task.template for task in spec.tasks or []},
        **{f"of {name}": replica.template for name, replica in (spec.replica_specs or {}).items()},
    }
    yield from ((name, template) for name, template in found.items() if template is not None)


def _misplaced(kind: str, obj: Workload) -> Iterator[str]:
    """A rule named where it does nothing, or only on some pods of an instance."""
    if kind in ("Pod", "AscendJob"):
        return
    templates = dict(_templates(obj))
    named = [name for name, template in templates.items() if RULE_LABEL in template.labels]
    if not named and RULE_LABEL in obj.labels:
        yield f"label {RULE_LABEL} of a {kind} does not reach its pods; write the three labels into its pod template"
    if named and kind in _ONE_INSTANCE and len(named) < len(templates):
        bare = ", ".join(name for name in templates if name not in named)
        yield f"pod template {bare}: no label {RULE_LABEL}, but its pods belong to the same instance; label all of them"
