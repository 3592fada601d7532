"""The real controllers of Deployments, ReplicaSets and StatefulSets judge their stand-ins: one
story, told to both.

All pods are held, so that nothing depends on how fast anything starts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import (
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.names import DELETION_COST
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.owners import owners
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.control_plane.plane import ControlPlane
from tests.sim.manifests import deployment, stateful_set, template

pytestmark = pytest.mark.shares_plane("clients")
PAUSE = 4.0
"""Seconds in which a controller has done all that it will do while every pod is held."""
PARALLEL: Object = {"podManagementPolicy": "Parallel"}


class Told:
    """One story in a namespace of its own."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    async def create(self, resource: Resource, body: Object) -> None:
        await self.api.create(resource, self.namespace, body)
        await asyncio.sleep(PAUSE)

    async def change(self, resource: Resource, name: str, patch: Object) -> None:
        await self.api.patch(resource, self.namespace, name, patch, patch_type=PatchType.MERGE)
        await asyncio.sleep(PAUSE)

    async def pods(self) -> list[Object]:
        return (await self.api.list(PODS, self.namespace)).items

    async def images(self) -> Counter[str]:
        return Counter(pod["spec"]["containers"][0]["image"] for pod in await self.pods())

    async def images_by_name(self) -> dict[str, str]:
        return {
            objects.name(pod): pod["spec"]["containers"][0]["image"] for pod in await self.pods()
        }


def held() -> Object:
    return template(schedulingGates=[{"name": "hold"}])


def newer(**more: Any) -> Object:
    containers = [{"name": "server", "image": "server:2"}]
    return {"spec": {**more, "template": {"spec": {"containers": containers}}}}


async def an_update_of_held_pods(told: Told) -> Counter[str]:
    await told.create(DEPLOYMENTS, deployment(replicas=4, pod=held()))
    await told.change(DEPLOYMENTS, "web", newer())
    return await told.images()


async def an_update_with_one_replica(told: Told) -> Counter[str]:
    await told.create(DEPLOYMENTS, deployment(replicas=1, pod=held()))
    await told.change(DEPLOYMENTS, "web", newer())
    return await told.images()


async def a_recreation(told: Told) -> Counter[str]:
    await told.create(
        DEPLOYMENTS, deployment(replicas=2, pod=held(), strategy={"type": "Recreate"})
    )
    await told.change(DEPLOYMENTS, "web", newer())
    return await told.images()


async def a_resized_update(told: Told) -> Counter[int]:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    await told.create(DEPLOYMENTS, deployment(replicas=10, pod=held(), strategy=rolling))
    await told.change(DEPLOYMENTS, "web", newer())
    await told.change(DEPLOYMENTS, "web", {"spec": {"replicas": 15}})
    sets = (await told.api.list(REPLICA_SETS, told.namespace)).items
    return Counter(objects.spec(found)["replicas"] for found in sets)


async def the_cheapest_goes_first(told: Told) -> bool:
    await told.create(DEPLOYMENTS, deployment(replicas=4, pod=held()))
    cheap = objects.name((await told.pods())[2])
    await told.change(PODS, cheap, {"metadata": {"annotations": {DELETION_COST: "-10"}}})
    await told.change(DEPLOYMENTS, "web", {"spec": {"replicas": 3}})
    return cheap in {objects.name(pod) for pod in await told.pods()}


async def one_after_the_other(told: Told) -> dict[str, str]:
    await told.create(STATEFUL_SETS, stateful_set(pod=held()))
    return await told.images_by_name()


async def an_update_of_a_held_set(told: Told) -> dict[str, str]:
    await told.create(STATEFUL_SETS, stateful_set(pod=held(), **PARALLEL))
    await told.change(STATEFUL_SETS, "db", newer())
    return await told.images_by_name()


async def an_update_to_a_partition(told: Told) -> dict[str, str]:
    await told.create(STATEFUL_SETS, stateful_set(pod=held(), ordinals={"start": 2}, **PARALLEL))
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await told.change(STATEFUL_SETS, "db", newer(updateStrategy=strategy))
    for name in ("db-2", "db-3", "db-4"):
        await told.api.delete(PODS, told.namespace, name)
    await asyncio.sleep(PAUSE)
    return await told.images_by_name()


async def a_smaller_set(told: Told) -> dict[str, str]:
    await told.create(STATEFUL_SETS, stateful_set(pod=held(), **PARALLEL))
    await told.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    return await told.images_by_name()


Story = Callable[[Told], Awaitable[Any]]
STORIES: tuple[Story, ...] = (
    an_update_of_held_pods,
    an_update_with_one_replica,
    a_recreation,
    a_resized_update,
    the_cheapest_goes_first,
    one_after_the_other,
    an_update_of_a_held_set,
    an_update_to_a_partition,
    a_smaller_set,
)


async def outcomes(api: KubeApi) -> dict[str, Any]:
    """What comes of each story, all told at once."""

    async def tell(story: Story) -> Any:
        made = await api.create(NAMESPACES, None, {"metadata": {"generateName": "story-"}})
        return await story(Told(api, objects.name(made)))

    found = await asyncio.gather(*map(tell, STORIES))
    return {story.__name__: outcome for story, outcome in zip(STORIES, found, strict=True)}


async def simulated(minor: int = 35) -> dict[str, Any]:
    """The same with the stand-ins, which do as Kubernetes 1.`minor` does."""
    cluster = SimCluster(Clock(1_790_000_000.0))
    lives: list[Any] = [*owners(cluster, counts_unavailable=minor >= 35), GarbageCollector(cluster)]
    actors = [asyncio.create_task(actor.run()) for actor in lives]
    try:
        return await outcomes(cluster)
    finally:
        for actor in actors:
            actor.cancel()
        await asyncio.gather(*actors, return_exceptions=True)


async def test_the_stand_ins_do_what_the_real_controllers_do(plane: ControlPlane) -> None:
    expected = await asyncio.to_thread(run, simulated(plane.minor))
    async with plane.client() as api:
        assert await outcomes(api) == expected


def test_the_stories_are_not_all_alike() -> None:
    """The comparison would prove nothing if held pods stopped everything."""
    told = run(simulated())
    assert told["an_update_of_held_pods"] == {"server:1": 3, "server:2": 2}
    assert told["a_recreation"] == {"server:2": 2}
    assert told["an_update_to_a_partition"] == {
        "db-2": "server:1",
        "db-3": "server:2",
        "db-4": "server:2",
    }
