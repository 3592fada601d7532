"""AscendJob: what the decision needs of a raw job, whatever its shape, and the instance that it and its pods form.

Must not raise on any input: a job of a shape that no pods can be made from says so in `Job.faults`.
The objects themselves are made in workloads.ascendjob_objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.decide.life import RunPolicy
from scaler.decide.world import Reason, ServiceKey
from scaler.kube.api import Object
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, MOVED_RULE, PREFIX, RULE_LABEL
from scaler.rules.jobspec import job_faults, read_replicas
from scaler.rules.values import as_count, as_text, at
from scaler.workloads.kind import MOST_FAULTS, label_problem_of
from scaler.workloads.run_policy import final_condition, read_run_policy, refusal

APP_LABEL = "app"
_HARDWARE = ("huawei.com/schedule_policy", "sp-block", "scaleout-type")
"""Annotations and labels on which a rank table depends (ranktables/table.py)."""
EXIT_CODE = "ExitCode"
"""A restartPolicy of replicas, not of pods: pods that a signal ended are made anew."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """An AscendJob, or another job that is one instance, as the decision sees it."""

    namespace: str
    name: str
    uid: str
    created: float
    generation: int
    key: ServiceKey
    group: str | None
    deleting: bool
    finished: bool
    replicas: tuple[tuple[str, int], ...]
    """How the names of its expected pods begin (`p0-worker-`) and how many there are of each, leader first; empty when
    its numbers of replicas cannot be read. Not the names themselves: 2 KB of JSON may ask for 1,000 pods."""
    pod_group: str
    policy: RunPolicy
    members: int = 0
    """What its PodGroup asks for: the pods that must be there before any of them starts."""
    exit_code_pods: tuple[str, ...] = ()
    """How the names of pods begin whose replica type has restartPolicy ExitCode."""
    ending: str = ""
    """Why it has finished, in the words of its condition; "" when it has not or does not say."""
    restart_limit: int | None = None
    """Restarts after which whoever makes its pods gives it up; None = never."""
    restarts: int = 0
    """How many of them are used up, where the job itself tells."""
    label_problem: Reason | None = None
    mislabelled: str = ""
    """What is wrong with its labels and what to write, where `key` and `group` are those with which it was admitted."""
    faults: tuple[str, ...] = ()
    """All that keeps pods from being made of it, each as `InvalidReplicaSpec: what was found`; empty when nothing."""
    refused: str = ""
    """Why Ascend Operator could not read it, in its own words; "" when it could."""
    names_rule: bool = False
    """The label that names the rule stands on the job itself."""
    hardware: tuple[Any, ...] = ()
    """What its labels and annotations say of the rank table that its pods need."""

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of its expected pods, made anew; fixed, so creating one twice is harmless."""
        return tuple([f"{start}{index}" for start, number in self.replicas for index in range(number)])

    @property
    def leader(self) -> str:
        """The name of its first pod; "" when it has none."""
        return next((f"{start}0" for start, number in self.replicas if number), "")


def read_job(obj: Object) -> Job:
    """Everything that is known from the job alone."""
    meta = at(obj, "metadata")
    labels = _labels(meta)
    name, uid = as_text(meta.get("name")), as_text(meta.get("uid"))
    key, label_problem = _service_of(as_text(meta.get("namespace")), labels)
    wanted = read_replicas(obj)
    final, policy = final_condition(obj), read_run_policy(obj)
    members = at(obj, "spec", "runPolicy", "schedulingPolicy").get("minAvailable")
    replicas = at(obj, "spec", "replicaSpecs")
    restarted = (kind for kind in wanted if at(replicas[kind]).get("restartPolicy") == EXIT_CODE)
    return Job(
        namespace=key.namespace,
        name=name,
        uid=uid,
        created=seconds_of(as_text(meta.get("creationTimestamp"))),
        generation=as_count(meta.get("generation")),
        key=key,
        group=as_text(labels.get(GROUP_LABEL)) or None,
        deleting=bool(meta.get("deletionTimestamp")),
        finished=final is not None,
        replicas=tuple((f"{name}-{kind.lower()}-", number) for kind, number in wanted.items()),
        pod_group=f"{name}-{uid}",
        policy=policy,
        members=members if isinstance(members, int) and not isinstance(members, bool) else sum(wanted.values()),
        exit_code_pods=tuple(f"{name}-{kind.lower()}-" for kind in restarted),
        ending=as_text(final.get("message")).rstrip(".") if final is not None else "",
        label_problem=label_problem,
        faults=tuple(f"{fault.code}: {fault.message}; {fault.hint}" for fault in job_faults(obj)[:MOST_FAULTS]),
        restart_limit=policy.backoff_limit or None,
        refused=refusal(obj),
        names_rule=RULE_LABEL in at(meta, "labels"),
        hardware=tuple(at(meta, part).get(name) for part in ("annotations", "labels") for name in _HARDWARE),
    )


def is_foreign(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether an AscendJob is none of ours: not one word on it is about us, and it is no server of MindIE."""
    server = APP_LABEL in labels and JOB_ID_LABEL in labels
    return not (server or MOVED_RULE in annotations or any(label.startswith(PREFIX) for label in labels))


def _labels(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the name of the rule from where admission has put it, unless it is on its own place again."""
    labels = at(meta, "labels")
    moved = as_text(at(meta, "annotations").get(MOVED_RULE))
    return {RULE_LABEL: moved, **labels} if moved else labels


def _service_of(namespace: str, labels: Mapping[str, Any]) -> tuple[ServiceKey, Reason | None]:
    """The service that the labels name, and what is wrong with them."""
    job_id = as_text(labels.get(JOB_ID_LABEL))
    if RULE_LABEL not in labels:
        ours = APP_LABEL in labels and JOB_ID_LABEL in labels
        return ServiceKey(namespace, "", job_id if ours else ""), None if ours else Reason.NOT_SERVED
    rule = as_text(labels[RULE_LABEL])
    return ServiceKey(namespace, rule, job_id), label_problem_of(rule, job_id, as_text(labels.get(GROUP_LABEL)))
