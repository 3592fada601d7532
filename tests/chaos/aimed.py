"""Histories aimed at what random ones rarely meet: a bind that the scaler does not see, half-bound instances, rollouts.

Pure, like tests.chaos.schedule; a seed chooses kinds, numbers and moments, never what the history is about.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from scaler.sim.actors.nodes import NodeSpec
from tests.chaos import attacks, skew, things
from tests.chaos.gated_schedule import ROLLOUT, gated_service
from tests.chaos.schedule import ApiFault, Event, Schedule
from tests.chaos.things import CPU_NODE, Service, World
from tests.faults import Fault
from tests.simulation import kinds
from tests.simulation.kinds import Ratio

RACED = (kinds.DEPLOYMENTS, kinds.LEADER_WORKER_SETS, kinds.MIXED, kinds.STORM_STATELESS, kinds.INSTANCE_SETS)
OF_SEVERAL_PODS = (kinds.LEADER_WORKER_SETS,)
ROLLED = (kinds.DEPLOYMENTS, kinds.MIXED)
"""Nothing of their prefill group may be missing in a rollout: it goes on only when a newest one runs beside."""
STORM = 90.0
SPARE = "a-spare-"


def race(seed: int) -> Schedule:
    """An instance is bound, and while the scaler's watch of pods is behind, the rule has no place for it any more."""
    rng = random.Random(f"race-{seed}")
    ladder, pods = _one_to_spare(rng), (rng.randint(1, 3), rng.randint(1, 2))
    return _race(seed, Service("a", "mindie", "a", ladder, ladder[0], pods), rng)


def gated_race(seed: int) -> Schedule:
    """`race` for pods that others make."""
    rng = random.Random(f"gated-race-{seed}")
    kind, ladder = rng.choice(RACED), _one_to_spare(rng)
    return _race(seed, gated_service("a", kind, ladder, ladder[0]), rng)


def _race(seed: int, service: Service, rng: random.Random) -> Schedule:
    nodes = _nodes(service.nodes_for(service.ladder[-1]), spare=service.pods[0])
    return Schedule(
        seed, World((service,), nodes), STORM, (*_opened(nodes), _smaller_rule(rng)), api_faults=(_BEHIND,)
    )  # fmt: skip


def half_bound(seed: int) -> Schedule:
    """Without gangs, some pods of an instance are bound and others wait when another group loses its node."""
    rng = random.Random(f"half-bound-{seed}")
    ladder, pods = _one_to_spare(rng), (rng.randint(2, 3), rng.randint(1, 2))
    return _half_bound(seed, Service("a", "mindie", "a", ladder, ladder[0], pods), "a-d0", rng)


def gated_half_bound(seed: int) -> Schedule:
    """`half_bound` for pods that others make."""
    rng = random.Random(f"gated-half-bound-{seed}")
    kind, ladder = rng.choice(OF_SEVERAL_PODS), _one_to_spare(rng)
    return _half_bound(seed, gated_service("a", kind, ladder, ladder[0]), "a", rng)


def _half_bound(seed: int, service: Service, victim: str, rng: random.Random) -> Schedule:
    nodes = _nodes(service.nodes_for(service.ladder[-1]), spare=service.pods[0] - 1)
    return Schedule(seed, World((service,), nodes), STORM, (*_opened(nodes), _lost(rng, victim)), gangs=False)


def rollout(seed: int) -> Schedule:
    """An update of a service none of whose instances is held, with nodes for the newest beside the outdated."""
    rng = random.Random(f"rollout-{seed}")
    largest = (rng.randint(1, 3), rng.randint(1, 2))
    ladder = tuple(dict.fromkeys((largest, (1, 1))))
    service = gated_service("a", rng.choice(ROLLED), ladder, largest)
    nodes = _nodes(2 * service.nodes_for(largest), spare=0)
    events = [Event(round(rng.uniform(20, 40), 1), "updated", "a", 2)]
    if rng.random() < 0.5:
        events.append(Event(round(rng.uniform(40, 80), 1), "updated", "a", 3))
    return Schedule(seed, World((service,), nodes), STORM, tuple(events))


FAMILIES: dict[str, Callable[[int], Schedule]] = {
    "race": race, "half-bound": half_bound, "gated-race": gated_race, "gated-half-bound": gated_half_bound,
    "rollout": rollout, "gated rollout": lambda _seed: ROLLOUT, "upgrade": skew.upgrade, **attacks.FAMILIES,
}  # fmt: skip


def _one_to_spare(rng: random.Random) -> tuple[Ratio, Ratio]:
    """The larger ratio has one prefill instance more."""
    prefill = rng.randint(1, 2)
    return (prefill + 1, 1), (prefill, 1)


def _nodes(number: int, *, spare: int) -> tuple[NodeSpec, ...]:
    more = (NodeSpec(f"{SPARE}{index}", labels={"pool": "a"}) for index in range(spare))
    return (CPU_NODE, *things.nodes("a", number), *more)


def _opened(nodes: tuple[NodeSpec, ...]) -> list[Event]:
    """The spare nodes open at 30 s."""
    spare = [node.name for node in nodes if node.name.startswith(SPARE)]
    return [Event(0.0, "node cordoned", name) for name in spare] + [Event(30.0, "node back", name) for name in spare]


def _lost(rng: random.Random, victim: str) -> Event:
    """Some seconds later a node under the victim is lost."""
    return Event(round(30 + rng.uniform(1.5, 4.0), 2), "node under it lost", victim)


def _smaller_rule(rng: random.Random) -> Event:
    """Some seconds later the smallest ratio is the only one."""
    return Event(round(30 + rng.uniform(1.5, 4.0), 2), "rule edited", "a", 1)


_BEHIND = ApiFault("lag of Pod", 29.0, 30.0, 1.0, Fault.LAG, ("watch",), ("Pod",), 10.0)
