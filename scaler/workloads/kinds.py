"""The list of workload kinds, and the way from a pod to its instance and service. Pure; must not raise on any pod.

Pods of AscendJobs and Volcano Jobs are not here: those jobs are instances before they have pods
(workloads/ascendjob.py, workloads/volcanojob.py).
"""

from __future__ import annotations

import msgspec

from scaler.decide.world import ServiceKey
from scaler.kube.metadata import LabelledMetadata
from scaler.names import GROUP_LABEL, INSTANCE, INSTANCE_SIZE, JOB_ID_LABEL, RULE_LABEL
from scaler.workloads.deployment import Deployment, ReplicaSet, StatefulSet
from scaler.workloads.inferoperator import InstanceSet
from scaler.workloads.kind import Kind, Membership, Place, identity, label_problem_of, number_in
from scaler.workloads.leaderworkerset import LeaderWorkerSet
from scaler.workloads.plainpod import PlainPod
from scaler.workloads.rolebasedgroup import RoleBasedGroup
from scaler.workloads.stormservice import StormService

PLAIN = PlainPod()
KINDS: tuple[Kind, ...] = (
    InstanceSet(), LeaderWorkerSet(), StormService(), RoleBasedGroup(), Deployment(), ReplicaSet(), StatefulSet(),
)  # fmt: skip
"""Asked in this order, which is from the special to the general: an InstanceSet is made of StatefulSets. The first that
knows the pod has it; a pod that none knows is a plain one."""


def membership_of(pod: LabelledMetadata) -> Membership | None:
    """None for a pod that names no rule."""
    labels = pod.labels
    rule = labels.get(RULE_LABEL)
    if rule is None:
        return None
    job_id, group = labels.get(JOB_ID_LABEL, ""), labels.get(GROUP_LABEL, "")
    kind, place = _placed(pod)
    return Membership(
        kind=kind,
        key=ServiceKey(pod.namespace, rule, job_id),
        group=group or None,
        place=_as_annotated(pod, place),
        label_problem=label_problem_of(rule, job_id, group),
    )


def unknown_owner(pod: LabelledMetadata, membership: Membership) -> str:
    """That a pod counts by itself although something made it, in words; "" when that is not so."""
    if membership.kind != PLAIN.name or not pod.owner.kind or not membership.place.mortal:
        return ""
    return (
        f"{pod.owner.kind} {pod.owner.name} ({pod.owner.api_version}) is no kind that is known here, so pod {pod.name} "
        "counts as an instance of its own; annotations mind-cluster/instance and mind-cluster/instance-size say "
        "which pods belong together"
    )


def _placed(pod: LabelledMetadata) -> tuple[str, Place]:
    for kind in KINDS:
        place = kind.place(pod)
        if place is not None:
            return kind.name, place
    return PLAIN.name, PLAIN.place(pod)


def holding_impossible(place: Place, pod_group: str, min_member: int, size: int) -> str:
    """Why nothing can be held around a pod of an instance of `size` pods, whose PodGroup wants `min_member`, in words;
    "" when it can. A PodGroup of several instances starts none of them while any is held."""
    if place.shares_pod_group or not 0 < size < min_member:
        return ""
    return (
        f"PodGroup {pod_group} wants {min_member} pods before any of them starts, and {place.name} has {size}: while "
        "one instance in it is held, none can start; switch the gang scheduling of the whole group off"
    )


def _as_annotated(pod: LabelledMetadata, place: Place) -> Place:
    """`place` with what the pod's annotations say instead. A name means one instance within its service and group.

    A size alone concerns instances that the kind knows to consist of several pods: a pod that is an instance by itself
    gets no companions by saying how many it would like.
    """
    size, named = number_in(pod.annotations.get(INSTANCE_SIZE, "")), pod.annotations.get(INSTANCE, "")
    if named:
        service = pod.labels.get(JOB_ID_LABEL, ""), pod.labels.get(GROUP_LABEL, "")
        instance = identity("pods", pod.namespace, *service, named)
        return msgspec.structs.replace(
            place, instance=instance, name=named, size=size or 1, mortal=False, shares_pod_group=True
        )
    return msgspec.structs.replace(place, size=size) if size and place.size != 1 else place
