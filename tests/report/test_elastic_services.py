"""ElasticServices under the whole controller: made, made again, adopted, deleted, and never anybody
else's trouble."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.app import PULSE
from scaler.clock import Clock
from scaler.decide.world import ServiceKey
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ELASTIC_SERVICES,
    EVENTS,
    NAMESPACES,
    Object,
    PatchType,
)
from scaler.kube.errors import NotFoundError, UnknownOutcomeError
from scaler.names import MANAGED_BY, MANAGED_BY_LABEL
from scaler.report.elastic_services import names_of, valid_status
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.faults import Fault, Faults, Rule
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import START, Rig, controller, rig

SERVICE = (rule_config_map(), job("p0"), job("p1"), job("d0"))
DEFINITION = "elasticservices.scaler.mind-cluster.io"


def esvc(
    name: str, *, ours: bool = False, rule: str = "rule", job_id: str = "mindie", **more: Any
) -> Object:
    labels = {MANAGED_BY_LABEL: MANAGED_BY} if ours else {}
    return {
        "apiVersion": ELASTIC_SERVICES.api_version,
        "kind": "ElasticService",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": labels},
        "spec": {"rule": rule, "jobID": job_id},
        **more,
    }


def all_of(on: Rig) -> dict[str, Object]:
    return {found["metadata"]["name"]: found for found in on.cluster.peek(ELASTIC_SERVICES)}


def story(on: Rig, name: str = "rule-mindie") -> list[str]:
    found = [event for event in on.cluster.peek(EVENTS) if event["involvedObject"]["name"] == name]
    return [event["reason"] for event in sorted(found, key=lambda event: event["lastTimestamp"])]


def test_a_service_has_one_with_its_status_and_its_story() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(3)
            await on.start("p1")
            await on.settle(3)
            await on.kill("d0")
            await on.settle(3)
            (made,) = all_of(on).values()
            expected = {"rule": "rule", "jobID": "mindie", "replicas": 1_000_000}
            assert (made["metadata"]["name"], made["spec"]) == ("rule-mindie", expected)
            assert made["metadata"]["labels"] == {MANAGED_BY_LABEL: MANAGED_BY}
            assert (made["status"]["running"], made["status"]["reason"]) == (
                "2+0",
                "WaitingForScheduler",
            )
            assert story(on) == ["Available", "Complete", "Unavailable"]
            uids = {
                e["involvedObject"].get("uid")
                for e in on.cluster.peek(EVENTS)
                if e["reason"] == "Unavailable"
            }
            assert uids == {made["metadata"]["uid"]}

    run(play())


def test_times_are_those_of_the_last_leader_and_of_what_was_deleted() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(30)
            before = on.said()
            await on.cluster.delete(ELASTIC_SERVICES, NAMESPACE, "rule-mindie")
            await on.settle(30)
            assert on.said() == before
        await asyncio.sleep(30)
        writes = len(on.cluster.audit)
        async with controller(on, Clock(START + 300)):
            await on.settle(30)
        assert on.said() == before
        assert not [
            write for write in list(on.cluster.audit)[writes:] if write.resource == ELASTIC_SERVICES
        ]

    run(play())


def test_one_that_a_user_made_is_adopted_and_never_deleted() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(3)
            on.apply(esvc("chat"))
            await on.settle(3)
            assert [*all_of(on)] == ["chat"]
            assert on.said()["reason"] == "WaitingForScheduler"
            for name in ("p0", "p1", "d0"):
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
            await on.settle(3)
            assert [*all_of(on)] == ["chat"]

    run(play())


def test_what_is_ours_and_about_nothing_goes_also_when_it_was_left_by_an_earlier_life() -> None:
    async def play() -> None:
        cluster = SimCluster(Clock(START))
        cluster.apply([esvc("old", ours=True, rule="gone"), esvc("theirs", rule="gone")], NAMESPACE)
        async with rig(*SERVICE, cluster=cluster) as on:
            await on.settle(3)
            assert [*all_of(on)] == ["rule-mindie", "theirs"]
            on.apply(esvc("another", ours=True), esvc("new", ours=True, rule="gone"))
            await on.settle(3)
            assert len([*all_of(on)]) == 2

    run(play())


def test_a_name_that_another_service_has_gets_a_hash() -> None:
    async def play() -> None:
        rules = [rule_config_map(name=name) for name in ("a", "a-b")]
        jobs = [job("p0", rule="a-b"), job("p1", rule="a")]
        jobs[0]["metadata"]["labels"]["jobID"] = "c"
        jobs[1]["metadata"]["labels"]["jobID"] = "b-c"
        async with rig(*rules, *jobs) as on:
            await on.settle(3)
            about = {
                (found["spec"]["rule"], found["spec"]["jobID"]): name
                for name, found in all_of(on).items()
            }
            assert len(about) == 2
            assert sorted(map(len, about.values())) == [len("a-b-c"), len("a-b-c") + 17]

    run(play())


@pytest.mark.parametrize(
    ("rule", "job_id", "name"),
    [("rule", "Chat", "rule-chat"), ("rule", "", "rule"), ("My_Rule", "x", "my-rule-x-")],
)
def test_names_are_in_lower_case_and_valid(rule: str, job_id: str, name: str) -> None:
    plain, hashed = names_of(ServiceKey("a", rule, job_id))
    assert plain.startswith(name)
    assert len(hashed) == len(plain) + 17
    long = names_of(ServiceKey("a", "r" * 253, "j" * 63))
    assert len(set(long)) == 2
    assert max(map(len, long)) <= 253


def test_without_the_definition_the_scaler_works_says_so_once_and_writes_all_when_it_comes() -> (
    None
):
    async def play() -> None:
        cluster = SimCluster(Clock(START))
        (definition,) = [
            found
            for found in cluster.peek(CUSTOM_RESOURCE_DEFINITIONS)
            if found["metadata"]["name"] == DEFINITION
        ]
        await cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, DEFINITION)
        with capture_logs() as lines:
            async with rig(*SERVICE, cluster=cluster) as on:
                await on.start("p0", "d0")
                await on.settle(60)
                assert "p1" in on.with_pods()
                metadata = {"name": DEFINITION}
                on.cluster.server.create(
                    CUSTOM_RESOURCE_DEFINITIONS, None, {**definition, "metadata": metadata}
                )
                await on.settle(60 + PULSE)
                assert on.said()["running"] == "1+1"
        told = [line for line in lines if line["event"] == "no ElasticServices are written"]
        assert [line["why"] for line in told] == [f"{DEFINITION} are not installed in the cluster"]
        assert [line for line in lines if line["event"] == "object not written"] == []

    run(play())


def test_a_definition_that_goes_takes_all_and_all_are_written_when_it_comes_back() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(3)
            (definition,) = [
                found
                for found in on.cluster.peek(CUSTOM_RESOURCE_DEFINITIONS)
                if found["metadata"]["name"] == DEFINITION
            ]
            await on.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, DEFINITION)
            await on.start("p0", "d0")
            await on.settle(120)
            on.cluster.server.create(
                CUSTOM_RESOURCE_DEFINITIONS, None, {**definition, "metadata": {"name": DEFINITION}}
            )
            await on.settle(300)
            assert on.said()["running"] == "1+1"

    run(play())


GARBAGE = [
    {"instances": [{"name": "x"}]},
    {"since": "soon", "conditions": 5},
    {"running": 1, "rule": [], "currentRatio": {"counts": {"group0": "many"}}},
]


@pytest.mark.parametrize("status", GARBAGE)
def test_a_status_that_somebody_filled_with_garbage_is_not_believed_and_written_anew(
    status: Object,
) -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(3)
            before = on.said()
        stored = copy.deepcopy(all_of(on)["rule-mindie"]) | {"status": status}
        on.cluster.server.store.put(ELASTIC_SERVICES, (NAMESPACE, "rule-mindie"), stored, START)
        with capture_logs() as lines:
            async with controller(on, Clock(START + 100)):
                await on.settle(5)
        assert [on.said()[name] for name in ("running", "reason")] == [
            before[name] for name in ("running", "reason")
        ]
        assert [
            line for line in lines if line["event"] in ("write failed", "object not written")
        ] == []

    run(play())


def test_only_what_has_our_types_is_believed() -> None:
    assert valid_status(None) == {}
    assert [valid_status(status) for status in GARBAGE] == [{}] * len(GARBAGE)


def test_thousands_that_a_tenant_made_cost_others_nothing() -> None:
    async def play() -> None:
        cluster = SimCluster(Clock(START))
        many = [
            esvc(f"x-{number}", ours=number % 2 == 0, rule=f"r{number}") for number in range(2000)
        ]
        for each in many:
            each["metadata"]["namespace"] = "flood"
            each["metadata"]["labels"] |= {f"label-{n}": "x" * 60 for n in range(20)}
        cluster.apply(many, "flood")
        async with rig(*SERVICE, cluster=cluster) as on:
            await on.settle(3)
            assert on.said()["reason"] == "WaitingForScheduler"
            await on.settle(30)
            assert len(on.cluster.peek(ELASTIC_SERVICES, "flood")) == 1000

    run(play())


def test_one_that_is_deleted_before_the_answer_to_its_status_comes_is_made_again() -> None:
    async def play() -> None:
        slow = Faults(
            Clock(START),
            Rule(fault=Fault.SLOW_ANSWER, verbs=("patch",), kinds=("ElasticService",), seconds=3),
        )
        async with rig(*SERVICE) as on:
            await on.settle(10)
        async with rig(cluster=on.cluster, interceptor=slow) as again:
            await again.start("p0", "d0")
            await again.settle(1)
            await again.cluster.delete(ELASTIC_SERVICES, NAMESPACE, "rule-mindie")
            await again.settle(60)
            assert list(all_of(again)) == ["rule-mindie"]

    run(play())


def test_a_status_that_a_restore_put_back_is_written_again_though_all_else_is_as_it_was() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.start("p0", "d0")
            await on.settle(3)
            garbage: Object = {"status": {"message": "of old"}}
            await on.cluster.patch(
                ELASTIC_SERVICES,
                NAMESPACE,
                "rule-mindie",
                garbage,
                patch_type=PatchType.MERGE,
                subresource="status",
            )
            backup = on.cluster.server.store.back_up()
            for paused in ("true", "false"):
                annotated: Object = {"metadata": {"annotations": {"mind-cluster/paused": paused}}}
                await on.cluster.patch(
                    CONFIG_MAPS, NAMESPACE, "rule", annotated, patch_type=PatchType.MERGE
                )
                await on.settle(3)
            written = all_of(on)["rule-mindie"]["status"]["message"]
            on.cluster.restore(backup)
            await on.settle(60)
            assert all_of(on)["rule-mindie"]["status"]["message"] == written != "of old"

    run(play())


def test_one_in_a_namespace_that_goes_is_let_go() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(3)
            await on.cluster.delete(NAMESPACES, None, NAMESPACE)
            await on.settle(60)
            with pytest.raises(NotFoundError):
                await on.cluster.get(ELASTIC_SERVICES, NAMESPACE, "rule-mindie")

    run(play())


def test_what_others_put_on_it_stays() -> None:
    async def play() -> None:
        async with rig(*SERVICE) as on:
            await on.settle(3)
            patch = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}
            await on.cluster.patch(
                ELASTIC_SERVICES, NAMESPACE, "rule-mindie", patch, patch_type=PatchType.MERGE
            )
            await on.start("p0", "d0")
            await on.settle(3)
            made = all_of(on)["rule-mindie"]
            assert (made["metadata"]["labels"]["team"], made["metadata"]["annotations"]) == (
                "a",
                {"note": "b"},
            )
            assert made["status"]["running"] == "1+1"

    run(play())


class LoseAnswers(Interceptor):
    """Of the next writes of a status, `left` of them."""

    def __init__(self) -> None:
        self.left = 0

    async def after(self, request: Request) -> None:
        if self.left and request.resource == ELASTIC_SERVICES and request.subresource == "status":
            self.left -= 1
            raise UnknownOutcomeError("the answer was lost")


def test_what_happened_is_told_although_the_answer_to_the_write_was_lost() -> None:
    lost = LoseAnswers()

    async def play() -> None:
        async with rig(*SERVICE, interceptor=lost) as on:
            await on.start("p0", "d0")
            await on.settle(3)
            lost.left = 2
            await on.kill("d0")
            await on.settle(10)
            assert story(on) == ["Available", "Unavailable"]
            assert lost.left == 0

    run(play())
