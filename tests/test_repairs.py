"""The whole controller against what people, webhooks and the API server do to the objects of an
instance."""

from __future__ import annotations

from collections import Counter

import pytest
from structlog.testing import capture_logs

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    EVENTS,
    POD_GROUPS,
    PODS,
    SERVICES,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, TooManyRequestsError
from scaler.kube.outbox import PARALLEL_OF_ONE
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.loop import run
from scaler.workloads import ascendjob_objects as objects
from scaler.workloads.membership import Job
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import Rig, rig

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))


class RefuseWorkers(Interceptor):
    """A quota with room for leaders only."""

    refused = 0

    async def before(self, request: Request) -> None:
        if (
            request.verb == "create"
            and request.resource is PODS
            and "worker" in request.body["metadata"]["name"]
        ):
            self.refused += 1
            raise ForbiddenError(403, "Forbidden", "exceeded quota")


class RefuseLater(RefuseWorkers):
    """A quota that is full from some moment on."""

    full = False

    async def before(self, request: Request) -> None:
        if self.full:
            await super().before(request)


class BindAtOnce(RefuseWorkers):
    """And a scheduler that has bound the leader by the time that the worker is refused."""

    on: Rig

    async def before(self, request: Request) -> None:
        if (
            request.verb == "create"
            and request.resource is PODS
            and "worker" in request.body["metadata"]["name"]
        ):
            (leader,) = self.on.pods_of("p0")
            if not leader["spec"].get("nodeName"):
                await self.on.bind(leader)
        await super().before(request)


class ForeignGate(Interceptor):
    """A webhook that puts a scheduling gate of its own on every pod."""

    async def before(self, request: Request) -> None:
        if request.verb == "create" and request.resource is PODS:
            request.body["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]


async def delete_belongings(on: Rig, name: str) -> None:
    """Delete the PodGroup and the Service of a job."""
    for group in on.cluster.peek(POD_GROUPS, NAMESPACE):
        if group["metadata"]["ownerReferences"][0]["name"] == name:
            await on.cluster.delete(POD_GROUPS, NAMESPACE, group["metadata"]["name"])
    await on.cluster.delete(SERVICES, NAMESPACE, f"{name}-master-0")
    await on.settle()


@pytest.mark.parametrize("started", [(), ("p0", "d0")])
def test_a_pod_group_and_a_service_that_somebody_deletes_are_made_again(
    started: tuple[str, ...],
) -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0")) as on:
            await on.start(*started)
            await delete_belongings(on, "p0")
            assert on.with_pod_group() == {"p0", "d0"}
            assert on.services() == {"p0-master-0", "d0-master-0"}

    run(story())


def test_the_pod_group_of_a_job_without_a_rule_is_made_again_too() -> None:
    async def story() -> None:
        async with rig(job("controller", rule=None)) as on:
            await on.start("controller")
            await delete_belongings(on, "controller")
            assert on.with_pod_group() == {"controller"}

    run(story())


def test_a_job_applied_again_starts_the_moment_the_last_service_of_its_predecessor_is_gone() -> (
    None
):
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "p0")
            on.apply(job("p0"))
            await on.kill("p0")
            await on.settle(10)
            assert on.words("p0").startswith("Created NameTaken: Service p0-master-0")
            await on.cluster.delete(SERVICES, NAMESPACE, "p0-master-0")
            await on.settle()
            assert on.reason("p0") in ("WaitingForScheduler", "WaitingForRatio")

    run(story())


def test_an_edit_that_makes_a_running_job_unusable_takes_nothing_from_it() -> None:
    async def story() -> None:
        async with rig(*SERVICE, job("p2")) as on:
            await on.start("p0", "d0")
            await on.start("p1")
            two_leaders = {"spec": {"replicaSpecs": {"Master": {"replicas": 2}}}}
            await on.cluster.patch(
                ASCEND_JOBS, NAMESPACE, "p0", two_leaders, patch_type=PatchType.MERGE
            )
            await on.settle(5)
            assert on.with_pods() == on.with_pod_group() == {"p0", "p1", "d0"}
            assert (on.reason("p0"), on.reason("p2")) == ("Running", "NotInRatio")

    run(story())


def test_a_pod_that_was_bound_before_the_rest_was_refused_is_not_deleted() -> None:
    async def story() -> None:
        scheduler = BindAtOnce()
        async with rig(interceptor=scheduler) as on:
            scheduler.on = on
            on.apply(rule_config_map(), job("p0", pods=2), job("d0"))
            await on.settle(1)
            assert [pod["spec"]["nodeName"] for pod in on.pods_of("p0")] == ["node-0"]
            assert "deletionTimestamp" not in on.pods_of("p0")[0]["metadata"]
            assert "p0" in on.with_pod_group()

    run(story())


