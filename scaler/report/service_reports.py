"""From a decision and the cache to the value that the reporter works from. Decides and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.decide.world import Plan, Service
from scaler.informers.cache import Cache
from scaler.informers.pods import PodRecord
from scaler.informers.records import JobRecord
from scaler.kube.api import ASCEND_JOBS, PODS, VOLCANO_JOBS
from scaler.report.values import ServiceReport, Subject
from scaler.rules.jobspec import LEADER, WORKER
from scaler.state.cluster import ClusterState
from scaler.workloads.ascendjob_status import ReplicaCounts


def report_of(state: ClusterState, service: Service, plan: Plan, *, alone: str = "") -> ServiceReport:
    """What was decided about one service, with the objects that it was decided about. `alone`: why no service is
    weighed against others now."""
    cache, rule = state.cache, state.rule(service.key)
    jobs = cache.jobs_of(service.key)
    ours = {instance.uid for instance in service.instances if instance.made_by_us}
    return ServiceReport(
        service=service,
        plan=plan,
        jobs={job.uid: job.object for job in jobs if job.uid in ours},
        subjects={
            instance.uid: subject
            for instance in service.instances
            if not instance.made_by_us and (subject := _subject(cache, instance.uid)) is not None
        },
        replicas={job.uid: _replicas(job, cache.pods_of(job.uid)) for job in jobs if job.uid in ours},
        rule_uid=rule.uid,
        last_valid=rule.last_valid,
        alone=alone or _why_alone(service),
    )


def _why_alone(service: Service) -> str:
    if service.rule is None:
        return "no rule in force"
    return "" if service.options.arbitration else 'annotation mind-cluster/arbitration: "off"'


def _subject(cache: Cache, uid: str) -> Subject | None:
    """The job, or the first pod of an instance that only its pods tell of."""
    job = cache.job(uid)
    if job is not None:
        resource = ASCEND_JOBS if job.kind == ASCEND_JOBS.kind else VOLCANO_JOBS
        return Subject(resource.api_version, resource.kind, job.namespace, job.name, job.uid)
    first = min(cache.pods_of(uid).values(), key=lambda pod: pod.name, default=None)
    return Subject(PODS.api_version, PODS.kind, first.namespace, first.name, first.uid) if first is not None else None


def _replicas(record: JobRecord, pods: Mapping[str, PodRecord]) -> Mapping[str, ReplicaCounts]:
    """Pods by replica type and phase; terminating ones are no longer anybody's."""
    phases: dict[str, list[str]] = {}
    for name in record.job.pods:
        kind = LEADER if name.removeprefix(f"{record.name}-").startswith("master") else WORKER
        found = phases.setdefault(kind, [])
        pod = pods.get(name)
        if pod is not None and not pod.terminating:
            found.append(pod.phase)
    return {
        kind: ReplicaCounts(found.count("Running"), found.count("Succeeded"), found.count("Failed"))
        for kind, found in phases.items()
    }
