"""Performs the steps of an instance's life: notes rounds, removes pods, ends jobs. Decides nothing.

Every write names the uid that it means, and the end of a job also the version that the decision saw: a job that
changed meanwhile is looked at again first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from scaler.clock import Clock
from scaler.decide.life import Expire, Finish, LifeAction, Record, Remove, Resize
from scaler.decide.world import ServiceKey
from scaler.informers.cache import Cache
from scaler.informers.records import JobRecord
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, Object, PatchType
from scaler.kube.writer import Writer
from scaler.state.expectations import Expectations
from scaler.workloads import ascendjob_objects as objects
from scaler.workloads.ascendjob_status import final_patch, replica_statuses
from scaler.workloads.run_policy import rounds_patch


class LifecycleExecutor:
    """Raises errors of the seam: the caller tries again after a pause."""

    def __init__(self, writer: Writer, cache: Cache, expectations: Expectations[ServiceKey], clock: Clock) -> None:
        self._writer = writer
        self._cache = cache
        self._expectations = expectations
        self._clock = clock

    async def perform(self, key: ServiceKey, record: JobRecord, step: LifeAction) -> None:
        match step:
            case Record():
                await self._patch_job(key, record, rounds_patch(record.uid, step.rounds))
            case Remove():
                await self._remove(key, record, step.pods)
                if step.pod_group:
                    await self._remove_pod_group(key, record)
            case Resize():
                await self._resize(key, record)
            case Finish():
                await self._patch_job(key, record, self._final_patch(record, step), subresource="status")
            case Expire():
                await self._writer.delete(
                    ASCEND_JOBS, record.namespace, record.name, uid=record.uid, propagation_policy="Background"
                )
                self._expectations.expect_gone(key, self._cache.jobs, record.namespace, record.name, record.uid)
            case _:
                assert_never(step)

    def _final_patch(self, record: JobRecord, step: Finish) -> dict[str, Any]:
        present = [pod for pod in self._cache.pods_of(record.uid).values() if not pod.terminating]
        replicas = replica_statuses(record.job, {pod.name: pod.phase for pod in present})
        started = min((pod.created for pod in present), default=0.0)
        ending = (step.outcome.value, step.reason.value, step.message)
        return final_patch(record.object, ending, replicas, started, self._clock.timestamp())

    async def _patch_job(
        self, key: ServiceKey, record: JobRecord, patch: dict[str, Any], *, subresource: str = ""
    ) -> None:
        after = await self._writer.patch(
            ASCEND_JOBS, record.namespace, record.name, patch, patch_type=PatchType.MERGE, subresource=subresource
        )
        version = _version(after)
        self._expectations.expect(key, self._cache.jobs, record.namespace, record.name, record.uid, version)

    async def _remove(self, key: ServiceKey, record: JobRecord, names: Sequence[str]) -> None:
        """One after the other: lowered replicas go from the highest index down."""
        owned = self._cache.pods_of(record.uid)
        for pod in [owned[name] for name in names if name in owned]:
            version = pod.resource_version
            await self._writer.delete(PODS, pod.namespace, pod.name, uid=pod.uid, resource_version=version)
            self._expectations.expect_gone(key, self._cache.pods, pod.namespace, pod.name, pod.uid)

    async def _remove_pod_group(self, key: ServiceKey, record: JobRecord) -> None:
        group = self._cache.pod_groups.get(record.namespace, record.job.pod_group)
        if group is not None and group.owner_uid == record.uid:
            await self._writer.delete(POD_GROUPS, group.namespace, group.name, uid=group.uid)
            self._expectations.expect_gone(key, self._cache.pod_groups, group.namespace, group.name, group.uid)

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
        after = await self._writer.patch(POD_GROUPS, group.namespace, group.name, patch, patch_type=PatchType.JSON)
        self._expectations.expect(key, self._cache.pod_groups, group.namespace, group.name, group.uid, _version(after))


def _version(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])
