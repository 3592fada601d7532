"""The parts of every instance: counts of its pods, and their problems; and instances
that only pods name.

A job is an instance even without pods: jobs.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from scaler.clock import Skew
from scaler.decide.explain import DOES_NOT_START, NOT_RUNNING_YET
from scaler.decide.nodes import PodRequest, PodRequests
from scaler.decide.world import Instance, ServiceKey
from scaler.informers.cache import Cache
from scaler.informers.faults import fault_of
from scaler.informers.pods import ENDED, PodRecord
from scaler.informers.records import OwnedRecord
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.state.scheduler import (
    as_scheduled,
    how_to_heal,
    takes_blocks,
    why_not_back,
    without_rank,
)
from scaler.state.situation import Situation
from scaler.workloads.hyper_nodes import together
from scaler.workloads.kinds import PLAIN, holding_impossible
from scaler.workloads.membership import (
    Job,
    LaterRole,
    Membership,
    OwnerFacts,
    OwnerName,
    RoleTemplate,
    identity,
)
from scaler.workloads.npu_rules import (
    NO_JOB,
    NpuJob,
    as_placed,
    is_seen_together,
    why_never_placed,
)

COUNTS_ON = "It counts as it did when it was admitted"
INVALID = "JobValidateFailed"
"""The word of MindCluster's scheduler for a job that it never starts."""
VOLCANOS_OWN = "podgroup-"
"""Prefix of the names of PodGroups that Volcano makes for pods without one."""


def present_of(pods: Sequence[PodRecord]) -> list[PodRecord]:
    return [pod for pod in pods if not pod.terminating]


class PodCounts(msgspec.Struct, gc=False):
    """The pods of an instance, counted; what each number means is said at `Instance`."""

    pods: int = 0
    gated: int = 0
    bound: int = 0
    running: int = 0
    ready: int = 0
    ended: int = 0
    terminating: int = 0
    crashing: int = 0
    restarts: int = 0
    deletion_cost: int = 0
    grace: float = 0.0
    scheduler: str = ""


class PodTimes(msgspec.Struct, frozen=True, gc=False):
    """When pods of an instance came and go, in seconds since the epoch, as at `Instance`."""

    admitted_at: float = 0.0
    newest: float = 0.0
    ends_by: float = 0.0


class Requested(msgspec.Struct, frozen=True, gc=False):
    """What an instance requests of nodes, as at `Instance`; nothing where it is not known."""

    requests: PodRequests = ()
    unbound: PodRequests = ()
    bound_pods: tuple[tuple[str, PodRequest], ...] = ()
    priority: int = 0
    seen_together: bool = False
    """As at `Instance`."""
    never_placed: str = ""
    """Why MindCluster's scheduler starts no such instance, whatever is free; "" when it may, and
    where a pod is bound all the same."""

    @property
    def faults(self) -> tuple[str, ...]:
        """As `Instance.faults`."""
        return (f"{INVALID}: {self.never_placed}",) if self.never_placed else ()


class PodParts(msgspec.Struct, frozen=True, gc=False):
    """All that the pods of an instance say of it."""

    counts: PodCounts
    times: PodTimes
    requested: Requested
    labels: LabelFaults
    faulty: int
    """Pods on which a fault is reported."""


class LabelFaults(msgspec.Struct, frozen=True, gc=False):
    """The problem of the labels of an instance: at most one of the two is set."""

    label_problem: Reason | None = None
    mislabelled: tuple[Reason, str] | None = None


def with_pods(instance: Instance, parts: PodParts) -> Instance:
    """The instance with what its pods say of it."""
    counts = parts.counts
    times = parts.times
    requested = parts.requested
    return replace(
        instance,
        label_problem=parts.labels.label_problem,
        mislabelled=parts.labels.mislabelled,
        pods=counts.pods,
        gated=counts.gated,
        bound=counts.bound,
        running=counts.running,
        ready=counts.ready,
        ended=counts.ended,
        terminating=counts.terminating,
        crashing=counts.crashing,
        faulty=parts.faulty,
        restarts=counts.restarts,
        deletion_cost=counts.deletion_cost,
        grace=counts.grace,
        scheduler=counts.scheduler,
        admitted_at=times.admitted_at,
        newest=times.newest,
        ends_by=times.ends_by,
        requests=requested.requests,
        unbound=requested.unbound,
        bound_pods=requested.bound_pods,
        priority=requested.priority,
        seen_together=requested.seen_together,
    )


