"""How Ascend Operator keeps rank tables; the text of a completed one is what ranktables.table makes of the pods.

Its weaknesses are kept: a table that comes late is never filled, a withdrawn one keeps its old servers, and `version`
is the time of the write before. Must not: read tables back, or look at pods of other jobs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from scaler.clock import Clock
from scaler.informers.pods import read_pod
from scaler.kube.api import CONFIG_MAPS, KubeApi, Object
from scaler.kube.errors import KubeError, NotFoundError
from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX, RANK_TABLE_VERSION_KEY
from scaler.ranktables.table import Status, rank_table
from scaler.ranktables.tables import member_of
from scaler.sim.actors import objects
from scaler.workloads.ascendjob import read_job


class _Generator(msgspec.Struct):
    """One job's table, in memory only."""

    completed: bool = False
    pods: frozenset[str] = frozenset()
    """Uids of the pods that the last completed table was made of."""
    text: str = ""
    saved: int = 0
    absent: bool = False
    """The ConfigMap was not there when it was first read; it is never read again."""


class OperatorTables:
    """One process of it: what it knows is gone when it ends."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._generators: dict[str, _Generator] = {}

    async def keep(self, job: Object, pods: Sequence[Object]) -> None:
        """Write the table of `job` if its pods' chips are another set than before; a failed write is forgotten."""
        generator = self._generators.setdefault(objects.uid(job), _Generator())
        table = rank_table(read_job(job), job, [member_of(read_pod(pod)) for pod in pods])
        uids = frozenset(objects.uid(pod) for pod in pods)
        if table.status is Status.COMPLETED and uids != generator.pods:
            generator.pods, generator.completed, generator.text = uids, True, table.text
            await self._save(job, generator)
        elif table.status is not Status.COMPLETED and generator.completed:
            generator.pods, generator.completed = frozenset(), False
            generator.text = json.dumps({**json.loads(generator.text), "status": Status.INITIALIZING.value})
            await self._save(job, generator)

    async def _save(self, job: Object, generator: _Generator) -> None:
        if generator.absent:
            return
        place = objects.namespace(job), RANK_TABLE_PREFIX + objects.name(job)
        try:
            found = await self._api.get(CONFIG_MAPS, *place)
            data = {RANK_TABLE_KEY: generator.text, RANK_TABLE_VERSION_KEY: str(generator.saved)}
            body = {**found, "data": {**(found.get("data") or {}), **data}}
            await self._api.replace(CONFIG_MAPS, *place, body)
        except NotFoundError:
            generator.absent = generator.saved == 0
        except KubeError:
            return
        generator.saved = int(self._clock.now())
