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
from tests.rig import Rig
from tests.sim.manifests import NPU, deployment, template

HELD: Object = {"schedulingGates": [{"name": "hold"}]}


def everybody(on: Rig, **scheduler: Any) -> list[Any]:
    api = on.cluster
    scheduling = GangScheduler(api, **scheduler)
    return [Deployments(api), ReplicaSets(api), PodGroups(api), scheduling]


def held_deployment(replicas: int, **annotations: str) -> Object:
    pod = template(npu=8, schedulerName="volcano", **HELD)
    pod["metadata"]["annotations"] = {
        f"huawei.com/{name}": value for name, value in annotations.items()
    }
    return deployment(replicas=replicas, pod=pod)


async def release(on: Rig, number: int) -> None:
    """Takes the gate off so many pods, the first by name."""
    for name in sorted(on.nodes_by_pod())[:number]:
        gone = {"spec": {"schedulingGates": None}}
        await on.cluster.patch(PODS, "default", name, gone, patch_type=PatchType.MERGE)


def bound(on: Rig) -> int:
    return sum(bool(node) for node in on.nodes_by_pod().values())


def test_pods_of_one_owner_share_a_pod_group_that_wants_one_of_them() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([held_deployment(2)])
        await on.play(5, *everybody(on))
        (owner,) = on.cluster.peek(REPLICA_SETS)
        (group,) = on.cluster.peek(POD_GROUPS)
        assert objects.name(group) == f"podgroup-{objects.uid(owner)}"
        assert (group["spec"]["minMember"], group["spec"]["minResources"][NPU]) == (1, "8")
        assert objects.owner_uid(group) == objects.uid(owner)
        named = {objects.annotations_of(pod)[objects.GROUP_NAME] for pod in on.cluster.peek(PODS)}
        assert named == {objects.name(group)}

    run(main())


def test_a_new_pod_lets_the_pod_group_of_its_replica_set_be_as_it_was_made() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([held_deployment(1)])

        async def script() -> None:
            await asyncio.sleep(3)
            (group,) = on.cluster.peek(POD_GROUPS)
            (made,) = on.cluster.peek(DEPLOYMENTS)
            less = [{"op": "replace", "path": "/spec/minResources", "value": {}}]
            await on.cluster.patch(
                POD_GROUPS, "default", objects.name(group), less, patch_type=PatchType.JSON
            )
            more = {"spec": {"replicas": 2}}
            await on.cluster.patch(
                DEPLOYMENTS, "default", objects.name(made), more, patch_type=PatchType.MERGE
            )

        await on.play(8, *everybody(on), script=script())
        (group,) = on.cluster.peek(POD_GROUPS)
        assert group["spec"]["minResources"][NPU] == "8"

    run(main())


def test_a_pod_without_owner_has_one_of_its_own_and_one_that_names_a_group_keeps_it() -> None:
    async def main() -> None:
        on = Rig()
        await on.pod("alone")
        await on.pod("named", group="mine")
        await on.pod("foreign", schedulerName="default-scheduler")
        await on.play(5, PodGroups(on.cluster))
        pods = {
            objects.name(pod): objects.annotations_of(pod).get(objects.GROUP_NAME)
            for pod in on.cluster.peek(PODS)
        }
        own = f"podgroup-{objects.uid(on.pod_object('alone'))}"
        assert pods == {"alone": own, "named": "mine", "foreign": None}
        assert [objects.name(group) for group in on.cluster.peek(POD_GROUPS)] == [own]

    run(main())


def test_the_pod_group_of_an_owner_scaled_to_nothing_goes() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([held_deployment(2)])

        async def shrink() -> None:
            await asyncio.sleep(5)
            zero = {"spec": {"replicas": 0}}
            await on.cluster.patch(DEPLOYMENTS, "default", "web", zero, patch_type=PatchType.MERGE)

        await on.play(10, *everybody(on), script=shrink())
        assert on.cluster.peek(POD_GROUPS) == on.cluster.peek(PODS) == []

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
        on = Rig()
        on.nodes("n0", "n1", "n2")
        on.cluster.apply([held_deployment(3, **annotations)])

        async def script() -> None:
            await asyncio.sleep(5)
            await release(on, released)

        await on.play(15, *everybody(on), script=script())
        assert bound(on) == running

    run(main())


def test_a_pod_group_of_its_own_frees_a_pod_from_its_siblings() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1", "n2")
        on.cluster.apply([held_deployment(3)])

        async def script() -> None:
            await asyncio.sleep(5)
            first = min(on.nodes_by_pod())
            group = {"metadata": {"name": "own"}, "spec": {"minMember": 1}}
            await on.cluster.create(POD_GROUPS, "default", {**HEADER, **group})
            mine = {"metadata": {"annotations": {objects.GROUP_NAME: "own"}}}
            await on.cluster.patch(PODS, "default", first, mine, patch_type=PatchType.MERGE)
            await release(on, 1)

        await on.play(15, *everybody(on), script=script())
        assert bound(on) == 1

    run(main())


def test_where_only_some_of_a_shared_group_fit_those_are_bound() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1")
        on.cluster.apply([held_deployment(3, schedule_minAvailable="1")])

        async def script() -> None:
            await asyncio.sleep(5)
            await release(on, 3)

        await on.play(15, *everybody(on), script=script())
        assert bound(on) == 2

    run(main())


def test_a_scheduler_without_gangs_binds_whatever_is_released() -> None:
    async def main() -> None:
        on = Rig()
        on.nodes("n0", "n1", "n2")
        on.cluster.apply([held_deployment(3)])

        async def script() -> None:
            await asyncio.sleep(5)
            await release(on, 1)

        await on.play(15, *everybody(on, gangs=False), script=script())
        assert bound(on) == 1
        assert set(on.group_phases().values()) == {""}

    run(main())


HEADER: Object = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
