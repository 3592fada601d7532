"""Services on the nodes of a real API server, and the controllers around them: real where the plane
has them.

Either copies of one example that share the nodes (`shared`), or one service of a platform
(`played`). Kubernetes' own controllers and LeaderWorkerSet's manager are always real; Volcano and
Ascend Operator are where the plane has them, else stand-ins, like OME, AIBrix and Infer Operator.
Every pod fills a node. Must not: judge, or know a platform."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scaler.clock import Clock
from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    KubeApi,
    Object,
)
from scaler.kube.errors import AlreadyExistsError
from scaler.names import RULE_KEY, RULE_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.nodes import NodeFate, NodeSpec
from scaler.sim.actors.operator import NAMESPACE as OPERATOR_NAMESPACE
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.stand_in import Mirror, StandIn, merge
from scaler.sim.actors.volcano import PodGroups
from scaler.sim.actors.volcano_jobs import VolcanoJobs
from scaler.sim.stories.instances import SHOWING, Condition, InstanceView, census, running
from scaler.sim.stories.manifests import apply, copied, ensure_namespace, read_manifests
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.scaler_process import ALONE, ScalerProcess, install, scaler
from tests.control_plane.stage import EXAMPLE, MANIFESTS, Stage, playing, until
from tests.control_plane.witness import Witness, watched
from tests.stand_ins import deployment

SERVICES = 20
PREFILL = "group0"
DECODE = "group1"
LONG = 150.0
"""Seconds for all of them: ten times what an idle machine needs."""
_FILES = ("00-rule", "20-prefill-p0", "21-prefill-p1", "30-decode-d0")
_OPT_IN = ("mind-cluster/scaling=enabled", "mind-cluster/beside-ascend-operator=true")

Change = Callable[[Object], Object]
OwnerOf = Callable[[KubeApi], Any]
"""A stand-in that makes pods."""


@dataclass(frozen=True)
class Way:
    """Which controllers make and bind the pods."""

    name: str
    beside_operator: bool = False
    """Ascend Operator makes the pods of AscendJobs, the policies of manifests/admission-policy gate
    them and the scaler releases them; else the scaler makes them."""
    gangs: bool = True
    """Volcano binds them; else kube-scheduler, one by one."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the scaler."""
        return (*ALONE, "--mode", "auto" if self.beside_operator else "create")


CREATED = Way("created")
CREATED_WITHOUT_GANGS = Way("created-without-gangs", gangs=False)
GATED = Way("gated", beside_operator=True)
GATED_WITHOUT_GANGS = Way("gated-without-gangs", beside_operator=True, gangs=False)


@dataclass(frozen=True)
class Platform:
    """A service, and what makes its pods besides the controllers that are real."""

    namespace: str
    job_id: str
    files: tuple[Path, ...]
    minimum: int
    """Nodes that the smallest ratio needs."""
    scale: Callable[[PlatformStage, int], None]
    """Let there be so many prefill instances, as a user of the platform would."""
    owners: tuple[OwnerOf, ...] = ()
    way: Way = CREATED
    prefill: str = "prefill"
    decode: str = "decode"

    @property
    def service(self) -> str:
        return f"{self.namespace}/scaling-rule/{self.job_id}"


