"""MindCluster's Infer Operator: each StatefulSet or Deployment that an InstanceSet made is one instance, whole.

Volcano makes one PodGroup for each of them, so instances never share one.
"""

from __future__ import annotations

from scaler.kube.metadata import LabelledMetadata
from scaler.workloads.deployment import APPS, deployment_of
from scaler.workloads.kind import Ask, Place, identity

MADE_BY = "infer.huawei.com/ascend-infer-operator"


class InstanceSet:
    """A pod with the operator's label, by the workload that made it: its name is that of the instance."""

    name = "InstanceSet"

    def place(self, pod: LabelledMetadata) -> Place | None:
        if pod.labels.get(MADE_BY) != "true":
            return None
        set_, deployment = pod.owner.is_a("StatefulSet", APPS), deployment_of(pod)
        workload = pod.owner.name if set_ else deployment
        if not workload:
            return None
        asked = Ask("StatefulSet" if set_ else "ReplicaSet", pod.owner.name)
        return Place(identity("InstanceSet", pod.namespace, workload), workload, asks=(asked,))
