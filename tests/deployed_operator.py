"""Ascend Operator in a Deployment that `kubectl scale` starts and stops, as it is installed."""

from __future__ import annotations

import asyncio

from scaler.clock import Clock
from scaler.kube.api import DEPLOYMENTS, KubeApi, Object
from scaler.sim.actors import objects
from scaler.sim.actors.operator import NAMESPACE, AscendOperator
from scaler.sim.actors.stand_in import Mirror
from tests.sim import manifests

DEPLOYMENT = "ascend-operator-manager"


class DeployedOperator:
    """Runs an operator while its Deployment has replicas: `kubectl scale` starts and stops it, as in a cluster."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._mirror = Mirror(api, DEPLOYMENTS)

    async def run(self) -> None:
        """Follow the Deployment until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._mirror.run(), name="operator's kubelet mirror")
            process: asyncio.Task[None] | None = None
            while True:
                await self._mirror.wait()
                deployment = self._mirror.get(DEPLOYMENTS, NAMESPACE, DEPLOYMENT)
                wanted = deployment is not None and objects.spec(deployment).get("replicas", 1) > 0
                if wanted and process is None:
                    process = group.create_task(AscendOperator(self._api, self._clock).run(), name="operator")
                elif not wanted and process is not None:
                    process.cancel()
                    process = None


def deployment(replicas: int = 1) -> Object:
    """The operator's Deployment, as short as the scaler looks at it and an API server takes it."""
    made = manifests.deployment(DEPLOYMENT, replicas)
    made["metadata"] |= {"namespace": NAMESPACE, "labels": {"app": "controller-manager"}}
    return made
