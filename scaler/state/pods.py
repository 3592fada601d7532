"""Pods as counts, and what is wrong with them: what every instance is made of, whatever makes its pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from scaler.decide.nodes import PodRequest
from scaler.decide.world import Warning
from scaler.informers.cache import Cache
from scaler.informers.faults import fault_of
from scaler.informers.pods import PodRecord
from scaler.workloads.membership import Job, Membership

ENDED = ("Failed", "Succeeded")
COUNTS_ON = "It counts as it did when it was admitted"


def present_of(pods: Sequence[PodRecord]) -> list[PodRecord]:
    """Those that are not terminating."""
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


def requests_of(expected: Sequence[tuple[PodRecord | None, PodRequest]], priority: int) -> dict[str, Any]:
    """What an Instance requests of nodes. `expected`: each of its pods, None where it is missing, and its request."""
    bound = [(pod, need) for pod, need in expected if pod is not None and pod.node and not pod.terminating]
    needs = Counter(need for _, need in expected)
    return {
        "needs": tuple(sorted(needs.items())),
        "unbound": tuple(sorted((needs - Counter(need for _, need in bound)).items())),
        "seats": tuple((pod.node, need) for pod, need in bound if pod.phase not in ENDED),
        "priority": priority,
    }


def labelled(found: Job | Membership, pods: Sequence[PodRecord]) -> dict[str, Any]:
    """What is wrong with its labels. As long as it has released pods, what they lack counts as it did."""
    problem = found.label_problem
    if problem is not None and found.mislabelled and not all(pod.gated for pod in present_of(pods)):
        return {"mislabelled": (problem, f"{found.mislabelled}. {COUNTS_ON}")}
    return {"label_problem": problem}


def ungated(cache: Cache, pods: Sequence[PodRecord]) -> list[str]:
    """The names of those that arrived without our gate, as a pod that names no rule itself always does."""
    if cache.watches:
        return []
    known = cache.pod_instances.ungated
    return [pod.name for pod in pods if pod.uid in known or (pod.governed is None and not pod.gated)]


def not_held(cache: Cache, pods: Sequence[PodRecord]) -> tuple[tuple[Warning, str], ...]:
    """The warning that some of them arrived without our gate."""
    arrived = ", ".join(ungated(cache, pods))
    if not arrived:
        return ()
    return ((Warning.HOLD_NOT_POSSIBLE, f"{arrived} arrived without the scheduling gate; nothing holds it"),)


def faulty_of(cache: Cache, pods: Sequence[PodRecord]) -> dict[str, str]:
    """The names of pods that sit on something faulty, with words."""
    return {pod.name: words for pod in present_of(pods) if pod.node and (words := _fault(cache, pod))}


def _fault(cache: Cache, pod: PodRecord) -> str:
    if _is_lost(cache, pod.node):
        return f"is on node {pod.node}, which is missing or not Ready"
    if pod.devices is not None and pod.devices.separated:
        return "is given up by MindCluster (label fault-type=Separate)"
    return fault_of(cache.faults.of(pod.node), pod.node, pod.devices.chips if pod.devices else frozenset())


def _is_lost(cache: Cache, node: str) -> bool:
    """Whether this node is missing or not Ready."""
    known = cache.nodes.get("", node)
    return cache.sees_nodes and (known is None or not known.facts.ready)


def trouble_of(names: Sequence[str], pods: Sequence[PodRecord], faulty: Mapping[str, str]) -> str:
    """What is wrong with the pods in words for people, the gravest only. `names` are those that should be there."""
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
    return next((f"pod {pod.name} has restarted {pod.restarts} times" for pod in pods if pod.restarts), "")
