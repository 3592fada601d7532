"""How an object goes away: preconditions, grace periods and finalizers, in the order in which an API server takes them.

Decides only; the server stores what comes out.
"""

from __future__ import annotations

import msgspec

from scaler.clock import rfc3339, seconds_of
from scaler.kube.api import Object
from scaler.sim.apiserver import pods, refusals
from scaler.sim.apiserver.kinds import Kind

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

_FINALIZER_OF = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a DELETE; the fields are those of KubeApi.delete."""

    uid: str = ""
    resource_version: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str = ""


def check_preconditions(kind: Kind, obj: Object, options: DeleteOptions) -> None:
    """ConflictError when uid or resourceVersion differ."""
    metadata = obj["metadata"]
    pairs = (("UID", options.uid, "uid"), ("ResourceVersion", options.resource_version, "resourceVersion"))
    for words, wanted, field in pairs:
        if wanted and wanted != metadata[field]:
            why = f"Precondition failed: {words} in precondition: {wanted}, {words} in object meta: {metadata[field]}"
            raise refusals.conflict(kind.resource, metadata["name"], why)


def ends(kind: Kind, obj: Object, options: DeleteOptions, now: float) -> bool:
    """Whether a DELETE removes the object (a private copy) at once; else its metadata is marked in place."""
    metadata = obj["metadata"]
    graceful: bool | None = False
    if kind.resource.kind == "Pod" and not kind.custom:
        graceful = _set_grace(obj, options, now)
        if graceful is None:
            return False
    _set_propagation(metadata, options.propagation_policy)
    if metadata.get("finalizers"):
        _mark(metadata, now, metadata.get("deletionGracePeriodSeconds", 0))
        return False
    return not (graceful and metadata["deletionGracePeriodSeconds"] > 0)


def is_over(obj: Object) -> bool:
    """Whether an object that was just changed has nothing left to wait for."""
    metadata = obj["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not waits


def _set_grace(pod: Object, options: DeleteOptions, now: float) -> bool | None:
    """Whether the pod has a grace period; None when nothing changes, since one under way can only be shortened."""
    metadata, period = pod["metadata"], options.grace_period_seconds
    running = metadata.get("deletionGracePeriodSeconds")
    if not metadata.get("deletionTimestamp"):
        _mark(metadata, now, pods.grace_period(pod, period))
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


def _set_propagation(metadata: Object, policy: str) -> None:
    if not policy:
        return
    finalizers = [name for name in metadata.get("finalizers") or () if name not in (FOREGROUND, ORPHAN)]
    if policy in _FINALIZER_OF:
        finalizers.append(_FINALIZER_OF[policy])
    elif policy != "Background":
        raise refusals.unprocessable(f'propagationPolicy: Unsupported value: "{policy}"')
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = finalizers
