"""PodGroups of ordinary pods, and what sharing one means while some of its pods are held."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler.kube.api import DEPLOYMENTS, POD_GROUPS, PODS, REPLICA_SETS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.deployments import Deployments, ReplicaSets
from scaler.sim.actors.scheduler import GangScheduler
from scaler.sim.actors.volcano import PodGroups
from scaler.sim.loop import run
from tests.sim.manifests import NPU, deployment, template
from tests.sim.stage import Stage

HELD: Object = {"schedulingGates": [{"name": "hold"}]}


def everybody(stage: Stage, **scheduler: Any) -> list[Any]:
    api = stage.cluster
    scheduling = GangScheduler(api, **scheduler)
    return [Deployments(api), ReplicaSets(api), PodGroups(api), scheduling]


def held_deployment(replicas: int, **annotations: str) -> Object:
    pod = template(npu=8, schedulerName="volcano", **HELD)
    pod["metadata"]["annotations"] = {f"huawei.com/{name}": value for name, value in annotations.items()}
    return deployment(replicas=replicas, pod=pod)


async def release(stage: Stage, number: int) -> None:
    """Takes the gate off so many pods, the first by name."""
    for name in sorted(stage.nodes_by_pod())[:number]:
        gone = {"spec": {"schedulingGates": None}}
        await stage.cluster.patch(PODS, "default", name, gone, patch_type=PatchType.MERGE)


def bound(stage: Stage) -> int:
    return sum(bool(node) for node in stage.nodes_by_pod().values())


def test_pods_of_one_owner_share_a_pod_group_that_wants_one_of_them() -> None:
    async def main() -> None:
        stage = Stage()
        stage.cluster.apply([held_deployment(2)])
        await stage.play(5, *everybody(stage))
        (owner,), (group,) = stage.cluster.peek(REPLICA_SETS), stage.cluster.peek(POD_GROUPS)
        assert objects.name(group) == f"podgroup-{objects.uid(owner)}"
        assert (group["spec"]["minMember"], group["spec"]["minResources"][NPU]) == (1, "8")
        assert objects.owner_uid(group) == objects.uid(owner)
        named = {objects.annotations_of(pod)[objects.GROUP_NAME] for pod in stage.cluster.peek(PODS)}
        assert named == {objects.name(group)}

    run(main())


def test_a_new_pod_lets_the_pod_group_of_its_replica_set_be_as_it_was_made() -> None:
    async def main() -> None:
        stage = Stage()
        stage.cluster.apply([held_deployment(1)])

        async def script() -> None:
            await asyncio.sleep(3)
            (group,), (made,) = stage.cluster.peek(POD_GROUPS), stage.cluster.peek(DEPLOYMENTS)
            less = [{"op": "replace", "path": "/spec/minResources", "value": {}}]
            await stage.cluster.patch(POD_GROUPS, "default", objects.name(group), less, patch_type=PatchType.JSON)
            more = {"spec": {"replicas": 2}}
            await stage.cluster.patch(DEPLOYMENTS, "default", objects.name(made), more, patch_type=PatchType.MERGE)

        await stage.play(8, *everybody(stage), script=script())
        (group,) = stage.cluster.peek(POD_GROUPS)
        assert group["spec"]["minResources"][NPU] == "8"

    run(main())


def test_a_pod_without_owner_has_one_of_its_own_and_one_that_names_a_group_keeps_it() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.pod("alone")
        await stage.pod("named", group="mine")
        await stage.pod("foreign", schedulerName="default-scheduler")
        await stage.play(5, PodGroups(stage.cluster))
        pods = {
            objects.name(pod): objects.annotations_of(pod).get(objects.GROUP_NAME) for pod in stage.cluster.peek(PODS)
        }
        own = f"podgroup-{objects.uid(stage.pod_object('alone'))}"
        assert pods == {"alone": own, "named": "mine", "foreign": None}
        assert [objects.name(group) for group in stage.cluster.peek(POD_GROUPS)] == [own]

    run(main())


def test_the_pod_group_of_an_owner_scaled_to_nothing_goes() -> None:
    async def main() -> None:
        stage = Stage()
        stage.cluster.apply([held_deployment(2)])

        async def shrink() -> None:
            await asyncio.sleep(5)
            zero = {"spec": {"replicas": 0}}
            await stage.cluster.patch(DEPLOYMENTS, "default", "web", zero, patch_type=PatchType.MERGE)

        await stage.play(10, *everybody(stage), script=shrink())
        assert stage.cluster.peek(POD_GROUPS) == stage.cluster.peek(PODS) == []

    run(main())


@pytest.mark.parametrize(
    ("annotations", "released", "running"),
    [
        ({}, 2, 0),
        ({}, 3, 3),
        ({"schedule_minAvailable": "1"}, 2, 2),
        ({"schedule_minAvailable": "2"}, 1, 0),
        ({"schedule_minAvailable": "2"}, 2, 2),
    ],
)
def test_in_a_shared_group_held_pods_block_released_ones_unless_one_is_said_to_do(
    annotations: dict[str, str], released: int, running: int
) -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1", "n2")
        stage.cluster.apply([held_deployment(3, **annotations)])

        async def script() -> None:
            await asyncio.sleep(5)
            await release(stage, released)

        await stage.play(15, *everybody(stage), script=script())
        assert bound(stage) == running

    run(main())


def test_a_pod_group_of_its_own_frees_a_pod_from_its_siblings() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1", "n2")
        stage.cluster.apply([held_deployment(3)])

        async def script() -> None:
            await asyncio.sleep(5)
            first = min(stage.nodes_by_pod())
            group = {"metadata": {"name": "own"}, "spec": {"minMember": 1}}
            await stage.cluster.create(POD_GROUPS, "default", {**HEADER, **group})
            mine = {"metadata": {"annotations": {objects.GROUP_NAME: "own"}}}
            await stage.cluster.patch(PODS, "default", first, mine, patch_type=PatchType.MERGE)
            await release(stage, 1)

        await stage.play(15, *everybody(stage), script=script())
        assert bound(stage) == 1

    run(main())


def test_where_only_some_of_a_shared_group_fit_those_are_bound() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1")
        stage.cluster.apply([held_deployment(3, schedule_minAvailable="1")])

        async def script() -> None:
            await asyncio.sleep(5)
            await release(stage, 3)

        await stage.play(15, *everybody(stage), script=script())
        assert bound(stage) == 2

    run(main())


def test_a_scheduler_without_gangs_binds_whatever_is_released() -> None:
    async def main() -> None:
        stage = Stage()
        await stage.nodes("n0", "n1", "n2")
        stage.cluster.apply([held_deployment(3)])

        async def script() -> None:
            await asyncio.sleep(5)
            await release(stage, 1)

        await stage.play(15, *everybody(stage, gangs=False), script=script())
        assert bound(stage) == 1
        assert set(stage.group_phases().values()) == {""}

    run(main())


HEADER: Object = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
