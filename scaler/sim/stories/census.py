"""Who runs, seen from outside: instances and their condition, counted from jobs, pods and nodes alone.

The witness of simulations. Written apart from scaler.workloads and scaler.plan, so that it can contradict them.
Must not: write, or ask the controller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors import objects
from scaler.sim.actors.kubelet import crash_looping
from scaler.sim.actors.mindie import GROUP_LABEL, RULE_LABEL
from scaler.sim.actors.placement import natural


class Condition(StrEnum):
    """How an instance is, from its pods."""

    EMPTY = "empty"
    """No pods that are not going away."""
    WAITING = "waiting"
    """Some pod has no node."""
    STARTING = "starting"
    RUNNING = "running"
    BROKEN = "broken"
    """Bound, and a pod failed, crash-loops, is missing or sits on a lost node."""


class InstanceView(msgspec.Struct, frozen=True):
    """One instance of one service, as its pods show it."""

    name: str
    group: str
    condition: Condition
    nodes: tuple[str, ...] = ()


def service_of(job: Object) -> str:
    """`namespace/rule/jobID` of a job under a rule, "" for any other."""
    labels = objects.labels_of(job)
    if not labels.get(RULE_LABEL) or not labels.get("jobID"):
        return ""
    return f"{objects.namespace(job)}/{labels[RULE_LABEL]}/{labels['jobID']}"


def census(jobs: Iterable[Object], pods: Iterable[Object], nodes: Iterable[Object]) -> dict[str, list[InstanceView]]:
    """Every service's instances, by group and natural order of names."""
    ready = {objects.name(node) for node in nodes if objects.node_ready(node)}
    members: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        members[objects.owner_uid(pod)].append(pod)
    services: dict[str, list[InstanceView]] = defaultdict(list)
    for job in jobs:
        service = service_of(job)
        if service:
            services[service].append(_view(job, members[objects.uid(job)], ready))
    return {name: sorted(services[name], key=lambda v: (v.group, natural(v.name))) for name in sorted(services)}


def running(instances: Iterable[InstanceView]) -> dict[str, int]:
    """Running instances per group; groups without any count 0."""
    counts: dict[str, int] = {}
    for view in instances:
        counts[view.group] = counts.get(view.group, 0) + (view.condition is Condition.RUNNING)
    return counts


def _view(job: Object, pods: list[Object], ready: set[str]) -> InstanceView:
    seats = tuple(sorted({objects.node_of(pod) for pod in pods if objects.node_of(pod)}, key=natural))
    condition = _condition([p for p in pods if not objects.terminating(p)], _expected(job), ready, len(pods))
    return InstanceView(objects.name(job), objects.labels_of(job).get(GROUP_LABEL, ""), condition, seats)


def _condition(live: list[Object], expected: int, ready: set[str], present: int) -> Condition:
    if not live:
        return Condition.EMPTY
    bound = [pod for pod in live if objects.node_of(pod)]
    if any(objects.ended(pod) or crash_looping(pod) or objects.node_of(pod) not in ready for pod in bound):
        return Condition.BROKEN
    if bound and (len(live) < expected or present > len(live)):
        return Condition.BROKEN
    if len(bound) < len(live) or len(live) < expected:
        return Condition.WAITING
    if any(objects.phase(pod) != "Running" for pod in live):
        return Condition.STARTING
    return Condition.RUNNING


def _expected(job: Object) -> int:
    replicas = (objects.spec(job).get("replicaSpecs") or {}).values()
    return sum(int(replica.get("replicas", 1)) for replica in replicas if isinstance(replica, dict))
