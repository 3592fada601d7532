"""Histories of trouble for services whose pods others make: a few services of different kinds, each on its own nodes.

Pure, like tests.chaos.schedule, whose faults of the API these are.
"""

from __future__ import annotations

import random

from tests.chaos import things
from tests.chaos.schedule import (
    NAMES,
    TO_NODES,
    TO_RULES,
    TO_THE_SCALER,
    Catalogue,
    Event,
    Scene,
    Schedule,
    events_of,
    ladder_of,
    on_service,
    random_api_fault,
    scaled,
)
from tests.chaos.things import CPU_NODE, Service, World
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
)

KINDS = (
    ASCEND_JOBS, ASCEND_JOBS, DEPLOYMENTS, SURGING, SURGING, LEADER_WORKER_SETS, LEADERS_FIRST, MIXED, MIXED,
    VOLCANO_JOBS, STORM_STATEFUL, STORM_STATELESS, INSTANCE_SETS,
)  # fmt: skip
"""Not bare pods: what is lost of them nobody makes again."""
WATCHED = ("Pod", "Pod", "PodGroup", "ConfigMap", "Node", "ReplicaSet", "StatefulSet", "LeaderWorkerSet", "PodSet",
           "AscendJob", "Job", "Deployment", "Lease")  # fmt: skip


def gated_service(name: str, kind: Kind, ladder: tuple[Ratio, ...], jobs: Ratio, *, quota: bool = False) -> Service:
    """A service whose pods others make, in a namespace and on nodes of its own."""
    return Service(name, f"ns-{name}", name, ladder, jobs, kind.pods, kind=kind, quota=quota)


def gated_schedule(seed: int) -> Schedule:
    rng = random.Random(f"gated-{seed}")
    services = tuple(_service(rng, NAMES[i]) for i in range(rng.choice([1, 1, 2])))
    nodes = [CPU_NODE]
    for service in services:
        least, most = service.nodes_for(service.ladder[-1]), service.nodes_for(service.ladder[0]) + 2
        nodes += things.nodes(service.pool, rng.randint(least, most))
    storm = rng.choice([60.0, 120.0, 240.0])
    replicas = rng.choice([1, 2, 2])
    pool_nodes = [node.name for node in nodes[1:]]
    api_faults = [
        random_api_fault(rng, storm, rng.choice([-1, rng.randrange(replicas)]), WATCHED)
        for _ in range(rng.choice([0, 1, 2, 4, 7]))
    ]
    made = Schedule(
        seed=seed,
        world=World(services, tuple(nodes)),
        replicas=replicas,
        election=replicas > 1 or rng.random() < 0.5,
        storm=storm,
        events=events_of(rng, EVENTS, Scene(services, nodes, replicas), storm),
        api_faults=tuple(api_faults),
        linger=rng.choice([0.0, 0.0, 0.1]),
        stale_lists=rng.choice([0.0, 0.0, 0.2]),
        lost_nodes=tuple(rng.sample(pool_nodes, rng.choice([0, 0, 0, 1]))),
    )
    return scaled(made, random.Random(f"gated-scaled-{seed}"))


def _service(rng: random.Random, name: str) -> Service:
    ladder = ladder_of(rng, 3, 2, 2)
    jobs = (max(1, ladder[0][0] + rng.choice([-1, 0, 0, 1])), max(1, ladder[0][1] + rng.choice([0, 0, 1])))
    return gated_service(name, rng.choice(KINDS), ladder, jobs, quota=rng.random() < 0.3)


EVENTS: Catalogue = (
    *TO_THE_SCALER,
    (on_service("pod killed"), 4),
    (on_service("pod failed"), 2),
    (on_service("pod evicted"), 2),
    (on_service("instance killed"), 3),
    *TO_NODES,
    (on_service("scaled"), 3),
    (on_service("updated"), 5),
    (on_service("applied"), 1),
    (on_service("applied anew"), 1),
    *TO_RULES,
)


ROLLOUT = Schedule(
    seed=0,
    world=World(
        (gated_service("a", SURGING, ((2, 1), (1, 1)), (3, 1)),),
        (CPU_NODE, *things.nodes("a", 8)),
    ),
    storm=60.0,
    events=(Event(30.0, "updated", "a", 2),),
)
"""One held, two running, and a whole new set of pods beside them: where pairs of revisions are counted."""
