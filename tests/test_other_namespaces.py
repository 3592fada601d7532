"""What stands in another namespace is another tenant's: whatever it claims, nothing is read of it
about a service."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy

import pytest

from scaler.decide.world import Service, ServiceKey
from scaler.informers.changes import Changes, NodeChanged, PodChanged, ServiceChanged
from scaler.informers.resources import informers
from scaler.kube.api import EVENTS, KubeApi, Object, Resource
from scaler.sim import loop
from scaler.sim.stories.play import silence_logs
from scaler.state.cluster import ClusterState
from tests.simulation.kind_service import KindService, served
from tests.simulation.kinds import KINDS, Kind, Spot

KEY = ServiceKey(Spot().namespace, Spot().name, "qwen")
STRANGER = "stranger"
ROUND_TRIPS = 2.0


def as_it_is(_obj: Object) -> None:
    """The stranger's copy is the same in all but namespace and uid."""


def as_ended(obj: Object) -> None:
    """What the copy says of itself would end an instance, were it believed."""
    obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), "fault-type": "Separate"}
    obj["status"] = {
        "phase": "Failed",
        "conditions": [{"type": "Failed", "status": "True", "reason": "Forged"}],
    }
    if obj["kind"] == "Pod":
        obj["spec"] = {**obj["spec"], "nodeName": "nowhere", "schedulingGates": []}
    if obj["kind"] == "ConfigMap":
        obj["data"] = dict.fromkeys(obj.get("data", {}), "forged")


@asynccontextmanager
async def read(api: KubeApi) -> AsyncIterator[Callable[[], Service]]:
    """The service as the state shows it now, from watches of everything."""
    now = asyncio.get_running_loop().time
    changes = Changes()
    state = ClusterState(changes, now)
    changes.subscribe(PodChanged, state.on_pod)
    changes.subscribe(NodeChanged, state.on_node)
    changes.subscribe(ServiceChanged, state.on_instance)
    watched, _ = informers(api, state.cache, (), random.Random(0), "scaler-system")
    tasks = [asyncio.create_task(informer.run()) for informer in watched.values()]
    await asyncio.sleep(ROUND_TRIPS)

    def service() -> Service:
        state.forget_instances()
        return state.service(KEY)

    try:
        yield service
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def everything(on: KindService) -> list[tuple[Resource, Object]]:
    """All objects of the service's namespace that anybody may copy."""
    resources = [kind.resource for kind in on.cluster.server.catalog]
    kinds = [resource for resource in resources if resource.namespaced and resource != EVENTS]
    return [
        (resource, obj) for resource in kinds for obj in on.cluster.peek(resource, KEY.namespace)
    ]


@pytest.mark.parametrize("change", [as_it_is, as_ended])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_copies_in_another_namespace_change_nothing_of_a_service(
    kind: Kind, change: Callable[[Object], None]
) -> None:
    async def story() -> None:
        async with served(kind) as on:
            on.add_nodes(on.service.nodes_for((2, 1)))
            await on.rule((2, 1), (1, 1))
            await on.apply(3, 1)
            await on.runs(2, 1)
        async with read(on.cluster) as service:
            before = service()
            copies = []
            for resource, obj in everything(on):
                copy = deepcopy(obj) | {"apiVersion": resource.api_version, "kind": resource.kind}
                copy["metadata"] |= {"namespace": STRANGER, "resourceVersion": ""}
                change(copy)
                copies.append((resource, copy))
            assert len(copies) > 5
            on.cluster.apply([copy for _, copy in copies])
            await asyncio.sleep(ROUND_TRIPS)
            assert service() == before
            for resource, copy in copies:
                await on.cluster.delete(
                    resource, STRANGER, copy["metadata"]["name"], grace_period_seconds=0
                )
            await asyncio.sleep(ROUND_TRIPS)
            assert service() == before
            assert sum(instance.running for instance in before.instances) > 1

    silence_logs()
    loop.run(story(), seed=0)
