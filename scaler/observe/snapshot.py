"""From the cache to one frozen value per service. The only place where pods become counts. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scaler.observe.cache import Cache
from scaler.observe.faults import fault_of
from scaler.observe.lives import life_of
from scaler.observe.objects import JobRecord, PodRecord
from scaler.observe.ranktables import table_of
from scaler.observe.rulebook import RuleInForce
from scaler.plan.model import Instance, Memory, Policy, ServiceKey, Snapshot, Warning
from scaler.workloads.ascendjob import Job


def take_snapshot(cache: Cache, key: ServiceKey, *, now: float, memory: Memory, policy: Policy) -> Snapshot:
    """All that the decision about one service depends on, as of the cache's present contents."""
    rule = cache.rules.in_force(key.namespace, key.rule) if key.rule else RuleInForce()
    return Snapshot(
        key=key,
        now=now,
        instances=tuple(instance_of(cache, job) for job in cache.jobs_of(key)),
        rule=rule.rule,
        options=rule.options,
        problem=rule.problem,
        memory=memory,
        policy=policy,
        resource_versions={
            "ascendjobs": str(cache.jobs.version),
            "pods": str(cache.pods.version),
            "configmaps": str(cache.config_maps.version),
        },
    )


def instance_of(cache: Cache, record: JobRecord) -> Instance:
    """The instance of one job, built once per change of anything it depends on."""
    known = cache.instances.get(record.uid)
    if known is None:
        known = cache.instances[record.uid] = _build(cache, record)
    return known


def _build(cache: Cache, record: JobRecord) -> Instance:
    job = record.job
    owned = cache.pods_of(record.uid)
    names = job.pods or sorted(owned)  # of a job whose replicas cannot be read any more: those that it has
    pods = [owned[name] for name in names if name in owned]
    present = [pod for pod in pods if not pod.terminating]
    faulty = {pod.name: words for pod in present if (words := _fault(cache, pod))}
    pod_group = cache.pod_groups.get(job.namespace, job.pod_group)
    return Instance(
        uid=record.uid,
        name=job.name,
        group=job.group,
        created=job.created,
        expected=len(names),
        generation=job.generation,
        owner_deleting=job.deleting,
        owner_finished=job.finished,
        pods=len(present),
        gated=sum(pod.gated for pod in present),
        bound=sum(bool(pod.node) for pod in present),
        running=sum(pod.phase == "Running" for pod in present),
        ready=sum(pod.ready for pod in present),
        ended=sum(pod.phase in ("Failed", "Succeeded") for pod in present),
        terminating=len(pods) - len(present),
        crashing=sum(pod.crashing for pod in present),
        faulty=len(faulty),
        restarts=sum(pod.restarts for pod in present),
        admitted_at=min((pod.created for pod in present), default=0.0),
        leftovers=pod_group is not None and pod_group.owner_uid == record.uid and not pod_group.terminating,
        stripped=bool(present) and not job.faults and (pod_group is None or not _has_service(cache, job)),
        label_problem=job.label_problem,
        faults=job.faults,
        name_taken=next(_taken_names(cache, record), ""),
        trouble=job.ending or next(_troubles(record, pods, faulty), ""),
        life=life_of(cache, record, present, faulty),
        warnings=tuple(_warnings(cache, record)),
    )


def _warnings(cache: Cache, record: JobRecord) -> Iterator[tuple[Warning, str]]:
    made = table_of(cache, record)
    if made is not None and made.obstacle is not None:
        yield made.obstacle.warning, made.obstacle.message


def _has_service(cache: Cache, job: Job) -> bool:
    return cache.services.get(job.namespace, job.pods[0]) is not None


def _fault(cache: Cache, pod: PodRecord) -> str:
    """Why this pod sits on something faulty, in words; "" when it does not, or sits nowhere yet."""
    if not pod.node:
        return ""
    node = cache.nodes.get("", pod.node)
    if node is None or not node.ready:
        return f"is on node {pod.node}, which is missing or not Ready"
    if pod.devices is not None and pod.devices.separated:
        return "is given up by MindCluster (label fault-type=Separate)"
    return fault_of(cache.faults.of(pod.node), pod.node, pod.devices.chips if pod.devices else frozenset())


def _taken_names(cache: Cache, record: JobRecord) -> Iterator[str]:
    """Names this instance needs that an object of another owner has."""
    job = record.job
    for name in job.pods:
        pod = cache.pods.get(job.namespace, name)
        if pod is not None and pod.owner_uid != record.uid:
            yield f"Pod {name}"
    if job.pods:
        service = cache.services.get(job.namespace, job.pods[0])
        if service is not None and service.owner_uid != record.uid:
            yield f"Service {job.pods[0]}"


def _troubles(record: JobRecord, pods: list[PodRecord], faulty: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the pods, the gravest first, in words for people."""
    for name, fault in faulty.items():
        yield f"pod {name} {fault}"
    for pod in pods:
        if pod.crashing:
            yield f"pod {pod.name} is in CrashLoopBackOff"
        if pod.phase in ("Failed", "Succeeded"):
            yield f"pod {pod.name} has ended ({pod.phase})"
        if pod.terminating:
            yield f"pod {pod.name} is terminating"
    present = {pod.name for pod in pods}
    for name in record.job.pods:
        if present and name not in present:
            yield f"pod {name} is missing"
    for pod in pods:
        if pod.restarts:
            yield f"pod {pod.name} has restarted {pod.restarts} times"
