"""From the record of a job and its pods to an instance, with its rounds, failures and end. Decides
nothing."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from scaler.decide.world import FailedPod, Instance, Life, RestartBudget, Warning
from scaler.informers.cache import Cache
from scaler.informers.jobs import JobRecord
from scaler.informers.pods import ENDED, PodRecord
from scaler.names import RULE_LABEL
from scaler.ranktables.tables import JobTable, Tables
from scaler.rules.jobspec import LEADER, WORKER
from scaler.state.instances import (
    counts_of,
    faulty_of,
    labelled,
    needs_of,
    not_held,
    present_of,
    trouble_of,
    ungated,
)


def of_job(cache: Cache, tables: Tables, record: JobRecord) -> Instance:
    """The instance that this job is, whether it has pods or not."""
    job = record.job
    owned = cache.pods_of(record.uid)
    # of a job whose replicas cannot be read any more: those that it has
    names = job.pods or sorted(owned)
    pods = [owned[name] for name in names if name in owned]
    faulty = faulty_of(cache, pods)
    ours = cache.makes_pods and record.kind == "AscendJob"
    return Instance(
        uid=record.uid,
        name=job.name,
        group=job.group,
        created=job.created,
        expected=len(names),
        kind=record.kind,
        generation=job.generation,
        owner_deleting=job.deleting,
        owner_finished=job.finished,
        **labelled(job, pods),
        trouble=job.ending or trouble_of(names, pods, faulty),
        made_by_us=ours,
        name_taken=_taken_name(cache, record, names) if ours else "",
        **counts_of(cache, pods, faulty),
        **_requests(cache, record, names, owned),
        **(
            _ours(cache, tables.of(record), record, pods, faulty)
            if ours
            else _others(cache, record, pods)
        ),
    )


def _requests(
    cache: Cache, record: JobRecord, names: Sequence[str], owned: Mapping[str, PodRecord]
) -> dict[str, Any]:
    if len(record.needs) != len(names):
        return {}
    known = cache.priorities.get("", record.priority_class) if record.priority_class else None
    priority = known.worth(record.namespace) if known is not None else 0
    return needs_of(
        [(owned.get(name), need) for name, need in zip(names, record.needs, strict=True)], priority
    )


def _ours(
    cache: Cache,
    table: JobTable | None,
    record: JobRecord,
    pods: Sequence[PodRecord],
    faulty: Container[str],
) -> dict[str, Any]:
    """What matters only where its pods are made here; where nothing is done, others look after its
    life and objects."""
    job = record.job
    if cache.watches:
        return {"faults": job.faults}
    present = present_of(pods)
    pod_group = cache.pod_groups.get(job.namespace, job.pod_group)
    has_service = cache.kube_services.get(job.namespace, job.leader) is not None
    leftovers = (
        pod_group is not None and pod_group.owner_uid == record.uid and not pod_group.terminating
    )
    members = pod_group.members if pod_group is not None and leftovers and not job.faults else 0
    obstacle = table.obstacle if table is not None else None
    return {
        "leftovers": leftovers,
        "stripped": bool(present) and not job.faults and (pod_group is None or not has_service),
        "faults": job.faults,
        "life": _life(cache, record, present, faulty, outgrown=0 < members != job.members),
        "warnings": ((obstacle.warning, obstacle.message),) if obstacle is not None else (),
    }


def _others(cache: Cache, record: JobRecord, pods: Sequence[PodRecord]) -> dict[str, Any]:
    """What matters of a job only where another operator makes its pods."""
    job = record.job
    faults = record.job.faults
    used = (
        max((pod.version for pod in pods), default=0)
        if record.kind == "AscendJob"
        else job.restarts
    )
    if job.refused:
        faults = (
            f"Ascend Operator has refused it ({job.refused}); delete the job and create it again",
        )
    elif record.kind == "AscendJob" and pods:
        faults = ()  # the operator has made them all the same
    words = (
        f"label {RULE_LABEL} is on the job itself, so Ascend Operator decides by its own gate; let"
        " admission move it (namespace labels, see docs/howto/beside-ascend-operator.md)"
    )
    named = ((Warning.HOLD_NOT_POSSIBLE, words),) if job.names_rule else ()
    return {
        "faults": faults,
        "budget": RestartBudget(job.restart_limit, used) if job.restart_limit is not None else None,
        "unheld": len(ungated(cache, present_of(pods))),
        "warnings": (*named, *not_held(cache, pods)),
    }


def _taken_name(cache: Cache, record: JobRecord, names: Sequence[str]) -> str:
    """A name that this instance needs and that an object of another owner has; "" without one."""
    job = record.job
    for name in names:
        pod = cache.pods.get(job.namespace, name)
        if pod is not None and pod.owner_uid != record.uid:
            return f"Pod {name}"
    service = cache.kube_services.get(job.namespace, job.leader)
    return (
        f"Service {job.leader}" if service is not None and service.owner_uid != record.uid else ""
    )


def _life(
    cache: Cache,
    record: JobRecord,
    present: Sequence[PodRecord],
    faulty: Container[str],
    *,
    outgrown: bool,
) -> Life:
    """`present` are the job's expected pods that do not terminate, `faulty` names those on faulty
    hardware."""
    job = record.job
    workers = f"{job.name}-{WORKER.lower()}-"
    return Life(
        policy=job.policy,
        version=max((pod.version for pod in present), default=-1),
        remaining=cache.retries_left(job.namespace, job.pod_group),
        failed=tuple(
            FailedPod(
                name=pod.name,
                exit_code=pod.exit_code,
                exit_code_decides=pod.name.startswith(job.exit_code_pods),
                # A process that dies of its hardware is no failure of the job; where Volcano
                # retries, it judges that.
                disrupted=pod.disrupted or (pod.name in faulty and not job.policy.retries),
            )
            for pod in present
            if pod.phase == "Failed"
        ),
        succeeded=sum(pod.phase == "Succeeded" for pod in present),
        workers=dict(job.replicas).get(workers, 0) if job.policy.all_workers else 0,
        workers_succeeded=sum(
            pod.phase == "Succeeded" and pod.name.startswith(workers) for pod in present
        ),
        surplus=_surplus(cache, record),
        outgrown=outgrown,
        **(_remains(cache, record) if job.finished else {}),
    )


def _surplus(cache: Cache, record: JobRecord) -> tuple[str, ...]:
    """Pods by names such as the job's own, but beyond its replicas; a backup pod of a hot switch
    has another name."""
    job = record.job
    owned = cache.pods_of(record.uid)
    names = frozenset(job.pods) if owned else frozenset()
    if not names or owned.keys() <= names:
        return ()
    found = []
    for name, pod in owned.items():
        kind, _, index = name.removeprefix(f"{job.name}-").partition("-")
        numbered = kind in (LEADER.lower(), WORKER.lower()) and index.isdecimal()
        if numbered and name not in names and not pod.terminating:
            found.append((kind == WORKER.lower(), int(index), name))
    return tuple(name for _, _, name in sorted(found, reverse=True))


def _remains(cache: Cache, record: JobRecord) -> dict[str, tuple[str, ...]]:
    left = cache.present_pods(record.uid)
    return {
        "unbound": tuple(pod.name for pod in left if not pod.node and pod.phase not in ENDED),
        "running_on": tuple(pod.name for pod in left if pod.node and pod.phase not in ENDED),
        "over": tuple(pod.name for pod in left if pod.phase in ENDED),
    }