def counts_of(pods: Sequence[PodRecord]) -> PodCounts:
    """Every pod but the terminating ones counts for what it is."""
    counts = PodCounts()
    for pod in pods:
        if pod.terminating:
            counts.terminating += 1
            continue
        counts.pods += 1
        counts.gated += pod.gated
        counts.bound += bool(pod.node)
        counts.running += pod.phase == "Running"
        counts.ready += pod.ready
        counts.ended += pod.phase in ENDED
        counts.crashing += pod.crashing
        counts.restarts += pod.restarts
        counts.deletion_cost += pod.deletion_cost
        if pod.node:
            counts.grace = max(counts.grace, pod.grace)
        counts.scheduler = pod.scheduler
    return counts


def refused_of(present: Sequence[PodRecord]) -> tuple[str, ...]:
    """The names of those that their kubelets refused, and that something makes anew."""
    names = []
    for pod in present:
        if pod.refused and not _has_no_controller(pod):
            names.append(pod.name)
    return tuple(names)


def times_of(cache: Cache, situation: Situation, pods: Sequence[PodRecord]) -> PodTimes:
    """The oldest and newest pod that stays, and the last that goes."""
    created = [pod.created for pod in pods if not pod.terminating]
    ends_by = 0.0
    for pod in pods:
        if not pod.terminating:
            continue
        if pod.node and is_lost(cache, situation, pod.node):  # no kubelet can end the pod
            ends_by = -1.0
            break
        ends_by = max(ends_by, pod.deletion)
    return PodTimes(min(created, default=0.0), max(created, default=0.0), ends_by)


def requested_of(
    situation: Situation,
    npus: NpuJob,
    tier: str,
    expected: Sequence[tuple[PodRecord | None, PodRequest]],
    priority: int,
) -> Requested:
    """What an instance that Volcano places requests, by the rules of its plugins. `expected`: each
    pod of it, None where it is missing, and its request."""
    is_in_hyper_node = bool(tier) and len(expected) > 1
    if not situation.places_npus:
        found = requested_by(in_one_hyper_node(tier, expected), priority)
        return replace(found, seen_together=is_in_hyper_node)
    counts = Counter([request for _, request in expected])
    pods = tuple(sorted(counts.items()))
    largest = situation.largest_super_pod
    placed = as_placed(pods, npus, largest)
    expected = [(pod, placed.get(request, request)) for pod, request in expected]
    found = requested_by(in_one_hyper_node(tier, expected), priority)
    return replace(
        found,
        seen_together=is_in_hyper_node or is_seen_together(pods, npus),
        never_placed="" if found.bound_pods else why_never_placed(pods, npus, largest),
    )


def in_one_hyper_node(
    tier: str, expected: Sequence[tuple[PodRecord | None, PodRequest]]
) -> Sequence[tuple[PodRecord | None, PodRequest]]:
    """The pods of an instance with their requests where Volcano puts all of them into one
    HyperNode, of at most this tier; "" = it does not."""
    if not tier or len(expected) < 2:
        return expected
    counts = Counter([request for _, request in expected])
    placed = together(tuple(sorted(counts.items())), tier)
    return [(pod, placed.get(request, request)) for pod, request in expected]


def requested_by(
    expected: Sequence[tuple[PodRecord | None, PodRequest]], priority: int
) -> Requested:
    """`expected`: each pod of the instance, None where it is missing, and its request."""
    every: Counter[PodRequest] = Counter()
    unbound: Counter[PodRequest] = Counter()
    bound_pods = []
    for pod, request in expected:
        every[request] += 1
        holds_node = pod is not None and pod.node and not pod.terminating
        if pod is None or not holds_node or pod.phase in ENDED:
            unbound[request] += 1
        else:
            bound_pods.append((pod.node, request))
    if bound_pods:
        unbound = _beside_bound(unbound, bound_pods[0][0])
    return Requested(
        tuple(sorted(every.items())), tuple(sorted(unbound.items())), tuple(bound_pods), priority
    )


