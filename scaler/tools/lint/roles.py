"""Checks the labels, gates and sizes of a workload's instances, against the rule if it is among the
files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from scaler.names import GATE, GROUP_LABEL, INSTANCE_SIZE, JOB_ID_LABEL, RULE_LABEL
from scaler.rules.finding import Finding, Path, shown
from scaler.rules.labels import nearest
from scaler.rules.rule import Rule
from scaler.tools.common.manifest import Object, Value
from scaler.tools.common.slips import all_label_faults, misspelt, unknown_group
from scaler.tools.lint.workloads import Role, is_on_every_node, roles_of
from scaler.workloads.kinds import JOBS

MIN_AVAILABLE = "huawei.com/schedule_minAvailable"
"""Annotation of pods: how many of them MindCluster's plugin waits for before any starts."""
_OURS = (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)
_LABELS: Path = ("metadata", "labels")
_DEPTH = 20
_MOST = 20_000
"""Levels of an object of an unknown kind, and values of one level, that are searched for
templates."""


class NamedRule(msgspec.Struct, frozen=True):
    """A rule among the files; None if it is invalid."""

    namespace: str
    """"" when the manifest has none: kubectl then decides."""
    name: str
    rule: Rule | None


class Rules:
    """The rules among the linted files, by name."""

    def __init__(self, rules: Sequence[NamedRule]) -> None:
        self._rules = rules

    def find(self, namespace: str, name: str) -> tuple[bool, Rule | None]:
        """Whether there is one of this name, and the rule if it is valid and the only one."""
        matching = [one for one in self._in(namespace) if one.name == name]
        return bool(matching), matching[0].rule if len(matching) == 1 else None

    def nearest(self, namespace: str, name: str) -> str:
        """The name that was probably meant; "" when there is none."""
        return nearest(name, [one.name for one in self._in(namespace)])

    def _in(self, namespace: str) -> list[NamedRule]:
        return [one for one in self._rules if same_namespace(one.namespace, namespace)]


def same_namespace(one: str, other: str) -> bool:
    """Whether both may be the same: kubectl decides the namespace of a manifest without one."""
    return one == other or not one or not other


def labels_at(found: Object, path: Path) -> dict[str, str]:
    """The labels at `path`; values that are no strings as their text."""
    holder = found.root.get(*path)
    return {key.text: value.text for key, value in holder.members} if holder else {}


def names_ours(labels: dict[str, str]) -> bool:
    """Whether a label is one of ours, or nearly."""
    return RULE_LABEL in labels or GROUP_LABEL in labels or bool(dict(misspelt(labels)))


def workload_faults(found: Object, rules: Rules) -> list[Finding] | None:
    """All findings about a workload; None if it makes no pods of instances."""
    known = roles_of(found)
    roles = []
    for role in _all(found, known):
        if any(names_ours(labels_at(found, at)) for at in role.labels.values()):
            roles.append(role)
    if not roles:
        misplaced = known is not None and names_ours(labels_at(found, ("metadata", "labels")))
        return [_reaches_no_pod(found, known or [])] if misplaced else None
    faults = [_kind_unknown(found)] if known is None else [*_forgotten(found, known, roles, rules)]
    if is_on_every_node(found):
        faults.append(_on_every_node(found))
    for role in roles:
        faults.extend(_role_faults(found, role, rules))
    return faults


def _forgotten(
    found: Object, known: list[Role], named: list[Role], rules: Rules
) -> Iterator[Finding]:
    """Roles without labels whose name is nearly that of a group that no role names."""
    labels = []
    for role in named:
        for at in role.labels.values():
            labels.append(labels_at(found, at))
    meant = {_meant(one, GROUP_LABEL) for one in labels}
    _, rule = rules.find(found.namespace, _meant(labels[0], RULE_LABEL))
    groups = [group for group in rule.groups if group not in meant] if rule else []
    for role in known:
        (what, path), *_ = role.labels.items()
        group = next((group for group in groups if group in what), "")
        if role not in named and role.is_instance and group:
            message = (
                f"{what} has no labels, and nothing else here is of group {shown(group)} of the"
                " rule"
            )
            where = ".".join(map(str, path))
            hint = (
                f"write the three labels at {where}: without them its pods are neither counted nor"
                " held"
            )
            yield Finding("RoleWithoutLabels", path, message, hint, "warning")


