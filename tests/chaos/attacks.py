"""Attacks on the scaler, and one family of histories for each: a healthy tenant must be served all the same.

Random schedules draw from the same attacks. Those of tests.chaos.not_yet succeed today. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.chaos import things
from tests.chaos.healthy_tenant import HEALTHY, NODES
from tests.chaos.schedule import WRITES, ApiFault, Event, Schedule, blind, slow_webhook, told_to_wait
from tests.chaos.things import CPU_NODE, Service, World

KINDS = ("Pod", "AscendJob", "ConfigMap", "PodGroup", "Node", "Service")
FROM, LASTING, STORM = 40.0, 180.0, 420.0
HURT = 60.0
"""Seconds after which something of the healthy service is killed, in the middle of the attack."""
BACK_AT = 200.0
AT_ONCE = 45.0
"""Seconds in which it must be whole again though the attack goes on: binding, starting and getting ready take ten."""
_NEIGHBOUR = Service("s", "slow", "s", ((4, 2), (2, 1), (1, 1)), jobs=(4, 2), pods=(1, 2))


def _history(
    seed: int, *events: Event, api_faults: tuple[ApiFault, ...] = (), at: float = HURT, within: float = AT_ONCE,
    replicas: int = 1, neighbour: bool = False,
) -> Schedule:  # fmt: skip
    """The healthy service starts, then comes the attack, then one of its instances is killed."""
    hurt = Event(at, "healthy hurt", "", within)
    services = (HEALTHY, _NEIGHBOUR) if neighbour else (HEALTHY,)
    number = _NEIGHBOUR.nodes_for(_NEIGHBOUR.ladder[0]) if neighbour else 0
    nodes = (CPU_NODE, *NODES, *things.nodes("s", number))
    return Schedule(
        seed=seed, world=World(services, nodes), replicas=replicas, election=replicas > 1, storm=STORM,
        events=tuple(sorted((*events, hurt), key=lambda event: event.at)), api_faults=api_faults, attacked=True,
    )  # fmt: skip


def _writes(what: str, number: int) -> Callable[[int], Schedule]:
    """It writes before the scaler starts, while it works, and again, so that a restart meets it too."""

    def made(seed: int) -> Schedule:
        die = random.Random(f"{what}-{seed}")
        again = [Event(round(die.uniform(at, at + 20), 1), what, "", number) for at in (0.0, FROM)]
        more = [Event(round(die.uniform(FROM, 120), 2), "hostile labels", "", number // 2) for _ in range(4)]
        crash = Event(round(die.uniform(90, 110), 1), "crash", "0", 2.0)
        return _history(seed, *again, *more, crash)

    return made


def _flood(seed: int) -> Schedule:
    events = [Event(FROM + 2 * number, "hostile flood", "", 100) for number in range(10)]
    return _history(seed, Event(10.0, "hostile crowd", "", 30), *events)


def _blind(how: str) -> Callable[[int], Schedule]:
    """Everybody is; what was lost meanwhile is back soon after."""

    def made(seed: int) -> Schedule:
        kind = KINDS[seed % len(KINDS)]
        lasting = random.Random(f"blind-{seed}").uniform(60, LASTING)
        within = FROM + lasting - HURT + AT_ONCE + 60
        return _history(seed, api_faults=blind(kind, how, FROM, lasting), within=within)

    return made


def _blind_leader(seed: int) -> Schedule:
    """The first of two replicas is, for longer than anybody would wait, and a kill later the other one leads, too."""
    how = ("403", "silent", "hang")[seed % 3]
    api_faults = (*blind("Pod", how, FROM, 340.0, replica=0), *blind("Lease", "hang", 0.0, 10.0, replica=1))
    return _history(seed, api_faults=api_faults, within=240.0, replicas=2)


def _restored(seed: int) -> Schedule:
    """Objects and versions are those of two minutes ago: it would take as long until they are new again. Who led is
    gone, so that it falls to the one whose caches are from the future."""
    die = random.Random(f"restored-{seed}")
    back = Event(BACK_AT, "etcd restored", "", round(die.uniform(100, 140), 1))
    crash = Event(BACK_AT + 1, "crash", "0", 250.0)
    return _history(seed, back, crash, at=BACK_AT + 15, within=75.0, replicas=2)


def _slow_webhook(seed: int) -> Schedule:
    """Creating pods hangs in the namespace of another tenant, where there is always something to create."""
    slow = slow_webhook(_NEIGHBOUR.namespace, 0.0, 300.0)
    touched = [Event(20.0 + 2 * number, "group label changed", f"s-p{number % 4}") for number in range(60)]
    return _history(seed, *touched, api_faults=(slow,), neighbour=True)


def _clocks(seed: int) -> Schedule:
    """The clock of its machine is an hour ahead or behind when a process starts; each time there is something to do."""
    hour = 3600.0 * random.Random(f"clock-{seed}").choice([1, -1])
    steps = [(FROM, hour), (HURT + 20, -hour), (HURT + 90, -hour)]
    events = [
        event for at, way in steps for event in (Event(at, "clock stepped", "0", way), Event(at, "crash", "0", 2.0))
    ]
    return _history(seed, *events, Event(HURT + 110, "healthy hurt", "", AT_ONCE))


def _retry_after(seed: int) -> Schedule:
    asked = told_to_wait(HURT - 5, 20.0, (WRITES, ("list", "watch"), ())[seed % 3])
    return _history(seed, api_faults=(asked,), within=15 + 60 + AT_ONCE + 30)


FAMILIES: dict[str, Callable[[int], Schedule]] = {
    "hostile rules": _writes("hostile rules", 4), "hostile numbers": _writes("hostile numbers", 30),
    "hostile depth": _writes("hostile depth", 20), "hostile crowd": _writes("hostile crowd", 60),
    "hostile flood": _flood, "blind by 403": _blind("403"), "blind by silence": _blind("silent"),
    "blind by hanging": _blind("hang"), "blind leader": _blind_leader, "etcd restored": _restored,
    "slow webhook": _slow_webhook, "clock stepped": _clocks, "Retry-After": _retry_after,
}  # fmt: skip
