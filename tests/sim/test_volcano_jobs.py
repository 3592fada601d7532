"""The stand-in for Volcano's job controller: what its pods carry, when they come, and what its
policies do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler.kube.api import POD_GROUPS, PODS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, exit_pod
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.volcano_jobs import Version, VolcanoJobs, phase_of
from scaler.sim.loop import run
from scaler.workloads.volcanojob import VOLCANO_JOBS
from tests.rig import Rig, at_work
from tests.sim.manifests import template, volcano_job
from tests.volcano_cases import CASES, WITH_EXIT_0, Case, play

QUICK = KubeletTimings(start=(1.0, 1.0), ready=(1.0, 1.0), stop=(1.0, 1.0))


def everybody(on: Rig) -> list[Any]:
    api = on.cluster
    return [VolcanoJobs(api), GangScheduler(api), Kubelet(api, on.clock, timings=QUICK)]


def policy(event: str, action: str) -> Object:
    return {"policies": [{"event": event, "action": action}]}


def versions(on: Rig) -> dict[str, str]:
    pods = on.cluster.peek(PODS)
    return {
        objects.name(pod): objects.annotations_of(pod)["volcano.sh/job-version"] for pod in pods
    }


def job_phase(on: Rig) -> str:
    (job,) = on.cluster.peek(VOLCANO_JOBS)
    return phase_of(job)


def test_the_pod_group_comes_first_and_pods_once_there_is_room() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([volcano_job()])

        async def script() -> None:
            await asyncio.sleep(5)
            assert on.nodes_by_pod() == {}
            on.nodes("n0", "n1")

        await on.play(15, *everybody(on), script=script())
        (job,) = on.cluster.peek(VOLCANO_JOBS)
        (group,) = on.cluster.peek(POD_GROUPS)
        assert objects.name(group) == f"infer-{objects.uid(job)}"
        assert (group["spec"]["minMember"], group["spec"]["queue"], phase_of(job)) == (
            2,
            "default",
            "Running",
        )
        assert on.nodes_by_pod() == {"infer-server-0": "n0", "infer-server-1": "n1"}

    run(main())


def test_pods_are_labelled_as_the_reference_says() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        made = volcano_job(
            tasks={"leader": 1, "server": 1}, pod=template(npu=8, labels={"app": "infer"})
        )
        on.cluster.apply([made])
        await on.play(10, *everybody(on))
        pod = on.pod_object("infer-server-0")
        assert objects.labels_of(pod) == {
            "app": "infer",
            "volcano.sh/job-name": "infer",
            "volcano.sh/job-namespace": "default",
            "volcano.sh/task-spec": "server",
            "volcano.sh/task-index": "0",
            "volcano.sh/queue-name": "default",
        }
        assert objects.annotations_of(pod)[objects.GROUP_NAME] == f"infer-{objects.owner_uid(pod)}"
        assert objects.annotations_of(pod)["volcano.sh/job-version"] == "0"

    run(main())


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({}, {"infer-server-0": "0", "infer-server-1": "0"}),
        (policy("PodEvicted", "RestartJob"), {"infer-server-0": "1", "infer-server-1": "1"}),
        (policy("*", "RestartTask"), {"infer-server-0": "1", "infer-server-1": "1"}),
        (policy("PodEvicted", "RestartPod"), {"infer-server-0": "1", "infer-server-1": "0"}),
        (policy("PodFailed", "RestartJob"), {"infer-server-0": "0", "infer-server-1": "0"}),
    ],
    ids=["none", "job", "task", "pod", "another event"],
)
def test_a_pod_that_is_deleted_comes_back_as_the_policy_says(
    policies: Object, expected: dict[str, str]
) -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        on.cluster.apply([volcano_job(**policies)])

        async def evict() -> None:
            await asyncio.sleep(10)
            await on.cluster.delete(PODS, "default", "infer-server-0")

        await on.play(40, *everybody(on), script=evict())
        assert versions(on) == expected
        assert (set(on.phases().values()), job_phase(on)) == ({"Running"}, "Running")

    run(main())


def test_a_held_pod_that_is_deleted_counts_like_any_other() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        held = template(npu=8, schedulingGates=[{"name": "hold"}])
        on.cluster.apply([volcano_job(pod=held, **policy("PodEvicted", "RestartJob"))])

        async def evict() -> None:
            await asyncio.sleep(10)
            await on.cluster.delete(PODS, "default", "infer-server-0")

        await on.play(30, *everybody(on), script=evict())
        assert set(versions(on).values()) == {"1"}

    run(main())


def test_after_so_many_restarts_the_job_has_failed() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        pod = template(npu=8, restartPolicy="Never")
        on.cluster.apply([volcano_job(pod=pod, maxRetry=2, **policy("PodFailed", "RestartJob"))])

        async def crash() -> None:
            for _ in range(2):
                await asyncio.sleep(15)
                await exit_pod(
                    on.cluster, on.pod_object("infer-server-0"), now=on.clock.now(), code=1
                )

        await on.play(60, *everybody(on), script=crash())
        assert (job_phase(on), on.nodes_by_pod()) == ("Failed", {})

    run(main())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", list(Version))
def test_it_does_what_volcano_does(version: Version, name: str) -> None:
    """With Volcano itself: tests/control_plane/test_volcano_jobs.py."""
    _play(version, CASES[name])


@pytest.mark.parametrize("name", WITH_EXIT_0)
@pytest.mark.parametrize("version", list(Version))
def test_what_it_does_when_all_pods_end_well(version: Version, name: str) -> None:
    _play(version, WITH_EXIT_0[name])


def _play(version: Version, case: Case) -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1", "n2", "n3")
        api = on.cluster
        kubelet = Kubelet(api, on.clock, timings=QUICK, exit_code=case.exit_code)
        actors = [VolcanoJobs(api, version), GangScheduler(api), kubelet, GarbageCollector(api)]
        async with at_work(*(actor.run() for actor in actors)):
            assert await play(api, case) == case.expected(version)

    run(main())


def test_a_task_that_shrinks_loses_its_highest_pods() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1", "n2")
        on.cluster.apply([volcano_job(replicas=3, minAvailable=1)])

        async def shrink() -> None:
            await asyncio.sleep(10)
            patch = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 1}]
            await on.cluster.patch(
                VOLCANO_JOBS, "default", "infer", patch, patch_type=PatchType.JSON
            )

        await on.play(20, *everybody(on), script=shrink())
        assert set(on.nodes_by_pod()) == {"infer-server-0"}

    run(main())


def test_a_task_that_depends_on_another_comes_when_that_one_is_ready() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        job = volcano_job(tasks={"leader": 1, "server": 1}, pod=template(npu=8))
        job["spec"]["minAvailable"] = 1
        job["spec"]["tasks"][1]["dependsOn"] = {"name": ["leader"]}
        on.cluster.apply([job])
        seen: list[set[str]] = []

        async def script() -> None:
            for _ in range(3):
                await asyncio.sleep(2)
                seen.append(set(on.nodes_by_pod()))

        slow = KubeletTimings(start=(1.0, 1.0), ready=(4.0, 4.0), stop=(1.0, 1.0))
        actors = [*everybody(on)[:2], Kubelet(on.cluster, on.clock, timings=slow)]
        await on.play(30, *actors, script=script())
        assert seen[-1] == {"infer-leader-0"}
        assert set(on.nodes_by_pod()) == {"infer-leader-0", "infer-server-0"}

    run(main())
