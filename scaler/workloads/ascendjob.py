"""AscendJob: what the decision needs of a raw job, whatever its shape, and the instance that it and its pods form.

Must not raise on any input: a job of a shape that no pods can be made from says so in `Job.faults`. What has no meaning
in its run policy counts as not said: a limit that is no number limits nothing.
The objects themselves are made in workloads.ascendjob_objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.decide.lifecycle import CleanPods, Ending, RunPolicy
from scaler.decide.world import Reason, ServiceKey
from scaler.kube.api import Object
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, MOVED_RULE, PREFIX, ROUNDS_ANNOTATION, RULE_LABEL
from scaler.rules.jobspec import job_findings, read_replicas
from scaler.rules.values import as_list, as_text, at
from scaler.workloads.membership import MOST_FAULTS, Job, labels_of, number_in, said_by_metadata

APP_LABEL = "app"
_HARDWARE = ("huawei.com/schedule_policy", "sp-block", "scaleout-type")
"""Annotations and labels on which a rank table depends (ranktables/table.py)."""
EXIT_CODE = "ExitCode"
"""A restartPolicy of replicas, not of pods: pods that a signal ended are made anew."""
RETRIES_LABEL = "fault-retry-times"
NOT_FOR_GOOD = "JobValidFailed"
"""Reason of a Failed condition that Ascend Operator gives to a job it cannot read: mending the job lifts it here."""
_LONGEST = 10**9
"""Seconds, and restarts: more mean the same."""
RETRIES, RETRIES_KEY = ("volcano-system", "vcjob-fault-npu-cm"), "remain-retry-times"
"""Namespace, name and key of the ConfigMap in which Volcano's NPU plugin counts the retries that each job has left."""


def read_job(obj: Object) -> Job:
    """Everything that is known from the job alone."""
    meta = at(obj, "metadata")
    labels, moved = at(meta, "labels"), as_text(at(meta, "annotations").get(MOVED_RULE))
    if moved and RULE_LABEL not in labels:  # where admission has put the name of the rule
        labels = {RULE_LABEL: moved, **labels}
    name = as_text(meta.get("name"))
    key, label_problem = _service_of(as_text(meta.get("namespace")), labels)
    numbers = read_replicas(obj)
    final, policy = final_condition(obj), read_run_policy(obj)
    members = at(obj, "spec", "runPolicy", "schedulingPolicy").get("minAvailable")
    replicas = at(obj, "spec", "replicaSpecs")
    restarted = (kind for kind in numbers if at(replicas[kind]).get("restartPolicy") == EXIT_CODE)
    return Job(
        **said_by_metadata(meta),
        key=key,
        group=as_text(labels.get(GROUP_LABEL)) or None,
        finished=final is not None,
        replicas=tuple((f"{name}-{kind.lower()}-", number) for kind, number in numbers.items()),
        policy=policy,
        members=members if isinstance(members, int) and not isinstance(members, bool) else sum(numbers.values()),
        exit_code_pods=tuple(f"{name}-{kind.lower()}-" for kind in restarted),
        ending=as_text(final.get("message")).rstrip(".") if final is not None else "",
        label_problem=label_problem,
        faults=tuple(f"{fault.code}: {fault.message}; {fault.hint}" for fault in job_findings(obj)[:MOST_FAULTS]),
        restart_limit=policy.backoff_limit or None,
        refused=refusal(obj),
        names_rule=RULE_LABEL in at(meta, "labels"),
        hardware=tuple(at(meta, part).get(name) for part in ("annotations", "labels") for name in _HARDWARE),
    )


