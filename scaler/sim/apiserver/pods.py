"""The API server's rules for pods: defaults, scheduling gates, binding, and the fields of the spec
that may change.

Only the defaults that a controller or a scheduler reads, not all of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaler.kube.api import PODS, Object
from scaler.sim.apiserver import refusals

_SPEC_DEFAULTS: dict[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
_SYSTEM_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Classes that every cluster has."""
_IMMUTABLE = (
    "spec: Forbidden: pod updates may not change fields other than"
    " `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations`"
    " (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be"
    " set to 1 if it was previously negative)"
)


def prepare(pod: Object) -> None:
    """Fills in defaults and the status of a pod about to be created, in place."""
    fill_defaults(pod)
    spec = pod["spec"]
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        words = "Scheduling is blocked due to non-empty scheduling gates"
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": words,
        }
        pod["status"]["conditions"] = [gated]


def prioritize(pod: Object, classes: Mapping[str, Object]) -> None:
    """Gives a pod about to be created the priority of its PriorityClass, or of the default class,
    in place; refuses a class that does not exist. `classes`: by name."""
    spec = pod.setdefault("spec", {})
    name = str(spec.get("priorityClassName") or _default_class(classes))
    if not name:
        return
    if name not in classes and name not in _SYSTEM_CLASSES:
        words = f"no PriorityClass with name {name} was found"
        raise refusals.forbidden(PODS, str(pod["metadata"]["name"]), words)
    spec["priorityClassName"] = name
    found = classes.get(name)
    spec["priority"] = int(found["value"]) if found else _SYSTEM_CLASSES[name]


def _default_class(classes: Mapping[str, Object]) -> str:
    """Of several defaults the one of the lowest value; "" without one."""
    defaults = []
    for name, one in classes.items():
        if one.get("globalDefault") is True:
            defaults.append((int(one["value"]), name))
    return min(defaults)[1] if defaults else ""


def fill_defaults(pod: Object) -> None:
    """Fills in the fields that a create or a PUT may leave out of the spec, in place."""
    spec = pod.setdefault("spec", {})
    if not spec.get("schedulingGates"):
        spec.pop("schedulingGates", None)
    for name, value in _SPEC_DEFAULTS.items():
        spec.setdefault(name, value.copy() if isinstance(value, dict) else value)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        _fill_container(container)


def _fill_container(container: Object) -> None:
    image = str(container.get("image", ""))
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")


def _qos_class(spec: Object) -> str:
    guaranteed = True
    says_nothing = True
    for container in spec.get("containers") or ():
        limits = _cpu_and_memory(container["resources"].get("limits"))
        requests = _cpu_and_memory(container["resources"].get("requests"))
        says_nothing = says_nothing and not limits and not requests
        guaranteed = guaranteed and len(limits) == 2 and limits == requests
    if says_nothing:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _cpu_and_memory(amounts: Object | None) -> Object:
    return {name: amount for name, amount in (amounts or {}).items() if name in ("cpu", "memory")}


def create_problems(pod: Object) -> Iterator[str]:
    """Why a pod must not be created."""
    spec = pod["spec"]
    containers = spec.get("containers") or ()
    gates = spec.get("schedulingGates") or ()
    if not containers:
        yield "spec.containers: Required value"
    yield from _naming_problems("spec.containers", containers)
    for index, container in enumerate(containers):
        if not container.get("image"):
            yield f"spec.containers[{index}].image: Required value"
        for place, variable in enumerate(container.get("env") or ()):
            if not variable.get("name"):
                yield f"spec.containers[{index}].env[{place}].name: Required value"
    if gates and spec.get("nodeName"):
        yield "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    yield from _naming_problems("spec.schedulingGates", gates)


def _naming_problems(path: str, entries: Sequence[Object]) -> Iterator[str]:
    """Each entry needs a name of its own."""
    names = [entry.get("name") for entry in entries]
    for index, name in enumerate(names):
        if not name:
            yield f"{path}[{index}].name: Required value"
        elif name in names[:index]:
            yield f'{path}[{index}].name: Duplicate value: "{name}"'


def update_problems(old: Object, new: Object) -> Iterator[str]:
    """Why a pod must not change like this."""
    before = dict(old["spec"])
    after = dict(new["spec"])
    gates_before = {gate.get("name") for gate in before.pop("schedulingGates", None) or ()}
    for gate in after.pop("schedulingGates", None) or ():
        name = gate.get("name")
        if name not in gates_before:
            yield (
                "spec.schedulingGates: Forbidden: only deletion is allowed, but found new"
                f" scheduling gate '{name}'"
            )
    tolerations = after.pop("tolerations", None) or []
    removed = [one for one in before.pop("tolerations", None) or () if one not in tolerations]
    if removed:
        yield _IMMUTABLE
        return
    for spec in (before, after):
        spec.pop("activeDeadlineSeconds", None)
        spec["containers"] = _without_images(spec.get("containers"))
        spec["initContainers"] = _without_images(spec.get("initContainers"))
    wider = before.get("nodeSelector") or {}
    narrower = after.get("nodeSelector") or {}
    # a gated pod may get additional node selectors
    if gates_before and wider.items() <= narrower.items():
        before.pop("nodeSelector", None)
        after.pop("nodeSelector", None)
    if before != after:
        yield _IMMUTABLE


def _without_images(containers: Any) -> list[Any]:
    return [{**container, "image": ""} for container in containers or ()]


def bind(pod: Object, binding: Object, now: str) -> None:
    """Puts a pod (a private copy) on a node; ConflictError when it is bound, gated or
    terminating."""
    metadata = pod["metadata"]
    spec = pod["spec"]
    name = pod["metadata"]["name"]
    if metadata.get("deletionTimestamp"):
        raise refusals.conflict(
            PODS, name, f"pod {name} is being deleted, cannot be assigned to a host"
        )
    if spec.get("nodeName"):
        raise refusals.conflict(
            PODS, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        )
    if spec.get("schedulingGates"):
        raise refusals.conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates")
    target = binding.get("target", {})
    node = target.get("name")
    if not node or target.get("kind", "Node") not in ("", "Node"):
        raise refusals.internal("target.name: Required value")
    spec["nodeName"] = node
    for field in ("labels", "annotations"):
        if extra := binding.get("metadata", {}).get(field):
            metadata[field] = {**(metadata.get(field) or {}), **extra}
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [old for old in conditions if old.get("type") != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})
