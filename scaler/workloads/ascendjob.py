"""AscendJob: a job of any shape as a value for the decision. Its objects are made in
workloads.ascendjob_objects.

Must not raise on any input: `Job.faults` lists why no pods can be made from a job. A field of its
run policy without a meaning counts as absent: a limit that is no number limits nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scaler.decide.decision import Ending
from scaler.decide.world import CleanPods, RunPolicy, ServiceKey
from scaler.kube.api import ASCEND_JOBS, Object
from scaler.names import (
    GROUP_LABEL,
    JOB_ID_LABEL,
    MOVED_RULE,
    PREFIX,
    ROUNDS_ANNOTATION,
    RULE_LABEL,
)
from scaler.reasons.reasons import Reason
from scaler.rules.jobspec import LEADER, job_findings, read_replicas
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.timestamps import seconds_of
from scaler.workloads.kind import Kind, Look, MadeName, Written
from scaler.workloads.membership import MOST_FAULTS, Job, job_head, labels_of, number_in
from scaler.workloads.npu_rules import npu_job_of
from scaler.workloads.stages import stage_of

APP_LABEL = "app"
JOB_LABEL = "training.kubeflow.org/job-name"
"""Label of every pod of an AscendJob, ours or Ascend Operator's; pods do not get the job's own
labels."""
_HARDWARE = ("huawei.com/schedule_policy", "sp-block", "scaleout-type")
EXIT_CODE = "ExitCode"
"""A restartPolicy of replicas, not of pods: pods that a signal ended are created again."""
NOT_FOR_GOOD = "JobValidFailed"
"""Reason of a Failed condition that Ascend Operator gives to an unreadable job; here a corrected
job may run again."""
_LONGEST = 10**9
"""Seconds, and restarts: larger numbers mean the same."""
RETRIES = ("volcano-system", "vcjob-fault-npu-cm")
RETRIES_KEY = "remain-retry-times"
"""Namespace, name and key of the ConfigMap in which Volcano's NPU plugin counts the retries that
each job has left."""


def read_job(obj: Object) -> Job:
    """The job, from its own object alone."""
    meta = at(obj, "metadata")
    labels = at(meta, "labels")
    moved = as_text(at(meta, "annotations").get(MOVED_RULE))
    if moved and RULE_LABEL not in labels:  # admission has moved the name of the rule here
        labels = {RULE_LABEL: moved, **labels}
    head = job_head(meta)
    key, label_problem = _service_of(head.namespace, labels)
    numbers = read_replicas(obj)
    final = final_condition(obj)
    policy = read_run_policy(obj)
    members = at(obj, "spec", "runPolicy", "schedulingPolicy").get("minAvailable")
    replicas = {f"{head.name}-{kind.lower()}-": number for kind, number in numbers.items()}
    restarted = []
    for kind, start in zip(numbers, replicas, strict=True):
        if at(obj, "spec", "replicaSpecs", kind).get("restartPolicy") == EXIT_CODE:
            restarted.append(start)
    return Job(
        namespace=head.namespace,
        name=head.name,
        uid=head.uid,
        created=head.created,
        generation=head.generation,
        deleting=head.deleting,
        pod_group=head.pod_group,
        key=key,
        group=as_text(labels.get(GROUP_LABEL)) or None,
        finished=final is not None,
        replicas=tuple(replicas.items()),
        policy=policy,
        members=members
        if isinstance(members, int) and not isinstance(members, bool)
        else sum(numbers.values()),
        exit_code_pods=tuple(restarted),
        ending=as_text(final.get("message")).rstrip(".") if final is not None else "",
        label_problem=label_problem,
        faults=tuple(
            f"{fault.code}: {fault.message}; {fault.hint}"
            for fault in job_findings(obj)[:MOST_FAULTS]
        ),
        restart_limit=policy.backoff_limit or None,
        refused=refusal(obj),
        names_rule=RULE_LABEL in at(meta, "labels"),
        hardware=(*_hardware(at(meta, "annotations")), *_hardware(at(meta, "labels"))),
        npus=npu_job_of(at(meta, "annotations"), at(meta, "labels")),
        stage=stage_of(at(meta, "labels")),
    )


def _hardware(words: Mapping[str, Any]) -> list[Any]:
    return [words.get(name) for name in _HARDWARE]


def is_foreign(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether an AscendJob is not ours: it has none of our labels, and is no server of MindIE."""
    server = APP_LABEL in labels and JOB_ID_LABEL in labels
    return not (
        server or MOVED_RULE in annotations or any(label.startswith(PREFIX) for label in labels)
    )


def _service_of(namespace: str, labels: Mapping[str, Any]) -> tuple[ServiceKey, Reason | None]:
    said = labels_of(labels)
    if RULE_LABEL in labels:
        return ServiceKey(namespace, said.rule, said.job_id), said.problem
    if APP_LABEL in labels and JOB_ID_LABEL in labels:
        return ServiceKey(namespace, "", said.job_id), None
    return ServiceKey(namespace, "", ""), Reason.NOT_SERVED


