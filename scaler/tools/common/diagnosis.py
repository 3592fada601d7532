"""Why a service does, or does not, get a global rank table from ClusterD: its conditions, checked
one by one. Pure.

ClusterD collects the rank tables of one `jobID` in one namespace, and reports nothing when it
leaves some out. Must not read a cluster (scaler.tools.why.rank_table does), or know how the
result is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from scaler.decide.decision import Note
from scaler.informers.config_maps import RankTableMap
from scaler.names import JOB_ID_LABEL, RANK_TABLE_PREFIX
from scaler.ranktables.table import RankTable, RankTablePod, Status
from scaler.tools.common.check_result import CheckResult, Level
from scaler.workloads.membership import Job

NONE_COMPLETED = "no rank table is completed; at least one must be"
SERVER_APP = "mindie-ms-server"
CONSUMER_LABEL = "mx-consumer-cim"
GLOBAL_LABELS = ("grt-server/deploy-server", "grt-group/deploy-server")
ROLES = {"mindie-ms-controller": "MindIE Controller", "mindie-ms-coordinator": "MindIE Coordinator"}
"""Value of label `app` -> component that must be reachable before ClusterD publishes a table."""


class Server(msgspec.Struct, frozen=True):
    """One instance of the service: its job, pods, ConfigMap, and the table made from its pods."""

    job: Job
    members: tuple[RankTablePod, ...]
    table_map: RankTableMap | None
    table: RankTable
    obstacle: Note | None
    mounts: bool = False
    """Whether its pods mount the ConfigMap."""


class RolePod(msgspec.Struct, frozen=True):
    """A pod of one of MindIE's own components."""

    app: str
    name: str
    host_ip: str
    pod_ip: str


