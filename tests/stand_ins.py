"""What works in a simulated cluster beside the scaler: the machines, what makes pods and PodGroups,
Ascend Operator in a Deployment as it is installed, and a quota system that holds pods by a gate of
its own for a moment."""

from __future__ import annotations

import asyncio

from scaler.clock import Clock
from scaler.kube.api import DEPLOYMENTS, PODS, KubeApi, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import Kubelet, KubeletTimings, NodeLifecycle
from scaler.sim.actors.operator import NAMESPACE, AscendOperator
from scaler.sim.actors.owners import owners as owners_of_pods
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stand_in import Actor, Mirror, StandIn, key_of
from scaler.sim.apiserver.server import Review
from scaler.timestamps import seconds_of
from tests.chaos.view import gates_of
from tests.sim import manifests

TIMINGS = KubeletTimings(start=(1.0, 3.0), ready=(1.0, 4.0), stop=(0.5, 2.0), crash_backoff=2.0)
DEPLOYMENT = "ascend-operator-manager"


def owners(api: KubeApi, clock: Clock) -> list[Actor]:
    """Every controller that makes pods and PodGroups, Ascend Operator where it is deployed."""
    return [*owners_of_pods(api), DeployedOperator(api, clock)]


def machines(
    api: KubeApi, clock: Clock, seed: int, *, gangs: bool = True, force_enqueue: bool = True
) -> list[Actor]:
    faults = FaultActor(api, clock, detection=2.0, grace_over_time=60.0)
    nodes = NodeLifecycle(api, clock, eviction=30.0, orphan=20.0)
    kubelet = Kubelet(api, clock, timings=TIMINGS, seed=seed)
    scheduler = GangScheduler(api, gangs=gangs, force_enqueue=force_enqueue)
    return [scheduler, kubelet, faults, nodes, GarbageCollector(api)]


class DeployedOperator:
    """Runs an operator while its Deployment has replicas: `kubectl scale` starts and stops it, as
    in a cluster."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._mirror = Mirror(api, DEPLOYMENTS)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._mirror.run(), name="operator's kubelet mirror")
            process: asyncio.Task[None] | None = None
            while True:
                await self._mirror.wait()
                deployment = self._mirror.get(DEPLOYMENTS, NAMESPACE, DEPLOYMENT)
                wanted = deployment is not None and objects.spec(deployment).get("replicas", 1) > 0
                if wanted and process is None:
                    process = group.create_task(
                        AscendOperator(self._api, self._clock).run(), name="operator"
                    )
                elif not wanted and process is not None:
                    process.cancel()
                    process = None


def deployment(replicas: int = 1) -> Object:
    """The operator's Deployment, as short as the scaler looks at it and an API server takes it."""
    made = manifests.deployment(DEPLOYMENT, replicas)
    made["metadata"] |= {"namespace": NAMESPACE, "labels": {"app": "controller-manager"}}
    return made


QUOTA = "acme.io/quota"
"""Its gate, and the label of the namespaces whose pods get it."""
PAUSE = 4.0
"""Seconds for which it holds a pod."""
_TAKE_OFF = {"spec": {"schedulingGates": [{"$patch": "delete", "name": QUOTA}]}}


def hold_for_quota(review: Review) -> Object:
    """The hook that puts the gate on."""
    if (
        review.operation == "CREATE"
        and review.resource == PODS
        and QUOTA in review.namespace_labels
    ):
        review.object["spec"].setdefault("schedulingGates", []).append({"name": QUOTA})
    return review.object


class Quota(StandIn):
    """Takes the gate off."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        super().__init__(api, PODS)
        self._clock = clock

    async def _round(self) -> float | None:
        waiting = [pod for pod in self.mirror.all(PODS) if QUOTA in gates_of(pod)]
        for pod in waiting:
            if self._clock.now() - seconds_of(pod["metadata"]["creationTimestamp"]) >= PAUSE:
                patch = {"metadata": {"uid": objects.uid(pod)}, **_TAKE_OFF}
                await self.attempt(
                    self.api.patch(PODS, *key_of(pod), patch, patch_type=PatchType.STRATEGIC)
                )
        return 1.0 if waiting else None
