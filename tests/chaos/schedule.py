"""One history of trouble from one seed: a world, replicas of the controller, events, and faults of the API.

Pure: the same seed gives the same schedule, byte for byte. Everything in it ends with the storm.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from scaler.rules.rule import ALL
from scaler.sim.actors.nodes import NodeSpec
from tests.chaos.catalogue import (
    ATTACKS,
    EVENTS,
    GATED_EVENTS,
    SCALED,
    WATCHED,
    Event,
    Scene,
    api_fault,
    drawn,
    events_of,
    hardship,
    random_api_fault,
)
from tests.chaos.world import CPU_NODE, HEALTHY, HEALTHY_NODES, Service, World, nodes
from tests.faults import Fault, Rule
from tests.simulation import kinds
from tests.simulation.kinds import Kind, Ratio

NAMES = "abc"
RESTORE_TAKES = 5.0
"""Seconds in which no client gets an answer while etcd is restored and the API server starts again."""
GATED_KINDS = (
    kinds.ASCEND_JOBS, kinds.ASCEND_JOBS, kinds.DEPLOYMENTS, kinds.SURGING, kinds.SURGING, kinds.LEADER_WORKER_SETS,
    kinds.LEADERS_FIRST, kinds.MIXED, kinds.MIXED, kinds.VOLCANO_JOBS, kinds.STORM_STATEFUL, kinds.STORM_STATELESS,
    kinds.INSTANCE_SETS,
)  # fmt: skip
"""Not bare pods: what is lost of them is not made again."""
GATED_WATCHED = ("Pod", "Pod", "PodGroup", "ConfigMap", "Node", "ReplicaSet", "StatefulSet", "LeaderWorkerSet",
                 "PodSet", "AscendJob", "Job", "Deployment", "Lease")  # fmt: skip
NUMBERS = (0, 0, 1, 2, 3, 3, 4, 5, 6, ALL, ALL)
"""Of instances that `service scaled` asks for in all."""


class Schedule(msgspec.Struct, frozen=True):
    seed: int
    world: World
    storm: float
    """Seconds until everything that goes wrong has ended."""
    events: tuple[Event, ...] = ()
    api_faults: tuple[Rule, ...] = ()
    replicas: int = 1
    election: bool = False
    linger: float = 0.0
    """Share of the writes that reach the server seconds after their client gave up on them or died."""
    stale_lists: float = 0.0
    """Share of the lists that are answered with what the same client was answered before."""
    lost_nodes: tuple[str, ...] = ()
    """Nodes that never come back."""
    gangs: bool = True
    """Whether the scheduler binds gangs whole; otherwise each pod for itself."""
    attacked: bool = False
    """Whether it is about one attack, and nothing else hinders the scaler."""
    earlier: bool = False
    """Whether the replicas are of the release before at the beginning."""
    one_fault: Rule | None = None
    """In place of `api_faults`, for all replicas together: its `skip` counts the requests of all of them."""

    def outages(self) -> list[Rule]:
        """Of the API server, one for each restore of etcd."""
        at = [event.at for event in self.events if event.what == "etcd restored"]
        return [api_fault("etcd is restored", Fault.NOT_SENT, start, RESTORE_TAKES) for start in at]

    def also(self, *events: Event, **changes: object) -> Schedule:
        """With these events, and these changes of its fields."""
        ordered = tuple(sorted((*self.events, *events), key=lambda event: event.at))
        return msgspec.structs.replace(self, events=ordered, **changes)


def schedule(seed: int) -> Schedule:
    """What happens of itself, in every second one attacks as well, and in some an autoscaler."""
    rng = random.Random(f"campaign-{seed}")  # other words here would make other schedules of all known seeds
    number = rng.choice([1, 1, 1, 2, 2, 3])
    shared, apart = number > 1 and rng.random() < 0.4, rng.random() < 0.5
    services = tuple(_service(rng, NAMES[i], shared=shared, apart=apart) for i in range(number))
    made = _schedule(rng, seed, World(services, _nodes(rng, services, most=1)), most_lost=2)
    return scaled(_attacked(made, random.Random(f"attacks-{seed}")), random.Random(f"scaled-{seed}"))


def gated_schedule(seed: int) -> Schedule:
    """The same for services whose pods others make: a few of different kinds, each on its own nodes."""
    rng = random.Random(f"gated-{seed}")
    services = tuple(_gated_service(rng, NAMES[i]) for i in range(rng.choice([1, 1, 2])))
    made = _schedule(rng, seed, World(services, _nodes(rng, services, most=2)), most_lost=1)
    return scaled(made, random.Random(f"gated-scaled-{seed}"))


def _schedule(rng: random.Random, seed: int, world: World, *, most_lost: int) -> Schedule:
    storm, replicas = rng.choice([60.0, 120.0, 240.0]), rng.choice([1, 2, 2])
    watched = GATED_WATCHED if world.gated else WATCHED
    names = [node.name for node in world.nodes if node is not CPU_NODE]
    made = Schedule(
        seed=seed,
        world=world,
        replicas=replicas,
        election=replicas > 1 or rng.random() < 0.5,
        storm=storm,
        events=tuple(
            events_of(rng, GATED_EVENTS if world.gated else EVENTS, Scene(world.services, world.nodes, replicas), storm)
        ),
        api_faults=tuple(
            random_api_fault(rng, storm, rng.choice([-1, rng.randrange(replicas)]), watched)
            for _ in range(rng.choice([0, 1, 2, 4, 7]))
        ),
        linger=rng.choice([0.0, 0.0, 0.1]),
        stale_lists=rng.choice([0.0, 0.0, 0.2]),
        lost_nodes=tuple(rng.sample(names, rng.choice([0, 0, 0, *range(1, most_lost + 1)]) % (len(names) + 1))),
    )
    return made.also()


def _nodes(rng: random.Random, services: Sequence[Service], *, most: int) -> tuple[NodeSpec, ...]:
    """Of each pool from just enough for the largest minimum to so many more than needed."""
    made = [CPU_NODE]
    for pool in dict.fromkeys(service.pool for service in services):
        inside = [service for service in services if service.pool == pool]
        enough = max(s.nodes_for(s.ladder[-1]) for s in inside)
        made += nodes(pool, rng.randint(enough, sum(s.nodes_for(s.ladder[0]) for s in inside) + most))
    return tuple(made)


def _service(rng: random.Random, name: str, *, shared: bool, apart: bool) -> Service:
    ladder = _ladder(rng, 4, 3, 3)
    jobs = (max(1, ladder[0][0] + rng.choice([-1, 0, 0, 1])), max(1, ladder[0][1] + rng.choice([-1, 0, 0, 1])))
    pods = (rng.choice([1, 1, 2]), rng.choice([1, 1, 2, 3]))
    namespace = f"ns-{name}" if apart else "mindie"
    return Service(name, namespace, "all" if shared else name, ladder, jobs, pods, mindie=rng.random() < 0.7)


def _gated_service(rng: random.Random, name: str) -> Service:
    ladder = _ladder(rng, 3, 2, 2)
    jobs = (max(1, ladder[0][0] + rng.choice([-1, 0, 0, 1])), max(1, ladder[0][1] + rng.choice([0, 0, 1])))
    return gated_service(name, rng.choice(GATED_KINDS), ladder, jobs, quota=rng.random() < 0.3)


def gated_service(name: str, kind: Kind, ladder: tuple[Ratio, ...], jobs: Ratio, *, quota: bool = False) -> Service:
    """A service whose pods others make, in a namespace and on nodes of its own."""
    return Service(name, f"ns-{name}", name, ladder, jobs, kind.pods, kind=kind, quota=quota)


def _ladder(rng: random.Random, prefill: int, decode: int, steps: int) -> tuple[Ratio, ...]:
    """Falling ratios, at most so many below the first; the smallest serves."""
    ladder = [(rng.randint(1, prefill), rng.randint(1, decode))]
    for _ in range(rng.randint(0, steps)):
        below = (rng.randint(1, ladder[-1][0]), rng.randint(1, ladder[-1][1]))
        if below != ladder[-1]:
            ladder.append(below)
    return tuple(ladder)


def _attacked(made: Schedule, rng: random.Random) -> Schedule:
    """In every second one a hostile tenant, a blind spell or the like, and a healthy service that is left alone."""
    if rng.random() < 0.5:
        return made
    world, storm = made.world, made.storm
    scene = Scene(world.services, world.nodes, made.replicas)
    world = World((*world.services, HEALTHY), (*world.nodes, *HEALTHY_NODES))
    events = []
    for _ in range(rng.choice([0, 1, 3, 6])):
        kind = drawn(rng, ATTACKS)
        events.append(kind.draw(rng, round(rng.uniform(0, storm), 1), scene))
    faults = [
        one
        for _ in range(rng.choice([0, 1, 2]))
        for one in hardship(rng, scene, round(rng.uniform(0, storm * 0.6), 1), round(rng.uniform(5, storm * 0.4), 1))
    ]
    ordered = tuple(sorted((*events, *made.events), key=lambda event: event.at))
    return msgspec.structs.replace(made, world=world, events=ordered, api_faults=(*made.api_faults, *faults))


def scaled(made: Schedule, rng: random.Random) -> Schedule:
    """Other numbers of instances are asked for at random moments; the last stays."""
    if rng.random() < 0.6:
        return made
    names = [service.name for service in made.world.services if service is not HEALTHY]
    times = range(rng.choice([1, 2, 4, 8]))
    return made.also(
        *(Event(round(rng.uniform(0, made.storm), 1), SCALED, rng.choice(names), rng.choice(NUMBERS)) for _ in times)
    )
