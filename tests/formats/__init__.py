"""What the scaler keeps in the cluster, as each release wrote it: one literal text for each.

    python -m tests.formats next

writes that of this tree, after a format has changed; at a release `next` gets its name.

The story is the same for all: a service starts, a prefill instance is lost and starts again; of one
whose pods others make a spare is held; the leader lets go. The objects are all that another release
finds; the last world is what it serves under /snapshots/world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from scaler.decide.world import World
from scaler.kube import api
from scaler.kube.api import Object
from scaler.names import DELETION_COST, HELD_COST, POD_GROUP
from scaler.sim.loop import run
from tests.chaos.writes import MADE_FOR_INSTANCES
from tests.jobs import NAMESPACE, held, job, node, rule_config_map, rule_document
from tests.rig import NODE, Rig, controller

FOLDER = Path(__file__).parent
NEXT = "next"
"""Of this tree."""
HOME = "scaler-home"
RULE = rule_document(
    *({"group0": prefill, "group1": 1} for prefill in (2, 1)), pods={"group0": 1, "group1": 2}
)
ROOMY = node("roomy", roomy=True)
KEPT = (
    api.CONFIG_MAPS,
    api.ELASTIC_SERVICES,
    api.LEASES,
    api.ASCEND_JOBS,
    *MADE_FOR_INSTANCES,
    api.DISRUPTION_BUDGETS,
)
ELECTED: dict[str, Any] = {"leader_election": True, "lease_namespace": HOME, "identity": "recorder"}


def record() -> dict[str, Any]:
    """`objects` of a cluster, as this tree leaves them, and its last `world`."""
    return run(_story())


async def _story() -> dict[str, Any]:
    on = Rig()
    worlds = [World(0.0, ())]
    on.observe = lambda world, decision: worlds.append(world)  # type: ignore[method-assign]  # noqa: ARG005
    on.apply(
        node(NODE),
        ROOMY,
        rule_config_map(RULE, trade="off"),
        job("p0"),
        job("p1"),
        job("d0", pods=2),
    )
    on.apply(rule_config_map(name="gates"), *_gated("engine-5d8", "group0", "q0", "q1", "q2"))
    on.apply(*_gated("decoder-77f", "group1", "e0"))
    async with controller(on, **ELECTED):
        await on.settle(20)  # a Lease that nobody gave back is waited for
        await on.start("p0", "d0")
        await on.start("p1")
        await on.kill("p1")
        await on.settle(5)
        await on.start("p1")
        for gated in ("q0", "e0", "q1"):
            (pod,) = [
                pod
                for pod in on.cluster.peek(api.PODS, NAMESPACE)
                if pod["metadata"]["name"] == gated
            ]
            await on.bind(pod, "roomy")
            await on.status(pod, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
            await on.settle(5)
        await on.settle(40)
    objects = [obj for resource in KEPT for obj in on.cluster.peek(resource)]
    return {"objects": objects, "world": json.loads(msgspec.json.encode(worlds[-1]))}


def _gated(owner: str, group: str, *names: str) -> list[Object]:
    """Pods of a ReplicaSet, as admission and Volcano leave them."""
    notes = {DELETION_COST: HELD_COST, POD_GROUP: f"podgroup-uid-{owner}"}
    return [
        held(name, group, owner=owner, rule="gates", annotations=notes, scheduler="volcano")
        for name in names
    ]
