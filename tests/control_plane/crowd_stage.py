"""Services that share the nodes of a real API server, and what they hold of them.

Each is the example of 2P1D down to 1P1D in a namespace of its own, and every instance fills a node.
Must not: judge, or ask the scaler for anything but its words (`said`).
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    KubeApi,
    Object,
    PatchType,
)
from scaler.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.mirror import Mirror
from scaler.sim.actors.operator import NAMESPACE, AscendOperator
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.stories.census import Condition, InstanceView, running
from scaler.sim.stories.manifests import apply, copied, ensure_namespace, read_manifests
from scaler.workloads.ascendjob import RULE_LABEL
from tests.control_plane.kinds_stage import WATCHED, census_of_pods
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import ALONE
from tests.control_plane.stage import EXAMPLE, QUEUE, Stage, until, wall_clock
from tests.deployed_operator import deployment

SERVICES = 20
PREFILL, DECODE = "group0", "group1"
POD_START = 2.0
"""Seconds from bound to Running: all jobs must be there before the first service could scale up."""
_PATIENCE = 150.0
"""Seconds for a whole crowd: ten times what an idle machine needs."""
_FILES = ("00-rule", "20-prefill-p0", "21-prefill-p1", "30-decode-d0")
_POLICIES = Path(__file__).parents[2] / "manifests" / "admission-policy"
_STATUS = "scaling-rule-scaler-status"
_OPT_IN = ("mind-cluster/scaling=enabled", "mind-cluster/beside-ascend-operator=true")


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


class _Queue:
    """Lets every PodGroup into the queue at once: kube-scheduler knows none, and Ascend Operator waits for it."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._mirror = Mirror(api, POD_GROUPS)

    async def run(self) -> None:
        await self._mirror.drive(self._round, "queue")

    async def _round(self) -> None:
        for group in self._mirror.all(POD_GROUPS):
            if objects.status(group).get("phase") in (None, "", "Pending"):
                place = objects.namespace(group), objects.name(group)
                with suppress(KubeError):
                    patch = {"status": {"phase": "Inqueue"}}
                    await self._api.patch(POD_GROUPS, *place, patch, patch_type=PatchType.MERGE)


