"""The list of workload kinds, and the way from a pod to its instance and service. Pure; must not raise on any pod.

Pods of AscendJobs and Volcano Jobs are not here: those jobs are instances before they have pods (workloads/ascendjob.py,
workloads/volcanojob.py).
"""

from __future__ import annotations

from scaler.plan.model import Reason, ServiceKey
from scaler.workloads.ascendjob import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.workloads.kind import Kind, Membership, PodFacts
from scaler.workloads.plainpod import PlainPod

PLAIN = PlainPod()
KINDS: tuple[Kind, ...] = ()
"""Asked in this order; the first that knows the pod has it. A pod that none knows is a plain one."""


def membership_of(pod: PodFacts) -> Membership | None:
    """None for a pod that names no rule."""
    labels = pod.labels
    rule = labels.get(RULE_LABEL)
    if rule is None:
        return None
    job_id, group = labels.get(JOB_ID_LABEL, ""), labels.get(GROUP_LABEL) or None
    problem = None
    if not rule:
        problem = Reason.RULE_MISSING
    elif not job_id:
        problem = Reason.JOB_ID_MISSING
    elif not group:
        problem = Reason.GROUP_LABEL_MISSING
    kind, place = next(((kind, place) for kind in KINDS if (place := kind.place(pod))), (PLAIN, PLAIN.place(pod)))
    return Membership(kind.name, ServiceKey(pod.namespace, rule, job_id), group, place, problem)
