"""Volcano Job: a job of any shape as a value for the decision; the job is one instance and exists
before its pods.

Volcano makes its pods; the scaler only releases them. Must not raise: `Job.faults` lists why a job
cannot be held."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scaler.decide.world import RunPolicy, ServiceKey
from scaler.kube.api import POD_GROUPS, QUEUES, Object, Resource
from scaler.kube.metadata import LONGEST_NAME
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.reasons.reasons import Reason
from scaler.rules.finding import shown
from scaler.rules.limits import MAX_PODS
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.workloads.hyper_nodes import tier_of
from scaler.workloads.kind import (
    Kind,
    Look,
    MadeName,
    Role,
    Written,
    named_at,
    number_at,
    template_at,
)
from scaler.workloads.membership import MOST_FAULTS, Job, LaterPods, job_head, labels_of
from scaler.workloads.npu_rules import npu_job_of
from scaler.workloads.stages import stage_of

VOLCANO_JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
FINAL = ("Completed", "Failed", "Terminated", "Aborted")
"""Values of status.state.phase. An aborted job can be resumed by command; then it has not finished
any more."""
MAX_RETRY = 3
"""Restarts if spec.maxRetry is absent: the default of Volcano's definition of the type. Its
webhook, where it is installed, writes the same for 0 when a job is created; so a 0 in the cluster
is one that no webhook changed, and means that the first restart ends the job."""
_RESTARTS = ("RestartJob", "RestartTask", "RestartPod", "RestartPartition")
_ENDS = ("AbortJob", "TerminateJob", "CompleteJob")
_OF_A_DELETION = ("PodEvicted", "PodFailed", "TaskCompleted")
"""Volcano's events for a pod that is deleted: the deletion itself; and since 1.13.2, before that
one, how its containers ended: with an exit code, or all of its task with 0."""
_ANY = "*"
_LABELS = (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)
JOB_VERSION = "volcano.sh/job-version"
"""Annotation of a pod: the version of its job for which Volcano made it."""
MARK = "-1"
"""As such a version, in every Volcano since 1.0.0: what happens to the pod is older than the job,
so no policy heeds it and no restart is counted. Volcano only makes the pod again."""


class _Task(NamedTuple):
    name: str
    replicas: int
    labels: Mapping[str, Any]
    policies: Sequence[Mapping[str, Any]]
    least: int
    """Pods that have to be ready before tasks that depend on this one begin."""
    depends_on: Mapping[str, Any]


def read_volcano_job(obj: Object) -> Job:
    """The job, from its own object alone."""
    meta = at(obj, "metadata")
    spec = at(obj, "spec")
    status = at(obj, "status")
    state = at(status, "state")
    head = job_head(meta)
    tasks = [_task(index, at(task)) for index, task in enumerate(as_list(spec.get("tasks")))]
    pods = _pods_of(tasks)
    replicas: tuple[tuple[str, int], ...] = ()
    if pods <= MAX_PODS:
        replicas = tuple((f"{head.name}-{task.name}-", task.replicas) for task in tasks)
    first = _first_labelled(tasks)
    written = first.labels if first is not None else at(meta, "labels")
    labels = labels_of(written)
    final = state.get("phase") in FINAL
    return Job(
        namespace=head.namespace,
        name=head.name,
        uid=head.uid,
        created=head.created,
        generation=head.generation,
        deleting=head.deleting,
        pod_group=head.pod_group,
        key=ServiceKey(head.namespace, labels.rule, labels.job_id),
        group=labels.group or None,
        finished=final,
        replicas=replicas,
        policy=RunPolicy(),
        members=as_count(spec.get("minAvailable"), MAX_PODS) or (pods if replicas else 0),
        ending=as_text(state.get("message")).rstrip(".") if final else "",
        label_problem=labels.problem if RULE_LABEL in written else Reason.NOT_SERVED,
        faults=tuple(itertools.islice(_faults(meta, tasks), MOST_FAULTS)),
        restart_limit=_restart_limit(spec, tasks),
        restarts=as_count(status.get("retryCount"), MAX_PODS),
        later=tuple(_later(head.name, tasks)) if replicas else (),
        npus=npu_job_of(at(meta, "annotations"), at(meta, "labels")),
        stage=stage_of(at(meta, "labels")),
        tier=tier_of(at(spec, "networkTopology")),
    )


def _task(index: int, task: Mapping[str, Any]) -> _Task:
    name = as_text(task.get("name"))[:LONGEST_NAME] or f"default{index}"
    policies = [at(policy) for policy in as_list(task.get("policies"))]
    replicas = as_count(task.get("replicas"))
    return _Task(
        name,
        replicas,
        at(task, "template", "metadata", "labels"),
        policies,
        as_count(task.get("minAvailable")) or replicas,
        at(task, "dependsOn"),
    )


def _later(job: str, tasks: Sequence[_Task]) -> Iterator[LaterPods]:
    """The pods of tasks that depend on others."""
    least = {task.name: task.least for task in tasks}
    for task in tasks:
        names = [as_text(name) for name in as_list(task.depends_on.get("name"))]
        after = [(f"{job}-{name}-", least[name]) for name in names if name in least]
        if after and task.replicas:
            after_any = task.depends_on.get("iteration") == "any"
            yield LaterPods(f"{job}-{task.name}-", tuple(after), after_any)


def _pods_of(tasks: Sequence[_Task]) -> int:
    return sum(task.replicas for task in tasks)


def _first_labelled(tasks: Sequence[_Task]) -> _Task | None:
    """The first task whose pods name a rule."""
    for task in tasks:
        if RULE_LABEL in task.labels:
            return task
    return None


def _faults(meta: Mapping[str, Any], tasks: Sequence[_Task]) -> Iterator[str]:
    pods = _pods_of(tasks)
    if pods > MAX_PODS:
        yield (
            f"InvalidReplicas: its tasks have {pods} pods together; an instance has at most"
            f" {MAX_PODS}"
        )
    first = _first_labelled(tasks)
    if first is None:
        if RULE_LABEL in at(meta, "labels"):
            yield (
                "LabelsNotOnTasks: the labels are on the job itself, which does not pass them on"
                f" to its pods; put {', '.join(_LABELS)} into metadata.labels of every task's"
                " template"
            )
        return
    for task, name in itertools.product(tasks, _LABELS):
        if task.labels.get(name) != first.labels.get(name):
            yield (
                f"TasksDisagree: label {name} is {shown(task.labels.get(name))} in task {task.name}"
                f" and {shown(first.labels.get(name))} in task {first.name}; write the same into"
                " both templates"
            )


def _restart_limit(spec: Mapping[str, Any], tasks: Sequence[_Task]) -> int | None:
    """None when a deleted pod is simply created again. Volcano itself gives up at the maxRetry-th
    restart."""
    actions = set(_actions(spec, tasks))
    if actions & set(_ENDS):
        return 0
    if not actions & set(_RESTARTS):
        return None
    written = spec.get("maxRetry")
    most = MAX_RETRY if written is None else min(as_count(written), MAX_PODS)
    return max(0, most - 1)


def _actions(spec: Mapping[str, Any], tasks: Sequence[_Task]) -> Iterator[str]:
    """What Volcano may do when a pod is deleted, whatever exit codes its containers end with."""
    of_job = [at(policy) for policy in as_list(spec.get("policies"))]
    for task in tasks:
        # the first policy for an event counts, policies of the task before those of the job
        policies = (*task.policies, *of_job)
        for event in _OF_A_DELETION:
            for policy in policies:
                if _is_for(policy, event):
                    yield as_text(policy.get("action"))
                    break
        for policy in policies:
            if policy.get("exitCode") is not None:
                yield as_text(policy.get("action"))


def _is_for(policy: Mapping[str, Any], event: str) -> bool:
    events = (policy.get("event"), *as_list(policy.get("events")))
    return event in events or _ANY in events


def roles(look: Look) -> Iterator[Role]:
    """All tasks together are one instance."""
    pods: int | None = 0
    templates = []
    for item, name in named_at(look, ("spec", "tasks")):
        templates.append(template_at((*item, "template"), f"of task {name}"))
        replicas = number_at(look, (*item, "replicas"), 1)
        pods = None if pods is None or replicas is None else pods + replicas
    yield Role(tuple(templates), pods, ("spec", "tasks"))


def made_names(name: str, look: Look) -> Iterator[MadeName]:
    """Volcano refuses a job of which the name of a pod is too long."""
    for index, (item, _) in enumerate(named_at(look, ("spec", "tasks"))):
        task = as_text(look((*item, "name"))) or f"default{index}"
        last = max(0, (number_at(look, (*item, "replicas"), 1) or 0) - 1)
        pod = f"{name}-{task}-{last}"
        yield MadeName(f"the pod {pod}", len(pod))


KIND = Kind(
    name="Job",
    written=(Written(VOLCANO_JOBS, roles, by_users=True, made_names=made_names),),
    job=VOLCANO_JOBS,
    one_instance=True,
    reviewed=True,
    looked_up=True,
    project="Volcano",
    definitions=(POD_GROUPS, QUEUES, VOLCANO_JOBS),
    tried="Ascend Operator, Volcano",
    pods_made_by="Volcano",
)
