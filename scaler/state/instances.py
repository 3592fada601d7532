"""From records in the cache to instances. The only place where pods become counts. Decides nothing.

An instance is either a job (it exists without pods) or only pods name it (informers/indexes.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from scaler.clock import Skew
from scaler.decide.nodes import PodRequest
from scaler.decide.world import Instance, RestartBudget, ServiceKey, Warning
from scaler.informers.cache import Cache
from scaler.informers.faults import fault_of
from scaler.informers.jobs import JobRecord
from scaler.informers.pods import PodRecord
from scaler.names import RULE_LABEL
from scaler.ranktables.tables import JobTable, Tables
from scaler.state.lifecycle import ENDED, in_our_time, life_of
from scaler.workloads.kinds import holding_impossible
from scaler.workloads.membership import Job, Membership, OwnerFacts

VOLCANOS_OWN = "podgroup-"
"""How the names of PodGroups begin that Volcano makes for pods without one."""
COUNTS_ON = "It counts as it did when it was admitted"


class Instances:
    """Every instance, built once per change of anything it depends on. `forget` what has changed."""

    def __init__(self, cache: Cache, tables: Tables) -> None:
        self._cache = cache
        self._tables = tables
        self._known: dict[str, Instance] = {}
        self._skew = Skew()

    def of_service(self, key: ServiceKey) -> tuple[Instance, ...]:
        """Every instance of a service, in a fixed order."""
        return tuple(self.of(uid) for uid in self._cache.instance_uids(key))

    def of(self, uid: str) -> Instance:
        """The instance with this uid, which exists."""
        known = self._known.get(uid)
        if known is None:
            known = self._build(uid)
            self._known[uid] = known = in_our_time(known, self._skew) if self._skew != Skew() else known
        return known

    def forget(self, uid: str) -> None:
        """Something that this instance is made of has changed."""
        self._known.pop(uid, None)

    def forget_all(self, skew: Skew | None = None) -> None:
        """Build every instance anew from the records, from now on with this skew if one is given."""
        self._skew = skew or self._skew
        self._known.clear()

    def _build(self, uid: str) -> Instance:
        record = self._cache.job(uid)
        if record is not None:
            return _of_job(self._cache, self._tables, record)
        membership = self._cache.pod_instances.membership_of(uid)
        assert membership is not None, uid  # noqa: S101 - the cache gives uids of what it has
        return _of_pods(self._cache, membership)


# jobs


def _of_job(cache: Cache, tables: Tables, record: JobRecord) -> Instance:
    job = record.job
    owned = cache.pods_of(record.uid)
    names = job.pods or sorted(owned)  # of a job whose replicas cannot be read any more: those that it has
    pods = [owned[name] for name in names if name in owned]
    faulty = _faulty(cache, pods)
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
        **_labelled(job, pods),
        trouble=job.ending or next(_troubles(names, pods, faulty), ""),
        made_by_us=ours,
        name_taken=next(_taken_names(cache, record, names), "") if ours else "",
        ends_by=_ends_by(cache, pods),
        **_counts(pods, faulty),
        **_asked_by_job(cache, record, names, owned),
        **(_ours(cache, tables.of(record), record, pods, faulty) if ours else _others(cache, record, pods)),
    )


def _ours(
    cache: Cache, table: JobTable | None, record: JobRecord, pods: Sequence[PodRecord], faulty: Mapping[str, str]
) -> dict[str, Any]:
    """What matters of a job only where its pods and objects are made here; where nothing is done, others look after
    its life and its objects."""
    job = record.job
    if cache.watches:
        return {"faults": job.faults}
    present = _present(pods)
    pod_group = cache.pod_groups.get(job.namespace, job.pod_group)
    has_service = cache.services.get(job.namespace, job.leader) is not None
    obstacle = table.obstacle if table is not None else None
    return {
        "leftovers": pod_group is not None and pod_group.owner_uid == record.uid and not pod_group.terminating,
        "stripped": bool(present) and not job.faults and (pod_group is None or not has_service),
        "faults": job.faults,
        "life": life_of(cache, record, present, faulty),
        "warnings": ((obstacle.warning, obstacle.message),) if obstacle is not None else (),
    }


def _others(cache: Cache, record: JobRecord, pods: Sequence[PodRecord]) -> dict[str, Any]:
    """What matters of a job only where another operator makes its pods."""
    job = record.job
    used = max((pod.version for pod in pods), default=0) if record.kind == "AscendJob" else job.restarts
    return {
        "faults": _faults_with_operator(record, pods),
        "budget": RestartBudget(job.restart_limit, used) if job.restart_limit is not None else None,
        "unheld": len(_ungated(cache, _present(pods))),
        "warnings": tuple(_unheld(cache, record, pods)),
    }


def _faults_with_operator(record: JobRecord, pods: Sequence[PodRecord]) -> tuple[str, ...]:
    """The operator's own words when it has refused the job; as long as there are no pods, what it will refuse."""
    refused = record.job.refused
    if refused:
        return (f"Ascend Operator has refused it ({refused}); delete the job and create it again",)
    return record.job.faults if record.kind != "AscendJob" or not pods else ()


