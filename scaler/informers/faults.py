"""Which nodes and chips MindCluster reports as faulty, and what else its scheduler reads of a node
there, read from the ConfigMaps of its agents. Decides nothing.

ClusterD's documents (`cluster-info-*` in mindx-dl) are preferred: they are processed. Without them
those of the device plugins (kube-system) and of NodeD (mindx-dl) are read; without any, only the
readiness of nodes is known. Must not raise on any document: what cannot be read is left out and
counted as a problem."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import msgspec

from scaler.informers.indexes import Index
from scaler.rules.values import at

DEVICE_NAMESPACE = "kube-system"
CLUSTER_NAMESPACE = "mindx-dl"
DEVICE_PREFIX = "mindx-dl-deviceinfo-"
NODE_PREFIX = "mindx-dl-nodeinfo-"
CLUSTER_PREFIX = "cluster-info-"
SUB_HEALTH = "SubHealthFault"
_NODE = re.compile(r"\s*mindx-dl-(device|node|switch)info-\s*(\S+)\s*")
_CHIP = re.compile(r"(.+)-[0-9]+")


class Source(StrEnum):
    """The possible sources of fault data."""

    CLUSTER = "cluster-info"
    AGENTS = "device-info"
    NONE = "none"


class Kind(StrEnum):
    """What an entry is about."""

    DEVICE = "device"
    NODE = "node"
    SWITCH = "switch"


class NodeFaults(msgspec.Struct, frozen=True):
    """The faults of one node; a node without faults has no entry."""

    chips: frozenset[str] = frozenset()
    """Names of chips that are not to be used, as in a pod's annotation: `Ascend910-3`."""
    node: bool = False
    """The machine is UnHealthy."""
    switch: bool = False

    def joined(self, other: NodeFaults) -> NodeFaults:
        return NodeFaults(
            self.chips | other.chips, self.node or other.node, self.switch or other.switch
        )


class NodeDevices(msgspec.Struct, frozen=True):
    """What MindCluster's scheduler reads of a node beside its faults. None of it makes a running
    pod faulty; it says which pods may come."""

    listed: bool = False
    """There are device data of the node: without them it takes no pod with NPUs."""
    super_pod: int = -1
    """The super-pod of the node; negative = it is in none."""
    off_the_network: frozenset[str] = frozenset()
    """Names of chips that have lost their network: no distributed job gets them."""
    recovering: frozenset[str] = frozenset()
    """Names of chips that nobody gets yet."""
    separated: bool = False
    """NodeD says PreSeparate: what runs there may end, nothing new comes."""
    sub_healthy: bool = False
    """A chip or the switch is sub-healthy: it takes jobs that ignore that."""

    def joined(self, other: NodeDevices) -> NodeDevices:
        return NodeDevices(
            listed=self.listed or other.listed,
            super_pod=self.super_pod if self.listed else other.super_pod,
            off_the_network=self.off_the_network | other.off_the_network,
            recovering=self.recovering | other.recovering,
            separated=self.separated or other.separated,
            sub_healthy=self.sub_healthy or other.sub_healthy,
        )


class NodeReport(NamedTuple):
    """All that is read of one node in one document."""

    faults: NodeFaults
    devices: NodeDevices

    def joined(self, other: NodeReport) -> NodeReport:
        return NodeReport(self.faults.joined(other.faults), self.devices.joined(other.devices))


class FaultReport(msgspec.Struct, frozen=True):
    """One ConfigMap, read: the faults by node, and why parts of it could not be read ("" when all
    could)."""

    source: Source
    nodes: Mapping[str, NodeFaults]
    problem: str = ""
    devices: Mapping[str, NodeDevices] = {}
    """What else is said of each node; a node of which nothing is said has no entry."""


WELL = NodeFaults()
UNLISTED = NodeDevices()
NOTHING = NodeReport(WELL, UNLISTED)


