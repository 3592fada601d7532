"""Nodes of a simulated cluster: the objects, their events, their kubelets, and what becomes of pods
of lost nodes.

Kubelets: bound pods start, deleted ones stop, crashed ones back off and restart. Their state is
only in the pods, so they may be restarted at any time. On a node that is missing or not Ready they
do nothing: its pods keep their status. Must not: schedule, create pods, or know of jobs and
rules."""

from __future__ import annotations

import random
import zlib
from enum import StrEnum
from typing import Annotated

import msgspec
from pydantic import Field

from scaler.clock import Clock
from scaler.kube.api import NODES, PODS, KubeApi, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.devices import (
    base_annotations,
    host_address,
    pod_address,
    report_devices,
)
from scaler.sim.actors.faulty_api import LOOK_AGAIN, Curses, Never
from scaler.sim.actors.stand_in import StandIn, merge
from scaler.sim.stories.fields import Model, Range, Seconds
from scaler.timestamps import rfc3339, seconds_of


class NodeSpec(msgspec.Struct, frozen=True):
    """One machine. `memory` is a Kubernetes quantity; `device_data`: its device plugin reports its
    chips from the start, as MindCluster's does, and `super_pod` is the number of its super-pod."""

    name: str
    npu: int = 8
    npu_resource: str = "huawei.com/Ascend910"
    labels: dict[str, str] = {}
    cpu: int = 192
    memory: str = "2Ti"
    pods: int = 110
    device_data: bool = False
    super_pod: int | None = None


class NodeFate(StrEnum):
    """What may happen to a node."""

    NOT_READY = "not-ready"
    GONE = "gone"
    CORDONED = "cordoned"
    REFUSING = "refusing"
    """Ready, and its kubelet refuses every pod that comes: no device can be allocated."""
    READY = "ready"


_A2_CHIPS = 8
_ENDED_FOR = 0.5
"""Seconds from the end of the containers of a deleted pod until it is gone."""
_REFUSES = "simulation/refuses"
"""Annotation of a node: why its kubelet refuses every pod that comes."""


def node_object(spec: NodeSpec) -> Object:
    amounts = {"cpu": str(spec.cpu), "memory": spec.memory, "pods": str(spec.pods)}
    if spec.npu:
        amounts[spec.npu_resource] = str(spec.npu)
    labels = {"kubernetes.io/hostname": spec.name, **_npu_labels(spec), **spec.labels}
    metadata: Object = {"name": spec.name, "labels": labels}
    if spec.device_data and spec.npu:
        metadata["annotations"] = base_annotations(
            spec.name, spec.npu_resource, spec.npu, spec.super_pod
        )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": host_address(spec.name)}],
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [ready_condition(True)],
        },
    }


def _npu_labels(spec: NodeSpec) -> dict[str, str]:
    """The labels that MindCluster's device plugin puts on a node with device data."""
    if not spec.device_data or not spec.npu:
        return {}
    kind = "module-910b-8" if spec.npu <= _A2_CHIPS else "module-a3-16"
    super_pod = "" if spec.super_pod is None else "-super-pod"
    return {"accelerator": "huawei-Ascend910", "accelerator-type": f"{kind}{super_pod}"}


def ready_condition(ready: bool) -> Object:
    reason = "KubeletReady" if ready else "NodeStatusUnknown"
    return {"type": "Ready", "status": "True" if ready else "Unknown", "reason": reason}


def _not_ready(now: float) -> Object:
    return ready_condition(False) | {"lastTransitionTime": rfc3339(now)}


async def add_node(api: KubeApi, spec: NodeSpec, clock: Clock | None = None) -> None:
    """Create the node with its status, whether or not the API keeps a status on create, and the
    report of its device plugin, if it has one."""
    body = node_object(spec)
    await api.create(NODES, None, body)
    await _patch_status(api, spec.name, body["status"])
    if spec.device_data and spec.npu:
        await report_devices(api, clock or Clock(), spec.name)


async def change_node(
    api: KubeApi, spec: NodeSpec, fate: NodeFate, clock: Clock | None = None
) -> None:
    """Change the node in this way. A node that is gone comes back as a new object."""
    if fate is NodeFate.GONE:
        await api.delete(NODES, None, spec.name)
    elif fate is NodeFate.READY:
        try:
            await _patch_status(api, spec.name, {"conditions": [ready_condition(True)]})
            well = {
                "spec": {"unschedulable": None},
                "metadata": {"annotations": {_REFUSES: None}},
            }
            await api.patch(NODES, None, spec.name, well, patch_type=PatchType.MERGE)
        except NotFoundError:
            await add_node(api, spec, clock)
    elif fate is NodeFate.CORDONED:
        await api.patch(
            NODES, None, spec.name, {"spec": {"unschedulable": True}}, patch_type=PatchType.MERGE
        )
    elif fate is NodeFate.REFUSING:
        refuses = {"metadata": {"annotations": {_REFUSES: "UnexpectedAdmissionError"}}}
        await api.patch(NODES, None, spec.name, refuses, patch_type=PatchType.MERGE)
    else:
        await _patch_status(api, spec.name, {"conditions": [_not_ready((clock or Clock()).now())]})


