"""The objects of one instance as Ascend Operator makes them: PodGroup, Service, pods. Pure.

Only for a job without faults. docs/reference/objects.md lists each intended difference from Ascend
Operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, SERVICES, Object
from scaler.names import JOB_ID_LABEL, LAST_APPLIED, POD_GROUP, ROUNDS_ANNOTATION
from scaler.rules.jobspec import CONTAINER, LEADER, WORKER, read_replicas
from scaler.rules.values import as_list, as_text, at
from scaler.workloads.ascendjob import APP_LABEL, EXIT_CODE
from scaler.workloads.membership import Job
from scaler.workloads.pod_requests import amounts_of, amounts_together

OPERATOR_NAME = "ascendjob-controller"
"""Value of `training.kubeflow.org/operator-name`; Volcano's NPU plugin needs the label to write
chip annotations."""
PORT_NAME = "ascendjob-port"
PORT = 2222


def pod_group(job: Job, obj: Object) -> Object:
    """Volcano's gang for the whole instance. ClusterD and the NPU plugin read its labels, owner and
    minResources."""
    policy = at(obj, "spec", "runPolicy", "schedulingPolicy")
    replicas = read_replicas(obj)
    left = job.members
    first = []
    # the specs of the pods that minMember requires, leader first
    for kind, number in replicas.items():
        first.append((at(_template(obj, kind), "spec"), min(number, left)))
        left = max(0, left - number)
    spec = {
        "minMember": job.members,
        "minTaskMember": {kind.lower(): number for kind, number in replicas.items()},
        "minResources": policy.get("minResources") or amounts_together(first),
    }
    for field, source in (("queue", "queue"), ("priorityClassName", "priorityClass")):
        if as_text(policy.get(source)):
            spec[field] = policy[source]
    meta = obj["metadata"]
    labels = dict(at(meta, "labels"))
    annotations = dict(at(meta, "annotations"))
    if "recover-strategy" in annotations:
        labels["process-recover-enable"] = "on"
    # kubectl's copy of the manifest, the scaler's rounds
    for name in (LAST_APPLIED, ROUNDS_ANNOTATION):
        annotations.pop(name, None)
    metadata = {**_metadata(job, job.pod_group), "labels": labels}
    return POD_GROUPS.object(
        metadata | ({"annotations": annotations} if annotations else {}), spec=spec
    )


def service(job: Job, obj: Object) -> Object:
    """The leader's Service: an allocated ClusterIP, one port for each port of its `ascend`
    container."""
    labels = _identity_labels(job.name, LEADER, 0)
    ports = []
    for port in _leader_ports(_ascend(_template(obj, LEADER))):
        number = port.get("containerPort")
        ports.append({"name": port.get("name", ""), "port": number, "targetPort": number})
    metadata = {**_metadata(job, job.leader), "labels": labels}
    return SERVICES.object(metadata, spec={"type": "ClusterIP", "selector": labels, "ports": ports})


def pods(job: Job, obj: Object, clusterd: str) -> dict[str, Object]:
    """All pods of the instance by name. `clusterd` is the address of ClusterD's gRPC service."""
    replicas = read_replicas(obj)
    made = []
    for kind, number in replicas.items():
        made += [_pod(job, obj, kind, index, clusterd) for index in range(number)]
    # All pods get the job's scheduler; if any template names a scheduler, no pod is changed.
    if not any(at(_template(obj, kind), "spec").get("schedulerName") for kind in replicas):
        for pod in made:
            pod["spec"].setdefault(
                "schedulerName", as_text(at(obj, "spec").get("schedulerName")) or "volcano"
            )
    return {pod["metadata"]["name"]: pod for pod in made}


