"""The rank table (`hccl.json`) of one instance, from the device annotations of its pods. Pure.

A table is `completed` only when every expected pod has its chips; otherwise its text is just `initializing`, never an
old list. Must not raise on any input: what keeps a table from being made is `RankTable.problem`, in words.
Where the result differs from Ascend Operator's on purpose, docs/reference/ranktable.md lists it with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.names import RANK_TABLE_PREFIX
from scaler.ranktables.network_levels import network_levels
from scaler.rules.jobspec import LEADER, WORKER, read_replicas
from scaler.workloads.ascendjob import Job, as_list, as_mapping, as_text
from scaler.workloads.devices import Chip, Configuration, PodDevices, read_configuration

SUPER_POD_POLICIES = frozenset({"chip2-node16-sp", "chip2-node8-sp", "multilevel"})
SUPER_POD_ACCELERATORS = frozenset({"module-a3-16-super-pod", "module-a3-8-super-pod"})
NO_DEVICE_IP = "-1"


class Layout(StrEnum):
    """The versions of the file; which one is a matter of the hardware (see `layout_of`)."""

    V1_0 = "1.0"
    V1_2 = "1.2"
    V2_0 = "2.0"


class Status(StrEnum):
    INITIALIZING = "initializing"
    COMPLETED = "completed"


class RankTablePod(msgspec.Struct, frozen=True):
    """One pod that exists, as the table sees it. `lost` = terminating or ended: its chips are not the job's now."""

    name: str
    node: str
    devices: PodDevices = PodDevices()
    lost: bool = False


class RankTable(msgspec.Struct, frozen=True):
    """What `hccl.json` is to say. With a `problem` the status is initializing."""

    status: Status
    text: str
    problem: str = ""


INITIALIZING = RankTable(Status.INITIALIZING, '{"status":"initializing"}')
"""Exactly what the ConfigMap is delivered with, so that a fresh one needs no write."""


class _Server(msgspec.Struct, frozen=True):
    """One pod in the table. `rank` is the pod's; its first chip has rank * number of chips."""

    pod: str
    rank: int
    node: str
    configuration: Configuration
    devices: PodDevices

    @property
    def first_rank(self) -> int:
        return self.rank * len(self.configuration.chips)


def rank_table(job: Job, obj: Object, members: Sequence[RankTablePod]) -> RankTable:
    """The table of `job` (its object is `obj`), given those of its pods that exist."""
    expected = _computing_pods(job, obj)
    present = {member.name: member for member in members if not member.lost}
    if job.deleting or not expected or not all(name in present for name in job.pods):
        return INITIALIZING
    servers: list[_Server] = []
    for name, rank in expected.items():
        member = present[name]
        if not member.devices.configuration:
            return INITIALIZING
        found = _server(member, rank)
        if isinstance(found, str):
            return _refused(found)
        servers.append(found)
    problem = _disagreement(servers) or _address_problem(servers, obj)
    if problem:
        return _refused(problem)
    if not all(server.devices.ip for server in servers):
        return INITIALIZING
    return _completed(sorted(servers, key=lambda server: server.rank), obj)


def layout_of(obj: Object) -> Layout:
    """The layout that the job's hardware needs; a present schedule_policy decides alone, as in Ascend Operator."""
    templates = _templates(obj)
    if any("huawei.com/npu" in _wanted(container) for template in templates for container in _containers(template)):
        return Layout.V2_0
    annotations = as_mapping(as_mapping(obj.get("metadata")).get("annotations"))
    if "huawei.com/schedule_policy" in annotations:
        policy = as_text(annotations["huawei.com/schedule_policy"])
        return Layout.V1_2 if policy in SUPER_POD_POLICIES else Layout.V1_0
    accelerators = {as_text(_pod_spec(template, "nodeSelector").get("accelerator-type")) for template in templates}
    if "sp-block" in annotations or accelerators & SUPER_POD_ACCELERATORS:
        return Layout.V1_2
    return Layout.V1_0


def mounts_rank_table(job: Job, obj: Object) -> bool:
    """Whether its pods mount the ConfigMap: they cannot start while it is missing."""
    return any(
        as_mapping(as_mapping(volume).get("configMap")).get("name") == RANK_TABLE_PREFIX + job.name
        for template in _templates(obj)
        for volume in as_list(_pod_spec(template).get("volumes"))
    )


def _computing_pods(job: Job, obj: Object) -> dict[str, int]:
    """Pods that ask for NPUs, with the rank each has unless its annotation says otherwise."""
    replicas = read_replicas(obj)
    leader_computes = _computes(obj, LEADER)
    computing: dict[str, int] = {}
    names = iter(job.pods)
    for kind, number in replicas.items():
        computes = _computes(obj, kind)
        for index in range(number):
            name = next(names, "")
            if computes and name:
                computing[name] = index + leader_computes if kind == WORKER else index
    return computing


def _computes(obj: Object, kind: str) -> bool:
    return any(
        name.startswith("huawei.com/") and str(amount) != "0"
        for template in _templates(obj, kind)
        for container in _containers(template)
        for name, amount in _wanted(container).items()
    )


def _server(member: RankTablePod, rank: int) -> _Server | str:
    devices = member.devices
    if devices.rank_index:
        if not (devices.rank_index.isascii() and devices.rank_index.isdecimal() and len(devices.rank_index) <= 6):
            return f"pod {member.name}: hccl/rankIndex is {devices.rank_index[:40]!r}, not a number"
        rank = int(devices.rank_index)
    configuration = read_configuration(devices.configuration)
    if isinstance(configuration, str):
        return f"pod {member.name}: the device annotation cannot be used: {configuration}"
    return _Server(member.name, rank, member.node, configuration, devices)


