"""What every instance is made of: its pods as counts, and what is wrong with them; and instances
that only pods name.

A job is an instance even without pods: jobs.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from scaler.clock import Skew
from scaler.decide.nodes import PodRequest
from scaler.decide.world import Instance, Warning
from scaler.informers.cache import Cache
from scaler.informers.faults import fault_of
from scaler.informers.pods import ENDED, PodRecord
from scaler.workloads.kinds import holding_impossible
from scaler.workloads.membership import Job, Membership, OwnerFacts

COUNTS_ON = "It counts as it did when it was admitted"
VOLCANOS_OWN = "podgroup-"
"""How the names of PodGroups begin that Volcano makes for pods without one."""


def present_of(pods: Sequence[PodRecord]) -> list[PodRecord]:
    return [pod for pod in pods if not pod.terminating]


def counts_of(cache: Cache, pods: Sequence[PodRecord], faulty: Collection[str]) -> dict[str, Any]:
    """The counts of an Instance, and its times."""
    present = present_of(pods)
    ending = [pod for pod in pods if pod.terminating]
    lost = any(_is_lost(cache, pod.node) for pod in ending if pod.node)  # no kubelet can end it
    return {
        "pods": len(present),
        "gated": sum(pod.gated for pod in present),
        "bound": sum(bool(pod.node) for pod in present),
        "running": sum(pod.phase == "Running" for pod in present),
        "ready": sum(pod.ready for pod in present),
        "ended": sum(pod.phase in ENDED for pod in present),
        "terminating": len(ending),
        "crashing": sum(pod.crashing for pod in present),
        "faulty": len(faulty),
        "restarts": sum(pod.restarts for pod in present),
        "admitted_at": min((pod.created for pod in present), default=0.0),
        "newest": max((pod.created for pod in present), default=0.0),
        "deletion_cost": sum(pod.deletion_cost for pod in present),
        "ends_by": -1.0 if lost else max((pod.deletion for pod in ending), default=0.0),
    }


def needs_of(
    expected: Sequence[tuple[PodRecord | None, PodRequest]], priority: int
) -> dict[str, Any]:
    """What an Instance requests of nodes. `expected`: each of its pods, None where it is missing,
    and its request."""
    bound = [
        (pod, need)
        for pod, need in expected
        if pod is not None and pod.node and not pod.terminating
    ]
    needs = Counter(need for _, need in expected)
    return {
        "needs": tuple(sorted(needs.items())),
        "unbound": tuple(sorted((needs - Counter(need for _, need in bound)).items())),
        "seats": tuple((pod.node, need) for pod, need in bound if pod.phase not in ENDED),
        "priority": priority,
    }


def labelled(found: Job | Membership, pods: Sequence[PodRecord]) -> dict[str, Any]:
    """What is wrong with its labels. As long as it has released pods, what they lack counts as it
    did."""
    problem = found.label_problem
    if problem is not None and found.mislabelled and not all(pod.gated for pod in present_of(pods)):
        return {"mislabelled": (problem, f"{found.mislabelled}. {COUNTS_ON}")}
    return {"label_problem": problem}


def ungated(cache: Cache, pods: Sequence[PodRecord]) -> list[str]:
    """The names of those that arrived without our gate, as a pod that names no rule itself always
    does."""
    if cache.watches:
        return []
    known = cache.pod_instances.ungated
    return [
        pod.name for pod in pods if pod.uid in known or (pod.governed is None and not pod.gated)
    ]


def not_held(cache: Cache, pods: Sequence[PodRecord]) -> tuple[tuple[Warning, str], ...]:
    arrived = ", ".join(ungated(cache, pods))
    if not arrived:
        return ()
    return (
        (
            Warning.HOLD_NOT_POSSIBLE,
            f"{arrived} arrived without the scheduling gate; nothing holds it",
        ),
    )


def faulty_of(cache: Cache, pods: Sequence[PodRecord]) -> dict[str, str]:
    """The names of pods that sit on something faulty, with words."""
    return {
        pod.name: words for pod in present_of(pods) if pod.node and (words := _fault(cache, pod))
    }


def _fault(cache: Cache, pod: PodRecord) -> str:
    if _is_lost(cache, pod.node):
        return f"is on node {pod.node}, which is missing or not Ready"
    if pod.devices is not None and pod.devices.separated:
        return "is given up by MindCluster (label fault-type=Separate)"
    return fault_of(
        cache.faults.of(pod.node), pod.node, pod.devices.chips if pod.devices else frozenset()
    )


def _is_lost(cache: Cache, node: str) -> bool:
    known = cache.nodes.get("", node)
    return cache.sees_nodes and (known is None or not known.facts.ready)


def trouble_of(names: Sequence[str], pods: Sequence[PodRecord], faulty: Mapping[str, str]) -> str:
    """What is wrong with the pods in words for people, the gravest only. `names` are those that
    should be there."""
    if faulty:
        name, fault = next(iter(faulty.items()))
        return f"pod {name} {fault}"
    for pod in pods:
        if pod.crashing:
            return f"pod {pod.name} is in CrashLoopBackOff"
        if pod.phase in ENDED:
            return f"pod {pod.name} has ended ({pod.phase})"
        if pod.terminating:
            return f"pod {pod.name} is terminating"
    present = {pod.name for pod in pods}
    missing = next((name for name in names if present and name not in present), "")
    if missing:
        return f"pod {missing} is missing"
    return next(
        (f"pod {pod.name} has restarted {pod.restarts} times" for pod in pods if pod.restarts), ""
    )


def in_our_time(instance: Instance, skew: Skew) -> Instance:
    """Its times, which come from the API server, in the time that decisions are made in. A job must
    not be ended or deleted too soon; all other waits, of seconds, must not last for hours."""
    life = instance.life
    policy = instance.life.policy
    ends = {
        "started_at": skew.latest(policy.started_at),
        "finished_at": skew.latest(policy.finished_at),
    }
    return replace(
        instance,
        admitted_at=skew.earliest(instance.admitted_at),
        newest=skew.earliest(instance.newest),
        ends_by=skew.earliest(instance.ends_by),
        life=replace(life, policy=replace(policy, **ends)),
    )


def of_pods(cache: Cache, membership: Membership) -> Instance:
    pods = sorted(
        cache.pod_instances.pods.of(membership.instance).values(), key=lambda pod: pod.name
    )
    present = present_of(pods)
    faulty = faulty_of(cache, pods)
    facts = _owners(cache, membership)
    size = membership.size or next((found.size for found in facts if found.size), 0)
    waits_for_leader = any(found.leader_first for found in facts) and not any(
        pod.ready for pod in present if pod.name == membership.name
    )
    return Instance(
        uid=membership.instance,
        name=membership.name,
        group=membership.group,
        created=facts[0].created
        if facts and not membership.mortal
        else min(pod.created for pod in pods),
        expected=size or len(present),
        kind=membership.kind,
        owner_deleting=membership.mortal and not present,
        owner_finished=membership.mortal
        and bool(present)
        and all(pod.phase in ENDED for pod in present),
        **labelled(membership, present),
        faults=() if size else (_size_unknown(membership),),
        trouble=trouble_of((), pods, faulty),
        warnings=(
            *(
                (Warning.UNKNOWN_OWNER, owner)
                for pod in pods
                if (owner := pod.governed and pod.governed.unknown_owner)
            ),
            *not_held(cache, pods),
            *_shared_gangs(cache, membership, pods, size),
        ),
        made_by_us=False,
        owner=membership.maker,
        revision=membership.revision,
        outdated=_is_outdated(cache, membership),
        **_requests(present, size),
        wanted=cache.owners.wanted(membership.maker) if membership.maker else 0,
        unheld=len(ungated(cache, present)),
        irreplaceable=any(
            pod.governed is not None and pod.governed.controller_uid == pod.uid for pod in present
        ),
        misplaced=any(is_misplaced(membership, pod) for pod in present),
        more_to_come=len(present) < size and waits_for_leader,
        **counts_of(cache, pods, faulty),
    )


def is_misplaced(membership: Membership, pod: PodRecord) -> bool:
    """Whether Volcano would schedule a released pod in a PodGroup that it shares with other
    instances: one that Volcano made, perhaps after ours was named."""
    governed = pod.governed
    if governed is None or not governed.volcano or not membership.shares_pod_group:
        return False
    return not (pod.gated or pod.node or pod.terminating) and governed.pod_group.startswith(
        VOLCANOS_OWN
    )


def starts_with_leader(cache: Cache, uid: str) -> bool:
    """Whether the other pods of this instance are made only when its leader is ready."""
    membership = cache.pod_instances.membership.get(uid)
    return membership is not None and any(
        facts.leader_first for facts in _owners(cache, membership)
    )


def _owners(cache: Cache, membership: Membership) -> list[OwnerFacts]:
    """What the owners that describe the instance say, as far as they are known."""
    found = (cache.owners.get(*owner) for owner in membership.described_by)
    return [facts for facts in found if facts is not None]


def _size_unknown(membership: Membership) -> str:
    owners = ", ".join(f"{kind} {name}" for kind, _, name in membership.described_by) or "no owner"
    return (
        f"SizeUnknown: how many pods {membership.name} has is not known from {owners}; "
        "set annotation mind-cluster/instance-size on its pods"
    )


def _is_outdated(cache: Cache, membership: Membership) -> bool:
    """Whether its maker makes a newer revision: as the maker says, else as its newest pods show."""
    if not (membership.maker and membership.revision):
        return False
    newest = cache.owners.newest_revision(membership.maker)
    if not newest:
        seen = []
        for uid in cache.pod_instances.by_maker.of(membership.maker):
            created = max(
                (pod.created for pod in cache.pod_instances.pods.of(uid).values()), default=0.0
            )
            seen.append((created, cache.pod_instances.membership[uid].revision))
        newest = max(seen)[1]
    return newest != membership.revision


def _shared_gangs(
    cache: Cache, membership: Membership, pods: Sequence[PodRecord], size: int
) -> Iterator[tuple[Warning, str]]:
    """PodGroups that hold released instances back together with held ones, and that are not ours to
    replace."""
    namespace = membership.key.namespace
    for name in sorted({pod.governed.pod_group for pod in pods if pod.governed is not None} - {""}):
        group = cache.pod_groups.get(namespace, name)
        words = holding_impossible(
            membership, name, group.members if group is not None else 0, size
        )
        if words:
            yield Warning.HOLD_NOT_POSSIBLE, words


def _requests(present: Sequence[PodRecord], size: int) -> dict[str, Any]:
    """Pods that do not exist yet are taken to request what the first one requests."""
    found = [(pod, pod.governed) for pod in present if pod.governed is not None]
    if not found:
        return {}
    missing = [(None, found[0][1].request)] * max(0, size - len(found))
    expected = [*((pod, governed.request) for pod, governed in found), *missing]
    return needs_of(expected, max(governed.priority for _, governed in found))
