"""A cluster that is restored from a backup under a leader and a standby: both find their way back,
nothing is lost."""

from __future__ import annotations

import asyncio

from scaler.kube.api import ASCEND_JOBS, NODES, PODS, Resource
from scaler.sim.loop import run
from tests.jobs import NAMESPACE
from tests.test_blind import MINUTE, Play, Replica, stage
from tests.test_minimums import nodes, service

BINDING = Resource("", "v1", "pods/binding", "Binding")


def known(replica: Replica) -> dict[str, str]:
    cache = replica.app.cache
    return {
        record.name: record.uid
        for store in (cache.jobs, cache.pods, cache.nodes)
        for record in store.values()
    }


def there(on: Play) -> dict[str, str]:
    jobs = on.cluster.peek(ASCEND_JOBS, NAMESPACE)
    pods = on.cluster.peek(PODS, NAMESPACE)
    found = [*jobs, *pods, *on.cluster.peek(NODES)]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


async def bind_all(on: Play) -> None:
    for pod in on.cluster.peek(PODS, NAMESPACE):
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
        await on.cluster.create(BINDING, NAMESPACE, body)


def test_both_replicas_know_what_there_is_within_a_minute() -> None:
    async def story() -> None:
        async with stage() as on:
            one = await on.start("one")
            two = await on.start("two")
            await bind_all(on)
            backup = on.cluster.server.store.back_up()
            before = there(on)
            await on.cluster.delete(ASCEND_JOBS, NAMESPACE, "a-p0")
            on.cluster.apply([*nodes(9), *service("b", prefill=1)], NAMESPACE)
            await asyncio.sleep(5 * MINUTE)
            assert known(one) == known(two) == there(on) != before
            on.cluster.restore(backup)
            await asyncio.sleep(MINUTE)
            assert known(one) == known(two) == there(on)
            assert there(on).items() >= before.items()
            await one.stop()
            on.cluster.apply([*nodes(6), *service("c", prefill=1)], NAMESPACE)
            await asyncio.sleep(30)
            assert on.holder == "two"
            assert on.created("two") == {"c-p0", "c-d0"}
            assert there(on).items() >= before.items()

    run(story())
