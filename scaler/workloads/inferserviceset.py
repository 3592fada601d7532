"""InferServiceSet of MindCluster's Infer Operator: each StatefulSet or Deployment of one of its
InstanceSets is one instance."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.kube.api import REPLICA_SETS, STATEFUL_SETS, Resource
from scaler.kube.metadata import Metadata, shared
from scaler.rules.finding import Path
from scaler.workloads.deployment import name_of_deployment
from scaler.workloads.kind import (
    TEMPLATE,
    Kind,
    Look,
    Role,
    Written,
    named_at,
    number_at,
    template_at,
)
from scaler.workloads.membership import Membership, identity

_GROUP = "mindcluster.huawei.com"
INFER_SERVICE_SETS = Resource(_GROUP, "v1", "inferservicesets", "InferServiceSet")
INFER_SERVICES = Resource(_GROUP, "v1", "inferservices", "InferService")
INSTANCE_SETS = Resource(_GROUP, "v1", "instancesets", "InstanceSet")
INFER_OPERATOR = "infer.huawei.com/ascend-infer-operator"
"""Label of every pod that Infer Operator is behind; its value is `true`."""


def membership(pod: Metadata) -> Membership | None:
    """The workload of the pod. Volcano makes one PodGroup for each of them, so instances never
    share a PodGroup."""
    if pod.labels.get(INFER_OPERATOR) != "true":
        return None
    is_of_set = pod.owner.kind == STATEFUL_SETS.kind
    workload = pod.owner.name if is_of_set else name_of_deployment(pod)
    if not workload:
        return None
    return Membership(
        instance=identity("InstanceSet", pod.namespace, workload),
        name=workload,
        described_by=((shared(pod.owner.kind), pod.namespace, pod.owner.name),),
    )


def infer_service_set_roles(look: Look) -> Iterator[Role]:
    """The labels of the template of its InferServices."""
    yield from _roles(look, ("spec", "template", "roles"))


def infer_service_roles(look: Look) -> Iterator[Role]:
    """Its own."""
    yield from _roles(look, ("spec", "roles"))


def instance_set_roles(look: Look) -> Iterator[Role]:
    """The only one that it is."""
    yield _role(look, ("spec",), TEMPLATE)


def _roles(look: Look, path: Path) -> Iterator[Role]:
    for item, name in named_at(look, path):
        yield _role(look, item, f"of role {name}")


def _role(look: Look, path: Path, name: str) -> Role:
    """A whole workload is an instance."""
    pods_at = (*path, "spec", "replicas")
    template = template_at((*path, "spec", "template"), name)
    return Role((template,), number_at(look, pods_at, 1), pods_at)


KIND = Kind(
    name="InstanceSet",
    written=(
        Written(INFER_SERVICE_SETS, infer_service_set_roles, by_users=True),
        Written(INFER_SERVICES, infer_service_roles),
        Written(INSTANCE_SETS, instance_set_roles),
    ),
    membership=membership,
    pods_of=(
        (STATEFUL_SETS.group, STATEFUL_SETS.kind),
        (REPLICA_SETS.group, REPLICA_SETS.kind),
    ),
    project="Infer Operator",
    definitions=(INFER_SERVICE_SETS,),
)
