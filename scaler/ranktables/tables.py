"""From the cache to the rank table of one job and what stands in its way. Writes nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.decide.world import Reason, Warning
from scaler.informers.cache import Cache
from scaler.informers.config_maps import RankTableMap
from scaler.informers.pods import PodRecord
from scaler.informers.records import JobRecord
from scaler.names import RANK_TABLE_PREFIX
from scaler.ranktables.config_map import Obstacle, obstacle
from scaler.ranktables.server import RankTablePod
from scaler.ranktables.table import RankTable, mounts_rank_table, rank_table
from scaler.workloads.devices import PodDevices


class JobTable(msgspec.Struct, frozen=True):
    """What the table of a job should say, and what people should know about it."""

    table: RankTable
    table_map: RankTableMap | None
    obstacle: Obstacle | None


class Tables:
    """The tables of all jobs, each made anew only when something in it has changed."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._made: dict[str, tuple[tuple[Any, ...], RankTable, bool]] = {}
        """Owner uid -> what a table was made of, the table, and whether the pods mount it: most changes of a pod do not
        touch its chips."""
        self._refused: dict[str, str] = {}
        """Owner uid -> the API server's words when it refused the table."""

    def of(self, record: JobRecord) -> JobTable | None:
        """None for jobs that are not ours to write tables for, and while a job is wrong but its pods are whole."""
        if record.job.label_problem is Reason.NOT_SERVED or self._must_stay(record):
            return None
        table = self._table(record)
        table_map = table_map_of(self.cache, record.namespace, record.name)
        found = obstacle(table_map, record.job, self._made[record.uid][2], table)
        refused = self._refused.get(record.uid)
        if found is None and refused:
            found = Obstacle(Warning.RANK_TABLE_REFUSED, f"the API server refused the rank table: {refused}")
        return JobTable(table, table_map, found)

    def forget(self, uid: str) -> None:
        """Something of this instance has changed: it may have gone."""
        if self.cache.job(uid) is None:
            self._made.pop(uid, None)

    def note_refusal(self, uid: str, words: str) -> bool:
        """What the API server said when it refused the table, "" when it did not; whether that is something else than
        before. Nothing is remembered of a job that has gone."""
        if self._refused.get(uid, "") == words:
            return False
        if words:
            self._refused[uid] = words
        else:
            del self._refused[uid]
        return True

    @property
    def refused(self) -> list[str]:
        """The uids of jobs whose tables were refused, sorted."""
        return sorted(self._refused)

    def _table(self, record: JobRecord) -> RankTable:
        """Made anew only when something in it can differ: it takes a millisecond, and pods change often."""
        job = record.job
        owned = self.cache.pods_of(record.uid)
        members = tuple(member_of(owned[name]) for name in job.pods if name in owned)
        made_of = (job.generation, job.deleting, job.replicas, job.hardware, members)
        known = self._made.get(record.uid)
        if known is None or known[0] != made_of:
            obj = record.object
            known = self._made[record.uid] = (made_of, rank_table(job, obj, members), mounts_rank_table(job, obj))
        return known[1]

    def _must_stay(self, record: JobRecord) -> bool:
        """A job that was edited into one that is wrong: its pods run on, and so must what is published of them."""
        if not record.job.faults or record.job.deleting:
            return False
        table_map = table_map_of(self.cache, record.namespace, record.name)
        members = [member_of(pod) for pod in self.cache.pods_of(record.uid).values()]
        listed = table_map.servers if table_map is not None else 0
        return len(members) >= listed > 0 and not any(member.lost for member in members)


def table_map_of(cache: Cache, namespace: str, job: str) -> RankTableMap | None:
    """The ConfigMap for the rank table of the job with this name, as the cache has it."""
    record = cache.config_maps.get(namespace, RANK_TABLE_PREFIX + job)
    return record.table_map if record is not None else None


def member_of(pod: PodRecord) -> RankTablePod:
    """A pod as rank tables see it. One that has ended has given its chips back."""
    lost = pod.terminating or pod.phase in ("Failed", "Succeeded")
    return RankTablePod(pod.name, pod.node, pod.devices or PodDevices(), lost)
