"""One service with all its parts: groups, instances, their pods, the pods' nodes. Values only.

The input is the ElasticService and the objects that are seen; must not decide or print anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scaler.decide.decision import State
from scaler.informers.pods import PodRecord
from scaler.kube.metadata import version_of
from scaler.reasons.reasons import Reason
from scaler.rules.rule import ALL
from scaler.rules.short import in_short
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.timestamps import rfc3339, seconds_of
from scaler.tools.common.records import EventRecord, condition
from scaler.tools.common.view import Cluster, ServiceView
from scaler.workloads.kinds import JOBS

MOST_EVENTS = 200


class PodView(msgspec.Struct, frozen=True, rename="camel"):
    """One pod. `standing` in a word or two, `trouble` is a problem of its node, `said` the last
    warning."""

    name: str
    standing: str
    node: str = ""
    trouble: str = ""
    created: str = ""
    restarts: int = 0
    said: str = ""


class InstanceView(msgspec.Struct, frozen=True, rename="camel"):
    """One instance as in the status, and its pods as they are seen; none if pods are forbidden to
    read."""

    name: str
    group: str
    kind: str
    state: str
    reason: str
    message: str
    since: str
    nodes: tuple[str, ...]
    pods: tuple[PodView, ...] = ()


class RatioView(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the rule. `index` 0 is the largest."""

    index: int
    counts: Mapping[str, int]
    runs: bool = False
    target: bool = False
    largest_wanted: bool = False
    """Fewer instances are wanted than the rule allows, and this is the largest ratio for that
    number."""
    beyond: bool = False
    """More instances than wanted."""


class ServiceDetail(msgspec.Struct, frozen=True, rename="camel"):
    view: ServiceView
    ratios: tuple[RatioView, ...]
    instances: tuple[InstanceView, ...]
    events: tuple[EventRecord, ...]


def detail_of(cluster: Cluster, view: ServiceView) -> ServiceDetail:
    """All parts of one service that are seen now."""
    said = cluster.last_warnings(view.key.namespace)
    found = as_list(view.status.get("instances"))
    instances = tuple(_instance(cluster, at(one), said) for one in found)
    return ServiceDetail(view, tuple(_ratios(view)), instances, _events(cluster, view, instances))


def _ratios(view: ServiceView) -> Iterable[RatioView]:
    status = view.status
    most = largest_wanted(view)
    runs, target = (at(status, name).get("index") for name in ("currentRatio", "targetRatio"))
    for index, counts in enumerate(as_list(status.get("ratios"))):
        numbers = counts_of(status, counts)
        marks = {"runs": index == runs, "target": index == target, "beyond": index < most}
        yield RatioView(index, numbers, largest_wanted=index == most > 0, **marks)


def _instance(
    cluster: Cluster, found: Mapping[str, Any], said: Mapping[str, EventRecord]
) -> InstanceView:
    text = {}
    for name in ("name", "group", "kind", "state", "reason", "message", "since"):
        text[name] = as_text(found.get(name))
    pods = cluster.cache.pods_of(as_text(found.get("uid")))
    shown = tuple(_pod(cluster, pods[name], said) for name in sorted(pods))
    nodes = tuple(filter(None, map(as_text, as_list(found.get("nodes")))))
    return InstanceView(
        **text, nodes=nodes or tuple(sorted({pod.node for pod in shown} - {""})), pods=shown
    )


def _pod(cluster: Cluster, pod: PodRecord, said: Mapping[str, EventRecord]) -> PodView:
    event = said.get(pod.uid)
    return PodView(
        pod.name,
        standing(pod),
        pod.node,
        node_trouble(cluster, pod.node),
        rfc3339(pod.created) if pod.created else "",
        pod.restarts,
        f"{event.reason}: {event.message}" if event is not None and not pod.ready else "",
    )


def standing(pod: PodRecord) -> str:
    """The phase of a pod on its way to Ready, in a word or two."""
    if pod.terminating:
        return "Terminating"
    if pod.crashing:
        return pod.cannot_start or "CrashLoopBackOff"
    if pod.gated:
        return "Held by our gate"
    if pod.refused:
        return "Refused by its kubelet"
    if pod.cannot_start:
        return pod.cannot_start
    if pod.phase == "Running":
        return "Running" if pod.ready else "Running, not ready"
    if pod.phase in ("", "Pending"):
        return "Bound, starting" if pod.node else "Not bound to a node"
    return pod.phase