def read_run_policy(obj: Object) -> RunPolicy:
    """The run policy; `finished_at` is 0.0 for a job that has not finished."""
    meta = at(obj, "metadata")
    spec = at(obj, "spec")
    policy = at(spec, "runPolicy")
    final = final_condition(obj)
    rounds, _, uid = as_text(at(meta, "annotations").get(ROUNDS_ANNOTATION)).partition(".")
    retries = min(
        number_in(as_text(at(meta, "labels").get("fault-retry-times")), largest=10**18), _LONGEST
    )
    limit = _number(policy.get("backoffLimit"))
    return RunPolicy(
        backoff_limit=(retries if limit is None else limit) or 0,
        retries=bool(retries),
        clean=_clean(policy.get("cleanPodPolicy"), final),
        ttl=_number(policy.get("ttlSecondsAfterFinished")),
        deadline=_number(policy.get("activeDeadlineSeconds")),
        all_workers=spec.get("successPolicy") == "AllWorkers",
        started_at=seconds_of(as_text(at(obj, "status").get("startTime"))),
        finished_at=_finished_at(at(obj, "status"), final) if final is not None else 0.0,
        rounds=number_in(rounds, largest=10**9 - 1) if uid and uid == meta.get("uid") else 0,
    )


def _finished_at(status: Mapping[str, Any], final: Mapping[str, Any]) -> float:
    """Ascend Operator leaves out the completion time of some failures: then the time of the
    condition counts."""
    completion = seconds_of(as_text(status.get("completionTime")))
    return completion or seconds_of(as_text(final.get("lastTransitionTime")))


def rounds_patch(uid: str, rounds: int) -> dict[str, Any]:
    """The merge patch that notes on the job with this uid how often it has been whole."""
    return {"metadata": {"uid": uid, "annotations": {ROUNDS_ANNOTATION: f"{rounds}.{uid}"}}}


def final_condition(obj: Object) -> Mapping[str, Any] | None:
    """The condition that the job has succeeded or failed for good; None before that."""
    return _ending(obj, for_good=True)


def refusal(obj: Object) -> str:
    """As `Job.refused`. After such a failure Ascend Operator ignores the job, also after edits."""
    found = _ending(obj, for_good=False)
    return as_text(found.get("message")).rstrip(".") or NOT_FOR_GOOD if found is not None else ""


def _ending(obj: Object, *, for_good: bool) -> Mapping[str, Any] | None:
    for condition in map(at, as_list(at(obj, "status").get("conditions"))):
        ends = (
            condition.get("type") in ("Succeeded", "Failed") and condition.get("status") == "True"
        )
        if ends and (condition.get("reason") != NOT_FOR_GOOD) == for_good:
            return condition
    return None


def has_failed(obj: Object) -> bool:
    return (final_condition(obj) or {}).get("type") == "Failed"


def _clean(value: object, final: Mapping[str, Any] | None) -> CleanPods:
    """Unset means Running here, so that a finished job holds no NPUs; but a job that another
    controller finished, perhaps by mistake, keeps what that one left. For an unknown value as
    little as possible is deleted."""
    if value is None or value == "":
        ours = final is None or final.get("reason") in [ending.value for ending in Ending]
        return CleanPods.RUNNING if ours else CleanPods.NONE
    for policy in CleanPods:
        if policy.value == value:
            return policy
    return CleanPods.NONE


def _number(value: object) -> int | None:
    return (
        min(value, _LONGEST)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0
        else None
    )


def read_retries(text: str) -> dict[str, int]:
    """`<namespace>/<job>-<uid>` -> retries left; entries of another shape are left out."""
    try:
        entries = at(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    found = {}
    for name, entry in entries.items():
        times = at(entry).get("Times")
        if isinstance(times, int) and not isinstance(times, bool):
            found[name] = times
    return found


def own_labels(obj: Object) -> Mapping[str, Any]:
    """The labels of a job with the name of the rule that admission has moved; its templates repeat
    them."""
    labels = at(obj, "metadata", "labels")
    moved = at(obj, "metadata", "annotations").get(MOVED_RULE)
    return labels if moved is None else {RULE_LABEL: moved, **labels}


def pods_wanted(obj: Object) -> int:
    """The pods of all replica types."""
    pods = 0
    for replica in at(obj, "spec", "replicaSpecs").values():
        pods += as_count(at(replica).get("replicas"))
    return pods


def made_names(name: str, _: Look) -> Iterator[MadeName]:
    """The Service of the leader has the name of its pod."""
    service = f"{name}-{LEADER.lower()}-0"
    yield MadeName(f"the Service {service}", len(service), of_service=True)


KIND = Kind(
    name="AscendJob",
    written=(Written(ASCEND_JOBS, by_users=True, made_names=made_names),),
    job=ASCEND_JOBS,
    one_instance=True,
    reviewed=True,
    looked_up=True,
    own_labels=own_labels,
    project="MindCluster",
    definitions=(ASCEND_JOBS,),
    tried="Ascend Operator, Volcano",
    rights={
        "create": {
            (ASCEND_JOBS.group, "ascendjobs"): "get patch delete",
            (ASCEND_JOBS.group, "ascendjobs/finalizers"): "update",
            (ASCEND_JOBS.group, "ascendjobs/status"): "patch",
        }
    },
    pods_made_by="the scaler, or Ascend Operator",
    pods_wanted=pods_wanted,
)
