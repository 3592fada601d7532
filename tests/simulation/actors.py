"""What works in a simulated cluster beside the scaler: the machines, and what makes pods and PodGroups."""

from __future__ import annotations

from scaler.clock import Clock
from scaler.kube.api import KubeApi
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, NodeLifecycle
from scaler.sim.actors.owners import owners as owners_of_pods
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stand_in import Actor
from tests.deployed_operator import DeployedOperator

TIMINGS = KubeletTimings(start=(1.0, 3.0), ready=(1.0, 4.0), stop=(0.5, 2.0), crash_backoff=2.0)


def owners(api: KubeApi, clock: Clock) -> list[Actor]:
    """Every controller that makes pods and PodGroups, Ascend Operator where it is deployed."""
    return [*owners_of_pods(api), DeployedOperator(api, clock)]


def machines(api: KubeApi, clock: Clock, seed: int, *, gangs: bool = True, force_enqueue: bool = True) -> list[Actor]:
    faults = FaultActor(api, clock, detection=2.0, grace_over_time=60.0)
    nodes = NodeLifecycle(api, clock, eviction=30.0, orphan=20.0)
    kubelet = Kubelet(api, clock, timings=TIMINGS, seed=seed)
    scheduler = GangScheduler(api, gangs=gangs, force_enqueue=force_enqueue)
    return [scheduler, kubelet, faults, nodes, GarbageCollector(api)]
