"""The status that Ascend Operator writes into its AscendJobs, by the update rules of the library it uses. Pure.

Its conditions cannot be trusted after the first fault, and are not mended here: people and the scaler meet them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors import objects

NO_SCHEDULER = (
    "volcano-scheduler is maybe not running, execute command to check the status: "
    "kubectl get pod -n volcano-system -l app=volcano-scheduler"
)


class Told(msgspec.Struct, frozen=True):
    """One condition that is to be told: its type, reason and message."""

    kind: str
    reason: str
    message: str


def not_scheduled(phase: str) -> Told:
    """The PodGroup has no phase yet, or there is no room for it."""
    if not phase:
        return Told("Created", "PodGroupNotInitialized", NO_SCHEDULER)
    return Told("Created", "PodGroupPending", "the cluster resource is not enough")


def of_pods(job: Object, pods: Iterable[Object], *, retries_left: int) -> Told | None:
    """The condition that the pods' phases give; None when they say nothing."""
    place = f"{objects.namespace(job)}/{objects.name(job)}"
    phases = {objects.phase(pod) for pod in pods if not (objects.phase(pod) == "Failed" and objects.terminating(pod))}
    if "Failed" in phases:
        if retries_left < 1:
            return Told("Failed", "JobFailed", f"Job {place} has failed because has pod failed.")
        words = f"Job {place} is unconditional retry job and remain retry times is {retries_left}."
        return Told("Restarting", "JobRestarting", words)
    if "Running" in phases:
        return Told("Running", "JobRunning", f"Job {place} is running.")
    if phases == {"Succeeded"}:
        return Told("Succeeded", "JobRunning", f"Job{place.replace('/', '-')} successfully completed.")
    return None


def updated(status: Mapping[str, Any], told: Told | None, now: str) -> Object:
    """The status after a condition was told.

    Failed is final; the same reason again changes nothing, not even the place; Running and Restarting replace each
    other; an end sets Running to False.
    """
    old = [dict(condition) for condition in status.get("conditions") or []]
    result: Object = {**status, "conditions": old, "replicaStatuses": dict(status.get("replicaStatuses") or {})}
    present = {(c["type"], c["status"], c["reason"]) for c in old}
    if told is None or _holds(old, "Failed") or (told.kind, "True", told.reason) in present:
        return result
    since = next((c["lastTransitionTime"] for c in old if c["type"] == told.kind and c["status"] == "True"), now)
    kept = [condition for condition in old if condition["type"] != told.kind]
    if told.kind in ("Running", "Restarting"):
        kept = [condition for condition in kept if condition["type"] not in ("Running", "Restarting")]
    if told.kind in ("Failed", "Succeeded"):
        result["completionTime"] = now
        kept = [{**c, "status": "False"} if c["type"] == "Running" else c for c in kept]
    new = {"type": told.kind, "status": "True", "reason": told.reason, "message": told.message}
    result["conditions"] = [*kept, {**new, "lastTransitionTime": since, "lastUpdateTime": now}]
    return result


def replica_statuses(pods: Mapping[str, list[Object]]) -> Object:
    """Running, succeeded and failed pods per replica type; zeros and pending pods are in no counter."""
    counters = (("active", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed"))
    return {
        kind: {
            name: number
            for name, phase in counters
            if (number := sum(objects.phase(pod) == phase for pod in members if not _failing(pod)))
        }
        for kind, members in pods.items()
    }


def finished(status: Mapping[str, Any]) -> bool:
    """Succeeded or Failed, whatever the reason: there is no way back."""
    conditions = status.get("conditions") or []
    return _holds(conditions, "Failed") or _holds(conditions, "Succeeded")


def _failing(pod: Object) -> bool:
    return objects.phase(pod) == "Failed" and objects.terminating(pod)


def _holds(conditions: Iterable[Mapping[str, Any]], kind: str) -> bool:
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)
