"""A stage for pods that others create: their controllers, real where they can be had, and the platforms' examples.

Deployments, StatefulSets and garbage are the real controller manager's, LeaderWorkerSets their own manager's. OME,
AIBrix, Infer Operator, Volcano's controllers and Ascend Operator are stand-ins. Must not: know of any platform.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    LEADER_WORKER_SETS,
    NAMESPACES,
    NODES,
    PODS,
    QUEUES,
    STATEFUL_SETS,
    VOLCANO_JOBS,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import AlreadyExistsError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.mirror import Mirror
from scaler.sim.actors.nodes import NodeFate
from scaler.sim.actors.pod_groups import PodGroups
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.apiserver.crds import definitions, workload_definitions
from scaler.sim.stories.census import Condition, InstanceView, census
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stage import QUEUE, Stage, until, wall_clock

WATCHED: tuple[Resource, ...] = (PODS, NODES, ASCEND_JOBS, VOLCANO_JOBS, STATEFUL_SETS)
"""What the census of instances needs."""
EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
_MANAGED_BY = "app.kubernetes.io/managed-by"


def census_of_pods(mirror: Mirror) -> dict[str, list[InstanceView]]:
    """Every service's instances, whoever makes their pods."""
    jobs = [*mirror.all(ASCEND_JOBS), *mirror.all(VOLCANO_JOBS)]
    sizes = {objects.uid(made): int(objects.spec(made).get("replicas", 1)) for made in mirror.all(STATEFUL_SETS)}
    return census(jobs, mirror.all(PODS), mirror.all(NODES), sizes)


def kinds_definitions() -> list[Object]:
    """Of every kind but LeaderWorkerSet, whose own one comes with its manager."""
    real = f"{LEADER_WORKER_SETS.plural}.{LEADER_WORKER_SETS.group}"
    others = [crd for crd in workload_definitions() if objects.name(crd) != real]
    return [*definitions(), *others]


Scale = Callable[["KindsStage", int], None]


@dataclass(frozen=True)
class Platform:
    """Who makes the pods of a service, and the service."""

    namespace: str
    job_id: str
    files: tuple[Path, ...]
    minimum: int
    """Nodes that the smallest ratio needs."""
    actors: tuple[Callable[[KubeApi], Any], ...]
    """What makes the pods, besides the controllers that are real."""
    scale: Scale
    """Let there be so many prefill instances, as a user of the platform would."""
    prefill: str = "prefill"
    decode: str = "decode"

    @property
    def service(self) -> str:
        return f"{self.namespace}/scaling-rule/{self.job_id}"


class KindsStage(Stage):
    """The stage of one platform's service."""

    def __init__(self, api: KubeApi, plane: ControlPlane, platform: Platform) -> None:
        super().__init__(api)
        self.plane = plane
        self.platform = platform
        self.mirror = Mirror(api, *WATCHED)

    async def views(self, service: str = "") -> list[InstanceView]:
        """The service's instances as pods and nodes show them now."""
        return census_of_pods(self.mirror).get(service or self.platform.service, [])

    async def runs_both(self, prefill: int, decode: int) -> None:
        """Wait until exactly so many run."""
        counts = {self.platform.prefill: prefill, self.platform.decode: decode}
        await self.runs(self.platform.service, **counts)

    async def seats(self) -> dict[str, tuple[str, ...]]:
        """Nodes of the instances that run, by name."""
        return {view.name: view.nodes for view in await self.views() if view.condition is Condition.RUNNING}

    async def has(self, instances: int, group: str) -> bool:
        """Whether there are so many, held ones included."""
        return sum(view.group == group for view in await self.views()) == instances

    async def lose(self, group: str) -> str:
        """A node under a running instance of this group stops answering, and Volcano ends its pods; the node's name."""
        views = [view for view in await self.views() if view.group == group and view.condition is Condition.RUNNING]
        name = views[0].nodes[0]
        await self.node(name, NodeFate.NOT_READY)
        await until(lambda: self._empty(name), f"{name} has no pods", self.views)
        return name

    async def _empty(self, node: str) -> bool:
        return node in await self._empty_nodes()

    async def reasons(self) -> dict[str, list[str]]:
        """What the scaler says of the instances that do not run: reasons by group."""
        found: dict[str, list[str]] = {}
        for config_map in (await self.api.list(CONFIG_MAPS, self.platform.namespace)).items:
            if objects.labels_of(config_map).get(_MANAGED_BY) != "mind-cluster-scaler":
                continue
            for service in json.loads(config_map["data"].get("status.json", '{"services": []}'))["services"]:
                for instance in service["instances"]:
                    found.setdefault(instance["group"], []).append(instance["reason"])
        return found

    async def says(self, group: str, reason: str) -> None:
        """Wait until an instance of the group has this reason."""
        await until(lambda: self._says(group, reason), f"an instance of {group} says {reason}", self.reasons)

    async def _says(self, group: str, reason: str) -> bool:
        return reason in (await self.reasons()).get(group, [])

    async def edit_rule(self, *ratios: tuple[int, int]) -> None:
        """Let the rule have these ratios of (prefill, decode), largest first."""
        place = CONFIG_MAPS, self.platform.namespace, "scaling-rule"
        rule = await self.api.get(*place)
        document = json.loads(rule["data"]["elastic_scaling.json"])
        like = document["elastic_scaling_list"][0]["group_list"]
        document["elastic_scaling_list"] = [
            {"group_list": [{**group, "group_num": str(count)} for group, count in zip(like, ratio, strict=True)]}
            for ratio in ratios
        ]
        patch = {"data": {"elastic_scaling.json": json.dumps(document)}}
        await self.api.patch(*place, patch, patch_type=PatchType.MERGE)

    async def remove_empty_node(self) -> None:
        """Take a node away as soon as there is one without pods."""
        await until(self._one_is_empty, "a node has no pods", self.views)
        name = (await self._empty_nodes())[0]
        await self.api.delete(NODES, None, name)
        del self._specs[name]

    async def _one_is_empty(self) -> bool:
        return bool(await self._empty_nodes())

    async def _empty_nodes(self) -> list[str]:
        used = {objects.node_of(pod) for pod in (await self.api.list(PODS)).items}
        return [name for name in self._specs if name not in used]

    def kubectl(self, verb: str, *flags: str) -> None:
        """`apply` or `delete` the service's files."""
        self.plane.kubectl(verb, *flags, *(word for path in self.platform.files for word in ("-f", path)))

    async def settled(self) -> None:
        """Wait until no namespace of this name is going away."""
        await until(self._settled, f"namespace {self.platform.namespace} is there or not")

    async def _settled(self) -> bool:
        try:
            found = await self.api.get(NAMESPACES, None, self.platform.namespace)
        except NotFoundError:
            return True
        return not objects.terminating(found)

    async def _gone(self) -> bool:
        return not await self.pods(self.platform.namespace)

    async def clear(self) -> None:
        """Leave nothing to the next test: no pods, no nodes."""
        self.kubectl("delete", "--wait=false", "--ignore-not-found")
        await until(self._gone, "no pods are left", lambda: self.pods(self.platform.namespace))
        for name in self._specs:
            await self.api.delete(NODES, None, name)

    def patch(self, kind: str, name: str, patch: Any) -> None:
        """`kubectl patch`: a list is a JSON patch, anything else a merge patch."""
        encoding = "json" if isinstance(patch, list) else "merge"
        place = ("--namespace", self.platform.namespace, kind, name)
        self.plane.kubectl("patch", *place, "--type", encoding, "--patch", json.dumps(patch))


