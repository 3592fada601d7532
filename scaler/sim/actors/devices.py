"""The chips of nodes: reports of agents about them, and their assignment to pods.

A bound pod that requests NPUs gets the first chips of its node that are neither taken nor reported
faulty, with the matching annotations. The documents of the device plugin and of NodeD have the
formats of the real components (docs/reference/faults.md); a node that never had a fault has none
here, although a real device plugin always has one. Chips and addresses are derived from names, so
they are the same in every run. Must not: bind pods, act on a fault, or know of rules, jobs and rank
tables."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.clock import Clock
from scaler.kube.api import CONFIG_MAPS, NODES, PODS, KubeApi, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import StandIn, merge
from scaler.sim.stories.manifests import ensure_namespace
from scaler.timestamps import rfc3339

REAL = "huawei.com/AscendReal"
CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
_VENDOR = "huawei.com/"


def chips_of(node: Object | None) -> tuple[str, int]:
    """The NPU resource of a node and its number of chips, faulty ones included."""
    capacity = objects.status(node).get("capacity") or {} if node else {}
    return _devices_in(capacity)


def _devices_in(amounts: Mapping[str, Any]) -> tuple[str, int]:
    """The NPU resource among amounts of resources, with its amount; ("", 0) without one."""
    for name, amount in amounts.items():
        if name.startswith(_VENDOR):
            return name, int(amount)
    return "", 0


def _chip_names(resource: str, number: int) -> list[str]:
    """The first chips of a node."""
    return [chip_name(resource, index) for index in range(number)]


def chip_name(resource: str, index: int) -> str:
    """The name in MindCluster: `Ascend910-3`."""
    return f"{resource.removeprefix(_VENDOR)}-{index}"


def chip_index(name: str) -> int:
    return int(name.rpartition("-")[2])


def given_chips(pod: Object) -> frozenset[str]:
    """Names of the chips in the pod's annotation."""
    return _names_in(objects.annotations_of(pod).get(REAL, ""))


def _names_in(text: str) -> frozenset[str]:
    """Names with commas between them."""
    return frozenset(text.split(",")) - {""}


def device_annotations(pod: Object, node: str, chips: Iterable[str]) -> dict[str, str]:
    """The annotations that Volcano's plugin and the device plugin write on a pod with these chips
    of `node`."""
    names = sorted(chips, key=chip_index)
    devices = []
    for rank, name in enumerate(names):
        device = {
            "device_id": str(chip_index(name)),
            "device_ip": _address(29, f"{node}/{name}"),
            "super_device_id": str(rank),
        }
        devices.append(device)
    server = {
        "pod_name": objects.name(pod),
        "server_id": objects.uid(pod),
        "host_ip": host_address(node),
    }
    configuration = {**server, "devices": devices}
    return {REAL: ",".join(names), CONFIGURATION: json.dumps(configuration)}


def base_annotations(
    node: str, resource: str, chips: int, super_pod: int | None = None
) -> dict[str, str]:
    """The annotations that the device plugin writes on its node."""
    base = {}
    for index, name in enumerate(_chip_names(resource, chips)):
        address = _address(29, f"{node}/{name}")
        base[name] = {"IP": address, "SuperDeviceID": index}
    notes = {BASE_DEVICES: json.dumps(base)}
    return notes if super_pod is None else {**notes, SUPER_POD_ID: str(super_pod)}


def pod_address(pod: Object) -> str:
    return _address(10, f"{objects.namespace(pod)}/{objects.name(pod)}")


def host_address(node: str) -> str:
    return _address(172, node)


def _address(first: int, text: str) -> str:
    number = zlib.crc32(text.encode())
    return f"{first}.{number >> 16 & 255}.{number >> 8 & 255}.{max(1, number & 255)}"


