"""`spec.replicas` of the ElasticService of a service of every workload kind, with everybody who has
a hand in it."""

from __future__ import annotations

import asyncio

import pytest

from scaler.kube.api import ELASTIC_SERVICES, PODS, PatchType
from scaler.sim.actors import objects
from tests.simulation.kind_service import KindService, served
from tests.simulation.kinds import KINDS, PLAIN_PODS, Kind
from tests.simulation.test_kinds import run

LADDER = ((3, 1), (2, 1), (1, 1))
every_kind = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind is not PLAIN_PODS], ids=lambda kind: kind.name
)


async def whole(on: KindService) -> None:
    """All that the rule names runs."""
    on.add_nodes(on.service.nodes_for((3, 1)))
    await on.rule(*LADDER)
    await on.apply(3, 1)
    await on.runs(3, 1)


async def scale(on: KindService, replicas: int) -> None:
    (found,) = on.cluster.peek(ELASTIC_SERVICES)
    api = on.cluster.client("kubectl")
    patch = {"spec": {"replicas": replicas}}
    name = objects.name(found)
    await api.patch(ELASTIC_SERVICES, on.service.namespace, name, patch, patch_type=PatchType.MERGE)


def bound(on: KindService) -> int:
    return sum(bool(objects.node_of(pod)) for pod in on.cluster.peek(PODS, on.service.namespace))


@every_kind
def test_it_follows_what_is_wanted_down_to_nothing_and_back(kind: Kind) -> None:
    async def story() -> None:
        async with served(kind) as on:
            await whole(on)
            await scale(on, 3)
            await on.runs(2, 1)
            assert sorted(on.reasons("prefill")) == ["Running", "Running", "ScaledDown"]
            await scale(on, 1)
            await on.runs(1, 1)
            await scale(on, 0)
            await on.runs(0, 0)
            assert bound(on) == 0
            assert set(on.reasons("prefill") + on.reasons("decode")) == {"ScaledDown"}
            await scale(on, 4)
            await on.runs(3, 1)
            assert on.witness.counts["eviction"] > 0

    run(story())


@every_kind
def test_what_was_drained_stays_away_when_a_node_is_lost_and_the_smaller_ratio_is_whole_again(
    kind: Kind,
) -> None:
    async def story() -> None:
        async with served(kind) as on:
            await whole(on)
            await scale(on, 2)
            await on.runs(1, 1)
            lost = await on.lose_node_of("prefill")
            await on.until(
                lambda: on.counts() == (1, 1) and on.reasons("prefill").count("Running") == 1,
                "1P1D",
            )
            await on.runs(1, 1)
            await on.give_back(lost)
            await on.runs(1, 1)

    run(story())


def test_plain_pods_that_nobody_makes_again_are_left_alone() -> None:
    async def story() -> None:
        async with served(PLAIN_PODS) as on:
            await whole(on)
            await scale(on, 0)
            await asyncio.sleep(30)
            await on.runs(3, 1)
            assert set(on.reasons("prefill")) == {"SurplusRunning"}

    run(story())