async def _patch_status(api: KubeApi, name: str, status: Object) -> None:
    await api.patch(
        NODES, None, name, {"status": status}, patch_type=PatchType.MERGE, subresource="status"
    )


class KubeletTimings(Model):
    """How long things take on a node, in seconds; pairs are the least and the most, drawn once per
    pod.

    A pod starts with image and devices, and is ready when its weights are loaded. It stops within
    its grace period at the latest. The pause of CrashLoopBackOff doubles per restart up to 300."""

    start: Annotated[Range, Field(description="From bound to Running.")] = (8.0, 12.0)
    ready: Annotated[Range, Field(description="From Running to Ready.")] = (20.0, 40.0)
    stop: Annotated[Range, Field(description="From a graceful deletion to the end.")] = (1.0, 3.0)
    crash_backoff: Annotated[Seconds, Field(description="First pause of CrashLoopBackOff.")] = 10.0


class Kubelet(StandIn):
    """All kubelets. Follows pods and nodes. The same seed draws the same durations for the same
    pods."""

    # Wiring: everything that the kubelets work with.
    def __init__(  # noqa: PLR0913
        self,
        api: KubeApi,
        clock: Clock,
        *,
        timings: KubeletTimings | None = None,
        seed: int = 0,
        cursed: Curses | None = None,
        exit_code: int | None = None,
    ) -> None:
        """`exit_code`: with which containers end when their pod is deleted, so that the pod is
        Failed or Succeeded before it is gone, as since Kubernetes 1.27; None: it is just gone."""
        super().__init__(api, PODS, NODES)
        self._exit_code = exit_code
        self._clock = clock
        self._timings = timings or KubeletTimings()
        self._seed = seed
        self._cursed = cursed or Curses()
        self._since: dict[tuple[str, str], float] = {}
        """(pod uid, stage) -> time when first seen there: bound, running, stopping, crashed."""

    async def _round(self) -> float | None:
        pods = [pod for pod in self.mirror.all(PODS) if objects.node_of(pod)]
        present = {objects.uid(pod) for pod in pods}
        self._since = {key: since for key, since in self._since.items() if key[0] in present}
        ready = self.mirror.derived(NODES, objects.ready_nodes)
        pauses = []
        for pod in pods:
            pause = await self._step(pod) if objects.node_of(pod) in ready else None
            if pause is not None:
                pauses.append(pause)
        return min(pauses, default=None)

    async def _step(self, pod: Object) -> float | None:
        stage, delay = self._next(pod)
        if not stage:
            return None
        refusal = self._refusal(pod) if stage == "bound" else ""
        if refusal:
            status = {"phase": "Failed", "reason": refusal, "message": "Pod was rejected"}
            await self.attempt(write_status(self.api, pod, status))
            return None
        never = {
            "stopping": Never.ENDING,
            "ended": Never.ENDING,
            "bound": Never.RUNNING,
        }.get(stage)
        if stage.startswith("running"):
            never = Never.READY
        if never is not None and self._cursed(never, pod):
            return LOOK_AGAIN
        now = self._clock.now()
        remaining = self._since.setdefault((objects.uid(pod), stage), now) + delay - now
        if remaining > 0:
            return remaining
        if stage == "stopping":
            if self._exit_code is None:
                await self.end(pod, grace=0)
            else:
                status = ended_status(pod, now=now, code=self._exit_code)
                await self.attempt(write_status(self.api, pod, status))
        elif stage == "ended":
            await self.end(pod, grace=0)
        else:
            at_once = not (max(self._timings.ready) or self._cursed(Never.READY, pod))
            ready = at_once or stage.startswith("running")
            status = running_status(pod, now=now, ready=ready)
            await self.attempt(write_status(self.api, pod, status))
        return None

    def _refusal(self, pod: Object) -> str:
        """Why the kubelet refuses a pod that was bound to its node; "" where it takes the pod."""
        node = self.mirror.get(NODES, "", objects.node_of(pod))
        return objects.annotations_of(node or {}).get(_REFUSES, "")

    def _next(self, pod: Object) -> tuple[str, float]:
        """The stage of the pod and its duration; "" when the pod stays as it is."""
        if objects.terminating(pod) and objects.ended(pod) and self._exit_code is not None:
            return "ended", _ENDED_FOR
        if objects.terminating(pod):
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            return "stopping", min(grace, self._draw(pod, self._timings.stop))
        if objects.ended(pod):
            return "", 0.0
        if objects.phase(pod) != "Running" and objects.crash_looping(pod):
            return "", 0.0  # an init container, which never succeeds
        if objects.crash_looping(pod):
            times = objects.restarts(pod)
            backoff = self._timings.crash_backoff * 2 ** max(0, times - 1)
            return f"crashed {times}", min(300.0, backoff)
        if objects.phase(pod) != "Running":
            return "bound", self._draw(pod, self._timings.start)
        if not objects.ready(pod):
            return f"running {objects.restarts(pod)}", self._draw(pod, self._timings.ready)
        return "", 0.0

    def _draw(self, pod: Object, bounds: tuple[float, float]) -> float:
        key = zlib.crc32(f"{objects.namespace(pod)}/{objects.name(pod)}/{bounds}".encode())
        # For delays, not for secrets.
        return random.Random(self._seed ^ key).uniform(*bounds)  # noqa: S311


