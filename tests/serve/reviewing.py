"""Admission requests for tests, and what an answer makes of the object that was asked about."""

from __future__ import annotations

import base64
import json
from typing import Any

from scaler.kube.api import Object
from scaler.serve.reviews import Response, encode
from scaler.sim.apiserver.patches import json_patch

GROUPS = {
    "AscendJob": "mindxdl.gitee.com",
    "Deployment": "apps",
    "Job": "batch.volcano.sh",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "StormService": "orchestration.aibrix.ai",
}
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def request(obj: object, *, operation: str = "CREATE", old: object = None, **more: Any) -> bytes:
    """An AdmissionReview as an API server sends it."""
    kind = obj.get("kind", "") if isinstance(obj, dict) else ""
    asked = {
        "uid": UID,
        "kind": {"group": GROUPS.get(kind, ""), "version": "v1", "kind": kind},
        "operation": operation,
        "namespace": "mindie",
        "object": obj,
        "oldObject": old,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        **more,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    ).encode()


def response(answer: Response) -> Object:
    """What the API server reads."""
    review = json.loads(encode(answer))
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: Object = review["response"]
    return found


def patched(obj: Object, answer: Response) -> Object:
    """The object after admission."""
    said = response(answer)
    assert said["allowed"] is True
    patch = json.loads(base64.b64decode(said["patch"])) if "patch" in said else []
    result: Object = json_patch(obj, patch)
    return result
