"""What the parts of the chaos tests make of the cluster: what they find wrong, and what not."""

from __future__ import annotations

import asyncio

import pytest

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, SERVICES, Object, Page, Resource
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.chaos import inventory
from tests.chaos.inventory import HEALTHY
from tests.chaos.replica import Life
from tests.chaos.witness import HealthyTenant, Witness
from tests.chaos.writes import Writes

START = 1_790_000_000.0
NAMES = ["one", "three", "two"]


def _world() -> tuple[SimCluster, Writes]:
    clock = Clock(START)
    cluster = SimCluster(clock)
    return cluster, Writes(cluster, Witness(clock), storm_bound=100)


def _pods(*names: str) -> list[Object]:
    return [inventory.foreign_pod(HEALTHY.namespace, name) for name in names]


def _names(page: Page[Object]) -> list[str]:
    return [str(pod["metadata"]["name"]) for pod in page.items]


def test_an_old_list_answers_the_question_that_was_asked() -> None:
    async def story() -> None:
        cluster, writes = _world()
        cluster.apply(_pods(*NAMES))
        life = Life(cluster, "life", writes, faults=Interceptor(), seed=0, stale=1.0)
        first = await life.list(PODS, limit=1)
        rest = await life.list(PODS, limit=500, continue_token=first.continue_token)
        whole = await life.list(PODS, limit=500)
        cluster.apply(_pods("zero"))
        old = await life.list(PODS, limit=500)
        told = [_names(page) for page in (first, rest, whole, old)]
        assert told == [NAMES[:1], NAMES[1:], NAMES, NAMES]
        assert writes.counts["stale list"] == 1

    run(story())


@pytest.mark.parametrize(("by", "fails_at"), [(60.0, [60, 130]), (300.0, [300, 300])])
def test_after_a_restore_the_healthy_service_has_its_time_and_that_of_the_storm(
    by: float, fails_at: list[int]
) -> None:
    async def story() -> None:
        cluster, writes = _world()
        healthy = HealthyTenant(cluster, writes.witness, by=by)
        await asyncio.sleep(10)
        healthy.expect(120.0, hurt=120.0)
        await asyncio.sleep(1000)
        assert [
            round(float(words.partition(" ")[0])) for words in writes.witness.failures
        ] == fails_at

    run(story())


@pytest.mark.parametrize("kind", [POD_GROUPS, SERVICES])
@pytest.mark.parametrize(("node", "failures"), [("h-0", 1), ("", 0)])
def test_what_is_taken_away_from_under_a_bound_pod_is_seen(
    kind: Resource, node: str, failures: int
) -> None:
    async def story() -> None:
        cluster, writes = _world()
        cluster.apply([inventory.server_job(HEALTHY, "h-p0")])
        (job,) = cluster.peek(ASCEND_JOBS)
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": "h-p0",
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        (pod,) = _pods("h-p0-master-0")
        pod["metadata"]["ownerReferences"] = [owner]
        pod["spec"] |= {"nodeName": node}
        meta = {"name": "h-p0", "namespace": HEALTHY.namespace, "ownerReferences": [owner]}
        made: Object = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": meta,
            "spec": {"ports": [{"port": 1}]},
        }
        cluster.apply([pod, made])
        with writes.acting("life", Request("life", "delete", kind, HEALTHY.namespace, "h-p0")):
            cluster.server.delete(kind, HEALTHY.namespace, "h-p0")
        assert len(writes.witness.failures) == failures

    run(story())