def read_report(namespace: str, name: str, data: Mapping[str, str]) -> FaultReport | None:
    """The report in a ConfigMap; None for a ConfigMap without one."""
    try:
        if namespace == CLUSTER_NAMESPACE and name.startswith(CLUSTER_PREFIX):
            return _read_cluster(name, data)
        if namespace == DEVICE_NAMESPACE and name.startswith(DEVICE_PREFIX):
            return _report(Source.AGENTS, {name.removeprefix(DEVICE_PREFIX): _read_device(data)})
        if namespace == CLUSTER_NAMESPACE and name.startswith(NODE_PREFIX):
            info = at(_object(data.get("NodeInfo") or "{}"), "NodeInfo")
            found = {name.removeprefix(NODE_PREFIX): _read_entry(info, Kind.NODE)}
            return _report(Source.AGENTS, found)
    except ValueError as error:
        return FaultReport(
            Source.CLUSTER if name.startswith(CLUSTER_PREFIX) else Source.AGENTS, {}, str(error)
        )
    return None


def _read_cluster(name: str, data: Mapping[str, str]) -> FaultReport:
    """A document about many nodes; one bad entry does not hide the others."""
    content = _object(data.get(name) or "{}")
    nodes: dict[str, NodeReport] = {}
    problems: list[str] = []
    for key, entry in content.items():
        found = _NODE.fullmatch(key)
        if found is None or not isinstance(entry, dict):
            problems.append(f"entry {key[:80]!r} is not one of a node")
            continue
        said = _read_entry(entry, Kind(found[1]))
        nodes[found[2]] = said.joined(nodes.get(found[2], NOTHING))
    return _report(Source.CLUSTER, nodes, "; ".join(problems[:3]))


def _report(source: Source, nodes: Mapping[str, NodeReport], problem: str = "") -> FaultReport:
    faults = {}
    devices = {}
    for node, said in nodes.items():
        if said.faults != WELL:
            faults[node] = said.faults
        if said.devices != UNLISTED:
            devices[node] = said.devices
    return FaultReport(source, faults, problem, devices)


def _read_device(data: Mapping[str, str]) -> NodeReport:
    document = _object(data.get("DeviceInfoCfg") or "{}")
    # ClusterD writes both into one object
    said = _read_entry({**document, **at(document, "DeviceInfo")}, Kind.DEVICE)
    switch = _read_entry(_object(data.get("SwitchInfoCfg") or "{}"), Kind.SWITCH)
    isolated = NodeFaults(_names(data.get("ManuallySeparateNPU", "")))
    return said.joined(switch).joined(NodeReport(isolated, UNLISTED))


def _read_entry(entry: Mapping[str, Any], kind: Kind) -> NodeReport:
    """`DeviceList` of a device entry, `NodeStatus` of the others. Only what is UnHealthy is a
    reason to act: PreSeparate and network faults keep new pods away, as the scheduler does."""
    status = entry.get("NodeStatus")
    if kind is not Kind.DEVICE:
        is_switch = kind is Kind.SWITCH
        sick = status == "UnHealthy"
        devices = NodeDevices(
            separated=status == "PreSeparate" and not is_switch,
            sub_healthy=status == "SubHealthy" and is_switch,
        )
        return NodeReport(
            NodeFaults(node=sick and not is_switch, switch=sick and is_switch), devices
        )
    lists = at(entry, "DeviceList")
    super_pod = entry.get("SuperPodID", 0)  # MindCluster leaves a 0 out
    has_number = isinstance(super_pod, int) and not isinstance(super_pod, bool)
    devices = NodeDevices(
        listed=bool(lists),
        super_pod=super_pod if lists and has_number else -1,
        off_the_network=_listed(lists, "-NetworkUnhealthy"),
        recovering=_listed(lists, "-Recovering"),
        sub_healthy=_is_sub_healthy(lists),
    )
    return NodeReport(NodeFaults(_listed(lists, "-Unhealthy")), devices)


def _listed(lists: Mapping[str, Any], ending: str) -> frozenset[str]:
    """Names of the chips in the lists whose name ends so."""
    chips = frozenset[str]()
    for key, value in lists.items():
        if key.endswith(ending) and isinstance(value, str):
            chips |= _names(value)
    return chips


def _is_sub_healthy(lists: Mapping[str, Any]) -> bool:
    """Whether a chip has a fault of that level."""
    for key, value in lists.items():
        if key.endswith("-Fault") and isinstance(value, str) and SUB_HEALTH in value:
            return True
    return False


