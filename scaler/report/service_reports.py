"""The input of the reporter after a pass: one frozen value per service, from its plan and the
cache. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from scaler.decide.decision import GroupPlan, Plan, Verdict
from scaler.decide.explain import words
from scaler.decide.world import Instance, Service
from scaler.informers.cache import Cache
from scaler.informers.jobs import JobRecord
from scaler.kube.api import PODS, Resource
from scaler.rules.jobspec import LEADER, WORKER
from scaler.rules.rule import Ratio
from scaler.rules.short import Stage
from scaler.state.cluster import ClusterState
from scaler.state.last_valid import LastValid
from scaler.workloads.kinds import JOBS
from scaler.workloads.membership import Job

ReplicaStatuses = Mapping[str, Mapping[str, int]]
"""Replica type -> pods as an AscendJob counts them. Zeros are left out, as the operator does."""
_COUNTED = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}


class Subject(NamedTuple):
    """The object that an event is about."""

    resource: Resource
    namespace: str
    name: str
    uid: str = ""


class InstanceReport(msgspec.Struct, frozen=True, gc=False):
    """One instance after one pass: what was decided about it, and its objects."""

    plan: Plan
    verdict: Verdict
    instance: Instance
    subject: Subject
    """Its job, or the first pod of an instance that is known from its pods alone."""
    job: JobRecord | None = None
    """An AscendJob whose status the scaler writes."""
    replicas: ReplicaStatuses = {}

    @property
    def words(self) -> str:
        return words(self.verdict, self.plan)


class ServiceReport(msgspec.Struct, frozen=True, gc=False):
    service: Service
    plan: Plan
    instances: Mapping[str, InstanceReport] = {}
    """By uid; without instances of which the cache has no object, and empty when deciding
    failed."""
    rule_uid: str = ""
    """uid of the rule ConfigMap that exists now; "" when there is none."""
    last_valid: LastValid | None = None
    """The document of the rule in force; None when no valid one was ever seen."""
    alone: str = ""
    """Why the service is not weighed against others; "" when it is."""
    not_kept: str = ""
    """Why its rule is not kept, in words; "" when it is."""
    stages: Mapping[str, Stage] = {}
    """Of the groups whose jobs say it, and all of them the same."""
    out_of_touch: str = ""
    """What is not seen now, so that nothing is decided; "" while everything is seen."""


def report_of(
    state: ClusterState, service: Service, plan: Plan, *, alone: str, out_of_touch: str
) -> ServiceReport:
    """The decision about a service, with the objects that it is about; `alone`: why no service at
    all is weighed."""
    rule = state.rule(service.key)
    if not alone and service.rule is None:
        alone = "no rule in force"
    elif not alone and not service.options.arbitration:
        alone = 'annotation mind-cluster/arbitration: "off"'
    instances = {one.uid: one for one in service.instances}
    seen: dict[str, InstanceReport] = {}
    for verdict in plan.verdicts:
        one = _instance(state.cache, plan, verdict, instances[verdict.uid])
        if one is not None:
            seen[verdict.uid] = one
    return ServiceReport(
        service,
        plan,
        seen,
        rule.uid,
        rule.last_valid,
        alone,
        rule.not_kept,
        _stages(state.cache, plan),
        out_of_touch,
    )


def _stages(cache: Cache, plan: Plan) -> dict[str, Stage]:
    found: dict[str, set[Stage]] = {}
    for verdict in plan.verdicts:
        job = cache.job(verdict.uid)
        if job is not None and verdict.group is not None:
            found.setdefault(verdict.group, set()).add(job.job.stage)
    stages: dict[str, Stage] = {}
    for group, said in found.items():
        if len(said) == 1 and "" not in said:
            stages[group] = said.pop()
    return stages


def _instance(
    cache: Cache, plan: Plan, verdict: Verdict, instance: Instance
) -> InstanceReport | None:
    job = cache.job(instance.uid)
    pods = cache.pods_of(instance.uid).values()
    if job is None:
        first = min(pods, key=lambda pod: pod.name, default=None)
        if first is None:
            return None
        return InstanceReport(
            plan, verdict, instance, Subject(PODS, first.namespace, first.name, first.uid)
        )
    subject = Subject(JOBS[job.kind], job.namespace, job.name, job.uid)
    if not instance.made_by_us or not job.text:
        return InstanceReport(plan, verdict, instance, subject)
    phases = {pod.name: pod.phase for pod in pods if not pod.terminating}
    return InstanceReport(plan, verdict, instance, subject, job, replica_statuses(job.job, phases))


def replica_statuses(job: Job, phases: Mapping[str, str]) -> ReplicaStatuses:
    """Counts by replica type, from the phases of the job's pods by name. Terminating pods are not
    counted."""
    counts: dict[str, Counter[str]] = {}
    for name in job.pods:
        kind = LEADER if name.startswith(f"{job.name}-{LEADER.lower()}-") else WORKER
        found = counts.setdefault(kind, Counter())
        if phases.get(name) in _COUNTED:
            found[_COUNTED[phases[name]]] += 1
    return _as_mapping(tuple((kind, *sorted(found.items())) for kind, found in counts.items()))


@lru_cache(maxsize=1024)
def _as_mapping(counts: tuple[tuple[Any, ...], ...]) -> ReplicaStatuses:
    """One object for all equal counts; most are equal."""
    return {kind: dict(found) for kind, *found in counts}


def rule_is_valid(service: Service) -> bool:
    """Whether its rule exists and has no error. With an invalid rule the last valid one is in
    force."""
    return service.rule is not None and service.problem is None


def running_index(service: Service, groups: Mapping[str, GroupPlan]) -> int:
    """Index of the largest ratio whose counts all groups run, 0 = the largest of the rule; -1 for
    none."""
    ratios = service.rule.ratios if service.rule else ()
    running = {name: group.running for name, group in groups.items()}

    def runs(ratio: Ratio) -> bool:
        return all(running.get(name, 0) >= number for name, number in ratio.counts.items())

    # ratios never rise from first to last, and a rule may have 1,024
    index = bisect_left(ratios, True, key=runs)
    return index if index < len(ratios) else -1


def difference(before: Plan | None, plan: Plan) -> Literal["", "words", "numbers"]:
    """What people would see differ: a state, a reason or a number, nothing but words, or
    nothing."""
    if before is None or (before is not plan and _in_numbers(before) != _in_numbers(plan)):
        return "numbers"
    return "" if (before.verdicts, before.notes) == (plan.verdicts, plan.notes) else "words"


def _in_numbers(plan: Plan) -> tuple[object, ...]:
    reasons = [(verdict.uid, verdict.state, verdict.reason) for verdict in plan.verdicts]
    return (
        plan.target_index,
        plan.target,
        plan.complete,
        plan.serves,
        plan.groups,
        plan.replicas,
        reasons,
    )