def _unheld(cache: Cache, record: JobRecord, pods: Sequence[PodRecord]) -> Iterator[tuple[Warning, str]]:
    if record.job.names_rule:
        words = (
            f"label {RULE_LABEL} is on the job itself, so Ascend Operator decides by its own gate; let admission "
            "move it (namespace labels, see docs/howto/beside-ascend-operator.md)"
        )
        yield Warning.HOLD_NOT_POSSIBLE, words
    yield from _arrived_ungated(cache, pods)


def _ungated(cache: Cache, pods: Sequence[PodRecord]) -> list[str]:
    """The names of those that arrived without our gate, as a pod that names no rule itself always does."""
    if cache.watches:
        return []
    known = cache.pod_instances.ungated
    return [pod.name for pod in pods if pod.uid in known or (pod.governed is None and not pod.gated)]


def _arrived_ungated(cache: Cache, pods: Sequence[PodRecord]) -> Iterator[tuple[Warning, str]]:
    arrived = _ungated(cache, pods)
    if arrived:
        yield Warning.HOLD_NOT_POSSIBLE, f"{', '.join(arrived)} arrived without the scheduling gate; nothing holds it"


def _shared_gangs(
    cache: Cache, membership: Membership, pods: Sequence[PodRecord], size: int
) -> Iterator[tuple[Warning, str]]:
    """PodGroups that hold released instances back together with held ones, and that are not ours to replace."""
    namespace = membership.key.namespace
    for name in sorted({pod.governed.pod_group for pod in pods if pod.governed is not None} - {""}):
        group = cache.pod_groups.get(namespace, name)
        words = holding_impossible(membership, name, group.members if group is not None else 0, size)
        if words:
            yield Warning.HOLD_NOT_POSSIBLE, words


def _taken_names(cache: Cache, record: JobRecord, names: Sequence[str]) -> Iterator[str]:
    """Names this instance needs that an object of another owner has."""
    job = record.job
    for name in names:
        pod = cache.pods.get(job.namespace, name)
        if pod is not None and pod.owner_uid != record.uid:
            yield f"Pod {name}"
    service = cache.services.get(job.namespace, job.leader)
    if service is not None and service.owner_uid != record.uid:
        yield f"Service {job.leader}"


def _labelled(found: Job | Membership, pods: Sequence[PodRecord]) -> dict[str, Any]:
    """What is wrong with its labels. As long as it has released pods, what they lack counts as it did."""
    problem = found.label_problem
    if problem is not None and found.mislabelled and not all(pod.gated for pod in _present(pods)):
        return {"mislabelled": (problem, f"{found.mislabelled}. {COUNTS_ON}")}
    return {"label_problem": problem}


# of pods


