"""The scaler's own admission on the simulated API server: its real reviews, in the namespaces that
opted in.

Must not: judge by itself; it carries out the answer of a review as an API server does."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS, Object, Resource
from scaler.kube.errors import status_error
from scaler.names import BESIDE_LABEL, NAMESPACE_LABEL
from scaler.serve.reviews import (
    Request,
    Response,
    answer_to,
    encode,
    review_ascend_job,
    review_pod,
    review_rule,
)
from scaler.sim.apiserver.patches import json_patch
from scaler.sim.apiserver.server import Hook, Review


def webhooks(*, rules: bool = False) -> tuple[Hook, ...]:
    """The scaler's webhooks: the gate and the move of labels; with `rules` also the rule."""
    return (hold_pods, move_labels, check_rules) if rules else (hold_pods, move_labels)


def hold_pods(review: Review) -> Object:
    """Pods that name a rule get the gate, in namespaces with mind-cluster/scaling=enabled."""
    return _reviewed(review, PODS, review_pod) if _opted_in(review) else review.object


def move_labels(review: Review) -> Object:
    """Labels of AscendJobs go into their templates, in namespaces that run beside Ascend
    Operator."""
    beside = _opted_in(review) and review.namespace_labels.get(BESIDE_LABEL) == "true"
    return _reviewed(review, ASCEND_JOBS, review_ascend_job) if beside else review.object


def check_rules(review: Review) -> Object:
    """A ConfigMap with an invalid rule is refused, in any namespace."""
    return _reviewed(review, CONFIG_MAPS, review_rule)


def _opted_in(review: Review) -> bool:
    return review.namespace_labels.get(NAMESPACE_LABEL) == "enabled"


def _reviewed(review: Review, resource: Resource, ask: Callable[[Request], Response]) -> Object:
    """The object as changed by the answer; raises the API server's error when it is refused."""
    if review.resource != resource:
        return review.object
    request = {
        "uid": "simulated",
        "operation": review.operation,
        "namespace": review.namespace,
        "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "object": review.object,
        "oldObject": review.old,
    }
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = msgspec.json.decode(encode(answer_to(msgspec.json.encode(whole), ask)))["response"]
    if not response["allowed"]:
        status = response["status"]
        words = f"admission webhook of mind-cluster denied the request: {status['message']}"
        raise status_error(status["code"], status["reason"], words)
    patch = msgspec.json.decode(base64.b64decode(response["patch"])) if "patch" in response else []
    changed: Object = json_patch(review.object, patch)
    return changed
