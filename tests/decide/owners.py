"""How a Deployment and a LeaderWorkerSet replace their instances, as arithmetic: the other side of a rollout.

A pod is one instance here. It runs as soon as it is released and a node is free; a held one is never available, which
is all that these controllers see of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec

from scaler.decide.decide import decide
from scaler.decide.invariants import violations
from scaler.decide.world import Instance, Memory
from tests.builders import NOW, service, world
from tests.decide.cluster import apply

Fleet = tuple[Instance, ...]
Owner = Callable[[Fleet], Fleet]


def is_up(one: Instance) -> bool:
    return one.running > 0


def outdated(replicas: int, running: int, *, wanted: bool = True) -> Fleet:
    """What there is when the template changes: the first so many run, the others are held."""
    fleet = tuple(pod(number, outdated=True, wanted=replicas if wanted else 0) for number in range(replicas))
    return (*(start(one) for one in fleet[:running]), *fleet[running:])


def pod(number: int, *, outdated: bool = False, wanted: int = 0) -> Instance:
    """A gated pod of the one owner."""
    return Instance(
        uid=f"{'old' if outdated else 'new'}-{number}",
        name=f"p{number}",
        group="group0",
        created=NOW - 1000 + number,
        expected=1,
        kind="Deployment",
        pods=1,
        gated=1,
        made_by_us=False,
        owner="owner",
        outdated=outdated,
        wanted=wanted,
    )


def start(one: Instance) -> Instance:
    return msgspec.structs.replace(one, gated=0, bound=1, running=1, ready=1, admitted_at=NOW)


def roll(make: Owner, fleet: Fleet, *, target: int, nodes: int) -> list[Fleet]:
    """Owner, scaler and scheduler take turns until nothing moves; every fleet on the way, the last one at rest."""
    memory, way = Memory(), [fleet]
    for _ in range(100):
        seen = world(service(f"{target}P", make(fleet)), memory=memory)
        made = decide(seen)
        memory = made.memory
        assert violations(seen, made) == ()
        fleet = schedule(apply(seen, made).services[0].instances, nodes)
        if fleet == way[-1]:
            return way
        way.append(fleet)
    raise AssertionError(f"never comes to rest: {way[-1]}")


def schedule(fleet: Fleet, nodes: int) -> Fleet:
    """Released pods get the nodes that are free, one each, and run."""
    free = nodes - sum(is_up(one) for one in fleet)
    waiting = itertools.islice((one.uid for one in fleet if not one.gated and not is_up(one)), max(0, free))
    chosen = set(waiting)
    return tuple(start(one) if one.uid in chosen else one for one in fleet)


def deployment(replicas: int, *, surge: int, unavailable: int, wanted: bool = True) -> Owner:
    """RollingUpdate: first up with the new ReplicaSet, then down with the old one, what is not available first."""

    def make(fleet: Fleet) -> Fleet:
        old = [one for one in fleet if one.outdated]
        new = [one for one in fleet if not one.outdated]
        more = min(replicas + surge - len(fleet), replicas - len(new))
        if more > 0:
            added = (pod(len(new) + index, wanted=replicas if wanted else 0) for index in range(more))
            return (*fleet, *added)
        spare = len(fleet) - (replicas - unavailable) - sum(not is_up(one) for one in new)
        if spare <= 0:
            return fleet
        held = [one for one in old if not is_up(one)][:spare]
        up = max(0, sum(map(is_up, fleet)) - (replicas - unavailable))
        left = [one for one in old if one not in held]
        gone = {one.uid for one in [*held, *sorted(left, key=is_up)[:up]]}
        return tuple(one for one in fleet if one.uid not in gone)

    return make


def leader_worker_set(replicas: int, *, unavailable: int, at_once: bool = False) -> Owner:
    """Groups are made anew in place, the highest index first, as far as the partition allows. A StatefulSet goes one by
    one and waits for each; `at_once`: it knows maxUnavailable, and does
    nothing while so many groups are not available."""
    lowest = replicas

    def make(fleet: Fleet) -> Fleet:
        nonlocal lowest
        lowest = min(lowest, partition(fleet, unavailable))
        if at_once and sum(not is_up(one) for one in fleet) >= unavailable:
            return fleet
        for index in range(replicas - 1, lowest - 1, -1):
            if fleet[index].outdated:
                return (*fleet[:index], pod(index, wanted=replicas), *fleet[index + 1 :])
            if not is_up(fleet[index]) and not at_once:
                return fleet
        return fleet

    return make


def partition(fleet: Fleet, step: int) -> int:
    """From which index on groups may be replaced: as many below those that are done as may be unavailable, less those
    that are so already; groups that are not ready anyway cost nothing."""
    done = sum(1 for _ in itertools.takewhile(lambda one: is_up(one) and not one.outdated, reversed(fleet)))
    least = max(0, len(fleet) - done - step)
    found = least + sum(not is_up(one) for one in fleet[:least])
    for index in range(min(found, len(fleet) - 1), least - 1, -1):
        if is_up(fleet[index]) and fleet[index].outdated:
            break
        found = index
    return found
