"""Beside all of MindCluster that decides about pods: its scheduler (Volcano with its plugin),
Ascend Operator and ClusterD, on A2 nodes and on super-pods of A3 nodes.

Nodes and their device data are written by the test, as device plugins would; kubelets are the
simulation's. Left out, with lines at the end, where the programs are not: see
docs/howto/test-against-a-real-control-plane.md, which says how they are built."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, PODS, Object
from scaler.names import RULE_KEY
from scaler.sim.actors import devices, objects
from scaler.sim.actors.nodes import NodeFate, NodeSpec
from scaler.workloads import npu_rules
from scaler.workloads.devices import SUPER_POD, SUPER_POD_RANK
from tests.control_plane.others import volcano_configuration
from tests.control_plane.plane import ControlPlane
from tests.control_plane.scaler_process import LEASE
from tests.control_plane.services import (
    CREATED,
    DECODE,
    GATED,
    LONG,
    PREFILL,
    SharedStage,
    Way,
    governed,
)
from tests.control_plane.stage import kinds_definitions, playing, until

pytestmark = [
    pytest.mark.plane_options(
        crds=kinds_definitions(), volcano=True, ascend_plugin=True, clusterd=True, pod_start=1.0
    ),
    pytest.mark.long("faults in real time"),
]
BESIDE_OPERATOR = pytest.mark.plane_options(ascend_operator=True)
WHOLE = {PREFILL: 2, DECODE: 1}
SMALLEST = {PREFILL: 1, DECODE: 1}
PODS_OF = {"p": 2, "d": 4}
"""How many nodes an instance of a super-pod takes, by the first letter of its number."""
WIDTH = 4
"""Nodes of a super-pod."""


class StackStage(SharedStage):
    """Services on nodes with device data."""

    def __init__(self, plane: ControlPlane, api: Any, way: Way, namespaces: list[str]) -> None:
        super().__init__(plane, api, way, namespaces)
        self.clock = Clock()

    def actors(self) -> Iterator[Any]:
        """Nothing else is played."""
        yield self._mirror

    async def add_machines(self, number: int) -> None:
        """A2 nodes a2-0, a2-1, ..."""
        for index in range(number):
            await self.add_node(NodeSpec(f"a2-{index}", device_data=True))

    async def add_super_pods(self, number: int) -> None:
        """Super-pods of A3 nodes: sp0-0 to sp0-3, sp1-0, ..."""
        for super_pod in range(number):
            for index in range(WIDTH):
                name = f"sp{super_pod}-{index}"
                await self.add_node(NodeSpec(name, 16, device_data=True, super_pod=super_pod))

    async def arrive_on_super_pods(self) -> None:
        await self.arrive(dict.fromkeys(self.namespaces, of_super_pods))

    async def runs_now(self, wanted: dict[str, int], seconds: float = LONG) -> None:
        """Wait until the first service runs exactly this."""
        namespace = self.namespaces[0]

        async def runs() -> dict[str, int]:
            return self.runs_of(namespace)

        await until(runs, f"{namespace} runs {wanted}", seconds=seconds, fits=wanted.__eq__)

    async def decode_moves(self, lost: str) -> None:
        """Wait until the decode has gone, and runs again without this node."""
        await self.runs_now({PREFILL: 2, DECODE: 0})
        await self.runs_now(WHOLE)
        assert lost not in {objects.node_of(pod) for pod in self.bound()}

    def bound(self) -> list[Object]:
        """The pods of services that have nodes."""
        pods = self._mirror.all(PODS)
        return [
            pod
            for pod in pods
            if objects.namespace(pod) in self.namespaces and objects.node_of(pod)
        ]

    def a_node_of(self, job: str) -> str:
        """A node of this instance of the first service."""
        for service, views in self.services().items():
            for view in views:
                if service.startswith(f"{self.namespaces[0]}/") and view.name.endswith(job):
                    return view.nodes[-1]
        raise AssertionError(f"{job} has no node: {self.services()}")

    async def report(self, node: str, chips: list[int], *, healthy: bool) -> None:
        await devices.report_chips(self.api, self.clock, node, chips, healthy=healthy)

    async def clear(self) -> None:
        await super().clear()
        for config_map in (await self.api.list(CONFIG_MAPS, devices.DEVICE_NAMESPACE)).items:
            name = objects.name(config_map)
            if name.startswith(devices.DEVICE_PREFIX):
                await self.api.delete(CONFIG_MAPS, devices.DEVICE_NAMESPACE, name)


def of_super_pods(obj: Object) -> Object:
    """The example's objects with instances of one block each: a prefill of two nodes, a decode of
    four."""
    changed: Object = copy.deepcopy(obj)
    if changed["kind"] == ASCEND_JOBS.kind:
        _in_blocks(changed)
    elif RULE_KEY in changed.get("data", {}):
        document = json.loads(changed["data"][RULE_KEY])
        for ratio in document["elastic_scaling_list"]:
            for group in ratio["group_list"]:
                letter = "p" if group["group_name"] == PREFILL else "d"
                group["server_num_per_group"] = str(PODS_OF[letter])
        changed["data"][RULE_KEY] = json.dumps(document)
    return changed


def _in_blocks(job: Object) -> None:
    letter = objects.name(job).rpartition("-")[2][0]
    number = PODS_OF[letter]
    metadata = job["metadata"]
    metadata["annotations"] = {npu_rules.SP_BLOCK: str(16 * number)}
    job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] = number
    master = job["spec"]["replicaSpecs"]["Master"]
    template = master["template"]["spec"]
    template["nodeSelector"][npu_rules.ACCELERATOR] = "module-a3-16-super-pod"
    for amounts in template["containers"][0]["resources"].values():
        amounts["huawei.com/Ascend910"] = 16
    workers = {**copy.deepcopy(master), "replicas": number - 1}
    job["spec"]["replicaSpecs"]["Worker"] = workers


@asynccontextmanager
async def stack(
    plane: ControlPlane, way: Way, folder: Path, name: str, services: int = 1
) -> AsyncIterator[StackStage]:
    """Services to come, nodes to come, the scaler and the witness at work."""
    namespaces = [f"{name}-{number:02}" for number in range(services)]
    configuration = volcano_configuration(plugin=True, clusterd=True)
    place, config_map = npu_rules.CONFIGURATION
    async with plane.client() as api:
        stage = StackStage(plane, api, way, namespaces)
        async with playing(api, stage.actors()):
            await devices.put(api, place, config_map, {"volcano-scheduler.conf": configuration}, {})
            try:
                await stage.prepare(0)
                # it evicts only what it can write down in a namespace of its own
                async with governed(stage, folder, LEASE):
                    yield stage
                assert stage.witness.broken == []
            finally:
                await stage.clear()


def _split(stage: StackStage) -> list[str]:
    """Instances that are in several super-pods."""
    found: dict[str, set[str]] = {}
    for pod in stage.bound():
        instance = f"{objects.namespace(pod)}/{objects.owner_uid(pod)}"
        super_pod = objects.annotations_of(pod)[SUPER_POD]
        found.setdefault(instance, set()).add(super_pod)
    return [name for name, super_pods in found.items() if len(super_pods) > 1]


def _without_rank(stage: StackStage) -> list[str]:
    """Pods of super-pods that do not know their block."""
    pods = stage.bound()
    return [
        f"{objects.namespace(pod)}/{objects.name(pod)}"
        for pod in pods
        if not objects.annotations_of(pod).get(SUPER_POD_RANK)
    ]


async def degrades_and_recovers(way: Way, plane: ControlPlane, folder: Path) -> None:
    """Without a spare node: a decode that is lost takes the node of a prefill, and each fault ends
    where it began."""
    async with stack(plane, way, folder, f"a2-{way.name}") as stage:
        await stage.add_machines(3)
        await stage.arrive()
        await stage.runs_now(WHOLE)
        for job in ("p0", "d0"):
            lost = stage.a_node_of(job)
            await stage.node(lost, NodeFate.NOT_READY)
            await stage.runs_now(SMALLEST)
            await stage.node(lost, NodeFate.READY)
            await stage.runs_now(WHOLE)
        sick = stage.a_node_of("p1")
        await stage.report(sick, [3], healthy=False)
        await stage.runs_now(SMALLEST)
        await stage.report(sick, [3], healthy=True)
        await stage.runs_now(WHOLE)


async def as_many_serve(
    way: Way, plane: ControlPlane, folder: Path, *, super_pods: int, serving: int
) -> None:
    """Of six services so many run the smallest ratio, and the others hold nothing."""
    async with stack(plane, way, folder, f"sp{super_pods}-{way.name}", services=6) as stage:
        await stage.add_super_pods(super_pods)
        await stage.arrive_on_super_pods()

        async def tally() -> dict[str, int]:
            return stage.tally()

        wanted = {"1P1D": serving, "0P0D": 6 - serving}
        await until(
            tally, f"{wanted}", seconds=LONG, fits=lambda found: +Counter(found) == +Counter(wanted)
        )
        assert _split(stage) == []


async def goes_whole_to_another_super_pod(way: Way, plane: ControlPlane, folder: Path) -> None:
    """A decode that loses a node, and then chips, goes to the spare block with all its pods."""
    async with stack(plane, way, folder, f"spare-{way.name}") as stage:
        await stage.add_super_pods(4)
        await stage.arrive_on_super_pods()
        await stage.runs_now(WHOLE)
        first = stage.a_node_of("d0")
        await stage.node(first, NodeFate.NOT_READY)
        await stage.decode_moves(first)
        await stage.node(first, NodeFate.READY)
        second = stage.a_node_of("d0")
        await stage.report(second, [2, 5], healthy=False)
        await stage.decode_moves(second)
        assert _split(stage) == []
        assert _without_rank(stage) == []


async def test_a2_degrades_and_recovers(plane: ControlPlane, tmp_path: Path) -> None:
    await degrades_and_recovers(CREATED, plane, tmp_path)


async def test_six_services_serve_on_nine_super_pods(plane: ControlPlane, tmp_path: Path) -> None:
    await as_many_serve(CREATED, plane, tmp_path, super_pods=9, serving=6)


async def test_three_services_serve_on_five_super_pods(plane: ControlPlane, tmp_path: Path) -> None:
    await as_many_serve(CREATED, plane, tmp_path, super_pods=5, serving=3)


async def test_a_decode_that_lost_a_node_goes_to_another_super_pod(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await goes_whole_to_another_super_pod(CREATED, plane, tmp_path)


@BESIDE_OPERATOR
@pytest.mark.kubernetes_from(36)
async def test_a2_degrades_and_recovers_beside_ascend_operator_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await degrades_and_recovers(GATED, plane, tmp_path)


@BESIDE_OPERATOR
@pytest.mark.kubernetes_from(36)
async def test_six_services_serve_beside_ascend_operator_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await as_many_serve(GATED, plane, tmp_path, super_pods=9, serving=6)


@BESIDE_OPERATOR
@pytest.mark.kubernetes_from(36)
async def test_three_services_serve_beside_ascend_operator_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await as_many_serve(GATED, plane, tmp_path, super_pods=5, serving=3)


@BESIDE_OPERATOR
@pytest.mark.kubernetes_from(36)
async def test_a_decode_goes_to_another_super_pod_beside_ascend_operator_too(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await goes_whole_to_another_super_pod(GATED, plane, tmp_path)
