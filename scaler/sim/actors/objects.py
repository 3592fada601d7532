"""Functions that read raw Kubernetes objects, for all stand-ins.

Must not: write, or decide anything. Independent of scaler.workloads on purpose: the stand-ins judge
the controller."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from scaler.kube.api import Object
from scaler.kube.quantity import parse_quantity
from scaler.names import RULE_LABEL

GROUP_NAME = "scheduling.k8s.io/group-name"
"""Pod annotation: the name of its PodGroup."""


@lru_cache(maxsize=10_000)
def _number(text: str) -> float:
    return float(parse_quantity(text) or 0)


def quantity(value: object) -> float:
    """A Kubernetes quantity as a number (`500m` is 0.5, `1Gi` is 2**30); 0.0 for other values."""
    return _number(str(value))


def labels_of(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def scaling_labels(obj: Object) -> dict[str, str]:
    """The labels with rule, group and service of a job or a pod: its own or those of its first pod
    template."""
    own = labels_of(obj)
    if RULE_LABEL in own:
        return own
    parts = [*(spec(obj).get("replicaSpecs") or {}).values(), *(spec(obj).get("tasks") or [])]
    found = [
        ((part.get("template") or {}).get("metadata") or {}).get("labels") or {} for part in parts
    ]
    return next((labels for labels in found if RULE_LABEL in labels), own)


def namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", ""))


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def controller(obj: Object) -> Object:
    """The reference to the controlling owner, {} if there is none."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((ref for ref in owners if ref.get("controller")), {})


def owner_uid(obj: Object) -> str:
    """The uid of the controlling owner, "" if there is none."""
    return str(controller(obj).get("uid", ""))


def owner_kind(obj: Object) -> str:
    """The kind of the controlling owner, "" if there is none."""
    return str(controller(obj).get("kind", ""))


def terminating(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    return obj.get("status") or {}


def node_of(pod: Object) -> str:
    """The node a pod is bound to, "" while unbound."""
    return str(spec(pod).get("nodeName") or "")


def phase(pod: Object) -> str:
    return str(status(pod).get("phase") or "Pending")


def gated(pod: Object) -> bool:
    return bool(spec(pod).get("schedulingGates"))


def ended(pod: Object) -> bool:
    return phase(pod) in {"Failed", "Succeeded"}


def condition(obj: Object, kind: str) -> Object:
    """The condition of that type, {} if there is none."""
    return next((c for c in status(obj).get("conditions") or [] if c.get("type") == kind), {})


def ready(obj: Object) -> bool:
    """Whether its condition Ready is True."""
    return condition(obj, "Ready").get("status") == "True"


def node_ready(node: Object | None) -> bool:
    """Whether the node exists and its condition Ready is True: MindCluster's present liveness
    rule."""
    return node is not None and ready(node)


def ready_nodes(nodes: Iterable[Object]) -> set[str]:
    """The names of those that are ready."""
    return {name(node) for node in nodes if node_ready(node)}


def containers(pod: Object) -> list[Object]:
    """The statuses of its containers."""
    return status(pod).get("containerStatuses") or []


def crash_looping(pod: Object) -> bool:
    waiting = ((c.get("state") or {}).get("waiting") or {} for c in containers(pod))
    return any(state.get("reason") == "CrashLoopBackOff" for state in waiting)


def restarts(pod: Object) -> int:
    """The restarts of all its containers."""
    return sum(int(c.get("restartCount") or 0) for c in containers(pod))


def requests(pod: Object) -> dict[str, float]:
    """A pod's requests, by resource; a missing request is replaced by its limit. Every pod takes
    one of `pods`."""
    total: dict[str, float] = {"pods": 1.0}
    for container in spec(pod).get("containers") or []:
        resources = container.get("resources") or {}
        for resource, value in {
            **(resources.get("limits") or {}),
            **(resources.get("requests") or {}),
        }.items():
            total[resource] = total.get(resource, 0.0) + quantity(value)
    return total


def allocatable(node: Object) -> dict[str, float]:
    return {
        resource: quantity(value)
        for resource, value in (status(node).get("allocatable") or {}).items()
    }


def last_exit_code(pod: Object) -> int:
    """The first non-zero exit code of a container's current or last termination, else 0."""
    states = (
        container.get(where) or {}
        for container in containers(pod)
        for where in ("state", "lastState")
    )
    codes = (int((state.get("terminated") or {}).get("exitCode") or 0) for state in states)
    return next((code for code in codes if code), 0)