def _names(text: str) -> frozenset[str]:
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def _object(text: str) -> dict[str, Any]:
    """The JSON object that `text` is. Raises ValueError with a reason."""
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def faulty_devices(chips: Iterable[str]) -> dict[str, int]:
    """Faulty chips as they are named in reports (`Ascend910-3`), counted by resource
    (`huawei.com/Ascend910`)."""
    numbers: Counter[str] = Counter()
    for chip in chips:
        found = _CHIP.fullmatch(chip)
        if found:
            numbers[f"huawei.com/{found[1]}"] += 1
    return dict(numbers)


Said = TypeVar("Said", NodeFaults, NodeDevices)


class FaultData:
    """All reports together. `on_change(node)` is called for every node whose faults may have become
    others."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._reports: dict[tuple[str, str], FaultReport] = {}
        self._by_node: Index[str, tuple[str, str], NodeFaults] = Index()
        self._devices: Index[str, tuple[str, str], NodeDevices] = Index()
        self._clusters = 0

    @property
    def source(self) -> Source:
        if self._clusters:
            return Source.CLUSTER
        return Source.AGENTS if self._reports else Source.NONE

    @property
    def problems(self) -> dict[str, str]:
        """`namespace/name` -> what could not be read of it."""
        return {
            "/".join(name): report.problem
            for name, report in self._reports.items()
            if report.problem
        }

    def of(self, node: str) -> NodeFaults:
        """The faults of this node, by the source in force."""
        return self._joined(self._by_node.of(node), WELL)

    def devices_of(self, node: str) -> NodeDevices:
        """What else is said of this node, by the source in force."""
        return self._joined(self._devices.of(node), UNLISTED)

    def _joined(self, said: Mapping[tuple[str, str], Said], found: Said) -> Said:
        """`found`, and what the reports of the source in force say. `said`: by report."""
        source = self.source
        for name, words in said.items():
            if self._reports[name].source is source:
                found = found.joined(words)
        return found

    def apply(self, namespace: str, name: str, report: FaultReport | None) -> None:
        """The ConfigMap says this now; None: it is gone, or was never a report."""
        key = (namespace, name)
        before = self._reports.get(key)
        if before == report:
            return
        source = self.source
        if before is not None:
            del self._reports[key]
            self._clusters -= before.source is Source.CLUSTER
        if report is not None:
            self._reports[key] = report
            self._clusters += report.source is Source.CLUSTER
        old = before or FaultReport(Source.NONE, {})
        new = report or FaultReport(Source.NONE, {})
        _put(self._by_node, key, old.nodes, new.nodes)
        _put(self._devices, key, old.devices, new.devices)
        if self.source is source:
            changed = _others(old.nodes, new.nodes) | _others(old.devices, new.devices)
        else:  # what is read of each node is from others
            changed = {*self._by_node, *self._devices, *old.nodes, *old.devices}
        for node in sorted(changed):
            self._on_change(node)


T = TypeVar("T")


def _put(
    index: Index[str, tuple[str, str], T],
    key: tuple[str, str],
    old: Mapping[str, T],
    new: Mapping[str, T],
) -> None:
    """Take what this document says of each node now in place of what it said."""
    for node in old:
        index.drop(node, key)
    for node, said in new.items():
        index.put(node, key, said)


def _others(old: Mapping[str, object], new: Mapping[str, object]) -> set[str]:
    """The nodes of which something else is said."""
    return {node for node in old.keys() | new.keys() if old.get(node) != new.get(node)}


def fault_of(faults: NodeFaults, node: str, chips: frozenset[str]) -> str:
    """The fault that affects a pod with these chips on `node`, in words; "" for none."""
    if faults.node:
        return f"is on node {node}, which MindCluster reports as UnHealthy"
    if faults.switch:
        return f"is on node {node}, whose switch MindCluster reports as UnHealthy"
    hurt = sorted(faults.chips & chips)
    if hurt:
        return (
            f"uses chip {', '.join(hurt[:4])} of node {node}, which MindCluster reports as faulty"
        )
    return ""
