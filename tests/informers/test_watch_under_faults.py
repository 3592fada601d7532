"""A informer on the simulated API server: whatever happens to requests and watches, it ends up at
the truth."""

from __future__ import annotations

import asyncio
import random

import pytest

from scaler.clock import Clock
from scaler.informers.informer import Informer
from scaler.informers.store import Store
from scaler.kube.api import CONFIG_MAPS, PatchType
from scaler.kube.errors import KubeError
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.faults import Fault, Faults, Rule
from tests.informers.records import Record, Thing, record

FAULTS = [
    Rule(fault=Fault.NOT_SENT, probability=0.2),
    Rule(fault=Fault.LOST_ANSWER, probability=0.2),
    Rule(fault=Fault.REFUSED, probability=0.1, status=410),
    Rule(fault=Fault.REFUSED, probability=0.1, status=429, retry_after=3.0),
    Rule(fault=Fault.CUT, probability=0.1),
    Rule(fault=Fault.RESET, probability=0.1),
    Rule(fault=Fault.LAG, probability=0.3, seconds=5.0),
]


async def change_something(cluster: SimCluster, dice: random.Random) -> None:
    name = f"c{dice.randrange(8)}"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    patch = {"data": {"k": str(dice.random())}}
    try:
        match dice.randrange(3):
            case 0:
                await cluster.create(CONFIG_MAPS, dice.choice(["x", "y"]), body)
            case 1:
                await cluster.patch(
                    CONFIG_MAPS, dice.choice(["x", "y"]), name, patch, patch_type=PatchType.MERGE
                )
            case _:
                await cluster.delete(CONFIG_MAPS, dice.choice(["x", "y"]), name)
    except KubeError:
        return


class ConfigMap(Thing):
    """ConfigMaps carry `data` of another type than the things of the other tests."""

    data: object = None  # type: ignore[assignment]


def told(changes: list[tuple[Record | None, Record | None]]) -> dict[tuple[str, str], str]:
    """What somebody believes who only heard of the changes; every change must start from what was
    believed before."""
    believed: dict[tuple[str, str], str] = {}
    for old, new in changes:
        name = ((old or new).namespace, (old or new).name)  # type: ignore[union-attr]
        assert believed.pop(name, None) == (old.resource_version if old else None)
        if new is not None:
            believed[name] = new.resource_version
    return believed


@pytest.mark.parametrize("namespaces", [None, ("x", "y")], ids=["all namespaces", "two namespaces"])
@pytest.mark.parametrize("seed", range(1, 16))
def test_the_store_ends_up_at_the_truth_and_never_goes_back(
    seed: int, namespaces: tuple[str, ...] | None
) -> None:
    async def main() -> None:
        dice = random.Random(seed)
        clock = Clock(1.8e9)
        cluster = SimCluster(clock, seed=seed, history=20)
        faults = Faults(clock, *dice.sample(FAULTS, 4), seed=seed)
        changes: list[tuple[Record | None, Record | None]] = []
        store: Store[Record] = Store(lambda old, new: changes.append((old, new)))
        informer = Informer(
            cluster.client("informer", faults),
            CONFIG_MAPS,
            store,
            record=record,
            decode=ConfigMap,
            namespaces=namespaces,
            rng=dice,
        )
        running = asyncio.create_task(informer.run())
        progress = [0]
        for _ in range(200):
            await change_something(cluster, dice)
            await asyncio.sleep(dice.expovariate(0.5))
            progress.append(store.version)
        faults.rules.clear()
        await asyncio.sleep(200)
        running.cancel()
        await asyncio.wait({running})
        truth = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): item["metadata"][
                "resourceVersion"
            ]
            for item in cluster.peek(CONFIG_MAPS)
        }
        assert {(one.namespace, one.name): one.resource_version for one in store.values()} == truth
        assert told(changes) == truth
        assert progress == sorted(progress)

    run(main(), seed=seed)