class _Queue(StandIn):
    """Lets every PodGroup into the queue at once: kube-scheduler knows none, and Ascend Operator
    waits for it."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, POD_GROUPS)

    async def _round(self) -> None:
        for group in self.mirror.all(POD_GROUPS):
            if objects.status(group).get("phase") in (None, "", "Pending"):
                await self.attempt(
                    merge(self.api, POD_GROUPS, group, {"status": {"phase": "Inqueue"}})
                )


class ServicesStage(Stage):
    """A stage that knows its services by a watch of its own. `witness` watches them while the
    scaler is at work."""

    def __init__(
        self,
        plane: ControlPlane,
        api: KubeApi,
        way: Way,
        namespaces: list[str],
        owners: Iterable[OwnerOf] = (),
    ) -> None:
        super().__init__(api)
        self.plane = plane
        self.way = way
        self.namespaces = namespaces
        self.witness: Witness
        self._owners = owners
        self._mirror = Mirror(api, *SHOWING)

    def actors(self) -> Iterator[Any]:
        """To be run beside the scaler: every controller that is not real here."""
        clock = Clock()
        real = self.plane.options
        yield self._mirror
        yield FaultActor(self.api, clock, detection=0.5)
        if self.way.gangs and not real.volcano:
            yield GangScheduler(self.api, period=0.2)
            yield PodGroups(self.api)
        if self.way.beside_operator and not self.way.gangs:
            yield _Queue(self.api)
        if self.way.beside_operator and not real.ascend_operator:
            yield AscendOperator(self.api, clock)
        yield from (
            owner(self.api) for owner in self._owners if not (real.volcano and owner is VolcanoJobs)
        )

    async def prepare(self, nodes: int) -> None:
        """Everything but the services. Namespaces that a test before has deleted are gone first."""

        async def terminating() -> set[str]:
            going = filter(objects.terminating, (await self.api.list(NAMESPACES)).items)
            return {objects.name(namespace) for namespace in going}

        await until(
            terminating,
            f"none of {self.namespaces} is going away",
            fits=set(self.namespaces).isdisjoint,
        )
        for namespace in self.namespaces:
            await ensure_namespace(self.api, namespace)
        await self.add_npu_nodes(nodes)
        if self.way.beside_operator:
            await self.add_node(NodeSpec("cpu-0", npu=0, cpu=2000, memory="8Ti", pods=500))
        # Else the operator's own pod could be put on a node that is lost later.
        await until(self.nodes_are_open, "every node takes pods", seconds=LONG)
        if self.way.beside_operator:
            await self._place_operator()

    async def _place_operator(self) -> None:
        """The policies in force in these namespaces, and an operator with replicas."""
        policies = MANIFESTS / "admission-policy"
        self.plane.kubectl(
            "apply", "-f", policies / "pods.yaml", "-f", policies / "ascendjobs.yaml"
        )
        await ensure_namespace(self.api, OPERATOR_NAMESPACE)
        self.plane.kubectl("label", "--overwrite", "namespace", *self.namespaces, *_OPT_IN)
        with suppress(AlreadyExistsError):
            await self.api.create(DEPLOYMENTS, OPERATOR_NAMESPACE, deployment())
        await until(self._policies_in_force, "the policies are in force")

    async def _policies_in_force(self) -> bool:
        """A job would lose its label, and a pod would get the gate."""
        job = copied(read_manifests(EXAMPLE / "20-prefill-p0.yaml"), self.namespaces[-1])[-1]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": job["metadata"]}
        pod["spec"] = job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
        create = partial(
            self.plane.kubectl, "create", "-f", "-", "--dry-run=server", "--output", "json"
        )
        try:
            moved, gated = [
                json.loads(await asyncio.to_thread(create, text=json.dumps(body)))
                for body in (job, pod)
            ]
        except ControlPlaneError:
            return False
        return RULE_LABEL not in objects.labels_of(moved) and objects.gated(gated)

    def services(self) -> Mapping[str, list[InstanceView]]:
        found = census(self._mirror.all)
        return {
            service: views
            for service, views in found.items()
            if service.partition("/")[0] in self.namespaces
        }

    def nodes_by_instance(self) -> dict[str, tuple[str, ...]]:
        """Of the instances that have nodes, by service and name."""
        found = self.services().items()
        return {
            f"{service} {view.name}": view.nodes
            for service, views in found
            for view in views
            if view.nodes
        }

    async def clear(self) -> None:
        async def pods() -> list[str]:
            found = (await self.api.list(PODS)).items
            return [objects.name(pod) for pod in found if objects.namespace(pod) in self.namespaces]

        await until(pods, "no pods are left", seconds=LONG, fits=lambda found: not found)
        await super().clear()


class SharedStage(ServicesStage):
    """Copies of the example of 2P1D down to 1P1D, each in a namespace of its own."""

    async def arrive(self, changes: Mapping[str, Change] | None = None) -> None:
        """All services at once. `changes`: what is different in the files of a namespace."""
        await asyncio.gather(
            *(self.join(name, (changes or {}).get(name)) for name in self.namespaces)
        )

    async def join(self, namespace: str, change: Change | None = None) -> None:
        """One service; `change` is made to every object first."""
        for name in _FILES:
            for obj in copied(read_manifests(EXAMPLE / f"{name}.yaml"), namespace):
                if obj["kind"] == ASCEND_JOBS.kind and not self.way.gangs:
                    obj["spec"]["schedulerName"] = "default-scheduler"
                await apply(self.api, change(obj) if change else obj)

    async def leave(self, namespace: str) -> None:
        for job in (await self.api.list(ASCEND_JOBS, namespace)).items:
            await self.api.delete(
                ASCEND_JOBS, namespace, objects.name(job), propagation_policy="Background"
            )

    async def clear(self) -> None:
        for namespace in self.namespaces:
            await self.leave(namespace)
        await super().clear()

    def tally(self) -> dict[str, int]:
        """How many services run 2P1D, 1P1D, ...; `+ 1` = one more holds a node or may be given
        one."""
        found = Counter[str]()
        for views in self.services().values():
            counts = running(views)
            more = sum(view.condition not in (Condition.EMPTY, Condition.RUNNING) for view in views)
            found[
                f"{counts.get(PREFILL, 0)}P{counts.get(DECODE, 0)}D"
                + (f" + {more}" if more else "")
            ] += 1
        return dict(found)

    def serving(self) -> list[str]:
        """Namespaces of the services that run their minimum."""
        return [
            name for name in self.namespaces if all(map(self.runs_of(name).get, (PREFILL, DECODE)))
        ]

    def runs_of(self, namespace: str) -> dict[str, int]:
        """Running instances of a service, by group."""
        found = (
            views
            for service, views in self.services().items()
            if service.partition("/")[0] == namespace
        )
        return running(next(found, []))


class PlatformStage(ServicesStage):
    """One platform's service."""

    def __init__(self, plane: ControlPlane, api: KubeApi, platform: Platform) -> None:
        super().__init__(plane, api, platform.way, [platform.namespace], platform.owners)
        self.platform = platform

    async def views(self, service: str = "") -> list[InstanceView]:
        return self.services().get(service or self.platform.service, [])

    async def runs_both(self, prefill: int, decode: int) -> None:
        """Wait until exactly so many run."""
        await self.runs(
            self.platform.service, **{self.platform.prefill: prefill, self.platform.decode: decode}
        )

    async def lose(self, group: str) -> str:
        """A node under a running instance of this group stops answering, and Volcano ends its pods;
        the node's name."""
        views = [
            view
            for view in await self.views()
            if view.group == group and view.condition is Condition.RUNNING
        ]
        name = views[0].nodes[0]
        await self.node(name, NodeFate.NOT_READY)
        await until(
            self.empty_nodes, f"{name} has no pods", self.views, fits=lambda empty: name in empty
        )
        return name

    async def edit_rule(self, *ratios: tuple[int, int]) -> None:
        """Let the rule have these ratios of (prefill, decode), largest first."""
        rule = await self.api.get(CONFIG_MAPS, self.platform.namespace, "scaling-rule")
        document = json.loads(rule["data"][RULE_KEY])
        like = document["elastic_scaling_list"][0]["group_list"]
        document["elastic_scaling_list"] = []
        for ratio in ratios:
            counted = zip(like, ratio, strict=True)
            groups = [{**group, "group_num": str(count)} for group, count in counted]
            document["elastic_scaling_list"].append({"group_list": groups})
        await merge(self.api, CONFIG_MAPS, rule, {"data": {RULE_KEY: json.dumps(document)}})

    def kubectl(self, verb: str, *flags: str) -> None:
        """`apply` or `delete` the service's files."""
        self.plane.kubectl(
            verb, *flags, *(word for path in self.platform.files for word in ("-f", path))
        )

    async def clear(self) -> None:
        self.kubectl("delete", "--wait=false", "--ignore-not-found")
        await super().clear()


