"""One story for every workload kind, with everybody who has a hand in it, in virtual time.

A service starts at its smallest ratio, climbs, is scaled, gets other rules, loses nodes and pods,
recovers, is updated and deleted. Witnesses look at every release from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from scaler.kube.api import CONFIG_MAPS, EVENTS, POD_GROUPS, PODS
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.stories.play import silence_logs
from tests.chaos.view import view_of
from tests.simulation.kind_service import KindService, served
from tests.simulation.kinds import (
    DEPLOYMENTS,
    KINDS,
    LEADER_WORKER_SETS,
    PLAIN_PODS,
    Kind,
)

SEEDS = (0, 1)
TWO_ONE = ((2, 1), (1, 1))
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
every_seed = pytest.mark.parametrize("seed", SEEDS)


def run(story: Coroutine[Any, Any, None], seed: int = 0) -> None:
    silence_logs()
    loop.run(story, seed=seed)


async def started(on: KindService, prefills: int = 3) -> None:
    """On nodes for the smallest ratio, with more prefill instances than the rule has places for;
    then it climbs."""
    on.add_nodes(on.service.nodes_for((1, 1)))
    await on.rule(*TWO_ONE)
    await on.apply(prefills, 1)
    await on.runs(1, 1)
    on.add_nodes(on.service.nodes_for((1, 0)))
    await on.runs(2, 1)


@every_seed
@every_kind
def test_it_starts_at_the_smallest_ratio_and_climbs_and_what_is_held_blocks_nobody(
    kind: Kind, seed: int
) -> None:
    async def story() -> None:
        async with served(kind, seed) as on:
            await started(on)
            assert sorted(on.reasons("prefill")) == ["NotInRatio", "Running", "Running"]
            assert [one.released for one in on.instances("prefill")].count([]) == 1

    run(story(), seed)


@every_kind
def test_it_climbs_on_nodes_that_are_just_enough_where_volcano_keeps_room_for_what_is_in_its_queue(
    kind: Kind,
) -> None:
    async def story() -> None:
        async with served(kind, force_enqueue=False) as on:
            await started(on, prefills=2)

    run(story())


@every_seed
@every_kind
def test_lost_nodes_degrade_it_and_the_decode_instance_comes_back_first(
    kind: Kind, seed: int
) -> None:
    async def story() -> None:
        async with served(kind, seed) as on:
            await started(on)
            lost = await on.lose_node_of("prefill")
            await on.until(lambda: on.counts() == (1, 1), "1P1D")
            decode = await on.lose_node_of("decode")
            await on.until(lambda: on.counts()[1] == 0, "no decode instance")
            await on.apply(3, 1)  # of plain pods somebody has to make new ones
            await on.give_back(decode)
            await on.runs(1, 1)
            await on.give_back(lost)
            await on.runs(2, 1)

    run(story(), seed)


@every_seed
@every_kind
def test_pods_that_are_deleted_come_back_and_their_instance_runs_again(
    kind: Kind, seed: int
) -> None:
    async def story() -> None:
        async with served(kind, seed) as on:
            await started(on)
            for group, whole in (
                ("decode", False),
                ("decode", True),
                ("prefill", False),
                ("prefill", True),
            ):
                await kill(on, group, whole=whole)
                await on.apply(3, 1)
                await on.runs(2, 1)

    run(story(), seed)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind is not PLAIN_PODS], ids=lambda kind: kind.name
)
def test_a_node_that_refuses_every_pod_costs_a_pod_now_and_then_and_no_job(kind: Kind) -> None:
    """Contract section 2: a pod that its kubelet refuses is made anew after a pause, which grows
    from 10 s to 5 min, and is neither a restart nor the end of a job, in every kind."""

    async def story() -> None:
        async with served(kind) as on:
            on.add_nodes(on.service.nodes_for((1, 1)))
            await on.rule((1, 1))
            await on.apply(1, 1)
            await on.runs(1, 1)
            node = objects.node_of(on.instances("prefill")[0].pods[0])
            await on.rig.node(node, NodeFate.REFUSING)
            began = on.clock.now()
            await kill(on, "prefill", whole=True)
            await asyncio.sleep(600)
            made = pods_made(on, began)
            assert 1 < made <= 7 * on.kind.pods[0], (made, on.words())
            await on.rig.node(node, NodeFate.READY)
            await on.until(lambda: on.counts() == (1, 1), "1P1D", within=400)
            await on.runs(1, 1)
            left = [pod for pod in on.cluster.peek(PODS) if objects.phase(pod) == "Failed"]
            assert left == [], on.words()

    run(story())


def pods_made(on: KindService, began: float) -> int:
    """How many pods anybody made since then."""
    made = 0
    for write in on.cluster.writes():
        creates = (write.verb, write.resource, write.error) == ("create", PODS, "")
        made += write.moment >= began and creates
    return made


@every_seed
@every_kind
def test_the_rule_and_the_replicas_are_edited_and_held_instances_go_first(
    kind: Kind, seed: int
) -> None:
    async def story() -> None:
        async with served(kind, seed) as on:
            await started(on)
            before = running_uids(on)
            await on.rule((3, 1), *TWO_ONE)
            on.add_nodes(on.service.nodes_for((1, 0)))
            await on.runs(3, 1)
            await on.apply(4, 1)
            await on.runs(3, 1)
            assert sorted(on.reasons("prefill")) == ["NotInRatio", "Running", "Running", "Running"]
            running = running_uids(on)
            await on.apply(3, 1)
            await on.runs(3, 1)
            assert before < running_uids(on) == running
            await on.rule(*TWO_ONE)
            await on.runs(3, 1)
            await on.apply(2, 1)
            await on.runs(2, 1)
            assert running_uids(on) < running

    run(story(), seed)


@every_kind
def test_where_nothing_holds_pods_none_is_deleted_and_every_instance_is_reported(
    kind: Kind,
) -> None:
    async def story() -> None:
        async with served(kind, admission=False) as on:
            on.add_nodes(1)
            await on.rule(*TWO_ONE)
            await on.apply(3, 1)
            await asyncio.sleep(60)
            assert [write for write in on.cluster.writes("scaler") if write.verb == "delete"] == []
            events = [
                event for event in on.cluster.peek(EVENTS) if event["reason"] == "HoldNotPossible"
            ]
            reported = {event["involvedObject"]["name"] for event in events}
            for one in on.instances("prefill"):
                if one.pods:
                    names = {one.name, *map(objects.name, one.pods)}
                    assert not names.isdisjoint(reported)

    run(story())


@every_kind
def test_nothing_is_left_when_it_is_deleted(kind: Kind) -> None:
    async def story() -> None:
        async with served(kind) as on:
            await started(on)
            await on.apply_all([])

            def left() -> set[str]:
                found = [
                    obj
                    for kind in (PODS, POD_GROUPS, CONFIG_MAPS)
                    for obj in on.cluster.peek(kind, "infer")
                ]
                return {objects.name(obj) for obj in found}

            await on.until(lambda: left() <= {"qwen"}, "nothing left", within=400)

    run(story())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.rolls], ids=lambda kind: kind.name)
def test_a_rolling_update_ends(kind: Kind) -> None:
    async def story() -> None:
        async with served(kind) as on:
            await started(on, prefills=2)
            on.add_nodes(on.service.nodes_for((1, 1)))
            await on.apply(2, 1, image="server:2")
            await on.until(lambda: images(on) == {"server:2"}, "new images only", within=600)
            await on.runs(2, 1)

    run(story())


@pytest.mark.parametrize(
    ("kind", "replicas"), [(DEPLOYMENTS, 4), (LEADER_WORKER_SETS, 4)], ids=["4P", "4P-lws"]
)
def test_a_rolling_update_with_one_held_instance_ends(kind: Kind, replicas: int) -> None:
    async def story() -> None:
        async with served(kind) as on:
            on.add_nodes(on.service.nodes_for((4, 2)))
            await on.rule((3, 1), *TWO_ONE)
            await on.apply(replicas, 1)
            await on.runs(3, 1)
            await on.apply(replicas, 1, image="server:2")
            await on.until(lambda: images(on) == {"server:2"}, "new images only", within=600)
            await on.runs(3, 1)
            assert sorted(on.reasons("prefill")) == ["NotInRatio", "Running", "Running", "Running"]

    run(story())


async def kill(on: KindService, group: str, *, whole: bool) -> None:
    """Somebody deletes the pods of a running instance, or one of them, at once."""
    pods = on.chance.choice([one for one in on.instances(group) if one.running]).pods
    for pod in pods if whole else pods[:1]:
        await on.cluster.delete(
            PODS, on.service.namespace, objects.name(pod), grace_period_seconds=0
        )


def running_uids(on: KindService) -> set[str]:
    return {objects.uid(pod) for pod in on.cluster.peek(PODS) if objects.phase(pod) == "Running"}


def images(on: KindService) -> set[str]:
    """Of all pods of the service."""
    pods = [pod for one in view_of(on.cluster).instances for pod in one.pods]
    return {pod["spec"]["containers"][0]["image"] for pod in pods}
