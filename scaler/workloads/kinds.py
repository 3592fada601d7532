"""The list of workload kinds, and the way from a pod to its instance and service. Pure; must not raise on any pod.

Pods of AscendJobs and Volcano Jobs are not here: those jobs are instances before they have pods
(workloads/ascendjob.py, workloads/volcanojob.py).
"""

from __future__ import annotations

from scaler.decide.world import ServiceKey
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.workloads.ascendjob import label_problem_of
from scaler.workloads.deployment import Deployment, ReplicaSet, StatefulSet
from scaler.workloads.inferoperator import InstanceSet
from scaler.workloads.kind import Kind, Membership, Place, PodFacts
from scaler.workloads.leaderworkerset import LeaderWorkerSet
from scaler.workloads.plainpod import PlainPod, as_annotated
from scaler.workloads.rolebasedgroup import RoleBasedGroup
from scaler.workloads.stormservice import StormService

PLAIN = PlainPod()
KINDS: tuple[Kind, ...] = (
    InstanceSet(), LeaderWorkerSet(), StormService(), RoleBasedGroup(), Deployment(), ReplicaSet(), StatefulSet(),
)  # fmt: skip
"""Asked in this order, which is from the special to the general: an InstanceSet is made of StatefulSets. The first that
knows the pod has it; a pod that none knows is a plain one."""


def membership_of(pod: PodFacts) -> Membership | None:
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
        place=as_annotated(pod, place),
        label_problem=label_problem_of(rule, job_id, group),
    )


def unknown_owner(pod: PodFacts, membership: Membership) -> str:
    """That a pod counts by itself although something made it, in words; "" when that is not so."""
    if membership.kind != PLAIN.name or not pod.owner.kind or not membership.place.mortal:
        return ""
    return (
        f"{pod.owner.kind} {pod.owner.name} ({pod.owner.api_version}) is no kind that is known here, so pod {pod.name} "
        "counts as an instance of its own; annotations mind-cluster/instance and mind-cluster/instance-size say "
        "which pods belong together"
    )


def _placed(pod: PodFacts) -> tuple[str, Place]:
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