def _beside_bound(unbound: Counter[PodRequest], node: str) -> Counter[PodRequest]:
    """The requests of the pods of an instance that is bound in part: the scheduler has chosen the
    nodes of its blocks, so what is left of a block asks for no other one. It has chosen the
    HyperNode, too: the one with this `node`."""
    counts: Counter[PodRequest] = Counter()
    for request, number in unbound.items():
        left = replace(request, block=0) if request.block else request
        if request.tier:
            left = replace(request, block=1, beside=node)
        counts[left] += number
    return counts


def labelled(found: Job | Membership, pods: Sequence[PodRecord]) -> LabelFaults:
    """What is wrong with its labels. As long as it has released pods, what they lack counts as it
    did."""
    problem = found.label_problem
    if problem is not None and found.mislabelled and not all(pod.gated for pod in present_of(pods)):
        return LabelFaults(mislabelled=(problem, f"{found.mislabelled}. {COUNTS_ON}"))
    return LabelFaults(label_problem=problem)


def ungated(cache: Cache, situation: Situation, pods: Sequence[PodRecord]) -> list[str]:
    """The names of those that arrived without our gate, as a pod that names no rule itself always
    does."""
    if situation.shadow:
        return []
    known = cache.pod_instances.ungated
    return [
        pod.name for pod in pods if pod.uid in known or (pod.governed is None and not pod.gated)
    ]


def not_held(
    cache: Cache, situation: Situation, pods: Sequence[PodRecord]
) -> tuple[tuple[Warning, str], ...]:
    arrived = ", ".join(ungated(cache, situation, pods))
    if not arrived:
        return ()
    return (
        (
            Warning.HOLD_NOT_POSSIBLE,
            f"{arrived} arrived without the scheduling gate; nothing holds it",
        ),
    )


def faulty_of(cache: Cache, situation: Situation, pods: Sequence[PodRecord]) -> dict[str, str]:
    """The names of pods that sit on something faulty, with words."""
    found = {}
    for pod in pods:
        if pod.node and not pod.terminating:
            words = _fault(cache, situation, pod)
            if words:
                found[pod.name] = words
    return found


def _fault(cache: Cache, situation: Situation, pod: PodRecord) -> str:
    if is_lost(cache, situation, pod.node):
        return f"is on node {pod.node}, which is missing or not Ready"
    if pod.devices is not None and pod.devices.separated:
        return "is given up by MindCluster (label fault-type=Separate)"
    return fault_of(
        cache.faults.of(pod.node), pod.node, pod.devices.chips if pod.devices else frozenset()
    )


def is_lost(cache: Cache, situation: Situation, node: str) -> bool:
    known = cache.nodes.get("", node)
    return situation.sees_nodes and (known is None or not known.facts.ready)


def _where(pod: PodRecord, lost: Callable[[str], bool]) -> str:
    """For people: the node of a pod that ends, and whether it can end there."""
    if not pod.node:
        return ""
    missing = ", which is missing or not Ready," if lost(pod.node) else ""
    return f" on node {pod.node}{missing}"


CRASH_LOOP = "CrashLoopBackOff"


def trouble_of(
    names: Sequence[str],
    pods: Sequence[PodRecord],
    faulty: Mapping[str, str],
    lost: Callable[[str], bool],
) -> str:
    """What is wrong with the pods in words for people, the gravest only. `names` are those that
    should be there. `lost`: whether a node is missing or not Ready."""
    if faulty:
        name, fault = next(iter(faulty.items()))
        return f"pod {name} {fault}"
    for pod in pods:
        gone = _why_it_counts_no_more(pod, lost)
        if gone:
            return gone
    missing = _first_missing(names, pods)
    if missing:
        return f"pod {missing} is missing"
    for pod in pods:
        if pod.cannot_start:
            return f"{DOES_NOT_START} pod {pod.name} on node {pod.node} says {pod.cannot_start}"
    for pod in pods:
        if pod.restarts:
            return f"pod {pod.name} has restarted {pod.restarts} times"
    return _first_not_running(pods)


def _first_not_running(pods: Sequence[PodRecord]) -> str:
    for pod in pods:
        if pod.node and pod.phase != "Running":
            return f"{NOT_RUNNING_YET} pod {pod.name} on node {pod.node}"
    return ""


