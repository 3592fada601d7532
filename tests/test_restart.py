"""A training job is restarted at a size: marked, written, deleted, released. Whatever write the
process dies after, the next one ends at one size, and Volcano counts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from scaler.app import App
from scaler.decide.world import ServiceKey, Size
from scaler.informers.jobs import JobRecord
from scaler.kube.api import POD_GROUPS, PODS, Object
from scaler.kube.errors import KubeError, NotSentError
from scaler.names import GATE, STARTED_SIZE
from scaler.settings import Settings
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import Kubelet, KubeletTimings
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.volcano_jobs import Version, VolcanoJobs, phase_of
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from scaler.workloads.volcanojob import MARK, VOLCANO_JOBS
from scaler.workloads.volcanojob_sizes import sized_task
from tests.jobs import NAMESPACE
from tests.rig import Rig, at_work
from tests.sim.manifests import template, volcano_job
from tests.workloads.pods import LABELS

FULL = 4
QUICK = KubeletTimings(start=(0.5, 0.5), ready=(0.0, 0.0), stop=(2.0, 2.0))
UNFORGIVING = {
    "maxRetry": 1,
    "policies": [
        {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"},
        {"event": "TaskCompleted", "action": "CompleteJob"},
    ],
}
KEY = ServiceKey(NAMESPACE, "", "vcjob/train")


def training_job(replicas: int = FULL, **spec: Any) -> Object:
    pod = template(npu=8, labels=LABELS, schedulingGates=[{"name": GATE}])
    job = volcano_job("train", replicas, pod=pod, **UNFORGIVING, **spec)
    job["spec"]["tasks"][0]["minAvailable"] = replicas
    return job


class DiesAfter(Interceptor):
    """The process dies after so many writes: nothing is sent any more."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    async def before(self, request: Request) -> None:
        if request.verb in ("patch", "delete"):
            if self.left == 0:
                raise NotSentError("dead")
            self.left -= 1
            assert "gracePeriodSeconds" not in str(request.body)


class Life:
    """One process that wants the job to run at a size, with the cache and the executor of the
    scaler. It stands in for the decision."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._cache = app.cache
        self._restarts = app.controller.executor.restarts

    @property
    def record(self) -> JobRecord:
        (record,) = self._cache.volcano_jobs.values()
        return record

    async def _release(self, size: int) -> None:
        try:
            await self._restarts.release(KEY, self.record, Size(str(size), size, size, ()))
        except NotSentError as error:
            if "dead" in str(error):
                raise

    async def pursue(self, size: int, old: frozenset[str] = frozenset()) -> None:
        """Do what is next, until all pods run at the size, and none of the old ones, by uid."""
        while True:
            await asyncio.sleep(0.3)
            pods = self._cache.present_pods(self.record.uid)
            released = [pod for pod in pods if not pod.gated]
            of_another = [pod for pod in released if pod.started_size != size or pod.uid in old]
            begun = any(pod.marked for pod in pods) or len(self.record.job.pods) != size
            if of_another or begun:
                await self._restarts.restart(KEY, self.record, size)
            elif len(released) < size:
                await self._release(size)
            elif all(pod.phase == "Running" for pod in released):
                return


@asynccontextmanager
async def life(on: Rig, interceptor: Interceptor | None = None) -> AsyncIterator[Life]:
    settings = Settings(leader_election=False, http_port=0)
    app = App(on.cluster.client("scaler", interceptor), settings, on.clock, seed=0)
    informers = [app.informers[resource] for resource in (PODS, VOLCANO_JOBS, POD_GROUPS)]
    async with at_work(*(informer.run() for informer in informers)):
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        yield Life(app)


def sizes_that_run(on: Rig) -> set[str]:
    """Of the pods that are released, not deleted and not about to be."""
    found = set()
    for pod in on.cluster.peek(PODS, NAMESPACE):
        notes = objects.annotations_of(pod)
        about_to_go = objects.terminating(pod) or notes["volcano.sh/job-version"] == MARK
        if not objects.gated(pod) and not about_to_go:
            found.add(notes[STARTED_SIZE])
    return found


async def play(version: Version, exit_code: int, before: int, after: int, writes: int) -> bool:
    """From one size to another, and a process that dies after so many writes; whether it did."""
    on = Rig()
    on.nodes(*(f"n{index}" for index in range(FULL)))
    on.apply(training_job())
    kubelet = Kubelet(on.cluster, on.clock, timings=QUICK, exit_code=exit_code)
    volcano = VolcanoJobs(on.cluster, version)
    mixed = []

    def watch(_change: object) -> None:
        if len(sizes_that_run(on)) > 1:
            mixed.append(sizes_that_run(on))

    async with at_work(volcano.run(), GangScheduler(on.cluster).run(), kubelet.run()):
        await asyncio.sleep(2)
        async with life(on) as first:
            await first.pursue(before)
        old = frozenset(objects.uid(pod) for pod in on.cluster.peek(PODS, NAMESPACE))
        on.cluster.observe(watch)
        mortal = DiesAfter(writes)
        async with life(on, mortal) as second:
            with suppress(KubeError):
                await second.pursue(after, old)
        async with life(on) as third:
            await third.pursue(after, old)
        await asyncio.sleep(1)
    (job,) = on.cluster.peek(VOLCANO_JOBS)
    pods = on.cluster.peek(PODS, NAMESPACE)
    assert objects.status(job).get("retryCount", 0) == 0
    assert phase_of(job) == "Running"
    assert len(pods) == after
    assert {objects.annotations_of(pod)[STARTED_SIZE] for pod in pods} == {str(after)}
    assert mixed == []
    task = sized_task(job)
    assert task is not None
    assert (task.recorded, task.full) == (after, FULL)
    assert job["spec"]["minAvailable"] == job["spec"]["tasks"][0]["minAvailable"] == after
    return mortal.left == 0


@pytest.mark.parametrize(
    ("version", "exit_code", "before", "after"),
    [
        (Version.V1_16, 143, 4, 2),
        (Version.V1_12, 0, 2, 4),
    ],
)
def test_whatever_write_a_restart_dies_after_the_job_runs_at_one_size(
    version: Version, exit_code: int, before: int, after: int
) -> None:
    writes = 0
    while run(asyncio.wait_for(play(version, exit_code, before, after, writes), 300)):
        writes += 1
    assert writes >= 2 * before + after  # marks and deletions, and releases