DEVICE_NAMESPACE = "kube-system"
NODE_NAMESPACE = "mindx-dl"
DEVICE_PREFIX = "mindx-dl-deviceinfo-"
NODE_PREFIX = "mindx-dl-nodeinfo-"
LABELS = {"mx-consumer-cim": "true"}
UNHEALTHY = "UnHealthy"
PRE_SEPARATE = "PreSeparate"
SUB_HEALTHY = "SubHealthy"
BASE_DEVICES = "baseDeviceInfos"
"""Annotation of a node with device data: its chips, with addresses."""
SUPER_POD_ID = "superPodID"
"""Annotation of a node of a super-pod."""
_SUB_HEALTH = "SubHealthFault"
"""Level of a fault with which a chip can still be used."""


class Reported(msgspec.Struct, frozen=True):
    """The report about one node. `whole` = no part of the node may be used, because of the node or
    its switch."""

    chips: frozenset[str] = frozenset()
    whole: bool = False
    sub_healthy: frozenset[str] = frozenset()
    """Chips with a fault with which they can still be used."""
    sub_healthy_switch: bool = False


def reported(config_maps: Iterable[Object], node: str) -> Reported:
    """The content of the documents about `node`."""
    chips = ChipReport()
    whole = False
    switch = ""
    for cm in config_maps:
        data = cm.get("data") or {}
        if objects.name(cm) == DEVICE_PREFIX + node:
            chips = _chips_in(data["DeviceInfoCfg"])
            switch = json.loads(data.get("SwitchInfoCfg", "{}")).get("NodeStatus", "")
            whole = whole or switch == UNHEALTHY
        elif objects.name(cm) == NODE_PREFIX + node:
            whole = whole or json.loads(data["NodeInfo"])["NodeInfo"]["NodeStatus"] == UNHEALTHY
    return Reported(chips.unhealthy, whole, chips.sub_healthy, switch == SUB_HEALTHY)


class ChipReport(msgspec.Struct, frozen=True):
    """What a device plugin says of the chips of its node, by their names."""

    unhealthy: frozenset[str] = frozenset()
    unlinked: frozenset[str] = frozenset()
    """Those whose network is unhealthy."""
    sub_healthy: frozenset[str] = frozenset()

    def with_chips(self, names: frozenset[str], **kinds: bool) -> ChipReport:
        """The same with these chips among those of a kind (True), or not among them (False)."""
        after = {}
        for kind, there in kinds.items():
            before: frozenset[str] = getattr(self, kind)
            after[kind] = before | names if there else before - names
        return msgspec.structs.replace(self, **after)


async def report_devices(api: KubeApi, clock: Clock, node: str) -> None:
    """The device plugin of `node` reports that all chips are well."""
    await _write_devices(api, clock, await api.get(NODES, None, node), ChipReport())


async def report_chips(
    api: KubeApi, clock: Clock, node: str, chips: Iterable[int], *, healthy: bool
) -> None:
    """The device plugin of `node` reports these chips as faulty, or as healthy again."""
    kinds = {"unhealthy": not healthy}
    if healthy:
        kinds |= {"unlinked": False, "sub_healthy": False}
    await _report_kinds(api, clock, node, chips, kinds)


async def report_network(api: KubeApi, clock: Clock, node: str, chips: Iterable[int]) -> None:
    """The device plugin of `node` reports the network of these chips as unhealthy."""
    await _report_kinds(api, clock, node, chips, {"unlinked": True})


async def report_sub_health(api: KubeApi, clock: Clock, node: str, chips: Iterable[int]) -> None:
    """The device plugin of `node` reports these chips as sub-healthy."""
    await _report_kinds(api, clock, node, chips, {"sub_healthy": True})


async def _report_kinds(
    api: KubeApi, clock: Clock, node: str, chips: Iterable[int], kinds: dict[str, bool]
) -> None:
    obj = await api.get(NODES, None, node)
    resource, number = chips_of(obj)
    before = await _chip_report(api, node)
    named = set(_chip_names(resource, number)) & {chip_name(resource, index) for index in chips}
    await _write_devices(api, clock, obj, before.with_chips(frozenset(named), **kinds))


