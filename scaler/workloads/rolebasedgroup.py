"""RoleBasedGroup (RBG, v1alpha2): each RoleInstance is an instance.

Its group gang scheduling wants every pod of every role at once: nothing can be held there, which is said
(kinds.holding_impossible) and not worked around. RBG before v1alpha2 makes Deployments, StatefulSets and
LeaderWorkerSets, which are known as such.
"""

from __future__ import annotations

from scaler.kube.metadata import LabelledMetadata
from scaler.workloads.kind import Place, identity, number_in

GROUP = "workloads.x-k8s.io"
PREFIX = "rbg.workloads.x-k8s.io/"
RBG, ROLE, COMPONENT, SIZE = (PREFIX + name for name in ("group-name", "role-name", "component-name", "component-size"))
REVISION = "controller-revision-hash"


class RoleBasedGroup:
    """A pod whose owner is a RoleInstance."""

    name = "RoleBasedGroup"

    def place(self, pod: LabelledMetadata) -> Place | None:
        if not pod.owner.is_a("RoleInstance", GROUP):
            return None
        rbg, role = pod.labels.get(RBG, ""), pod.labels.get(ROLE, "")
        return Place(
            instance=identity("RoleInstance", pod.namespace, pod.owner.name),
            name=pod.owner.name,
            size=_size(pod),
            maker=identity("RoleBasedGroup", pod.namespace, rbg, role) if rbg and role else "",
            revision=pod.labels.get(REVISION, ""),
        )


def _size(pod: LabelledMetadata) -> int:
    """Leaders, workers and single pods know the size of the whole instance; other components only their own."""
    component = pod.labels.get(COMPONENT, "")
    knows = component in ("leader", "worker", pod.labels.get(ROLE))
    return number_in(pod.labels.get(SIZE, "")) if knows else 0
