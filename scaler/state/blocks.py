"""Instances that are placed in blocks of a super-pod, and have lost pods: whether these return to
their blocks, and what helps where they do not. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.decide.nodes import PodRequests
from scaler.informers.cache import Cache
from scaler.workloads.npu_rules import NpuJob


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
