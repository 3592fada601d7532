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
from scaler.reasons import checks
from scaler.reasons.said import SEMICOLON, Said, in_one
from scaler.reasons.words import with_meaning
from scaler.tools.common.check_result import CheckResult, Level, checked
from scaler.workloads.membership import Job
from scaler.workloads.stages import STAGE_LABELS

SERVER_APP = "mindie-ms-server"
CONSUMER_LABEL = "mx-consumer-cim"
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
    left_out: tuple[tuple[str, Said], ...] = ()
    """Other jobs of its jobID, each with the reason why it has no rank table."""


def diagnose(evidence: Evidence) -> tuple[CheckResult, ...]:
    """Every condition in the order in which a person would correct them."""
    return tuple(_checks(evidence))


def _checks(evidence: Evidence) -> Iterator[CheckResult]:
    if not evidence.servers:
        said = checks.NO_SERVER_JOB.of(name=JOB_ID_LABEL, job_id=evidence.job_id)
        yield checked(Level.ERROR, said, about=f"namespace {evidence.namespace}")
    for name, why in evidence.left_out:
        yield checked(Level.ERROR, checks.NO_TABLE_MADE.of(why=why), about=f"job {name}")
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
        said = checks.NO_CONFIG_MAP.of(name=f"{RANK_TABLE_PREFIX}{server.job.name}")
        yield checked(Level.ERROR, said, about=f"job {server.job.name}")
        return
    yield from _label_checks(table_map, job_id)
    yield from _readable(table_map)
    if server.obstacle is not None:
        kind = server.obstacle.warning.value
        said = with_meaning(kind, f"{kind}: {server.obstacle.message}")
        yield checked(Level.ERROR, said, about=table_map.name)
    else:
        yield _completed(server, table_map)


def _label_checks(table_map: RankTableMap, job_id: str) -> Iterator[CheckResult]:
    problems = list(_label_problems(table_map, job_id))
    for problem in problems:
        yield checked(Level.ERROR, problem, about=table_map.name)
    if not problems:
        yield checked(Level.OK, checks.LABELLED, about=table_map.name)


def _label_problems(table_map: RankTableMap, job_id: str) -> Iterator[Said]:
    labels = table_map.labels
    if labels.get(CONSUMER_LABEL) != "true":
        yield checks.NOT_SEEN.of(name=CONSUMER_LABEL)
    if labels.get(JOB_ID_LABEL) != job_id:
        found = labels.get(JOB_ID_LABEL)
        standing = checks.IS_VALUE.of(value=found) if found else checks.IS_MISSING
        yield checks.OTHER_SERVICE.of(name=JOB_ID_LABEL, standing=standing, job_id=job_id)
    found_labels = [label for label in STAGE_LABELS if label in labels]
    if not found_labels:
        yield checks.NO_GLOBAL_LABEL.of(first=STAGE_LABELS[0], second=STAGE_LABELS[1])
    elif len(found_labels) > 1:
        yield checks.TWO_GLOBAL_LABELS.of(first=STAGE_LABELS[0], second=STAGE_LABELS[1])


def _readable(table_map: RankTableMap) -> Iterator[CheckResult]:
    if not isinstance(content_of(table_map.text), dict):
        yield checked(Level.ERROR, checks.NOT_JSON, about=table_map.name)


def _completed(server: Server, table_map: RankTableMap) -> CheckResult:
    status = table_map.status
    if status == Status.COMPLETED.value and server.table.status is Status.COMPLETED:
        return checked(Level.OK, checks.COMPLETED, about=table_map.name)
    if server.table.status is Status.COMPLETED:
        return checked(Level.ERROR, checks.NOT_COMPLETED_YET, about=table_map.name)
    found = list(waiting_for(server.job, server.members)) or [checks.PODS_NOT_COMPLETE]
    waits = in_one(found, SEMICOLON)
    if status == Status.COMPLETED.value:
        said = checks.SAYS_COMPLETED.of(waits=waits)
        return checked(Level.ERROR, said, about=table_map.name)
    return checked(Level.NOTE, checks.LEFT_OUT.of(waits=waits), about=table_map.name)


def waiting_for(job: Job, members: Sequence[RankTablePod]) -> Iterator[Said]:
    """What the table of a job still waits for, pod by pod."""
    if job.deleting:
        yield checks.JOB_IS_DELETED
        return
    present = {member.name: member for member in members}
    for name in job.pods:
        member = present.get(name)
        if member is None:
            yield checks.POD_MISSING.of(name=name)
        elif member.lost:
            yield checks.POD_LOST.of(name=name)
        elif not member.node:
            yield checks.POD_UNBOUND.of(name=name)
        elif not member.devices.configuration:
            yield checks.POD_WITHOUT_DEVICES.of(name=name)
        elif not member.devices.ip:
            yield checks.POD_WITHOUT_ADDRESS.of(name=name)


def _some_completed(evidence: Evidence) -> CheckResult:
    about = f"service {evidence.job_id}"
    done = []
    for server in evidence.servers:
        if server.table_map and server.table_map.status == "completed":
            done.append(server.job.name)
    if done:
        said = checks.SOME_COMPLETED.of(done=len(done), all=len(evidence.servers))
        return checked(Level.OK, said, about=about)
    return checked(Level.ERROR, checks.NONE_COMPLETED, about=about)


def _reachable(app: str, title: str, pods: Sequence[RolePod]) -> CheckResult:
    ours = [pod for pod in pods if pod.app == app]
    if not ours:
        said = checks.NO_ROLE_POD.of(app=app, name=JOB_ID_LABEL)
        return checked(Level.ERROR, said, about=title)
    if any(pod.host_ip and pod.pod_ip for pod in ours):
        return checked(Level.OK, checks.ROLE_HAS_ADDRESSES, about=title)
    said = checks.ROLE_WITHOUT_ADDRESS.of(name=ours[0].name)
    return checked(Level.ERROR, said, about=title)


def content_of(text: str | None) -> Any:
    """The document in `hccl.json`; None if it is no JSON."""
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None
