"""A ReplicaSet without a Deployment: each pod is an instance, which ends with the pod."""

from __future__ import annotations

from scaler.kube.api import REPLICA_SETS
from scaler.kube.metadata import Metadata
from scaler.workloads.kind import Kind, Written, each_pod
from scaler.workloads.membership import Membership, pod_alone


def membership(pod: Metadata) -> Membership | None:
    """The pod as an instance of its own."""
    return pod_alone(pod) if pod.owner.is_a("ReplicaSet", REPLICA_SETS.group) else None


KIND = Kind(
    name="ReplicaSet",
    written=(Written(REPLICA_SETS, each_pod),),
    membership=membership,
    tried="kube-controller-manager 1.35.3",
)
