"""Histories of trouble for services whose pods others make: a few services of different kinds, each on its own nodes.

Pure, like tests.campaign.schedule, whose weather and lives these are.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from scaler.sim.actors.nodes import NodeSpec
from tests.campaign.schedule import NAMES, Event, Schedule, describe, weather_of
from tests.campaign.things import CPU_NODE, World
from tests.simulation.kinds import (
    ASCEND_JOBS,
    DEPLOYMENTS,
    INSTANCE_SETS,
    LEADER_WORKER_SETS,
    LEADERS_FIRST,
    MIXED,
    STORM_STATEFUL,
    STORM_STATELESS,
    SURGING,
    VOLCANO_JOBS,
    Kind,
    Ratio,
    Spot,
)

KINDS = (
    ASCEND_JOBS, ASCEND_JOBS, DEPLOYMENTS, SURGING, SURGING, LEADER_WORKER_SETS, LEADERS_FIRST, MIXED, MIXED,
    VOLCANO_JOBS, STORM_STATEFUL, STORM_STATELESS, INSTANCE_SETS,
)  # fmt: skip
"""Not bare pods: what is lost of them nobody makes again."""
WATCHED = ("Pod", "Pod", "PodGroup", "ConfigMap", "Node", "ReplicaSet", "StatefulSet", "LeaderWorkerSet", "PodSet",
           "AscendJob", "Job", "Deployment", "Lease")  # fmt: skip


class GatedService(msgspec.Struct, frozen=True):
    """`ladder` begins with the largest ratio; `replicas` are the instances that its makers are told to make."""

    spot: Spot
    kind: Kind
    ladder: tuple[Ratio, ...]
    replicas: Ratio
    quota: bool
    """Somebody else holds its pods too, by a gate of their own, for a moment."""

    @property
    def name(self) -> str:
        return self.spot.name

    @property
    def key(self) -> str:
        return f"{self.spot.namespace}/{self.name}/qwen"


class GatedSchedule(Schedule, frozen=True):
    """Its world has the nodes; the services are here."""

    services: tuple[GatedService, ...]


def gated_schedule(seed: int) -> GatedSchedule:
    rng = random.Random(f"gated-{seed}")
    services = tuple(_service(rng, NAMES[i]) for i in range(rng.choice([1, 1, 2])))
    nodes = [NodeSpec(CPU_NODE, npu=0)]
    for service in services:
        least, most = service.kind.nodes_for(service.ladder[-1]), service.kind.nodes_for(service.ladder[0]) + 2
        nodes += [
            NodeSpec(f"{service.name}-{i}", labels={"pool": service.name}) for i in range(rng.randint(least, most))
        ]
    storm = rng.choice([60.0, 120.0, 240.0])
    replicas = rng.choice([1, 2, 2])
    pool_nodes = [node.name for node in nodes[1:]]
    weather = [
        weather_of(rng, storm, rng.choice([-1, rng.randrange(replicas)]), WATCHED)
        for _ in range(rng.choice([0, 1, 2, 4, 7]))
    ]
    return GatedSchedule(
        seed=seed,
        world=World((), tuple(nodes)),
        services=services,
        replicas=replicas,
        election=replicas > 1 or rng.random() < 0.5,
        storm=storm,
        events=_events(rng, services, tuple(nodes), replicas, storm),
        weather=tuple(weather),
        linger=rng.choice([0.0, 0.0, 0.1]),
        stale_lists=rng.choice([0.0, 0.0, 0.2]),
        lost_nodes=tuple(rng.sample(pool_nodes, rng.choice([0, 0, 0, 1]))),
        gangs=True,
    )


def _service(rng: random.Random, name: str) -> GatedService:
    ladder = [(rng.randint(1, 3), rng.randint(1, 2))]
    for _ in range(rng.randint(0, 2)):
        below = (rng.randint(1, ladder[-1][0]), rng.randint(1, ladder[-1][1]))
        if below != ladder[-1]:
            ladder.append(below)
    replicas = (max(1, ladder[0][0] + rng.choice([-1, 0, 0, 1])), max(1, ladder[0][1] + rng.choice([0, 0, 1])))
    return GatedService(
        Spot(name, f"ns-{name}", pool=name), rng.choice(KINDS), tuple(ladder), replicas, rng.random() < 0.3
    )


Maker = Callable[[random.Random, float, tuple[GatedService, ...], tuple[NodeSpec, ...], int], Event]


def _on_replica(what: str, least: float, most: float) -> Maker:
    return lambda rng, at, _services, _nodes, replicas: Event(
        at, what, str(rng.randrange(replicas)), round(rng.uniform(least, most), 2)
    )


def _on_service(what: str) -> Maker:
    return lambda rng, at, services, _nodes, _replicas: Event(
        at, what, rng.choice(services).name, rng.randrange(100)
    )  # fmt: skip


def _on_node(what: str) -> Maker:
    return lambda rng, at, _services, nodes, _replicas: Event(at, what, rng.choice(nodes).name)


def _plain(what: str) -> Maker:
    return lambda _rng, at, _services, _nodes, _replicas: Event(at, what)


EVENTS: tuple[tuple[Maker, int], ...] = (
    (_on_replica("crash", 0.0, 10.0), 4),
    (_on_replica("stop", 0.0, 10.0), 2),
    (_on_replica("freeze", 1.0, 30.0), 3),
    (_plain("lease deleted"), 1),
    (_plain("lease emptied"), 1),
    (_plain("compaction"), 2),
    (_plain("watches cut"), 2),
    (_on_service("pod killed"), 4),
    (_on_service("pod failed"), 2),
    (_on_service("pod evicted"), 2),
    (_on_service("instance killed"), 3),
    (_on_node("node not ready"), 2),
    (_on_node("node gone"), 2),
    (_on_node("node cordoned"), 1),
    (_on_node("node back"), 3),
    (_on_service("scaled"), 3),
    (_on_service("updated"), 5),
    (_on_service("applied"), 1),
    (_on_service("applied anew"), 1),
    (_on_service("rule edited"), 3),
    (_on_service("rule broken"), 2),
    (_on_service("rule deleted"), 2),
    (_on_service("rule mended"), 2),
    (_on_service("rule paused"), 1),
)


def _events(
    rng: random.Random, services: tuple[GatedService, ...], nodes: tuple[NodeSpec, ...], replicas: int, storm: float
) -> tuple[Event, ...]:
    """As in tests.campaign.schedule: troubles come in company."""
    makers = [maker for maker, weight in EVENTS for _ in range(weight)]
    made: list[Event] = []
    for _ in range(rng.choice([2, 6, 12, 20])):
        near = made[-1].at + rng.expovariate(1.0) if made and rng.random() < 0.4 else storm
        at = round(near if near < storm else rng.uniform(0, storm), rng.choice([0, 3]))
        made.append(rng.choice(makers)(rng, at, services, nodes, replicas))
    return tuple(sorted(made, key=lambda event: event.at))


_ROLLED = GatedService(Spot("a", "ns-a", pool="a"), SURGING, ((2, 1), (1, 1)), (3, 1), quota=False)
ROLLOUT = GatedSchedule(
    seed=0, replicas=1, election=False, storm=60.0, weather=(), linger=0.0, stale_lists=0.0, lost_nodes=(),
    gangs=True,
    world=World((), (NodeSpec(CPU_NODE, npu=0), *(NodeSpec(f"a-{i}", labels={"pool": "a"}) for i in range(8)))),
    services=(_ROLLED,), events=(Event(30.0, "updated", "a", 2),),
)  # fmt: skip
"""One held, two running, and a whole new set of pods beside them: where pairs of revisions are counted."""


def describe_gated(made: GatedSchedule) -> str:
    """The schedule for people, one thing a line."""
    told = [
        f"  service {s.name}: {s.kind.name}, ladder {s.ladder}, replicas {s.replicas}{', quota' if s.quota else ''}"
        for s in made.services
    ]
    return "\n".join([describe(made), *told])
