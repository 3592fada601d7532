"""What has happened to a service between two of its statuses, as events about it. Pure.

One change is told once, with everything that belongs to it: who was lost and why, what runs now, what it works towards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from scaler.decide.explain import counts_in_words
from scaler.decide.world import Reason, State
from scaler.kube.api import Object
from scaler.report.elastic_service import RESTING, RULE_VALID, SCALING_LIMITED
from scaler.report.scaling import number_in_words

_NAMED = 3
"""Lost instances in one message."""


class ServiceEvent(StrEnum):
    """Reasons of the events about an ElasticService, beside the names of decide.world.Warning."""

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


BAD = frozenset({ServiceEvent.UNAVAILABLE, ServiceEvent.DEGRADED, ServiceEvent.INSTANCE_LOST})
"""Events of type Warning."""


class Told(NamedTuple):
    """One event, yet without its subject."""

    reason: ServiceEvent
    message: str


def story_of(before: Object, after: Object) -> list[Told]:
    """In order, and mostly one: events of the same second have no order. Nothing when it is not known how it was."""
    if not before:
        return []
    said = [*_losses(before, after), *_of_rule(before, after), *_of_scale(before, after)]
    return said or list(_gains(before, after)) or list(_of_target(before, after))


def _of_rule(before: Object, after: Object) -> Iterator[Told]:
    was, now = before.get("rule", {}), after["rule"]
    if was.get("inForce") and now.get("inForce") not in (None, was["inForce"]):
        ratios, old = _ladder(after), _ladder(before)
        words = f"{ratios}; before: {old}" if ratios != old else f"the ratios are the same, {ratios}"
        yield Told(ServiceEvent.RULE_CHANGED, f"another rule is in force: {words}; now {_stands(after)}")
    if was.get("paused", False) != now["paused"]:
        if now["paused"]:
            yield Told(ServiceEvent.PAUSED, "the rule holds everything that does not run yet (mind-cluster/paused)")
        else:
            yield Told(ServiceEvent.RESUMED, "the rule does not pause the service any more")
    if not _holds(before, RULE_VALID) and _holds(after, RULE_VALID):
        yield Told(ServiceEvent.RULE_VALID, f"the rule is valid: {_ladder(after)}")


def _of_scale(before: Object, after: Object) -> Iterator[Told]:
    was, now = before.get("wanted", "all"), after["wanted"]
    if was != now:
        limited = next(found for found in after["conditions"] if found["type"] == SCALING_LIMITED)
        words = limited["message"] if limited["status"] == "True" else number_in_words(now)
        yield Told(ServiceEvent.SCALED, f"{words}, before {was}; {_stands(after)}")


def _losses(before: Object, after: Object) -> Iterator[Told]:
    ran, runs = before.get("currentRatio"), after.get("currentRatio")
    lost = _lost(before, after) if after["reason"] != RESTING else []
    if lost and _size(runs) <= _size(ran):
        reason = ServiceEvent.DEGRADED if _size(runs) < _size(ran) else ServiceEvent.INSTANCE_LOST
        yield Told(ServiceEvent.UNAVAILABLE if ran and not runs else reason, f"lost {_few(lost)}; {_stands(after)}")


def _gains(before: Object, after: Object) -> Iterator[Told]:
    ran, runs = before.get("currentRatio"), after.get("currentRatio")
    if after["reason"] == ServiceEvent.COMPLETE != before.get("reason"):
        yield Told(ServiceEvent.COMPLETE, _stands(after))
    elif _size(runs) > _size(ran):
        yield Told(ServiceEvent.RATIO_REACHED if ran else ServiceEvent.AVAILABLE, _stands(after))


def _of_target(before: Object, after: Object) -> Iterator[Told]:
    was, now = before.get("targetRatio"), after.get("targetRatio")
    if was and now and was["counts"] != now["counts"]:
        words = f"works towards {counts_in_words(now['counts'])}, before {counts_in_words(was['counts'])}"
        yield Told(ServiceEvent.TARGET_CHANGED, words)


def _lost(before: Object, after: Object) -> list[str]:
    """Instances that ran and do not, each with why."""
    now = {found["uid"]: found for found in after["instances"]}
    enough = after["wanted"] != "all" and after["reason"] == ServiceEvent.COMPLETE
    # one that is not there may be one that nobody misses, or that the status has no room for
    expected = enough or bool(after.get("leftOut", {}).get("instances"))
    lost = []
    for was in before.get("instances") or ():
        found = now.get(was["uid"])
        if was["state"] != State.RUNNING or (found is not None and found["state"] == State.RUNNING):
            continue
        if found["reason"] == Reason.SCALED_DOWN if found is not None else expected:
            continue
        on = f" on {', '.join(was['nodes'])}" if was.get("nodes") else ""
        why = f"{found['reason']}, {found['message']}".rstrip(".") if found is not None else GONE
        lost.append(f"{was['name']}{on} ({why})")
    return lost


GONE = "it is deleted, or its labels name another service now"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _stands(status: Object) -> str:
    """What runs, and what is worked towards."""
    current, target = status.get("currentRatio"), status.get("targetRatio")
    runs = f"runs {counts_in_words(current['counts'])}" if current else "the smallest ratio does not run"
    if status["reason"] == RESTING:
        return "the service rests"
    if status["reason"] == ServiceEvent.COMPLETE and status.get("wanted", "all") != "all":
        return runs
    if status["reason"] == ServiceEvent.COMPLETE or not target:
        return f"{runs}, the largest ratio that its jobs allow" if current else runs
    return f"{runs}, works towards {counts_in_words(target['counts'])}"


def _ladder(status: Object) -> str:
    return " > ".join(counts_in_words(counts) for counts in status.get("ratios") or ()) or "no ratio"


def _size(ratio: Object | None) -> int:
    return sum(ratio["counts"].values()) if ratio else 0


def _holds(status: Object, kind: str) -> bool:
    return all(found["status"] == "True" for found in status.get("conditions") or () if found["type"] == kind)
