"""The objects of one instance as Ascend Operator makes them: PodGroup, Service, pods. Pure.

Only for a job without faults (`Job.faults`).

Where the result differs from Ascend Operator's on purpose, docs/reference/objects.md lists it with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.kube.api import POD_GROUPS, PODS, SERVICES, Object
from scaler.kube.quantity import add_quantities
from scaler.names import JOB_ID_LABEL, POD_GROUP, ROUNDS_ANNOTATION
from scaler.rules.jobspec import CONTAINER, LEADER, WORKER, read_replicas
from scaler.workloads.ascendjob import APP_LABEL, EXIT_CODE, Job, as_list, as_mapping, as_text

OPERATOR_NAME = "ascendjob-controller"
"""Value of `training.kubeflow.org/operator-name`; Volcano's NPU plugin needs the label to write chip annotations."""
PORT_NAME, PORT = "ascendjob-port", 2222
NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", ROUNDS_ANNOTATION)


def pod_group(job: Job, obj: Object) -> Object:
    """Volcano's gang for the whole instance. ClusterD and the NPU plugin read its labels, owner and minResources."""
    policy = as_mapping(as_mapping(as_mapping(obj["spec"]).get("runPolicy")).get("schedulingPolicy"))
    replicas = read_replicas(obj)
    spec = {
        "minMember": job.members,
        "minTaskMember": {kind.lower(): number for kind, number in replicas.items()},
        "minResources": policy.get("minResources") or _min_resources(obj, replicas, job.members),
    }
    for field, source in (("queue", "queue"), ("priorityClassName", "priorityClass")):
        if as_text(policy.get(source)):
            spec[field] = policy[source]
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {**_metadata(job, job.pod_group), **_copied(obj)},
        "spec": spec,
    }


def _copied(obj: Object) -> dict[str, Any]:
    """Labels and annotations of the job, without kubectl's copy of the whole manifest and our own note."""
    meta = obj["metadata"]
    labels = dict(as_mapping(meta.get("labels")))
    annotations = dict(as_mapping(meta.get("annotations")))
    if "recover-strategy" in annotations:
        labels["process-recover-enable"] = "on"
    for name in NOT_COPIED:
        annotations.pop(name, None)
    return {"labels": labels} | ({"annotations": annotations} if annotations else {})


def _min_resources(obj: Object, replicas: Mapping[str, int], members: int) -> dict[str, str]:
    """Requests of the first `members` pods, leader first; limits stand in for absent requests."""
    amounts: dict[str, list[Any]] = {}
    left = members
    for kind, number in replicas.items():
        containers = _template(obj, kind)["spec"]["containers"]
        for container in containers:
            resources = as_mapping(container.get("resources"))
            wanted = {**as_mapping(resources.get("limits")), **as_mapping(resources.get("requests"))}
            for name, amount in wanted.items():
                amounts.setdefault(name, []).extend([amount] * min(number, left))
        left = max(0, left - number)
    return {name: add_quantities(values) for name, values in sorted(amounts.items()) if values}


def service(job: Job, obj: Object) -> Object:
    """The leader's Service: an allocated ClusterIP, one port for each port of its `ascend` container."""
    labels = _identity_labels(job.name, LEADER, 0)
    ports = [
        {"name": port.get("name", ""), "port": port.get("containerPort"), "targetPort": port.get("containerPort")}
        for port in _leader_ports(_ascend(_template(obj, LEADER)))
    ]
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": {**_metadata(job, job.pods[0]), "labels": labels},
        "spec": {"type": "ClusterIP", "selector": labels, "ports": ports},
    }


def pods(job: Job, obj: Object, clusterd: str) -> dict[str, Object]:
    """All pods of the instance by name. `clusterd` is the address of ClusterD's gRPC service."""
    replicas = read_replicas(obj)
    scheduler = _scheduler(obj, replicas)
    result: dict[str, Object] = {}
    for kind, number in replicas.items():
        for index in range(number):
            pod = _pod(job, obj, kind, index, clusterd)
            if scheduler:
                pod["spec"].setdefault("schedulerName", scheduler)
            result[pod["metadata"]["name"]] = pod
    return result


