"""A stage for pods that others create: their controllers, real where they can be had, and the platforms' examples.

Deployments, StatefulSets and garbage are the real controller manager's, LeaderWorkerSets their own manager's. OME,
AIBrix, Infer Operator, Volcano's controllers and Ascend Operator are stand-ins. Must not: know of any platform.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import not_
from pathlib import Path
from typing import Any

from scaler.kube.api import CONFIG_MAPS, NAMESPACES, NODES, PODS, KubeApi, PatchType
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import NodeFate, NodeSpec
from scaler.sim.actors.pod_groups import PodGroups
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.stories.instances import Condition, InstanceView
from scaler.sim.stories.manifests import read_manifests
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import ALONE, install, scaler
from tests.control_plane.stage import EXAMPLE, WatchingStage, operator, playing, seats, until, wall_clock
from tests.control_plane.witness import WATCHED, Witness, witnessed

Scale = Callable[["PlatformStage", int], None]


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
    beside_operator: bool = False
    """AscendJobs are held by the policies of manifests/admission-policy, and their operator makes the pods."""

    @property
    def service(self) -> str:
        return f"{self.namespace}/scaling-rule/{self.job_id}"


class PlatformStage(WatchingStage):
    """The stage of one platform's service. `witness` watches it; `pairs` of it may be set."""

    def __init__(self, api: KubeApi, plane: ControlPlane, platform: Platform) -> None:
        super().__init__(api, plane)
        self.platform = platform
        self.witness: Witness

    async def views(self, service: str = "") -> list[InstanceView]:
        return await super().views(service or self.platform.service)

    async def runs_both(self, prefill: int, decode: int) -> None:
        """Wait until exactly so many run."""
        await self.runs(self.platform.service, **{self.platform.prefill: prefill, self.platform.decode: decode})

    async def seats(self) -> dict[str, tuple[str, ...]]:
        """Nodes of the instances that run, by name."""
        return seats(await self.views())

    async def has(self, instances: int, group: str) -> bool:
        """Whether there are so many, held ones included."""
        return sum(view.group == group for view in await self.views()) == instances

    async def lose(self, group: str) -> str:
        """A node under a running instance of this group stops answering, and Volcano ends its pods; the node's name."""
        views = [view for view in await self.views() if view.group == group and view.condition is Condition.RUNNING]
        name = views[0].nodes[0]
        await self.node(name, NodeFate.NOT_READY)
        await until(self._empty_nodes, f"{name} has no pods", self.views, fits=lambda empty: name in empty)
        return name

    async def reasons(self) -> dict[str, list[str]]:
        """What the scaler says of the instances that do not run: reasons by group."""
        found: dict[str, list[str]] = {}
        for instance in await self.said(self.platform.namespace):
            found.setdefault(instance["group"], []).append(instance["reason"])
        return found

    async def says(self, group: str, reason: str) -> None:
        """Wait until an instance of the group has this reason."""
        what = f"an instance of {group} says {reason}"
        await until(self.reasons, what, fits=lambda said: reason in said.get(group, []))

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
        name = (await until(self._empty_nodes, "a node has no pods", self.views))[0]
        await self.api.delete(NODES, None, name)
        del self._specs[name]

    async def _empty_nodes(self) -> list[str]:
        used = {objects.node_of(pod) for pod in (await self.api.list(PODS)).items}
        return [name for name in self._specs if name not in used]

    def kubectl(self, verb: str, *flags: str) -> None:
        """`apply` or `delete` the service's files."""
        self.plane.kubectl(verb, *flags, *(word for path in self.platform.files for word in ("-f", path)))

    def patch(self, kind: str, name: str, patch: Any) -> None:
        """`kubectl patch`: a list is a JSON patch, anything else a merge patch."""
        encoding = "json" if isinstance(patch, list) else "merge"
        place = ("--namespace", self.platform.namespace, kind, name)
        self.plane.kubectl("patch", *place, "--type", encoding, "--patch", json.dumps(patch))

    async def prepare(self) -> None:
        """The platform's minimum of nodes; no namespace of its name is going away any more."""
        await until(self._settled, f"namespace {self.platform.namespace} is there or not")
        await self.add_npu_nodes(self.platform.minimum)
        if not self.platform.beside_operator:
            return
        await self.add_node(NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        await self.nodes_are_open()  # or the operator's own pod would be put on a node that is lost later
        await self.place_operator(self.platform.namespace)

    async def _settled(self) -> bool:
        try:
            found = await self.api.get(NAMESPACES, None, self.platform.namespace)
        except NotFoundError:
            return True
        return not objects.terminating(found)

    async def clear(self) -> None:
        self.kubectl("delete", "--wait=false", "--ignore-not-found")
        await until(lambda: self.pods(self.platform.namespace), "no pods are left", fits=not_)
        await super().clear()

    def actors(self) -> list[Any]:
        """To be run beside the scaler: every controller that is not real here."""
        clock = wall_clock()
        volcano = [] if self.plane.options.volcano else [GangScheduler(self.api, period=0.2), PodGroups(self.api)]
        makers = [make(self.api) for make in self.platform.actors]
        return [self.mirror, *volcano, FaultActor(self.api, clock, detection=0.5), *makers]


@asynccontextmanager
async def played(plane: ControlPlane, platform: Platform, folder: Path) -> AsyncIterator[PlatformStage]:
    """The stage of a platform with the scaler at work, watched by the witness; the scaler must log no error."""
    kubeconfig = install(plane)
    flags = (*ALONE, "--mode", "auto") if platform.beside_operator else ALONE
    async with plane.client() as api:
        stage = PlatformStage(api, plane, platform)
        async with playing(api, stage.actors()):
            try:
                await stage.prepare()
                async with witnessed(api, WATCHED) as stage.witness, scaler(folder, kubeconfig, flags=flags) as process:
                    yield stage
                    assert process.errors() == []
                    acting = [line["acting"] for line in process.lines("mode changed")]
                    assert not platform.beside_operator or acting == ["releases pods"]
            finally:
                await stage.clear()


def ascend_jobs(nodes: int, *files: Path, by_operator: bool = True) -> Platform:
    """A service of AscendJobs; if not Ascend Operator, the scaler makes their pods."""

    def scale(stage: PlatformStage, prefills: int) -> None:
        job = read_manifests(EXAMPLE / "21-prefill-p1.yaml")[-1]
        job["metadata"]["name"] = "mindie-server-p2"
        stage.plane.kubectl("apply" if prefills == 3 else "delete", "-f", "-", text=json.dumps(job))

    makers = (operator,) if by_operator else ()
    return Platform("mindie", "mindie", files, nodes, makers, scale, "group0", "group1", by_operator)
