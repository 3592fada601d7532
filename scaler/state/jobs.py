"""From the record of a job and its pods to an instance, with its rounds, failures and end. Decides
nothing."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial

import msgspec

from scaler.decide.nodes import PodRequest
from scaler.decide.world import FailedPod, Instance, Life, RestartBudget
from scaler.informers.cache import Cache
from scaler.informers.jobs import JobRecord
from scaler.informers.pods import ENDED, PodRecord
from scaler.names import RULE_LABEL
from scaler.ranktables.tables import JobTable, Tables
from scaler.reasons.warnings import Warning
from scaler.rules.jobspec import LEADER, WORKER
from scaler.state.instances import (
    PodParts,
    Requested,
    counts_of,
    faulty_of,
    is_lost,
    labelled,
    not_held,
    present_of,
    refused_of,
    requested_of,
    times_of,
    trouble_of,
    ungated,
    with_pods,
)
from scaler.state.makers import REMEDY, Maker
from scaler.state.scheduler import (
    as_scheduled,
    how_to_heal,
    takes_blocks,
    why_not_back,
    without_rank,
)
from scaler.state.situation import Situation
from scaler.workloads.ascendjob import JOB_LABEL
from scaler.workloads.membership import Job, LaterPods
from scaler.workloads.volcanojob import JOB_VERSION, VOLCANO_JOBS

_COUNTED = (
    f"status.retryCount rose although its pods had been deleted with annotation {JOB_VERSION}"
    " below that of the job: does anything change that annotation, or did new pods of it fail at"
    " once? Until the scaler restarts, it keeps restarts of this job for faults and does not revoke"
    " it when it cannot spare one (restart_reserve)"
)


class _ByOwner(msgspec.Struct, frozen=True, gc=False):
    """The parts of an instance that depend on the owner of its pods."""

    faults: tuple[str, ...] = ()
    warnings: tuple[tuple[Warning, str], ...] = ()
    leftovers: bool = False
    stripped: bool = False
    life: Life = Life()
    budget: RestartBudget | None = None
    unheld: int = 0
    more_to_come: bool = False
    first_are_ready: bool = False


class _Remains(msgspec.Struct, frozen=True, gc=False):
    """The pods that a finished job has left, as at `Life`."""

    unbound: tuple[str, ...] = ()
    running_on: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


def of_job(
    cache: Cache, situation: Situation, tables: Tables, record: JobRecord, maker: Maker
) -> Instance:
    """The instance that this job is, whether it has pods or not."""
    job = record.job
    owned = cache.pods_of(record.uid)
    # of a job whose replicas cannot be read any more: those that it has
    names = job.pods or sorted(owned)
    pods = [owned[name] for name in names if name in owned]
    faulty = faulty_of(cache, situation, pods)
    ours = maker.ours
    in_the_way = _pods_of_others(cache, record, names) if ours else []
    # until they have ended nothing can be made in their place, as with pods of its own
    pods_and_ending = [*pods, *[pod for pod in in_the_way if pod.terminating]]
    if not ours:
        rest = _others(cache, situation, record, pods, maker.other)
    elif situation.shadow:
        rest = _ByOwner(faults=job.faults)  # others look after its life and its objects
    else:
        rest = _ours(cache, tables.of(record), record, pods, faulty)
    is_on_lost_node = partial(is_lost, cache, situation)
    requested = _requested(cache, situation, record, names, owned)
    displaced = _why_displaced(cache, record, names, owned, requested)
    trouble = trouble_of(names, pods_and_ending, faulty, is_on_lost_node)
    parts = PodParts(
        counts=counts_of(pods_and_ending),
        times=times_of(cache, situation, pods_and_ending),
        requested=requested,
        labels=labelled(job, pods),
        faulty=len(faulty),
    )
    instance = Instance(
        uid=record.uid,
        name=job.name,
        group=job.group,
        created=job.created,
        expected=len(names),
        kind=record.kind,
        generation=job.generation,
        owner_deleting=job.deleting,
        owner_finished=job.finished,
        trouble=job.ending or (f"{trouble}; {displaced}" if displaced else trouble),
        displaced=bool(displaced),
        made_by_us=ours,
        name_taken=_taken_name(cache, record, in_the_way) if ours else "",
        faults=rest.faults or requested.faults,
        warnings=(*rest.warnings, *without_rank(pods)),
        leftovers=rest.leftovers,
        stripped=rest.stripped,
        life=rest.life,
        budget=rest.budget,
        unheld=rest.unheld,
        more_to_come=rest.more_to_come,
        first_are_ready=rest.first_are_ready,
        refused=() if job.finished or situation.shadow else refused_of(present_of(pods)),
        refusals=cache.refused_pods.of(record.namespace, record.uid),
    )
    return as_scheduled(with_pods(instance, parts), cache.pod_group_of(record), job.npus)


def _requested(
    cache: Cache,
    situation: Situation,
    record: JobRecord,
    names: Sequence[str],
    owned: Mapping[str, PodRecord],
) -> Requested:
    if len(record.requests) != len(names):
        return Requested()
    known = cache.priorities.get("", record.priority_class) if record.priority_class else None
    priority = known.worth(record.namespace) if known is not None else 0
    expected: Sequence[tuple[PodRecord | None, PodRequest]] = [
        (owned.get(name), request) for name, request in zip(names, record.requests, strict=True)
    ]
    return requested_of(situation, record.job.npus, record.job.tier, expected, priority)


def _why_displaced(
    cache: Cache,
    record: JobRecord,
    names: Sequence[str],
    owned: Mapping[str, PodRecord],
    requested: Requested,
) -> str:
    """Why lost pods of its blocks cannot return to their nodes, and what helps; "" when they can,
    or none is lost."""
    lost = []
    for name in names:
        pod = owned.get(name)
        if pod is None or pod.gated:
            lost.append(name)
    if not (requested.bound_pods and takes_blocks(requested.requests)):
        return ""
    why = why_not_back(cache, record.namespace, record.uid, lost)
    what = f"-l {JOB_LABEL}={record.name}"
    return f"{why}, {how_to_heal(record.job.npus, record.namespace, what)}" if why else ""


def _ours(
    cache: Cache,
    table: JobTable | None,
    record: JobRecord,
    pods: Sequence[PodRecord],
    faulty: Container[str],
) -> _ByOwner:
    """The parts of an instance whose pods the scaler makes."""
    job = record.job
    present = present_of(pods)
    pod_group = cache.pod_groups.get(job.namespace, job.pod_group)
    has_service = cache.kube_services.get(job.namespace, job.leader) is not None
    leftovers = (
        pod_group is not None and pod_group.owner_uid == record.uid and not pod_group.terminating
    )
    members = pod_group.members if pod_group is not None and leftovers and not job.faults else 0
    obstacle = table.obstacle if table is not None else None
    return _ByOwner(
        faults=job.faults,
        warnings=((obstacle.warning, obstacle.message),) if obstacle is not None else (),
        leftovers=leftovers,
        stripped=bool(present) and not job.faults and (pod_group is None or not has_service),
        life=_life(cache, record, present, faulty, outgrown=0 < members != job.members),
    )


def _others(
    cache: Cache,
    situation: Situation,
    record: JobRecord,
    pods: Sequence[PodRecord],
    other: str,
) -> _ByOwner:
    """The parts of an instance whose pods another operator makes; `other`: against the mode in
    force, as `Maker.other`."""
    job = record.job
    faults = record.job.faults
    used = job.restarts
    if record.kind == "AscendJob":
        used = max([pod.version for pod in pods], default=0)
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
    if other:
        named = ((Warning.MADE_BY_OTHERS, f"{other}. {REMEDY}"),)
    present = present_of(pods)
    awaited = awaited_of(job, present) if job.later else ()
    # Volcano counts no restart for pods that are marked before their deletion
    costs_nothing = record.kind == VOLCANO_JOBS.kind and record.uid not in situation.counted
    limit = None if costs_nothing else job.restart_limit
    if record.uid in situation.counted:
        named = (*named, (Warning.RESTART_WAS_COUNTED, _COUNTED))
    return _ByOwner(
        faults=faults,
        warnings=(*named, *not_held(cache, situation, pods)),
        budget=RestartBudget(limit, used) if limit is not None else None,
        unheld=len(ungated(cache, situation, present)),
        more_to_come=bool(awaited),
        first_are_ready=bool(awaited) and all(may_begin(one, present) for one in awaited),
    )


def awaited_of(job: Job, present: Sequence[PodRecord]) -> Sequence[LaterPods]:
    """The parts with missing pods of which each is created only when others are ready; none where
    any other pod is missing."""
    names = {pod.name for pod in present}
    later = {one.start: one for one in job.later}
    awaited = []
    for start, number in job.replicas:
        if all(f"{start}{index}" in names for index in range(number)):
            continue
        if start not in later:
            return ()
        awaited.append(later[start])
    return awaited


def may_begin(later: LaterPods, present: Sequence[PodRecord]) -> bool:
    """Whether the pods that these wait for are ready."""
    enough = []
    for start, least in later.after:
        ready = [pod for pod in present if pod.ready and pod.name.rpartition("-")[0] == start[:-1]]
        enough.append(len(ready) >= least)
    return any(enough) if later.after_any else all(enough)


def _pods_of_others(cache: Cache, record: JobRecord, names: Sequence[str]) -> list[PodRecord]:
    """Pods of other owners with a name that this instance needs, such as those of the job before it
    of the same name."""
    found = []
    for name in names:
        pod = cache.pods.get(record.job.namespace, name)
        if pod is not None and pod.owner_uid != record.uid:
            found.append(pod)
    return found


def _taken_name(cache: Cache, record: JobRecord, in_the_way: Sequence[PodRecord]) -> str:
    """A name that this instance needs and that an object of another owner has, which is not ending;
    "" without one."""
    job = record.job
    for pod in in_the_way:
        if not pod.terminating:
            return f"Pod {pod.name}"
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
    remains = _remains(cache, record) if job.finished else _Remains()
    succeeded = [pod.name for pod in present if pod.phase == "Succeeded"]
    failed = [_failed(job, pod, faulty) for pod in present if pod.phase == "Failed"]
    return Life(
        policy=job.policy,
        version=max((pod.version for pod in present), default=-1),
        remaining=cache.retries_left(job.namespace, job.pod_group),
        failed=tuple(failed),
        succeeded=len(succeeded),
        workers=dict(job.replicas).get(workers, 0) if job.policy.all_workers else 0,
        workers_succeeded=sum(name.startswith(workers) for name in succeeded),
        surplus=_surplus(cache, record),
        outgrown=outgrown,
        unbound=remains.unbound,
        running_on=remains.running_on,
        over=remains.over,
    )


def _failed(job: Job, pod: PodRecord, faulty: Container[str]) -> FailedPod:
    return FailedPod(
        name=pod.name,
        exit_code=pod.exit_code,
        exit_code_decides=pod.name.startswith(job.exit_code_pods),
        # A process that dies of its hardware is no failure of the job; where Volcano
        # retries, it judges that.
        disrupted=pod.disrupted or (pod.name in faulty and not job.policy.retries),
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


def _remains(cache: Cache, record: JobRecord) -> _Remains:
    unbound = list[str]()
    running_on = list[str]()
    over = list[str]()
    for pod in cache.present_pods(record.uid):
        if pod.phase in ENDED:
            over.append(pod.name)
        elif pod.node:
            running_on.append(pod.name)
        else:
            unbound.append(pod.name)
    return _Remains(tuple(unbound), tuple(running_on), tuple(over))
