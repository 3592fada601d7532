"""AscendJobs, pods that others made, and what surrounds them, as short as a test needs them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, NODES, PODS, QUEUES, Object, Resource
from scaler.names import GATE

NAMESPACE = "mindie"


def manifest(
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Object:
    """`fields` stand beside the metadata."""
    parts = {"namespace": namespace or None, "labels": labels, "annotations": annotations}
    metadata = {"name": name, **{key: part for key, part in parts.items() if part is not None}}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        **fields,
    }


QUEUE = manifest(QUEUES, "default", spec={"weight": 1})
"""Volcano's, for gangs that name none."""


NOBODYS_POD: Object = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
"""The spec of a pod that no scheduler of ours binds."""


# The value of an object, each of its parts by name.
def job(  # noqa: PLR0913
    name: str,
    group: str | None = None,
    *,
    pods: int = 1,
    rule: str | None = "rule",
    namespace: str = NAMESPACE,
    app: str = "mindie-ms-server",
    job_id: str = "mindie",
    pod: Object | None = None,
    **changes: Any,
) -> Object:
    """`p0` is in group0, `d0` in group1, unless `group` says otherwise; `pod` is the template of
    its pods. `changes` replace parts of metadata."""
    groups = {"p": "group0", "d": "group1"}
    labels = {"app": app, "jobID": job_id, "framework": "pytorch", "fault-scheduling": "force"}
    labels["fault-retry-times"] = "10000"
    if rule is not None:
        labels |= {
            "mind-cluster/scaling-rule": rule,
            "mind-cluster/group-name": group or groups.get(name[0], name),
        }
    replicas = {"Master": {"replicas": 1, "template": pod or template()}}
    if pods > 1:
        replicas["Worker"] = {"replicas": pods - 1, "template": pod or template()}
    spec = {"schedulerName": "volcano", "replicaSpecs": replicas}
    made = manifest(ASCEND_JOBS, name, namespace, labels=labels, spec=spec)
    made["metadata"] |= changes
    return made


def template(*, app: str = "mindie-ms-server", npus: int = 8, **spec: Any) -> Object:
    """Of pods of one container; without NPUs it takes one CPU."""
    amounts = {"huawei.com/Ascend910": str(npus)} if npus else {"cpu": "1"}
    container = {
        "name": "ascend",
        "image": "mindie:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {"metadata": {"labels": {"app": app}}, "spec": {**spec, "containers": [container]}}


# The value of an object, each of its parts by name.
def held(  # noqa: PLR0913
    name: str,
    group: str,
    *,
    owner: str = "engine-5d8",
    rule: str = "rule",
    job_id: str = "mindie",
    gates: tuple[str, ...] = (GATE,),
    annotations: dict[str, str] | None = None,
    scheduler: str = "",
    **labels: str,
) -> Object:
    """A held pod of a ReplicaSet, or of nobody."""
    names = {
        "mind-cluster/scaling-rule": rule,
        "mind-cluster/group-name": group,
        "jobID": job_id,
        **labels,
    }
    names["pod-template-hash"] = owner.rpartition("-")[2]
    spec: Object = {"schedulerName": scheduler} if scheduler else {}
    spec["schedulingGates"] = [{"name": gate} for gate in gates]
    spec["containers"] = [{"name": "server", "image": "server"}]
    made = manifest(PODS, name, NAMESPACE, labels=names, annotations=annotations or {}, spec=spec)
    if owner:
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": owner,
            "uid": f"uid-{owner}",
        }
        made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


def group(name: str, num: object, size: object = "1") -> dict[str, Any]:
    return {"group_name": name, "group_num": num, "server_num_per_group": size}


def document(*ratios: Mapping[str, int | tuple[int, int]], **more: Any) -> dict[str, Any]:
    """`document({"group0": 2, "group1": (1, 4)}, ...)`, the largest first: counts, or (count, pods
    per instance)."""
    entries = []
    for ratio in ratios:
        groups = []
        for name, said in ratio.items():
            count, size = (said, 1) if isinstance(said, int) else said
            groups.append(group(name, str(count), str(size)))
        entries.append({"group_list": groups})
    return {"version": "1.0", "elastic_scaling_list": entries, **more}


def rule_document(*ratios: Mapping[str, int], pods: int | Mapping[str, int] = 1) -> str:
    """The text of a document; `pods` of each instance, or of each by group."""
    sized = []
    for ratio in ratios:
        sizes = dict.fromkeys(ratio, pods) if isinstance(pods, int) else pods
        sized.append({name: (number, sizes[name]) for name, number in ratio.items()})
    return json.dumps(document(*sized))


TWO_P_ONE_D = rule_document({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})


def rule_config_map(
    document: str = TWO_P_ONE_D, name: str = "rule", namespace: str = NAMESPACE, **annotations: str
) -> Object:
    """The rule; annotations are given without their `mind-cluster/` and with _ for -."""
    named = {f"mind-cluster/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return manifest(
        CONFIG_MAPS, name, namespace, annotations=named, data={"elastic_scaling.json": document}
    )


def node(name: str, *, roomy: bool = False) -> Object:
    """A roomy one has room for everything, another one for nothing."""
    room = (
        {"cpu": "1000", "memory": "10Ti", "pods": "1000", "huawei.com/Ascend910": "1000"}
        if roomy
        else {}
    )
    ready = {"type": "Ready", "status": "True"}
    return manifest(
        NODES, name, status={"conditions": [ready], "allocatable": room, "capacity": room}
    )
