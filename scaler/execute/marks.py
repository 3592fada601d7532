"""Marks pods of Volcano Jobs before their deletion, so that Volcano counts no restart for it.

    pods to delete -> all marked -> deleted -> Volcano makes them again, and no policy fires
    marked, but not deleted (a crash, a pod that was bound meanwhile) -> the mark is taken off

The mark is an old version of the job (`volcanojob.MARK`). Volcano ignores as well that a marked pod
fails by itself, so no mark stays on a pod that stays. Should a restart be counted all the same,
marks are not trusted any more for that job, and a deletion costs it a restart as far as decisions
know. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog
from msgspec import UNSET

from scaler.clock import loop_time
from scaler.decide.decision import Evict, Plan, Remove, Revoke
from scaler.decide.world import ServiceKey
from scaler.execute.writes import ObjectWriter, gathered, gravest
from scaler.informers.changes import JobChanged
from scaler.informers.pods import PodRecord
from scaler.kube.api import PODS, Object, PatchType
from scaler.kube.errors import KubeError, NotFoundError
from scaler.kube.metadata import Stored
from scaler.names import VERSION_BEFORE
from scaler.state.cluster import ClusterState
from scaler.workloads.volcanojob import JOB_VERSION, MARK

_log = structlog.get_logger(__name__)

COUNTED_WITHIN = 30.0
"""Seconds after the grace period of the pods in which a restart that is counted was counted for
their deletion."""


class _Deleted(NamedTuple):
    """All pods of a job were marked, to be deleted. `restarts`: what Volcano had counted before."""

    restarts: int
    until: float
    """Loop time."""


class Marks:
    """One per process. Raises errors of the seam, but for `on_job`."""

    def __init__(self, writes: ObjectWriter, state: ClusterState) -> None:
        self._writes = writes
        self._state = state
        self._cache = state.cache
        self._deleted: dict[str, _Deleted] = {}
        """By uid of the job."""

    async def mark(
        self, key: ServiceKey, pods: Sequence[PodRecord], *, any_version: bool = False
    ) -> list[Stored]:
        """Mark those of these pods that need it; the pods as they are to be deleted. A pod that is
        gone is left out. After an error none of them may be deleted. `any_version`: also a pod that
        has changed since the decision, and was bound for example."""
        answers = await gathered([self._marked(key, pod, any_version=any_version) for pod in pods])
        errors = [each for each in answers if isinstance(each, KubeError)]
        others = [error for error in errors if not isinstance(error, NotFoundError)]
        if others:
            raise gravest(others)
        self._expect_no_restart(pods)
        return [each for each in answers if isinstance(each, Stored)]

    async def _marked(self, key: ServiceKey, pod: PodRecord, *, any_version: bool) -> Stored:
        if not pod.job_version or pod.marked:
            return pod
        metadata: Object = {
            "uid": pod.uid,
            "annotations": {JOB_VERSION: MARK, VERSION_BEFORE: pod.job_version},
        }
        if not any_version:
            # one that was bound since the decision has another
            metadata["resourceVersion"] = pod.resource_version
        return await self._writes.patch(key, PODS, pod, {"metadata": metadata}, PatchType.MERGE)

    def left(self, plan: Plan) -> list[PodRecord]:
        """The marked pods of the service of which this plan deletes none. A training job is
        restarted to its end instead."""
        if not self._cache.marked:
            return []
        deletes = {each.uid for each in plan.actions if isinstance(each, Revoke | Evict | Remove)}
        pods = list[PodRecord]()
        for uid in self._cache.uids_of(plan.key):
            if uid not in deletes and self._state.instance(plan.key, uid).training is UNSET:
                pods += [pod for pod in self._cache.present_pods(uid) if pod.marked]
        return pods

    async def take_off(self, key: ServiceKey, pod: PodRecord) -> None:
        """Give the pod the version back that it had. One that is gone is no error."""
        patch: Object = {
            "metadata": {
                "uid": pod.uid,
                "annotations": {JOB_VERSION: pod.job_version, VERSION_BEFORE: None},
            }
        }
        with suppress(NotFoundError):
            await self._writes.patch(key, PODS, pod, patch, PatchType.MERGE)

    def _expect_no_restart(self, pods: Sequence[PodRecord]) -> None:
        """Remember what Volcano has counted, where these are all pods of their job: what is counted
        soon is then counted for their deletion."""
        marked = [pod for pod in pods if pod.job_version]
        record = self._cache.job(marked[0].owner_uid) if marked else None
        if record is None or len(marked) != len(self._cache.pods_of(record.uid)):
            return
        now = loop_time()
        longest = max(pod.grace for pod in marked)
        self._deleted = {uid: one for uid, one in self._deleted.items() if one.until > now}
        known = self._deleted.get(record.uid)
        restarts = known.restarts if known is not None else record.job.restarts
        self._deleted[record.uid] = _Deleted(restarts, now + longest + COUNTED_WITHIN)

    def on_job(self, change: JobChanged) -> None:
        """Look whether Volcano has counted a restart all the same."""
        deleted = self._deleted.get(change.uid)
        if deleted is None:
            return
        record = self._cache.job(change.uid)
        if record is None or deleted.until <= loop_time():
            del self._deleted[change.uid]
        elif record.job.restarts > deleted.restarts:
            del self._deleted[change.uid]
            words = "Volcano counted a restart of a job whose pods were marked"
            _log.warning(words, namespace=record.namespace, job=record.name)
            self._state.restart_was_counted(change.uid)
