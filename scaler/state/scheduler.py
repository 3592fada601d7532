"""What the scheduler says of an instance, what it left out, and whether it puts lost pods of a
block back. Decides nothing.

It writes on the PodGroup why an instance waits, and on each pod that it binds in a super-pod which
block of the job the pod is in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from scaler.decide.nodes import PodRequests
from scaler.decide.world import Instance
from scaler.informers.cache import Cache
from scaler.informers.pods import PodRecord
from scaler.informers.records import OwnedRecord
from scaler.reasons.warnings import Warning
from scaler.workloads.npu_rules import NO_JOB, NpuJob

MOST_NAMED = 4


def as_scheduled(instance: Instance, group: OwnedRecord | None, npus: NpuJob) -> Instance:
    """The instance with what the scheduler says of its PodGroup. `npus`: what it asks of
    MindCluster's scheduler."""
    asks = "" if npus == NO_JOB else "/".join(_parts(npus))
    if asks:
        instance = replace(instance, asks=asks)
    waits = instance.pods > 0 and instance.on_nodes < instance.pods and not instance.gated
    if group is None or not waits or not group.said:
        return instance
    is_whole = instance.pods == instance.expected and not (instance.bound or instance.terminating)
    never_placed = group.said if group.is_refused and is_whole else ""
    return replace(instance, scheduler_says=group.said, never_placed=never_placed)


def _parts(npus: NpuJob) -> tuple[str, ...]:
    affinity = "soft" if npus.is_soft else ""
    return npus.block, npus.policy, affinity, npus.sub_health, npus.rescheduling


def without_rank(pods: Sequence[PodRecord]) -> tuple[tuple[Warning, str], ...]:
    """The warning about bound pods that have no rank in their super-pod; none where all have."""
    names = []
    for pod in pods:
        is_bound = bool(pod.node) and not pod.terminating
        if is_bound and pod.devices is not None and pod.devices.without_rank:
            names.append(pod.name)
    if not names:
        return ()
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    words = (
        f"{', '.join(names[:MOST_NAMED])}{more}: bound without super-pod-rank, so the program does"
        " not know its block. Delete all pods of the instance with one command, so that the"
        " scheduler chooses for all of them again"
    )
    return ((Warning.SUPER_POD_RANK_MISSING, words),)


def takes_blocks(requests: PodRequests) -> bool:
    """Whether pods with these requests are placed in blocks of several nodes of one super-pod."""
    return any(request.block > 1 and not request.tier for request, _ in requests)


def why_not_back(cache: Cache, namespace: str, uid: str, lost: Iterable[str]) -> str:
    """Why MindCluster's scheduler does not put these pods of an instance back onto their nodes; ""
    when it does. `lost`: the names of pods that are gone, or made again and not released yet."""
    last = cache.last_nodes.of(namespace, uid)
    for name in lost:
        why = cache.why_not_back(last.get(name, ""), uid)
        if why:
            return f"{name} cannot return to its block ({why})"
    return ""


def how_to_heal(npus: NpuJob, namespace: str, pods: str) -> str:
    """What becomes of such an instance. `pods`: which pods `kubectl delete pod` has to delete."""
    delete = f"kubectl -n {namespace} delete pod {pods}"
    if npus.rescheduling in ("force", "grace"):
        return (
            "so it is made anew whole: MindCluster's scheduler deletes its other pods where it"
            f" knows of a fault, else delete them: {delete}"
        )
    return f"so it is made anew whole, once its other pods are deleted: {delete}"