def _why_it_counts_no_more(pod: PodRecord, lost: Callable[[str], bool]) -> str:
    if pod.crashing:
        return f"pod {pod.name} on node {pod.node} is in {pod.cannot_start or CRASH_LOOP}"
    if pod.refused:
        said = f" ({pod.said})" if pod.said else ""
        return f"pod {pod.name} on node {pod.node} was refused by its kubelet{said}"
    if pod.phase in ENDED:
        said = f", {pod.said}" if pod.said else ""
        return f"pod {pod.name} has ended ({pod.phase}{said})"
    if pod.terminating:
        return f"pod {pod.name}{_where(pod, lost)} is terminating"
    return ""


def _first_missing(names: Sequence[str], pods: Sequence[PodRecord]) -> str:
    """The first of these names that no pod has; "" for none, and where there are no pods at all."""
    if not pods:
        return ""
    present = {pod.name for pod in pods}
    for name in names:
        if name not in present:
            return name
    return ""


def in_our_time(instance: Instance, skew: Skew) -> Instance:
    """Its times, which come from the API server, in the time that decisions are made in. A job must
    not be ended or deleted too soon; all other waits, of seconds, must not last for hours."""
    policy = replace(
        instance.life.policy,
        started_at=skew.latest(instance.life.policy.started_at),
        finished_at=skew.latest(instance.life.policy.finished_at),
    )
    return replace(
        instance,
        admitted_at=skew.earliest(instance.admitted_at),
        newest=skew.earliest(instance.newest),
        ends_by=skew.earliest(instance.ends_by),
        life=replace(instance.life, policy=policy),
    )


def of_pods(cache: Cache, situation: Situation, membership: Membership) -> Instance:
    """The instance that only pods name."""
    pods = sorted(
        cache.pod_instances.pods.of(membership.instance).values(), key=lambda pod: pod.name
    )
    present = present_of(pods)
    gone = cache.pod_instances.gone.get(membership.instance)
    # where no pod lives, these say what its owner makes in its place
    last = gone.pods if gone is not None else pods
    is_over = False
    if not present:
        is_over = not cache.is_made_again(membership, _bound_of(last))
    elif len(present) < len(pods):
        is_over = not cache.wants(membership)
    faulty = faulty_of(cache, situation, pods)
    facts = _owners(cache, membership)
    template = cache.owners.template(membership)
    size = membership.size or _size_in(facts) or (0 if present else len(last))
    if template is not None and not present:
        size = template.size or size
    first = _first_pods(membership, facts, present)
    parts = PodParts(
        counts=counts_of(pods),
        times=times_of(cache, situation, pods),
        requested=_requested(
            present,
            last,
            size,
            _missing(membership, present, template),
            situation,
        ),
        labels=labelled(membership, present),
        faulty=len(faulty),
    )
    counts = parts.counts
    npus = _npus_of(present or last)
    displaced = _why_displaced(cache, membership, present, parts.requested, npus)
    trouble = trouble_of((), pods, faulty, partial(is_lost, cache, situation))
    has_ended = membership.mortal and 0 < counts.pods == counts.ended
    instance = Instance(
        uid=membership.instance,
        name=membership.name,
        group=membership.group,
        created=_created(membership, facts, last),
        expected=size or len(present),
        kind=membership.kind,
        owner_deleting=is_over,
        owner_finished=has_ended,
        faults=parts.requested.faults if size else (_size_unknown(membership),),
        trouble="; ".join(filter(None, (trouble, displaced))),
        displaced=bool(displaced),
        warnings=(
            *_unknown_owners(pods),
            *not_held(cache, situation, pods),
            *_shared_gangs(cache, membership, pods, size),
            *without_rank(pods),
        ),
        made_by_us=False,
        owner=membership.owner,
        revision=membership.revision,
        outdated=_is_outdated(cache, membership),
        wanted=cache.owners.wanted(membership.owner) if membership.owner else 0,
        unheld=len(ungated(cache, situation, present)),
        irreplaceable=any(_has_no_controller(pod) for pod in present),
        misplaced=any(is_misplaced(membership, pod) for pod in present),
        more_to_come=len(present) < size and bool(first),
        first_are_ready=bool(first) and all(pod.ready for pod in first),
        refused=refused_of(present),
        refusals=cache.refused_pods.of(membership.key.namespace, membership.instance),
        replaced=has_ended and membership.kind != PLAIN,
    )
    group = _own_group(cache, membership, present)
    return as_scheduled(with_pods(instance, parts), group, npus)


