"""What stands in a world: services with ladders of their own, their nodes, and objects that are not
the scaler's."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scaler.kube.api import PODS, Object
from scaler.names import BESIDE_LABEL, NAMESPACE_LABEL
from scaler.sim.actors.nodes import NodeSpec
from tests import jobs
from tests.simulation import kinds
from tests.simulation.kinds import Kind, Ratio, Spot

GROUPS = ("group0", "group1")
OPTED_IN = {NAMESPACE_LABEL: "enabled", BESIDE_LABEL: "true"}
"""Labels of a namespace for admission, and for pods that Ascend Operator makes."""
CPU_NODE = NodeSpec("cpu-0", npu=0)
"""For pods that take no NPUs."""


class Service(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """`ladder` begins with the largest ratio; `jobs` (instances that its user applies) and `pods`
    are per group."""

    name: str
    namespace: str
    pool: str
    ladder: tuple[Ratio, ...]
    jobs: Ratio
    pods: Ratio
    mindie: bool = False
    """Whether a MindIE Controller is among its jobs."""
    deadline: int = 0
    """Seconds that its jobs may take (activeDeadlineSeconds), 0 for ever."""
    kind: Kind | None = None
    """What makes its pods, which the scaler holds; None = AscendJobs whose pods the scaler
    makes."""
    quota: bool = False
    """A quota system holds its pods too, by a gate of its own, for a moment."""

    @property
    def key(self) -> str:
        """As it stands in a status."""
        return f"{self.namespace}/{self.name}/{'mindie' if self.kind is None else 'qwen'}"

    @property
    def groups(self) -> tuple[str, str]:
        return GROUPS if self.kind is None else kinds.GROUPS

    def job_names(self) -> list[str]:
        pairs = zip("pd", self.jobs, strict=True)
        return [
            f"{self.name}-{letter}{number}" for letter, count in pairs for number in range(count)
        ]

    def counts(self, ratios: Iterable[Ratio]) -> list[dict[str, int]]:
        """The same by group."""
        return [dict(zip(self.groups, ratio, strict=True)) for ratio in ratios]

    def nodes_for(self, ratio: Iterable[int]) -> int:
        """Nodes that this ratio fills: each pod takes all NPUs of one."""
        return sum(number * size for number, size in zip(ratio, self.pods, strict=True))


def nodes(pool: str, number: int) -> tuple[NodeSpec, ...]:
    return tuple(NodeSpec(f"{pool}-{index}", labels={"pool": pool}) for index in range(number))


class Inventory(msgspec.Struct, frozen=True):
    services: tuple[Service, ...]
    nodes: tuple[NodeSpec, ...]

    @property
    def shared(self) -> bool:
        """Whether services compete for nodes."""
        return len({service.pool for service in self.services}) < len(self.services)

    @property
    def gated(self) -> bool:
        """Whether others make the pods of its services."""
        return any(service.kind is not None for service in self.services)

    def service_of(self, subject: str) -> Service:
        """The service of this name, or of a job of this name."""
        return next(
            one
            for one in self.services
            if subject == one.name or subject.startswith(f"{one.name}-")
        )


HEALTHY = Service("h", "healthy", "h", ((2, 1), (1, 1)), jobs=(2, 1), pods=(1, 1), deadline=3500)
"""Of another tenant, touched by `healthy hurt` alone. Its deadline is beyond any storm, and within
a clock's step."""
HEALTHY_NODES = nodes("h", 4)


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
    return jobs.job(
        f"{service.name}-controller", rule=None, namespace=service.namespace, app=app, pod=pod
    )


def training_job() -> Object:
    """Not ours to touch."""
    return jobs.job(
        "train",
        rule=None,
        namespace="training",
        labels={"framework": "pytorch"},
        pod=jobs.template(npus=0),
    )


def foreign_pod(namespace: str, name: str) -> Object:
    """A pod of another tenant under a name that an instance may need."""
    return jobs.manifest(PODS, name, namespace, spec={**jobs.NOBODYS_POD})


def made_by_others(service: Service, replicas: Ratio, image: str) -> list[Object]:
    """What the user of a service whose pods others make applies for so many instances."""
    assert service.kind is not None
    return service.kind.objects(
        Spot(service.name, service.namespace, image, service.pool), replicas
    )


def rule(
    service: Service,
    ladder: tuple[Ratio, ...] | None = None,
    text: str | None = None,
    **annotations: str,
) -> Object:
    """The rule's ConfigMap, with this ladder in place of the service's, or with this text instead
    of any."""
    (sizes,) = service.counts([service.pods])
    document = jobs.rule_document(*service.counts(ladder or service.ladder), pods=sizes)
    return jobs.rule_config_map(
        document if text is None else text, service.name, service.namespace, **annotations
    )
