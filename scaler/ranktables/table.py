"""The rank table (`hccl.json`) of one instance, from the device annotations of its pods. Pure.

    pods of the instance -> servers with their chips -> checked together -> one of three layouts

A table is `completed` only when every expected pod has its chips; otherwise its text is only
`initializing`, never an old list. An annotation may be any text, and nothing here may raise:
`RankTable.problem` says why there is no table. docs/reference/ranktable.md lists each intended
difference from Ascend Operator, with its reason."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.names import RANK_TABLE_PREFIX
from scaler.rules.finding import shown
from scaler.rules.jobspec import LEADER, WORKER, read_replicas
from scaler.rules.values import as_list, as_text, at
from scaler.workloads.devices import PodDevices
from scaler.workloads.membership import Job, number_in
from scaler.workloads.pod_requests import amounts_of

SUPER_POD_POLICIES = frozenset({"chip2-node16-sp", "chip2-node8-sp", "multilevel"})
SUPER_POD_ACCELERATORS = frozenset({"module-a3-16-super-pod", "module-a3-8-super-pod"})
ROCE = "ROCE"
UBOE = "UBOE"
UBG = "UBG"
SCALE_OUT_LEVEL = {ROCE: 3, UBOE: 2, UBG: 2}
BY_LABEL = {ROCE: (ROCE,), UBOE: (UBOE, UBG)}
MAX_CHIPS = 1024
"""Per pod; far above any machine, so that a wrong annotation cannot make a very large table."""
_KEYS = ("net_layer", "net_instance_id", "net_type", "net_attr", "rank_addr_list")


class Layout(StrEnum):
    V1_0 = "1.0"
    V1_2 = "1.2"
    V2_0 = "2.0"


class Status(StrEnum):
    INITIALIZING = "initializing"
    COMPLETED = "completed"


class UnusableError(ValueError):
    """The message says why the chips of a pod, or of several pods together, make no table."""


class RankTablePod(msgspec.Struct, frozen=True):
    """One existing pod, as the table needs it. `lost` = terminating or ended: the job no longer has
    its chips."""

    name: str
    node: str
    devices: PodDevices = PodDevices()
    lost: bool = False


class Chip(msgspec.Struct, frozen=True):
    """One NPU of a pod. `levels` is for layout 2.0: the levels of networks as the annotation has
    them."""

    device_id: str
    device_ip: str
    super_device_id: str
    levels: tuple[Mapping[str, Any], ...]


class Server(msgspec.Struct, frozen=True):
    """One pod in the table. `rank` is the rank of the pod; its first chip has rank * number of
    chips."""

    pod: RankTablePod
    rank: int
    server_id: str
    host_ip: str
    chips: tuple[Chip, ...]


class RankTable(msgspec.Struct, frozen=True):
    """The content of `hccl.json`. With a `problem` the status is initializing."""

    status: Status
    packed: bytes
    """The text, compressed: every job has one, and it is read only for a write."""
    problem: str = ""

    @property
    def text(self) -> str:
        return zlib.decompress(self.packed).decode("utf-8", "surrogatepass")

    @classmethod
    def of(cls, status: Status, text: str, problem: str = "") -> RankTable:
        return cls(status, zlib.compress(text.encode("utf-8", "surrogatepass"), 1), problem)


INITIALIZING = RankTable.of(Status.INITIALIZING, '{"status":"initializing"}')
"""Exactly the text of a newly made ConfigMap, so that such a ConfigMap needs no write."""


def rank_table(job: Job, obj: Object, members: Sequence[RankTablePod]) -> RankTable:
    """The table of `job` (its object is `obj`), from those of its pods that exist."""
    expected = _computing_pods(job, obj)
    present = {member.name: member for member in members if not member.lost}
    if job.deleting or not expected or not present.keys() >= set(job.pods):
        return INITIALIZING
    servers: list[Server] = []
    try:
        for name, rank in expected.items():
            if not present[name].devices.configuration:
                return INITIALIZING
            servers.append(read_server(present[name], rank))
        servers.sort(key=lambda server: server.rank)
        layout = layout_of(obj)
        _check_together(servers, layout, obj)
        if any(not server.pod.devices.ip for server in servers):
            return INITIALIZING
        content = _content_2_0(servers, obj) if layout is Layout.V2_0 else _content(servers, layout)
    except UnusableError as problem:
        return RankTable(Status.INITIALIZING, INITIALIZING.packed, str(problem))
    return RankTable.of(Status.COMPLETED, json.dumps(content, separators=(",", ":")))


def layout_of(obj: Object) -> Layout:
    """The layout that the job's hardware needs; only schedule_policy counts if set, as in Ascend
    Operator."""
    specs = _pod_specs(obj)
    for container in _containers(specs):
        if "huawei.com/npu" in amounts_of(container):
            return Layout.V2_0
    annotations = at(obj, "metadata", "annotations")
    if "huawei.com/schedule_policy" in annotations:
        policy = as_text(annotations["huawei.com/schedule_policy"])
        return Layout.V1_2 if policy in SUPER_POD_POLICIES else Layout.V1_0
    accelerators = {as_text(at(spec, "nodeSelector").get("accelerator-type")) for spec in specs}
    return (
        Layout.V1_2
        if "sp-block" in annotations or accelerators & SUPER_POD_ACCELERATORS
        else Layout.V1_0
    )


def mounts_rank_table(job: Job, obj: Object) -> bool:
    """Whether its pods mount the ConfigMap: if they do, they cannot start while it is missing."""
    name = RANK_TABLE_PREFIX + job.name
    for spec in _pod_specs(obj):
        for volume in as_list(spec.get("volumes")):
            if at(volume, "configMap").get("name") == name:
                return True
    return False


def _computing_pods(job: Job, obj: Object) -> dict[str, int]:
    """The pods that request NPUs, each with the rank that counts if its annotation has none."""
    replicas = read_replicas(obj)
    computes = {kind: _requests_npus(obj, kind) for kind in replicas}
    ranks = dict[str, int]()
    names = iter(job.pods)
    for kind, number in replicas.items():
        first = 1 if kind == WORKER and computes[LEADER] else 0
        for index in range(number):
            name = next(names, None)
            if name is not None and computes[kind]:
                ranks[name] = first + index
    return ranks


def _requests_npus(obj: Object, kind: str) -> bool:
    """Whether the pods of this kind of replica request any."""
    for container in _containers([at(obj, "spec", "replicaSpecs", kind, "template", "spec")]):
        for name, amount in amounts_of(container).items():
            if name.startswith("huawei.com/") and str(amount) != "0":
                return True
    return False


def read_server(pod: RankTablePod, rank: int) -> Server:
    """The pod with its chips; `rank` counts if its annotations have none. Raises UnusableError."""
    text = pod.devices.rank_index
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise UnusableError(f"pod {pod.name}: hccl/rankIndex is {text[:40]!r}, not a number")
    try:
        server_id, host_ip, chips = _read(pod.devices.configuration)
    except UnusableError as problem:
        raise UnusableError(
            f"pod {pod.name}: the device annotation cannot be used: {problem}"
        ) from None
    return Server(pod, int(text) if text else rank, server_id, host_ip, chips)


def _read(annotation: str) -> tuple[str, str, tuple[Chip, ...]]:
    try:
        value = msgspec.json.decode(annotation)
    except (RecursionError, ValueError) as error:
        raise UnusableError(f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise UnusableError("it is not a JSON object")
    devices = as_list(value.get("devices"))
    if not devices:
        raise UnusableError("it names no devices")
    if len(devices) > MAX_CHIPS:
        raise UnusableError(f"it names {len(devices)} devices, more than {MAX_CHIPS}")
    chips = tuple(_chip(f"devices[{number}]: ", device) for number, device in enumerate(devices))
    if len({chip.device_id for chip in chips}) < len(chips):
        raise UnusableError("it names a device twice")
    return _text(value.get("server_id")), _text(value.get("host_ip")), chips


def _chip(place: str, device: Any) -> Chip:
    if not isinstance(device, dict):
        raise UnusableError(f"{place}not a JSON object")
    device_id = _text(device.get("device_id"))
    if not (device_id.isascii() and device_id.isdecimal() and len(device_id) <= 9):
        raise UnusableError(
            f"{place}device_id is {shown(device.get('device_id'), 40)}, not a number"
        )
    levels = device.get("levelList") or []
    if not isinstance(levels, list) or not all(isinstance(level, dict) for level in levels):
        raise UnusableError(f"{place}levelList is not a list of objects")
    return Chip(
        device_id,
        _text(device.get("device_ip")),
        _text(device.get("super_device_id")),
        tuple(levels),
    )


def _text(value: Any) -> str:
    """Text, or a number as text: writers of this annotation differ."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_text(value).strip()