@asynccontextmanager
async def prepared(stage: ServicesStage, nodes: int) -> AsyncIterator[None]:
    """Nodes, and every controller but the scaler, for as long as the block lasts."""
    async with playing(stage.api, stage.actors()):
        try:
            await stage.prepare(nodes)
            yield
        finally:
            await stage.clear()


@asynccontextmanager
async def governed(
    stage: ServicesStage, folder: Path, flags: Sequence[str] = ()
) -> AsyncIterator[ScalerProcess]:
    """The scaler at work as users run it, with these flags too, and the witness watching; the
    scaler must log no error."""
    kubeconfig = install(stage.plane)
    async with (
        watched(Witness(stage.api)) as stage.witness,
        scaler(folder, kubeconfig, flags=(*stage.way.flags, *flags)) as process,
    ):
        yield process
        assert process.errors() == []
        acting = [line["acting"] for line in process.lines("mode changed")]
        assert not stage.way.beside_operator or acting == ["releases pods"]


@asynccontextmanager
async def shared(
    plane: ControlPlane, way: Way, nodes: int, *, services: int = SERVICES, name: str = ""
) -> AsyncIterator[SharedStage]:
    """Room for copies of the example, in namespaces whose names begin with `name`."""
    namespaces = [f"{name or f'{way.name}-{nodes}'}-{number:02}" for number in range(services)]
    async with plane.client() as api:
        stage = SharedStage(plane, api, way, namespaces)
        async with prepared(stage, nodes):
            yield stage


@asynccontextmanager
async def played(
    plane: ControlPlane, platform: Platform, folder: Path
) -> AsyncIterator[PlatformStage]:
    """Room for the smallest ratio of a platform's service, governed."""
    async with plane.client() as api:
        stage = PlatformStage(plane, api, platform)
        async with prepared(stage, platform.minimum), governed(stage, folder):
            yield stage


def ascend_jobs(nodes: int, *files: Path, by_operator: bool = True) -> Platform:
    """A service of AscendJobs; if not Ascend Operator, the scaler makes their pods."""

    def scale(stage: PlatformStage, prefills: int) -> None:
        job = read_manifests(EXAMPLE / "21-prefill-p1.yaml")[-1]
        job["metadata"]["name"] = "mindie-server-p2"
        stage.plane.kubectl("apply" if prefills == 3 else "delete", "-f", "-", text=json.dumps(job))

    way = GATED if by_operator else CREATED
    return Platform(
        "mindie", "mindie", files, nodes, scale, way=way, prefill=PREFILL, decode=DECODE
    )
