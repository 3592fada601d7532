"""What stands in a world: services with ladders of their own, their nodes, and things that are nobody's business."""

from __future__ import annotations

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors.nodes import NodeSpec
from tests import jobs

GROUPS = ("group0", "group1")
PREFIX = {"group0": "p", "group1": "d"}
CPU_NODE = "cpu-0"
Ratio = tuple[int, int]
"""Instances of group0 and group1."""


class Service(msgspec.Struct, frozen=True):
    """One service of the world; services differ by rule, and half of the time by namespace.

    `ladder` begins with the largest ratio; `jobs` and `pods` are per group."""

    name: str
    namespace: str
    pool: str
    ladder: tuple[Ratio, ...]
    jobs: Ratio
    pods: Ratio
    mindie: bool
    """Whether a MindIE Controller is among its jobs."""
    deadline: int = 0
    """Seconds that its jobs may take (activeDeadlineSeconds), 0 for ever."""

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
    pod = jobs.template(nodeSelector={"pool": service.pool})
    size = service.pods[GROUPS.index(group)]
    job = jobs.job(name, group, pods=size, rule=service.name, namespace=service.namespace, pod=pod)
    if service.deadline:
        job["spec"]["runPolicy"] = {"activeDeadlineSeconds": service.deadline}
    return job


def mindie_job(service: Service) -> Object:
    """The AscendJob of MindIE's own controller: no rule, so it is created at once."""
    app = "mindie-ms-controller"
    pod = jobs.template(app=app, npus=0)
    return jobs.job(f"{service.name}-controller", rule=None, namespace=service.namespace, app=app, pod=pod)


def training_job() -> Object:
    """Not ours to touch."""
    return jobs.job(
        "train", rule=None, namespace="training", labels={"framework": "pytorch"}, pod=jobs.template(npus=0)
    )


def foreign_pod(namespace: str, name: str) -> Object:
    """Somebody else's pod under a name that an instance may need."""
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip


def foreign_config_map(namespace: str) -> Object:
    return jobs.rule_config_map("not a rule of anybody", "notes", namespace)


def rule(service: Service, text: str | None = None, **annotations: str) -> Object:
    """The rule's ConfigMap, with this text instead of the ladder where given."""
    document = rule_text(service, service.ladder) if text is None else text
    return jobs.rule_config_map(document, service.name, service.namespace, **annotations)


def rule_text(service: Service, ladder: tuple[Ratio, ...]) -> str:
    sizes = dict(zip(GROUPS, service.pods, strict=True))
    return jobs.rule_document(*(dict(zip(GROUPS, ratio, strict=True)) for ratio in ladder), pods=sizes)