def place_faults(
    found: Object, path: Path, what: str, rules: Rules, *, moved: str = ""
) -> Iterator[Finding]:
    """Findings about the labels at `path`; `moved`: the rule's name in the annotation to which
    admission moved it."""
    labels = labels_at(found, path)
    labels = {RULE_LABEL: moved, **labels} if moved else labels
    for fault in all_label_faults(labels, what):
        yield _at(path, fault)
    name, group = (_meant(labels, label) for label in (RULE_LABEL, GROUP_LABEL))
    present, rule = rules.find(found.namespace, name) if name else (True, None)
    if not present:
        where = f"{found.namespace}/" if found.namespace else ""
        message = (
            f"rule {where}{name} is not among the linted files; nothing was checked against it"
        )
        near = rules.nearest(found.namespace, name)
        hint = "lint the rule's file together with what names it; it must be in the same namespace"
        hint = f"did you mean {near}?" if near else hint
        yield Finding("RuleNotFound", (*path, RULE_LABEL), message, hint, "warning")
    unknown = unknown_group(group, rule.groups) if rule is not None and group else None
    if unknown is not None:
        yield _at(path, unknown)


class Pods(NamedTuple):
    """How many pods an instance has, None where that is not known, and the path of the number."""

    number: int | None
    path: Path


def size_faults(
    found: Object, path: Path, pods: Pods, rules: Rules, *, moved: str = ""
) -> Iterator[Finding]:
    """The finding that an instance has another number of pods than its group in the rule; the
    labels are at `path`."""
    labels = labels_at(found, path)
    name = moved or _meant(labels, RULE_LABEL)
    group = _meant(labels, GROUP_LABEL)
    _, rule = rules.find(found.namespace, name) if name else (True, None)
    size = (
        next((ratio.sizes[group] for ratio in rule.ratios if group in ratio.sizes), None)
        if rule
        else None
    )
    if size is not None and pods.number not in (None, size):
        what = "the job" if found.kind in JOBS else "an instance"
        number = "1 pod" if pods.number == 1 else f"{pods.number} pods"
        message = (
            f"{what} has {number}, but the rule says server_num_per_group {size} for {shown(group)}"
        )
        hint = "make them equal; the workload's own number is what counts"
        yield Finding("InstanceSizeMismatch", pods.path, message, hint, "warning")


def _all(found: Object, known: list[Role] | None) -> list[Role]:
    """The roles of its kind; for an unknown kind each pod template with a label of ours."""
    if known is not None:
        return known
    result: list[Role] = []
    for at in _templates(found.root):
        name = "" if at[-1] == "template" else f" at {'.'.join(map(str, at))}"
        labels = {f"the pod template{name}": (*at, *_LABELS)}
        result.append(Role(labels, ((*at, "spec", "schedulingGates"),)))
    return result


def _templates(root: Value) -> Iterator[Path]:
    """The paths of pod templates, under any name. The number of repetitions by aliases is
    limited."""
    level: list[tuple[Path, Value]] = [((), root)]
    for _ in range(_DEPTH):
        for path, value in level:
            if path and _is_pod_template(path, value):
                yield path
        inner = (((*path, step), value) for path, one in level for step, value in _inner(one))
        level = list(islice(inner, _MOST))


def _is_pod_template(path: Path, value: Value) -> bool:
    """Whether it has labels, and the name or the containers of a pod template."""
    labels = value.get(*_LABELS) if value.kind == "mapping" else None
    if labels is None or labels.kind != "mapping":
        return False
    containers = value.get("spec", "containers")
    has_containers = containers is not None and containers.kind == "list"
    return has_containers or str(path[-1]).lower().endswith("template")


def _inner(value: Value) -> Iterator[tuple[str | int, Value]]:
    for key, inner in value.members:
        yield (key.text, inner)
    yield from enumerate(value.items)


def _role_faults(found: Object, role: Role, rules: Rules) -> Iterator[Finding]:
    named = {what: at for what, at in role.labels.items() if names_ours(labels_at(found, at))}
    (what, path), *others = named.items()
    if not role.is_instance:
        message = (
            f"{what} has labels of an instance, and is none: it would be counted and held as one"
        )
        yield Finding(
            "NotAnInstance", (*path, RULE_LABEL), message, "take the three labels off it", "warning"
        )
        return
    yield from place_faults(found, path, what, rules)
    for other in role.labels.keys() - named.keys():
        message = (
            f"{other} has no label {RULE_LABEL}, and its pods belong to the same instance as those"
            f" of {what}"
        )
        yield Finding(
            "LabelsNotOnAll",
            role.labels[other],
            message,
            "write the three labels into every template",
        )
    for another in others:
        yield from _disagreements(found, (what, path), another)
    size = labels_pods(found, path) or role.pods
    yield from size_faults(found, path, Pods(size, role.pods_at), rules)
    yield from _gate_faults(found, role)
    yield from _gang_faults(found, path, size)