async def _chip_report(api: KubeApi, node: str) -> ChipReport:
    """What the document of the device plugin says now."""
    try:
        found = await api.get(CONFIG_MAPS, DEVICE_NAMESPACE, DEVICE_PREFIX + node)
    except NotFoundError:
        return ChipReport()
    return _chips_in(found["data"]["DeviceInfoCfg"])


def _chips_in(text: str) -> ChipReport:
    """What a document of a device plugin says of the chips."""
    listed = json.loads(text)["DeviceInfo"]["DeviceList"]
    kinds: dict[str, frozenset[str]] = {}
    for key, value in listed.items():
        if key.endswith("-Unhealthy"):
            kinds["unhealthy"] = _names_in(value)
        elif key.endswith("-NetworkUnhealthy"):
            kinds["unlinked"] = _names_in(value)
        elif key.endswith("-Fault"):
            faults = json.loads(value or "[]")
            sub = [one["npu_name"] for one in faults if one["fault_handling"] == _SUB_HEALTH]
            kinds["sub_healthy"] = frozenset(sub)
    return ChipReport(**kinds)


async def report_switch(
    api: KubeApi, clock: Clock, node: str, *, healthy: bool, sub_healthy: bool = False
) -> None:
    """The switch of `node` fails, or is healthy or sub-healthy."""
    status = "Healthy" if healthy else SUB_HEALTHY if sub_healthy else UNHEALTHY
    fault = {
        "FaultCode": [] if healthy else ["[0x08520003,na,L2,na]"],
        "FaultLevel": "" if healthy else _SUB_HEALTH if sub_healthy else "Separate",
    }
    info: dict[str, Any] = {
        **fault,
        "UpdateTime": int(clock.now()),
        "NodeStatus": status,
        "FaultTimeAndLevelMap": {},
    }
    obj = await api.get(NODES, None, node)
    await _write_devices(api, clock, obj, await _chip_report(api, node), switch=json.dumps(info))


async def report_node(
    api: KubeApi, clock: Clock, node: str, *, healthy: bool, status: str = UNHEALTHY
) -> None:
    """NodeD of `node` reports a fault of the machine; if there is none any more, it deletes its
    document."""
    name = NODE_PREFIX + node
    if healthy:
        try:
            await api.delete(CONFIG_MAPS, NODE_NAMESPACE, name)
        except NotFoundError:
            return
    else:
        fault = {
            "DeviceType": "CPU",
            "DeviceId": 0,
            "FaultCode": ["00000011"],
            "FaultLevel": "SeparateFault" if status == UNHEALTHY else "PreSeparateFault",
        }
        info = {"FaultDevList": [fault], "NodeStatus": status}
        data = {"NodeInfo": json.dumps({"NodeInfo": info, "CheckCode": _check_code(info)})}
        await put(api, NODE_NAMESPACE, name, {**data, "updateTime": rfc3339(clock.now())}, LABELS)
    await _set_allocatable(api, await api.get(NODES, None, node))


async def _write_devices(
    api: KubeApi, clock: Clock, node: Object, report: ChipReport, *, switch: str = ""
) -> None:
    resource, number = chips_of(node)
    usable = [name for name in _chip_names(resource, number) if name not in report.unhealthy]
    faults = []
    for name in sorted(report.unhealthy):
        faults.append(_fault(name, "CardUnhealthy", "SeparateNPU"))
    for name in sorted(report.unlinked):
        faults.append(_fault(name, "CardNetworkUnhealthy", "PreSeparateNPU"))
    for name in sorted(report.sub_healthy):
        faults.append(_fault(name, "CardUnhealthy", _SUB_HEALTH))
    info = {
        "DeviceList": {
            resource: ",".join(usable),
            f"{resource}-Fault": json.dumps(faults),
            f"{resource}-NetworkUnhealthy": ",".join(sorted(report.unlinked)),
            f"{resource}-Recovering": "",
            f"{resource}-Unhealthy": ",".join(sorted(report.unhealthy)),
        },
        "UpdateTime": int(clock.now()),
    }
    stated = objects.annotations_of(node).get(SUPER_POD_ID, "")
    document = {
        "DeviceInfo": info,
        "SuperPodID": int(stated) if stated else -2,
        "ServerIndex": -2,
        "CheckCode": _check_code(info),
    }
    data = {"DeviceInfoCfg": json.dumps(document)} | ({"SwitchInfoCfg": switch} if switch else {})
    await put(api, DEVICE_NAMESPACE, DEVICE_PREFIX + objects.name(node), data, LABELS)
    await _set_allocatable(api, node)


