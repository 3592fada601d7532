"""A ReplicaSet without a Deployment: each pod is an instance, which ends with the pod."""

from __future__ import annotations

from scaler.kube.api import REPLICA_SETS
from scaler.workloads.kind import Kind, Written, each_pod
from scaler.workloads.membership import pod_alone

KIND = Kind(
    name="ReplicaSet",
    written=(Written(REPLICA_SETS, each_pod),),
    membership=pod_alone,
    pods_of=((REPLICA_SETS.group, REPLICA_SETS.kind),),
    tried="kube-controller-manager 1.35.3",
)
