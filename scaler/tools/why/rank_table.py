"""The objects of a cluster that a service's rank tables depend on, for `common.diagnosis`.
Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from scaler.informers.config_maps import ConfigMapObject, RankTableMap, read_table_map
from scaler.informers.jobs import JobRecord, read_job_record
from scaler.informers.pods import read_pod
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS, KubeApi, Object
from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX
from scaler.ranktables.table import mounts_rank_table, rank_table
from scaler.ranktables.tables import member_of, obstacle
from scaler.reasons import checks
from scaler.reasons.said import Said
from scaler.tools.common.check_result import CheckResult, Level, checked
from scaler.tools.common.diagnosis import ROLES, SERVER_APP, Evidence, RolePod, Server, diagnose


def rank_checks(evidence: Evidence, *, always: bool, only: str = "") -> tuple[CheckResult, ...]:
    """ClusterD's conditions one by one; one line if the service has no rank tables at all, unless
    `always`. `only`: the checks about this job."""
    used = always or evidence.strays or any(one.table_map or one.mounts for one in evidence.servers)
    if not used:
        return (checked(Level.OK, checks.NO_RANK_TABLES, about="rank table"),)
    found = diagnose(evidence)
    if only:
        about = {f"job {only}", RANK_TABLE_PREFIX + only}
        return tuple(check for check in found if check.about in about)
    if not any(check.level is Level.ERROR for check in found):
        return (*found, checked(Level.OK, checks.ALL_RANKS_MET, about="global rank table"))
    return found


async def gather(api: KubeApi, namespace: str, job_id: str) -> Evidence:
    """The objects of one service. Raises KubeError."""
    jobs = (await api.list(ASCEND_JOBS, namespace, label_selector=f"jobID={job_id}")).items
    config_maps = (await api.list(CONFIG_MAPS, namespace)).items
    pods = (await api.list(PODS, namespace)).items
    by_name = {}
    for config_map in config_maps:
        if config_map["metadata"]["name"].startswith(RANK_TABLE_PREFIX):
            table_map = _table_map(config_map)
            by_name[table_map.name] = table_map
    servers = []
    for job in jobs:
        record = _record(job) if _is_server(job) else None
        if record is not None:
            own = by_name.pop(RANK_TABLE_PREFIX + record.name, None)
            servers.append(_server(record, own, pods))
    strays = []
    for table_map in by_name.values():
        if table_map.labels.get("jobID") == job_id:
            strays.append(table_map)
    return Evidence(
        namespace=namespace,
        job_id=job_id,
        servers=tuple(servers),
        strays=tuple(strays),
        roles=tuple(_roles(pods, job_id)),
        left_out=tuple(_left_out(jobs)),
    )


def _table_map(config_map: Object) -> RankTableMap:
    """That of a rank table with its text and all its labels, which a cache does not keep."""
    read = msgspec.convert(config_map, ConfigMapObject)
    found = read_table_map(read)
    return msgspec.structs.replace(
        found, text=read.data.get(RANK_TABLE_KEY), labels=read.metadata.labels
    )


def _is_server(job: Object) -> bool:
    return bool((job["metadata"].get("labels") or {}).get("app") == SERVER_APP)


def _record(job: Object) -> JobRecord | None:
    """None for an unreadable job; `_left_out` names it."""
    with suppress(ValueError, msgspec.MsgspecError):
        return read_job_record(job)
    return None


def _left_out(jobs: Iterable[Object]) -> Iterable[tuple[str, Said]]:
    """Jobs of this jobID without a rank table, each with the reason: the answer names them."""
    for job in jobs:
        app = str((job["metadata"].get("labels") or {}).get("app") or "")
        if _is_server(job):
            if _record(job) is None:
                yield job["metadata"]["name"], checks.CANNOT_BE_READ
        elif app not in ROLES:
            row = checks.LABEL_APP_IS if app else checks.LABEL_APP_MISSING
            yield job["metadata"]["name"], row.of(app=app, server=SERVER_APP)


def _server(record: JobRecord, table_map: RankTableMap | None, pods: Iterable[Object]) -> Server:
    ours = [pod for pod in map(read_pod, pods) if pod.owner_uid == record.uid]
    members = tuple(member_of(pod) for pod in ours)
    table = rank_table(record.job, record.object, members)
    mounted = mounts_rank_table(record.job, record.object)
    return Server(
        record.job,
        members,
        table_map,
        table,
        obstacle(table_map, record.job, mounted, table),
        bool(mounted),
    )


def _roles(pods: Iterable[Object], job_id: str) -> Iterable[RolePod]:
    for pod in pods:
        meta = pod["metadata"]
        status = pod.get("status") or {}
        labels: dict[str, Any] = meta.get("labels") or {}
        if (
            labels.get("app") in ROLES
            and labels.get("jobID") == job_id
            and not meta.get("deletionTimestamp")
        ):
            yield RolePod(
                labels["app"], meta["name"], status.get("hostIP", ""), status.get("podIP", "")
            )