class Evidence(msgspec.Struct, frozen=True):
    """The objects of one service. `strays` are rank-table ConfigMaps of its jobID that belong to
    none of its jobs."""

    namespace: str
    job_id: str
    servers: tuple[Server, ...] = ()
    strays: tuple[RankTableMap, ...] = ()
    roles: tuple[RolePod, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    """Other jobs of its jobID, each with the reason why it has no rank table."""


def diagnose(evidence: Evidence) -> tuple[CheckResult, ...]:
    """Every condition in the order in which a person would correct them."""
    return tuple(_checks(evidence))


def _checks(evidence: Evidence) -> Iterator[CheckResult]:
    if not evidence.servers:
        words = (
            f"no AscendJob of a server has label {JOB_ID_LABEL}={evidence.job_id} in this namespace"
        )
        yield CheckResult(Level.ERROR, words, about=f"namespace {evidence.namespace}")
    for name, why in evidence.left_out:
        yield CheckResult(Level.ERROR, f"no rank table is made for it: {why}", about=f"job {name}")
    for server in evidence.servers:
        yield from _server_checks(server, evidence.job_id)
    for table_map in evidence.strays:
        yield from _label_checks(table_map, evidence.job_id)
        yield from _readable(table_map)
    yield _some_completed(evidence)
    for app, title in ROLES.items():
        yield _reachable(app, title, evidence.roles)


def _server_checks(server: Server, job_id: str) -> Iterator[CheckResult]:
    table_map = server.table_map
    if table_map is None:
        words = (
            f"ConfigMap {RANK_TABLE_PREFIX}{server.job.name} does not exist; apply it, it is never"
            " created for you"
        )
        yield CheckResult(Level.ERROR, words, about=f"job {server.job.name}")
        return
    yield from _label_checks(table_map, job_id)
    yield from _readable(table_map)
    if server.obstacle is not None:
        yield CheckResult(
            Level.ERROR,
            f"{server.obstacle.warning}: {server.obstacle.message}",
            about=table_map.name,
        )
    else:
        yield _completed(server, table_map)


def _label_checks(table_map: RankTableMap, job_id: str) -> Iterator[CheckResult]:
    problems = list(_label_problems(table_map, job_id))
    for problem in problems:
        yield CheckResult(Level.ERROR, problem, about=table_map.name)
    if not problems:
        yield CheckResult(Level.OK, "labelled for ClusterD", about=table_map.name)


def _label_problems(table_map: RankTableMap, job_id: str) -> Iterator[str]:
    labels = table_map.labels
    if labels.get(CONSUMER_LABEL) != "true":
        yield f'label {CONSUMER_LABEL} is not "true": ClusterD does not see it; set it'
    if labels.get(JOB_ID_LABEL) != job_id:
        found = labels.get(JOB_ID_LABEL)
        standing = f"is {found}" if found else "is missing"
        yield f"label {JOB_ID_LABEL} {standing}: it counts for another service; set it to {job_id}"
    found_labels = [label for label in GLOBAL_LABELS if label in labels]
    if not found_labels:
        yield (
            f"has neither label {' nor '.join(GLOBAL_LABELS)}: the whole service is left out;"
            " set one"
        )
    elif len(found_labels) > 1:
        yield (
            f"has both labels {' and '.join(GLOBAL_LABELS)}: the whole service is left out; take"
            " one off"
        )


def _readable(table_map: RankTableMap) -> Iterator[CheckResult]:
    if not isinstance(content_of(table_map.text), dict):
        words = "hccl.json is not a JSON object: one unreadable table leaves the whole service out"
        yield CheckResult(Level.ERROR, words, about=table_map.name)


def _completed(server: Server, table_map: RankTableMap) -> CheckResult:
    status = table_map.status
    if status == Status.COMPLETED.value and server.table.status is Status.COMPLETED:
        return CheckResult(Level.OK, "completed", about=table_map.name)
    if server.table.status is Status.COMPLETED:
        words = (
            "all its pods have their chips, but it is not completed: does the scaler run? see"
            " its log"
        )
        return CheckResult(Level.ERROR, words, about=table_map.name)
    waits = "; ".join(waiting_for(server.job, server.members)) or "its pods are not complete"
    if status == Status.COMPLETED.value:
        return CheckResult(
            Level.ERROR,
            f"says completed, but should not: {waits}; does the scaler run?",
            about=table_map.name,
        )
    return CheckResult(
        Level.NOTE,
        f"not completed, this instance is left out of the global table: {waits}",
        about=table_map.name,
    )


def waiting_for(job: Job, members: Sequence[RankTablePod]) -> Iterator[str]:
    """What the table of a job still waits for, pod by pod."""
    if job.deleting:
        yield "its job is being deleted"
        return
    present = {member.name: member for member in members}
    for name in job.pods:
        member = present.get(name)
        if member is None:
            yield f"pod {name} does not exist"
        elif member.lost:
            yield f"pod {name} is terminating or has ended"
        elif not member.node:
            yield f"pod {name} is not bound to a node"
        elif not member.devices.configuration:
            yield (
                f"pod {name} has no device annotation: do Volcano's NPU plugin and the device"
                " plugin run?"
            )
        elif not member.devices.ip:
            yield f"pod {name} has no address yet"


def _some_completed(evidence: Evidence) -> CheckResult:
    about = f"service {evidence.job_id}"
    done = []
    for server in evidence.servers:
        if server.table_map and server.table_map.status == "completed":
            done.append(server.job.name)
    if done:
        return CheckResult(
            Level.OK,
            f"{len(done)} of {len(evidence.servers)} rank tables are completed",
            about=about,
        )
    return CheckResult(Level.ERROR, NONE_COMPLETED, about=about)


def _reachable(app: str, title: str, pods: Sequence[RolePod]) -> CheckResult:
    ours = [pod for pod in pods if pod.app == app]
    if not ours:
        return CheckResult(
            Level.ERROR,
            f"no pod with label app={app} and the service's {JOB_ID_LABEL}; apply its job",
            about=title,
        )
    if any(pod.host_ip and pod.pod_ip for pod in ours):
        return CheckResult(Level.OK, "has its addresses", about=title)
    return CheckResult(
        Level.ERROR, f"pod {ours[0].name} has no host or pod address yet", about=title
    )


def content_of(text: str | None) -> Any:
    """The document in `hccl.json`; None if it is no JSON."""
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None
