"""Minimal CustomResourceDefinitions of our own: AscendJob, PodGroup and Queue, and the kinds whose pods others make.

They keep what matters to a controller: names, scope, status subresource, printer columns, and that the pod template of
an AscendJob is pruned to an old PodSpec, without scheduling gates. What others work with is open: any spec passes.
"""

from __future__ import annotations

from typing import Any

from scaler.kube.api import (
    CUSTOM_RESOURCE_DEFINITIONS,
    LEADER_WORKER_SETS,
    POD_SETS,
    VOLCANO_JOBS,
    Object,
    Resource,
)
from scaler.sim.apiserver.kinds import (
    INFER_SERVICE_SETS,
    INFER_SERVICES,
    INFERENCE_SERVICES,
    INSTANCE_SETS,
    ROLE_SETS,
    STORM_SERVICES,
)

_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_OPEN_OBJECT: dict[str, Any] = {"type": "object", **_ANYTHING}
_INTEGER = {"type": "integer"}
_STRING = {"type": "string"}
_AGE: dict[str, Any] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

# The PodSpec of Kubernetes 1.21, field by field: what is not here does not survive the API server.
_OLD_POD_SPEC = (
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostname",
    "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "overhead", "preemptionPolicy", "priority",
    "priorityClassName", "readinessGates", "restartPolicy", "runtimeClassName", "schedulerName", "securityContext",
    "serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain",
    "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes",
)  # fmt: skip


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _crd(resource: str, names: dict[str, Any], scope: str, version: dict[str, Any]) -> Object:
    plural, _, group = resource.partition(".")
    names = {"plural": plural, "listKind": f"{names['kind']}List", "singular": names["kind"].lower(), **names}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": resource},
        "spec": {
            "group": group,
            "names": names,
            "scope": scope,
            "versions": [{"served": True, "storage": True, **version}],
        },
    }


def _version(name: str, schema: dict[str, Any], columns: list[dict[str, Any]], *, status: bool) -> dict[str, Any]:
    return {
        "name": name,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
        "subresources": {"status": {}} if status else {},
    }


def _ascend_job() -> Object:
    pod_spec = _object(("containers",), **dict.fromkeys(_OLD_POD_SPEC, _ANYTHING))
    template = _object(metadata=_OPEN_OBJECT, spec=pod_spec)
    replica = _object(replicas=_INTEGER, restartPolicy=_STRING, template=template)
    policy = _object(
        minAvailable=_INTEGER, minResources=_OPEN_OBJECT, priorityClass=_STRING, queue=_STRING,
    )  # fmt: skip
    run_policy = _object(
        activeDeadlineSeconds=_INTEGER, backoffLimit=_INTEGER, cleanPodPolicy=_STRING,
        ttlSecondsAfterFinished=_INTEGER, schedulingPolicy=policy,
    )  # fmt: skip
    spec = _object(
        ("replicaSpecs",), runPolicy=run_policy, schedulerName=_STRING, successPolicy=_STRING,
        replicaSpecs={"type": "object", "additionalProperties": replica},
    )  # fmt: skip
    condition = _object(
        ("type", "status"), type=_STRING, status=_STRING, reason=_STRING, message=_STRING,
        lastUpdateTime=_STRING, lastTransitionTime=_STRING,
    )  # fmt: skip
    counts = _object(active=_INTEGER, succeeded=_INTEGER, failed=_INTEGER)
    status = _object(
        ("conditions", "replicaStatuses"), conditions={"type": "array", "items": condition},
        replicaStatuses={"type": "object", "additionalProperties": counts},
        startTime=_STRING, completionTime=_STRING, lastReconcileTime=_STRING,
    )  # fmt: skip
    columns = [{"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"}, _AGE]
    schema = _object(apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=spec, status=status)
    names = {"kind": "AscendJob", "shortNames": ["acjob"]}
    version = _version("v1", schema, columns, status=True)
    return _crd("ascendjobs.mindxdl.gitee.com", names, "Namespaced", version)


def _pod_group() -> Object:
    spec = _object(
        minMember=_INTEGER, minResources=_OPEN_OBJECT, priorityClassName=_STRING, queue=_STRING,
        minTaskMember={"type": "object", "additionalProperties": _INTEGER}, networkTopology=_OPEN_OBJECT,
    )  # fmt: skip
    columns: list[dict[str, Any]] = [
        {"name": "STATUS", "type": "string", "jsonPath": ".status.phase"},
        {"name": "minMember", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "RUNNINGS", "type": "integer", "jsonPath": ".status.running"},
        {**_AGE, "name": "AGE"},
        {"name": "QUEUE", "type": "string", "jsonPath": ".spec.queue", "priority": 1},
    ]
    schema = _object(apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=spec, status=_OPEN_OBJECT)
    names = {"kind": "PodGroup", "shortNames": ["pg", "podgroup-v1beta1"]}
    version = _version("v1beta1", schema, columns, status=False)
    return _crd("podgroups.scheduling.volcano.sh", names, "Namespaced", version)


def _queue() -> Object:
    schema = _object(
        apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=_OPEN_OBJECT, status=_OPEN_OBJECT
    )
    columns = [{"name": "PARENT", "type": "string", "jsonPath": ".spec.parent"}]
    names = {"kind": "Queue", "shortNames": ["q", "queue-v1beta1"]}
    version = _version("v1beta1", schema, columns, status=True)
    return _crd("queues.scheduling.volcano.sh", names, "Cluster", version)


def definitions() -> list[Object]:
    """The three definitions, ready to be created in any cluster, simulated or real."""
    return [_ascend_job(), _pod_group(), _queue()]


_WORKLOADS: tuple[tuple[Resource, tuple[str, ...]], ...] = (
    (VOLCANO_JOBS, ("vcjob", "vj")),
    (LEADER_WORKER_SETS, ("lws",)),
    (STORM_SERVICES, ()),
    (ROLE_SETS, ()),
    (POD_SETS, ()),
    (INFER_SERVICE_SETS, ()),
    (INFER_SERVICES, ()),
    (INSTANCE_SETS, ()),
    (INFERENCE_SERVICES, ("isvc",)),
)


def workload_definitions() -> list[Object]:
    """Of Volcano Job, LeaderWorkerSet, and of AIBrix, OME and Infer Operator; for clusters without the real ones."""
    return [_workload(resource, short_names) for resource, short_names in _WORKLOADS]


def _workload(resource: Resource, short_names: tuple[str, ...]) -> Object:
    schema = _object(
        apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=_OPEN_OBJECT, status=_OPEN_OBJECT
    )
    names = {"kind": resource.kind, **({"shortNames": list(short_names)} if short_names else {})}
    version = _version(resource.version, schema, [_AGE], status=True)
    return _crd(f"{resource.plural}.{resource.group}", names, "Namespaced", version)
