"""Manifests of the kinds whose pods others make, as short as a test needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.kube.api import DEPLOYMENTS, PODS, Object
from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.manifests import apply, delete
from scaler.workloads.inferserviceset import INFER_SERVICE_SETS
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from scaler.workloads.stormservice import STORM_SERVICES
from scaler.workloads.volcanojob import VOLCANO_JOBS
from tests.jobs import manifest

NPU = "huawei.com/Ascend910"


def template(*, npu: int = 0, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod template with one container that asks for so many NPUs."""
    resources = {"requests": {"cpu": "1", NPU: str(npu)}, "limits": {NPU: str(npu)}} if npu else {}
    container = {"name": "server", "image": "server:1", "resources": resources}
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": [container], **spec}}


def deployment(
    name: str = "web", replicas: int = 3, *, pod: Object | None = None, **spec: Any
) -> Object:
    made = pod or template()
    made["metadata"]["labels"] = {"app": name, **made["metadata"]["labels"]}
    whole = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": made,
        **spec,
    }
    return manifest(DEPLOYMENTS, name, spec=whole)


def stateful_set(name: str = "db", replicas: int = 3, **spec: Any) -> Object:
    return {**deployment(name, replicas, serviceName=name, **spec), "kind": "StatefulSet"}


def leader_worker_set(name: str = "vllm", replicas: int = 2, size: int = 2, **parts: Any) -> Object:
    """`leader` and `worker` are pod templates, `restart` is the restart policy, other parts go to
    the spec."""
    templates: Object = {"size": size, "workerTemplate": parts.pop("worker", None) or template()}
    if "leader" in parts:
        templates["leaderTemplate"] = parts.pop("leader")
    if "restart" in parts:
        templates["restartPolicy"] = parts.pop("restart")
    whole = {"replicas": replicas, "leaderWorkerTemplate": templates, **parts}
    return manifest(LEADER_WORKER_SETS, name, spec=whole)


def volcano_job(name: str = "infer", replicas: int = 2, **parts: Any) -> Object:
    """One task `server`, or those that `tasks` says by name; other parts go to the spec."""
    tasks: dict[str, int] = parts.pop("tasks", {"server": replicas})
    pod = parts.pop("pod", None) or template(npu=8)
    whole = {
        "minAvailable": sum(tasks.values()),
        "schedulerName": "volcano",
        "tasks": [
            {"name": task, "replicas": number, "template": pod} for task, number in tasks.items()
        ],
        **parts,
    }
    return manifest(VOLCANO_JOBS, name, spec=whole)


def storm_service(name: str = "storm", replicas: int = 1, **roles: Object) -> Object:
    """Roles by name: `prefill={"replicas": 2, "stateful": True}`; one without a template gets
    one."""
    listed = [{"name": role, "template": template(), **parts} for role, parts in roles.items()]
    inner = {"metadata": {"labels": {"app": name}}, "spec": {"roles": listed}}
    whole = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": inner}
    return manifest(STORM_SERVICES, name, spec=whole)


def infer_service_set(name: str = "qwen", **roles: Object) -> Object:
    """Roles by name: `prefill={"replicas": 2, "pods": 2}`, each an instance of a StatefulSet of so
    many pods."""
    listed = []
    for role, parts in roles.items():
        pod = parts.pop("pod", None) or template(labels={"app": f"{name}-{role}"})
        kind = {"apiVersion": "apps/v1", "kind": parts.pop("kind", "StatefulSet")}
        selector = {"matchLabels": {"app": f"{name}-{role}"}}
        inner = {"replicas": parts.pop("pods", 1), "selector": selector, "template": pod}
        listed.append({"name": role, "workload": kind, "spec": inner, **parts})
    return manifest(INFER_SERVICE_SETS, name, spec={"replicas": 1, "template": {"roles": listed}})


async def apply_pruned(
    cluster: SimCluster, made: Sequence[Object], before: Sequence[Object]
) -> None:
    """`kubectl apply --prune`. A pod that is there stays as it is: of a pod nothing can be
    changed."""
    wanted = {(obj["kind"], objects.name(obj)) for obj in made}
    for obj in before:
        if (obj["kind"], objects.name(obj)) not in wanted:
            await delete(cluster, obj)
    pods = {(objects.namespace(pod), objects.name(pod)) for pod in cluster.peek(PODS)}
    for obj in made:
        if obj["kind"] != "Pod" or (objects.namespace(obj), objects.name(obj)) not in pods:
            await apply(cluster, obj)
