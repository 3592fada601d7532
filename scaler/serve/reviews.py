"""What admission answers: an AdmissionReview request in, an `Response` out. Pure functions of bytes; none raises.

Four questions: is a pod to be held (the gate), is a job beside Ascend Operator to be moved (its labels into its pod
templates), is a rule right, and do labels fit their rule. Each reads only the fields it needs and fails open: what it
cannot read is let through unchanged. No look-up but the function that `review_labels` is given, which must do no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.names import DELETION_COST, GATE, GROUP_LABEL, HELD_COST, JOB_ID_LABEL, MOVED_RULE, RULE_KEY, RULE_LABEL
from scaler.rules.document import findings, immutable_fault, read_rule
from scaler.rules.finding import Finding, pointer, printable
from scaler.rules.values import as_list, as_text, at
from scaler.serve.labelled import GroupsOf, label_warnings

MAX_BODY = 8 * 2**20
"""Bytes of a request: etcd holds objects of 1.5 MiB, and an update brings two of them."""
MAX_SHOWN = 10
"""Findings in one answer: kubectl prints all of them."""
MAX_WORDS = 240
"""Characters of one warning: API servers cut them at 256."""

_MOVED = (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)


class Response(msgspec.Struct, frozen=True):
    """What admission says about one request. `uid` is the request's, "" when the request cannot be read at all."""

    uid: str
    patch: Mapping[str, Any] = {}
    """Path -> what is to stand there, whole."""
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
        steps = [{"op": "add", "path": path, "value": value} for path, value in answer.patch.items()]
        response |= {"patchType": "JSONPatch", "patch": msgspec.json.encode(steps)}  # bytes become base64
    if answer.warnings:
        response["warnings"] = answer.warnings
    if answer.refusal:
        response["status"] = _status(answer)
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def review_pod(body: bytes) -> Response:
    """Hold a new pod that names a rule: our gate, and the deletion cost by which held pods go first.

    A pod that is bound or has the gate already stays as it is; foreign gates and a cost that the user set stay.
    """
    request = _read(body)
    if isinstance(request, Response):
        return request
    pod = request.object
    if request.operation != "CREATE" or request.sub_resource or pod is None:
        return Response(request.uid)
    labels, annotations = (at(pod, "metadata", part) for part in ("labels", "annotations"))
    gates = as_list(at(pod, "spec").get("schedulingGates"))
    bound = at(pod, "spec").get("nodeName")
    if RULE_LABEL not in labels or bound or any(at(gate).get("name") == GATE for gate in gates):
        return Response(request.uid)
    patch: dict[str, Any] = {"/spec/schedulingGates": [*gates, {"name": GATE}]}
    if DELETION_COST not in annotations:
        patch["/metadata/annotations"] = {**annotations, DELETION_COST: HELD_COST}
    return Response(request.uid, patch)


def review_ascend_job(body: bytes) -> Response:
    """Move the labels of a job into its pod templates, so that Ascend Operator makes its pods at once and gated ones.

    The three labels are copied into every template; mind-cluster/scaling-rule leaves the job's own labels, by which the
    operator would hold it, for an annotation. A job without it (also one moved before) or in deletion stays as it is.
    """
    request = _read(body)
    if isinstance(request, Response):
        return request
    job = request.object
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource or job is None:
        return Response(request.uid)
    meta, replicas = at(job, "metadata"), at(job, "spec", "replicaSpecs")
    labels = at(meta, "labels")
    templates = {name: at(replica, "template") for name, replica in replicas.items() if "template" in at(replica)}
    if RULE_LABEL not in labels or meta.get("deletionTimestamp") or not templates:
        return Response(request.uid)
    moved = {name: labels[name] for name in _MOVED if name in labels}
    patch: dict[str, Any] = {
        "/metadata/annotations": {**at(meta, "annotations"), MOVED_RULE: moved[RULE_LABEL]},
        "/metadata/labels": {name: value for name, value in labels.items() if name != RULE_LABEL},
    }
    for name, template in templates.items():
        there = at(template, "metadata")
        metadata = {**there, "labels": {**at(there, "labels"), **moved}}
        patch[pointer(("spec", "replicaSpecs", name, "template", "metadata"))] = metadata
    return Response(request.uid, patch)


def review_rule(body: bytes) -> Response:
    """Refuse a ConfigMap whose rule is wrong, in the linter's words; what is only odd becomes warnings.

    A document that was there before is not refused again, so that what is broken can be paused or labelled.
    """
    request = _read(body)
    if isinstance(request, Response):
        return request
    found, old = request.object, request.old_object
    meta, data, binary = (at(found, part) for part in ("metadata", "data", "binaryData"))
    if meta.get("deletionTimestamp") or RULE_KEY not in {**data, **binary}:
        return Response(request.uid)
    reading = read_rule(data, tuple(binary), at(meta, "annotations"))
    warnings, errors = reading.warnings, reading.errors
    if at(found).get("immutable"):
        warnings += findings([immutable_fault()], "")
    if old is not None and all(at(old, p).get(RULE_KEY) == at(found, p).get(RULE_KEY) for p in ("data", "binaryData")):
        warnings, errors = (*errors, *warnings), ()
    name = as_text(meta.get("name")) if errors else ""
    return Response(request.uid, {}, _limited(map(words, warnings)), errors, name=name)


def review_labels(body: bytes, groups_of: GroupsOf) -> Response:
    """Warn about labels of a job, a workload or a pod that are incomplete or name a group that their rule has not."""
    request = _read(body)
    if isinstance(request, Response):
        return request
    obj = request.object
    if obj is None or request.sub_resource or at(obj, "metadata").get("deletionTimestamp"):
        return Response(request.uid)
    warnings = label_warnings(request.kind.kind, request.namespace, obj, groups_of)
    return Response(request.uid, warnings=_limited(warnings))


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


# What is read of a request


class _ReviewedKind(msgspec.Struct):
    kind: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: str = ""
    namespace: str = ""
    sub_resource: str = ""
    kind: _ReviewedKind = msgspec.field(default_factory=_ReviewedKind)
    object: Any = None
    old_object: Any = None


class _Review(msgspec.Struct):
    request: _Request


_REVIEW = msgspec.json.Decoder(_Review)


def _read(body: bytes) -> _Request | Response:
    """The request; or the answer to one that cannot be read, which is let through."""
    try:
        return _REVIEW.decode(body).request
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Response("", readable=False)
