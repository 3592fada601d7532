"""How a Deployment and a LeaderWorkerSet replace their instances, by the arithmetic of the simulated ones.

A pod is one instance here. It runs as soon as it is released and a node is free; a held one is never available, which
is all that these controllers see of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec

from scaler.decide.decide import decide
from scaler.decide.invariants import violations
from scaler.decide.memory import Memory
from scaler.decide.world import Instance
from scaler.kube.api import Object
from scaler.sim.actors.deployments import Rollout
from scaler.sim.actors.deployments import roll as rolled
from scaler.sim.actors.leader_worker_sets import GroupCondition, Leaders, next_leaders
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
    """RollingUpdate; a ReplicaSet deletes pods that are not available first."""
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    spec = {"spec": {"replicas": replicas, "strategy": strategy}}

    def make(fleet: Fleet) -> Fleet:
        old = [one for one in fleet if one.outdated]
        new = [one for one in fleet if not one.outdated]
        sizes = rolled(Rollout(spec, _replica_set("new", new), (_replica_set("old", old),)))
        added = range(len(new), sizes.get("new", len(new)))
        gone = sorted(old, key=is_up)[: len(old) - sizes.get("old", len(old))]
        left = (one for one in fleet if one not in gone)
        return (*left, *(pod(number, wanted=replicas if wanted else 0) for number in added))

    return make


def _replica_set(name: str, pods: list[Instance]) -> Object:
    status = {"availableReplicas": sum(map(is_up, pods))}
    return {"metadata": {"name": name}, "spec": {"replicas": len(pods)}, "status": status}


def leader_worker_set(replicas: int, *, unavailable: int, at_once: bool = False) -> Owner:
    """Groups are made anew in place, the highest index first, as far as the partition allows. A StatefulSet goes one by
    one and waits for each; `at_once`: it knows maxUnavailable, and does
    nothing while so many groups are not available."""
    rolling = {"rollingUpdateConfiguration": {"maxUnavailable": unavailable}}
    spec = {"spec": {"replicas": replicas, "rolloutStrategy": rolling}}
    leaders = Leaders(replicas, replicas)

    def make(fleet: Fleet) -> Fleet:
        nonlocal leaders
        groups = [GroupCondition(is_up(one), not one.outdated) for one in fleet]
        leaders = next_leaders(spec, leaders, groups, new_revision=False, resized=False)
        if at_once and sum(not is_up(one) for one in fleet) >= unavailable:
            return fleet
        for index in range(replicas - 1, leaders.partition - 1, -1):
            if fleet[index].outdated:
                return (*fleet[:index], pod(index, wanted=replicas), *fleet[index + 1 :])
            if not is_up(fleet[index]) and not at_once:
                return fleet
        return fleet

    return make
