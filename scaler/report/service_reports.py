"""What the reporter works from after a pass: one frozen value per service, from its plan and the cache; and whether a
plan is to be reported. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from scaler.decide.explain import ABOUT_ROOM
from scaler.decide.world import Plan, Reason, Service, State, Tally
from scaler.informers.cache import Cache
from scaler.informers.records import JobRecord
from scaler.kube.api import ASCEND_JOBS, PODS, VOLCANO_JOBS
from scaler.report.job_status import ReplicaStatuses, replica_statuses
from scaler.state.cluster import ClusterState
from scaler.state.last_valid import LastValid, Name

RuleKey = Name
"""A rule ConfigMap, existing or not."""


class Subject(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class ServiceReport(msgspec.Struct, frozen=True, gc=False):
    """One service after one pass."""

    service: Service
    plan: Plan
    jobs: Mapping[str, JobRecord] = {}
    """Owner uid -> AscendJob as the cache has it, where its status is ours to write."""
    subjects: Mapping[str, Subject] = {}
    """Instance uid -> the object of events about it; there are none about any other."""
    replicas: Mapping[str, ReplicaStatuses] = {}
    """Owner uid -> its pods, of those in `jobs` and perhaps more."""
    rule_uid: str = ""
    """uid of the rule ConfigMap that exists now; "" when there is none."""
    last_valid: LastValid | None = None
    """The document that the rule in force was read from; None when no valid one was ever seen."""
    alone: str = ""
    """Why the service is not weighed against others; "" when it is."""
    out_of_touch: str = ""
    """What is not seen now, so that nothing is decided; "" while everything is."""

    @property
    def rule(self) -> RuleKey:
        return RuleKey(self.plan.key.namespace, self.plan.key.rule)


def report_of(
    state: ClusterState, service: Service, plan: Plan, *, alone: str = "", out_of_touch: str = ""
) -> ServiceReport:
    """What was decided about one service, with the objects that it was decided about. `alone`: why no service is
    weighed against others now; `out_of_touch`: why nothing is decided now."""
    cache, rule = state.cache, state.rule(service.key)
    jobs = cache.jobs_of(service.key)
    ours = {instance.uid for instance in service.instances if instance.made_by_us}
    return ServiceReport(
        service=service,
        plan=plan,
        jobs={job.uid: job for job in jobs if job.uid in ours and job.text},
        subjects={
            instance.uid: subject
            for instance in service.instances
            if (subject := _subject(cache, instance.uid)) is not None
        },
        replicas={job.uid: replica_statuses(job.job, _phases(cache, job.uid)) for job in jobs if job.uid in ours},
        rule_uid=rule.uid,
        last_valid=rule.last_valid,
        alone=alone or _why_alone(service),
        out_of_touch=out_of_touch,
    )


def _why_alone(service: Service) -> str:
    if service.rule is None:
        return "no rule in force"
    return "" if service.options.arbitration else 'annotation mind-cluster/arbitration: "off"'


def _subject(cache: Cache, uid: str) -> Subject | None:
    """The job, or the first pod of an instance that is known from its pods alone."""
    job = cache.job(uid)
    if job is not None:
        resource = ASCEND_JOBS if job.kind == ASCEND_JOBS.kind else VOLCANO_JOBS
        return Subject(resource.api_version, resource.kind, job.namespace, job.name, job.uid)
    first = min(cache.pods_of(uid).values(), key=lambda pod: pod.name, default=None)
    return Subject(PODS.api_version, PODS.kind, first.namespace, first.name, first.uid) if first is not None else None


def _phases(cache: Cache, uid: str) -> dict[str, str]:
    return {pod.name: pod.phase for pod in cache.pods_of(uid).values() if not pod.terminating}


def waits_for_room(plan: Plan) -> bool:
    """Whether more room would change what is done about the service."""
    return any(verdict.reason in ABOUT_ROOM for verdict in plan.verdicts)


def arbitration_waits(tally: Tally | None) -> bool:
    """The same of all services that are weighed against each other."""
    if tally is None:
        return False
    return bool(tally.minimums_waiting or tally.scale_ups_waiting or tally.in_backoff or tally.probing)


def differs(before: Plan, plan: Plan) -> bool:
    """Whether people would see another state, reason or number."""
    same = before is plan or (_numbers(before) == _numbers(plan) and _reasons(before) == _reasons(plan))
    return not same


def differs_in_words(before: Plan, plan: Plan) -> bool:
    """Whether anything at all is different that people can see."""
    return before is not plan and (before.verdicts != plan.verdicts or before.notes != plan.notes)


def _numbers(plan: Plan) -> tuple[object, ...]:
    return plan.target_index, plan.target, plan.complete, plan.serves, plan.groups, plan.replicas


def _reasons(plan: Plan) -> list[tuple[str, State, Reason]]:
    return [(verdict.uid, verdict.state, verdict.reason) for verdict in plan.verdicts]