def test_what_is_refused_again_and_again_is_told_once() -> None:
    async def story() -> None:
        quota = RefuseWorkers()
        async with rig(rule_config_map(), job("p0", pods=2), job("d0"), interceptor=quota) as on:
            await on.settle(60)
            before = quota.refused
            told = Counter(on.writes())
            await on.settle(3600)
            assert quota.refused > before
            again = Counter(on.writes()) - told
            assert {write.split()[1] for write in again} == {"podgroups", "services", "pods"}
            assert on.words("p0").startswith(
                "Created CreateRefused: Its creation was refused: exceeded"
            )

    run(story())


def test_what_waits_for_its_next_try_is_no_missed_event() -> None:
    async def story() -> None:
        quota = RefuseLater()
        async with rig(rule_config_map(), job("p0", pods=2), job("d0"), interceptor=quota) as on:
            await on.start("p0", "d0")
            quota.full = True
            await on.cluster.delete(PODS, NAMESPACE, "p0-worker-0", grace_period_seconds=0)
            with capture_logs() as logs:
                await on.settle(3600)
        assert quota.refused > 100
        assert [line for line in logs if line["event"] == "missed event"] == []

    run(story())


def test_a_job_that_names_a_replica_type_twice_is_refused_and_the_others_are_served() -> None:
    twice = job("p0")
    twice["spec"]["replicaSpecs"]["master"] = {"replicas": 1}

    async def story() -> None:
        async with rig(rule_config_map(), twice, job("p1"), job("d0")) as on:
            assert on.with_pods() == {"p1", "d0"}
            assert 'has "master", which is no replica type' in on.words("p0")

    run(story())


def test_a_job_of_a_shape_that_nobody_thought_of_is_refused_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = objects.pods

    def fails_for_p0(record: Job, *rest: object) -> object:
        if record.name == "p0":
            raise KeyError("surprise")
        return made(record, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(objects, "pods", fails_for_p0)

    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("p1"), job("d0")) as on:
            await on.settle(2)
            assert on.with_pods() == {"p1", "d0"}
            assert "surprise" in str([event["message"] for event in on.cluster.peek(EVENTS)])

    run(story())


def test_a_foreign_gate_holds_the_pods_back_and_not_their_slot() -> None:
    async def story() -> None:
        async with rig(interceptor=ForeignGate()) as on:
            on.apply(*SERVICE)
            await on.settle()
            decided = len(on.decisions)
            await on.settle(3600)
            assert len(on.decisions) == decided
            assert on.reason("p0") == "WaitingForScheduler"
            assert on.decisions[-1][1].groups["group0"].in_flight == 1

    run(story())


@pytest.mark.parametrize(
    ("resource", "name"),
    [(ELASTIC_SERVICES, "rule-mindie"), (CONFIG_MAPS, "mindie.rule-scaler-last-valid")],
)
def test_what_somebody_deletes_of_the_scalers_own_comes_back(resource: Resource, name: str) -> None:
    async def story() -> None:
        async with rig(rule_config_map(), job("p0"), job("d0"), lease_namespace=NAMESPACE) as on:
            await on.settle(3)
            was = await on.cluster.get(resource, NAMESPACE, name)
            await on.cluster.delete(resource, NAMESPACE, name)
            await on.settle(3)
            there = await on.cluster.get(resource, NAMESPACE, name)
            assert [there.get(part) for part in ("status", "data")] == [
                was.get(part) for part in ("status", "data")
            ]
            before = len(on.cluster.audit)
            await on.settle(100)
            assert len(on.cluster.audit) == before

    run(story())


class AskForAMinute(Interceptor):
    """Every write is answered with a pause of a minute; notes who was asked for what."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def before(self, request: Request) -> None:
        if request.verb not in ("get", "list", "watch"):
            self.asked[f"{request.verb} {request.resource.plural}"] += 1
            raise TooManyRequestsError(429, "TooManyRequests", "slow down", retry_after=60.0)


IN_FLIGHT = {
    "create podgroups": 2,
    "create events": 1,
    "patch ascendjobs": 1,
    "create configmaps": 1,
    "create elasticservices": 1,
}
"""Requests that are under way at once when the first answer comes."""


def test_whoever_asks_for_a_minute_is_left_alone_for_a_minute_whatever_is_to_be_written() -> None:
    busy = AskForAMinute()

    async def story() -> None:
        async with rig(*SERVICE, interceptor=busy) as on:
            await on.settle(59)
            assert busy.asked == IN_FLIGHT
            await on.settle(540)
            assert all(busy.asked[what] <= 10 * PARALLEL_OF_ONE for what in IN_FLIGHT)
            assert busy.asked["create podgroups"] >= 18

    run(story())
