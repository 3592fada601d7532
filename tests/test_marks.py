"""Volcano counts no restart for pods that the scaler deletes: they are marked before, and no mark
stays on a pod that stays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scaler.informers.changes import Changes, JobChanged
from scaler.kube.api import ELASTIC_SERVICES, PODS, Object, PatchType
from scaler.kube.errors import NotSentError
from scaler.names import GATE, VERSION_BEFORE
from scaler.sim.actors import objects
from scaler.sim.actors.faulty_api import Curse, Curses, Never
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, NodeFate
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.volcano_jobs import PodEvent, Version, VolcanoJobs, phase_of
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from scaler.state.cluster import ClusterState
from scaler.workloads.volcanojob import JOB_VERSION, MARK, VOLCANO_JOBS
from tests.jobs import NAMESPACE, rule_config_map
from tests.rig import Rig, at_work, controller
from tests.sim.manifests import template, volcano_job

QUICK = KubeletTimings(start=(1.0, 1.0), ready=(1.0, 1.0), stop=(1.0, 1.0))
ENDS_IT = {"maxRetry": 1, "policies": [{"event": "*", "action": "RestartJob"}]}
"""The first restart that Volcano counts ends the job."""
VERSIONS = pytest.mark.parametrize("version", list(Version))


def instance(name: str, group: str, **spec: Any) -> Object:
    labels = {"mind-cluster/scaling-rule": "rule", "mind-cluster/group-name": group}
    pod = template(npu=8, labels=labels | {"jobID": "mindie"}, schedulingGates=[{"name": GATE}])
    return volcano_job(name, 1, pod=pod, **spec)


def service(**spec: Any) -> list[Object]:
    return [
        rule_config_map(),
        instance("p0", "group0", **spec),
        instance("p1", "group0", **spec),
        instance("d0", "group1"),
    ]


class CountsThemAll(VolcanoJobs):
    """A Volcano that does not know what the mark means."""

    def _note_event(self, resource: Any, before: Object | None, after: Object | None) -> None:
        super()._note_event(resource, before, after)
        for uid, events in self._events.items():
            self._events[uid] = [
                PodEvent(event.kind, event.task, event.pod, max(event.version, 9))
                for event in events
            ]


@asynccontextmanager
async def volcano(
    *jobs: Object,
    version: Version,
    kind: type[VolcanoJobs] = VolcanoJobs,
    never: Iterable[str] = (),
) -> AsyncIterator[Rig]:
    """Three nodes, Volcano and kubelets; `never`: jobs whose pods are never bound."""
    on = Rig()
    on.nodes("n0", "n1", "n2")
    on.apply(*jobs)
    curses = [Curse(of=f"{NAMESPACE}/{name}*", never=Never.BOUND) for name in never]
    scheduler = GangScheduler(on.cluster, cursed=Curses(curses))
    kubelet = Kubelet(on.cluster, on.clock, timings=QUICK)
    async with at_work(kind(on.cluster, version).run(), scheduler.run(), kubelet.run()):
        yield on


def job_of(on: Rig, name: str) -> Object:
    (job,) = [job for job in on.cluster.peek(VOLCANO_JOBS) if objects.name(job) == name]
    return job


def retries(on: Rig) -> dict[str, int]:
    return {
        objects.name(job): objects.status(job).get("retryCount", 0)
        for job in on.cluster.peek(VOLCANO_JOBS)
    }


def bound(on: Rig) -> set[str]:
    return {name for name, node in on.nodes_by_pod().items() if node}


def marked(on: Rig) -> set[str]:
    found = set()
    for pod in on.cluster.peek(PODS, NAMESPACE):
        notes = objects.annotations_of(pod)
        if notes[JOB_VERSION] == MARK or VERSION_BEFORE in notes:
            found.add(objects.name(pod))
    return found


async def lose_node_of(on: Rig, name: str) -> None:
    await on.node(on.nodes_by_pod()[name], NodeFate.GONE)
    await on.cluster.delete(PODS, NAMESPACE, name, grace_period_seconds=0)


async def want(on: Rig, replicas: int) -> None:
    await on.cluster.patch(
        ELASTIC_SERVICES,
        NAMESPACE,
        "rule-mindie",
        {"spec": {"replicas": replicas}},
        patch_type=PatchType.MERGE,
    )


@VERSIONS
def test_a_revocation_costs_a_volcano_job_no_restart(version: Version) -> None:
    async def story() -> None:
        async with volcano(*service(**ENDS_IT), version=version, never=["p1"]) as on:
            async with controller(on):
                await on.settle(10)
                assert on.reason("p1") == "WaitingForScheduler"
                await lose_node_of(on, "d0-server-0")
                await on.settle(1)
                assert objects.gated(on.pod_object("p1-server-0"))
                await on.settle(10)
            assert retries(on) == {"p0": 0, "p1": 0, "d0": 0}
            assert {phase_of(job_of(on, name)) for name in ("p0", "d0")} == {"Running"}
            assert phase_of(job_of(on, "p1")) == "Pending"
            assert marked(on) == set()

    run(story())


@VERSIONS
def test_a_scale_down_costs_a_volcano_job_no_restart(version: Version) -> None:
    async def story() -> None:
        async with volcano(*service(**ENDS_IT), version=version) as on:
            async with controller(on):
                await on.settle(15)
                await want(on, 2)
                await on.settle(15)
                assert bound(on) == {"d0-server-0", "p0-server-0"}
                assert objects.gated(on.pod_object("p1-server-0"))
                await want(on, 3)
                await on.settle(15)
            assert len(bound(on)) == 3
            assert retries(on) == {"p0": 0, "p1": 0, "d0": 0}

    run(story())


class DiesAfter(Interceptor):
    """The process dies after so many writes to pods of this job: nothing is sent any more."""

    def __init__(self, name: str, writes: int) -> None:
        self._name = name
        self._left = writes

    async def before(self, request: Request) -> None:
        of_job = request.resource == PODS and request.name.startswith(self._name)
        if of_job and request.verb in ("patch", "delete"):
            if self._left == 0:
                raise NotSentError("dead")
            self._left -= 1


@pytest.mark.parametrize(
    ("version", "writes"), [(Version.V1_12, 1), (Version.V1_12, 3), (Version.V1_16, 2)]
)
def test_after_a_crash_an_eviction_is_completed_or_its_marks_are_taken_off(
    version: Version, writes: int
) -> None:
    """Two pods: mark, mark, delete, delete. The next leader still wants fewer instances, or not."""

    async def story(*, still: bool) -> None:
        jobs = service(**ENDS_IT)
        jobs[2]["spec"]["tasks"][0]["replicas"] = 2
        jobs[2]["spec"]["minAvailable"] = 2
        async with volcano(*jobs, version=version) as on:
            on.nodes("n3")
            async with controller(on):
                await on.settle(15)
                assert len(bound(on)) == 4
            async with controller(on, interceptor=DiesAfter("p1", writes), name="dies"):
                await want(on, 2)
                await on.settle(5)
                assert marked(on)
            if not still:
                await want(on, 3)
            async with controller(on):
                await on.settle(30)
            assert marked(on) == set()
            assert bound(on) == {
                f"{name}-server-{index}"
                for name, size in (("p0", 1), ("p1", 2), ("d0", 1))
                for index in range(size)
                if name != "p1" or not still
            }
            assert retries(on) == {"p0": 0, "p1": 0, "d0": 0}

    run(story(still=True))
    run(story(still=False))


class BindsFirst(Interceptor):
    """The scheduler binds a pod just before its mark arrives."""

    def __init__(self, on: Rig, name: str) -> None:
        self._on = on
        self._name = name
        self.done = False

    async def before(self, request: Request) -> None:
        is_mark = request.verb == "patch" and MARK in str(request.body)
        if request.name == self._name and is_mark and not self.done:
            self.done = True
            await self._on.bind(self._on.pod_object(self._name), "n2")
            self._on.nodes("n4")  # so that nobody has to be evicted for d0


def test_where_a_pod_was_bound_meanwhile_none_is_deleted_and_no_mark_stays() -> None:
    """3.7: only the version that the decision saw is marked, and only what is marked is deleted."""

    async def story() -> None:
        jobs = service(**ENDS_IT)
        jobs[2]["spec"]["tasks"][0]["replicas"] = 2
        jobs[2]["spec"]["minAvailable"] = 2
        async with volcano(*jobs, version=Version.V1_16, never=["p1"]) as on:
            on.nodes("n3")
            first = BindsFirst(on, "p1-server-1")
            async with controller(on, interceptor=first):
                await on.settle(10)
                pods = on.pods_of("p1")
                await lose_node_of(on, "d0-server-0")
                await on.settle(10)
                assert first.done
                assert [objects.uid(pod) for pod in on.pods_of("p1")] == [
                    objects.uid(pod) for pod in pods
                ]
            assert marked(on) == set()

    run(story())


def test_a_mark_of_others_is_left_alone() -> None:
    async def story() -> None:
        async with volcano(*service(), version=Version.V1_16) as on:
            async with controller(on):
                await on.settle(15)
                theirs = {"metadata": {"annotations": {JOB_VERSION: MARK}}}
                await on.cluster.patch(
                    PODS, NAMESPACE, "p0-server-0", theirs, patch_type=PatchType.MERGE
                )
                await on.settle(10)
            assert marked(on) == {"p0-server-0"}

    run(story())


def test_a_restart_that_is_counted_all_the_same_is_told_and_paid() -> None:
    """3.5: then a deletion of this job needs the budget again, for the rest of the process's life.
    Other jobs are deleted as before: it may have been the fault of one tenant."""

    async def story() -> None:
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        jobs = service(maxRetry=3, policies=policies)
        async with volcano(*jobs, version=Version.V1_16, kind=CountsThemAll) as on:
            async with controller(on):
                await on.settle(15)
                await want(on, 2)
                await on.settle(10)
                assert retries(on) == {"p0": 0, "p1": 1, "d0": 0}
                assert ("p1", "RestartWasCounted") in on.events()
                await want(on, 3)
                await on.settle(20)
                assert len(bound(on)) == 3
                await want(on, 2)
                await on.settle(20)
                assert retries(on) == {"p0": 1, "p1": 1, "d0": 0}  # p1 keeps 2 for faults
                await want(on, 3)
                await on.settle(20)
                await want(on, 2)
                await on.settle(20)
                assert len(bound(on)) == 3  # now p0 does so too
            async with controller(on):
                await on.settle(20)
            assert len(bound(on)) == 2

    run(story())


def test_what_was_counted_of_a_job_is_forgotten_with_it() -> None:
    changes = Changes()
    state = ClusterState(changes, lambda: 0.0)
    state.restart_was_counted("uid-of-p1")
    assert state.situation.counted == {"uid-of-p1"}

    state.on_job(JobChanged("uid-of-p1"))

    assert state.situation.counted == frozenset()
