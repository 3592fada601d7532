"""What an AscendJob says about restarts and its end, and what was noted on it so far. Pure, never raises.

Whatever has no meaning counts as not said: a limit that is no number limits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scaler.clock import seconds_of
from scaler.decide.life import CleanPods, Ending, RunPolicy
from scaler.kube.api import Object
from scaler.names import ROUNDS_ANNOTATION

RETRIES_LABEL = "fault-retry-times"
NOT_FOR_GOOD = "JobValidFailed"
"""Reason of a Failed condition that Ascend Operator gives to a job it cannot read: mending the job lifts it here."""
_LONGEST = 10**9
"""Seconds, and restarts: more mean the same."""


def read_run_policy(obj: Object) -> RunPolicy:
    """`finished_at` is 0.0 for a job that has not finished."""
    meta, status = _mapping(obj.get("metadata")), _mapping(obj.get("status"))
    spec = _mapping(obj.get("spec"))
    policy = _mapping(spec.get("runPolicy"))
    retries = _retries(_mapping(meta.get("labels")))
    limit = _number(policy.get("backoffLimit"))
    return RunPolicy(
        backoff_limit=(retries if limit is None else limit) or 0,
        retries=bool(retries),
        clean=_clean(policy.get("cleanPodPolicy"), final_condition(obj)),
        ttl=_number(policy.get("ttlSecondsAfterFinished")),
        deadline=_number(policy.get("activeDeadlineSeconds")),
        all_workers=spec.get("successPolicy") == "AllWorkers",
        started_at=seconds_of(_text(status.get("startTime"))),
        finished_at=_finished_at(obj),
        rounds=_rounds(meta),
    )


def rounds_patch(uid: str, rounds: int) -> dict[str, Any]:
    """The merge patch that notes on the job with this uid how often it has been whole."""
    return {"metadata": {"uid": uid, "annotations": {ROUNDS_ANNOTATION: f"{rounds}.{uid}"}}}


def final_condition(obj: Object) -> Mapping[str, Any] | None:
    """The condition that says that the job has succeeded or failed for good; None while it has not."""
    conditions = _mapping(obj.get("status")).get("conditions")
    for condition in map(_mapping, conditions if isinstance(conditions, list) else ()):
        final = condition.get("type") in ("Succeeded", "Failed") and condition.get("status") == "True"
        if final and condition.get("reason") != NOT_FOR_GOOD:
            return condition
    return None


def refusal(obj: Object) -> str:
    """Why Ascend Operator could not read the job, in its own words; "" when it could. The operator looks no more at a
    job that it has refused, whatever is edited."""
    conditions = _mapping(obj.get("status")).get("conditions")
    for condition in map(_mapping, conditions if isinstance(conditions, list) else ()):
        failed = condition.get("type") == "Failed" and condition.get("status") == "True"
        if failed and condition.get("reason") == NOT_FOR_GOOD:
            return _text(condition.get("message")).rstrip(".") or NOT_FOR_GOOD
    return ""


def has_failed(obj: Object) -> bool:
    """Whether it has failed for good."""
    return (final_condition(obj) or {}).get("type") == "Failed"


def _finished_at(obj: Object) -> float:
    """Ascend Operator leaves out the completion time of some failures: then it is that of the condition."""
    final = final_condition(obj)
    if final is None:
        return 0.0
    completed = seconds_of(_text(_mapping(obj.get("status")).get("completionTime")))
    return completed or seconds_of(_text(final.get("lastTransitionTime")))


def _rounds(meta: Mapping[str, Any]) -> int:
    number, _, uid = _text(_mapping(meta.get("annotations")).get(ROUNDS_ANNOTATION)).partition(".")
    return int(number) if uid and uid == meta.get("uid") and re.fullmatch("[0-9]{1,9}", number) else 0


def _retries(labels: Mapping[str, Any]) -> int:
    text = _text(labels.get(RETRIES_LABEL))
    return min(int(text), _LONGEST) if re.fullmatch("[0-9]{1,18}", text) else 0


def _clean(value: object, final: Mapping[str, Any] | None) -> CleanPods:
    """Unset is Running here: a job that has ended holds no NPUs. But what another controller ended, perhaps by mistake,
    goes on as that one left it. What nobody knows touches as little as it can."""
    if value is None or value == "":
        ours = final is None or final.get("reason") in [ending.value for ending in Ending]
        return CleanPods.RUNNING if ours else CleanPods.NONE
    return next((policy for policy in CleanPods if policy.value == value), CleanPods.NONE)


def _number(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return min(value, _LONGEST) if whole and isinstance(value, int) and value >= 0 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
