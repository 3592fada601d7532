"""What may be done to pods that others made, judged from the bare objects before and after. Pure.

Knows Kubernetes objects and the contract, and none of the controller's code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from scaler.kube.api import Object

GATE = "mind-cluster/hold"
COST, HELD_COST = "controller.kubernetes.io/pod-deletion-cost", "-1000000000"
GROUP_NAME = "scheduling.k8s.io/group-name"
RULE = "mind-cluster/scaling-rule"
KEEP = "mind-cluster/keep"
_VERSION = tuple(("metadata", name) for name in ("resourceVersion", "generation", "managedFields"))


def gates_of(pod: Object) -> list[str]:
    return [str(gate["name"]) for gate in pod["spec"].get("schedulingGates") or []]


def held(pod: Object) -> bool:
    return GATE in gates_of(pod)


def only_keeps(before: Object, after: Object) -> bool:
    """Whether a patch said of a pod that no eviction is allowed, or that it is, and nothing else."""
    old, new = (obj["metadata"].get("labels", {}).get(KEEP) for obj in (before, after))
    label = ("metadata", "labels", KEEP)
    return {old, new} == {None, "true"} and apart_from(before, label) == apart_from(after, label)


def apart_from(obj: Object, *paths: tuple[str, ...]) -> Object:
    """What an object says besides its version and these fields."""
    return reduce(_without, (*_VERSION, *paths), obj)


def _without(obj: Object, path: Sequence[str]) -> Object:
    name, *rest = path
    if rest:
        return {**obj, name: _without(obj.get(name) or {}, rest)}
    return {key: value for key, value in obj.items() if key != name}


def wrong_patch(before: Object, after: Object, body: Any) -> Iterator[str]:
    """S8: everything that a patch did to a pod besides taking our gate off, or that it did not mean this pod only."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if (metadata or {}).get("uid") != before["metadata"]["uid"]:
        yield "names no uid, or another pod's"
    if gates_of(after) not in (gates_of(before), [gate for gate in gates_of(before) if gate != GATE]):
        yield f"gates {gates_of(before)} became {gates_of(after)}"
    changed = _changed(before["metadata"].get("annotations") or {}, after["metadata"].get("annotations") or {})
    for key, (old, new) in changed.items():
        named = key == GROUP_NAME and new is not None and not before["spec"].get("nodeName")
        if not named and not (key == COST and old == HELD_COST and new is None):
            yield f"annotation {key}: {old} became {new}"
    ours = ("metadata", "annotations"), ("spec", "schedulingGates")
    if apart_from(before, *ours) != apart_from(after, *ours):
        yield "changed more than gate and annotations"


def wrong_group_patch(before: Object, after: Object) -> Iterator[str]:
    """S8: everything that a patch did to an instance's own PodGroup besides giving it owners that are pods."""
    old, new = (obj["metadata"].get("ownerReferences") or [] for obj in (before, after))
    if new[: len(old)] != old or any(owner["kind"] != "Pod" or owner["controller"] for owner in new[len(old) :]):
        yield f"owners {old} became {new}"
    owners = ("metadata", "ownerReferences")
    if apart_from(before, owners) != apart_from(after, owners):
        yield "changed more than its owners"


def wrong_volcano_group_patch(before: Object, after: Object) -> Iterator[str]:
    """S8: everything that a patch did to a PodGroup of Volcano's making besides letting it keep no room."""
    freed = {**before["spec"], "minResources": {}}
    if after["spec"] != freed:
        yield f"spec {before['spec']} became {after['spec']}"
    if apart_from(before, ("spec",)) != apart_from(after, ("spec",)):
        yield "changed more than the room that it keeps"


def _changed(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    keys = sorted(before.keys() | after.keys())
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
