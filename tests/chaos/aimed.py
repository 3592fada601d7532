"""Histories aimed at what random ones rarely meet: races, half-bound instances, rollouts, upgrades,
and attacks.

Pure; a seed chooses kinds, numbers and moments, never what the history is about. In an attack the
healthy service starts, the attack begins, and in the middle of it one of its pods is killed: it
must be served all the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from scaler.sim.actors.nodes import NodeSpec
from tests.chaos import inventory, schedule
from tests.chaos.inventory import CPU_NODE, HEALTHY, HEALTHY_NODES, Inventory, Service
from tests.chaos.schedule import Event, Schedule
from tests.faults import WRITES, Fault, Rule
from tests.simulation import kinds
from tests.simulation.kinds import Kind

RACED = (
    kinds.DEPLOYMENTS,
    kinds.LEADER_WORKER_SETS,
    kinds.MIXED,
    kinds.STORM_STATELESS,
    kinds.INSTANCE_SETS,
)
OF_SEVERAL_PODS = (kinds.LEADER_WORKER_SETS,)
ROLLED = (kinds.DEPLOYMENTS, kinds.MIXED)
"""Nothing of their prefill group may be missing in a rollout: it goes on only when a newest one
runs beside."""
STORM = 90.0
APART = (2.0, 15.0)
"""Seconds between two replicas of one rolling update."""


def race(seed: int, *, gated: bool = False) -> Schedule:
    """An instance is bound, and while the scaler's watch of pods is behind, the rule has no place
    for it any more."""
    rng, service = _one_to_spare("race", seed, 1, RACED if gated else ())
    behind = schedule.api_fault(
        Fault.LAG, 29.0, 30.0, verbs=("watch",), kinds=("Pod",), seconds=10.0
    )
    event = Event(_soon(rng), "rule edited", "a", 1)
    return _spare_opens(seed, service, service.pods[0], event, api_faults=(behind,))


def half_bound(seed: int, *, gated: bool = False) -> Schedule:
    """Without gangs, some pods of an instance are bound and others wait when another group loses
    its node."""
    rng, service = _one_to_spare("half-bound", seed, 2, OF_SEVERAL_PODS if gated else ())
    event = Event(_soon(rng), "node under it lost", "a" if gated else "a-d0")
    return _spare_opens(seed, service, service.pods[0] - 1, event, gangs=False)


def rollout(seed: int) -> Schedule:
    """An update of a service none of whose instances is held, with nodes for the newest beside the
    outdated."""
    rng = random.Random(f"rollout-{seed}")
    largest = (rng.randint(1, 3), rng.randint(1, 2))
    ladder = tuple(dict.fromkeys((largest, (1, 1))))
    service = schedule.gated_service("a", rng.choice(ROLLED), ladder, largest)
    nodes = (CPU_NODE, *inventory.nodes("a", 2 * service.nodes_for(largest)))
    events = [Event(round(rng.uniform(20, 40), 1), "updated", "a", 2)]
    if rng.random() < 0.5:
        events.append(Event(round(rng.uniform(40, 80), 1), "updated", "a", 3))
    return Schedule(seed, Inventory((service,), nodes), STORM, tuple(events))


ROLLOUT = Schedule(
    0,
    Inventory(
        (schedule.gated_service("a", kinds.SURGING, ((2, 1), (1, 1)), (3, 1)),),
        (CPU_NODE, *inventory.nodes("a", 8)),
    ),
    60.0,
    (Event(30.0, "updated", "a", 2),),
)
"""One held, two running, and a whole new set of pods beside them: where pairs of revisions are
counted."""


def upgrade(seed: int) -> Schedule:
    """Of two replicas of the release before, each is replaced during whatever else goes wrong; in
    every second history both are replaced back. Numbers stay: the release before does not know of
    `service scaled`."""
    rng = random.Random(f"upgrade-{seed}")
    made = schedule.schedule(seed)
    events = [event for event in made.events if event.what != schedule.SCALED]
    for at in sorted(rng.uniform(0, made.storm * 0.8) for _ in range(rng.choice([1, 2]))):
        slots = rng.sample(range(2), 2)
        events += [
            Event(round(at + n * rng.uniform(*APART), 1), "roll", str(slot))
            for n, slot in enumerate(slots)
        ]
    return msgspec.structs.replace(made, events=(), replicas=2, election=True, earlier=True).also(
        *events
    )


def _one_to_spare(
    name: str, seed: int, least: int, made_by: Sequence[Kind]
) -> tuple[random.Random, Service]:
    """A service whose larger ratio has one prefill instance more. Its pods are of one of these
    kinds, else our own: at least so many of each prefill instance."""
    rng = random.Random(f"{'gated-' if made_by else ''}{name}-{seed}")
    kind = rng.choice(made_by) if made_by else None
    prefill = rng.randint(1, 2)
    ladder = ((prefill + 1, 1), (prefill, 1))
    if kind is not None:
        return rng, schedule.gated_service("a", kind, ladder, ladder[0])
    pods = (rng.randint(least, 3), rng.randint(1, 2))
    return rng, Service("a", "mindie", "a", ladder, ladder[0], pods)


def _spare_opens(seed: int, service: Service, number: int, event: Event, **more: Any) -> Schedule:
    """Beside the nodes of its smaller ratio so many spare ones open at 30 s; then comes the
    event."""
    spare = [NodeSpec(f"a-spare-{index}", labels={"pool": "a"}) for index in range(number)]
    nodes = (CPU_NODE, *inventory.nodes("a", service.nodes_for(service.ladder[-1])), *spare)
    closed = [Event(0.0, "node cordoned", node.name) for node in spare]
    opened = [Event(30.0, "node back", node.name) for node in spare]
    return Schedule(seed, Inventory((service,), nodes), STORM, (*closed, *opened, event), **more)


def _soon(rng: random.Random) -> float:
    """Some seconds after the spare nodes open."""
    return round(30 + rng.uniform(1.5, 4.0), 2)


# attacks

BLIND_TO = ("Pod", "AscendJob", "ConfigMap", "PodGroup", "Node", "Service")
FROM = 40.0
LASTING = 180.0
ATTACK_STORM = 420.0
HURT = 60.0
"""Seconds after which something of the healthy service is killed, in the middle of the attack."""
BACK_AT = 200.0
AT_ONCE = 45.0
"""Seconds in which it must be whole again though the attack goes on: binding, starting and getting
ready take ten."""
_NEIGHBOUR = Service("s", "slow", "s", ((4, 2), (2, 1), (1, 1)), jobs=(4, 2), pods=(1, 2))


class Hurt(NamedTuple):
    """When something of the healthy service is killed, and within how long it is whole again."""

    at: float = HURT
    within: float = AT_ONCE


def _history(
    seed: int,
    *events: Event,
    api_faults: tuple[Rule, ...] = (),
    hurt: Hurt | None = None,
    replicas: int = 1,
    neighbour: bool = False,
) -> Schedule:
    hurt = hurt or Hurt()
    services = (HEALTHY, _NEIGHBOUR) if neighbour else (HEALTHY,)
    number = _NEIGHBOUR.nodes_for(_NEIGHBOUR.ladder[0]) if neighbour else 0
    nodes = (CPU_NODE, *HEALTHY_NODES, *inventory.nodes("s", number))
    made = Schedule(
        seed, Inventory(services, nodes), ATTACK_STORM, api_faults=api_faults, attacked=True
    )
    return made.also(
        *events,
        Event(hurt.at, "healthy hurt", "", hurt.within),
        replicas=replicas,
        election=replicas > 1,
    )


def _writes(seed: int, *, what: str, number: int) -> Schedule:
    """It writes before the scaler starts, while it works, and again, so that a restart meets it
    too."""
    die = random.Random(f"{what}-{seed}")
    again = [Event(round(die.uniform(at, at + 20), 1), what, "", number) for at in (0.0, FROM)]
    more = [
        Event(round(die.uniform(FROM, 120), 2), "hostile labels", "", number // 2) for _ in range(4)
    ]
    return _history(seed, *again, *more, Event(round(die.uniform(90, 110), 1), "crash", "0", 2.0))


def _flood(seed: int) -> Schedule:
    events = [Event(FROM + 2 * number, "hostile flood", "", 100) for number in range(10)]
    return _history(seed, Event(10.0, "hostile crowd", "", 30), *events)


def _blind(seed: int, *, how: str) -> Schedule:
    """Every replica is; what was lost meanwhile is back soon after."""
    lasting = random.Random(f"blind-{seed}").uniform(60, LASTING)
    api_faults = schedule.blind(BLIND_TO[seed % len(BLIND_TO)], how, FROM, lasting)
    hurt = Hurt(within=FROM + lasting - HURT + AT_ONCE + 60)
    return _history(seed, api_faults=api_faults, hurt=hurt)


def _blind_leader(seed: int) -> Schedule:
    """The first of two replicas is, for longer than any patience, and a kill later the other one
    leads, too."""
    how = ("403", "silent", "hang")[seed % 3]
    api_faults = (
        *schedule.blind("Pod", how, FROM, 340.0, replica=0),
        *schedule.blind("Lease", "hang", 0.0, 10.0, replica=1),
    )
    return _history(seed, api_faults=api_faults, hurt=Hurt(within=240.0), replicas=2)


def _restored(seed: int) -> Schedule:
    """Objects and versions are those of two minutes ago: it would take as long until they are new
    again. Who led is gone, so that it falls to the one whose caches are from the future."""
    die = random.Random(f"restored-{seed}")
    back = Event(BACK_AT, "etcd restored", "", round(die.uniform(100, 140), 1))
    crash = Event(BACK_AT + 1, "crash", "0", 250.0)
    return _history(seed, back, crash, hurt=Hurt(BACK_AT + 15, 75.0), replicas=2)


def _slow_webhook(seed: int) -> Schedule:
    """Creating pods hangs in the namespace of another tenant, where there is always something to
    create."""
    slow = schedule.slow_webhook(_NEIGHBOUR.namespace, 0.0, 300.0)
    touched = [
        Event(20.0 + 2 * number, "group label changed", f"s-p{number % 4}") for number in range(60)
    ]
    return _history(seed, *touched, api_faults=(slow,), neighbour=True)


def _clocks(seed: int) -> Schedule:
    """The clock of its machine is an hour ahead or behind when a process starts; each time there is
    something to do."""
    hour = 3600.0 * random.Random(f"clock-{seed}").choice([1, -1])
    steps = [(FROM, hour), (HURT + 20, -hour), (HURT + 90, -hour)]
    events = []
    for at, way in steps:
        events += [Event(at, "clock stepped", "0", way), Event(at, "crash", "0", 2.0)]
    return _history(seed, *events, Event(HURT + 110, "healthy hurt", "", AT_ONCE))


def _retry_after(seed: int) -> Schedule:
    refused = schedule.retry_later(HURT - 5, 20.0, (WRITES, ("list", "watch"), ())[seed % 3])
    return _history(seed, api_faults=(refused,), hurt=Hurt(within=15 + 60 + AT_ONCE + 30))


_WRITTEN = {"hostile rules": 4, "hostile numbers": 30, "hostile depth": 20, "hostile crowd": 60}
ATTACKS: dict[str, Callable[[int], Schedule]] = {
    **{what: partial(_writes, what=what, number=number) for what, number in _WRITTEN.items()},
    "hostile flood": _flood,
    "blind by 403": partial(_blind, how="403"),
    "blind by silence": partial(_blind, how="silent"),
    "blind by hanging": partial(_blind, how="hang"),
    "blind leader": _blind_leader,
    "etcd restored": _restored,
    "slow webhook": _slow_webhook,
    "clock stepped": _clocks,
    "Retry-After": _retry_after,
}
FAMILIES: dict[str, Callable[[int], Schedule]] = {
    "race": race,
    "half-bound": half_bound,
    "gated-race": partial(race, gated=True),
    "gated-half-bound": partial(half_bound, gated=True),
    "rollout": rollout,
    "gated rollout": lambda _seed: ROLLOUT,
    "upgrade": upgrade,
    **ATTACKS,
}
HISTORIES = {"random": schedule.schedule, "gated": schedule.gated_schedule, **FAMILIES}
