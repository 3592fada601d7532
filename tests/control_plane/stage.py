"""What the tests of the scaler do on a real API server: nodes, stand-ins, a service's manifests, and looking at it.

The stand-ins are those of the simulation, which speak nothing but KubeApi; kwok is the kubelet. Must not: judge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, NODES, PODS, QUEUES, KubeApi, Object
from scaler.kube.errors import AlreadyExistsError, KubeError
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node, befall
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.stories.census import Condition, InstanceView, census
from scaler.sim.stories.manifests import apply, read_manifests
from tests.control_plane.plane import ControlPlane

EXAMPLE = Path(__file__).parents[2] / "manifests" / "examples" / "2p1d"
SERVICE = "mindie/scaling-rule/mindie"
PATIENCE = 60.0
"""Seconds until something that should take one or two must have happened: test machines are busy."""
_NPU_LABELS = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
QUEUE: Object = {
    "apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1},
}  # fmt: skip


def wall_clock() -> Clock:
    """Inside a running loop."""
    return Clock(time.time() - asyncio.get_running_loop().time())


class Stage:
    """One cluster with its stand-ins. `api` is admin's."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self._specs: dict[str, NodeSpec] = {}

    async def add_npu_nodes(self, count: int, *, a3: bool = False) -> None:
        """Further machines with eight NPUs each (sixteen of kind A3): npu-0, npu-1, ..."""
        labels = _NPU_LABELS | ({"accelerator-type": "module-a3-16"} if a3 else {})
        for number in range(len(self._specs), len(self._specs) + count):
            await self.add_node(NodeSpec(f"npu-{number}", npu=16 if a3 else 8, labels=labels))

    async def add_node(self, spec: NodeSpec) -> None:
        self._specs[spec.name] = spec
        await add_node(self.api, spec)

    async def node(self, name: str, fate: NodeFate) -> None:
        await befall(self.api, self._specs[name], fate)

    async def apply(self, path: Path = EXAMPLE, *, change: Callable[[Object], Object] = lambda obj: obj) -> None:
        """Apply a file or a folder; `change` is applied to every object first."""
        for obj in read_manifests(path):
            await apply(self.api, change(obj))

    async def views(self, service: str = SERVICE) -> list[InstanceView]:
        """The service's instances as pods and nodes show them now."""
        jobs, pods, nodes = [(await self.api.list(resource)).items for resource in (ASCEND_JOBS, PODS, NODES)]
        return census(jobs, pods, nodes).get(service, [])

    async def running(self, service: str = SERVICE) -> dict[str, int]:
        """Running instances per group."""
        counts: dict[str, int] = {}
        for view in await self.views(service):
            counts[view.group] = counts.get(view.group, 0) + (view.condition is Condition.RUNNING)
        return counts

    async def runs(self, service: str = SERVICE, **groups: int) -> None:
        """Wait until exactly so many instances of each group run."""
        await until(lambda: self._runs(service, groups), f"{service} runs {groups}", self.views)

    async def _runs(self, service: str, groups: dict[str, int]) -> bool:
        return await self.running(service) == groups

    async def pods(self, namespace: str) -> list[str]:
        """Names of the pods that are there."""
        return [str(pod["metadata"]["name"]) for pod in (await self.api.list(PODS, namespace)).items]

    async def node_of(self, job: str, namespace: str = "mindie") -> str:
        """Where an instance of one pod runs."""
        pod = await self.api.get(PODS, namespace, f"{job}-master-0")
        return str(pod["spec"]["nodeName"])


async def until(
    condition: Callable[[], Awaitable[bool]], what: str, show: Callable[[], Awaitable[Any]] | None = None,
    seconds: float = PATIENCE,
) -> None:  # fmt: skip
    """Wait until the condition holds. AssertionError that says what did not come, and what is there instead.

    An API server that cannot answer now, after a restart for example, is asked again.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not await _holds(condition):
        if loop.time() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; there is {await show() if show else 'nothing'}")
        await asyncio.sleep(0.1)


async def _holds(condition: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await condition()
    except KubeError:
        return False


@asynccontextmanager
async def staged(plane: ControlPlane, *, npu_nodes: int = 0, detection: float = 0.5) -> AsyncIterator[Stage]:
    """A cluster with a gang scheduler and a fault actor for as long as the block lasts."""
    async with plane.client() as api, asyncio.TaskGroup() as actors:
        clock = wall_clock()
        tasks = [
            actors.create_task(GangScheduler(api, clock, period=0.2).run()),
            actors.create_task(FaultActor(api, clock, detection=detection).run()),
        ]
        with suppress(AlreadyExistsError):
            await api.create(QUEUES, None, QUEUE)
        stage = Stage(api)
        await stage.add_npu_nodes(npu_nodes)
        try:
            yield stage
        finally:
            for task in tasks:
                task.cancel()
