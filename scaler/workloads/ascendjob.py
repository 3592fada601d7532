"""AscendJob: what the planner needs of a raw job, whatever its shape, and the instance that it and its pods form.

Must not raise on any input: a job of a shape that no pods can be made from says so in `Job.unusable`.
The objects themselves are made in workloads.ascendjob_objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.kube.api import Object
from scaler.plan.model import Reason, ServiceKey

RULE_LABEL = "mind-cluster/scaling-rule"
GROUP_LABEL = "mind-cluster/group-name"
JOB_ID_LABEL = "jobID"
APP_LABEL = "app"
CONTAINER = "ascend"
MAX_REPLICAS = 20_000
"""The same bound as Ascend Operator's (section 1.3 of its validation)."""
LEADER, WORKER = "Master", "Worker"


class Job(msgspec.Struct, frozen=True):
    """An AscendJob as the planner sees it. `pods` are the names of its expected pods, leader first."""

    namespace: str
    name: str
    uid: str
    created: float
    generation: int
    key: ServiceKey
    group: str | None
    deleting: bool
    finished: bool
    pods: tuple[str, ...]
    pod_group: str
    label_problem: Reason | None = None
    unusable: str = ""


def read_job(obj: Object) -> Job:
    """Everything that is known from the job alone."""
    meta = as_mapping(obj.get("metadata"))
    labels = as_mapping(meta.get("labels"))
    name, uid = as_text(meta.get("name")), as_text(meta.get("uid"))
    key, label_problem = _service_of(as_text(meta.get("namespace")), labels)
    group = labels.get(GROUP_LABEL)
    replicas, unusable = read_replicas(obj)
    return Job(
        namespace=key.namespace,
        name=name,
        uid=uid,
        created=seconds_of(as_text(meta.get("creationTimestamp"))),
        generation=as_count(meta.get("generation")),
        key=key,
        group=group if isinstance(group, str) and group else None,
        deleting=bool(meta.get("deletionTimestamp")),
        finished=_is_finished(obj),
        pods=tuple(pod_names(name, replicas)),
        pod_group=f"{name}-{uid}",
        label_problem=label_problem,
        unusable=unusable,
    )


def _service_of(namespace: str, labels: Mapping[str, Any]) -> tuple[ServiceKey, Reason | None]:
    """The service that the labels name, and what is wrong with them."""
    job_id = as_text(labels.get(JOB_ID_LABEL))
    if RULE_LABEL not in labels:
        ours = APP_LABEL in labels and JOB_ID_LABEL in labels
        return ServiceKey(namespace, "", job_id if ours else ""), None if ours else Reason.NOT_SERVED
    rule = as_text(labels[RULE_LABEL])
    problem = None
    if not rule:
        problem = Reason.RULE_MISSING
    elif not job_id:
        problem = Reason.JOB_ID_MISSING
    elif not as_text(labels.get(GROUP_LABEL)):
        problem = Reason.GROUP_LABEL_MISSING
    return ServiceKey(namespace, rule, job_id), problem


def _is_finished(obj: Object) -> bool:
    """Succeeded or Failed for good: the condition is True, as Ascend Operator's users know it."""
    return any(
        as_mapping(c).get("type") in ("Succeeded", "Failed") and as_mapping(c).get("status") == "True"
        for c in as_list(as_mapping(obj.get("status")).get("conditions"))
    )


def read_replicas(obj: Object) -> tuple[dict[str, int], str]:
    """Replicas per type (`Master`, `Worker`), leader first; and why no pods can be made, "" when they can."""
    specs = as_mapping(as_mapping(obj.get("spec")).get("replicaSpecs"))
    if not specs:
        return {}, "spec.replicaSpecs is not set: add a Master with one replica"
    by_type = {name.capitalize(): as_mapping(spec) for name, spec in specs.items()}
    if len(by_type) < len(specs):
        return {}, f"spec.replicaSpecs names a replica type twice ({', '.join(sorted(specs))}): leave one of them out"
    unknown = sorted(set(by_type) - {LEADER, WORKER})
    if unknown:
        return {}, f"spec.replicaSpecs.{unknown[0]} is not a replica type: use Master and Worker"
    if LEADER not in by_type:
        return {}, "spec.replicaSpecs has no Master: one leader replica is needed"
    for name, spec in by_type.items():
        problem = _spec_problem(name, spec)
        if problem:
            return {}, problem
    return {name: by_type[name].get("replicas", 1) for name in (LEADER, WORKER) if name in by_type}, ""


def _spec_problem(name: str, spec: Mapping[str, Any]) -> str:
    where = f"spec.replicaSpecs.{name}"
    replicas = spec.get("replicas", 1)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not 0 <= replicas <= MAX_REPLICAS:
        return f"{where}.replicas is {replicas!r}: it must be a number from 0 to {MAX_REPLICAS}"
    if name == LEADER and replicas != 1:
        return f"{where}.replicas is {replicas}: there must be exactly 1 leader"
    containers = as_mapping(as_mapping(spec.get("template")).get("spec")).get("containers")
    if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
        return f"{where}.template.spec.containers is not a list of containers"
    if not any(c.get("name") == CONTAINER and c.get("image") for c in containers):
        return f"{where}.template has no container named {CONTAINER!r} with an image"
    return ""


def pod_names(job: str, replicas: Mapping[str, int]) -> list[str]:
    """The fixed names of a job's pods: creating one twice is harmless."""
    return [f"{job}-{kind.lower()}-{index}" for kind, number in replicas.items() for index in range(number)]


def as_mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """`value` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """`value` if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """`value` if it is a whole number, else 0."""
    return value if isinstance(value, int) else 0
