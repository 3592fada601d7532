"""Services of every workload kind as data: what a user of each platform writes for so many
instances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from scaler.kube import api
from scaler.kube.api import Object
from scaler.names import INSTANCE, INSTANCE_SIZE
from tests import jobs
from tests.sim.manifests import (
    deployment,
    infer_service_set,
    leader_worker_set,
    storm_service,
    template,
    volcano_job,
)

GROUPS = ("prefill", "decode")
Ratio = tuple[int, int]
"""Instances of prefill and decode."""
_FAULTS = {"fault-scheduling": "force", "fault-retry-times": "1000"}
_GANG = {"infer.huawei.com/gang-schedule": "true"}


class Spot(msgspec.Struct, frozen=True):
    """Where a service stands and what it runs. Names of its objects begin with `name`, which names
    the rule too."""

    name: str = "qwen"
    namespace: str = "infer"
    image: str = "server:1"
    pool: str = ""
    """Label `pool` of its nodes; "" = any node will do."""


class Kind(msgspec.Struct, frozen=True):
    """`pods` of one prefill and one decode instance. `rolls`: a changed template replaces its
    instances by itself."""

    name: str
    pods: Ratio
    write: Callable[[Spot, Ratio], list[Object]]
    rolls: bool = False

    def __repr__(self) -> str:
        return self.name

    def objects(self, spot: Spot, replicas: Ratio) -> list[Object]:
        """Everything but the rule, in the service's namespace."""
        made = self.write(spot, replicas)
        for obj in made:
            obj["metadata"]["namespace"] = spot.namespace
        return made


def _pod(spot: Spot, group: str) -> Object:
    """A pod template with the labels of an instance, for Volcano, on a node of its own."""
    names = {
        "mind-cluster/scaling-rule": spot.name,
        "mind-cluster/group-name": group,
        "jobID": "qwen",
    }
    labels = {"app": f"{spot.name}-{group}", **_FAULTS, **names}
    pool = {"nodeSelector": {"pool": spot.pool}} if spot.pool else {}
    made = template(npu=8, labels=labels, schedulerName="volcano", **pool)
    made["spec"]["containers"][0]["image"] = spot.image
    return made


Write = Callable[[Spot, Ratio], list[Object]]


def _each_group(make: Callable[[Spot, str, int], Object]) -> Write:
    """One object of so many instances for each group."""
    return lambda spot, replicas: [
        make(spot, group, n) for group, n in zip(GROUPS, replicas, strict=True)
    ]


def _each_instance(make: Callable[[Spot, str, str], list[Object]]) -> Write:
    """Objects of its own for each instance."""
    return lambda spot, replicas: [
        obj
        for group, number in zip(GROUPS, replicas, strict=True)
        for index in range(number)
        for obj in make(spot, group, f"{spot.name}-{group[0]}{index}")
    ]


# kinds whose instances are jobs


def _ascend_job(spot: Spot, group: str, name: str) -> list[Object]:
    """As for Ascend Operator alone: the labels stand on the job, and admission moves them."""
    pod = _pod(spot, group)
    pod["metadata"]["labels"] = {"app": spot.name}
    pod["spec"]["containers"][0]["name"] = "ascend"
    pods = 2 if group == "decode" else 1
    return [jobs.job(name, group, pods=pods, rule=spot.name, job_id="qwen", pod=pod)]


def _volcano_job(spot: Spot, group: str, name: str) -> list[Object]:
    tasks = {"leader": 1, "worker": 1} if group == "prefill" else {"server": 1}
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    return [volcano_job(name, tasks=tasks, pod=_pod(spot, group), policies=policies, maxRetry=1000)]


# kinds whose instances are pods


def _deployment(spot: Spot, group: str, replicas: int, **strategy: Any) -> Object:
    return deployment(f"{spot.name}-{group}", replicas, pod=_pod(spot, group), **strategy)


