"""The rank table of one job, from the cache: its expected content, what prevents a write, and the
patch of a write.

The ConfigMap `rings-config-<job>` belongs to the user: the scaler never creates it, and writes only
its keys `hccl.json` and `version`. Must not write anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from scaler.decide.decision import Note
from scaler.informers.cache import Cache
from scaler.informers.config_maps import RankTableMap, digest_of
from scaler.informers.jobs import JobRecord
from scaler.informers.pods import ENDED, PodRecord
from scaler.kube.api import Object
from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX, RANK_TABLE_VERSION_KEY
from scaler.ranktables.table import RankTable, RankTablePod, mounts_rank_table, rank_table
from scaler.reasons.reasons import Reason
from scaler.reasons.warnings import Warning
from scaler.workloads.devices import PodDevices
from scaler.workloads.membership import Job, number_in

MAX_BYTES = 1_000_000
"""Bytes of all values together; the API server accepts 1 MiB."""


class JobTable(msgspec.Struct, frozen=True):
    """The expected table of a job, and the note about it for people."""

    table: RankTable
    table_map: RankTableMap | None
    obstacle: Note | None


class Tables:
    """The tables of all jobs; each is made again only when its input has changed.
    `has_other_maker`: whether somebody else makes the pods of a job against the mode in force."""

    def __init__(
        self, cache: Cache, has_other_maker: Callable[[JobRecord], bool] = lambda _: False
    ) -> None:
        self.cache = cache
        self._has_other_maker = has_other_maker
        self._made: dict[str, tuple[tuple[Any, ...], RankTable, bool]] = {}
        """Owner uid -> the input of a table, the table, and whether the pods mount it."""
        self.refused: dict[str, str] = {}
        """Owner uid -> the API server's words when it refused the table."""

    def of(self, record: JobRecord) -> JobTable | None:
        """The table of a job. None for a job whose table is not ours, or while it is invalid but
        its pods are whole."""
        table_map = table_map_of(self.cache, record.namespace, record.name)
        if record.job.label_problem is Reason.NOT_SERVED or self._must_stay(record, table_map):
            return None
        if self._has_other_maker(record):
            return None
        table, mounted = self._table(record)
        found = obstacle(table_map, record.job, mounted, table)
        refused = self.refused.get(record.uid)
        if found is None and refused:
            found = Note(
                Warning.RANK_TABLE_REFUSED, f"the API server refused the rank table: {refused}"
            )
        return JobTable(table, table_map, found)

    def forget(self, uid: str) -> None:
        """Forget the table of a job that has gone; called when the job of this uid changes."""
        if self.cache.job(uid) is None:
            self._made.pop(uid, None)

    def note_refusal(self, uid: str, words: str) -> None:
        """Note the API server's words of a refusal, "" for a success."""
        self.refused.pop(uid, None)
        if words:
            self.refused[uid] = words

    def _table(self, record: JobRecord) -> tuple[RankTable, bool]:
        """The table, and whether the pods mount it. Making one takes a millisecond, and pods change
        often."""
        job = record.job
        owned = self.cache.pods_of(record.uid)
        members = tuple(member_of(owned[name]) for name in job.pods if name in owned)
        made_of = (job.generation, job.deleting, job.replicas, job.hardware, members)
        known = self._made.get(record.uid)
        if known is None or known[0] != made_of:
            obj = record.object
            known = self._made[record.uid] = (
                made_of,
                rank_table(job, obj, members),
                mounts_rank_table(job, obj),
            )
        return known[1], known[2]

    def _must_stay(self, record: JobRecord, table_map: RankTableMap | None) -> bool:
        """Whether the published table stays: the job was edited into an invalid one while its pods
        run on."""
        if table_map is None or not record.job.faults or record.job.deleting:
            return False
        members = [member_of(pod) for pod in self.cache.pods_of(record.uid).values()]
        return len(members) >= table_map.servers > 0 and not any(member.lost for member in members)


def table_map_of(cache: Cache, namespace: str, job: str) -> RankTableMap | None:
    """The ConfigMap for the rank table of the job with this name, from the cache."""
    record = cache.config_maps.get(namespace, RANK_TABLE_PREFIX + job)
    return record.table_map if record is not None else None


def member_of(pod: PodRecord) -> RankTablePod:
    """The pod as rank tables need it. A pod that has ended no longer has its chips."""
    lost = pod.terminating or pod.phase in ENDED
    return RankTablePod(pod.name, pod.node, pod.devices or PodDevices(), lost)


def obstacle(
    table_map: RankTableMap | None, job: Job, mounted: bool, table: RankTable
) -> Note | None:
    """Why the table of `job` is not, or cannot be, as expected, with a remedy; None when it is or
    none is needed."""
    if table_map is None:
        name = RANK_TABLE_PREFIX + job.name
        words = (
            f"ConfigMap {name}, which its pods mount, does not exist; create it, it is filled at"
            " once"
        )
        return Note(Warning.RANK_TABLE_MISSING, words) if mounted else None
    blocked = blocked_by(table_map, job.uid, table)
    if blocked is None and table.problem:
        return Note(Warning.DEVICE_DATA_INVALID, f"no rank table can be made: {table.problem}")
    return blocked


def blocked_by(table_map: RankTableMap, job_uid: str, table: RankTable) -> Note | None:
    """Why the ConfigMap cannot be written; None when it can."""
    if table_map.controller_uid and table_map.controller_uid != job_uid:
        found = Warning.RANK_TABLE_NOT_OURS, f"belongs to {table_map.controller}; it is left alone"
    elif table_map.immutable:
        found = (
            Warning.RANK_TABLE_IMMUTABLE,
            "is immutable; delete it and create it without `immutable`",
        )
    elif table_map.binary:
        found = (
            Warning.RANK_TABLE_WRONG_SHAPE,
            f"has {RANK_TABLE_KEY} in binaryData; it has to be text in data",
        )
    elif (size := len(table.text) + table_map.other_bytes) > MAX_BYTES:
        words = f"would have {size} bytes, more than {MAX_BYTES}; take other keys out of it"
        found = Warning.RANK_TABLE_TOO_LARGE, words
    else:
        return None
    return Note(found[0], f"ConfigMap {table_map.name} {found[1]}")


def is_current(table_map: RankTableMap, table: RankTable) -> bool:
    """Whether the ConfigMap has this table already, in any formatting of the JSON."""
    return table_map.said == digest_of(table.text)


def merge_patch(table_map: RankTableMap, table: RankTable, now: float) -> Object:
    """The patch: refused with a conflict when the ConfigMap has changed since it was read."""
    return {
        "metadata": {"uid": table_map.uid, "resourceVersion": table_map.resource_version},
        "data": {
            RANK_TABLE_KEY: table.text,
            RANK_TABLE_VERSION_KEY: next_version(table_map.version, now),
        },
    }


def next_version(previous: str, now: float) -> str:
    """Seconds since the epoch, but always more than `previous`: also after a restart, and when a
    clock steps back."""
    return str(max(number_in(previous, largest=10**18) + 1, int(now)))
