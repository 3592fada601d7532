"""Nodes of Atlas A2 and A3 as MindCluster's agents describe them, for tests."""

from __future__ import annotations

import json
from collections.abc import Collection

from scaler.kube.api import CONFIG_MAPS, Object
from tests.jobs import manifest, node

NPU = "huawei.com/Ascend910"
PLUGIN = manifest(
    CONFIG_MAPS,
    "volcano-scheduler-configmap",
    "volcano-system",
    data={"volcano-scheduler.conf": "tiers:\n- plugins:\n  - name: volcano-npu_v7.3.0_linux"},
)
"""The configuration of a scheduler that has MindCluster's plugin."""


def npu_node(name: str, chips: int = 16, *, allocatable: int | None = None) -> Object:
    """A node with chips that its device plugin has described."""
    made = node(name)
    devices = {f"Ascend910-{index}": {"IP": "10.0.0.1"} for index in range(chips)}
    made["metadata"]["annotations"] = {"baseDeviceInfos": json.dumps(devices)}
    made["metadata"]["labels"] = {"accelerator": "huawei-Ascend910"}
    amounts = {NPU: str(chips), "pods": "110", "cpu": "192"}
    there = chips if allocatable is None else allocatable
    made["status"] |= {"capacity": amounts, "allocatable": {**amounts, NPU: str(there)}}
    return made


def device_data(
    name: str, super_pod: int = -2, *, fault: str = "", **chips: Collection[int]
) -> Object:
    """The report of the device plugin of a node. `chips`: indexes of those that are `Unhealthy`,
    `NetworkUnhealthy`, `Recovering`."""
    lists = {NPU: "", f"{NPU}-NetworkUnhealthy": ""}
    lists[f"{NPU}-Fault"] = json.dumps([{"fault_handling": fault}] if fault else [])
    for what, some in chips.items():
        lists[f"{NPU}-{what}"] = _names(some)
    said = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}, "SuperPodID": super_pod}
    data = {"DeviceInfoCfg": json.dumps(said)}
    return manifest(CONFIG_MAPS, f"mindx-dl-deviceinfo-{name}", "kube-system", data=data)


def node_status(name: str, status: str) -> Object:
    """The report of NodeD of a node."""
    data = {"NodeInfo": json.dumps({"NodeInfo": {"NodeStatus": status}})}
    return manifest(CONFIG_MAPS, f"mindx-dl-nodeinfo-{name}", "mindx-dl", data=data)


def _names(chips: Collection[int]) -> str:
    return ",".join(f"Ascend910-{index}" for index in chips)
