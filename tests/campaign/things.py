"""What stands in a world: services with ladders of their own, their nodes, and things that are nobody's business."""

from __future__ import annotations

import json

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors.nodes import NodeSpec

MIDDLE = "mindie"
"""The jobID of every service; services differ by rule, and half of the time by namespace."""
GROUPS = ("group0", "group1")
PREFIX = {"group0": "p", "group1": "d"}
CPU_NODE = "cpu-0"
Ratio = tuple[int, int]
"""Instances of group0 and group1."""


class Service(msgspec.Struct, frozen=True):
    """One service of the world. `ladder` begins with the largest ratio; `jobs` and `pods` are per group."""

    name: str
    namespace: str
    pool: str
    ladder: tuple[Ratio, ...]
    jobs: Ratio
    pods: Ratio
    mindie: bool
    """Whether a MindIE Controller is among its jobs."""

    def job_names(self) -> list[str]:
        return [
            f"{self.name}-{PREFIX[group]}{number}"
            for index, group in enumerate(GROUPS)
            for number in range(self.jobs[index])
        ]

    def nodes_for(self, ratio: Ratio) -> int:
        """Nodes that this ratio fills: each pod takes all NPUs of one."""
        return sum(number * size for number, size in zip(ratio, self.pods, strict=True))


class World(msgspec.Struct, frozen=True):
    services: tuple[Service, ...]
    nodes: tuple[NodeSpec, ...]

    @property
    def shared(self) -> bool:
        """Whether services compete for nodes."""
        return len({service.pool for service in self.services}) < len(self.services)

    def service_of(self, job: str) -> Service:
        return next(service for service in self.services if job.startswith(f"{service.name}-"))


def group_of(job: str) -> str:
    return "group0" if job.rpartition("-")[2].startswith("p") else "group1"


def server_job(service: Service, name: str) -> Object:
    """The AscendJob of one prefill or decode instance."""
    group = group_of(name)
    pods = service.pods[GROUPS.index(group)]
    labels = {
        "app": "mindie-ms-server", "jobID": MIDDLE, "framework": "pytorch",
        "fault-scheduling": "force", "fault-retry-times": "1000",
        "mind-cluster/scaling-rule": service.name, "mind-cluster/group-name": group,
    }  # fmt: skip
    replicas = {"Master": {"replicas": 1, "template": _npu_template(service)}}
    if pods > 1:
        replicas["Worker"] = {"replicas": pods - 1, "template": _npu_template(service)}
    return _job(service.namespace, name, labels, replicas)


def mindie_job(service: Service) -> Object:
    """The AscendJob of MindIE's own controller: no rule, so it is created at once."""
    labels = {"app": "mindie-ms-controller", "jobID": MIDDLE, "framework": "pytorch"}
    labels |= {"fault-scheduling": "force", "fault-retry-times": "1000"}
    container = {"name": "ascend", "image": "mindie:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "mindie-ms-controller", "jobID": MIDDLE}},
                "spec": {"containers": [container]}}  # fmt: skip
    return _job(
        service.namespace, f"{service.name}-controller", labels, {"Master": {"replicas": 1, "template": template}}
    )


def training_job() -> Object:
    """Not ours to touch."""
    template = {"spec": {"containers": [{"name": "ascend", "image": "train:1"}]}}
    return _job("training", "train", {"framework": "pytorch"}, {"Master": {"replicas": 1, "template": template}})


def foreign_pod(namespace: str, name: str) -> Object:
    """Somebody else's pod under a name that an instance may need."""
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip


def foreign_config_map(namespace: str) -> Object:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": namespace},
        "data": {"elastic_scaling.json": "not a rule of anybody"},
    }  # fmt: skip


def rule(service: Service, text: str | None = None, **annotations: str) -> Object:
    """The rule's ConfigMap, with this text instead of the ladder where given."""
    document = rule_text(service, service.ladder) if text is None else text
    metadata = {"name": service.name, "namespace": service.namespace,
                "annotations": {f"mind-cluster/{key}": value for key, value in annotations.items()}}  # fmt: skip
    data = {"elastic_scaling.json": document}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def rule_text(service: Service, ladder: tuple[Ratio, ...]) -> str:
    entries = [
        {
            "group_list": [
                {"group_name": group, "group_num": str(number), "server_num_per_group": str(size)}
                for group, number, size in zip(GROUPS, ratio, service.pods, strict=True)
            ]
        }
        for ratio in ladder
    ]
    return json.dumps({"version": "1.0", "elastic_scaling_list": entries})


def _npu_template(service: Service) -> Object:
    npus = {"huawei.com/Ascend910": "8"}
    container = {"name": "ascend", "image": "mindie:1", "resources": {"requests": npus, "limits": npus}}
    metadata = {"labels": {"app": "mindie-ms-server", "jobID": MIDDLE}}
    return {"metadata": metadata, "spec": {"nodeSelector": {"pool": service.pool}, "containers": [container]}}


def _job(namespace: str, name: str, labels: dict[str, str], replicas: Object) -> Object:
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"schedulerName": "volcano", "replicaSpecs": replicas},
    }
