"""Performs the steps of an instance's life: notes rounds, removes pods, ends jobs. Decides nothing.

Every write names the uid that it means, and the end of a job also the version that the decision saw: a job that
changed meanwhile is looked at again first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from scaler.decide.life import Expire, Finish, LifeAction, Record, Remove, Resize
from scaler.decide.world import ServiceKey
from scaler.execute.writes import ExpectedWrites
from scaler.informers.cache import Cache
from scaler.informers.records import JobRecord
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, Object, PatchType
from scaler.report.job_status import JobStatusWriter, replica_statuses
from scaler.workloads import ascendjob_objects as objects
from scaler.workloads.ascendjob import rounds_patch


class LifecycleExecutor:
    """Raises errors of the seam: the caller tries again after a pause."""

    def __init__(self, writes: ExpectedWrites, cache: Cache, statuses: JobStatusWriter) -> None:
        self._writes = writes
        self._cache = cache
        self._statuses = statuses

    async def perform(self, key: ServiceKey, record: JobRecord, step: LifeAction) -> None:
        match step:
            case Record():
                rounds = rounds_patch(record.uid, step.rounds)
                await self._writes.patch(key, ASCEND_JOBS, record, rounds, PatchType.MERGE)
            case Remove():
                await self._remove(key, record, step.pods)
                if step.pod_group:
                    await self._remove_pod_group(key, record)
            case Resize():
                await self._resize(key, record)
            case Finish():
                self._writes.expect(key, ASCEND_JOBS, await self._finish(record, step))
            case Expire():
                await self._writes.delete(key, ASCEND_JOBS, record, propagation_policy="Background")
            case _:
                assert_never(step)

    async def _finish(self, record: JobRecord, step: Finish) -> Object:
        present = [pod for pod in self._cache.pods_of(record.uid).values() if not pod.terminating]
        replicas = replica_statuses(record.job, {pod.name: pod.phase for pod in present})
        started = min((pod.created for pod in present), default=0.0)
        ending = (step.outcome.value, step.reason.value, step.message)
        return await self._statuses.finish(record.object, ending, replicas, started)

    async def _remove(self, key: ServiceKey, record: JobRecord, names: Sequence[str]) -> None:
        """One after the other: lowered replicas go from the highest index down."""
        owned = self._cache.pods_of(record.uid)
        for pod in [owned[name] for name in names if name in owned]:
            await self._writes.delete(key, PODS, pod, exactly=True)

    async def _remove_pod_group(self, key: ServiceKey, record: JobRecord) -> None:
        group = self._cache.pod_groups.get(record.namespace, record.job.pod_group)
        if group is not None and group.owner_uid == record.uid:
            await self._writes.delete(key, POD_GROUPS, group)

    async def _resize(self, key: ServiceKey, record: JobRecord) -> None:
        """Volcano reads the size of a gang from its PodGroup alone; what else is in it stays."""
        group = self._cache.pod_groups.get(record.namespace, record.job.pod_group)
        if group is None or group.owner_uid != record.uid:
            return
        wanted = objects.pod_group(record.job, record.object)["spec"]
        patch = [{"op": "test", "path": "/metadata/uid", "value": group.uid}]
        patch += [
            {"op": "add", "path": f"/spec/{name}", "value": wanted[name]}
            for name in ("minMember", "minTaskMember", "minResources")
        ]
        await self._writes.patch(key, POD_GROUPS, group, patch, PatchType.JSON)