@asynccontextmanager
async def kinds_staged(plane: ControlPlane, platform: Platform) -> AsyncIterator[KindsStage]:
    """The platform's minimum of nodes and every controller, for as long as the block lasts."""
    async with plane.client() as api, asyncio.TaskGroup() as actors:
        clock = wall_clock()
        stage = KindsStage(api, plane, platform)
        volcano = [] if plane.options.volcano else [GangScheduler(api, clock, period=0.2), PodGroups(api)]
        faults = FaultActor(api, clock, detection=0.5)
        lives = [*volcano, faults, stage.mirror, *(make(api) for make in platform.actors)]
        tasks = [actors.create_task(actor.run()) for actor in lives]
        with suppress(AlreadyExistsError):
            await api.create(QUEUES, None, QUEUE)
        await stage.settled()
        await stage.add_npu_nodes(platform.minimum)
        try:
            yield stage
        finally:
            await stage.clear()
            for task in tasks:
                task.cancel()


async def climb_degrade_and_recover(stage: KindsStage) -> None:
    """The story, from the moment on at which the minimum runs."""
    await stage.add_npu_nodes(2)
    await stage.runs_both(2, 1)
    await _scale_and_edit_the_rule(stage)
    await _degrade_and_recover(stage)


async def _scale_and_edit_the_rule(stage: KindsStage) -> None:
    """A third prefill instance waits, although there is room, until the rule has one. Scaled down it goes first."""
    running = await stage.seats()
    stage.platform.scale(stage, 3)
    await stage.says(stage.platform.prefill, "NotInRatio")
    stage.platform.scale(stage, 2)
    await until(lambda: stage.has(2, stage.platform.prefill), "the third instance is gone", stage.views)
    assert await stage.seats() == running
    stage.platform.scale(stage, 3)
    await stage.says(stage.platform.prefill, "NotInRatio")
    await stage.edit_rule((3, 1), (2, 1), (1, 1))
    await stage.runs_both(3, 1)
    stage.platform.scale(stage, 2)
    await stage.runs_both(2, 1)
    await stage.remove_empty_node()


async def _degrade_and_recover(stage: KindsStage) -> None:
    """With fewer nodes than instances the decode instance comes first, whatever waits already."""
    first = await stage.lose(stage.platform.prefill)
    await stage.runs_both(1, 1)
    second = await stage.lose(stage.platform.decode)
    await stage.runs_both(1, 0)
    await stage.node(first, NodeFate.READY)
    await stage.runs_both(1, 1)
    await stage.node(second, NodeFate.READY)
    await stage.runs_both(2, 1)
