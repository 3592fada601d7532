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
    for part in job_parts(obj):
        template = part.get("template") or {}
        labels: dict[str, str] = (template.get("metadata") or {}).get("labels") or {}
        if RULE_LABEL in labels:
            return labels
    return own


def job_parts(job: Object) -> list[Object]:
    """The replica types of an AscendJob, or the tasks of a Volcano Job; each has a template."""
    return [*(spec(job).get("replicaSpecs") or {}).values(), *(spec(job).get("tasks") or [])]


def namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", ""))


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def controller(obj: Object) -> Object:
    """The reference to the controlling owner, {} if there is none."""
    for reference in obj["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            found: Object = reference
            return found
    return {}


def owner_uid(obj: Object) -> str:
    """The uid of the controlling owner, "" if there is none."""
    return str(controller(obj).get("uid", ""))


def owner_kind(obj: Object) -> str:
    """The kind of the controlling owner, "" if there is none."""
    return str(controller(obj).get("kind", ""))


def terminating(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def staying(found: Iterable[Object]) -> list[Object]:
    """Those that are not terminating."""
    return [obj for obj in found if not terminating(obj)]


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
    for one in status(obj).get("conditions") or []:
        if one.get("type") == kind:
            found: Object = one
            return found
    return {}


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


def init_containers(pod: Object) -> list[Object]:
    """The statuses of its init containers, sidecars among them."""
    return status(pod).get("initContainerStatuses") or []


def crash_looping(pod: Object) -> bool:
    for container in (*init_containers(pod), *containers(pod)):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == "CrashLoopBackOff":
            return True
    return False


def restarts(pod: Object) -> int:
    """The restarts of all its containers."""
    return sum(restarts_of_each(pod))


def has_restarted(pod: Object) -> bool:
    """Whether any of its containers has restarted, init containers included."""
    for container in (*init_containers(pod), *containers(pod)):
        if int(container.get("restartCount") or 0):
            return True
    return False


def restarts_of_each(pod: Object) -> list[int]:
    """The restarts of each of its containers."""
    return [int(container.get("restartCount") or 0) for container in containers(pod)]


def requests(pod: Object) -> dict[str, float]:
    """A pod's requests, by resource; a missing request is replaced by its limit. Every pod takes
    one of `pods`."""
    total: dict[str, float] = {"pods": 1.0}
    for container in spec(pod).get("containers") or []:
        resources = container.get("resources") or {}
        given = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for resource, value in given.items():
            total[resource] = total.get(resource, 0.0) + quantity(value)
    return total


def allocatable(node: Object) -> dict[str, float]:
    given = status(node).get("allocatable") or {}
    return {resource: quantity(value) for resource, value in given.items()}


def last_exit_code(pod: Object) -> int:
    """The first non-zero exit code of a container's current or last termination, else 0."""
    for container in containers(pod):
        for where in ("state", "lastState"):
            terminated = (container.get(where) or {}).get("terminated") or {}
            code = int(terminated.get("exitCode") or 0)
            if code:
                return code
    return 0
