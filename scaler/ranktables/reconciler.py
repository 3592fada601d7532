"""Keeps the rank tables of all jobs right: follows the cache and writes what differs, beside the
decision loop.

ClusterD publishes a `completed` table, so a table that lost a pod is withdrawn before all other
writes, and without waiting for the decision loop. A refused write is a warning of the instance, and
is tried again after a while or after a change. Must not decide about instances."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from scaler.clock import Clock
from scaler.informers.changes import JobChanged
from scaler.informers.config_maps import ConfigMapRecord, RankTableMap
from scaler.informers.mode import CurrentMode, ModeInForce
from scaler.informers.store import Name
from scaler.kube.api import CONFIG_MAPS, PatchType
from scaler.kube.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnknownOutcomeError,
)
from scaler.kube.outbox import Outbox
from scaler.kube.writer import Writer
from scaler.names import RANK_TABLE_PREFIX, RULE_LABEL
from scaler.ranktables.table import INITIALIZING, RankTable, Status
from scaler.ranktables.tables import Tables, blocked_by, is_current, merge_patch, table_map_of

PARALLEL_WRITES = 16
PARALLEL_WRITES_OF_ONE = 8
"""Writes at the same time: in all, and in one namespace."""
TRIES = 3
"""Attempts after conflicts with other writers of the ConfigMap, and after lost answers, before a
pause."""
NOT_URGENT = 0.001
"""Seconds that a completed table waits, so that withdrawals of the same moment are written
first."""
REFUSED_PAUSE = 60.0
"""Seconds between two attempts at a write that the API server refuses."""
_log = structlog.get_logger(__name__)


class _Due(NamedTuple):
    """A ConfigMap, and the table to write into it."""

    table_map: RankTableMap
    table: RankTable


class RankTableReconciler:
    """One per process. Where Ascend Operator makes the pods, it writes the tables."""

    def __init__(self, writer: Writer, tables: Tables, clock: Clock, mode: CurrentMode) -> None:
        self._writer = writer
        self._tables = tables
        self._cache = tables.cache
        self._clock = clock
        self._mode = mode
        self._outbox: Outbox[Name] = Outbox(
            self._write,
            interval=0.0,
            most=PARALLEL_WRITES,
            most_of_one=PARALLEL_WRITES_OF_ONE,
            namespace_of=lambda name: name[0],
        )
        self._looks: Outbox[str] = Outbox(
            self._look, interval=0.0, most=1, most_of_one=1, namespace_of=lambda _: ""
        )
        self._running = False
        self._names: dict[str, Name] = {}
        """Owner uid -> namespace and name, also of owners that were deleted a moment ago."""

    async def run(self) -> None:
        """Write until cancelled, beginning with every job. Errors are logged and retried, never
        raised."""
        self._running = True
        for record in self._cache.jobs.values():
            if not record.is_foreign:
                self._looks.mark(record.uid)
        # Jobs under a rule that were deleted while no replica led: their tables are withdrawn as if
        # that happened now.
        if self._writes_tables():
            for config_map in self._cache.config_maps.values():
                self._mark_if_jobless(config_map)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._outbox.run())
            tasks.create_task(self._looks.run())
            tasks.create_task(self._try_refused_again())

    def _mark_if_jobless(self, config_map: ConfigMapRecord) -> None:
        """Mark the table of a job under a rule that does not exist."""
        name = config_map.namespace, config_map.name.removeprefix(RANK_TABLE_PREFIX)
        served = config_map.table_map is not None and RULE_LABEL in config_map.table_map.labels
        if served and self._cache.jobs.covers(name[0]) and self._cache.jobs.get(*name) is None:
            self._outbox.mark(name)

    def on_job(self, change: JobChanged) -> None:
        """Mark the job. Without leadership nothing is marked: `run` begins with all jobs."""
        if self._running:
            self._looks.mark(change.uid)

    def _writes_tables(self) -> bool:
        return self._mode.now is ModeInForce.MAKES

    async def _look(self, uid: str) -> None:
        if not self._writes_tables():
            return
        record = self._cache.job(uid)
        if record is not None:
            self._names[uid] = (record.namespace, record.name)
        name = self._names.get(uid)
        if name is None:
            return
        due = self._due(name)
        if due is not None:
            completed = due.table.status is Status.COMPLETED
            self._outbox.mark(name, delay=NOT_URGENT if completed else 0.0)
        if record is None:
            del self._names[uid]
            self._tables.note_refusal(uid, "")

    def _due(self, name: Name, table_map: RankTableMap | None = None) -> _Due | None:
        """None when it has the table already or must not be
        changed."""
        table_map = table_map or table_map_of(self._cache, *name)
        if table_map is None:
            return None
        record = self._cache.jobs.get(*name)
        made = self._tables.of(record) if record is not None else None
        if record is not None and made is None:
            return None
        table = made.table if made is not None else INITIALIZING
        owner = record.uid if record is not None else ""
        if is_current(table_map, table) or blocked_by(table_map, owner, table) is not None:
            return None
        return _Due(table_map, table)

    async def _write(self, name: Name) -> None:
        """Update one ConfigMap with the table that is due now, not with the one that was due when
        it was marked."""
        due = self._due(name)
        tries = 0
        while due is not None:
            table_map = due.table_map
            table = due.table
            patch = merge_patch(table_map, table, self._clock.now())
            tries += 1
            try:
                answer = await self._writer.patch(
                    CONFIG_MAPS, name[0], table_map.name, patch, patch_type=PatchType.MERGE
                )
                self._cache.take_in_rank_table(answer)
                _log.info(
                    "rank table written",
                    name=table_map.name,
                    namespace=name[0],
                    status=table.status.value,
                )
                break
            except NotFoundError:
                break
            except (ConflictError, UnknownOutcomeError):
                if tries == TRIES:
                    raise
                due = await self._due_afresh(name)
            except (ForbiddenError, InvalidError, BadRequestError) as error:
                self._refused(name, error.message)
                return
        self._refused(name, "")

    async def _due_afresh(self, name: Name) -> _Due | None:
        """As `_due`, for the ConfigMap that the API server has now: the cache may not have it
        yet."""
        try:
            answer = await self._writer.get(CONFIG_MAPS, name[0], RANK_TABLE_PREFIX + name[1])
        except NotFoundError:
            return None
        return self._due(name, self._cache.take_in_rank_table(answer))

    def _refused(self, name: Name, words: str) -> None:
        """Set the warning of the instance about a refused write, until the refusal is over."""
        record = self._cache.jobs.get(*name)
        if record is not None and words != self._tables.refused.get(record.uid, ""):
            self._tables.note_refusal(record.uid, words)
            self._cache.mark(record.uid)

    async def _try_refused_again(self) -> None:
        while True:
            await asyncio.sleep(REFUSED_PAUSE)
            for uid in sorted(self._tables.refused):
                self._looks.mark(uid)
