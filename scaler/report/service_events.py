"""The events about an ElasticService, from its status before and after: one event says one change
in full. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from scaler.decide.explain import counts_in_words
from scaler.kube.api import Object
from scaler.report.losses import NAMED, as_cause, lost_between
from scaler.report.service_status import (
    RESTING,
    RULE_VALID,
    SCALING_LIMITED,
    Statement,
    in_order,
    number_in_words,
    runs_all,
    runs_in_words,
    runs_more,
)


class ServiceEventReason(StrEnum):
    """Reasons of the events about an ElasticService, beside the names in reasons/warnings.py."""

    UNAVAILABLE = "Unavailable"
    DEGRADED = "Degraded"
    INSTANCE_LOST = "InstanceLost"
    AVAILABLE = "Available"
    RATIO_REACHED = "RatioReached"
    COMPLETE = "Complete"
    TARGET_CHANGED = "TargetChanged"
    SCALED = "Scaled"
    RULE_CHANGED = "RuleChanged"
    RULE_VALID = "RuleValid"
    PAUSED = "Paused"
    RESUMED = "Resumed"


WARNINGS = frozenset(
    {ServiceEventReason.UNAVAILABLE, ServiceEventReason.DEGRADED, ServiceEventReason.INSTANCE_LOST}
)
"""Events of type Warning."""


def service_events(before: Object, after: Object) -> list[Statement]:
    """The events in order, mostly one: events of the same second have no order. None without a
    status before."""
    if not before:
        return []
    found = [*_losses(before, after), *_of_rule(before, after), *_of_scale(before, after)]
    return found or list(_gains(before, after))


def _of_rule(before: Object, after: Object) -> Iterator[Statement]:
    was = before.get("rule", {})
    now = after["rule"]
    if was.get("inForce") and now.get("inForce") not in (None, was["inForce"]):
        ratios = _ladder(after)
        old = _ladder(before)
        words = (
            f"{ratios}; before: {old}" if ratios != old else f"the ratios are the same, {ratios}"
        )
        yield Statement(
            ServiceEventReason.RULE_CHANGED,
            f"another rule is in force: {words}; now {_runs(after)}",
        )
    if now["paused"] and not was.get("paused", False):
        words = "the rule holds everything that does not run yet (mind-cluster/paused)"
        yield Statement(ServiceEventReason.PAUSED, words)
    if was.get("paused", False) and not now["paused"]:
        yield Statement(ServiceEventReason.RESUMED, "the rule does not pause the service any more")
    if not _holds(before, RULE_VALID) and _holds(after, RULE_VALID):
        yield Statement(ServiceEventReason.RULE_VALID, f"the rule is valid: {_ladder(after)}")


def _of_scale(before: Object, after: Object) -> Iterator[Statement]:
    was = before.get("wanted", "all")
    now = after["wanted"]
    if was != now:
        limited = next(found for found in after["conditions"] if found["type"] == SCALING_LIMITED)
        words = limited["message"] if limited["status"] == "True" else number_in_words(now)
        yield Statement(ServiceEventReason.SCALED, f"{words}, before {was}; {_runs(after)}")


def _losses(before: Object, after: Object) -> Iterator[Statement]:
    ran = before.get("currentRatio")
    runs = after.get("currentRatio")
    lost = _lost(before, after) if after["reason"] != RESTING else []
    if lost and _size(runs) <= _size(ran):
        reason = (
            ServiceEventReason.DEGRADED
            if _size(runs) < _size(ran)
            else ServiceEventReason.INSTANCE_LOST
        )
        if ran and not runs:
            reason = ServiceEventReason.UNAVAILABLE
        more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
        yield Statement(reason, f"lost {', '.join(lost[:NAMED])}{more}; {_runs(after)}")


def _gains(before: Object, after: Object) -> Iterator[Statement]:
    ran = before.get("currentRatio")
    runs = after.get("currentRatio")
    was = before.get("targetRatio")
    now = after.get("targetRatio")
    if runs_all(after) and not runs_all(before):
        yield Statement(ServiceEventReason.COMPLETE, _runs(after))
    elif _size(runs) > _size(ran):
        yield Statement(
            ServiceEventReason.RATIO_REACHED if ran else ServiceEventReason.AVAILABLE, _runs(after)
        )
    elif was and now and was["counts"] != now["counts"]:
        then = counts_in_words(in_order(after, was["counts"]))
        towards = f"works towards {counts_in_words(now['counts'])}, before {then}"
        yield Statement(ServiceEventReason.TARGET_CHANGED, towards)


def _lost(before: Object, after: Object) -> list[str]:
    """Instances that ran before and do not run now, each with the reason."""
    enough = after["wanted"] != "all" and runs_all(after)
    # a missing instance may be one that spec.replicas leaves out, or that did not fit into the
    # status
    expected = enough or bool(after.get("leftOut", {}).get("instances"))
    causes = {loss["name"]: loss["cause"] for loss in after.get("lost") or ()}
    lost = []
    for was, found in lost_between(before, after["instances"]):
        if found is None and expected:
            continue
        on = f" on {', '.join(was['nodes'])}" if was.get("nodes") else ""
        lost.append(f"{was['name']}{on} ({causes.get(was['name']) or as_cause(found)})")
    return lost


def _runs(status: Object) -> str:
    """`runs 1 group0 + 1 group1, works towards 2 group0 + 1 group1`."""
    current = status.get("currentRatio")
    target = status.get("targetRatio")
    runs = runs_in_words(status)
    if status["reason"] == RESTING:
        return "the service rests"
    if runs_all(status) and status.get("wanted", "all") != "all":
        return runs
    if runs_all(status) and current and target and runs_more(status):
        allowed = counts_in_words(target["counts"])
        return f"{runs}, more than the largest ratio that its jobs allow, {allowed}"
    if runs_all(status) or not target:
        return f"{runs}, the largest ratio that its jobs allow" if current else runs
    return f"{runs}, works towards {counts_in_words(target['counts'])}"


def _ladder(status: Object) -> str:
    ratios = []
    for counts in status.get("ratios") or ():
        ratios.append(counts_in_words(in_order(status, counts)))
    return " > ".join(ratios) or "no ratio"


def _size(ratio: Object | None) -> int:
    return sum(ratio["counts"].values()) if ratio else 0


def _holds(status: Object, kind: str) -> bool:
    for found in status.get("conditions") or ():
        if found["type"] == kind and found["status"] != "True":
            return False
    return True
