"""The stand-in for Infer Operator: one workload per instance, and how its pods are marked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler.kube.api import DEPLOYMENTS, POD_GROUPS, PODS, STATEFUL_SETS, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.deployments import Deployments, ReplicaSets
from scaler.sim.actors.operators import InferOperator
from scaler.sim.actors.stateful_sets import StatefulSets
from scaler.sim.loop import run
from scaler.workloads.inferserviceset import INFER_SERVICE_SETS
from tests.rig import Rig
from tests.sim.manifests import infer_service_set

PREFIX = "infer.huawei.com/"


def controllers(on: Rig) -> list[Any]:
    api = on.cluster
    return [
        InferOperator(api),
        StatefulSets(api),
        Deployments(api),
        ReplicaSets(api),
        GarbageCollector(api),
    ]


def names(on: Rig, resource: Any = PODS) -> set[str]:
    return {objects.name(obj) for obj in on.cluster.peek(resource)}


def test_every_instance_is_a_stateful_set_whose_pods_carry_its_marks() -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([infer_service_set(prefill={"replicas": 2}, decode={"replicas": 1})])
        await on.play(5, *controllers(on))
        assert names(on, STATEFUL_SETS) == {
            "qwen-0-prefill-0",
            "qwen-0-prefill-1",
            "qwen-0-decode-0",
        }
        pod = on.pod_object("qwen-0-prefill-1-0")
        marks = {
            k.removeprefix(PREFIX): v
            for k, v in objects.labels_of(pod).items()
            if k.startswith(PREFIX)
        }
        assert marks == {
            "inferservice-name": "qwen-0",
            "instanceset-name": "prefill",
            "instanceset-index": "1",
            "ascend-infer-operator": "true",
        }
        variables = {v["name"]: v["value"] for v in pod["spec"]["containers"][0]["env"]}
        assert (variables["INSTANCE_ROLE"], variables["INSTANCE_INDEX"]) == ("prefill", "1")

    run(main())


def test_with_gang_scheduling_every_instance_has_a_pod_group_of_its_size() -> None:
    role: Object = {
        "replicas": 2,
        "pods": 3,
        "metadata": {"labels": {f"{PREFIX}gang-schedule": "true"}},
    }

    async def main() -> None:
        on = Rig()
        on.cluster.apply([infer_service_set(decode=role)])
        await on.play(5, *controllers(on))
        groups = {objects.name(g): g["spec"]["minMember"] for g in on.cluster.peek(POD_GROUPS)}
        assert groups == {"pg-qwen-0-decode-0": 3, "pg-qwen-0-decode-1": 3}
        annotations = objects.annotations_of(on.pod_object("qwen-0-decode-1-0"))
        assert annotations[objects.GROUP_NAME] == "pg-qwen-0-decode-1"

    run(main())


@pytest.mark.parametrize(
    ("kind", "resource"), [("StatefulSet", STATEFUL_SETS), ("Deployment", DEPLOYMENTS)]
)
def test_fewer_replicas_take_the_highest_instances(kind: str, resource: Any) -> None:
    async def main() -> None:
        on = Rig()
        on.cluster.apply([infer_service_set(prefill={"replicas": 3, "kind": kind})])

        async def shrink() -> None:
            await asyncio.sleep(5)
            assert len(names(on)) == 3
            patch = [{"op": "replace", "path": "/spec/template/roles/0/replicas", "value": 1}]
            await on.cluster.patch(
                INFER_SERVICE_SETS, "default", "qwen", patch, patch_type=PatchType.JSON
            )

        await on.play(12, *controllers(on), script=shrink())
        assert names(on, resource) == {"qwen-0-prefill-0"}
        assert len(names(on)) == 1

    run(main())
