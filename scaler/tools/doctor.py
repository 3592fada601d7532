"""`scaler doctor SERVICE`: why does this service get no global rank table? Asks, prints, changes nothing."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaler.informers.config_maps import RankTableMap
    from scaler.informers.pods import PodRecord
    from scaler.informers.records import JobRecord
    from scaler.kube.api import KubeApi, Object
    from scaler.tools.diagnosis import Check, Evidence, RolePod, Server

HELP = """say why a service gets no global rank table

SERVICE is NAMESPACE/JOBID, as in `mindie/mindie`: jobID is the label of its AscendJobs. Reads the cluster, changes
nothing. ClusterD's conditions are checked one by one; each that is not met comes with what to do.

Exit code: 0 all conditions are met, 1 one is not or the cluster cannot be read, 2 usage."""

EXIT_WELL, EXIT_NOT_WELL, EXIT_USAGE = 0, 1, 2
SERVER_APP = "mindie-ms-server"
LAST_WORDS = (
    "All conditions are met. ClusterD tries three times after a change and then waits for the next one: if there\n"
    "still is no global rank table, look at its log in mindx-dl, and change one of these ConfigMaps to wake it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", help="NAMESPACE/JOBID")
    parser.add_argument("--kubeconfig", metavar="FILE", help="path of a kubeconfig; default: as kubectl")
    parser.add_argument("--context", metavar="NAME", help="context in the kubeconfig")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    """Ask the cluster and print."""
    namespace, _, job_id = args.service.partition("/")
    if not (namespace and job_id) or "/" in job_id:
        sys.stderr.write(f"scaler doctor: {args.service!r} is not NAMESPACE/JOBID, as in mindie/mindie\n")
        return EXIT_USAGE
    checks = asyncio.run(_ask(args, namespace, job_id))
    if checks is None:
        return EXIT_NOT_WELL
    sys.stdout.write(_json(checks) if args.format == "json" else text(args.service, checks))
    return EXIT_NOT_WELL if _failed(checks) else EXIT_WELL


async def _ask(args: argparse.Namespace, namespace: str, job_id: str) -> tuple[Check, ...] | None:
    """None when the cluster cannot be read; that is said on stderr."""
    from scaler.kube.client import connect  # noqa: PLC0415 - `scaler doctor --help` stays fast
    from scaler.kube.errors import KubeError  # noqa: PLC0415
    from scaler.tools.diagnosis import diagnose  # noqa: PLC0415

    try:
        async with connect(kubeconfig=args.kubeconfig, context=args.context) as api:
            return diagnose(await gather(api, namespace, job_id))
    except KubeError as error:
        sys.stderr.write(f"scaler doctor: {error}\n")
        return None


def text(service: str, checks: Sequence[Check]) -> str:
    """The answer for people: every condition, then what it comes to."""
    lines = [f"{service}: global rank table"]
    lines += [f"  {check.standing:<4}  {check.about}: {check.words}" for check in checks]
    failed = _failed(checks)
    lines += ["", f"{failed} of {len(checks)} conditions are not met." if failed else LAST_WORDS]
    return "\n".join(lines) + "\n"


def _failed(checks: Sequence[Check]) -> int:
    return sum(check.standing == "FAIL" for check in checks)


def _json(checks: Sequence[Check]) -> str:
    import msgspec  # noqa: PLC0415

    return msgspec.json.format(msgspec.json.encode(checks)).decode() + "\n"


async def gather(api: KubeApi, namespace: str, job_id: str) -> Evidence:
    """What the cluster has of one service. Raises KubeError."""
    from scaler.informers.config_maps import read_rank_table_map  # noqa: PLC0415
    from scaler.informers.records import read_job_record  # noqa: PLC0415
    from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS  # noqa: PLC0415
    from scaler.names import RANK_TABLE_PREFIX  # noqa: PLC0415
    from scaler.tools.diagnosis import Evidence  # noqa: PLC0415

    jobs = (await api.list(ASCEND_JOBS, namespace, label_selector=f"jobID={job_id}")).items
    config_maps = (await api.list(CONFIG_MAPS, namespace)).items
    pods = (await api.list(PODS, namespace)).items
    tables = [read_rank_table_map(cm) for cm in config_maps if cm["metadata"]["name"].startswith(RANK_TABLE_PREFIX)]
    by_name = {table_map.name: table_map for table_map in tables}
    records = [record for job in jobs if _is_server(job) and (record := read_job_record(job)) is not None]
    servers = tuple(_server(record, by_name.pop(RANK_TABLE_PREFIX + record.name, None), pods) for record in records)
    strays = tuple(table_map for table_map in by_name.values() if table_map.labels.get("jobID") == job_id)
    return Evidence(namespace, job_id, servers, strays, tuple(_roles(pods, job_id)))


def _is_server(job: Object) -> bool:
    return bool((job["metadata"].get("labels") or {}).get("app") == SERVER_APP)


def _server(record: JobRecord, table_map: RankTableMap | None, pods: Iterable[Object]) -> Server:
    from scaler.ranktables.config_map import obstacle  # noqa: PLC0415
    from scaler.ranktables.table import mounts_rank_table, rank_table  # noqa: PLC0415
    from scaler.ranktables.tables import member_of  # noqa: PLC0415
    from scaler.tools.diagnosis import Server  # noqa: PLC0415

    ours = [pod for pod in map(_pod, pods) if pod.owner_uid == record.uid]
    members = tuple(member_of(pod) for pod in ours)
    table = rank_table(record.job, record.object, members)
    mounted = mounts_rank_table(record.job, record.object)
    return Server(record.job, members, table_map, table, obstacle(table_map, record.job, mounted, table))


def _pod(pod: Object) -> PodRecord:

    from scaler.informers.pods import read_pod  # noqa: PLC0415

    return read_pod(pod)


def _roles(pods: Iterable[Object], job_id: str) -> Iterable[RolePod]:
    from scaler.tools.diagnosis import ROLES, RolePod  # noqa: PLC0415

    for pod in pods:
        meta, status = pod["metadata"], pod.get("status") or {}
        labels: dict[str, Any] = meta.get("labels") or {}
        if labels.get("app") in ROLES and labels.get("jobID") == job_id and not meta.get("deletionTimestamp"):
            yield RolePod(labels["app"], meta["name"], status.get("hostIP", ""), status.get("podIP", ""))
