"""The label that keeps evictions from a minimum, on the simulated cluster."""

from __future__ import annotations

from typing import Any

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, DISRUPTION_BUDGETS, NODES, PODS, Object, PatchType
from scaler.names import KEEP_LABEL
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.held import held
from tests.jobs import NAMESPACE, job, manifest, node, rule_config_map, rule_document
from tests.rig import NODE, START, Rig, rig

SETTINGS: dict[str, Any] = {"disruption_budgets": True}
OTHER = "node-1"
SETTLED = 3.0
"""Seconds in which labels have moved."""


def kept(on: Rig) -> set[str]:
    """The names of pods that no eviction may take."""
    return {
        pod["metadata"]["name"]
        for pod in on.cluster.peek(PODS, NAMESPACE)
        if pod["metadata"].get("labels", {}).get(KEEP_LABEL) == "true"
    }


def budgets(on: Rig) -> list[str]:
    return [one["metadata"]["name"] for one in on.cluster.peek(DISRUPTION_BUDGETS)]


def writes(on: Rig) -> list[str]:
    """Of labels and budgets."""
    return [each for each in on.writes() if each.startswith(("patch pods", "create poddis", "delete poddis"))]


def foreign() -> Object:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "router"}}}
    return manifest(DISRUPTION_BUDGETS, "theirs", NAMESPACE, spec=spec)


async def cordon(on: Rig, name: str, *, unschedulable: bool = True) -> None:
    patch = {"spec": {"unschedulable": unschedulable}}
    await on.cluster.patch(NODES, None, name, patch, patch_type=PatchType.MERGE)
    await on.settle(SETTLED)


async def started(on: Rig, *jobs: str) -> None:
    """A scale-up starts once the minimum runs."""
    for _ in range(2):
        await on.start(*jobs)
        await on.settle(SETTLED)


SERVICE = (job("p0"), job("p1"), job("d0"), rule_config_map())


def test_as_much_is_kept_as_the_smallest_ratio_needs_and_the_surplus_is_not() -> None:
    async def story() -> None:
        async with rig(*SERVICE, **SETTINGS) as on:
            await started(on, "p0", "p1", "d0")
            assert (kept(on), budgets(on)) == ({"p0-master-0", "d0-master-0"}, ["mind-cluster-scaler-minimum"])
            (budget,) = on.cluster.peek(DISRUPTION_BUDGETS)
            wanted = {"minAvailable": 2**31 - 1, "selector": {"matchLabels": {KEEP_LABEL: "true"}}}
            assert budget["spec"] == wanted
            before = writes(on)
            await on.settle(3600)
            assert writes(on) == before

    run(story())


def test_a_service_that_does_not_serve_keeps_nothing() -> None:
    async def story() -> None:
        async with rig(*SERVICE, **SETTINGS) as on:
            await started(on, "p0", "p1")
            assert (kept(on), budgets(on)) == (set(), [])

    run(story())


def test_an_instance_is_kept_whole() -> None:
    async def story() -> None:
        document = rule_document({"group0": 1, "group1": 1}, pods=2)
        async with rig(job("p0", pods=2), job("d0", pods=2), rule_config_map(document), **SETTINGS) as on:
            await started(on, "p0", "d0")
            assert kept(on) == {"p0-master-0", "p0-worker-0", "d0-master-0", "d0-worker-0"}

    run(story())


def test_the_label_moves_away_from_a_cordoned_node_and_does_not_come_back() -> None:
    async def story() -> None:
        async with rig(*SERVICE, **SETTINGS) as on:
            on.cluster.apply([node(OTHER)])
            await on.start("p0")
            await on.start("d0", node_name=OTHER)
            await on.settle(SETTLED)
            await on.start("p1", node_name=OTHER)
            await on.settle(SETTLED)
            assert kept(on) == {"p0-master-0", "d0-master-0"}
            await cordon(on, NODE)
            assert kept(on) == {"p1-master-0", "d0-master-0"}
            before = writes(on)
            await cordon(on, NODE, unschedulable=False)
            assert writes(on) == before

    run(story())


def test_a_group_at_its_minimum_keeps_its_label_on_a_cordoned_node() -> None:
    async def story() -> None:
        async with rig(*SERVICE, **SETTINGS) as on:
            await started(on, "p0", "p1", "d0")
            await cordon(on, NODE)
            assert kept(on) == {"p0-master-0", "d0-master-0"}

    run(story())


def test_beside_a_budget_of_somebody_else_there_is_no_label() -> None:
    async def story() -> None:
        async with rig(*SERVICE, foreign(), **SETTINGS) as on:
            await started(on, "p0", "p1", "d0")
            assert (kept(on), budgets(on)) == (set(), ["theirs"])
            await on.cluster.delete(DISRUPTION_BUDGETS, NAMESPACE, "theirs")
            await on.settle(SETTLED)
            assert len(kept(on)) == 2
            on.apply(foreign())
            await on.settle(SETTLED)
            assert kept(on) == set()

    run(story())


def test_the_budget_is_made_again_and_goes_with_the_last_service() -> None:
    async def story() -> None:
        async with rig(*SERVICE, **SETTINGS) as on:
            await started(on, "p0", "p1", "d0")
            await on.cluster.delete(DISRUPTION_BUDGETS, NAMESPACE, "mind-cluster-scaler-minimum")
            await on.settle(SETTLED)
            assert budgets(on) == ["mind-cluster-scaler-minimum"]
            for name in ("p0", "p1", "d0"):
                await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
            await on.settle(SETTLED)
            assert budgets(on) == []

    run(story())


def test_a_budget_that_outlived_its_services_goes_when_a_leader_begins() -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        async with rig(*SERVICE, cluster=cluster, **SETTINGS) as on:
            await started(on, "p0", "p1", "d0")
        for name in ("p0", "p1", "d0"):
            await on.cluster.delete(ASCEND_JOBS, NAMESPACE, name)
        async with rig(cluster=cluster, **SETTINGS) as after:
            await after.settle(SETTLED)
            assert budgets(after) == []

    run(story())


def test_pods_of_others_are_kept_too() -> None:
    async def story() -> None:
        pods = (held("e0", "group0", owner=""), held("e1", "group1", owner=""))
        async with rig(*pods, rule_config_map(), mode="gates", **SETTINGS) as on:
            for pod in on.cluster.peek(PODS, NAMESPACE):
                await on.bind(pod)
                await on.status(pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
            await on.settle(SETTLED)
            assert kept(on) == {"e0", "e1"}

    run(story())


def test_nothing_is_made_unless_it_is_asked_for() -> None:
    async def story() -> None:
        async with rig(*SERVICE) as on:
            await started(on, "p0", "p1", "d0")
            assert (kept(on), budgets(on)) == (set(), [])

    run(story())
