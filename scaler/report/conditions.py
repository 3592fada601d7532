"""The status of an AscendJob, from a verdict: conditions, counts and start time. Pure.

The last condition is the present one, because the CRD's `State` column prints its type. Unlike the operator, `Running`
never keeps status True once it is not so. Conditions of other types belong to somebody else and are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.clock import rfc3339
from scaler.kube.api import Object
from scaler.plan.model import Instance, State, Verdict
from scaler.report.values import ReplicaCounts

CREATED = "Created"
RUNNING = "Running"
JOB_RUNNING = "JobRunning"
JOB_CREATED = "JobCreated"
_MAX_MESSAGE = 1024
_ADMITTED = frozenset({State.ADMITTED, State.STARTING, State.RUNNING, State.BROKEN})
_UNTOUCHED = frozenset({State.FINISHED})


class Told:
    """What one pass has to say about one job; see `status_patch`."""

    __slots__ = ("instance", "replicas", "verdict", "words")

    def __init__(
        self, instance: Instance, verdict: Verdict, words: str, replicas: Mapping[str, ReplicaCounts] | None
    ) -> None:
        self.instance = instance
        self.verdict = verdict
        self.words = words
        self.replicas = replicas


def status_patch(job: Object, told: Told, now: str) -> dict[str, Any] | None:
    """The merge patch for the job's status subresource, or None when its status already says so.

    `now` is a Kubernetes Time. The patch carries uid and resourceVersion of `job`: it fails rather than overwrite.
    A job that is being deleted or has finished for good is left as it is.
    """
    metadata = job.get("metadata") or {}
    if told.verdict.state in _UNTOUCHED or metadata.get("deletionTimestamp"):
        return None
    before = job.get("status")
    before = before if isinstance(before, dict) else {}
    status = merge_diff(before, _status(before, told, now))
    if not status and before:
        return None
    precondition = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
    return {"metadata": precondition, "status": status}


def already_told(job: Object, verdict: Verdict) -> bool:
    """Whether the job's last condition already gives this reason, e.g. written by the leader before us."""
    conditions = _conditions(job.get("status"))
    if not conditions:
        return False
    reason = JOB_RUNNING if verdict.state is State.RUNNING else verdict.reason.value
    return bool(conditions[-1].get("reason") == reason)


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that turns `before` into `after` on the keys of `after`; keys only in nested `before` go."""
    diff: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            nested = merge_diff(old, value) | {gone: None for gone in old if gone not in value}
            if nested:
                diff[key] = nested
        elif old != value or key not in before:
            diff[key] = value
    return diff


def _status(before: Mapping[str, Any], told: Told, now: str) -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": _new_conditions(_conditions(before), told, now)}
    status["replicaStatuses"] = _replica_statuses(before, told.replicas)
    if told.verdict.state in _ADMITTED and not before.get("startTime"):
        status["startTime"] = rfc3339(told.instance.admitted_at) if told.instance.admitted_at > 0 else now
    return status


def _conditions(status: object) -> list[dict[str, Any]]:
    found = status.get("conditions") if isinstance(status, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _new_conditions(before: list[dict[str, Any]], told: Told, now: str) -> list[dict[str, Any]]:
    """Foreign ones in their order, then the one of ours that is not so now, then the present one."""
    old = {str(item.get("type")): item for item in before}
    foreign = [item for item in before if item.get("type") not in (CREATED, RUNNING)]
    name = told.instance.name
    if told.verdict.state is State.RUNNING:
        created = _condition(old.get(CREATED), CREATED, True, (JOB_CREATED, f"Job {name} was created."), now)
        return [*foreign, created, _condition(old.get(RUNNING), RUNNING, True, (JOB_RUNNING, told.words), now)]
    because = (told.verdict.reason.value, told.words)
    stopped = [_condition(old[RUNNING], RUNNING, False, because, now)] if RUNNING in old else []
    return [*foreign, *stopped, _condition(old.get(CREATED), CREATED, True, because, now)]


def _condition(
    old: Mapping[str, Any] | None, kind: str, holds: bool, because: tuple[str, str], now: str
) -> dict[str, Any]:
    """`old` itself when it says the same; its lastTransitionTime moves only when its status does."""
    old = old or {}
    reason, message = because
    new = {"type": kind, "status": str(holds), "reason": reason, "message": message[:_MAX_MESSAGE]}
    if all(old.get(key) == value for key, value in new.items()):
        return dict(old)
    moved = old.get("status") != new["status"] or not old.get("lastTransitionTime")
    return {**new, "lastTransitionTime": now if moved else old["lastTransitionTime"], "lastUpdateTime": now}


def _replica_statuses(before: Mapping[str, Any], replicas: Mapping[str, ReplicaCounts] | None) -> dict[str, Any]:
    """Zeros are left out, as the operator does; without counts the ones that are there stay."""
    if replicas is None:
        kept = before.get("replicaStatuses")
        return dict(kept) if isinstance(kept, dict) else {}
    return {
        kind: {
            name: number
            for name, number in (("active", c.active), ("succeeded", c.succeeded), ("failed", c.failed))
            if number
        }
        for kind, c in replicas.items()
    }