def _check_together(servers: Sequence[Server], layout: Layout, obj: Object) -> None:
    """Check that the servers, in the order of their ranks, make one table, with the addresses that
    it needs."""
    sizes = sorted({len(server.chips) for server in servers})
    if len(sizes) > 1:
        what = (
            f"its pods have different numbers of chips ({sizes[0]} and {sizes[-1]}), ranks would"
            " collide"
        )
        raise UnusableError(what)
    ranks = [server.rank for server in servers]
    if ranks != list(range(len(servers))):
        first = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
        raise UnusableError(f"the ranks of its pods are {first}, not 0 to {len(servers) - 1}")
    seen: dict[tuple[str, str], str] = {}
    for server in servers:
        node = server.pod.node
        name = server.pod.name
        for chip in server.chips:
            other = seen.setdefault((node, chip.device_id), name)
            if other != name:
                raise UnusableError(
                    f"pods {other} and {name} both have chip {chip.device_id} of node {node}"
                )
    chips = sum(len(server.chips) for server in servers)
    block = (
        number_in(as_text(at(obj, "metadata", "annotations").get("sp-block")), largest=10**9)
        or chips
    )
    networked = layout is Layout.V1_0 or (layout is Layout.V1_2 and chips > block)
    for server in servers:
        if not (server.host_ip or server.server_id):
            raise UnusableError(
                f"pod {server.pod.name}: the device annotation has neither host_ip nor server_id"
            )
        if networked and any(chip.device_ip == "-1" for chip in server.chips):
            raise UnusableError(
                f"pod {server.pod.name}: a chip has the address -1, which means that it has no"
                " network"
            )


