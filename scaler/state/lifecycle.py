"""From the cache to what the pods of one job show of restarts and endings. Decides nothing, writes nothing."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from scaler.clock import Skew
from scaler.decide.lifecycle import FailedPod, Life
from scaler.decide.world import Instance
from scaler.rules.jobspec import LEADER, WORKER

if TYPE_CHECKING:
    from scaler.informers.cache import Cache
    from scaler.informers.jobs import JobRecord
    from scaler.informers.pods import PodRecord
    from scaler.workloads.membership import Job

ENDED = ("Failed", "Succeeded")


def life_of(cache: Cache, record: JobRecord, present: Sequence[PodRecord], faulty: Container[str]) -> Life:
    """`present` are the job's expected pods that do not terminate, `faulty` names those on faulty hardware."""
    job = record.job
    unbound, running_on, over = _remains(cache, record) if job.finished else ((), (), ())
    workers = f"{job.name}-{WORKER.lower()}-"
    return Life(
        policy=job.policy,
        version=max((pod.version for pod in present), default=-1),
        remaining=cache.retries_left(job.namespace, job.pod_group),
        failed=tuple(_failed(pod, job, pod.name in faulty) for pod in present if pod.phase == "Failed"),
        succeeded=sum(pod.phase == "Succeeded" for pod in present),
        workers=dict(job.replicas).get(workers, 0) if job.policy.all_workers else 0,
        workers_succeeded=sum(pod.phase == "Succeeded" and pod.name.startswith(workers) for pod in present),
        surplus=tuple(_surplus(cache, record)),
        outgrown=_outgrown(cache, job),
        unbound=unbound,
        running_on=running_on,
        over=over,
    )


def _failed(pod: PodRecord, job: Job, faulty: bool) -> FailedPod:
    """A process that dies of its hardware is no failure of the job; where Volcano retries, it also judges that."""
    disrupted = pod.disrupted or (faulty and not job.policy.retries)
    return FailedPod(pod.name, pod.exit_code, pod.name.startswith(job.exit_code_pods), disrupted)


def _outgrown(cache: Cache, job: Job) -> bool:
    group = cache.pod_groups.get(job.namespace, job.pod_group)
    ours = group is not None and group.owner_uid == job.uid and not group.terminating
    return ours and group is not None and not job.faults and 0 < group.members != job.members


def _surplus(cache: Cache, record: JobRecord) -> Iterator[str]:
    """Pods by names such as the job's own, but beyond its replicas; a backup pod of a hot switch has another name."""
    job, owned = record.job, cache.pods_of(record.uid)
    names = frozenset(job.pods) if owned else frozenset()
    if not names or owned.keys() <= names:
        return
    found = []
    for name, pod in owned.items():
        kind, _, index = name.removeprefix(f"{job.name}-").partition("-")
        numbered = kind in (LEADER.lower(), WORKER.lower()) and index.isdecimal()
        if numbered and name not in names and not pod.terminating:
            found.append((kind == WORKER.lower(), int(index), name))
    yield from (name for _, _, name in sorted(found, reverse=True))


def _remains(cache: Cache, record: JobRecord) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """All pods of a finished job that are not terminating: not bound, running on, ended."""
    pods = sorted(cache.pods_of(record.uid).values(), key=lambda pod: pod.name)
    left = [pod for pod in pods if not pod.terminating]
    return (
        tuple(pod.name for pod in left if not pod.node and pod.phase not in ENDED),
        tuple(pod.name for pod in left if pod.node and pod.phase not in ENDED),
        tuple(pod.name for pod in left if pod.phase in ENDED),
    )


def in_our_time(instance: Instance, skew: Skew) -> Instance:
    """Its times, which come from the API server, in the time that decisions are made in. A job must not be ended or
    deleted too soon; all other waits, of seconds, must not last for hours."""
    life, policy = instance.life, instance.life.policy
    ends = {"started_at": skew.latest(policy.started_at), "finished_at": skew.latest(policy.finished_at)}
    return replace(
        instance,
        admitted_at=skew.earliest(instance.admitted_at),
        newest=skew.earliest(instance.newest),
        ends_by=skew.earliest(instance.ends_by),
        life=replace(life, policy=replace(policy, **ends)),
    )