def node_trouble(cluster: Cluster, name: str) -> str:
    """Why nothing can run on this node, as far as nodes may be read; "" otherwise."""
    if not name or not cluster.state.situation.sees_nodes:
        return ""
    record = cluster.cache.nodes.get("", name)
    if record is None:
        return "does not exist" if len(cluster.cache.nodes) else ""
    facts = record.facts
    faults = cluster.cache.faults.of(name)
    words = []
    if not facts.ready:
        words.append("NotReady")
    if facts.unschedulable:
        words.append("cordoned")
    if faults.node or faults.switch:
        words.append("reported as faulty")
    if faults.chips:
        words.append("faulty chips")
    return ", ".join(words)


def _events(
    cluster: Cluster, view: ServiceView, instances: Sequence[InstanceView]
) -> tuple[EventRecord, ...]:
    """Events about the service, its rule, its jobs and their pods; the oldest first."""
    jobs = {instance.name for instance in instances}
    pods = set()
    for instance in instances:
        for pod in instance.pods:
            pods.add(pod.name)
    names = {
        "ElasticService": {view.name} - {""},
        "ConfigMap": {view.key.rule},
        "Pod": pods | jobs,
        "PodGroup": jobs,
        **dict.fromkeys(JOBS, jobs),
    }
    found = []
    for event in cluster.events.values():
        if event.namespace == view.key.namespace and _is_about(event, names, jobs):
            found.append(event)
    found.sort(key=lambda event: (seconds_of(event.last), version_of(event.resource_version)))
    return tuple(found[-MOST_EVENTS:])


def _is_about(event: EventRecord, names: Mapping[str, set[str]], jobs: set[str]) -> bool:
    if event.kind == "PodGroup":  # <job>-<uid> of an AscendJob
        return any(event.about.startswith(job) for job in jobs)
    return event.about in names.get(event.kind, ())


# The status as a whole


def wanted(view: ServiceView) -> str:
    """Instances wanted in all, in the form of `status.wanted`."""
    return "all" if view.replicas >= ALL else str(view.replicas)


def is_drained(instance: InstanceView) -> bool:
    """Whether its pods are deleted because the instance is beyond the wanted number."""
    return instance.reason == Reason.SCALED_DOWN and instance.state != State.HELD


def largest_wanted(view: ServiceView) -> int:
    """Index of the largest ratio that is aimed at; for a service that rests the index after the
    last."""
    totals = []
    for ratio in as_list(view.status.get("ratios")):
        totals.append(sum(map(as_count, at(ratio).values())))
    enough = []
    for index, total in enumerate(totals):
        if total >= view.replicas:
            enough.append(index)
    return max(enough, default=0) if view.replicas else len(totals)


def is_true(view: ServiceView, kind: str) -> bool | None:
    """Whether a condition holds; None when the status does not have it."""
    status = condition(view.status, kind).get("status")
    return None if status not in ("True", "False") else status == "True"


def urgency(view: ServiceView) -> tuple[int, float, str]:
    """Sort key of services, the worst first: not available, rule invalid, degraded, not complete,
    complete or without any job; within one state the longest first."""
    if view.status.get("reason") == "NoJobs":
        rank = 4
    elif not is_true(view, "Available"):
        rank = 0
    elif is_true(view, "RuleValid") is False:
        rank = 1
    elif is_true(view, "Degraded"):
        rank = 2
    elif not is_true(view, "Complete"):
        rank = 3
    else:
        rank = 4
    return rank, seconds_of(as_text(view.status.get("since"))), str(view.key)


def counts_of(status: Mapping[str, Any], counts: Any) -> dict[str, int]:
    """Counts by group in a status as it was read, in the order of the rule: an API server sorts
    them by name."""
    numbers = {str(name): as_count(number) for name, number in at(counts).items()}
    ordered = {}
    for group in as_list(status.get("groups")):
        name = as_text(at(group).get("name"))
        if name in numbers:
            ordered[name] = numbers.pop(name)
    return ordered | numbers


def ratio_of(view: ServiceView) -> str:
    """The largest ratio that runs, in short; `-` below the smallest."""
    current = at(view.status, "currentRatio")
    counts = counts_of(view.status, current.get("counts"))
    return in_short(counts, stages_of(view.status)) if current else "-"


def stages_of(status: Mapping[str, Any]) -> dict[str, str]:
    """Prefill or decode, of the groups of which a status says it."""
    found = {}
    for group in map(at, as_list(status.get("groups"))):
        if group.get("stage"):
            found[as_text(group.get("name"))] = as_text(group["stage"])
    return found
