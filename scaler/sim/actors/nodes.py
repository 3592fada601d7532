"""Nodes of a simulated cluster: the objects, their events, and what the control plane does about their pods.

Must not: schedule, or know of jobs and rules.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scaler.clock import Clock
from scaler.kube.api import NODES, PODS, KubeApi, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.devices import host_address
from scaler.sim.actors.kubelet import write_status
from scaler.sim.actors.stand_in import StandIn


class NodeSpec(msgspec.Struct, frozen=True):
    """One machine. `memory` is a Kubernetes quantity."""

    name: str
    npu: int = 8
    npu_resource: str = "huawei.com/Ascend910"
    labels: dict[str, str] = {}
    cpu: int = 192
    memory: str = "2Ti"
    pods: int = 110


class NodeFate(StrEnum):
    """What may happen to a node."""

    NOT_READY = "not-ready"
    GONE = "gone"
    CORDONED = "cordoned"
    READY = "ready"


def node_object(spec: NodeSpec) -> Object:
    amounts = {"cpu": str(spec.cpu), "memory": spec.memory, "pods": str(spec.pods)}
    if spec.npu:
        amounts[spec.npu_resource] = str(spec.npu)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": {"kubernetes.io/hostname": spec.name, **spec.labels}},
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": host_address(spec.name)}],
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [ready_condition(True)],
        },
    }


def ready_condition(ready: bool) -> Object:
    reason = "KubeletReady" if ready else "NodeStatusUnknown"
    return {"type": "Ready", "status": "True" if ready else "Unknown", "reason": reason}


async def add_node(api: KubeApi, spec: NodeSpec) -> None:
    """Create the node with its status, whether or not the API keeps a status on create."""
    body = node_object(spec)
    await api.create(NODES, None, body)
    await _patch_status(api, spec.name, body["status"])


async def change_node(api: KubeApi, spec: NodeSpec, fate: NodeFate) -> None:
    """Change the node in this way. A node that is gone comes back as a new object."""
    if fate is NodeFate.GONE:
        await api.delete(NODES, None, spec.name)
    elif fate is NodeFate.READY:
        try:
            await _patch_status(api, spec.name, {"conditions": [ready_condition(True)]})
            await api.patch(NODES, None, spec.name, {"spec": {"unschedulable": None}}, patch_type=PatchType.MERGE)
        except NotFoundError:
            await add_node(api, spec)
    elif fate is NodeFate.CORDONED:
        await api.patch(NODES, None, spec.name, {"spec": {"unschedulable": True}}, patch_type=PatchType.MERGE)
    else:
        await _patch_status(api, spec.name, {"conditions": [ready_condition(False)]})


async def _patch_status(api: KubeApi, name: str, status: Object) -> None:
    await api.patch(NODES, None, name, {"status": status}, patch_type=PatchType.MERGE, subresource="status")


class NodeLifecycle(StandIn):
    """The control plane's actions on pods of lost nodes: Ready turns False, and after a while they are deleted.

    `eviction` is how long a node may be not Ready (the default toleration of 300 s); `orphan` how long pods of a
    node that is gone stay. Both in seconds.
    """

    def __init__(self, api: KubeApi, clock: Clock, *, eviction: float = 300.0, orphan: float = 40.0) -> None:
        super().__init__(api, PODS, NODES)
        self._clock = clock
        self._eviction = eviction
        self._orphan = orphan
        self._lost_since: dict[str, float] = {}

    async def _round(self) -> float | None:
        pods = [pod for pod in self.mirror.all(PODS) if objects.node_of(pod)]
        used = dict.fromkeys(map(objects.node_of, pods))
        lost = [name for name in used if not objects.node_ready(self.mirror.get(NODES, "", name))]
        self._lost_since = {name: self._lost_since.get(name, self._clock.now()) for name in lost}
        on_lost = [pod for pod in pods if objects.node_of(pod) in self._lost_since]
        pauses = [pause for pod in on_lost if (pause := await self._attend(pod))]
        return min(pauses, default=None)

    async def _attend(self, pod: Object) -> float | None:
        """Handle one pod on a lost node; returns seconds until the next step, None when there is none."""
        gone = self.mirror.get(NODES, "", objects.node_of(pod)) is None
        due = self._lost_since[objects.node_of(pod)] + (self._orphan if gone else self._eviction)
        unready = [c for c in objects.status(pod).get("conditions") or [] if c.get("type") != "Ready"]
        status = {"conditions": [*unready, {"type": "Ready", "status": "False"}]}
        if objects.ready(pod) and not await self.attempt(write_status(self.api, pod, status)):
            return None
        if due > self._clock.now():
            return due - self._clock.now()
        if gone or not objects.terminating(pod):
            await self.end(pod, grace=0 if gone else None)
        return None
