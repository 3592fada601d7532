"""The pods of each object of a service, and why a pod is not ready. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scaler.kube.api import Object, Resource
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.console import clean
from scaler.tools.deploy.kinds import OWNERS

LONGEST_WHY = 300
Key = tuple[Resource, str]


def pods_of(
    found: Iterable[tuple[Resource, Object]], pods: Sequence[Object]
) -> dict[Key, list[Object]]:
    """Object -> its pods. Every pod belongs to one object at most."""
    owners = [(resource, obj) for resource, obj in found if resource in OWNERS]
    # pods of the others may have the label of a platform, too
    owners.sort(key=lambda one: bool(OWNERS[one[0]].pods_label))
    made: dict[Key, list[Object]] = {(resource, _name(obj)): [] for resource, obj in owners}
    for pod in pods:
        for resource, obj in owners:
            if _is_of(pod, resource, obj):
                made[resource, _name(obj)].append(pod)
                break
    return made


def _is_of(pod: Object, resource: Resource, obj: Object) -> bool:
    labels = at(pod, "metadata", "labels")
    label = OWNERS[resource].pods_label
    if label:
        return bool(labels.get(label) == _name(obj))
    selector = at(obj, "spec", "selector", "matchLabels")
    if selector:
        return all(labels.get(name) == value for name, value in selector.items())
    for owner in map(at, as_list(at(pod, "metadata").get("ownerReferences"))):
        if (owner.get("kind"), owner.get("name")) == (resource.kind, _name(obj)):
            return True
    return False


def _name(obj: Object) -> str:
    return as_text(at(obj, "metadata").get("name"))


def is_ready(pod: Object) -> bool:
    return any(
        (one.get("type"), one.get("status")) == ("Ready", "True")
        for one in map(at, as_list(at(pod, "status").get("conditions")))
    ) and not at(pod, "metadata").get("deletionTimestamp")


def why_waiting(pods: Iterable[Object]) -> str:
    """Why pods are not ready: each reason with the number of pods, the worst first; "" for none."""
    reasons = Counter(_why(pod) for pod in pods if not is_ready(pod))
    told = sorted(reasons.items(), key=lambda one: (one[0].startswith("held by"), -one[1], one[0]))
    found = []
    for why, number in told[:3]:
        found.append(f"{number} {'pod' if number == 1 else 'pods'}: {why}")
    return "; ".join(found)


def _gates(pod: Object) -> list[str]:
    """The names of the gates that hold a pod."""
    gates = as_list(at(pod, "spec").get("schedulingGates"))
    return [clean(at(gate).get("name")) for gate in gates]


def _why(pod: Object) -> str:
    if at(pod, "metadata").get("deletionTimestamp"):
        return "being deleted"
    gates = _gates(pod)
    if gates:
        return f"held by gate {', '.join(gates)}"
    status = at(pod, "status")
    for containers in ("initContainerStatuses", "containerStatuses"):
        for one in map(at, as_list(status.get(containers))):
            waiting = at(one, "state", "waiting")
            if as_text(waiting.get("reason")) not in ("", "PodInitializing", "ContainerCreating"):
                return _said(waiting)
    for condition in map(at, as_list(status.get("conditions"))):
        said = (
            condition.get("type"),
            condition.get("status"),
            condition.get("reason") == "SchedulingGated",
        )
        # the condition may still be about a gate that is off by now
        if said == ("PodScheduled", "False", False):
            return _said(condition)
    if status.get("reason"):
        return _said(status)
    phase = as_text(status.get("phase"))
    if phase == "Running":
        return "runs and is not ready yet"
    return (
        "starting"
        if at(pod, "spec").get("nodeName") and phase in ("", "Pending")
        else clean(phase or "Pending")
    )


def _said(part: Mapping[str, Any]) -> str:
    words = f"{part.get('reason') or ''}: {part.get('message') or ''}".strip(": ")
    return clean(words)[:LONGEST_WHY]
