"""The stand-ins for what gives out chips and what reports them faulty."""

from __future__ import annotations

import asyncio
import json

from scaler.kube.api import CONFIG_MAPS, NODES, PODS
from scaler.sim.actors import objects
from scaler.sim.actors.devices import DevicePlugin, given_chips, report_chips, report_node, report_switch, reported
from scaler.sim.loop import run
from tests.sim.stage import Stage


async def bound_pods(stage: Stage, *names: str, npu: int) -> None:
    for name in names:
        npus = {"huawei.com/Ascend910": str(npu)}
        container = {"name": "c", "image": "i", "resources": {"requests": npus, "limits": npus}}
        spec = {"nodeName": "n0", "containers": [container]}
        meta = {"name": name, "namespace": "default"}
        await stage.cluster.create(PODS, "default", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def chips(stage: Stage) -> dict[str, list[str]]:
    return {objects.name(pod): sorted(given_chips(pod)) for pod in stage.cluster.peek(PODS)}


def test_pods_of_one_node_get_different_chips_that_are_healthy() -> None:
    async def main() -> Stage:
        stage = Stage()
        await stage.nodes("n0")
        await report_chips(stage.cluster, stage.clock, "n0", [1], healthy=False)
        await bound_pods(stage, "a", "b", npu=3)
        await stage.play(1, DevicePlugin(stage.cluster))
        return stage

    stage = run(main())
    assert chips(stage) == {
        "a": ["Ascend910-0", "Ascend910-2", "Ascend910-3"],
        "b": ["Ascend910-4", "Ascend910-5", "Ascend910-6"],
    }
    annotation = objects.annotations_of(stage.cluster.peek(PODS)[0])
    configuration = json.loads(annotation["ascend.kubectl.kubernetes.io/ascend-910-configuration"])
    assert [device["device_id"] for device in configuration["devices"]] == ["0", "2", "3"]


def test_a_pod_waits_for_chips_that_are_not_there() -> None:
    async def main() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        stage = Stage()
        await stage.nodes("n0")
        await report_chips(stage.cluster, stage.clock, "n0", [0], healthy=False)
        await bound_pods(stage, "a", npu=8)
        plugin = asyncio.create_task(DevicePlugin(stage.cluster).run())
        await asyncio.sleep(1)
        before = chips(stage)
        await report_chips(stage.cluster, stage.clock, "n0", [0], healthy=True)
        await asyncio.sleep(1)
        plugin.cancel()
        await asyncio.gather(plugin, return_exceptions=True)
        return before, chips(stage)

    before, after = run(main())
    assert before == {"a": []}
    assert len(after["a"]) == 8


def test_what_is_reported_faulty_cannot_be_given_to_anybody() -> None:
    async def main() -> list[tuple[str, int, bool]]:
        stage = Stage()
        await stage.nodes("n0")
        seen = []

        def look() -> None:
            (node,) = stage.cluster.peek(NODES)
            found = reported(stage.cluster.peek(CONFIG_MAPS), "n0")
            seen.append((node["status"]["allocatable"]["huawei.com/Ascend910"], len(found.chips), found.whole))

        for healthy in (False, True):
            await report_chips(stage.cluster, stage.clock, "n0", [2, 5], healthy=healthy)
            look()
            await report_switch(stage.cluster, stage.clock, "n0", healthy=healthy)
            look()
            await report_node(stage.cluster, stage.clock, "n0", healthy=healthy)
            look()
        return seen

    assert run(main()) == [
        ("6", 2, False), ("0", 2, True), ("0", 2, True),
        ("0", 0, True), ("0", 0, True), ("8", 0, False),
    ]  # fmt: skip
