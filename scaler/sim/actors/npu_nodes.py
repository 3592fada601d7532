"""The nodes as MindCluster's plugin of Volcano sees them: chips by number, super-pods, and why a
node takes no pod.

Read from the annotation `baseDeviceInfos` of a node, from the reports of its device plugin and of
NodeD, and from the annotations of the pods on it. Written from what the real plugin does
(docs/reference/scenario.md), and independent of scaler.decide: the stand-ins judge the
controller. Must not: do I/O, or know of gangs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors import objects
from scaler.sim.actors.devices import (
    BASE_DEVICES,
    DEVICE_NAMESPACE,
    DEVICE_PREFIX,
    NODE_NAMESPACE,
    NODE_PREFIX,
    PRE_SEPARATE,
    SUB_HEALTHY,
    UNHEALTHY,
    chip_index,
    given_chips,
)

NO_SUPER_POD = -1
_VENDOR = "huawei.com/"


class NpuNode(msgspec.Struct):
    """One node in one session of the scheduler. Chips are their numbers on the node."""

    name: str
    resource: str = ""
    """The NPU resource, "" where the node has none."""
    capacity: int = 0
    idle: int = 0
    """Chips that no pod requests, as Kubernetes counts them."""
    listed: bool = False
    """Its device data is there: without it the plugin gives out none of its chips."""
    available: frozenset[int] = frozenset()
    """Chips that may be given out."""
    unlinked: frozenset[int] = frozenset()
    """Chips whose network is unhealthy: no use to several pods that work together."""
    unhealthy: int = 0
    """How many of its chips are reported as unhealthy."""
    super_pod: int = NO_SUPER_POD
    faulty: str = ""
    """Why no pod at all may come, whatever it requests."""
    sub_healthy: bool = False

    @property
    def stable(self) -> bool:
        """Whether the reports of the device plugin and of the kubelet agree."""
        return self.listed and len(self.available) <= self.idle <= self.capacity

    def usable(self, *, distributed: bool) -> frozenset[int]:
        """The available chips for a pod; `distributed` = it works together with others."""
        return self.available - self.unlinked if distributed else self.available

    def take(self, chips: frozenset[int], requested: int) -> None:
        self.available -= chips
        self.idle -= requested

    def give_back(self, chips: frozenset[int], requested: int) -> None:
        self.available |= chips
        self.idle += requested


class Reports:
    """The documents of device plugins and of NodeD, by node."""

    def __init__(self, config_maps: Iterable[Object]) -> None:
        self._devices: dict[str, Object] = {}
        self._machines: dict[str, Object] = {}
        for config_map in config_maps:
            place = objects.namespace(config_map)
            name = objects.name(config_map)
            if place == DEVICE_NAMESPACE and name.startswith(DEVICE_PREFIX):
                self._devices[name.removeprefix(DEVICE_PREFIX)] = config_map.get("data") or {}
            elif place == NODE_NAMESPACE and name.startswith(NODE_PREFIX):
                self._machines[name.removeprefix(NODE_PREFIX)] = config_map.get("data") or {}

    def devices(self, node: str) -> Object:
        """The document of the device plugin, {} without one."""
        return _parsed(self._devices.get(node, {}).get("DeviceInfoCfg", ""))

    def switch(self, node: str) -> str:
        """The health of the node's switch, "" where nothing is said of it."""
        document = _parsed(self._devices.get(node, {}).get("SwitchInfoCfg", ""))
        return str(document.get("NodeStatus") or "")

    def machine(self, node: str) -> str:
        """What NodeD says of the node, "" where it says nothing."""
        document = _parsed(self._machines.get(node, {}).get("NodeInfo", ""))
        return str((document.get("NodeInfo") or {}).get("NodeStatus") or "")


def npu_nodes(
    nodes: Iterable[Object], reports: Reports, pods: Iterable[Object]
) -> dict[str, NpuNode]:
    """Every node that is ready, by name, with the chips left beside the pods on it."""
    on_node: dict[str, list[Object]] = {}
    for pod in pods:
        if objects.node_of(pod) and not objects.ended(pod):
            on_node.setdefault(objects.node_of(pod), []).append(pod)
    found = {}
    for node in nodes:
        name = objects.name(node)
        if objects.node_ready(node):
            found[name] = _npu_node(node, reports, on_node.get(name, []))
    return found


def _npu_node(node: Object, reports: Reports, pods: list[Object]) -> NpuNode:
    name = objects.name(node)
    resource, capacity = npu_in(objects.status(node).get("capacity") or {})
    allocatable = int(objects.allocatable(node).get(resource, 0.0)) if resource else 0
    document = reports.devices(name)
    listed_devices = (document.get("DeviceInfo") or {}).get("DeviceList") or {}
    base = _parsed(objects.annotations_of(node).get(BASE_DEVICES, ""))
    taken = frozenset[int]()
    requested = 0
    for pod in pods:
        taken |= frozenset(map(chip_index, given_chips(pod)))
        requested += requested_chips(pod, resource)
    unhealthy = _chips(listed_devices, f"{resource}-Unhealthy")
    recovering = _chips(listed_devices, f"{resource}-Recovering")
    known = frozenset(map(chip_index, base))
    super_pod = document.get("SuperPodID", NO_SUPER_POD)
    return NpuNode(
        name,
        resource,
        capacity,
        allocatable - requested,
        listed=bool(resource) and bool(known) and resource in listed_devices,
        available=known - taken - unhealthy - recovering,
        unlinked=_chips(listed_devices, f"{resource}-NetworkUnhealthy"),
        unhealthy=len(unhealthy),
        super_pod=super_pod if isinstance(super_pod, int) else NO_SUPER_POD,
        faulty=_why_faulty(node, reports),
        sub_healthy=_is_sub_healthy(listed_devices, resource, reports.switch(name)),
    )


def _why_faulty(node: Object, reports: Reports) -> str:
    name = objects.name(node)
    said = objects.annotations_of(node).get("NodeHealthyStatus", "")
    machine = UNHEALTHY if said == UNHEALTHY else reports.machine(name)
    if UNHEALTHY in (machine, reports.switch(name)):
        return "node is unhealthy"
    if machine == PRE_SEPARATE:
        return f"node health status is {PRE_SEPARATE}"
    return ""


def _is_sub_healthy(listed: Mapping[str, str], resource: str, switch: str) -> bool:
    if switch == SUB_HEALTHY:
        return True
    try:
        faults = json.loads(listed.get(f"{resource}-Fault") or "[]")
    except ValueError:
        return False
    return any(fault.get("fault_handling") == "SubHealthFault" for fault in faults)


def npu_in(amounts: Mapping[str, Any]) -> tuple[str, int]:
    """The NPU resource among amounts of resources, with its amount; ("", 0) without one."""
    for name, amount in amounts.items():
        if name.startswith(_VENDOR):
            return name, int(objects.quantity(amount))
    return "", 0


def requested_chips(pod: Object, resource: str = "") -> int:
    """How many chips a pod requests, of one resource or of any."""
    total = 0.0
    for name, amount in objects.requests(pod).items():
        if name == resource or (not resource and name.startswith(_VENDOR)):
            total += amount
    return int(total)


def _chips(listed: Mapping[str, str], key: str) -> frozenset[int]:
    """The numbers of the chips that a key of the device list names, separated by commas."""
    names = [name for name in (listed.get(key) or "").split(",") if name]
    return frozenset(map(chip_index, names))


def _parsed(text: str) -> Object:
    """A JSON object; {} for anything else."""
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
