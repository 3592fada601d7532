"""From a decision and the cache to the value that the reporter works from. Decides and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.kube.api import Object
from scaler.observe.cache import Cache
from scaler.observe.objects import JobRecord, PodRecord
from scaler.plan.model import Plan, Snapshot
from scaler.report.values import ReplicaCounts, ServiceReport
from scaler.rules.jobspec import LEADER, WORKER


def report_of(cache: Cache, snapshot: Snapshot, plan: Plan) -> ServiceReport:
    """What was decided about one service, with the objects that it was decided about."""
    jobs = cache.jobs_of(snapshot.key)
    rule = cache.rules.in_force(snapshot.key.namespace, snapshot.key.rule) if snapshot.key.rule else None
    return ServiceReport(
        snapshot=snapshot,
        plan=plan,
        jobs=_objects(jobs),
        replicas={job.uid: _replicas(job, cache.pods_of(job.uid)) for job in jobs},
        rule_uid=rule.uid if rule else "",
        last_valid=rule.last_valid if rule else None,
    )


def _objects(jobs: list[JobRecord]) -> Mapping[str, Object]:
    return {job.uid: job.object for job in jobs}


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
