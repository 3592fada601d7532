"""A watch of jobs that is far behind, under the whole controller: what is gone is not made again
and again.

The garbage collector deletes what belongs to a job that is gone, in milliseconds; the scaler makes
what a job lacks as fast. Found by the chaos tests (schedules 31 and 81: up to 319 writes in a
minute)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scaler.execute.recreation import MOST, RecreationGuard
from scaler.kube.api import ASCEND_JOBS, EVENTS, POD_GROUPS, PODS, SERVICES
from scaler.kube.errors import ForbiddenError, KubeError, UnknownOutcomeError
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.apiserver.list_watch import Seen
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, job, rule_config_map, rule_document
from tests.rig import Rig, rig

SERVICE = (rule_config_map(), job("p0"), job("d0"))
BEHIND = 30.0
MADE = {"create pods p0-master-0", "create services p0-master-0"}


class Behind(Interceptor):
    """From `begin` on the watch of AscendJobs tells everything 30 s late; `looks` counts how often
    they were listed."""

    def __init__(self) -> None:
        self.late = False
        self.looks = 0
        self.error: KubeError | None = None

    async def before(self, request: Request) -> None:
        if request.verb == "list" and request.resource == ASCEND_JOBS:
            self.looks += 1
            if self.error is not None:
                raise self.error

    async def deliver(self, request: Request, event: Seen) -> bool:
        if self.late and request.resource == ASCEND_JOBS:
            await asyncio.sleep(BEHIND)
        return True


@asynccontextmanager
async def played(behind: Behind, **settings: Any) -> AsyncIterator[Rig]:
    """p0 and d0 run, and what is gone is collected."""
    async with rig(*SERVICE, interceptor=behind, **settings) as on:
        collecting = asyncio.create_task(GarbageCollector(on.cluster.client("collector")).run())
        await on.start("p0", "d0")
        await on.settle(1)
        behind.late = True
        behind.looks = 0
        yield on
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)


def test_what_belongs_to_a_job_that_is_gone_is_made_once_more_at_most() -> None:
    async def story() -> None:
        async with played(Behind()) as on:
            before = len(on.writes())
            await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "p0")
            await on.kill("p0")
            await on.settle(2 * BEHIND)
            made = [write for write in on.writes()[before:] if write in MADE]
            assert max(made.count(what) for what in MADE) <= 1
            assert on.with_pods() == {"d0"}

    run(story())


def test_a_job_that_was_applied_anew_gets_its_pods_though_the_watch_shows_the_old_one() -> None:
    async def story() -> None:
        async with played(Behind()) as on:
            await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "p0")
            await on.kill("p0")
            on.apply(job("p0"))
            await on.settle(5)
            (new,) = [
                one for one in on.cluster.peek(ASCEND_JOBS) if one["metadata"]["name"] == "p0"
            ]
            (pod,) = on.pods_of("p0")
            assert pod["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"]

    run(story())


def test_deleted_pods_are_back_at_once_every_time_and_nothing_is_asked_the_first_time() -> None:
    async def story() -> None:
        behind = Behind()
        async with played(behind) as on:
            await on.settle(60)
            behind.looks = 0  # a watch as far behind as this one is listed anew now and then
            looks = []
            for _ in range(3):
                await on.kill("p0")
                await on.settle(0.05)
                assert on.with_pods() == {"p0", "d0"}
                looks.append(behind.looks)
            assert looks == [0, 1, 2]

    run(story())


def test_what_changed_unseen_is_decided_anew_before_anything_is_made() -> None:
    async def story() -> None:
        async with played(Behind()) as on:
            await on.settle(60)
            await on.kill("p0")
            await on.settle(0.05)
            await on.edit("p0", "/metadata/labels/mind-cluster~1group-name", "group1")
            await on.kill("p0")
            await on.settle(5)
            assert on.with_pods() == {"d0"}
            assert on.reason("p0") == "NotInRatio"

    run(story())


@pytest.mark.parametrize("seconds", [0.1, 20.0])
def test_while_nobody_answers_whether_a_job_is_there_nothing_is_made_and_then_it_is(
    seconds: float,
) -> None:
    async def story() -> None:
        behind = Behind()
        async with played(behind) as on:
            await on.settle(60)
            await on.kill("p0")
            await on.settle(0.05)
            behind.error = UnknownOutcomeError("no answer")
            await on.kill("p0")
            await on.settle(seconds)
            assert on.with_pods() == {"d0"}
            behind.error = None
            await on.settle(2 * seconds + 1)
            assert on.with_pods() == {"p0", "d0"}

    run(story())


@pytest.mark.parametrize("pause", [0.0, 0.1, 1.0])
def test_what_somebody_deletes_as_often_as_it_is_made_is_made_with_pauses_and_the_reason_says_so(
    pause: float,
) -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            fighting = asyncio.create_task(fight(on, "p0", pause))
            before = len(on.writes())
            await on.settle(120)
            fighting.cancel()
            assert len(on.writes()) - before < 50 * 2
            told = {
                event["message"]
                for event in on.cluster.peek(EVENTS)
                if event["reason"] == "CreateRefused"
            }
            assert any(
                "another client deletes Pod p0-master-0 as often as it is made" in message
                for message in told
            )
            await on.settle(300)
            assert on.with_pods() == {"p0", "d0"}

    run(story())


def test_the_next_one_gets_the_turn_of_an_instance_that_somebody_deletes() -> None:
    async def story() -> None:
        async with rig(*SERVICE, job("p1")) as on:
            fighting = asyncio.create_task(fight(on, "p0", 0.1))
            await on.settle(10)
            assert ("p0", "CreateRefused") in on.events()
            await on.start("p1", "d0")
            fighting.cancel()
            assert {on.reason("p1"), on.reason("d0")} == {"Running"}

    run(story())


@pytest.mark.parametrize(
    ("uids", "words"), [("same same", ""), ("a b", "another client deletes Service p0-master-0")]
)
def test_what_is_found_where_it_was_to_be_made_is_not_taken_for_deleted(
    uids: str, words: str
) -> None:
    """A restored cluster shows less for a while than what is there."""

    async def story() -> str:
        guard = RecreationGuard()
        for number, uid in enumerate(uids.split() * MOST):
            guard.note_made(
                "p0", [("Service p0-master-0", uid if uid == "same" else f"{uid}-{number}")]
            )
        return guard.in_vain("p0")

    assert run(story()).startswith(words) is True
    assert bool(run(story())) is bool(words)


async def fight(on: Rig, name: str, pause: float) -> None:
    while True:
        if on.pods_of(name):
            await asyncio.sleep(pause)
            await on.kill(name)
        await asyncio.sleep(0.005)


class Full(Interceptor):
    """The watches of what is made of an instance are a minute late. Once `full`, a quota refuses
    every pod, also one that exists: it is asked before the name is looked at."""

    def __init__(self) -> None:
        self.full = False
        self.refused = 0

    async def before(self, request: Request) -> None:
        if self.full and request.verb == "create" and request.resource == PODS:
            self.refused += 1
            raise ForbiddenError(403, "Forbidden", "exceeded quota")

    async def deliver(self, request: Request, event: Seen) -> bool:
        if request.resource in (PODS, POD_GROUPS, SERVICES):
            await asyncio.sleep(2 * BEHIND)
        return True


def test_a_refusal_takes_nothing_from_an_instance_that_runs_though_no_watch_has_shown_it() -> None:
    async def story() -> None:
        full = Full()
        async with rig(*SERVICE, interceptor=full) as on:
            await on.start("p0", "d0")
            full.full = True
            await on.settle(1.5 * BEHIND)
            assert full.refused
            assert on.with_pod_group() == {"p0", "d0"}
            assert [write for write in on.writes() if write.startswith("delete")] == []

    run(story())


def test_a_few_bursts_of_deletions_are_healed_at_once_each() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            for _ in range(9):
                await on.start("p0", "d0")
                await on.kill("p0", "d0")
                await on.settle(0.05)
                assert on.with_pods() == {"p0", "d0"}

    run(story())


def test_what_the_scaler_revokes_itself_again_and_again_puts_nothing_in_doubt() -> None:
    async def story() -> None:
        behind = Behind()
        async with rig(*SERVICE, job("p1"), interceptor=behind) as on:
            await on.start("p0", "d0")
            for _ in range(12):
                assert "p1" in on.with_pods()
                on.apply(rule_config_map(rule_document({"group0": 1, "group1": 1})))
                await on.settle()
                assert "p1" not in on.with_pods()
                on.apply(rule_config_map())
                await on.settle()
            assert behind.looks == 1

    run(story())


def test_the_usual_way_of_a_service_asks_nothing() -> None:
    async def story() -> None:
        behind = Behind()
        async with rig(*SERVICE, job("p1"), interceptor=behind) as on:
            await on.start("p0", "d0")
            await on.start("p1")
            await on.settle(120)
            assert (on.with_pods(), behind.looks) == ({"p0", "p1", "d0"}, 1)

    run(story())