def _pod(job: Job, obj: Object, kind: str, index: int, clusterd: str) -> Object:
    template = _template(obj, kind)
    meta = at(template, "metadata")
    labels = {
        **at(meta, "labels"),
        **_identity_labels(job.name, kind, index),
        "version": str(job.policy.rounds),
    }
    if kind == LEADER:
        labels["training.kubeflow.org/job-role"] = LEADER.lower()
    annotations = {
        **at(meta, "annotations"),
        "hccl/rankIndex": str(index + (kind == WORKER and _leader_computes(obj))),
        POD_GROUP: job.pod_group,
        "volcano.sh/task-spec": kind.lower(),
    }
    # The policy of the replica overrides that of the template; pods know no ExitCode: they get
    # Never.
    policy = as_text(at(obj, "spec", "replicaSpecs", kind).get("restartPolicy")) or "Never"
    spec = {**template["spec"], "restartPolicy": "Never" if policy == EXIT_CODE else policy}
    containers = template["spec"]["containers"]
    spec["containers"] = [_container(one, kind, obj, clusterd) for one in containers]
    metadata = {
        **_metadata(job, f"{job.name}-{kind.lower()}-{index}"),
        "labels": labels,
        "annotations": annotations,
    }
    if meta.get("finalizers"):
        metadata["finalizers"] = meta["finalizers"]
    return PODS.object(metadata, spec=spec)


def _leader_computes(obj: Object) -> bool:
    """Whether the leader has NPUs: then the leader has rank 0, and the workers' ranks begin at
    1."""
    amounts = amounts_of(_ascend(_template(obj, LEADER)))
    for name, amount in amounts.items():
        if name.startswith("huawei.com/") and amount not in (0, "0"):
            return True
    return False


def _container(container: Object, kind: str, obj: Object, clusterd: str) -> Object:
    if container.get("name") != CONTAINER:
        return container
    labels = at(obj, "metadata", "labels")
    given = as_list(container.get("env"))
    environment = {
        "MINDX_TASK_ID": as_text(labels.get(JOB_ID_LABEL)),
        "APP_TYPE": as_text(labels.get(APP_LABEL)),
        "MINDX_SERVER_IP": clusterd,
        "MINDX_SERVER_DOMAIN": clusterd,
    }
    names = [at(variable).get("name") for variable in given]
    added = []
    for name, value in environment.items():
        if name not in names:
            added.append({"name": name, "value": value})
    result = {**container, "env": [*given, *added]}
    if kind == LEADER:
        result["ports"] = _leader_ports(container)
    return result


def _leader_ports(container: Mapping[str, Any]) -> list[Object]:
    ports = [port for port in as_list(container.get("ports")) if isinstance(port, dict)]
    if any(port.get("name") == PORT_NAME for port in ports):
        return ports
    return [*ports, {"name": PORT_NAME, "containerPort": PORT}]


def _identity_labels(job: str, kind: str, index: int) -> dict[str, str]:
    """Each label with the kubeflow prefix and without: Volcano's plugin, ClusterD and people's
    selectors use both."""
    pairs = {"job-name": job, "replica-type": kind.lower(), "replica-index": str(index)}
    prefixed = {f"training.kubeflow.org/{key}": value for key, value in pairs.items()}
    operator = {
        "training.kubeflow.org/operator-name": OPERATOR_NAME,
        "group-name": "mindxdl.gitee.com",
    }
    return {**operator, **pairs, **prefixed}


def _metadata(job: Job, name: str) -> dict[str, Any]:
    flags = {"controller": True, "blockOwnerDeletion": True}
    owner = {
        "apiVersion": ASCEND_JOBS.api_version,
        "kind": ASCEND_JOBS.kind,
        "name": job.name,
        "uid": job.uid,
        **flags,
    }
    return {"name": name, "namespace": job.namespace, "ownerReferences": [owner]}


def _template(obj: Object, kind: str) -> Mapping[str, Any]:
    return at(obj, "spec", "replicaSpecs", kind, "template")


def _ascend(template: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(at(c) for c in template["spec"]["containers"] if c.get("name") == CONTAINER)
