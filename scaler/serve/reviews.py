"""The answers of admission: the request of an AdmissionReview in, a `Response` out. Pure functions;
none raises.

Each review reads only the fields that it needs and fails open: an unreadable object is allowed
unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from scaler.kube.api import Object, Resource
from scaler.names import (
    DELETION_COST,
    GATE,
    GROUP_LABEL,
    HELD_COST,
    JOB_ID_LABEL,
    MOVED_RULE,
    RULE_KEY,
    RULE_LABEL,
)
from scaler.rules.document import immutable_finding, read_rule
from scaler.rules.finding import Finding, pointer, printable
from scaler.rules.labels import group_finding, label_findings
from scaler.rules.values import as_list, as_text, at
from scaler.workloads.kind import Kind, Written, each_pod, look_into
from scaler.workloads.kinds import written_as

MAX_BODY = 8 * 2**20
"""Bytes of a request: etcd holds objects of 1.5 MiB, and an update has two of them."""
MAX_SHOWN = 10
"""Findings in one answer: kubectl prints all of them."""
MAX_WORDS = 240
"""Characters of one warning: API servers cut them at 256."""
GroupsOf = Callable[[str, str], tuple[str, ...] | None]
"""The groups of the rule (namespace, name) as it is now, None when it is missing or not valid. Must
not do I/O."""
Labels = Mapping[str, Any]
_THIS = "this "
"""The first words of the name of a template that is the object itself."""
_TEMPLATE = "pod template "
_UNKNOWN = Kind(name="", written=(Written(Resource("", "", "", ""), each_pod),))
"""Where the pod template of an unknown kind is assumed: where most kinds have it."""
_MOVED = (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)


class Response(msgspec.Struct, frozen=True):
    """The answer to one request. `uid` is that of the request, "" when the whole request is
    unreadable."""

    uid: str = ""
    patch: Mapping[str, Any] = {}
    """Path -> the complete new value."""
    warnings: tuple[str, ...] = ()
    refusal: tuple[Finding, ...] = ()
    """Why the object is refused; empty when it is allowed."""
    name: str = ""
    """Name of the object that is refused."""
    readable: bool = True

    @property
    def outcome(self) -> str:
        if not self.readable:
            return "unreadable"
        if self.refusal:
            return "refused"
        if self.patch:
            return "patched"
        return "warned" if self.warnings else "allowed"


def encode(answer: Response) -> bytes:
    """The AdmissionReview that carries the answer."""
    response: dict[str, Any] = {"uid": answer.uid, "allowed": not answer.refusal}
    if answer.patch:
        steps = [
            {"op": "add", "path": path, "value": value} for path, value in answer.patch.items()
        ]
        # msgspec encodes bytes as base64
        response |= {"patchType": "JSONPatch", "patch": msgspec.json.encode(steps)}
    if answer.warnings:
        response["warnings"] = answer.warnings
    if answer.refusal:
        response["status"] = _status(answer)
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


class _ReviewedKind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: str = ""
    namespace: str = ""
    sub_resource: str = ""
    kind: _ReviewedKind = msgspec.field(default_factory=_ReviewedKind)
    object: Any = None
    old_object: Any = None


class _Review(msgspec.Struct):
    request: Request


_REVIEW = msgspec.json.Decoder(_Review)


def answer_to(body: bytes, review: Callable[[Request], Response]) -> Response:
    """The answer of `review` to an AdmissionReview. An unreadable request is allowed."""
    try:
        request = _REVIEW.decode(body).request
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Response(readable=False)
    return msgspec.structs.replace(review(request), uid=request.uid)


def review_pod(request: Request) -> Response:
    """Hold a new pod that names a rule: add our gate, and the deletion cost that makes owners
    delete held pods first.

    A pod that is bound or has the gate already is not changed; gates of others and a cost of the
    user stay."""
    pod = request.object
    if request.operation != "CREATE" or request.sub_resource or pod is None:
        return Response()
    annotations = at(pod, "metadata", "annotations")
    gates = as_list(at(pod, "spec").get("schedulingGates"))
    bound = at(pod, "spec").get("nodeName")
    held = any(at(gate).get("name") == GATE for gate in gates)
    if RULE_LABEL not in at(pod, "metadata", "labels") or bound or held:
        return Response()
    patch: dict[str, Any] = {"/spec/schedulingGates": [*gates, {"name": GATE}]}
    if DELETION_COST not in annotations:
        patch["/metadata/annotations"] = {**annotations, DELETION_COST: HELD_COST}
    return Response(patch=patch)


def review_ascend_job(request: Request) -> Response:
    """Move the labels of a job into its pod templates: Ascend Operator then makes the pods at once,
    and with the gate.

    All three are copied into every template; mind-cluster/scaling-rule, which makes the operator
    hold the job, moves from the job's own labels to an annotation. A job without this label (or
    moved before), or in deletion, stays."""
    job = request.object
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource or job is None:
        return Response()
    meta = at(job, "metadata")
    replicas = at(job, "spec", "replicaSpecs")
    labels = at(meta, "labels")
    templates = {}
    for name, replica in replicas.items():
        if "template" in at(replica):
            templates[name] = at(replica, "template")
    if RULE_LABEL not in labels or meta.get("deletionTimestamp") or not templates:
        return Response()
    moved = {name: labels[name] for name in _MOVED if name in labels}
    patch: dict[str, Any] = {
        "/metadata/annotations": {**at(meta, "annotations"), MOVED_RULE: moved[RULE_LABEL]},
        "/metadata/labels": {name: value for name, value in labels.items() if name != RULE_LABEL},
    }
    for name, template in templates.items():
        there = at(template, "metadata")
        metadata = {**there, "labels": {**at(there, "labels"), **moved}}
        patch[pointer(("spec", "replicaSpecs", name, "template", "metadata"))] = metadata
    return Response(patch=patch)


def review_rule(request: Request) -> Response:
    """Refuse a ConfigMap with an invalid rule, in the words of the linter; its warnings become
    warnings of admission.

    A document that has not changed is not refused again: a broken rule can still be paused or
    labelled."""
    found = request.object
    old = request.old_object
    meta = at(found, "metadata")
    data = at(found, "data")
    binary = at(found, "binaryData")
    if meta.get("deletionTimestamp") or RULE_KEY not in {**data, **binary}:
        return Response()
    reading = read_rule(data, tuple(binary), at(meta, "annotations"))
    warnings = reading.warnings
    errors = reading.errors
    if at(found).get("immutable"):
        warnings += (immutable_finding(),)
    if old is not None and _document(old) == _document(found):
        warnings = (*errors, *warnings)
        errors = ()
    name = as_text(meta.get("name")) if errors else ""
    return Response(warnings=_limited(map(str, warnings)), refusal=errors, name=name)


def _document(config_map: Object) -> tuple[Any, Any]:
    """Where a ConfigMap may have the rule."""
    return at(config_map, "data").get(RULE_KEY), at(config_map, "binaryData").get(RULE_KEY)


def review_labels(request: Request, groups_of: GroupsOf) -> Response:
    """Warn about labels of a job, a workload or a pod that are incomplete, or name a group that
    their rule lacks."""
    obj = request.object
    if obj is None or request.sub_resource or at(obj, "metadata").get("deletionTimestamp"):
        return Response()
    found = written_as(request.kind.group, request.kind.kind)
    kind, written = found if found is not None else (_UNKNOWN, _UNKNOWN.main)
    carriers = _carriers(kind, written, obj)
    warnings: list[str] = []
    for what, labels in carriers.items():
        faults = _faults(what, labels, request.namespace, groups_of)
        warnings.extend(f"{what}: {fault.message}; {fault.hint}" for fault in faults)
    bare = [what for what, labels in carriers.items() if RULE_LABEL not in labels]
    if len(bare) == len(carriers) and RULE_LABEL in at(obj, "metadata", "labels"):
        warnings.append(
            f"label {RULE_LABEL} of a {request.kind.kind} does not reach its pods; write the three"
            " labels into its pod template"
        )
    elif 0 < len(bare) < len(carriers) and kind.one_instance:
        places = ", ".join(what.removeprefix(_TEMPLATE) for what in bare)
        warnings.append(
            f"{_TEMPLATE}{places}: no label {RULE_LABEL}, but its pods belong to the same instance;"
            " label all of them"
        )
    return Response(warnings=_limited(warnings))


def _status(answer: Response) -> dict[str, Any]:
    """The Status of a refusal. With reason Invalid and causes, kubectl edit opens the file again
    and shows them."""
    lines = [f"{finding.code}: {finding}" for finding in answer.refusal[:MAX_SHOWN]]
    rest = len(answer.refusal) - len(lines)
    if rest:
        lines.append(f"{rest} more; see all: scaler lint")
    causes = [{"reason": "FieldValueInvalid", "message": line, "field": RULE_KEY} for line in lines]
    return {
        "status": "Failure",
        "message": "; ".join(f"{RULE_KEY}: {line}" for line in lines),
        "reason": "Invalid",
        "code": 422,
        "details": {"kind": "ConfigMap", "name": answer.name, "causes": causes},
    }


def _limited(lines: Iterable[str]) -> tuple[str, ...]:
    """The first warnings, each short enough for an HTTP header."""
    found = [printable(line) for line in lines]
    rest = len(found) - MAX_SHOWN
    more = (f"{rest} more warnings; see all: scaler lint",) if rest > 0 else ()
    return (*map(_cut, found[:MAX_SHOWN]), *more)


def _cut(line: str) -> str:
    return line if len(line) <= MAX_WORDS else f"{line[: MAX_WORDS - 1]}…"


def _faults(what: str, labels: Labels, namespace: str, groups_of: GroupsOf) -> Iterator[Finding]:
    yield from label_findings(labels, what)
    rule = labels.get(RULE_LABEL)
    group = labels.get(GROUP_LABEL)
    groups = groups_of(namespace, rule) if isinstance(rule, str) and rule and group else None
    if groups and (unknown := group_finding(str(group), groups)) is not None:
        yield unknown


def _carriers(kind: Kind, written: Written, obj: Object) -> dict[str, Labels]:
    """The labels of an object's pods, by their place, for people."""
    if written.roles is None:
        own_labels = kind.own_labels
        return {f"{_THIS}job": own_labels(obj) if own_labels is not None else {}}
    look = look_into(obj)
    carriers: dict[str, Labels] = {}
    for role in written.roles(look):
        for template in role.templates:
            if not isinstance(look(template.place), dict):
                continue
            labels = look(template.labels)
            here = template.name.startswith(_THIS)
            name = template.name if here else f"{_TEMPLATE}{template.name}"
            carriers[name] = labels if isinstance(labels, dict) else {}
    return carriers
