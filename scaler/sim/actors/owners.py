"""The controllers that make pods for their owners, each started when the cluster has objects of its
types.

A stand-in without objects of its own would follow every pod in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from scaler.kube import api as kube
from scaler.kube.api import KubeApi, Resource
from scaler.sim.actors.deployments import Deployments, ReplicaSets
from scaler.sim.actors.leader_worker_sets import LeaderWorkerSets
from scaler.sim.actors.operators import InferOperator, Ome
from scaler.sim.actors.stand_in import Actor, Mirror
from scaler.sim.actors.stateful_sets import StatefulSets
from scaler.sim.actors.storm_services import StormServices
from scaler.sim.actors.volcano import PodGroups
from scaler.sim.actors.volcano_jobs import VolcanoJobs
from scaler.workloads.inferenceservice import INFERENCE_SERVICES
from scaler.workloads.inferserviceset import INFER_SERVICE_SETS, INFER_SERVICES, INSTANCE_SETS
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from scaler.workloads.stormservice import POD_SETS, ROLE_SETS, STORM_SERVICES
from scaler.workloads.volcanojob import VOLCANO_JOBS


class WhenUsed:
    """An actor that starts when the first object of these types exists, and then stays."""

    def __init__(self, api: KubeApi, actor: Actor, *resources: Resource) -> None:
        self._actor = actor
        self._mirror = Mirror(api, *resources)
        self._resources = resources

    async def run(self) -> None:
        """Wait, then act, until cancelled."""
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._mirror.run(), name="owners mirror")
            while not any(map(self._mirror.all, self._resources)):
                await self._mirror.wait()
            following.cancel()
        await self._actor.run()


def owners(api: KubeApi, *, counts_unavailable: bool = False) -> Sequence[WhenUsed]:
    """The controllers of Kubernetes, Volcano, LeaderWorkerSet, AIBrix, OME and Infer Operator that
    lead to pods.

    Ascend Operator is not among them: where the scaler makes the pods of AscendJobs, it does not
    run. `counts_unavailable`: StatefulSets are updated as since Kubernetes 1.35."""
    return [
        WhenUsed(api, Deployments(api), kube.DEPLOYMENTS),
        WhenUsed(api, ReplicaSets(api), kube.REPLICA_SETS),
        WhenUsed(api, StatefulSets(api, counts_unavailable=counts_unavailable), kube.STATEFUL_SETS),
        WhenUsed(api, LeaderWorkerSets(api), LEADER_WORKER_SETS),
        WhenUsed(api, StormServices(api), STORM_SERVICES, ROLE_SETS, POD_SETS),
        WhenUsed(
            api,
            InferOperator(api),
            INFER_SERVICE_SETS,
            INFER_SERVICES,
            INSTANCE_SETS,
        ),
        WhenUsed(api, Ome(api), INFERENCE_SERVICES),
        WhenUsed(api, VolcanoJobs(api), VOLCANO_JOBS),
        WhenUsed(api, PodGroups(api), kube.REPLICA_SETS, kube.STATEFUL_SETS, ROLE_SETS),
    ]