def _bare(spot: Spot, group: str, name: str) -> list[Object]:
    """A decode instance consists of two pods, which their annotations say."""
    names = [f"{name}-0", f"{name}-1"] if group == "decode" else [name]
    notes = {INSTANCE: name, INSTANCE_SIZE: "2"} if group == "decode" else {}
    made = _pod(spot, group)
    return [
        jobs.manifest(
            api.PODS, one, labels=made["metadata"]["labels"], annotations=notes, spec=made["spec"]
        )
        for one in names
    ]


# kinds whose instances are groups of pods


def _leader_worker_set(spot: Spot, group: str, replicas: int, **parts: Any) -> Object:
    pod = _pod(spot, group)
    return leader_worker_set(
        f"{spot.name}-{group}", replicas, size=2, leader=pod, worker=pod, **parts
    )


def _storm_service(spot: Spot, replicas: Ratio, *, stateful: bool) -> list[Object]:
    both = {"updateStrategy": {"maxSurge": int(stateful), "maxUnavailable": 1}}
    prefill = {
        "template": _pod(spot, "prefill"),
        "replicas": replicas[0],
        "stateful": stateful,
        **both,
    }
    decode = {
        "template": _pod(spot, "decode"),
        "replicas": replicas[1],
        "stateful": True,
        "podGroupSize": 2,
        **both,
    }
    return [storm_service(spot.name, prefill=prefill, decode=decode)]


def _infer_service_set(spot: Spot, replicas: Ratio) -> list[Object]:
    """Prefill pods come one after the other (OrderedReady); decode ones together, in a gang of the
    operator's."""
    prefill = {"replicas": replicas[0], "pods": 2, "pod": _pod(spot, "prefill")}
    decode = {
        "replicas": replicas[1],
        "pods": 2,
        "pod": _pod(spot, "decode"),
        "metadata": {"labels": _GANG},
    }
    made = infer_service_set(spot.name, prefill=prefill, decode=decode)
    made["spec"]["template"]["roles"][1]["spec"]["podManagementPolicy"] = "Parallel"
    return [made]


def _mixed(spot: Spot, replicas: Ratio) -> list[Object]:
    return [
        _deployment(spot, "prefill", replicas[0]),
        _leader_worker_set(spot, "decode", replicas[1]),
    ]


ASCEND_JOBS = Kind("ascend-jobs", (1, 2), _each_instance(_ascend_job))
VOLCANO_JOBS = Kind("volcano-jobs", (2, 1), _each_instance(_volcano_job))
DEPLOYMENTS = Kind("deployments", (1, 1), _each_group(_deployment), rolls=True)
_WHOLE_SET = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 1}}
SURGING = Kind(
    "surging-deployments",
    (1, 1),
    _each_group(partial(_deployment, strategy=_WHOLE_SET)),
    rolls=True,
)
LEADER_WORKER_SETS = Kind("leader-worker-sets", (2, 2), _each_group(_leader_worker_set), rolls=True)
_LEADERS_FIRST = partial(_leader_worker_set, startupPolicy="LeaderReady")
LEADERS_FIRST = Kind("leaders-first", (2, 2), _each_group(_LEADERS_FIRST), rolls=True)
STORM_STATELESS = Kind(
    "storm-stateless", (1, 2), partial(_storm_service, stateful=False), rolls=True
)
STORM_STATEFUL = Kind("storm-stateful", (1, 2), partial(_storm_service, stateful=True), rolls=True)
INSTANCE_SETS = Kind("instance-sets", (2, 2), _infer_service_set)
PLAIN_PODS = Kind("plain-pods", (1, 2), _each_instance(_bare))
MIXED = Kind("deployment-and-leader-worker-set", (1, 2), _mixed, rolls=True)

KINDS = (
    ASCEND_JOBS,
    VOLCANO_JOBS,
    DEPLOYMENTS,
    SURGING,
    LEADER_WORKER_SETS,
    LEADERS_FIRST,
    STORM_STATELESS,
    STORM_STATEFUL,
    INSTANCE_SETS,
    PLAIN_PODS,
    MIXED,
)
