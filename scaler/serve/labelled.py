"""Labels of an object under review: where each kind keeps those of its pods, and what is wrong there.

Pure, and in the linter's words (rules.labels). A kind that is not known here is looked at as far as its shape allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scaler.kube.api import Object
from scaler.names import GROUP_LABEL, MOVED_RULE, RULE_LABEL
from scaler.rules.finding import Fault
from scaler.rules.labels import group_fault, label_faults
from scaler.rules.values import as_list, at

GroupsOf = Callable[[str, str], tuple[str, ...] | None]
"""The groups of the rule (namespace, name) that is in force, None when none is known. Must not do I/O."""

Labels = Mapping[str, Any]

_ONE_INSTANCE = frozenset({"AscendJob", "LeaderWorkerSet", "Job"})
"""Kinds whose templates make the pods of one instance: the labels belong on all of them or on none."""


def label_warnings(kind: str, namespace: str, obj: Object, groups_of: GroupsOf) -> Iterator[str]:
    """Warnings about the labels of this object, one line each."""
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


def _carriers(kind: str, obj: Object) -> Iterator[tuple[str, Labels]]:
    """Each set of labels that says what pods belong to, and how to call it."""
    own = at(obj, "metadata", "labels")
    if kind == "Pod":
        yield "this pod", own
    elif kind == "AscendJob":  # its own labels count, wherever they were moved; its templates repeat them
        moved = at(obj, "metadata", "annotations").get(MOVED_RULE)
        yield "this job", own if moved is None else {RULE_LABEL: moved, **own}
    else:
        yield from ((f"pod template {name}", labels) for name, labels in _templates(obj).items())


def _templates(obj: Object) -> dict[str, Labels]:
    """The labels of the pod templates of an object, by where these stand below `spec`."""
    spec = at(obj, "spec")
    roles = [at(role) for role in as_list(at(spec, "template", "spec").get("roles"))]  # of a StormService
    tasks = [at(task) for task in as_list(spec.get("tasks"))]  # of a Volcano Job
    pair = at(spec, "leaderWorkerTemplate")
    found = {
        "template": None if roles else spec.get("template"),
        **{name: pair.get(name) for name in ("leaderTemplate", "workerTemplate")},
        **{f"of role {role.get('name', '')}": role.get("template") for role in roles},
        **{f"of task {task.get('name', '')}": task.get("template") for task in tasks},
        **{f"of {name}": at(replica).get("template") for name, replica in at(spec, "replicaSpecs").items()},
    }
    return {name: at(template, "metadata", "labels") for name, template in found.items() if isinstance(template, dict)}


def _misplaced(kind: str, obj: Object) -> Iterator[str]:
    """A rule named where it does nothing, or only on some pods of an instance."""
    if kind in ("Pod", "AscendJob"):
        return
    templates = _templates(obj)
    named = [name for name, labels in templates.items() if RULE_LABEL in labels]
    if not named and RULE_LABEL in at(obj, "metadata", "labels"):
        yield f"label {RULE_LABEL} of a {kind} does not reach its pods; write the three labels into its pod template"
    if named and kind in _ONE_INSTANCE and len(named) < len(templates):
        bare = ", ".join(name for name in templates if name not in named)
        yield f"pod template {bare}: no label {RULE_LABEL}, but its pods belong to the same instance; label all of them"
