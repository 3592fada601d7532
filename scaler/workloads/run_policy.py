"""What an AscendJob says about restarts and its end, and what was noted on it so far. Pure, never raises.

Whatever has no meaning counts as not said: a limit that is no number limits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scaler.clock import seconds_of
from scaler.decide.life import CleanPods, Ending, RunPolicy
from scaler.kube.api import Object
from scaler.names import ROUNDS_ANNOTATION
from scaler.rules.values import as_list, as_text, at
from scaler.workloads.kind import number_in

RETRIES_LABEL = "fault-retry-times"
NOT_FOR_GOOD = "JobValidFailed"
"""Reason of a Failed condition that Ascend Operator gives to a job it cannot read: mending the job lifts it here."""
_LONGEST = 10**9
"""Seconds, and restarts: more mean the same."""


def read_run_policy(obj: Object) -> RunPolicy:
    """`finished_at` is 0.0 for a job that has not finished."""
    meta, status, spec = (at(obj, part) for part in ("metadata", "status", "spec"))
    policy, final = at(spec, "runPolicy"), final_condition(obj)
    retries = min(number_in(as_text(at(meta, "labels").get(RETRIES_LABEL)), largest=10**18), _LONGEST)
    limit = _number(policy.get("backoffLimit"))
    # Ascend Operator leaves out the completion time of some failures: then it is that of the condition.
    finished = (status.get("completionTime"), final.get("lastTransitionTime")) if final is not None else ()
    return RunPolicy(
        backoff_limit=(retries if limit is None else limit) or 0,
        retries=bool(retries),
        clean=_clean(policy.get("cleanPodPolicy"), final),
        ttl=_number(policy.get("ttlSecondsAfterFinished")),
        deadline=_number(policy.get("activeDeadlineSeconds")),
        all_workers=spec.get("successPolicy") == "AllWorkers",
        started_at=seconds_of(as_text(status.get("startTime"))),
        finished_at=next((time for text in finished if (time := seconds_of(as_text(text)))), 0.0),
        rounds=_rounds(meta),
    )


def rounds_patch(uid: str, rounds: int) -> dict[str, Any]:
    """The merge patch that notes on the job with this uid how often it has been whole."""
    return {"metadata": {"uid": uid, "annotations": {ROUNDS_ANNOTATION: f"{rounds}.{uid}"}}}


def final_condition(obj: Object) -> Mapping[str, Any] | None:
    """The condition that says that the job has succeeded or failed for good; None while it has not."""
    return next((end for end in _ends(obj) if end.get("reason") != NOT_FOR_GOOD), None)


def refusal(obj: Object) -> str:
    """Why Ascend Operator could not read the job, in its own words; "" when it could. The operator looks no more at a
    job that it has refused, whatever is edited."""
    found = next((end for end in _ends(obj) if end.get("reason") == NOT_FOR_GOOD), None)
    return as_text(found.get("message")).rstrip(".") or NOT_FOR_GOOD if found is not None else ""


def _ends(obj: Object) -> Iterator[Mapping[str, Any]]:
    for condition in map(at, as_list(at(obj, "status").get("conditions"))):
        if condition.get("type") in ("Succeeded", "Failed") and condition.get("status") == "True":
            yield condition


def has_failed(obj: Object) -> bool:
    """Whether it has failed for good."""
    return (final_condition(obj) or {}).get("type") == "Failed"


def _rounds(meta: Mapping[str, Any]) -> int:
    number, _, uid = as_text(at(meta, "annotations").get(ROUNDS_ANNOTATION)).partition(".")
    return number_in(number, largest=10**9 - 1) if uid and uid == meta.get("uid") else 0


def _clean(value: object, final: Mapping[str, Any] | None) -> CleanPods:
    """Unset is Running here: a job that has ended holds no NPUs. But what another controller ended, perhaps by mistake,
    goes on as that one left it. What nobody knows touches as little as it can."""
    if value is None or value == "":
        ours = final is None or final.get("reason") in [ending.value for ending in Ending]
        return CleanPods.RUNNING if ours else CleanPods.NONE
    return next((policy for policy in CleanPods if policy.value == value), CleanPods.NONE)


def _number(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return min(value, _LONGEST)
