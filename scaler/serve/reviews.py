"""What admission answers: an AdmissionReview request in, an `Response` out. Pure functions of bytes; none raises.

Four questions: is a pod to be held (the gate), is a job beside Ascend Operator to be moved (its labels into its pod
templates), is a rule right, and do labels fit their rule. Each reads only the fields it needs and fails open: what it
cannot read is let through unchanged. No look-up but the function that `review_labels` is given, which must do no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from scaler.names import DELETION_COST, GATE, GROUP_LABEL, HELD_COST, JOB_ID_LABEL, MOVED_RULE, RULE_KEY, RULE_LABEL
from scaler.rules.document import immutable_fault, read_rule
from scaler.rules.finding import Finding, printable
from scaler.serve.labelled import Gate, GroupsOf, Metadata, Template, Workload, label_warnings

MAX_BODY = 8 * 2**20
"""Bytes of a request: etcd holds objects of 1.5 MiB, and an update brings two of them."""
MAX_SHOWN = 10
"""Findings in one answer: kubectl prints all of them."""
MAX_WORDS = 240
"""Characters of one warning: API servers cut them at 256."""

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_MOVED = (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)
T = TypeVar("T")


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a JSON patch."""

    op: str
    path: str
    value: Any = msgspec.UNSET


class Response(msgspec.Struct, frozen=True):
    """What admission says about one request. `uid` is the request's, "" when the request cannot be read at all."""

    uid: str
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: tuple[Finding, ...] = ()
    """Why the object is refused; empty when it is let through."""
    name: str = ""
    """Of what is refused."""
    readable: bool = True

    @property
    def outcome(self) -> str:
        """For counting: unreadable, refused, patched, warned or allowed."""
        if not self.readable:
            return "unreadable"
        said = {"refused": self.refusal, "patched": self.patch, "warned": self.warnings}
        return next((word for word, what in said.items() if what), "allowed")


def encode(answer: Response) -> bytes:
    """The AdmissionReview that carries the answer."""
    response: dict[str, Any] = {"uid": answer.uid, "allowed": not answer.refusal}
    if answer.patch:
        response |= {"patchType": "JSONPatch", "patch": msgspec.json.encode(answer.patch)}  # bytes become base64
    if answer.warnings:
        response["warnings"] = answer.warnings
    if answer.refusal:
        response["status"] = _status(answer)
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def review_pod(body: bytes) -> Response:
    """Hold a new pod that names a rule: our gate, and the deletion cost by which held pods go first.

    A pod that is bound or has the gate already stays as it is; foreign gates and a cost that the user set stay.
    """
    request = _read(_WORKLOAD, body)
    if isinstance(request, Response):
        return request
    pod = request.object
    if request.operation != "CREATE" or request.sub_resource or pod is None:
        return Response(request.uid)
    gates = pod.spec.scheduling_gates or []
    if RULE_LABEL not in pod.labels or pod.spec.node_name or any(gate.name == GATE for gate in gates):
        return Response(request.uid)
    cost = [] if DELETION_COST in pod.annotations else _annotated(pod.metadata, DELETION_COST, HELD_COST)
    return Response(request.uid, (_gate(gates), *cost))


def review_ascend_job(body: bytes) -> Response:
    """Move the labels of a job into its pod templates, so that Ascend Operator makes its pods at once and gated ones.

    The three labels are copied into every template; mind-cluster/scaling-rule leaves the job's own labels, by which the
    operator would hold it, for an annotation. A job without it (also one moved before) or in deletion stays as it is.
    """
    request = _read(_WORKLOAD, body)
    if isinstance(request, Response):
        return request
    job = request.object
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource or job is None:
        return Response(request.uid)
    labels = job.labels
    templates = {name: replica.template for name, replica in (job.spec.replica_specs or {}).items() if replica.template}
    if RULE_LABEL not in labels or job.metadata.deletion_timestamp or not templates:
        return Response(request.uid)
    moved = {name: labels[name] for name in _MOVED if name in labels}
    steps = [step for name, template in templates.items() for step in _labelled(name, template, moved)]
    steps += _annotated(job.metadata, MOVED_RULE, moved[RULE_LABEL])
    return Response(request.uid, (*steps, Operation("remove", f"/metadata/labels/{_escaped(RULE_LABEL)}")))


def review_rule(body: bytes) -> Response:
    """Refuse a ConfigMap whose rule is wrong, in the linter's words; what is only odd becomes warnings.

    A document that was there before is not refused again, so that somebody can pause or label what is broken.
    """
    request = _read(_CONFIG_MAP, body)
    if isinstance(request, Response):
        return request
    found, old = request.object, request.old_object
    if found is None or found.metadata.deletion_timestamp or RULE_KEY not in {**found.data, **found.binary_data}:
        return Response(request.uid)
    reading = read_rule(found.data, tuple(found.binary_data), found.metadata.annotations or {})
    warnings, errors = reading.warnings, reading.errors
    if found.immutable:
        fault = immutable_fault()
        warnings = (*warnings, Finding(fault.level, fault.code, "/immutable", 0, 0, fault.message, fault.hint))
    if old is not None and old.document == found.document:
        warnings, errors = (*errors, *warnings), ()
    return Response(request.uid, (), _limited(map(words, warnings)), errors, name=found.metadata.name if errors else "")


