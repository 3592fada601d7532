"""The conditions that Volcano with MindCluster's plugin writes on PodGroups and on pods that wait.

Those of a PodGroup stand side by side, one for each reason, and none is ever removed: which of them
hold is told by `transitionID`, the session that wrote them last. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.kube.api import Object
from scaler.sim.actors import objects

UNSCHEDULABLE = "Unschedulable"
READY = "tasks in gang are ready to be scheduled"
NO_PODS = ""
_TOLD_APART = ("lastTransitionTime", "transitionID")


def conditions_after(
    group: Object, reasons: Mapping[str, str], gang: str, now: str
) -> list[Object] | None:
    """The PodGroup's conditions after a session; None if nothing but times would change.

    `reasons` are those of the plugin, with their messages; `gang` is READY, NO_PODS, or what is
    said of a gang that waits."""
    before: list[Object] = objects.status(group).get("conditions") or []
    after = list(before)
    if gang == READY:
        _put(after, _condition("Scheduled", READY, "", now), by_reason=False)
    else:
        if gang != NO_PODS:
            _put(after, _condition(UNSCHEDULABLE, "NotEnoughResources", gang, now), by_reason=False)
        for reason, message in reasons.items():
            _put(after, _condition(UNSCHEDULABLE, reason, message, now), by_reason=True)
    unchanged = list(map(_lasting, before)) == list(map(_lasting, after))
    return None if unchanged else after


def pod_conditions_after(pod: Object, reason: tuple[str, str], now: str) -> list[Object] | None:
    """The conditions of a pod that was not bound, by reason and message; None if they say so
    already."""
    before: list[Object] = objects.status(pod).get("conditions") or []
    why, message = reason
    scheduled = objects.condition(pod, "PodScheduled")
    if (scheduled.get("reason"), scheduled.get("message")) == (why, message):
        return None
    others = [one for one in before if one.get("type") != "PodScheduled"]
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": why,
        "message": message,
        "lastTransitionTime": now,
    }
    return [*others, said]


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "transitionID": now,
    }


def _put(conditions: list[Object], new: Object, *, by_reason: bool) -> None:
    """In place of the first of the same type (and reason), else at the end."""
    for index, one in enumerate(conditions):
        same = one.get("type") == new["type"]
        if same and (not by_reason or one.get("reason") == new["reason"]):
            conditions[index] = new
            return
    conditions.append(new)


def _lasting(condition: Object) -> Object:
    return {key: value for key, value in condition.items() if key not in _TOLD_APART}
