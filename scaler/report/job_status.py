"""The status of an AscendJob: conditions, counts, start and completion time, and the one request
that writes it. Two components send it: report.reporter while the job lives, execute.executor when
the job ends (`final_patch`), as an action that has to succeed.

The present condition is the last of the list, because the CRD's `State` column prints the type of
that one. `Running` is True only while all pods run, never longer, unlike with the operator.
Conditions of other types are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.decide.decision import State, Verdict
from scaler.kube.api import ASCEND_JOBS, Object, PatchType
from scaler.kube.writer import Writer
from scaler.report.service_reports import InstanceReport, ReplicaStatuses
from scaler.rules.values import as_list, at
from scaler.timestamps import rfc3339
from scaler.workloads.ascendjob import final_condition

CREATED = "Created"
RUNNING = "Running"
RESTARTING = "Restarting"
_OURS = (CREATED, RUNNING, RESTARTING, "Succeeded", "Failed")
JOB_RUNNING = "JobRunning"
_MAX_MESSAGE = 1024
_ADMITTED = frozenset({State.ADMITTED, State.STARTING, State.RUNNING, State.BROKEN})
_ON_ITS_WAY = frozenset({State.ADMITTED, State.STARTING})


async def write_status(writer: Writer, job: Object, patch: Object) -> Object:
    """Send a patch of this module; returns the job after it. KubeError: ConflictError for a job
    that has changed."""
    namespace = job["metadata"]["namespace"]
    name = job["metadata"]["name"]
    return await writer.patch(
        ASCEND_JOBS, namespace, name, patch, patch_type=PatchType.MERGE, subresource="status"
    )


def status_patch(job: Object, report: InstanceReport, started: float, now: str) -> Object | None:
    """The merge patch for the job's status subresource; None if it is already so, and for a job
    that has ended or goes.

    `started` is the creation time of its oldest pod, by the API server's clock, 0.0 without pods;
    `now` is a Kubernetes Time. The patch has uid and resourceVersion of `job`, so it cannot
    overwrite a newer version."""
    state = report.verdict.state
    if (
        at(job, "metadata").get("deletionTimestamp")
        or state is State.FINISHED
        or final_condition(job) is not None
    ):
        return None
    conditions = _new_conditions(_conditions(job), report, now)
    first = rfc3339(started) if started > 0 else now
    begun = first if state in _ADMITTED else ""
    patch = _patch(job, {"conditions": conditions, "replicaStatuses": report.replicas}, begun)
    return patch if patch["status"] or not at(job, "status") else None


def final_patch(
    job: Object, ending: tuple[str, str, str], counts: ReplicaStatuses, started: float, now: str
) -> Object:
    """As `status_patch`, for a job that ends now: `ending` is the type of its last condition, with
    reason and message.

    It is the last status, so it also has the counts and start time that `status_patch` may not have
    written yet."""
    kind = ending[0]
    because = ending[1:]
    found = _conditions(job)
    kept = [item for item in found if item.get("type") not in _OURS or item.get("type") == CREATED]
    stopped = [
        _condition(item, RUNNING, False, because, now)
        for item in found
        if item.get("type") == RUNNING
    ]
    last = _condition(None, kind, True, because, now)
    status = {
        "conditions": [*kept, *stopped, last],
        "replicaStatuses": counts,
        "completionTime": now,
    }
    return _patch(job, status, rfc3339(started) if started > 0 else "")


def _patch(job: Object, after: Mapping[str, Any], begun: str) -> Object:
    """The merge patch to the status `after`. `begun`: the start time, if the job has none yet; ""
    before its start."""
    metadata = at(job, "metadata")
    before = at(job, "status")
    start = {"startTime": begun} if begun and not before.get("startTime") else {}
    precondition = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
    return {"metadata": precondition, "status": merge_diff(before, {**after, **start})}


def already_says(job: Object, verdict: Verdict) -> bool:
    """Whether the job's last condition already has this reason, for example written by the previous
    leader."""
    if verdict.state is State.FINISHED:
        return final_condition(job) is not None
    reason = JOB_RUNNING if verdict.state is State.RUNNING else verdict.reason.value
    return any(last.get("reason") == reason for last in _conditions(job)[-1:])


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """The merge patch from `before` to `after` on the keys of `after`; keys only in nested `before`
    are removed."""
    diff: Object = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            nested = merge_diff(old, value)
            for gone in old:
                if gone not in value:
                    nested[gone] = None
            if nested:
                diff[key] = nested
        elif old != value or key not in before:
            diff[key] = value
    return diff


def _conditions(job: Object) -> list[Object]:
    return [item for item in as_list(at(job, "status").get("conditions")) if isinstance(item, dict)]


def _new_conditions(before: list[Object], report: InstanceReport, now: str) -> list[Object]:
    """Conditions of others in their order, then those of ours that are False now, then the present
    one."""
    old = {str(item.get("type")): item for item in before}
    foreign = [item for item in before if item.get("type") not in _OURS]
    as_created = ("JobCreated", f"Job {report.instance.name} was created.")
    created = _condition(old.get(CREATED), CREATED, True, as_created, now)
    if report.verdict.state is State.RUNNING:
        return [
            *foreign,
            created,
            _condition(old.get(RUNNING), RUNNING, True, (JOB_RUNNING, report.words), now),
        ]
    because = (report.verdict.reason.value, report.words)
    stopped = [_condition(old[RUNNING], RUNNING, False, because, now)] if RUNNING in old else []
    if not _starts_again(report):
        return [*foreign, *stopped, _condition(old.get(CREATED), CREATED, True, because, now)]
    return [
        *foreign,
        created,
        *stopped,
        _condition(old.get(RESTARTING), RESTARTING, True, because, now),
    ]


def _starts_again(report: InstanceReport) -> bool:
    """Whether the job was whole before and its pods start once more. A held job waits, as before
    its first start."""
    state = report.verdict.state
    if state is State.BROKEN:
        return True
    if state not in _ON_ITS_WAY or not report.instance.life.policy.rounds:
        return False
    # The first round is counted as soon as its pods are bound: they start for the first time.
    instance = report.instance
    return instance.life.version > 0 or instance.pods < instance.expected


def _condition(
    old: Object | None, kind: str, holds: bool, because: tuple[str, str], now: str
) -> Object:
    """`old` itself when nothing differs; lastTransitionTime changes only when the condition's
    status does."""
    old = old or {}
    reason, message = because
    new = {"type": kind, "status": str(holds), "reason": reason, "message": message[:_MAX_MESSAGE]}
    if all(old.get(key) == value for key, value in new.items()):
        return dict(old)
    moved = old.get("status") != new["status"] or not old.get("lastTransitionTime")
    return {
        **new,
        "lastTransitionTime": now if moved else old["lastTransitionTime"],
        "lastUpdateTime": now,
    }
