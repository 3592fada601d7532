"""What MindCluster's agents report of a node: the documents of the device plugin and of NodeD, written and read.

The formats are those of the real components (docs/reference/faults.md). A node that never had a fault has no document
here, although a real device plugin always has one. Must not: act on a fault.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from scaler.clock import Clock, rfc3339
from scaler.kube.api import CONFIG_MAPS, NODES, KubeApi, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.chips import chip_name, chips_of
from scaler.sim.stories.manifests import ensure_namespace

DEVICE_NAMESPACE, NODE_NAMESPACE = "kube-system", "mindx-dl"
DEVICE_PREFIX, NODE_PREFIX = "mindx-dl-deviceinfo-", "mindx-dl-nodeinfo-"
LABELS = {"mx-consumer-cim": "true"}
HEALTHY, UNHEALTHY = "Healthy", "UnHealthy"


class Reported(msgspec.Struct, frozen=True):
    """What is reported of one node. `whole` = the node or its switch is not to be used at all."""

    chips: frozenset[str] = frozenset()
    whole: bool = False


def reports(config_maps: Iterable[Object]) -> list[Object]:
    """Those of all ConfigMaps in which an agent reports something."""
    return [cm for cm in config_maps if objects.name(cm).startswith((DEVICE_PREFIX, NODE_PREFIX))]


def reported(config_maps: Iterable[Object], node: str) -> Reported:
    """What the documents about `node` say."""
    chips: frozenset[str] = frozenset()
    whole = False
    for cm in config_maps:
        data = cm.get("data") or {}
        if objects.name(cm) == DEVICE_PREFIX + node:
            devices = json.loads(data["DeviceInfoCfg"])["DeviceInfo"]["DeviceList"]
            listed = [value for key, value in devices.items() if key.endswith("-Unhealthy")]
            chips = frozenset(name for value in listed for name in value.split(",") if name)
            whole = whole or json.loads(data.get("SwitchInfoCfg", "{}")).get("NodeStatus") == UNHEALTHY
        elif objects.name(cm) == NODE_PREFIX + node:
            whole = whole or json.loads(data["NodeInfo"])["NodeInfo"]["NodeStatus"] == UNHEALTHY
    return Reported(chips, whole)


async def report_chips(api: KubeApi, clock: Clock, node: str, chips: Iterable[int], *, healthy: bool) -> None:
    """The device plugin of `node` finds these chips faulty, or well again."""
    obj = await api.get(NODES, None, node)
    resource, number = chips_of(obj)
    before = reported((await api.list(CONFIG_MAPS, DEVICE_NAMESPACE)).items, node).chips
    named = {chip_name(resource, index) for index in chips if index < number}
    await _write_devices(api, clock, obj, frozenset(before - named if healthy else before | named))


async def report_switch(api: KubeApi, clock: Clock, node: str, *, healthy: bool) -> None:
    """The switch of `node` fails, or is well again."""
    status = HEALTHY if healthy else UNHEALTHY
    fault = {"FaultCode": [] if healthy else ["[0x08520003,na,L2,na]"], "FaultLevel": "" if healthy else "Separate"}
    info: dict[str, Any] = {**fault, "UpdateTime": int(clock.now()), "NodeStatus": status, "FaultTimeAndLevelMap": {}}
    obj = await api.get(NODES, None, node)
    before = reported((await api.list(CONFIG_MAPS, DEVICE_NAMESPACE)).items, node).chips
    await _write_devices(api, clock, obj, before, switch=json.dumps(info))


async def report_node(api: KubeApi, clock: Clock, node: str, *, healthy: bool) -> None:
    """NodeD of `node` finds a fault of the machine, or none any more: then it deletes its document."""
    name = NODE_PREFIX + node
    if healthy:
        try:
            await api.delete(CONFIG_MAPS, NODE_NAMESPACE, name)
        except NotFoundError:
            return
    else:
        fault = {"DeviceType": "CPU", "DeviceId": 0, "FaultCode": ["00000011"], "FaultLevel": "SeparateFault"}
        info = {"FaultDevList": [fault], "NodeStatus": UNHEALTHY}
        data = {"NodeInfo": json.dumps({"NodeInfo": info, "CheckCode": _check_code(info)})}
        await put(api, NODE_NAMESPACE, name, {**data, "updateTime": rfc3339(clock.now())}, LABELS)
    await _set_allocatable(api, await api.get(NODES, None, node))


async def _write_devices(api: KubeApi, clock: Clock, node: Object, faulty: frozenset[str], *, switch: str = "") -> None:
    resource, number = chips_of(node)
    usable = [name for index in range(number) if (name := chip_name(resource, index)) not in faulty]
    info = {
        "DeviceList": {
            resource: ",".join(usable),
            f"{resource}-Fault": json.dumps([_fault(name) for name in sorted(faulty)]),
            f"{resource}-NetworkUnhealthy": "",
            f"{resource}-Recovering": "",
            f"{resource}-Unhealthy": ",".join(sorted(faulty)),
        },
        "UpdateTime": int(clock.now()),
    }
    document = {"DeviceInfo": info, "SuperPodID": -2, "ServerIndex": -2, "CheckCode": _check_code(info)}
    data = {"DeviceInfoCfg": json.dumps(document)} | ({"SwitchInfoCfg": switch} if switch else {})
    await put(api, DEVICE_NAMESPACE, DEVICE_PREFIX + objects.name(node), data, LABELS)
    await _set_allocatable(api, node)


async def _set_allocatable(api: KubeApi, node: Object) -> None:
    """As the kubelet tells the scheduler: what is faulty cannot be given to anybody."""
    name = objects.name(node)
    resource, number = chips_of(node)
    documents = [
        cm for place in (DEVICE_NAMESPACE, NODE_NAMESPACE) for cm in (await api.list(CONFIG_MAPS, place)).items
    ]
    faults = reported(documents, name)
    left = 0 if faults.whole else number - len(faults.chips)
    patch = {"status": {"allocatable": {resource: str(left)}}}
    await api.patch(NODES, None, name, patch, patch_type=PatchType.MERGE, subresource="status")


def _fault(name: str) -> dict[str, Any]:
    level = "SeparateNPU"
    levels = {"large_model_fault_level": level, "fault_level": level, "fault_handling": level}
    return {"fault_type": "CardUnhealthy", "npu_name": name, **levels, "fault_code": "80E18005"}


def _check_code(info: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(info, separators=(",", ":")).encode()).hexdigest()


async def put(api: KubeApi, namespace: str, name: str, data: dict[str, str], labels: dict[str, str]) -> None:
    """Create the ConfigMap, or merge `data` into the one that is there."""
    patch = {"data": data}
    try:
        await api.patch(CONFIG_MAPS, namespace, name, patch, patch_type=PatchType.MERGE)
    except NotFoundError:
        await ensure_namespace(api, namespace)
        meta = {"name": name, "namespace": namespace, "labels": labels}
        await api.create(CONFIG_MAPS, namespace, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **patch})