def _fault(name: str, kind: str, level: str) -> dict[str, str]:
    """One entry of the list of faults."""
    levels = dict.fromkeys(("large_model_fault_level", "fault_level", "fault_handling"), level)
    return {"fault_type": kind, "npu_name": name, **levels, "fault_code": "80E18005"}


async def _reported(api: KubeApi, node: str) -> Reported:
    of_devices = await api.list(CONFIG_MAPS, DEVICE_NAMESPACE)
    of_nodes = await api.list(CONFIG_MAPS, NODE_NAMESPACE)
    return reported([*of_devices.items, *of_nodes.items], node)


async def _set_allocatable(api: KubeApi, node: Object) -> None:
    """As the kubelet reports to the scheduler: faulty chips are not allocatable."""
    name = objects.name(node)
    resource, number = chips_of(node)
    faults = await _reported(api, name)
    by_chips_alone = BASE_DEVICES in objects.annotations_of(node)
    left = 0 if faults.whole and not by_chips_alone else number - len(faults.chips)
    patch = {"status": {"allocatable": {resource: str(left)}}}
    await api.patch(NODES, None, name, patch, patch_type=PatchType.MERGE, subresource="status")


def _check_code(info: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(info, separators=(",", ":")).encode()).hexdigest()


async def put(
    api: KubeApi, namespace: str, name: str, data: dict[str, str], labels: dict[str, str]
) -> None:
    """Create the ConfigMap, or merge `data` into the existing one."""
    patch = {"data": data}
    try:
        await api.patch(CONFIG_MAPS, namespace, name, patch, patch_type=PatchType.MERGE)
    except NotFoundError:
        await ensure_namespace(api, namespace)
        meta = {"name": name, "namespace": namespace, "labels": labels}
        await api.create(
            CONFIG_MAPS,
            namespace,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **patch},
        )


class DevicePlugin(StandIn):
    """Follows pods and nodes. Its state is only in the pods, so it may be restarted at any time."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, PODS, NODES, CONFIG_MAPS)
        self._given: dict[str, frozenset[str]] = {}
        """Pod uid -> its chips, also before the mirror shows the annotation."""

    async def _round(self) -> None:
        pods = []
        known = {}
        for pod in self.mirror.all(PODS):
            if objects.node_of(pod) and not objects.ended(pod):
                uid = objects.uid(pod)
                pods.append(pod)
                known[uid] = given_chips(pod) or self._given.get(uid, frozenset())
        self._given = known
        for pod in objects.staying(pods):
            if not known[objects.uid(pod)]:
                await self._serve(pod, pods)

    async def _serve(self, pod: Object, pods: list[Object]) -> None:
        """A pod for which there are not enough chips waits for a change."""
        node = objects.node_of(pod)
        resource, number = _devices_in(objects.requests(pod))
        has, built = chips_of(self.mirror.get(NODES, "", node))
        taken = set(reported(self.mirror.all(CONFIG_MAPS), node).chips)
        for other in pods:
            if objects.node_of(other) == node:
                taken |= self._given[objects.uid(other)]
        names = _chip_names(resource, built) if has == resource else []
        free = [name for name in names if name not in taken]
        if not number or len(free) < number:
            return
        chips = self._given[objects.uid(pod)] = frozenset(free[:number])
        patch: Object = {"metadata": {"annotations": device_annotations(pod, node, chips)}}
        if not await self.attempt(merge(self.api, PODS, pod, patch)):
            self._given[objects.uid(pod)] = frozenset()