def _disagreement(servers: Sequence[_Server]) -> str:
    """Why the pods do not make one table together, "" when they do."""
    sizes = sorted({len(server.configuration.chips) for server in servers})
    if len(sizes) > 1:
        return f"its pods have different numbers of chips ({sizes[0]} and {sizes[-1]}), ranks would collide"
    ranks = sorted(server.rank for server in servers)
    if ranks != list(range(len(servers))):
        return f"the ranks of its pods are {_listed(ranks)}, not 0 to {len(servers) - 1}"
    seen: dict[tuple[str, str], str] = {}
    for server in servers:
        for chip in server.configuration.chips:
            other = seen.setdefault((server.node, chip.device_id), server.pod)
            if other != server.pod:
                return f"pods {other} and {server.pod} both have chip {chip.device_id} of node {server.node}"
    return ""


def _address_problem(servers: Sequence[_Server], obj: Object) -> str:
    """Addresses that the layout needs and the annotations do not give."""
    layout = layout_of(obj)
    for server in servers:
        if not (server.configuration.host_ip or server.configuration.server_id):
            return f"pod {server.pod}: the device annotation has neither host_ip nor server_id"
    chips = sum(len(server.configuration.chips) for server in servers)
    if layout is Layout.V1_0 or (layout is Layout.V1_2 and chips > _super_pod_block(obj, chips)):
        for server in servers:
            if any(chip.device_ip == NO_DEVICE_IP for chip in server.configuration.chips):
                return f"pod {server.pod}: a chip has the address -1, which means that it has no network"
    return ""


def _super_pod_block(obj: Object, default: int) -> int:
    """Chips per logical super pod."""
    text = as_text(as_mapping(as_mapping(obj.get("metadata")).get("annotations")).get("sp-block"))
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) else default


def _completed(servers: Sequence[_Server], obj: Object) -> RankTable:
    layout = layout_of(obj)
    if layout is Layout.V2_0:
        return _completed_2_0(servers, obj)
    apart = len({server.node for server in servers}) == len(servers)
    ids = [_server_id(server.configuration, apart) for server in servers]
    content: dict[str, Any] = {
        "status": Status.COMPLETED.value,
        "server_list": [_entry(server, name, layout) for server, name in zip(servers, ids, strict=True)],
        "server_count": str(len(servers)),
        "version": layout.value,
    }
    if layout is Layout.V1_2:
        content["super_pod_list"] = _super_pods(servers, ids)
    return RankTable(Status.COMPLETED, _json(content))


def _server_id(configuration: Configuration, apart: bool) -> str:
    """The host's address, unless two pods share a host; then the id that tells them apart."""
    first, second = configuration.host_ip, configuration.server_id
    return (first or second) if apart else (second or first)


def _entry(server: _Server, server_id: str, layout: Layout) -> dict[str, Any]:
    ranked = enumerate(server.configuration.chips, start=server.first_rank)
    entry: dict[str, Any] = {"device": [_device(chip, rank, layout) for rank, chip in ranked]}
    if server.devices.hardware_type:
        entry["hardware_type"] = server.devices.hardware_type
    addresses = {"host_ip": server.configuration.host_ip, "container_ip": server.devices.ip}
    return entry | {"server_id": server_id} | {key: value for key, value in addresses.items() if value}


def _device(chip: Chip, rank: int, layout: Layout) -> dict[str, str]:
    device = {"device_id": chip.device_id, "device_ip": chip.device_ip}
    if layout is Layout.V1_2:
        device["super_device_id"] = chip.super_device_id
    return {**device, "rank_id": str(rank)}


def _super_pods(servers: Sequence[_Server], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Servers by super pod, both in the order of ranks."""
    groups: dict[str, list[dict[str, str]]] = {}
    for server, server_id in zip(servers, ids, strict=True):
        groups.setdefault(server.devices.super_pod, []).append({"server_id": server_id})
    return [{"super_pod_id": name, "server_list": members} for name, members in groups.items()]


def _completed_2_0(servers: Sequence[_Server], obj: Object) -> RankTable:
    scale_out = as_text(as_mapping(as_mapping(obj.get("metadata")).get("labels")).get("scaleout-type"))
    chips = [chip for server in servers for chip in server.configuration.chips]
    levels = network_levels([chip.levels for chip in chips], scale_out)
    if isinstance(levels, str):
        return _refused(levels)
    ranks = [
        {"rank_id": rank, "local_id": int(chip.device_id), "device_id": int(chip.device_id), "level_list": level}
        for rank, (chip, level) in enumerate(zip(chips, levels, strict=True))
    ]
    content = {"status": Status.COMPLETED.value, "version": "2.0", "rank_count": len(ranks), "rank_list": ranks}
    return RankTable(Status.COMPLETED, _json(content))


def _refused(problem: str) -> RankTable:
    return RankTable(Status.INITIALIZING, INITIALIZING.text, problem)


def _templates(obj: Object, kind: str = "") -> list[Mapping[str, Any]]:
    specs = as_mapping(as_mapping(obj.get("spec")).get("replicaSpecs"))
    return [
        as_mapping(as_mapping(spec).get("template"))
        for name, spec in specs.items()
        if not kind or str(name).capitalize() == kind
    ]


def _pod_spec(template: Mapping[str, Any], key: str = "") -> Mapping[str, Any]:
    spec = as_mapping(template.get("spec"))
    return as_mapping(spec.get(key)) if key else spec


def _containers(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [as_mapping(container) for container in as_list(_pod_spec(template).get("containers"))]


def _wanted(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = as_mapping(container.get("resources"))
    return {**as_mapping(resources.get("limits")), **as_mapping(resources.get("requests"))}


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return f"{shown}, ..." if len(ranks) > 8 else shown


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))
