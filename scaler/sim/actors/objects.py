"""Small readings of raw Kubernetes objects that the stand-ins share.

Must not: write, or decide anything. Written apart from scaler.workloads on purpose: the stand-ins judge the controller.
"""

from __future__ import annotations

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
    """A Kubernetes quantity as a number (`500m` is 0.5, `1Gi` is 2**30); 0.0 for what is not one."""
    return _number(str(value))


def labels_of(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def scaling_labels(obj: Object) -> dict[str, str]:
    """Where the rule, the group and the service of a job or a pod stand: in its labels or its first pod template's."""
    own = labels_of(obj)
    if RULE_LABEL in own:
        return own
    parts = [*(spec(obj).get("replicaSpecs") or {}).values(), *(spec(obj).get("tasks") or [])]
    found = [((part.get("template") or {}).get("metadata") or {}).get("labels") or {} for part in parts]
    return next((labels for labels in found if RULE_LABEL in labels), own)


def namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", ""))


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def controller(obj: Object) -> Object:
    """The reference to the controlling owner, {} without one."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((ref for ref in owners if ref.get("controller")), {})


def owner_uid(obj: Object) -> str:
    """Of the controlling owner, "" without one."""
    return str(controller(obj).get("uid", ""))


def owner_kind(obj: Object) -> str:
    """Of the controlling owner, "" without one."""
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
    """The condition of that type, {} without one."""
    return next((c for c in status(obj).get("conditions") or [] if c.get("type") == kind), {})


def ready(obj: Object) -> bool:
    """Its condition Ready is True."""
    return condition(obj, "Ready").get("status") == "True"


def node_ready(node: Object | None) -> bool:
    """The node exists and its condition Ready is True: today's liveness rule of MindCluster."""
    return node is not None and ready(node)


def containers(pod: Object) -> list[Object]:
    """Their statuses."""
    return status(pod).get("containerStatuses") or []


def crash_looping(pod: Object) -> bool:
    waiting = ((c.get("state") or {}).get("waiting") or {} for c in containers(pod))
    return any(state.get("reason") == "CrashLoopBackOff" for state in waiting)


def restarts(pod: Object) -> int:
    """Of all its containers."""
    return sum(int(c.get("restartCount") or 0) for c in containers(pod))


def requests(pod: Object) -> dict[str, float]:
    """What a pod requests, by resource; limits stand in for absent requests. It always takes one of `pods`."""
    total: dict[str, float] = {"pods": 1.0}
    for container in spec(pod).get("containers") or []:
        resources = container.get("resources") or {}
        for resource, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[resource] = total.get(resource, 0.0) + quantity(value)
    return total


def allocatable(node: Object) -> dict[str, float]:
    return {resource: quantity(value) for resource, value in (status(node).get("allocatable") or {}).items()}


def last_exit_code(pod: Object) -> int:
    """The first non-zero exit code that a container's current or last termination shows, else 0."""
    states = (container.get(where) or {} for container in containers(pod) for where in ("state", "lastState"))
    codes = (int((state.get("terminated") or {}).get("exitCode") or 0) for state in states)
    return next((code for code in codes if code), 0)