def is_foreign(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether an AscendJob is none of ours: not one word on it is about us, and it is no server of MindIE."""
    server = APP_LABEL in labels and JOB_ID_LABEL in labels
    return not (server or MOVED_RULE in annotations or any(label.startswith(PREFIX) for label in labels))


def _service_of(namespace: str, labels: Mapping[str, Any]) -> tuple[ServiceKey, Reason | None]:
    """The service that the labels name, and what is wrong with them."""
    said = labels_of(labels)
    if RULE_LABEL in labels:
        return ServiceKey(namespace, said.rule, said.job_id), said.problem
    if APP_LABEL in labels and JOB_ID_LABEL in labels:
        return ServiceKey(namespace, "", said.job_id), None
    return ServiceKey(namespace, "", ""), Reason.NOT_SERVED


# Restarts and the end


def read_run_policy(obj: Object) -> RunPolicy:
    """`finished_at` is 0.0 for a job that has not finished."""
    meta, status, spec = (at(obj, part) for part in ("metadata", "status", "spec"))
    policy, final = at(spec, "runPolicy"), final_condition(obj)
    rounds, _, uid = as_text(at(meta, "annotations").get(ROUNDS_ANNOTATION)).partition(".")
    retries = min(number_in(as_text(at(meta, "labels").get(RETRIES_LABEL)), largest=10**18), _LONGEST)
    limit = _number(policy.get("backoffLimit"))
    # Ascend Operator leaves out the completion time of some failures: then it is that of the condition.
    finished = (status.get("completionTime"), final.get("lastTransitionTime")) if final is not None else ()
    return RunPolicy(
        backoff_limit=(retries if limit is None else limit) or 0,
        retries=bool(retries),
        clean=_clean(policy.get("cleanPodPolicy"), final),
        ttl=_number(policy.get("ttlSecondsAfterFinished")),
        deadline=_number(policy.get("activeDeadlineSeconds")),
        all_workers=spec.get("successPolicy") == "AllWorkers",
        started_at=seconds_of(as_text(status.get("startTime"))),
        finished_at=next((time for text in finished if (time := seconds_of(as_text(text)))), 0.0),
        rounds=number_in(rounds, largest=10**9 - 1) if uid and uid == meta.get("uid") else 0,
    )


def rounds_patch(uid: str, rounds: int) -> dict[str, Any]:
    """The merge patch that notes on the job with this uid how often it has been whole."""
    return {"metadata": {"uid": uid, "annotations": {ROUNDS_ANNOTATION: f"{rounds}.{uid}"}}}


def final_condition(obj: Object) -> Mapping[str, Any] | None:
    """The condition that says that the job has succeeded or failed for good; None while it has not."""
    return next((end for end in _ends(obj) if end.get("reason") != NOT_FOR_GOOD), None)


def refusal(obj: Object) -> str:
    """Why Ascend Operator could not read the job, in its own words; "" when it could. The operator looks no more at a
    job that it has refused, whatever is edited."""
    found = next((end for end in _ends(obj) if end.get("reason") == NOT_FOR_GOOD), None)
    return as_text(found.get("message")).rstrip(".") or NOT_FOR_GOOD if found is not None else ""


def _ends(obj: Object) -> Iterator[Mapping[str, Any]]:
    for condition in map(at, as_list(at(obj, "status").get("conditions"))):
        if condition.get("type") in ("Succeeded", "Failed") and condition.get("status") == "True":
            yield condition


def has_failed(obj: Object) -> bool:
    """Whether it has failed for good."""
    return (final_condition(obj) or {}).get("type") == "Failed"


def _clean(value: object, final: Mapping[str, Any] | None) -> CleanPods:
    """Unset is Running here: a job that has ended holds no NPUs. But what another controller ended, perhaps by mistake,
    goes on as that one left it. A value that is not known touches as little as possible."""
    if value is None or value == "":
        ours = final is None or final.get("reason") in [ending.value for ending in Ending]
        return CleanPods.RUNNING if ours else CleanPods.NONE
    return next((policy for policy in CleanPods if policy.value == value), CleanPods.NONE)


def _number(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return min(value, _LONGEST)


def read_retries(text: str) -> dict[str, int]:
    """`<namespace>/<job>-<uid>` -> retries left; entries of another shape are left out."""
    try:
        entries = at(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    found = {name: at(entry).get("Times") for name, entry in entries.items()}
    return {name: times for name, times in found.items() if isinstance(times, int) and not isinstance(times, bool)}
