"""The stand-ins for what gives out chips and what reports them faulty."""

from __future__ import annotations

import asyncio
import json

from scaler.kube.api import CONFIG_MAPS, NODES, PODS
from scaler.sim.actors import objects
from scaler.sim.actors.devices import (
    DevicePlugin,
    given_chips,
    report_chips,
    report_node,
    report_switch,
    reported,
)
from scaler.sim.loop import run
from tests.rig import Rig


async def bound_pods(on: Rig, *names: str, npu: int) -> None:
    for name in names:
        npus = {"huawei.com/Ascend910": str(npu)}
        container = {"name": "c", "image": "i", "resources": {"requests": npus, "limits": npus}}
        spec = {"nodeName": "n0", "containers": [container]}
        meta = {"name": name, "namespace": "default"}
        await on.cluster.create(
            PODS, "default", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )


def chips(on: Rig) -> dict[str, list[str]]:
    return {objects.name(pod): sorted(given_chips(pod)) for pod in on.cluster.peek(PODS)}


def test_pods_of_one_node_get_different_chips_that_are_healthy() -> None:
    async def main() -> Rig:
        on = Rig()
        on.nodes("n0")
        await report_chips(on.cluster, on.clock, "n0", [1], healthy=False)
        await bound_pods(on, "a", "b", npu=3)
        await on.play(1, DevicePlugin(on.cluster))
        return on

    on = run(main())
    assert chips(on) == {
        "a": ["Ascend910-0", "Ascend910-2", "Ascend910-3"],
        "b": ["Ascend910-4", "Ascend910-5", "Ascend910-6"],
    }
    annotation = objects.annotations_of(on.cluster.peek(PODS)[0])
    configuration = json.loads(annotation["ascend.kubectl.kubernetes.io/ascend-910-configuration"])
    assert [device["device_id"] for device in configuration["devices"]] == ["0", "2", "3"]


def test_a_pod_waits_for_chips_that_are_not_there() -> None:
    async def main() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        on = Rig()
        on.nodes("n0")
        await report_chips(on.cluster, on.clock, "n0", [0], healthy=False)
        await bound_pods(on, "a", npu=8)
        plugin = asyncio.create_task(DevicePlugin(on.cluster).run())
        await asyncio.sleep(1)
        before = chips(on)
        await report_chips(on.cluster, on.clock, "n0", [0], healthy=True)
        await asyncio.sleep(1)
        plugin.cancel()
        await asyncio.gather(plugin, return_exceptions=True)
        return before, chips(on)

    before, after = run(main())
    assert before == {"a": []}
    assert len(after["a"]) == 8


def test_what_is_reported_faulty_cannot_be_given_to_anybody() -> None:
    async def main() -> list[tuple[str, int, bool]]:
        on = Rig()
        on.nodes("n0")
        seen = []

        def look() -> None:
            (node,) = on.cluster.peek(NODES)
            found = reported(on.cluster.peek(CONFIG_MAPS), "n0")
            seen.append(
                (
                    node["status"]["allocatable"]["huawei.com/Ascend910"],
                    len(found.chips),
                    found.whole,
                )
            )

        for healthy in (False, True):
            await report_chips(on.cluster, on.clock, "n0", [2, 5], healthy=healthy)
            look()
            await report_switch(on.cluster, on.clock, "n0", healthy=healthy)
            look()
            await report_node(on.cluster, on.clock, "n0", healthy=healthy)
            look()
        return seen

    assert run(main()) == [
        ("6", 2, False),
        ("0", 2, True),
        ("0", 2, True),
        ("0", 0, True),
        ("0", 0, True),
        ("8", 0, False),
    ]
