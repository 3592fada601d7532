"""What Volcano does with a Job of four pods whose pods are deleted: the same cases for the stand-in
and for Volcano itself.

Each case says what is to be seen of a Volcano before and since 1.13.2; `play` plays it against any
API server where a Volcano works, and kubelets whose containers end with an exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from scaler.kube.api import POD_GROUPS, PODS, KubeApi, Object, PatchType
from scaler.kube.errors import ConflictError, InvalidError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.volcano_jobs import OUT_OF_SYNC, Version, phase_of
from scaler.workloads.volcanojob import JOB_VERSION, MARK, VOLCANO_JOBS
from scaler.workloads.volcanojob_sizes import size_patch
from tests.sim.manifests import template, volcano_job

NAMESPACE = "default"
PODS_OF_JOB = 4
SETTLED = 12.0
"""Seconds after which nothing more comes of a deletion."""
_PATIENCE = 40.0


class Seen(NamedTuple):
    retries: int
    phase: str
    running: int
    least: int
    """minMember of its PodGroup; 0 without one."""


Move = Callable[[KubeApi], Awaitable[None]]


class Case(NamedTuple):
    name: str
    policies: tuple[tuple[str, str], ...]
    """Events and actions."""
    exit_code: int
    move: Move
    before: Seen
    """Until Volcano 1.13.1."""
    since: Seen
    max_retry: int = 5

    def expected(self, version: Version) -> Seen:
        return self.before if version is Version.V1_12 else self.since


async def _pods(api: KubeApi) -> list[Object]:
    found = (await api.list(PODS, NAMESPACE)).items
    return [pod for pod in found if objects.name(pod).startswith("train-")]


async def _note(api: KubeApi, key: str, value: str) -> None:
    for pod in await _pods(api):
        meta = {"uid": objects.uid(pod), "annotations": {key: value}}
        patch = {"metadata": meta}
        await api.patch(PODS, NAMESPACE, objects.name(pod), patch, patch_type=PatchType.MERGE)


async def _mark(api: KubeApi) -> None:
    await _note(api, JOB_VERSION, MARK)


async def _delete(api: KubeApi) -> None:
    for pod in await _pods(api):
        await api.delete(PODS, NAMESPACE, objects.name(pod), uid=objects.uid(pod))


async def _shrink(api: KubeApi) -> None:
    for _ in range(5):
        job = await api.get(VOLCANO_JOBS, NAMESPACE, "train")
        try:
            await api.patch(
                VOLCANO_JOBS, NAMESPACE, "train", size_patch(job, 2), patch_type=PatchType.JSON
            )
        except (ConflictError, InvalidError):
            continue  # its status was written meanwhile
        return


async def _restart(api: KubeApi) -> None:
    await _mark(api)
    await _delete(api)


async def _restart_smaller(api: KubeApi) -> None:
    await _mark(api)
    await _shrink(api)
    await _delete(api)


async def _out_of_sync(api: KubeApi) -> None:
    await _note(api, OUT_OF_SYNC, "true")


EVICTED = (("PodEvicted", "RestartJob"),)
FAILED = (("PodFailed", "RestartJob"),)
COMPLETED = (("TaskCompleted", "CompleteJob"),)
ALL = (*EVICTED, *FAILED, *COMPLETED)
RUNS = Seen(0, "Running", 4, 4)
ONE = Seen(1, "Running", 4, 4)
SMALLER = Seen(0, "Running", 2, 2)
FAILS = Seen(1, "Failed", 0, 0)

CASES = {
    case.name: case
    for case in (
        Case("deleted", EVICTED, 143, _delete, ONE, ONE),
        Case("deleted, exit 143 counts", FAILED, 143, _delete, RUNS, ONE),
        Case("deleted, no restart left", EVICTED, 143, _delete, FAILS, FAILS, max_retry=1),
        Case("marked and deleted, exit 143", ALL, 143, _restart, RUNS, RUNS, max_retry=1),
        Case("smaller", EVICTED, 143, _shrink, Seen(1, *SMALLER[1:]), Seen(1, *SMALLER[1:])),
        Case("marked and smaller", ALL, 143, _restart_smaller, SMALLER, SMALLER, max_retry=1),
        Case("out of sync", ALL, 143, _out_of_sync, RUNS, RUNS, max_retry=1),
    )
}

WITH_EXIT_0 = {
    case.name: case
    for case in (
        Case("deleted", COMPLETED, 0, _delete, RUNS, Seen(0, "Completed", 0, 0)),
        Case("marked and deleted", ALL, 0, _restart, RUNS, RUNS, max_retry=1),
    )
}
"""Of the stand-in alone: not compared with Volcano yet."""


async def play(api: KubeApi, case: Case) -> Seen:
    """What is to be seen of the job in the end. It is deleted then."""
    pod = template(npu=8, terminationGracePeriodSeconds=5)
    policies = [{"event": event, "action": action} for event, action in case.policies]
    job: Any = volcano_job("train", PODS_OF_JOB, pod=pod, policies=policies)
    job["metadata"]["namespace"] = NAMESPACE
    job["spec"] |= {"maxRetry": case.max_retry, "queue": "default"}
    job["spec"]["tasks"][0]["minAvailable"] = PODS_OF_JOB
    await api.create(VOLCANO_JOBS, NAMESPACE, job)
    try:
        await _until(lambda: _runs(api))
        await asyncio.sleep(2)
        await case.move(api)
        await asyncio.sleep(SETTLED)
        return await _seen(api)
    finally:
        await api.delete(VOLCANO_JOBS, NAMESPACE, "train", propagation_policy="Background")
        await _until(lambda: _is_gone(api))


async def _runs(api: KubeApi) -> bool:
    return (await _seen(api)).running == PODS_OF_JOB


async def _is_gone(api: KubeApi) -> bool:
    return not await _pods(api)


async def _until(fits: Callable[[], Awaitable[bool]]) -> None:
    """TimeoutError when it does not come."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            if await fits():
                return
            await asyncio.sleep(0.3)


async def _seen(api: KubeApi) -> Seen:
    job = await api.get(VOLCANO_JOBS, NAMESPACE, "train")
    running = [pod for pod in objects.staying(await _pods(api)) if objects.phase(pod) == "Running"]
    least = 0
    try:
        group = await api.get(POD_GROUPS, NAMESPACE, f"train-{objects.uid(job)}")
        least = int(group["spec"]["minMember"])
    except NotFoundError:
        least = 0
    retries = int(objects.status(job).get("retryCount") or 0)
    return Seen(retries, phase_of(job), len(running), least)
