"""Which nodes and chips MindCluster reports as faulty, read from the ConfigMaps of its agents.
Decides nothing.

ClusterD's documents (`cluster-info-*` in mindx-dl) are preferred: they are processed. Without them
those of the device plugins (kube-system) and of NodeD (mindx-dl) are read; without any, only the
readiness of nodes is known. Must not raise on any document: what cannot be read is left out and
counted as a problem."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from scaler.informers.indexes import Index
from scaler.rules.values import at

DEVICE_NAMESPACE = "kube-system"
CLUSTER_NAMESPACE = "mindx-dl"
DEVICE_PREFIX = "mindx-dl-deviceinfo-"
NODE_PREFIX = "mindx-dl-nodeinfo-"
CLUSTER_PREFIX = "cluster-info-"
_NODE = re.compile(r"\s*mindx-dl-(?:device|node|switch)info-\s*(\S+)\s*")
_CHIP = re.compile(r"(.+)-[0-9]+")


class Source(StrEnum):
    """The possible sources of fault data."""

    CLUSTER = "cluster-info"
    AGENTS = "device-info"
    NONE = "none"


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


class FaultReport(msgspec.Struct, frozen=True):
    """One ConfigMap, read: the faults by node, and why parts of it could not be read ("" when all
    could)."""

    source: Source
    nodes: Mapping[str, NodeFaults]
    problem: str = ""


WELL = NodeFaults()


def read_report(namespace: str, name: str, data: Mapping[str, str]) -> FaultReport | None:
    """The report in a ConfigMap; None for a ConfigMap without one."""
    try:
        if namespace == CLUSTER_NAMESPACE and name.startswith(CLUSTER_PREFIX):
            return _read_cluster(name, data)
        if namespace == DEVICE_NAMESPACE and name.startswith(DEVICE_PREFIX):
            return _of_node(name.removeprefix(DEVICE_PREFIX), _read_device(data))
        if namespace == CLUSTER_NAMESPACE and name.startswith(NODE_PREFIX):
            info = at(_object(data.get("NodeInfo") or "{}"), "NodeInfo")
            return _of_node(name.removeprefix(NODE_PREFIX), _faults_of(info, switch=False))
    except ValueError as error:
        return FaultReport(
            Source.CLUSTER if name.startswith(CLUSTER_PREFIX) else Source.AGENTS, {}, str(error)
        )
    return None


def _read_cluster(name: str, data: Mapping[str, str]) -> FaultReport:
    """A document about many nodes; one bad entry does not hide the others."""
    content = _object(data.get(name) or "{}")
    nodes: dict[str, NodeFaults] = {}
    problems: list[str] = []
    for key, entry in content.items():
        found = _NODE.fullmatch(key)
        if found is None or not isinstance(entry, dict):
            problems.append(f"entry {key[:80]!r} is not one of a node")
            continue
        faults = _faults_of(entry, switch=name.startswith("cluster-info-switch-"))
        if faults != WELL:
            nodes[found[1]] = faults.joined(nodes.get(found[1], WELL))
    return FaultReport(Source.CLUSTER, nodes, "; ".join(problems[:3]))


def _of_node(node: str, faults: NodeFaults) -> FaultReport:
    return FaultReport(Source.AGENTS, {node: faults} if faults != WELL else {})


def _read_device(data: Mapping[str, str]) -> NodeFaults:
    info = at(_object(data.get("DeviceInfoCfg") or "{}"), "DeviceInfo")
    switch = _object(data.get("SwitchInfoCfg") or "{}")
    faults = _faults_of(info, switch=False)
    isolated = NodeFaults(_names(data.get("ManuallySeparateNPU", "")))
    return faults.joined(isolated).joined(_faults_of(switch, switch=True))


def _faults_of(entry: Mapping[str, Any], *, switch: bool) -> NodeFaults:
    """`DeviceList` of a device entry, `NodeStatus` of the others. Only what is UnHealthy is a
    reason to act: PreSeparate and network faults keep new pods away, which is the scheduler's
    business."""
    chips = frozenset[str]()
    for key, value in at(entry, "DeviceList").items():
        if key.endswith("-Unhealthy") and isinstance(value, str):
            chips |= _names(value)
    sick = entry.get("NodeStatus") == "UnHealthy"
    return NodeFaults(chips, node=sick and not switch, switch=sick and switch)


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


class FaultData:
    """All reports together. `on_change(node)` is called for every node whose faults may have become
    others."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._reports: dict[tuple[str, str], FaultReport] = {}
        self._by_node: Index[str, tuple[str, str], NodeFaults] = Index()
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
        source = self.source
        found = WELL
        for name, faults in self._by_node.of(node).items():
            if self._reports[name].source is source:
                found = found.joined(faults)
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
        old = before.nodes if before else {}
        new = report.nodes if report else {}
        for node in old:
            self._by_node.drop(node, key)
        for node, faults in new.items():
            self._by_node.put(node, key, faults)
        if self.source is source:
            changed = {node for node in old.keys() | new.keys() if old.get(node) != new.get(node)}
        else:
            changed = {*self._by_node, *old}  # what each node's faults are read from is another
        for node in sorted(changed):
            self._on_change(node)


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
