"""The whole controller with clocks that are wrong, step or stand still. Virtual time only."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest

from scaler.app import App
from scaler.clock import Clock
from scaler.election import LeadershipLost
from scaler.kube.api import LEASES, PODS
from scaler.settings import Settings
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import VirtualLoop, run
from tests.jobs import NAMESPACE, held, job, node, rule_config_map, rule_document
from tests.parts import short_and_long
from tests.rig import NODE, START, Rig, controller
from tests.test_gates import let_run, lose
from tests.test_life import fail, last, with_policy

HOUR = 3600.0
ONE_AND_ONE = rule_config_map(rule_document({"group0": 1, "group1": 1}))
Step = tuple[float, float]
"""At which loop time, by how many seconds."""
History = tuple[list[tuple[float, str]], dict[str, float]]
"""Writes, and what ended, each with its loop time."""


class Steps(Clock):
    """A wall clock that steps, as that of an API server may."""

    def __init__(self, *steps: Step) -> None:
        super().__init__(START)
        self._steps = steps

    def now(self) -> float:
        at = asyncio.get_running_loop().time()
        return super().now() + sum(step for moment, step in self._steps if at >= moment)


class Answers(Interceptor):
    """Tells the controller's clock what the API server's is with every answer, as the client
    does."""

    def __init__(self, server: Clock, own: Clock) -> None:
        self._server = server
        self._own = own
        self.asked: list[tuple[float, str]] = []

    async def after(self, request: Request) -> None:
        self._own.saw(float(int(self._server.now())), 0.002)
        if request.verb not in ("list", "watch", "get"):
            at = asyncio.get_running_loop().time()
            self.asked.append(
                (round(at), f"{request.verb} {request.resource.plural} {request.name}")
            )

    def writes(self, *plurals: str) -> list[tuple[float, str]]:
        """What was written of these, with the loop time in whole seconds."""
        return [(at, words) for at, words in self.asked if words.split()[1] in plurals]


async def story(wall: float = 0.0, *steps: Step) -> History:
    """Writes to pods and jobs, and when what was ended for its time ended. `wall`: by how much the
    wall clock of the controller's machine is wrong; `steps`: of the API server's clock."""
    server = Steps(*steps)
    own = Clock(START + wall)
    on = Rig(cluster=SimCluster(server))
    answers = Answers(server, own)
    late = with_policy("p0", activeDeadlineSeconds=3 * 3600, ttlSecondsAfterFinished=1800)
    size = {"mind-cluster/instance-size": "2", "mind-cluster/instance": "q"}
    made = [held(name, "group0", job_id="other", annotations=size) for name in ("q0", "q1")]
    on.apply(node(NODE), node("roomy", roomy=True))
    on.apply(ONE_AND_ONE, late, job("d0"), *made, held("r0", "group1", job_id="other"))
    ended: dict[str, float] = {}
    async with controller(on, own, interceptor=answers), asyncio.TaskGroup() as beside:
        ticking = beside.create_task(_ticking(server, own))
        noting = beside.create_task(_noting(on, ended))
        await on.settle()
        await on.start("p0", "d0")
        await let_run(on, "q0", "q1", "r0")
        await lose(on, "q1")  # and nobody makes it again
        for _ in range(3):
            await fail(on, on.pods_of("d0")[0], 143, reason="Evicted")
            while on.pods_of("d0")[0]["status"]["phase"] == "Failed":
                await on.settle(1)
            await on.start("d0")
        await noting
        ticking.cancel()
    return answers.writes("pods", "ascendjobs"), ended


async def _noting(on: Rig, ended: dict[str, float]) -> None:
    """Until everything has ended, for eight hours at most."""
    while "gone" not in ended and asyncio.get_running_loop().time() < 8 * HOUR:
        await asyncio.sleep(1 if "broken" not in ended else 10)
        for what, happened in (
            ("broken", on.reason("q") == "Broken"),
            ("failed", last(on, "p0") == ("Failed", "DeadlineExceeded")),
            ("gone", "failed" in ended and last(on, "p0") is None),
        ):
            if happened:
                ended.setdefault(what, asyncio.get_running_loop().time())


async def _ticking(server: Clock, own: Clock) -> None:
    """The Lease of a real leader is renewed every second: an answer each time."""
    while True:
        own.saw(float(int(server.now())), 0.002)
        await asyncio.sleep(1)


@cache
def undisturbed() -> History:
    return run(story())


@pytest.mark.parametrize("wall", [HOUR, -HOUR])
def test_a_machine_whose_wall_clock_is_an_hour_off_does_the_same_at_the_same_moments(
    wall: float,
) -> None:
    right, ended = undisturbed()
    assert ended["failed"] == pytest.approx(3 * HOUR, abs=15)
    assert ended["gone"] == pytest.approx(3.5 * HOUR, abs=30)
    assert run(story(wall)) == (right, ended)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
@pytest.mark.parametrize(
    "at", short_and_long([2.9 * HOUR, 1.5 * HOUR, 3.25 * HOUR], short=1, why="other moments")
)
def test_no_step_of_the_api_servers_clock_ends_anything_early(step: float, at: float) -> None:
    _, right = undisturbed()
    _, ended = run(story(0.0, (at, step)))
    assert ended["broken"] == right["broken"]
    assert -15 <= ended["failed"] - right["failed"] <= HOUR + 15
    assert -15 <= (ended["gone"] - ended["failed"]) - (right["gone"] - right["failed"]) <= HOUR + 15


def test_a_step_forwards_is_not_late_either_for_what_was_written_before_it() -> None:
    _, right = undisturbed()
    _, ended = run(story(0.0, (0.5 * HOUR, HOUR)))
    assert ended["failed"] == pytest.approx(right["failed"], abs=15)


def test_a_leader_that_wakes_after_an_hour_writes_nothing_its_successor_has_the_time() -> None:
    """The loop of the controller counts the time in which its machine was suspended
    (tests/test_clock.py)."""

    async def story() -> None:
        server = Steps()
        own = Clock(START)
        on = Rig(cluster=SimCluster(server))
        answers = Answers(server, own)
        on.apply(
            node(NODE),
            ONE_AND_ONE,
            with_policy("p0", activeDeadlineSeconds=1800),
            job("d0"),
            job("p1"),
        )
        chosen = Settings(http_port=0)
        api = on.cluster.client("scaler", answers)
        leader = asyncio.create_task(App(api, chosen, own, observer=on.observe, seed=0).run())
        await asyncio.sleep(chosen.lease_duration + 2)
        await on.start("p0", "d0")
        loop = asyncio.get_running_loop()
        before = len(answers.asked)
        assert isinstance(loop, VirtualLoop)
        gone = on.pods_of("d0")[0]["metadata"]["name"]
        on.cluster.remove(PODS, NAMESPACE, gone)
        loop._now += HOUR
        (outcome,) = await asyncio.gather(leader, return_exceptions=True)
        assert isinstance(outcome, ExceptionGroup)
        assert outcome.subgroup(LeadershipLost)
        assert [words for _, words in answers.asked[before:] if LEASES.plural not in words] == []
        own = Clock(START - HOUR)
        async with controller(on, own, interceptor=Answers(server, own)):
            await on.settle(2)
            assert last(on, "p0") == ("Failed", "DeadlineExceeded")

    run(story())
