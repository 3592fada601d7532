"""The deletion of an object: preconditions, grace periods and finalizers, in the order of an API server.

Decides only; the server stores the result.
"""

from __future__ import annotations

from scaler.clock import rfc3339, seconds_of
from scaler.kube.api import Object
from scaler.sim.apiserver import refusals
from scaler.sim.apiserver.kinds import Kind

_FINALIZER_OF = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


def check_preconditions(kind: Kind, obj: Object, uid: str = "", resource_version: str = "") -> None:
    """ConflictError when uid or resourceVersion are given and differ."""
    metadata = obj["metadata"]
    pairs = (("UID", uid, "uid"), ("ResourceVersion", resource_version, "resourceVersion"))
    for words, wanted, field in pairs:
        if wanted and wanted != metadata[field]:
            why = f"Precondition failed: {words} in precondition: {wanted}, {words} in object meta: {metadata[field]}"
            raise refusals.conflict(kind.resource, metadata["name"], why)


def ends(kind: Kind, obj: Object, now: float, grace: int | None, propagation_policy: str) -> bool:
    """Whether a DELETE removes the object (a private copy) at once; else its metadata is marked in place."""
    metadata = obj["metadata"]
    graceful = _set_grace(obj, grace, now) if kind.built_in == "Pod" else False
    if graceful is None:
        return False
    if propagation_policy not in ("", "Background", *_FINALIZER_OF):
        raise refusals.unprocessable(f'propagationPolicy: Unsupported value: "{propagation_policy}"')
    if propagation_policy:
        finalizers = [name for name in metadata.pop("finalizers", ()) if name not in _FINALIZER_OF.values()]
        finalizers += [_FINALIZER_OF[propagation_policy]] if propagation_policy in _FINALIZER_OF else []
        metadata |= {"finalizers": finalizers} if finalizers else {}
    if metadata.get("finalizers"):
        _mark(metadata, now, metadata.get("deletionGracePeriodSeconds", 0))
        return False
    return not (graceful and metadata["deletionGracePeriodSeconds"] > 0)


def is_over(obj: Object) -> bool:
    """Whether nothing delays the deletion of a changed object any more."""
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not waits


def _set_grace(pod: Object, period: int | None, now: float) -> bool | None:
    """Whether the pod has a grace period; None when nothing changes, because a running period can only be shortened."""
    metadata = pod["metadata"]
    running = metadata.get("deletionGracePeriodSeconds")
    if not metadata.get("deletionTimestamp"):
        seconds = pod["spec"].get("terminationGracePeriodSeconds", 30) if period is None else period
        if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Failed", "Succeeded"):
            seconds = 0
        _mark(metadata, now, max(1, seconds) if seconds < 0 else seconds)
        return True
    if not running:
        return False
    if period is None or period >= running:
        return None
    start = seconds_of(metadata["deletionTimestamp"]) - running
    metadata |= {"deletionTimestamp": rfc3339(start + period), "deletionGracePeriodSeconds": period}
    return True


def _mark(metadata: Object, now: float, grace: int) -> None:
    if metadata.get("deletionTimestamp"):
        return
    metadata["deletionTimestamp"] = rfc3339(now + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata:
        metadata["generation"] += 1
