"""What the tests of the scaler do on a real API server: nodes, stand-ins, a service's manifests, and looking at it.

The stand-ins are those of the simulation, which speak nothing but KubeApi; kwok is the kubelet. Must not: judge.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, DEPLOYMENTS, ELASTIC_SERVICES, NODES, PODS, QUEUES, KubeApi, Object
from scaler.kube.errors import AlreadyExistsError, KubeError
from scaler.names import RULE_LABEL
from scaler.sim.actors import objects
from scaler.sim.actors.faults import FaultActor
from scaler.sim.actors.mirror import Mirror
from scaler.sim.actors.nodes import NodeFate, NodeSpec, add_node, change_node
from scaler.sim.actors.operator import NAMESPACE as OPERATOR_NAMESPACE
from scaler.sim.actors.operator import AscendOperator
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.apiserver.crds import definitions, workload_definitions
from scaler.sim.stories.instances import Condition, InstanceView, census, running
from scaler.sim.stories.manifests import apply, copied, ensure_namespace, read_manifests
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import ControlPlaneError
from tests.control_plane.witness import WATCHED, census_of
from tests.deployed_operator import deployment
from tests.jobs import QUEUE

MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLES = MANIFESTS / "examples"
EXAMPLE = EXAMPLES / "2p1d"
SERVICE = "mindie/scaling-rule/mindie"
PATIENCE = 60.0
"""Seconds until something that should take one or two must have happened: test machines are busy."""
_NPU_LABELS = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
_OPT_IN = ("mind-cluster/scaling=enabled", "mind-cluster/beside-ascend-operator=true")
T = TypeVar("T")


def wall_clock() -> Clock:
    """Inside a running loop."""
    return Clock(time.time() - asyncio.get_running_loop().time())


def kinds_definitions() -> list[Object]:
    """Of every kind but LeaderWorkerSet, whose own one comes with its manager."""
    others = [crd for crd in workload_definitions() if objects.name(crd) != "leaderworkersets.leaderworkerset.x-k8s.io"]
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
        return running(await self.views(service))

    async def runs(self, service: str = SERVICE, **groups: int) -> None:
        """Wait until exactly so many instances of each group run."""
        await until(
            lambda: self.views(service), f"{service} runs {groups}", fits=lambda views: running(views) == groups
        )

    async def pods(self, namespace: str) -> list[str]:
        """Names of the pods that are there."""
        return [str(pod["metadata"]["name"]) for pod in (await self.api.list(PODS, namespace)).items]

    async def node_of(self, job: str, namespace: str = "mindie") -> str:
        """Where an instance of one pod runs."""
        pod = await self.api.get(PODS, namespace, f"{job}-master-0")
        return str(pod["spec"]["nodeName"])

    async def clear(self) -> None:
        """Leave no nodes to the next test; whoever made pods removes them before."""
        for name in self._specs:
            await self.api.delete(NODES, None, name)

    async def said(self, namespace: str, rule: str = "scaling-rule") -> list[dict[str, Any]]:
        """What the scaler says of every instance: name, group, reason and message among others."""
        found = (await self.api.list(ELASTIC_SERVICES, namespace)).items
        statuses = [each.get("status", {}) for each in found if each["spec"]["rule"] == rule]
        return [instance for status in statuses for instance in status.get("instances", ())]


class WatchingStage(Stage):
    """A stage that knows the cluster by a watch of its own: every service's instances, whoever makes their pods."""

    def __init__(self, api: KubeApi, plane: ControlPlane) -> None:
        super().__init__(api)
        self.plane = plane
        self.mirror = Mirror(api, *WATCHED)

    async def views(self, service: str = SERVICE) -> list[InstanceView]:
        return census_of(self.mirror).get(service, [])

    async def nodes_are_open(self, seconds: float = PATIENCE) -> None:
        """Wait until every node takes pods: a new one is tainted until the control plane has seen it ready."""
        await until(
            lambda: self.api.list(NODES), "every node takes pods", seconds=seconds,
            fits=lambda nodes: not any(objects.spec(node).get("taints") for node in nodes.items),
        )  # fmt: skip

    async def place_operator(self, *namespaces: str) -> None:
        """The policies of manifests/admission-policy in force in these namespaces, and an operator with replicas."""
        policies = MANIFESTS / "admission-policy"
        self.plane.kubectl("apply", "-f", policies / "pods.yaml", "-f", policies / "ascendjobs.yaml")
        for namespace in (*namespaces, OPERATOR_NAMESPACE):
            await ensure_namespace(self.api, namespace)
        self.plane.kubectl("label", "--overwrite", "namespace", *namespaces, *_OPT_IN)
        with suppress(AlreadyExistsError):
            await self.api.create(DEPLOYMENTS, OPERATOR_NAMESPACE, deployment())
        await until(lambda: self._policies_in_force(namespaces[-1]), "the policies are in force")

    async def _policies_in_force(self, namespace: str) -> bool:
        """A job would lose its label, and a pod would get the gate."""
        job = copied(read_manifests(EXAMPLE / "20-prefill-p0.yaml"), namespace)[-1]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": job["metadata"]}
        pod["spec"] = job["spec"]["replicaSpecs"]["Master"]["template"]["spec"]
        try:
            moved, gated = [await self._dry_run(body) for body in (job, pod)]
        except ControlPlaneError:
            return False
        return RULE_LABEL not in objects.labels_of(moved) and objects.gated(gated)

    async def _dry_run(self, body: Object) -> Object:
        words = ("create", "-f", "-", "--dry-run=server", "--output", "json")
        found: Object = json.loads(await asyncio.to_thread(self.plane.kubectl, *words, text=json.dumps(body)))
        return found


def seats(views: Iterable[InstanceView]) -> dict[str, tuple[str, ...]]:
    """Nodes of the instances that run, by name."""
    return {view.name: view.nodes for view in views if view.condition is Condition.RUNNING}


def operator(api: KubeApi) -> AscendOperator:
    """Ascend Operator's stand-in, inside a running loop."""
    return AscendOperator(api, wall_clock())


async def until(
    read: Callable[[], Awaitable[T]], what: str, show: Callable[[], Awaitable[Any]] | None = None,
    seconds: float = PATIENCE, *, fits: Callable[[T], object] = bool,
) -> T:  # fmt: skip
    """Wait until what is read fits, and give it. AssertionError that says what did not come, and what is there instead.

    An API server that cannot answer now, after a restart for example, is asked again.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    found: T | None = None
    while True:
        with suppress(KubeError):
            found = await read()
            if fits(found):
                return found
        if loop.time() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; there is {await show() if show else found}")
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
async def staged(plane: ControlPlane, *, npu_nodes: int = 0, detection: float = 0.5) -> AsyncIterator[Stage]:
    """A cluster with a gang scheduler and a fault actor for as long as the block lasts."""
    async with plane.client() as api:
        actors = (GangScheduler(api, wall_clock(), period=0.2), FaultActor(api, wall_clock(), detection=detection))
        async with playing(api, actors):
            stage = Stage(api)
            await stage.add_npu_nodes(npu_nodes)
            yield stage