def labels_pods(found: Object, path: Path) -> int | None:
    """The size of the instance in the annotation beside the labels."""
    text = found.root.string_at(*path[:-1], "annotations", INSTANCE_SIZE)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else None


def _disagreements(
    found: Object, one: tuple[str, Path], other: tuple[str, Path]
) -> Iterator[Finding]:
    left = labels_at(found, one[1])
    right = labels_at(found, other[1])
    for name in _OURS:
        if left.get(name) != right.get(name):
            message = (
                f"label {name} is {shown(right.get(name))} in {other[0]} and"
                f" {shown(left.get(name))} in {one[0]}"
            )
            yield Finding(
                "LabelsDisagree",
                (*other[1], name),
                message,
                "their pods are one instance: write the same",
            )


def _gate_faults(found: Object, role: Role) -> Iterator[Finding]:
    held = []
    for path in role.gates:
        gates = found.root.get(*path)
        names = [gate.string_at("name") for gate in (gates.items if gates else [])]
        held.append(GATE in names)
        for index, name in enumerate(names):
            if name != GATE and difflib.SequenceMatcher(None, name, GATE).ratio() > 0.75:
                message = (
                    f"the gate {shown(name)} is nobody's: nothing ever takes it off, and its pods"
                    " never start"
                )
                yield Finding(
                    "GateUnknown", (*path, index, "name"), message, f"write {GATE}", cure=GATE
                )
                held[-1] = True
    for path, has in zip(role.gates, held, strict=True):
        if not has and any(held):
            message = (
                f"the gate {GATE} is missing here, and other pods of the same instance have it"
            )
            yield Finding(
                "GateNotOnAll", path, message, "write it into every template of the instance"
            )


def _gang_faults(found: Object, path: Path, pods: int | None) -> Iterator[Finding]:
    at = (*path[:-1], "annotations", MIN_AVAILABLE)
    text = found.root.string_at(*at)
    if pods and text.isascii() and text.isdecimal() and len(text) < 9 and int(text) > pods:
        message = (
            f"{MIN_AVAILABLE} is {text}, and an instance has {pods}: held instances keep all others"
            " from starting"
        )
        yield Finding(
            "MinAvailableTooBig",
            at,
            message,
            f'write "{pods}", the pods of one instance',
            "warning",
        )


def _reaches_no_pod(found: Object, known: list[Role]) -> Finding:
    places: dict[str, None] = {}
    for role in known:
        if role.is_instance:
            for at in role.labels.values():
                places[".".join(map(str, at))] = None
    message = f"the labels of a {found.kind} itself reach no pod: no rule decides about its pods"
    hint = f"write them at {', '.join(places)}" if places else "write them into its pod templates"
    named = RULE_LABEL
    for name in _OURS:
        if name in labels_at(found, ("metadata", "labels")):
            named = name
            break
    return Finding("LabelsReachNoPod", ("metadata", "labels", named), message, hint, on_key=True)


def _on_every_node(found: Object) -> Finding:
    message = (
        f"a {found.kind} makes a pod for each node and chooses the node itself: neither a ratio nor"
        " room decides how many run, and a pod that is evicted comes again on the same node"
    )
    hint = "write a Deployment or a StatefulSet, for example"
    return Finding("PodOnEveryNode", ("kind",), message, hint)


def _kind_unknown(found: Object) -> Finding:
    message = (
        f"kind {found.kind} is not known here: each of its pods counts as an instance of its own"
    )
    hint = (
        "annotations mind-cluster/instance and mind-cluster/instance-size say which pods belong"
        " together"
    )
    return Finding("KindUnknown", ("kind",), message, hint, "warning")


def _meant(labels: dict[str, str], name: str) -> str:
    """The value of a label, also if the label's name is misspelt."""
    return labels.get(name) or labels.get(dict(misspelt(labels)).get(name, ""), "")


def _at(path: Path, fault: Finding) -> Finding:
    return msgspec.structs.replace(fault, path=(*path, *fault.path[2:]))