def running_status(pod: Object, *, now: float, ready: bool) -> Object:
    """The status of a pod whose containers all run; earlier counts and addresses stay."""
    old = objects.status(pod)
    count = objects.restarts(pod)
    started = old.get("startTime") or rfc3339(now)
    statuses = []
    for index, container in enumerate(objects.spec(pod).get("containers") or []):
        first = index == 0
        status = {
            "name": container.get("name", ""),
            "ready": ready,
            "restartCount": count if first else 0,
            "state": {"running": {"startedAt": rfc3339(now)}},
            "lastState": _last_state(pod) if first else {},
        }
        statuses.append(status)
    return {
        "phase": "Running",
        "startTime": started,
        "hostIP": host_address(objects.node_of(pod)),
        "podIP": old.get("podIP") or pod_address(pod),
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": rfc3339(seconds_of(started)),
            },
            {"type": "Ready", "status": str(ready), "lastTransitionTime": rfc3339(now)},
        ],
        "containerStatuses": statuses,
    }


def _last_state(pod: Object) -> Object:
    """The last state of the first container that has one."""
    for container in objects.containers(pod):
        if container.get("lastState"):
            found: Object = container["lastState"]
            return found
    return {}


def ended_status(pod: Object, *, now: float, code: int) -> Object:
    """The status of a pod whose first container has exited with this code, for good."""
    status = running_status(pod, now=now, ready=False)
    status["phase"] = "Failed" if code else "Succeeded"
    status["containerStatuses"][0]["state"] = _terminated(now, code)
    return status


def _terminated(now: float, code: int) -> Object:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "finishedAt": rfc3339(now), "reason": reason}}


async def exit_pod(api: KubeApi, pod: Object, *, now: float, code: int) -> None:
    """The first container exits with this code: the pod is in CrashLoopBackOff if it restarts, else
    it ends."""
    policy = objects.spec(pod).get("restartPolicy") or "Always"
    again = policy == "Always" or (policy == "OnFailure" and code != 0)
    terminated = _terminated(now, code)
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": f"exited with {code}"}}
    status = running_status(pod, now=now, ready=False)
    status["phase"] = "Running" if again else "Failed" if code else "Succeeded"
    first = status["containerStatuses"][0]
    first["restartCount"] = objects.restarts(pod) + (1 if again else 0)
    first["state"] = waiting if again else terminated
    first["lastState"] = terminated if again else {}
    await write_status(api, pod, status)


async def write_status(api: KubeApi, pod: Object, status: Object) -> None:
    await merge(api, PODS, pod, {"status": status}, subresource="status")


class NodeLifecycle(StandIn):
    """The control plane's actions on pods of lost nodes: Ready turns False, and after a while they
    are deleted.

    `eviction` is how long a node may be not Ready (the default toleration of 300 s); `orphan` how
    long pods of a node that is gone stay. Both in seconds."""

    def __init__(
        self, api: KubeApi, clock: Clock, *, eviction: float = 300.0, orphan: float = 40.0
    ) -> None:
        super().__init__(api, PODS, NODES)
        self._clock = clock
        self._eviction = eviction
        self._orphan = orphan
        self._lost_since: dict[str, float] = {}

    async def _round(self) -> float | None:
        pods = [pod for pod in self.mirror.all(PODS) if objects.node_of(pod)]
        lost = set(map(objects.node_of, pods)) - self.mirror.derived(NODES, objects.ready_nodes)
        self._lost_since = {name: self._lost_since.get(name, self._clock.now()) for name in lost}
        pauses = []
        for pod in pods:
            pause = await self._attend(pod) if objects.node_of(pod) in lost else None
            if pause:
                pauses.append(pause)
        return min(pauses, default=None)

    async def _attend(self, pod: Object) -> float | None:
        """Handle one pod on a lost node; returns seconds until the next step, None when there is
        none."""
        gone = self.mirror.get(NODES, "", objects.node_of(pod)) is None
        due = self._lost_since[objects.node_of(pod)] + (self._orphan if gone else self._eviction)
        conditions = objects.status(pod).get("conditions") or []
        others = [one for one in conditions if one.get("type") != "Ready"]
        status = {"conditions": [*others, {"type": "Ready", "status": "False"}]}
        if objects.ready(pod) and not await self.attempt(write_status(self.api, pod, status)):
            return None
        if due > self._clock.now():
            return due - self._clock.now()
        if gone or not objects.terminating(pod):
            await self.end(pod, grace=0 if gone else None)
        return None
