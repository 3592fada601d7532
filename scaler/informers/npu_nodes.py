"""A node as MindCluster's scheduler sees it: what it offers of its NPUs, or why it offers none.
Pure.

The rules are in `workloads.npu_rules`; here stands where their values come from."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from scaler.informers.faults import NodeDevices, NodeFaults
from scaler.informers.records import NodeFacts
from scaler.workloads.npu_rules import LABEL, Devices, npu_of, offered


def as_placed(facts: NodeFacts, faults: NodeFaults, devices: NodeDevices) -> NodeFacts:
    """The node with what MindCluster's scheduler offers of its NPUs."""
    npu = npu_of(facts.capacity)
    if not npu:
        return facts
    barred = _why_barred(facts, devices, npu, facts.chips - faults.chips - devices.recovering)
    said = Devices(
        all=facts.chips,
        unusable=faults.chips | devices.recovering,
        off_the_network=devices.off_the_network,
        super_pod=devices.super_pod,
        sub_healthy=devices.sub_healthy,
        barred=barred,
    )
    lost = offered(npu, facts.capacity[npu], said)
    return replace(
        facts,
        allocatable={**facts.allocatable, **dict.fromkeys(lost, facts.allocatable.get(npu, 0))},
        capacity={**facts.capacity, **dict.fromkeys(lost, facts.capacity[npu])},
        faulty={**facts.faulty, **lost},
        super_pod=devices.super_pod,
        barred=barred,
    )


def _why_barred(facts: NodeFacts, devices: NodeDevices, npu: str, usable: Collection[str]) -> str:
    """Why MindCluster's scheduler gives none of the node's NPUs to a new pod."""
    if not devices.listed:
        return "it has no device data"
    if not facts.chips:
        return "it has no annotation baseDeviceInfos"
    if LABEL not in facts.labels:
        return f"it has no label {LABEL}"
    if devices.separated:
        return "NodeD says PreSeparate"
    allocatable = facts.allocatable.get(npu, 0)
    if len(usable) > allocatable:
        return f"not stable: {len(usable)} {npu} by its device data, {allocatable} allocatable"
    return ""