def _content(servers: Sequence[Server], layout: Layout) -> dict[str, Any]:
    # The host's address; if two pods share a host, the id of each.
    apart = len({server.pod.node for server in servers}) == len(servers)
    entries = list[dict[str, Any]]()
    groups: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for server in servers:
        if apart:
            server_id = server.host_ip or server.server_id
        else:
            server_id = server.server_id or server.host_ip
        entries.append(_entry(server, server_id, layout))
        groups[server.pod.devices.super_pod].append({"server_id": server_id})
    content: dict[str, Any] = {
        "status": Status.COMPLETED.value,
        "server_list": entries,
        "server_count": str(len(servers)),
        "version": layout.value,
    }
    if layout is Layout.V1_2:
        content["super_pod_list"] = [
            {"super_pod_id": name, "server_list": found} for name, found in groups.items()
        ]
    return content


def _entry(server: Server, server_id: str, layout: Layout) -> dict[str, Any]:
    devices: list[dict[str, str]] = []
    for rank, chip in enumerate(server.chips, start=server.rank * len(server.chips)):
        more = {"super_device_id": chip.super_device_id} if layout is Layout.V1_2 else {}
        devices.append(
            {"device_id": chip.device_id, "device_ip": chip.device_ip, **more, "rank_id": str(rank)}
        )
    annotated = server.pod.devices
    entry: dict[str, Any] = {"device": devices}
    if annotated.hardware_type:
        entry["hardware_type"] = annotated.hardware_type
    if server_id:
        entry["server_id"] = server_id
    if server.host_ip:
        entry["host_ip"] = server.host_ip
    entry["container_ip"] = annotated.ip
    return entry


def _content_2_0(servers: Sequence[Server], obj: Object) -> dict[str, Any]:
    scale_out = as_text(at(obj, "metadata", "labels").get("scaleout-type"))
    chips = list[Chip]()
    for server in servers:
        chips += server.chips
    label = scale_out.strip().upper()
    if label and label not in BY_LABEL:
        raise UnusableError(
            f"label scaleout-type is {scale_out[:40]!r}, not {' or '.join(BY_LABEL)}"
        )
    kind = _scale_out_kind(chips, label)
    ranks = [
        {
            "rank_id": rank,
            "local_id": int(chip.device_id),
            "device_id": int(chip.device_id),
            "level_list": list(_level_list(chip, kind)),
        }
        for rank, chip in enumerate(chips)
    ]
    return {
        "status": Status.COMPLETED.value,
        "version": "2.0",
        "rank_count": len(ranks),
        "rank_list": ranks,
    }


def _scale_out_kind(chips: Sequence[Chip], label: str) -> str:
    """The kind of scale-out network: the first one of those that the label allows that some chip
    has; the label itself when no chip has one of them."""
    offered = set[str]()
    for chip in chips:
        for level in chip.levels:
            offered.update(_info(level))
    for kind in BY_LABEL.get(label, (ROCE, UBOE, UBG)):
        if kind in offered:
            return kind
    return label


def _pod_specs(obj: Object) -> list[Mapping[str, Any]]:
    return [at(replica, "template", "spec") for replica in at(obj, "spec", "replicaSpecs").values()]


def _containers(specs: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for spec in specs:
        for container in as_list(spec.get("containers")):
            yield at(container)


def _level_list(chip: Chip, scale_out: str) -> Iterable[dict[str, Any]]:
    """Levels 0 and 1 as the annotation has them; of the scale-out network only the kind that the
    service uses."""
    by_number = dict[int, Mapping[str, Any]]()
    for level in chip.levels:
        number = _field(level, "level")
        if isinstance(number, int):
            by_number[number] = _info(level)
    for known in (0, 1):
        info = by_number.get(known, {})
        if info:
            yield _element(info[min(info)])
    last = SCALE_OUT_LEVEL.get(scale_out)
    if last is not None:
        without_address = dict(zip(_KEYS, (last, "CLUSTER", "CLOS", "", []), strict=True))
        yield _element(by_number.get(last, {}).get(scale_out, without_address))


def _info(level: Mapping[str, Any]) -> Mapping[str, Any]:
    return {kind: at(element) for kind, element in at(_field(level, "info")).items()}


def _field(level: Mapping[str, Any], name: str) -> Any:
    """The value of a field, in any letter case, as Go's decoder reads it."""
    for key, value in level.items():
        if key.lower() == name:
            return value
    return None


def _element(element: Mapping[str, Any]) -> dict[str, Any]:
    return {key: element[key] for key in _KEYS if key in element}