def review_labels(body: bytes, groups_of: GroupsOf) -> Response:
    """Warn about labels of a job, a workload or a pod that are incomplete or name a group that their rule has not."""
    request = _read(_WORKLOAD, body)
    if isinstance(request, Response):
        return request
    if request.object is None or request.sub_resource or request.object.metadata.deletion_timestamp:
        return Response(request.uid)
    return Response(
        request.uid, warnings=_limited(label_warnings(request.kind.kind, request.namespace, request.object, groups_of))
    )


def words(finding: Finding) -> str:
    """A finding on one line, as it stands in events and in the status too."""
    place = f"line {finding.line}, column {finding.column}: " if finding.line else ""
    return f"{place}{finding.message}{f'; {finding.hint}' if finding.hint else ''}"


def _status(answer: Response) -> dict[str, Any]:
    """With reason Invalid and causes, kubectl edit opens the file again and shows them above it."""
    shown = answer.refusal[:MAX_SHOWN]
    causes = [
        {"reason": "FieldValueInvalid", "message": f"{finding.code}: {words(finding)}", "field": RULE_KEY}
        for finding in shown
    ]
    rest = len(answer.refusal) - len(shown)
    if rest:
        causes.append(
            {"reason": "FieldValueInvalid", "message": f"{rest} more; see all: scaler lint", "field": RULE_KEY}
        )
    return {
        "status": "Failure",
        "message": "; ".join(f"{cause['field']}: {cause['message']}" for cause in causes),
        "reason": "Invalid",
        "code": 422,
        "details": {"kind": "ConfigMap", "name": answer.name, "causes": causes},
    }


def _limited(lines: Iterable[str]) -> tuple[str, ...]:
    """The first warnings, each as short as an HTTP header has to be."""
    found = [printable(line) for line in lines]
    rest = len(found) - MAX_SHOWN
    more = (f"{rest} more warnings; see all: scaler lint",) if rest > 0 else ()
    cut = (line if len(line) <= MAX_WORDS else f"{line[: MAX_WORDS - 1]}…" for line in found[:MAX_SHOWN])
    return (*cut, *more)


# JSON patches


def _gate(gates: Sequence[Gate]) -> Operation:
    path, value = "/spec/schedulingGates", {"name": GATE}
    return Operation("add", f"{path}/-", value) if gates else Operation("add", path, [value])


def _annotated(metadata: Metadata, key: str, value: str) -> list[Operation]:
    path = "/metadata/annotations"
    if metadata.annotations is None:
        return [Operation("add", path, {key: value})]
    same = metadata.annotations.get(key) == value
    return [] if same else [Operation("add", f"{path}/{_escaped(key)}", value)]


def _labelled(replica: str, template: Template, labels: Mapping[str, Any]) -> list[Operation]:
    path = f"/spec/replicaSpecs/{_escaped(replica)}/template/metadata"
    if template.metadata is None:
        return [Operation("add", path, {"labels": labels})]
    there = template.metadata.labels
    if there is None:
        return [Operation("add", f"{path}/labels", labels)]
    return [
        Operation("add", f"{path}/labels/{_escaped(name)}", value)
        for name, value in labels.items()
        if there.get(name) != value
    ]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# What is read of a request


class _ReviewedKind(msgspec.Struct):
    kind: str = ""


class _Request(msgspec.Struct, Generic[T], rename="camel"):
    uid: str
    operation: str = ""
    namespace: str = ""
    sub_resource: str = ""
    kind: _ReviewedKind = msgspec.field(default_factory=_ReviewedKind)
    object: T | None = None
    old_object: T | None = None


class _Review(msgspec.Struct, Generic[T]):
    request: _Request[T]


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: Metadata
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False

    @property
    def document(self) -> tuple[str | None, str | None]:
        return self.data.get(RULE_KEY), self.binary_data.get(RULE_KEY)


_CONFIG_MAP = msgspec.json.Decoder(_Review[_ConfigMap])
_WORKLOAD = msgspec.json.Decoder(_Review[Workload])
_ONLY_UID = msgspec.json.Decoder(_Review[Any])


def _read(decoder: msgspec.json.Decoder[_Review[T]], body: bytes) -> _Request[T] | Response:
    """The request; or the answer to one that cannot be read, which is let through."""
    try:
        return decoder.decode(body).request
    except _UNREADABLE:
        return Response(_uid_of(body), readable=False)


def _uid_of(body: bytes) -> str:
    try:
        return _ONLY_UID.decode(body).request.uid
    except _UNREADABLE:
        return ""
