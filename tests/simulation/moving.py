"""A live service that moves between Ascend Operator and the scaler, and what was written to it on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scaler.app import run_controller
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
    Object,
    PatchType,
)  # fmt: skip
from scaler.names import RANK_TABLE_KEY, RANK_TABLE_PREFIX
from scaler.settings import Settings
from scaler.sim.actors import objects
from scaler.sim.actors.devices import DevicePlugin
from scaler.sim.actors.operator import NAMESPACE
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.instances import Condition, census
from scaler.sim.stories.manifests import apply, read_manifests
from tests.deployed_operator import DEPLOYMENT, DeployedOperator, deployment
from tests.jobs import QUEUE
from tests.rig import at_work
from tests.sim.stage import Stage
from tests.simulation.actors import machines
from tests.simulation.worlds import A2, A3

SCALER, OPERATOR = "scaler", "operator"


class _Guard(Interceptor):
    """Notes every deletion of a pod that has a node: neither of the two may do that."""

    def __init__(self, cluster: SimCluster) -> None:
        self.broken: list[str] = []
        self._cluster = cluster

    async def before(self, request: Request) -> None:
        if request.verb == "delete" and request.resource == PODS:
            for pod in self._cluster.peek(PODS, request.namespace):
                if objects.name(pod) == request.name and objects.node_of(pod) and not objects.ended(pod):
                    self.broken.append(f"{request.client} deletes {request.name}")


class Moving(Stage):
    """The cluster, with the operator's Deployment at one replica. Every client is known to the audit by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = _Guard(self.cluster)
        self._scaler: asyncio.Task[None] | None = None

    # what happens

    async def furnish(self, nodes: int, manifests: Sequence[Path], more: Sequence[Object], *, a3: bool) -> None:
        names = (f"npu-{number}" for number in range(nodes))
        await self.nodes(*names, labels=A3 if a3 else A2, npu=16 if a3 else 8)
        await self.nodes("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500)
        self.cluster.apply([QUEUE])
        for path in manifests:
            for obj in read_manifests(path):
                await apply(self.cluster, obj)
        self.cluster.apply(more)

    async def scale_operator(self, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        await self.cluster.patch(DEPLOYMENTS, NAMESPACE, DEPLOYMENT, patch, patch_type=PatchType.MERGE)

    def start_scaler(self, **settings: Any) -> None:
        """Without budgets, whose labels would be among what is written, and with `settings`."""
        moving = {"mode": "auto", "arbitration": False, "disruption_budgets": False}
        chosen = Settings(**{"leader_election": False, "http_port": 0, **moving, **settings})
        api = self.cluster.client(SCALER, self.guard)
        self._scaler = asyncio.create_task(run_controller(api, chosen, self.clock, seed=0))

    async def stop_scaler(self) -> None:
        if self._scaler is not None:
            task, self._scaler = self._scaler, None
            assert not task.done(), task.exception()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # what there is

    def uids(self) -> dict[str, str]:
        """Every pod, PodGroup and Service of a job, by kind and name."""
        return {
            f"{resource.plural} {objects.name(obj)}": objects.uid(obj)
            for resource in (PODS, POD_GROUPS, SERVICES)
            for obj in self.cluster.peek(resource)
            if objects.owner_uid(obj)
        }

    def running(self) -> set[str]:
        """Instances under a rule that run."""
        found = census(self.cluster.peek(ASCEND_JOBS), self.cluster.peek(PODS), self.cluster.peek(NODES))
        return {view.name for views in found.values() for view in views if view.condition is Condition.RUNNING}

    def writes(self, client: str, *kinds: str) -> list[str]:
        """`verb plural name` of what a client wrote to objects of these kinds (plural; default: those of instances)."""
        wanted = kinds or ("pods", "podgroups", "services")
        return [
            f"{write.verb} {write.resource.plural} {write.name}"
            for write in self.cluster.writes(client)
            if write.resource.plural in wanted
        ]

    def tables(self) -> dict[str, tuple[str, str]]:
        """Of each rank table, by job: status and the ConfigMap's resourceVersion."""
        return {
            objects.name(found).removeprefix(RANK_TABLE_PREFIX): (
                json.loads(found["data"][RANK_TABLE_KEY])["status"],
                found["metadata"]["resourceVersion"],
            )
            for found in self.cluster.peek(CONFIG_MAPS)
            if objects.name(found).startswith(RANK_TABLE_PREFIX)
        }

    def last_condition(self, job: str) -> str:
        """Type and reason of the condition that `kubectl get acjob` shows."""
        found = next(obj for obj in self.cluster.peek(ASCEND_JOBS) if objects.name(obj) == job)
        last = objects.status(found)["conditions"][-1]
        return f"{last['type']} {last['reason']}"


@asynccontextmanager
async def moving(nodes: int, *manifests: Path, more: Sequence[Object] = (), a3: bool = False) -> AsyncIterator[Moving]:
    """An operator that has brought the manifests' services up, for as long as the block lasts."""
    on = Moving()
    on.cluster.apply([deployment()])
    api = on.cluster.client("world")
    operator = DeployedOperator(on.cluster.client(OPERATOR, on.guard), on.clock)
    actors = (*machines(api, on.clock, 0), DevicePlugin(api), operator)
    async with at_work(*(actor.run() for actor in actors)):
        await on.furnish(nodes, manifests, more, a3=a3)
        await asyncio.sleep(240)
        yield on
        await on.stop_scaler()
    assert on.guard.broken == []