def _of_pods(cache: Cache, membership: Membership) -> Instance:
    pods = sorted(cache.pod_instances.pods_of(membership.instance).values(), key=lambda pod: pod.name)
    present = _present(pods)
    faulty = _faulty(cache, pods)
    facts = _asked(cache, membership)
    size = membership.size or next((found.size for found in facts if found.size), 0)
    ended = bool(present) and all(pod.phase in ENDED for pod in present)
    return Instance(
        uid=membership.instance,
        name=membership.name,
        group=membership.group,
        created=facts[0].created if facts and not membership.mortal else min(pod.created for pod in pods),
        expected=size or len(present),
        kind=membership.kind,
        owner_deleting=membership.mortal and not present,
        owner_finished=membership.mortal and ended,
        **_labelled(membership, present),
        faults=() if size else (_size_unknown(membership),),
        trouble=next(_troubles((), pods, faulty), ""),
        warnings=(
            *((Warning.UNKNOWN_OWNER, owner) for pod in pods if (owner := pod.governed and pod.governed.unknown_owner)),
            *_arrived_ungated(cache, pods),
            *_shared_gangs(cache, membership, pods, size),
        ),
        made_by_us=False,
        owner=membership.maker,
        revision=membership.revision,
        outdated=_is_outdated(cache, membership),
        **_asked_by_pods(present, size),
        wanted=cache.owners.wanted(membership.maker) if membership.maker else 0,
        unheld=len(_ungated(cache, present)),
        irreplaceable=any(pod.governed is not None and pod.governed.maker_uid == pod.uid for pod in present),
        misplaced=any(is_misplaced(membership, pod) for pod in present),
        more_to_come=len(present) < size and _waits_for_leader(facts, membership.name, present),
        ends_by=_ends_by(cache, pods),
        **_counts(pods, faulty),
    )


def is_misplaced(membership: Membership, pod: PodRecord) -> bool:
    """Whether Volcano would schedule a released pod in a PodGroup that it shares with other instances: one that
    Volcano made, perhaps after ours was named."""
    governed = pod.governed
    if governed is None or not governed.volcano or not membership.shares_pod_group:
        return False
    return not (pod.gated or pod.node or pod.terminating) and governed.pod_group.startswith(VOLCANOS_OWN)


def _asked(cache: Cache, membership: Membership) -> list[OwnerFacts]:
    found = (cache.owners.get(*owner) for owner in membership.described_by)
    return [facts for facts in found if facts is not None]


def starts_with_leader(cache: Cache, uid: str) -> bool:
    """Whether the other pods of this instance are made only when its leader is ready."""
    membership = cache.pod_instances.membership_of(uid)
    return membership is not None and any(facts.leader_first for facts in _asked(cache, membership))


def _waits_for_leader(facts: Sequence[OwnerFacts], leader: str, present: Sequence[PodRecord]) -> bool:
    """Whether the owner makes the other pods only when the leader is ready, and that is not so yet."""
    if not any(found.leader_first for found in facts):
        return False
    return not any(pod.ready for pod in present if pod.name == leader)


def _size_unknown(membership: Membership) -> str:
    asked = ", ".join(f"{kind} {name}" for kind, _, name in membership.described_by) or "nobody"
    return (
        f"SizeUnknown: {asked} does not tell how many pods {membership.name} has; "
        "set annotation mind-cluster/instance-size on its pods"
    )


def _is_outdated(cache: Cache, membership: Membership) -> bool:
    """Whether its maker makes a newer revision: as the maker says, else as its newest pods show."""
    if not (membership.maker and membership.revision):
        return False
    newest = cache.owners.newest_revision(membership.maker) or _newest_seen(cache, membership.maker)
    return newest != membership.revision


def _newest_seen(cache: Cache, maker: str) -> str:
    seen = []
    for uid in cache.pod_instances.of_maker(maker):
        created = max((pod.created for pod in cache.pod_instances.pods_of(uid).values()), default=0.0)
        seen.append((created, cache.pod_instances.revision_of(uid)))
    return max(seen)[1]


# what they request of nodes


def _asked_by_job(
    cache: Cache, record: JobRecord, names: Sequence[str], owned: Mapping[str, PodRecord]
) -> dict[str, Any]:
    """Of all its expected pods, whether they exist or not."""
    if len(record.needs) != len(names):
        return {}
    known = cache.priorities.get("", record.priority_class) if record.priority_class else None
    priority = known.worth(record.namespace) if known is not None else 0
    return _asked_of_nodes([(owned.get(name), need) for name, need in zip(names, record.needs, strict=True)], priority)


