"""Services that share the nodes of a real API server, and what they hold of them.

Each is the example of 2P1D down to 1P1D in a namespace of its own, and every instance fills a node.
Must not: judge, or ask the scaler for anything but its words (`said`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scaler.kube.api import ASCEND_JOBS, POD_GROUPS, PODS, KubeApi, Object, PatchType
from scaler.kube.errors import KubeError
from scaler.sim.actors import objects
from scaler.sim.actors.controller import StandIn
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.stories.instances import Condition, InstanceView, running
from scaler.sim.stories.manifests import apply, copied, ensure_namespace, read_manifests
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import ALONE, ScalerProcess, install, scaler
from tests.control_plane.stage import EXAMPLE, WatchingStage, operator, playing, until
from tests.control_plane.witness import WATCHED, census_of, witnessed

SERVICES = 20
PREFILL, DECODE = "group0", "group1"
POD_START = 2.0
"""Seconds from bound to Running: all jobs must be there before the first service could scale up."""
_PATIENCE = 150.0
"""Seconds for all of them: ten times what an idle machine needs."""
_FILES = ("00-rule", "20-prefill-p0", "21-prefill-p1", "30-decode-d0")


class Binder(StrEnum):
    """Who binds pods."""

    STAND_IN = "stand-in"
    """The simulation's gang scheduler."""
    KUBE_SCHEDULER = "kube-scheduler"
    """The plane's, one by one."""
    VOLCANO = "volcano"
    """The plane's."""


class Maker(StrEnum):
    """Who makes pods. If it is not the scaler, the policies gate them and the scaler releases them."""

    SCALER = "scaler"
    STAND_IN = "stand-in"
    """The simulation's Ascend Operator."""
    OPERATOR = "operator"
    """The plane's Ascend Operator."""


@dataclass(frozen=True)
class Way:
    """Who makes the pods and who binds them."""

    name: str
    maker: Maker = Maker.SCALER
    binder: Binder = Binder.STAND_IN

    @property
    def beside_operator(self) -> bool:
        return self.maker is not Maker.SCALER

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the scaler."""
        return (*ALONE, "--mode", "auto" if self.beside_operator else "create")


CREATED = Way("created")
CREATED_WITHOUT_GANGS = Way("created-without-gangs", binder=Binder.KUBE_SCHEDULER)
CREATED_WITH_VOLCANO = Way("created-with-volcano", binder=Binder.VOLCANO)
GATED = Way("gated", Maker.STAND_IN)
GATED_WITHOUT_GANGS = Way("gated-without-gangs", Maker.STAND_IN, Binder.KUBE_SCHEDULER)
GATED_WITH_VOLCANO = Way("gated-with-volcano", Maker.STAND_IN, Binder.VOLCANO)
OPERATED_WITH_VOLCANO = Way("operated-with-volcano", Maker.OPERATOR, Binder.VOLCANO)

Change = Callable[[Object], Object]


def unchanged(obj: Object) -> Object:
    """As it is in the file."""
    return obj


class _Queue(StandIn):
    """Lets every PodGroup into the queue at once: kube-scheduler knows none, and Ascend Operator waits for it."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, POD_GROUPS)

    async def _round(self) -> None:
        for group in self.mirror.all(POD_GROUPS):
            if objects.status(group).get("phase") in (None, "", "Pending"):
                place = objects.namespace(group), objects.name(group)
                with suppress(KubeError):
                    patch = {"status": {"phase": "Inqueue"}}
                    await self.api.patch(POD_GROUPS, *place, patch, patch_type=PatchType.MERGE)