def _why_displaced(
    cache: Cache,
    membership: Membership,
    present: Sequence[PodRecord],
    requested: Requested,
    npus: NpuJob,
) -> str:
    """Why pods of its blocks that its owner has made again cannot return to their nodes, and what
    helps; "" when they can. An owner that makes the whole instance anew leaves none of its pods."""
    if not (requested.bound_pods and takes_blocks(requested.requests)):
        return ""
    namespace = membership.key.namespace
    again = [pod.name for pod in present if pod.gated]
    why = why_not_back(cache, namespace, membership.instance, sorted(again))
    bound = sorted([pod.name for pod in present if pod.node])
    return f"{why}, {how_to_heal(npus, namespace, ' '.join(bound))}" if why else ""


def _own_group(
    cache: Cache, membership: Membership, present: Sequence[PodRecord]
) -> OwnedRecord | None:
    """The PodGroup of this instance alone; None where it has none."""
    names = {pod.governed.pod_group for pod in present if pod.governed is not None}
    if len(names) != 1 or any(is_misplaced(membership, pod) for pod in present):
        return None
    return cache.pod_groups.get(membership.key.namespace, names.pop())


def _npus_of(pods: Sequence[PodRecord]) -> NpuJob:
    """What the instance asks of MindCluster's scheduler."""
    first = pods[0].governed if pods else None
    return first.npus if first is not None else NO_JOB


def _bound_of(pods: Sequence[PodRecord]) -> PodRecord:
    """One of these pods; one that was bound, if any was."""
    for pod in pods:
        if pod.node:
            return pod
    return pods[-1]


def _size_in(facts: Sequence[OwnerFacts]) -> int:
    """The pods of the instance, as the most important owner says that knows it; 0 for none."""
    for found in facts:
        if found.size:
            return found.size
    return 0


def _created(
    membership: Membership, facts: Sequence[OwnerFacts], pods: Sequence[PodRecord]
) -> float:
    """When the owner was created; where the owner does not say it, the oldest pod."""
    if facts and not membership.mortal:
        return facts[0].created
    return min(pod.created for pod in pods)


def later_instances(
    cache: Cache, key: ServiceKey, found: Sequence[Instance], most: Mapping[str, int]
) -> list[Instance]:
    """The instances of a service that an owner makes only when those of another role are ready, as
    its template says, without pods. `found`: those that are there; `most`: group -> the largest
    number that a ratio names."""
    owners: dict[OwnerName, None] = {}
    for one in found:
        membership = cache.pod_instances.membership.get(one.uid)
        if membership is not None:
            owners.update(dict.fromkeys(membership.described_by))
    later: list[Instance] = []
    for owner in owners:
        facts = cache.owners.get(*owner)
        if facts is None:
            continue
        for role in facts.later:
            if (role.labels.rule, role.labels.job_id) == (key.rule, key.job_id):
                later += _of_later_role(facts, role, found, most.get(role.labels.group, 0))
    return later


def _of_later_role(
    facts: OwnerFacts, role: LaterRole, found: Sequence[Instance], most: int
) -> Iterator[Instance]:
    owner = identity(facts.kind, facts.namespace, facts.name, role.name)
    first = [identity(facts.kind, facts.namespace, facts.name, name) for name in role.after]
    there = len([one for one in found if one.owner == owner])
    of_first = [one for one in found if one.owner in first]
    if not of_first:
        return
    begun = [one.newest for one in of_first if one.bound]
    requests = ((role.request, role.size),)
    for number in range(there, min(role.instances, most)):
        yield Instance(
            uid=identity("Later", facts.namespace, facts.kind, facts.name, role.name, str(number)),
            name=f"{facts.name}-{role.name}-{number}",
            group=role.labels.group,
            created=facts.created,
            expected=role.size,
            kind=facts.kind,
            made_by_us=False,
            owner=owner,
            more_to_come=True,
            newest=max(begun, default=0.0),
            requests=requests,
            unbound=requests,
        )


def _first_pods(
    membership: Membership, facts: Sequence[OwnerFacts], present: Sequence[PodRecord]
) -> Sequence[PodRecord]:
    """The pods that have to be ready before the owner makes the next ones: the leader, or all that
    there are, if those are the first ones. None where the owner makes all pods at once."""
    names = {pod.name for pod in present}
    for found in facts:
        in_order = {f"{found.name}-{index}" for index in range(len(present))}
        if found.leader_first:
            return [pod for pod in present if pod.name == membership.name]
        if found.one_by_one and names == in_order:
            return present
    return ()


