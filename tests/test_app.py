"""What a process says of itself while it cannot work yet."""

from __future__ import annotations

import asyncio

import pytest

from scaler import controller
from scaler.app import App
from scaler.clock import Clock
from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Decision
from scaler.decide.world import World
from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS, NODES, PODS
from scaler.kube.errors import ForbiddenError
from scaler.report.metrics import Metrics
from scaler.settings import Settings
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, job, rule_config_map
from tests.rig import START
from tests.steps import in_one_slice


class Slow(Interceptor):
    """The API server answers lists of nodes late."""

    async def before(self, request: Request) -> None:
        if request.verb == "list" and request.resource == NODES:
            await asyncio.sleep(30)


def test_it_is_not_ready_before_all_nodes_are_listed_unless_it_may_not_list_them() -> None:
    async def story() -> list[list[str]]:
        clock = Clock(START)
        api = SimCluster(clock).client("scaler", Slow())
        settings = Settings(leader_election=False, http_port=0)
        app = App(api, settings, clock, seed=0)
        running = asyncio.create_task(app.run())
        said = []
        for seconds in (12, 36):
            await asyncio.sleep(seconds)
            said.append(app.missing())
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return said

    assert run(story()) == [["waiting for nodes: not listed yet"], []]


def test_a_cluster_without_volcano_and_ascend_jobs_gets_ready() -> None:
    async def story() -> list[str]:
        clock = Clock(START)
        cluster = SimCluster(clock)
        for name in ("podgroups.scheduling.volcano.sh", "ascendjobs.mindxdl.gitee.com"):
            await cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, name)
        settings = Settings(leader_election=False, http_port=0)
        app = App(cluster.client("scaler"), settings, clock, seed=0)
        running = asyncio.create_task(app.run())
        await asyncio.sleep(12)
        said = app.missing()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return said

    assert run(story()) == []


def test_what_an_operator_watches_is_in_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [True]

    def decided(world: World, cache: DecisionCache) -> Decision:
        if failing[0]:
            raise ZeroDivisionError
        return decide(world, cache)

    monkeypatch.setattr(controller, "begin", in_one_slice(decided))

    async def story() -> list[dict[str, float | None]]:
        clock = Clock(START)
        metrics = Metrics()
        cluster = SimCluster(clock)
        cluster.apply([job("p0")], NAMESPACE)
        cut = Interceptor()
        api = cluster.client("scaler", cut)
        scaler = App(api, Settings(http_port=0), clock, metrics=metrics).run()
        running = asyncio.create_task(scaler)
        seen = []
        for seconds in (300, 300):
            await asyncio.sleep(seconds)
            seen.append(
                {
                    "silence": metrics.registry.get_sample_value(
                        "scaler_watch_silence_seconds", {"resource": "pods"}
                    ),
                    "changes": metrics.registry.get_sample_value("scaler_leader_changes_total"),
                    "depth": metrics.registry.get_sample_value("scaler_queue_depth"),
                    "failed": metrics.registry.get_sample_value("scaler_decisions_failed_total"),
                }
            )
            failing[0] = False
            cut.before = _refuse_watches  # type: ignore[method-assign]
            cluster.cut_all_watches()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    first, second = run(story())
    assert first["changes"] == second["changes"] == 1
    assert first["depth"] == second["depth"] == 0
    assert first["silence"] is not None
    assert first["silence"] < 61
    assert second["silence"] is not None
    assert second["silence"] > 299
    assert first["failed"] == second["failed"]
    assert (first["failed"] or 0) > 5


def test_the_time_before_a_replica_leads_is_no_reaction() -> None:
    async def story() -> float | None:
        clock = Clock(START)
        metrics = Metrics()
        cluster = SimCluster(clock)
        first = asyncio.create_task(
            App(cluster.client("first"), Settings(http_port=0, identity="first"), clock).run()
        )
        await asyncio.sleep(30)
        second = asyncio.create_task(
            App(
                cluster.client("second"),
                Settings(http_port=0, identity="second"),
                clock,
                metrics=metrics,
            ).run()
        )
        await asyncio.sleep(30)
        cluster.apply([rule_config_map(), job("p0"), job("d0")], NAMESPACE)
        await asyncio.sleep(600)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await cluster.delete(PODS, NAMESPACE, "p0-master-0")
        await asyncio.sleep(60)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert (metrics.registry.get_sample_value("scaler_reaction_seconds_count") or 0) > 0
        return metrics.registry.get_sample_value("scaler_reaction_seconds_sum")

    assert (run(story()) or 0) < 10


def test_a_fault_of_ours_about_one_service_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(controller, "report_of", fails)

    async def story() -> float | None:
        clock = Clock(START)
        metrics = Metrics()
        cluster = SimCluster(clock)
        cluster.apply([job("p0")], NAMESPACE)
        settings = Settings(leader_election=False, http_port=0)
        running = asyncio.create_task(
            App(cluster.client("scaler"), settings, clock, metrics=metrics).run()
        )
        await asyncio.sleep(30)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return metrics.registry.get_sample_value("scaler_decisions_failed_total")

    assert (run(story()) or 0) > 2


async def _refuse_watches(request: Request) -> None:
    if request.verb in ("watch", "list"):
        raise ForbiddenError(403, "Forbidden", "no")