def _asked_by_pods(present: Sequence[PodRecord], size: int) -> dict[str, Any]:
    """Pods that do not exist yet are taken to ask for what the first one asks."""
    found = [(pod, pod.governed) for pod in present if pod.governed is not None]
    if not found:
        return {}
    missing = [(None, found[0][1].request)] * max(0, size - len(found))
    asked = [*((pod, governed.request) for pod, governed in found), *missing]
    return _asked_of_nodes(asked, max(governed.priority for _, governed in found))


def _asked_of_nodes(asked: Sequence[tuple[PodRecord | None, PodRequest]], priority: int) -> dict[str, Any]:
    """`asked`: each expected pod, None where it is missing, and what it asks for."""
    bound = [(pod, need) for pod, need in asked if pod is not None and pod.node and not pod.terminating]
    needs = Counter(need for _, need in asked)
    return {
        "needs": tuple(sorted(needs.items())),
        "unbound": tuple(sorted((needs - Counter(need for _, need in bound)).items())),
        "seats": tuple((pod.node, need) for pod, need in bound if pod.phase not in ENDED),
        "priority": priority,
    }


# pods as counts


def _counts(pods: Sequence[PodRecord], faulty: Collection[str]) -> dict[str, Any]:
    present = _present(pods)
    return {
        "pods": len(present),
        "gated": sum(pod.gated for pod in present),
        "bound": sum(bool(pod.node) for pod in present),
        "running": sum(pod.phase == "Running" for pod in present),
        "ready": sum(pod.ready for pod in present),
        "ended": sum(pod.phase in ENDED for pod in present),
        "terminating": len(pods) - len(present),
        "crashing": sum(pod.crashing for pod in present),
        "faulty": len(faulty),
        "restarts": sum(pod.restarts for pod in present),
        "admitted_at": min((pod.created for pod in present), default=0.0),
        "newest": max((pod.created for pod in present), default=0.0),
        "deletion_cost": sum(pod.deletion_cost for pod in present),
    }


def _ends_by(cache: Cache, pods: Sequence[PodRecord]) -> float:
    """When the last of the terminating pods should be gone; -1.0 when one is on a node whose kubelet cannot end it."""
    ending = [pod for pod in pods if pod.terminating]
    if any(_is_lost(cache, pod.node) for pod in ending if pod.node):
        return -1.0
    return max((pod.deletion for pod in ending), default=0.0)


def _is_lost(cache: Cache, node: str) -> bool:
    """Whether this node is missing or not Ready."""
    known = cache.nodes.get("", node)
    return cache.sees_nodes and (known is None or not known.facts.ready)


def _present(pods: Sequence[PodRecord]) -> list[PodRecord]:
    return [pod for pod in pods if not pod.terminating]


def _faulty(cache: Cache, pods: Sequence[PodRecord]) -> dict[str, str]:
    """The names of pods that sit on something faulty, with words."""
    return {pod.name: words for pod in _present(pods) if (words := _fault(cache, pod))}


def _fault(cache: Cache, pod: PodRecord) -> str:
    """Why this pod sits on something faulty, in words; "" when it does not, or sits nowhere yet."""
    if not pod.node:
        return ""
    if _is_lost(cache, pod.node):
        return f"is on node {pod.node}, which is missing or not Ready"
    if pod.devices is not None and pod.devices.separated:
        return "is given up by MindCluster (label fault-type=Separate)"
    return fault_of(cache.faults.of(pod.node), pod.node, pod.devices.chips if pod.devices else frozenset())


def _troubles(names: Sequence[str], pods: Sequence[PodRecord], faulty: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the pods, the gravest first, in words for people. `names` are those that should be there."""
    for name, fault in faulty.items():
        yield f"pod {name} {fault}"
    for pod in pods:
        if pod.crashing:
            yield f"pod {pod.name} is in CrashLoopBackOff"
        if pod.phase in ENDED:
            yield f"pod {pod.name} has ended ({pod.phase})"
        if pod.terminating:
            yield f"pod {pod.name} is terminating"
    present = {pod.name for pod in pods}
    for name in names:
        if present and name not in present:
            yield f"pod {name} is missing"
    for pod in pods:
        if pod.restarts:
            yield f"pod {pod.name} has restarted {pod.restarts} times"
