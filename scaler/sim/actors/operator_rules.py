"""The rules of Ascend Operator: its gate for elastic scaling, its retries, and the status of its
jobs. Values only.

Written from the description of its behaviour and independent of scaler.rules and scaler.decide, so
that it can contradict them. Its conditions follow the update rules of the library that it uses, and
are unreliable after the first fault. Must not be better than the original: its weaknesses are
compared with the scaler."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors import objects

BASE_DELAY = 0.005
LONGEST_DELAY = 20.0
RATE = 10.0
BURST = 100
"""Retries per second of all jobs together, and the burst before that."""

Counts = Mapping[str, int]
_INTEGER = re.compile(r"[+-]?[0-9]+")


class OperatorCrashError(Exception):
    """The original dereferences nil here: its process ends, and ends again at the next start."""


def may_create(document: str, running: Counts, group: str) -> bool:
    """Whether missing pods of a replica type may be created; OperatorCrashError if the next ratio
    lacks the group."""
    ratios = read_ratios(document)
    for ratio in reversed(ratios):
        if not _is_reached(ratio, running):
            if group not in ratio:
                raise OperatorCrashError(
                    f"group {group!r} is not in the ratio that is to be reached"
                )
            return ratio[group] > running.get(group, 0)
    return False


def _is_reached(ratio: Counts, running: Counts) -> bool:
    for name, number in ratio.items():
        if running.get(name, 0) < number:
            return False
    return True


def read_ratios(document: str) -> list[dict[str, int]]:
    """Instances per group and ratio, in the order of the document; empty for documents that the
    original refuses."""
    ratios: list[dict[str, int]] = []
    servers: list[dict[str, int]] = []
    try:
        for entry in json.loads(document)["elastic_scaling_list"]:
            ratios.append({})
            servers.append({})
            for group in entry["group_list"]:  # the last duplicate of a group wins
                name = group["group_name"]
                ratios[-1][name] = _number(group["group_num"])
                servers[-1][name] = _number(group["server_num_per_group"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return ratios if _never_grow(ratios) and _never_grow(servers) else []


def _never_grow(entries: Sequence[Counts]) -> bool:
    """Whether no group has a larger number than in the entry before, or is missing there."""
    for larger, smaller in itertools.pairwise(entries):
        for name, number in smaller.items():
            if name not in larger or number > larger[name]:
                return False
    return True


def _number(text: Any) -> int:
    if not isinstance(text, str) or not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


class Retries:
    """Delays before a refused job is handled again: its own delay, doubling, and one share of a
    common rate."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._next_share = float("-inf")

    def delay(self, job: str, now: float) -> float:
        """Seconds to wait from `now`; every call counts as one more refusal."""
        times = self._times.get(job, 0)
        self._times[job] = times + 1
        own = min(LONGEST_DELAY, BASE_DELAY * 2.0 ** min(times, 20))
        share = max(self._next_share, now - (BURST - 1) / RATE)
        self._next_share = share + 1 / RATE
        return max(own, share - now)

    def forget(self, job: str) -> None:
        """The job was reconciled without an error."""
        self._times.pop(job, None)


class Condition(msgspec.Struct, frozen=True):
    """One condition to be set: its type, reason and message."""

    kind: str
    reason: str
    message: str


NO_SCHEDULER = Condition(
    "Created",
    "PodGroupNotInitialized",
    "volcano-scheduler is maybe not running, execute command to check the status: "
    "kubectl get pod -n volcano-system -l app=volcano-scheduler",
)


def of_pods(job: Object, pods: Iterable[Object], *, retries_left: int) -> Condition | None:
    """The condition from the pods' phases; None if they give none."""
    place = f"{objects.namespace(job)}/{objects.name(job)}"
    phases = set(_phases(pods))
    if "Failed" in phases:
        if retries_left < 1:
            return Condition(
                "Failed", "JobFailed", f"Job {place} has failed because has pod failed."
            )
        words = f"Job {place} is unconditional retry job and remain retry times is {retries_left}."
        return Condition("Restarting", "JobRestarting", words)
    if "Running" in phases:
        return Condition("Running", "JobRunning", f"Job {place} is running.")
    if phases == {"Succeeded"}:
        return Condition(
            "Succeeded", "JobRunning", f"Job{place.replace('/', '-')} successfully completed."
        )
    return None


def updated(status: Mapping[str, Any], condition: Condition | None, now: str) -> Object:
    """The status with a condition added.

    Failed is final; the same reason again changes nothing, not even the place; Running and
    Restarting replace each other; an end sets Running to False."""
    old = [dict(one) for one in status.get("conditions") or []]
    result: Object = {
        **status,
        "conditions": old,
        "replicaStatuses": dict(status.get("replicaStatuses") or {}),
    }
    if condition is None or _holds(old, "Failed"):
        return result
    since = now
    for one in reversed(old):
        if one["type"] == condition.kind and one["status"] == "True":
            since = one["lastTransitionTime"]
            if one["reason"] == condition.reason:
                return result
    replaced = {condition.kind}
    if condition.kind in ("Running", "Restarting"):
        replaced |= {"Running", "Restarting"}
    kept = [one for one in old if one["type"] not in replaced]
    if condition.kind in ("Failed", "Succeeded"):
        result["completionTime"] = now
        for one in kept:
            if one["type"] == "Running":
                one["status"] = "False"
    new = {
        "type": condition.kind,
        "status": "True",
        "reason": condition.reason,
        "message": condition.message,
    }
    result["conditions"] = [*kept, {**new, "lastTransitionTime": since, "lastUpdateTime": now}]
    return result


_COUNTERS = {"active": "Running", "succeeded": "Succeeded", "failed": "Failed"}


def replica_statuses(pods: Mapping[str, list[Object]]) -> Object:
    """Running, succeeded and failed pods per replica type; zeros and pending pods are in no
    counter."""
    result: Object = {}
    for kind, members in pods.items():
        phases = _phases(members)
        result[kind] = {}
        for name, phase in _COUNTERS.items():
            if phase in phases:
                result[kind][name] = phases.count(phase)
    return result


def finished(status: Mapping[str, Any]) -> bool:
    """Whether the job is Succeeded or Failed, for any reason: this is final."""
    conditions = status.get("conditions") or []
    return _holds(conditions, "Failed") or _holds(conditions, "Succeeded")


def _phases(pods: Iterable[Object]) -> list[str]:
    """The phases of all pods except failed ones that are terminating."""
    phases = []
    for pod in pods:
        phase = objects.phase(pod)
        if phase != "Failed" or not objects.terminating(pod):
            phases.append(phase)
    return phases


def _holds(conditions: Iterable[Mapping[str, Any]], kind: str) -> bool:
    for condition in conditions:
        if condition["type"] == kind and condition["status"] == "True":
            return True
    return False