def _leader_first(facts: Sequence[OwnerFacts]) -> bool:
    return any(found.leader_first for found in facts)


def _has_no_controller(pod: PodRecord) -> bool:
    """Whether nothing makes the pod again once it is deleted."""
    return pod.governed is not None and pod.governed.controller_uid == pod.uid


def _unknown_owners(pods: Sequence[PodRecord]) -> Iterator[tuple[Warning, str]]:
    for pod in pods:
        if pod.governed is not None and pod.governed.unknown_owner:
            yield Warning.UNKNOWN_OWNER, pod.governed.unknown_owner


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
    return membership is not None and _leader_first(_owners(cache, membership))


def _owners(cache: Cache, membership: Membership) -> list[OwnerFacts]:
    """The facts about the instance that its owners give, as far as they are known."""
    found = []
    for kind, namespace, name in membership.described_by:
        facts = cache.owners.get(kind, namespace, name)
        if facts is not None:
            found.append(facts)
    return found


def _size_unknown(membership: Membership) -> str:
    owners = ", ".join(f"{kind} {name}" for kind, _, name in membership.described_by) or "no owner"
    return (
        f"SizeUnknown: how many pods {membership.name} has is not known from {owners}; "
        "set annotation mind-cluster/instance-size on its pods"
    )


def _is_outdated(cache: Cache, membership: Membership) -> bool:
    """Whether its owner makes a newer revision: as objects say, else as its newest pods show."""
    if not (membership.owner and membership.revision):
        return False
    newest = cache.owners.newest_revision(membership.owner)
    if not newest:
        seen = []
        for uid in cache.pod_instances.by_owner.of(membership.owner):
            pods = cache.pod_instances.pods.of(uid).values()
            created = max((pod.created for pod in pods), default=0.0)
            seen.append((created, cache.pod_instances.membership[uid].revision))
        newest = max(seen)[1]
    return newest != membership.revision


def _shared_gangs(
    cache: Cache, membership: Membership, pods: Sequence[PodRecord], size: int
) -> Iterator[tuple[Warning, str]]:
    """PodGroups that hold released instances back together with held ones, and that are not ours to
    replace."""
    namespace = membership.key.namespace
    names = {pod.governed.pod_group for pod in pods if pod.governed is not None}
    for name in sorted(names - {""}):
        group = cache.pod_groups.get(namespace, name)
        words = holding_impossible(
            membership, name, group.members if group is not None else 0, size
        )
        if words:
            yield Warning.HOLD_NOT_POSSIBLE, words


def _missing(
    membership: Membership, present: Sequence[PodRecord], template: RoleTemplate | None
) -> Sequence[PodRequest]:
    """3b.1c: the requests of the pods that do not exist, the first missing one first and the last
    one for all the others, as their template says; none where living pods say it, or no template
    does."""
    if template is None:
        return ()
    if not present:
        return template.first, template.others
    if template.first == template.others:
        return ()  # they are as the living ones
    has_first = any(pod.name == membership.name for pod in present)
    return (template.others,) if has_first else (template.first, template.others)


def _requested(
    present: Sequence[PodRecord],
    last: Sequence[PodRecord],
    size: int,
    missing: Sequence[PodRequest],
    situation: Situation,
) -> Requested:
    """What each pod requests: `missing` says it of those that do not exist. Where it does not, and
    no pod lives (`present`), what its owner makes is taken to request what its last pods did; pods
    that do not exist yet, what the first one requests."""
    expected: Sequence[tuple[PodRecord | None, PodRequest]]
    known: list[tuple[PodRecord | None, PodRequest]] = []
    priorities = []
    for pod in present or last:
        if pod.governed is not None:
            priorities.append(pod.governed.priority)
            if present or not missing:
                known.append((pod if present else None, pod.governed.request))
    if not priorities:
        return Requested()
    missing = missing or [known[0][1]]
    for number in range(max(0, size - len(known))):
        known.append((None, missing[min(number, len(missing) - 1)]))
    expected = known
    first = (present or last)[0].governed
    if first is not None and first.volcano:
        return requested_of(situation, first.npus, first.tier, expected, max(priorities))
    return requested_by(expected, max(priorities))
