"""Restarts a training job that is a Volcano Job at a size, and releases it at that size.

    all its pods marked -> size written into the job -> pods deleted, the first one last
    all old pods gone, exactly the pods of the size there and held -> released, each with the size

Each step repeats what a crash has left of it: what is marked, written or deleted already stays as
it is. A restart ends with its last deletion; until then some pod of the job is marked. Pods are
deleted with their own grace period, so that they can save a checkpoint. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from scaler.decide.world import ServiceKey, Size
from scaler.execute.gates import Gates
from scaler.execute.marks import Marks
from scaler.execute.writes import ObjectWriter, all_done
from scaler.informers.cache import Cache
from scaler.informers.jobs import JobRecord
from scaler.informers.pods import PodRecord
from scaler.kube.api import PODS, Object, PatchType
from scaler.kube.errors import ConflictError, InvalidError, NotSentError
from scaler.kube.metadata import Stored
from scaler.kube.writer import Writer
from scaler.workloads.volcanojob import VOLCANO_JOBS
from scaler.workloads.volcanojob_sizes import size_patch, sized_task

TRIES = 5
"""How often the size is sent while the job changes."""


class Restarts:
    """Raises errors of the seam: then the next plan goes on where this one ended."""

    def __init__(
        self, writer: Writer, writes: ObjectWriter, cache: Cache, marks: Marks, gates: Gates
    ) -> None:
        self._writer = writer
        self._writes = writes
        self._cache = cache
        self._marks = marks
        self._gates = gates

    async def restart(self, key: ServiceKey, record: JobRecord, size: int) -> None:
        """Record the size, and delete all pods of the job. What Volcano makes meanwhile is of the
        new size, and stays."""
        job = await self._look_up(record)
        pods = self._cache.present_pods(record.uid)
        marked = await self._marks.mark(key, pods, any_version=True)
        await self._record(record, job, size)
        first = {pod.uid for pod in pods if pod.name == record.job.leader}
        await self._delete(key, [pod for pod in marked if pod.uid not in first])
        await self._delete(key, [pod for pod in marked if pod.uid in first])

    async def _look_up(self, record: JobRecord) -> Object:
        """The job as it is now."""
        job = await self._writer.get(VOLCANO_JOBS, record.namespace, record.name)
        if job["metadata"]["uid"] != record.uid:
            raise NotSentError(f"job {record.name} is another one of that name")
        if sized_task(job) is None:
            raise NotSentError(f"job {record.name} has not one task with NPUs: it has one size")
        return job

    async def _record(self, record: JobRecord, job: Object, size: int) -> None:
        """Write the size into the job, as it was looked up; again where its status was written
        meanwhile, which Volcano does all the time."""
        for _ in range(TRIES):
            patch = size_patch(job, size)
            if not patch:
                return
            try:
                await self._writer.patch(
                    VOLCANO_JOBS, record.namespace, record.name, patch, patch_type=PatchType.JSON
                )
                return
            except (InvalidError, ConflictError):
                found = await self._look_up(record)
                if found["metadata"]["resourceVersion"] == job["metadata"]["resourceVersion"]:
                    raise
                job = found
        raise NotSentError(f"job {record.name} changed {TRIES} times while it was written")

    async def _delete(self, key: ServiceKey, pods: Sequence[Stored]) -> None:
        """In whatever version they are: kubelets write their status all the time."""
        stored = [Stored(pod.namespace, pod.name, pod.uid, "") for pod in pods]
        await all_done([self._writes.delete(key, PODS, pod) for pod in stored])

    async def release(self, key: ServiceKey, record: JobRecord, size: Size) -> None:
        """Take the gates off the pods of this size, and say on each at which size it was
        started."""
        words = self._why_not_released(record, size)
        if words:
            raise NotSentError(words)
        await self._gates.release(key, record.uid, started=size.amount)

    def _why_not_released(self, record: JobRecord, size: Size) -> str:
        """Why the pods of this size cannot be started, in words; "" when they can."""
        pods = self._cache.pods_of(record.uid)
        wanted = set(record.job.pods)
        if len(wanted) != size.pods:
            return f"the job has {len(wanted)} pods now, and not {size.pods}"
        for name, pod in sorted(pods.items()):
            if pod.terminating and name in wanted:
                return f"pod {name} of the last start has not ended yet"
            if not pod.terminating and name not in wanted:
                return f"pod {name} is not deleted yet: the job has fewer now"
            if not pod.terminating and not _may_start(pod, size.amount):
                return f"pod {name} of the last start is not deleted yet"
        missing = sorted(wanted - pods.keys())
        return f"Volcano has not made pod {missing[0]} yet" if missing else ""


def _may_start(pod: PodRecord, size: int) -> bool:
    """Whether the pod is held, or was released at this size already."""
    return not pod.marked and (pod.gated or pod.started_size == size)