class SharedStage(WatchingStage):
    """The services, their nodes, and the stand-ins of one way. `name` begins the names of the namespaces."""

    def __init__(self, plane: ControlPlane, api: KubeApi, way: Way, name: str, services: int) -> None:
        super().__init__(api, plane)
        self.namespaces = [f"{name}-{number:02}" for number in range(services)]
        self._way = way

    def actors(self) -> Iterator[Any]:
        """To be run beside the scaler."""
        yield self.mirror
        if self._way.binder is Binder.STAND_IN:
            yield GangScheduler(self.api, period=0.2)
        if self._way.maker is Maker.STAND_IN:
            yield operator(self.api)
        if self._way.beside_operator and self._way.binder is Binder.KUBE_SCHEDULER:
            yield _Queue(self.api)

    async def prepare(self, nodes: int) -> None:
        """Everything but the jobs."""
        await self.add_npu_nodes(nodes)
        for namespace in self.namespaces:
            await ensure_namespace(self.api, namespace)
        if self._way.beside_operator:
            await self.place_operator(*self.namespaces)
        await self.nodes_are_open(_PATIENCE)

    async def arrive(self, changes: Mapping[str, Change] | None = None) -> None:
        """All services at once. `changes`: what is different in the files of a namespace."""
        changes = changes or {}
        await asyncio.gather(*(self.join(name, changes.get(name, unchanged)) for name in self.namespaces))

    async def join(self, namespace: str, change: Change = unchanged) -> None:
        """One service; `change` is made to every object first."""
        for name in _FILES:
            for obj in copied(read_manifests(EXAMPLE / f"{name}.yaml"), namespace):
                await apply(self.api, self._scheduled(change(obj)))

    def _scheduled(self, obj: Object) -> Object:
        if self._way.binder is not Binder.KUBE_SCHEDULER or obj["kind"] != ASCEND_JOBS.kind:
            return obj
        return {**obj, "spec": {**obj["spec"], "schedulerName": "default-scheduler"}}

    async def leave(self, namespace: str) -> None:
        """The service is deleted by its user."""
        for job in (await self.api.list(ASCEND_JOBS, namespace)).items:
            await self.api.delete(ASCEND_JOBS, namespace, objects.name(job), propagation_policy="Background")

    def tally(self) -> dict[str, int]:
        """How many services run 2P1D, 1P1D, ...; `+ 1` = one more holds a node or may be given one."""
        return dict(Counter(map(_shape, self.services().values())))

    def serving(self) -> list[str]:
        """Namespaces of the services that run their minimum."""
        return [
            service.partition("/")[0]
            for service, views in self.services().items()
            if all(running(views).get(group, 0) for group in (PREFILL, DECODE))
        ]

    def runs_of(self, namespace: str) -> dict[str, int]:
        """Running instances of a service, by group."""
        found = (views for service, views in self.services().items() if service.partition("/")[0] == namespace)
        return running(next(found, []))

    def seats(self) -> dict[str, tuple[str, ...]]:
        """Nodes by the instance that has them."""
        found = self.services().items()
        return {f"{service} {view.name}": view.nodes for service, views in found for view in views if view.nodes}

    def services(self) -> Mapping[str, list[InstanceView]]:
        """Instances by service."""
        found = census_of(self.mirror)
        return {service: views for service, views in found.items() if service.partition("/")[0] in self.namespaces}

    async def comes_to(self, tally: Mapping[str, int]) -> None:
        """Wait until they run exactly this, and nobody else holds a node or waits for the scheduler."""
        is_so = f"the services run {tally}"
        await until(self._show, is_so, seconds=_PATIENCE, fits=lambda _: self.tally() == tally)

    async def _show(self) -> str:
        return f"{self.tally()}: {self.services()}"

    async def clear(self) -> None:
        for namespace in self.namespaces:
            await self.leave(namespace)
        await until(self._empty, "no pods are left", seconds=_PATIENCE)
        await super().clear()

    async def _empty(self) -> bool:
        return not any(objects.namespace(pod) in self.namespaces for pod in (await self.api.list(PODS)).items)


def _shape(views: Iterable[InstanceView]) -> str:
    views = list(views)
    counts = running(views)
    more = sum(view.condition not in (Condition.EMPTY, Condition.RUNNING) for view in views)
    return f"{counts.get(PREFILL, 0)}P{counts.get(DECODE, 0)}D" + (f" + {more}" if more else "")


@asynccontextmanager
async def shared(
    plane: ControlPlane, way: Way, nodes: int, *, services: int = SERVICES, name: str = ""
) -> AsyncIterator[SharedStage]:
    """Nodes, rules to come, and whoever the way needs, for as long as the block lasts."""
    async with plane.client() as api:
        stage = SharedStage(plane, api, way, name or f"{way.name}-{nodes}", services)
        async with playing(api, stage.actors()):
            try:
                await stage.prepare(nodes)
                yield stage
            finally:
                await stage.clear()


@asynccontextmanager
async def contended(
    plane: ControlPlane, way: Way, nodes: int, folder: Path, *, services: int = SERVICES, name: str = ""
) -> AsyncIterator[tuple[SharedStage, ScalerProcess]]:
    """The same with the scaler at work as users run it, and the witness watching; the scaler must log no error."""
    kubeconfig = install(plane)
    async with (
        shared(plane, way, nodes, services=services, name=name) as stage,
        witnessed(stage.api, WATCHED),
        scaler(folder, kubeconfig, flags=way.flags) as process,
    ):
        yield stage, process
        assert process.errors() == []