class CrowdStage(Stage):
    """The services, their nodes, and the stand-ins of one way. `name` begins the names of the namespaces."""

    def __init__(self, plane: ControlPlane, api: KubeApi, way: Way, name: str, services: int) -> None:
        super().__init__(api)
        self.namespaces = [f"{name}-{number:02}" for number in range(services)]
        self._plane = plane
        self._way = way
        self._mirror = Mirror(api, *WATCHED)

    def actors(self) -> Iterator[Any]:
        """To be run beside the scaler."""
        yield self._mirror
        if self._way.binder is Binder.STAND_IN:
            yield GangScheduler(self.api, wall_clock(), period=0.2)
        if self._way.maker is Maker.STAND_IN:
            yield AscendOperator(self.api, wall_clock())
        if self._way.beside_operator and self._way.binder is Binder.KUBE_SCHEDULER:
            yield _Queue(self.api)

    async def prepare(self, nodes: int) -> None:
        """Everything but the jobs."""
        with suppress(AlreadyExistsError):
            await self.api.create(QUEUES, None, QUEUE)
        await self.add_npu_nodes(nodes)
        for namespace in self.namespaces:
            await ensure_namespace(self.api, namespace)
        if self._way.beside_operator:
            await self._place_operator()
        await until(self._nodes_are_open, "every node takes pods", seconds=_PATIENCE)

    async def _place_operator(self) -> None:
        self._plane.kubectl("apply", "-f", _POLICIES / "pods.yaml", "-f", _POLICIES / "ascendjobs.yaml")
        self._plane.kubectl("label", "--overwrite", "namespace", *self.namespaces, *_OPT_IN)
        await ensure_namespace(self.api, NAMESPACE)
        with suppress(AlreadyExistsError):
            await self.api.create(DEPLOYMENTS, NAMESPACE, deployment())
        await until(self._policies_in_force, "the policies are in force")

    async def _policies_in_force(self) -> bool:
        job = copied(read_manifests(EXAMPLE / "20-prefill-p0.yaml"), self.namespaces[-1])[-1]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": job["metadata"]}
        pod["spec"] = job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
        try:
            moved, gated = [await self._dry_run(body) for body in (job, pod)]
        except ControlPlaneError:
            return False
        return RULE_LABEL not in objects.labels_of(moved) and objects.gated(gated)

    async def _dry_run(self, body: Object) -> Object:
        words = ("create", "-f", "-", "--dry-run=server", "--output", "json")
        found: Object = json.loads(await asyncio.to_thread(self._plane.kubectl, *words, text=json.dumps(body)))
        return found

    async def _nodes_are_open(self) -> bool:
        """A new node is tainted until the control plane has seen it ready."""
        return not any(objects.spec(node).get("taints") for node in (await self.api.list(NODES)).items)

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
        return dict(Counter(map(_shape, self._services().values())))

    def serving(self) -> list[str]:
        """Namespaces of the services that run their minimum."""
        return [
            service.partition("/")[0]
            for service, views in self._services().items()
            if all(running(views).get(group, 0) for group in (PREFILL, DECODE))
        ]

    def running(self, namespace: str) -> dict[str, int]:
        """Running instances of a service, by group."""
        found = (views for service, views in self._services().items() if service.partition("/")[0] == namespace)
        return running(next(found, []))

    async def said(self, namespace: str) -> dict[str, tuple[str, str]]:
        """What the scaler says of a service's instances, by name: reason and words."""
        try:
            found = await self.api.get(CONFIG_MAPS, namespace, _STATUS)
        except NotFoundError:
            return {}
        services = json.loads(found["data"]["status.json"])["services"]
        return {
            instance["name"]: (instance["reason"], instance["words"])
            for service in services
            for instance in service["instances"]
        }

    def seats(self) -> dict[str, tuple[str, ...]]:
        """Nodes by the instance that has them."""
        return {
            f"{service} {view.name}": view.nodes
            for service, views in self._services().items()
            for view in views
            if view.nodes
        }

    def _services(self) -> Mapping[str, list[InstanceView]]:
        found = census_of_pods(self._mirror)
        return {service: views for service, views in found.items() if service.partition("/")[0] in self.namespaces}

    async def comes_to(self, tally: Mapping[str, int]) -> None:
        """Wait until they run exactly this, and nobody else holds a node or waits for the scheduler."""
        await until(lambda: self._is(tally), f"the services run {tally}", self._show, _PATIENCE)

    async def _is(self, tally: Mapping[str, int]) -> bool:
        return self.tally() == tally

    async def _show(self) -> str:
        return f"{self.tally()}: {self._services()}"

    async def clear(self) -> None:
        """Leave no jobs, pods and nodes to the next test."""
        for namespace in self.namespaces:
            await self.leave(namespace)
        await until(self._empty, "no pods are left", seconds=_PATIENCE)
        for name in self._specs:
            await self.api.delete(NODES, None, name)

    async def _empty(self) -> bool:
        return not any(objects.namespace(pod) in self.namespaces for pod in (await self.api.list(PODS)).items)


def _shape(views: Iterable[InstanceView]) -> str:
    views = list(views)
    counts = running(views)
    more = sum(view.condition not in (Condition.EMPTY, Condition.RUNNING) for view in views)
    return f"{counts.get(PREFILL, 0)}P{counts.get(DECODE, 0)}D" + (f" + {more}" if more else "")


@asynccontextmanager
async def crowded(
    plane: ControlPlane, way: Way, nodes: int, *, services: int = SERVICES, name: str = ""
) -> AsyncIterator[CrowdStage]:
    """Nodes, rules to come, and whoever the way needs, for as long as the block lasts."""
    async with plane.client() as api, asyncio.TaskGroup() as group:
        stage = CrowdStage(plane, api, way, name or f"{way.name}-{nodes}", services)
        tasks = [group.create_task(actor.run()) for actor in stage.actors()]
        try:
            await stage.prepare(nodes)
            yield stage
        finally:
            await stage.clear()
            for task in tasks:
                task.cancel()