def _pod(job: Job, obj: Object, kind: str, index: int, clusterd: str) -> Object:
    template = _template(obj, kind)
    meta = as_mapping(template.get("metadata"))
    labels = {
        **as_mapping(meta.get("labels")),
        **_identity_labels(job.name, kind, index),
        "version": str(job.policy.rounds),
    }
    if kind == LEADER:
        labels["training.kubeflow.org/job-role"] = LEADER.lower()
    annotations = {
        **as_mapping(meta.get("annotations")),
        "hccl/rankIndex": str(_rank(obj, kind, index)),
        POD_GROUP: job.pod_group,
        "volcano.sh/task-spec": kind.lower(),
    }
    spec = {**template["spec"], "restartPolicy": _restart_policy(obj, kind)}
    spec["containers"] = [_container(container, kind, obj, clusterd) for container in template["spec"]["containers"]]
    metadata = {**_metadata(job, f"{job.name}-{kind.lower()}-{index}"), "labels": labels, "annotations": annotations}
    if meta.get("finalizers"):
        metadata["finalizers"] = meta["finalizers"]
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata, "spec": spec}


def _rank(obj: Object, kind: str, index: int) -> int:
    """Rank of the pod in the instance: the leader is 0 and counts when it has NPUs of its own."""
    if kind != WORKER:
        return index
    resources = as_mapping(_ascend(_template(obj, LEADER)).get("resources"))
    wanted = {**as_mapping(resources.get("limits")), **as_mapping(resources.get("requests"))}
    leader_computes = any(name.startswith("huawei.com/") and amount not in (0, "0") for name, amount in wanted.items())
    return index + leader_computes


def _container(container: Object, kind: str, obj: Object, clusterd: str) -> Object:
    if container.get("name") != CONTAINER:
        return container
    labels = as_mapping(obj["metadata"].get("labels"))
    environment = [
        {"name": "MINDX_TASK_ID", "value": as_text(labels.get(JOB_ID_LABEL))},
        {"name": "APP_TYPE", "value": as_text(labels.get(APP_LABEL))},
        {"name": "MINDX_SERVER_IP", "value": clusterd},
        {"name": "MINDX_SERVER_DOMAIN", "value": clusterd},
    ]
    given = [as_mapping(variable).get("name") for variable in as_list(container.get("env"))]
    added = [variable for variable in environment if variable["name"] not in given]
    result = {**container, "env": [*as_list(container.get("env")), *added]}
    if kind == LEADER:
        result["ports"] = _leader_ports(container)
    return result


def _leader_ports(container: Mapping[str, Any]) -> list[Object]:
    ports = [port for port in as_list(container.get("ports")) if isinstance(port, dict)]
    if any(port.get("name") == PORT_NAME for port in ports):
        return ports
    return [*ports, {"name": PORT_NAME, "containerPort": PORT}]


def _restart_policy(obj: Object, kind: str) -> str:
    """The replica's own policy wins over the template's; ExitCode is not a pod's policy and means Never."""
    policy = as_text(_replica_spec(obj, kind).get("restartPolicy")) or "Never"
    return "Never" if policy == EXIT_CODE else policy


def _scheduler(obj: Object, replicas: Mapping[str, int]) -> str:
    """The job's scheduler for all pods, "" when any template names one of its own (then none is changed)."""
    if any(as_mapping(_template(obj, kind)["spec"]).get("schedulerName") for kind in replicas):
        return ""
    return as_text(as_mapping(obj["spec"]).get("schedulerName")) or "volcano"


def _identity_labels(job: str, kind: str, index: int) -> dict[str, str]:
    """Under both the kubeflow prefix and none: Volcano's plugin, ClusterD and people's selectors use both."""
    pairs = {"job-name": job, "replica-type": kind.lower(), "replica-index": str(index)}
    prefixed = {f"training.kubeflow.org/{key}": value for key, value in pairs.items()}
    operator = {"training.kubeflow.org/operator-name": OPERATOR_NAME, "group-name": "mindxdl.gitee.com"}
    return {**operator, **pairs, **prefixed}


def _metadata(job: Job, name: str) -> dict[str, Any]:
    owner = {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": name, "namespace": job.namespace, "ownerReferences": [owner]}


def _replica_spec(obj: Object, kind: str) -> Mapping[str, Any]:
    return as_mapping(obj["spec"]["replicaSpecs"][kind])


def _template(obj: Object, kind: str) -> Mapping[str, Any]:
    return as_mapping(_replica_spec(obj, kind)["template"])


def _ascend(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(as_mapping(c) for c in template["spec"]["containers"] if c.get("name") == CONTAINER)
