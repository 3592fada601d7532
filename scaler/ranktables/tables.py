"""From the cache to the rank table of one job and what stands in its way. Built once per change. Writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from scaler.decide.world import Reason, Warning
from scaler.ranktables.config_map import Obstacle, Rings, obstacle, servers_of
from scaler.ranktables.table import PREFIX, Member, RankTable, rank_table
from scaler.workloads.devices import PodDevices

if TYPE_CHECKING:
    from scaler.informers.cache import Cache
    from scaler.informers.pods import PodRecord
    from scaler.informers.records import JobRecord


class JobTable(msgspec.Struct, frozen=True):
    """What the table of a job should say, and what people should know about it."""

    table: RankTable
    rings: Rings | None
    obstacle: Obstacle | None


class MadeTable(msgspec.Struct, frozen=True):
    """A table and all that it depends on."""

    made_of: tuple[Any, ...]
    table: RankTable


def table_of(cache: Cache, record: JobRecord) -> JobTable | None:
    """None for jobs that are not ours to write tables for, and while a job is wrong but its pods are whole."""
    if record.job.label_problem is Reason.NOT_SERVED or _must_stay(cache, record):
        return None
    known = cache.rank_tables.get(record.uid)
    if known is None:
        known = cache.rank_tables[record.uid] = _build(cache, record)
    return known


def _build(cache: Cache, record: JobRecord) -> JobTable:
    job, obj = record.job, record.object
    table = _made(cache, record)
    rings = rings_of(cache, record.namespace, record.name)
    found = obstacle(rings, job, obj, table)
    refused = cache.refused_tables.get(record.uid)
    if found is None and refused:
        found = Obstacle(Warning.RANK_TABLE_REFUSED, f"the API server refused the rank table: {refused}")
    return JobTable(table, rings, found)


def _made(cache: Cache, record: JobRecord) -> RankTable:
    """Made anew only when something in it can differ: it takes a millisecond, and pods change often."""
    job, meta = record.job, record.object["metadata"]
    owned = cache.pods_of(record.uid)
    members = tuple(member_of(owned[name]) for name in job.pods if name in owned)
    made_of = (job.generation, job.deleting, job.pods, meta.get("annotations"), meta.get("labels"), members)
    known = cache.made_tables.get(record.uid)
    if known is None or known.made_of != made_of:
        known = cache.made_tables[record.uid] = MadeTable(made_of, rank_table(job, record.object, members))
    return known.table


def _must_stay(cache: Cache, record: JobRecord) -> bool:
    """A job that was edited into one that is wrong: its pods run on, and so must what is told of them."""
    if not record.job.faults or record.job.deleting:
        return False
    rings = rings_of(cache, record.namespace, record.name)
    members = [member_of(pod) for pod in cache.pods_of(record.uid).values()]
    listed = len(servers_of(rings.text)) if rings is not None else 0
    return len(members) >= listed > 0 and not any(member.lost for member in members)


def rings_of(cache: Cache, namespace: str, job: str) -> Rings | None:
    """The ConfigMap for the rank table of the job with this name, as the cache has it."""
    record = cache.config_maps.get(namespace, PREFIX + job)
    return record.rings if record is not None else None


def member_of(pod: PodRecord) -> Member:
    """A pod as rank tables see it. One that has ended has given its chips back."""
    lost = pod.terminating or pod.phase in ("Failed", "Succeeded")
    return Member(pod.name, pod.node, pod.devices or PodDevices(), lost)
