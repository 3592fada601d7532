"""What the tests of the scaler do on a real API server: nodes, stand-ins, a service's manifests,
and looking at it.

The stand-ins are those of the simulation, which speak nothing but KubeApi; kubelets are a process
of the control plane. Must not: judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, NODES, PODS, QUEUES, KubeApi, Object
from scaler.kube.errors import AlreadyExistsError, KubeError
from scaler.sim.actors import objects
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node, change_node
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.apiserver.crds import definitions, workload_definitions
from scaler.sim.stories.instances import InstanceView, census, running
from scaler.sim.stories.manifests import apply, read_manifests
from tests.control_plane.plane import ControlPlane
from tests.jobs import QUEUE

MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLES = MANIFESTS / "examples"
EXAMPLE = EXAMPLES / "2p1d"
SERVICE = "mindie/scaling-rule/mindie"
PATIENCE = 60.0
"""Seconds until something that should take one or two must have happened: test machines are
busy."""
_NPU_LABELS = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
T = TypeVar("T")


def kinds_definitions() -> list[Object]:
    """Of every kind but LeaderWorkerSet, whose own one comes with its manager."""
    others = [
        crd
        for crd in workload_definitions()
        if objects.name(crd) != "leaderworkersets.leaderworkerset.x-k8s.io"
    ]
    return [*definitions(), *others]


class Stage:
    """One cluster. `api` is admin's."""

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
        await change_node(self.api, self._specs[name], fate)

    async def nodes_are_open(self) -> bool:
        """Whether every node takes pods: a new one is tainted until the control plane has seen it
        ready."""
        return not any(
            objects.spec(node).get("taints") for node in (await self.api.list(NODES)).items
        )

    async def remove_node(self, name: str) -> None:
        await self.api.delete(NODES, None, name)
        del self._specs[name]

    async def empty_nodes(self) -> list[str]:
        used = {objects.node_of(pod) for pod in (await self.api.list(PODS)).items}
        return [name for name in self._specs if name not in used]

    async def apply(
        self, path: Path = EXAMPLE, *, change: Callable[[Object], Object] = lambda obj: obj
    ) -> None:
        """Apply a file or a folder; `change` is applied to every object first."""
        for obj in read_manifests(path):
            await apply(self.api, change(obj))

    async def views(self, service: str = SERVICE) -> list[InstanceView]:
        """The service's instances as pods and nodes show them now."""
        found = {kind: (await self.api.list(kind)).items for kind in (ASCEND_JOBS, PODS, NODES)}
        return census(lambda kind: found.get(kind, ())).get(service, [])

    async def running(self, service: str = SERVICE) -> dict[str, int]:
        return running(await self.views(service))

    async def runs(self, service: str = SERVICE, **groups: int) -> None:
        """Wait until exactly so many instances of each group run."""
        await until(
            lambda: self.views(service),
            f"{service} runs {groups}",
            fits=lambda seen: running(seen) == groups,
        )

    async def pods(self, namespace: str) -> list[str]:
        return [
            str(pod["metadata"]["name"]) for pod in (await self.api.list(PODS, namespace)).items
        ]

    async def node_of(self, job: str) -> str:
        """Where an instance of one pod runs."""
        return str((await self.api.get(PODS, "mindie", f"{job}-master-0"))["spec"]["nodeName"])

    async def clear(self) -> None:
        """Leave no nodes to the next test; the owners of pods are gone before."""
        for name in self._specs:
            await self.api.delete(NODES, None, name)

    async def said(self, namespace: str, rule: str = "scaling-rule") -> list[dict[str, Any]]:
        """What the scaler says of every instance: name, group, reason and message among others."""
        found = (await self.api.list(ELASTIC_SERVICES, namespace)).items
        statuses = [each.get("status", {}) for each in found if each["spec"]["rule"] == rule]
        return [instance for status in statuses for instance in status.get("instances", ())]


async def until(
    read: Callable[[], Awaitable[T]],
    what: str,
    show: Callable[[], Awaitable[Any]] | None = None,
    seconds: float = PATIENCE,
    *,
    fits: Callable[[T], object] = bool,
) -> T:
    """Wait until what is read fits, and give it. AssertionError that says what did not come, and
    what is there instead.

    An API server that cannot answer now, after a restart for example, is read again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    found: T | None = None
    while True:
        with suppress(KubeError):
            found = await read()
            if fits(found):
                return found
        if loop.time() > deadline:
            raise AssertionError(
                f"not within {seconds:g} s: {what}; there is {await show() if show else found}"
            )
        await asyncio.sleep(0.1)


@asynccontextmanager
async def playing(api: KubeApi, actors: Iterable[Any]) -> AsyncIterator[None]:
    """A queue for gangs, and the stand-ins for as long as the block lasts."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(actor.run()) for actor in actors]
        with suppress(AlreadyExistsError):
            await api.create(QUEUES, None, QUEUE)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def staged(
    plane: ControlPlane, *, npu_nodes: int = 0, detection: float = 0.5
) -> AsyncIterator[Stage]:
    """A cluster with a gang scheduler and a fault actor for as long as the block lasts."""
    async with plane.client() as api:
        actors = (GangScheduler(api, period=0.2), FaultActor(api, Clock(), detection=detection))
        async with playing(api, actors):
            stage = Stage(api)
            await stage.add_npu_nodes(npu_nodes)
            yield stage
