"""The reporter with the real writer on the simulated API server: what it writes is accepted, and once is enough."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from structlog.testing import capture_logs

from scaler.clock import Clock
from scaler.decide.world import ServiceKey
from scaler.informers.cache import Cache
from scaler.informers.changes import Changes
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, EVENTS, Object
from scaler.kube.writer import Writer
from scaler.report.elastic_services import StatusWriter
from scaler.report.metrics import Metrics
from scaler.report.reporter import Reporter
from scaler.report.service_reports import RuleKey, ServiceReport
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.state.last_valid import LastValid
from tests import jobs
from tests.builders import NOW, instance, service
from tests.report.fakes import records, report_of

HELD, RUNS = "p0 Held, p1 Held, d0 Held", "p0 Running, p1 Held, d0 Running"


def report(cluster: SimCluster, states: str, rule_name: str = "rule") -> ServiceReport:
    """A service of these instances; its jobs are those of the cluster, as a cache would show them."""
    found = {job["metadata"]["name"]: job for job in cluster.peek(ASCEND_JOBS)}
    parts = [part.split() for part in states.split(",")]
    members = tuple(instance(name, state, uid=found[name]["metadata"]["uid"]) for name, state in parts)
    taken = service("2P1D > 1P1D", members, key=ServiceKey(jobs.NAMESPACE, rule_name, "mindie"))
    return report_of(taken, jobs=records(found.values()), last_valid=LastValid("{}"))


async def told(cluster: SimCluster, *notes: Callable[[Reporter], Awaitable[None] | None]) -> None:
    """A new leader's reporter hears these notes, with time to write between them."""
    clock = Clock(NOW)
    writer = Writer(cluster, deadline=lambda: math.inf, rng=random.Random(0))
    metrics = Metrics()
    statuses = StatusWriter(writer, Cache(Changes(), clock.now), clock, metrics, lambda: "")
    reporter = Reporter(writer, statuses, clock, metrics)
    task = asyncio.create_task(reporter.run())
    for note in notes:
        noted = note(reporter)
        if noted is not None:
            await noted
        await asyncio.sleep(10)
    task.cancel()
    await asyncio.wait([task])


def on_cluster(story: Callable[[SimCluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cluster = SimCluster(Clock(NOW))
        cluster.apply([jobs.job("p0"), jobs.job("p1"), jobs.job("d0")], jobs.NAMESPACE)
        await story(cluster)

    with capture_logs() as lines:
        run(main())
    assert [line for line in lines if line["log_level"] != "info"] == []


def content(cluster: SimCluster) -> list[Object]:
    return [obj for resource in (ASCEND_JOBS, CONFIG_MAPS, ELASTIC_SERVICES, EVENTS) for obj in cluster.peek(resource)]


def test_the_api_server_accepts_all_of_it() -> None:
    async def story(cluster: SimCluster) -> None:
        await told(cluster, lambda to: to.note([report(cluster, HELD)]), lambda to: to.note([report(cluster, RUNS)]))
        assert [
            found["metadata"]["name"] for found in (*cluster.peek(CONFIG_MAPS), *cluster.peek(ELASTIC_SERVICES))
        ] == [
            "mindie.rule-scaler-last-valid",
            "rule-mindie",
        ]
        last = {job["metadata"]["name"]: job["status"]["conditions"][-1]["type"] for job in cluster.peek(ASCEND_JOBS)}
        assert last == {"p0": "Running", "p1": "Created", "d0": "Running"}
        assert len(cluster.peek(EVENTS)) == 7

    on_cluster(story)


def test_a_rule_whose_name_only_a_label_allows_has_a_status_too() -> None:
    async def story(cluster: SimCluster) -> None:
        await told(cluster, lambda to: to.note([report(cluster, HELD, "My_Rule")]))
        assert any(found["metadata"]["name"].startswith("my-rule-") for found in cluster.peek(ELASTIC_SERVICES))

    on_cluster(story)


def test_the_next_leader_finds_it_and_writes_nothing() -> None:
    async def story(cluster: SimCluster) -> None:
        await told(cluster, lambda to: to.note([report(cluster, RUNS)]))
        before = content(cluster)
        await told(cluster, lambda to: to.note([report(cluster, RUNS)]))
        assert content(cluster) == before

    on_cluster(story)


def test_a_cache_that_lags_behind_makes_no_second_write() -> None:
    async def story(cluster: SimCluster) -> None:
        stale = report(cluster, RUNS)
        later = msgspec.structs.replace(
            report(cluster, "p0 Running, p1 Running, d0 Running"), instances=stale.instances
        )
        await told(cluster, lambda to: to.note([stale]), lambda to: to.note([later]))
        assert all(job["status"]["conditions"][-1]["type"] == "Running" for job in cluster.peek(ASCEND_JOBS))

    on_cluster(story)


def test_nothing_of_a_forgotten_rule_remains() -> None:
    async def story(cluster: SimCluster) -> None:
        await told(
            cluster,
            lambda to: to.note([report(cluster, HELD)]),
            lambda to: to.rule_gone(RuleKey(jobs.NAMESPACE, "rule")),
        )
        assert cluster.peek(CONFIG_MAPS) == []

    on_cluster(story)
