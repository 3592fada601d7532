"""Pods as the cache keeps them: a cluster has 50,000, so a record is small and never needs a second
look at the pod."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from scaler.decide.nodes import PodRequest
from scaler.informers.managers import ManagedMetadata, pod_made_by_others
from scaler.informers.records import Condition
from scaler.kube.api import Object
from scaler.kube.metadata import LONGEST_NAME, Owner, Stored, shared
from scaler.names import (
    DELETION_COST,
    GATE,
    KEEP_LABEL,
    POD_GROUP,
    RULE_LABEL,
    STARTED_SIZE,
    VERSION_BEFORE,
)
from scaler.remembered import Remembered, Sharing
from scaler.rules.jobspec import CONTAINER
from scaler.timestamps import seconds_of
from scaler.workloads import devices
from scaler.workloads.devices import PodDevices
from scaler.workloads.hyper_nodes import tier_of, topology_in
from scaler.workloads.kinds import job_uid, membership_of, unknown_owner
from scaler.workloads.membership import Membership
from scaler.workloads.npu_rules import NO_JOB, NpuJob, npu_job_of
from scaler.workloads.pod_requests import (
    LONGEST_PLACEMENT,
    PLACEMENT,
    PodResources,
    Requests,
    pod_request_of,
    requests_of,
)
from scaler.workloads.volcanojob import JOB_VERSION, MARK

ENDED = ("Failed", "Succeeded")
DEFAULT_GRACE = 30.0
"""Seconds, as in Kubernetes."""
LONGEST_CONFIGURATION = 32 * 1024
"""Characters of the annotation about its chips: beyond that it is unusable."""

_shared = Sharing(2**23)
"""Pods of one instance say the same."""
_EVICTIONS = frozenset(
    {"Evicted", "NodeShutdown", "Shutdown", "Terminated", "NodeLost", "Preempting"}
)
"""Values of a pod's status.reason that the kubelet gives to pods which it ends for others."""
_REFUSAL = "UnexpectedAdmissionError"
"""A refusal, also where the kubelet still knows of containers from before its own restart."""
_DEADLINE = "DeadlineExceeded"
"""The value of status.reason of a pod that lived for its `activeDeadlineSeconds`."""
_WAITS_FOR_ITS_TURN = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Words for a container that waits although nothing is wrong."""
_NEVER_FOUND = "ContainerStatusUnknown"
"""Why a container is terminated of which the kubelet knows nothing: it may never have started."""


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _Running(msgspec.Struct, frozen=True, gc=False):
    pass


class _Terminated(msgspec.Struct, frozen=True, rename="camel", gc=False):
    exit_code: int = 0
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    restart_count: int = 0
    state: _ContainerState = _ContainerState()
    container_id: str = msgspec.field(name="containerID", default="")

    @property
    def has_started(self) -> bool:
        state = self.state
        ended = state.terminated is not None and state.terminated.reason != _NEVER_FOUND
        return bool(self.container_id or self.restart_count or state.running or ended)


class _Gate(msgspec.Struct, gc=False):
    name: str = ""


class _PodSpec(PodResources, frozen=True, rename="camel", gc=False):
    """Raw fields are decoded only for pods that name a rule."""

    node_selector: msgspec.Raw = msgspec.Raw()
    affinity: msgspec.Raw = msgspec.Raw()
    tolerations: msgspec.Raw = msgspec.Raw()
    priority: int | None = None
    node_name: str = ""
    scheduler_name: str = ""
    termination_grace_period_seconds: int | None = None
    scheduling_gates: list[_Gate] = msgspec.field(default_factory=list)


class _PodStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    phase: str = ""
    reason: str = ""
    conditions: list[Condition] = []
    container_statuses: list[_ContainerStatus] = msgspec.field(default_factory=list)
    init_container_statuses: list[_ContainerStatus] = msgspec.field(default_factory=list)
    """Also of sidecars: init containers that restart."""
    ephemeral_container_statuses: list[_ContainerStatus] = msgspec.field(default_factory=list)
    pod_ip: str = msgspec.field(name="podIP", default="")


class PodObject(msgspec.Struct, gc=False):
    metadata: ManagedMetadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class Governed(msgspec.Struct, frozen=True, gc=False):
    """The fields of a pod that names a rule, beside the fields of any pod."""

    membership: Membership | None
    """None for a pod of a job that is an instance by itself."""
    pod_group: str
    """Whose member it is for Volcano, "" as long as it has none."""
    volcano: bool
    request: PodRequest = PodRequest()
    priority: int = 0
    controller_uid: str = ""
    """Of its controller, or its own if it has none: Volcano names the PodGroup after it that it
    makes for the pod."""
    unknown_owner: str = ""
    """That no known kind of workload made it, in words; "" when one did, or nothing at all."""
    npus: NpuJob = NO_JOB
    """What MindCluster's scheduler reads of it; of a job it reads the job."""
    tier: str = ""
    """`PodRequest.tier` of its instance, as its annotations say."""


class PodRecord(Stored, frozen=True, gc=False):
    """One pod. `owner_uid` is that of its controlling AscendJob or Volcano Job, "" for pods of
    others."""

    owner_uid: str
    node: str
    phase: str
    created: float
    gated: bool
    """Held by a gate of ours. Gates of others are left to their owners."""
    terminating: bool
    ready: bool
    crashing: bool
    restarts: int
    cannot_start: str = ""
    """The word of the kubelet for why a container of it does not start, `ImagePullBackOff` for
    example; "" while none says so."""
    deletion: float = 0.0
    """When it should be gone, its grace period included; 0.0 = it is not terminating."""
    version: int = 0
    """The round of its job that it belongs to."""
    grace: float = 0.0
    """Its grace period, in seconds."""
    deletion_cost: int = 0
    """The cost in its annotation; 0 where that cannot be read, as in Kubernetes."""
    exit_code: int = -1
    """Exit code of its container `ascend`; -1 while that runs, or without a code."""
    requests: Requests = ()
    disrupted: bool = False
    """The cluster ended the pod; it did not end by itself."""
    said: str = ""
    """The word that status.reason has for why the pod failed; "" where it did not fail."""
    refused: bool = False
    """Its kubelet refused the pod: it failed, and no container of it ever started."""
    kept: bool = False
    """The pod has the label that protects it from evictions."""
    devices: PodDevices | None = None
    """Its chips; None for pods of others, which are most and must stay small."""
    governed: Governed | None = None
    """None for pods that name no rule."""
    scheduler: str = ""
    """Its `schedulerName`."""
    job_version: str = ""
    """The version of its Volcano Job for which it was made; "" for pods of others."""
    marked: bool = False
    """The scaler has marked it for its deletion, which Volcano then does not count."""
    started_size: int = 0
    """The size at which this pod of a training job was released; 0 = it was not, or it is of no
    such job."""
    made_by: str = ""
    """Who else made this pod of an AscendJob or Volcano Job, as its managedFields say; "" for the
    scaler."""


def pod_record(pod: PodObject) -> PodRecord:
    meta = pod.metadata
    status = pod.status
    owner = meta.owner
    owner_uid = job_uid(owner)
    governed = _shared(_governed(pod, owner, owner_uid)) if RULE_LABEL in meta.labels else None
    version = meta.labels.get("version", "")
    ready, disrupted = _conditions(status.conditions)
    disrupted = disrupted or status.reason in _EVICTIONS
    init_crashing, init_restarts, _ = _containers(status.init_container_statuses)
    crashing, restarts, exit_code = _containers(status.container_statuses)
    gates = pod.spec.scheduling_gates
    # What the API server writes includes the grace period.
    deletion = 0.0
    if meta.deletion_timestamp is not None:
        # a time that cannot be read is long over
        deletion = seconds_of(meta.deletion_timestamp) or 1.0
    cost = 0
    if DELETION_COST in meta.annotations:
        cost = _deletion_cost(meta.annotations[DELETION_COST])
    job_version = meta.annotations.get(JOB_VERSION, "") if owner_uid else ""
    marked = job_version == MARK and VERSION_BEFORE in meta.annotations
    if marked:
        job_version = meta.annotations[VERSION_BEFORE]
    return PodRecord(
        *meta.identity,
        owner_uid=shared(owner_uid),
        node=shared(pod.spec.node_name),
        phase=shared(status.phase[:LONGEST_NAME]),
        created=seconds_of(meta.creation_timestamp),
        gated=bool(gates) and any(gate.name == GATE for gate in gates),
        terminating=meta.deletion_timestamp is not None,
        deletion=deletion,
        ready=ready,
        crashing=crashing or init_crashing,
        restarts=restarts + init_restarts,
        cannot_start=shared(_why_not_started(status)),
        version=int(version) if len(version) < 10 and version.isdecimal() else 0,
        grace=_grace(pod.spec),
        deletion_cost=cost,
        exit_code=exit_code,
        requests=requests_of(pod.spec),
        disrupted=disrupted or status.reason == _REFUSAL,
        said=shared(status.reason[:LONGEST_NAME]) if status.phase == "Failed" else "",
        refused=not disrupted and _is_refused(status),
        kept=meta.labels.get(KEEP_LABEL) == "true",
        devices=_devices(pod) if owner_uid or governed is not None else None,
        governed=governed,
        scheduler=shared(pod.spec.scheduler_name[:LONGEST_NAME]),
        job_version=shared(job_version[:LONGEST_NAME]),
        marked=marked,
        started_size=_size(meta.annotations.get(STARTED_SIZE, "")) if owner_uid else 0,
        made_by=pod_made_by_others(meta) if owner_uid else "",
    )


def _size(text: str) -> int:
    return int(text) if len(text) < 6 and text.isascii() and text.isdecimal() else 0


def _grace(spec: _PodSpec) -> float:
    seconds = spec.termination_grace_period_seconds
    return DEFAULT_GRACE if seconds is None else float(max(0, seconds))


def _deletion_cost(text: str) -> int:
    """A number of 32 bits without a plus sign or leading zeros, as ReplicaSets read it."""
    cost = int(text) if re.fullmatch("0|-?[1-9][0-9]{0,9}", text) else 0
    return cost if -(2**31) <= cost < 2**31 else 0


def _conditions(conditions: Sequence[Condition]) -> tuple[bool, bool]:
    """Whether the pod is ready, and whether the cluster is ending it. In one pass: this is the path
    of every event."""
    ready = disrupted = False
    for condition in conditions:
        if condition.status == "True":
            if condition.type == "Ready":
                ready = True
            elif condition.type == "DisruptionTarget":
                disrupted = True
    return ready, disrupted


def _containers(statuses: Sequence[_ContainerStatus]) -> tuple[bool, int, int]:
    """Whether one is in CrashLoopBackOff, all restarts, and the exit code of `ascend` (-1 while it
    has none)."""
    crashing = False
    restarts = 0
    exit_code = -1
    for container in statuses:
        restarts += container.restart_count
        waiting = container.state.waiting
        terminated = container.state.terminated
        if waiting is not None and waiting.reason == "CrashLoopBackOff":
            crashing = True
        if terminated is not None and container.name == CONTAINER:
            exit_code = terminated.exit_code
    return crashing, restarts, exit_code


def _why_not_started(status: _PodStatus) -> str:
    """The word of the first container that waits for something other than its turn, as kubectl
    shows it: `Init:` before that of an init container."""
    for container in status.init_container_statuses:
        terminated = container.state.terminated
        failed = terminated is not None and terminated.exit_code != 0
        word = "Error" if failed else _awaited_word(container)
        if word:
            return f"Init:{word}"
    for container in status.container_statuses:
        word = _awaited_word(container)
        if word:
            return word
    return ""


def _awaited_word(container: _ContainerStatus) -> str:
    waiting = container.state.waiting
    if waiting is None or waiting.reason in _WAITS_FOR_ITS_TURN:
        return ""
    # The two follow each other for as long as the image cannot be had.
    word = waiting.reason[:LONGEST_NAME]
    return "ImagePullBackOff" if word == "ErrImagePull" else word


def _is_refused(status: _PodStatus) -> bool:
    """Whether the pod failed without a container that ever started, whatever the reason is called.
    The end of a pod at its deadline is no refusal."""
    if status.phase != "Failed" or status.reason == _DEADLINE:
        return False
    containers = (
        *status.container_statuses,
        *status.init_container_statuses,
        *status.ephemeral_container_statuses,
    )
    return not any(container.has_started for container in containers)


def _governed(pod: PodObject, owner: Owner, job: str) -> Governed:
    meta = pod.metadata
    spec = pod.spec
    requests = requests_of(pod.spec)
    membership = None if job else membership_of(meta)
    raw = (spec.node_selector, spec.affinity, spec.tolerations)
    too_long = sum(memoryview(part).nbytes for part in raw) > LONGEST_PLACEMENT
    return Governed(
        membership=membership,
        pod_group=meta.annotations.get(POD_GROUP, "")[:LONGEST_NAME],
        volcano=spec.scheduler_name == "volcano",
        request=PodRequest(requests) if too_long else _request_of(requests, *map(bytes, raw)),
        priority=spec.priority or 0,
        controller_uid=shared(owner.uid or meta.uid),
        unknown_owner=unknown_owner(meta, membership) if membership is not None else "",
        npus=npu_job_of(meta.annotations, meta.labels) if not job else NO_JOB,
        tier=tier_of(topology_in(meta.annotations)) if not job else "",
    )


_read: Remembered[tuple[Requests, bytes, bytes, bytes], PodRequest] = Remembered(2**23)


def _request_of(
    requests: Requests, selector: bytes, affinity: bytes, tolerations: bytes
) -> PodRequest:
    """Pods of one template have the same bytes, so each template is read once."""
    key = (requests, selector, affinity, tolerations)
    known = _read.get(key)
    if known is not None:
        return known
    parts = dict(zip(PLACEMENT, (selector, affinity, tolerations), strict=True))
    where = pod_request_of(
        {name: msgspec.json.decode(part) for name, part in parts.items() if part}
    ).where
    return _read.keep(key, PodRequest(requests, where))


def read_pod(obj: Object) -> PodRecord:
    """The record of a pod as the API server answers it."""
    return pod_record(msgspec.json.decode(msgspec.json.encode(obj), type=PodObject))


def _devices(pod: PodObject) -> PodDevices:
    annotation = pod.metadata.annotations.get

    def text(name: str, longest: int = LONGEST_NAME) -> str:
        return annotation(name, "")[:longest]

    configuration = annotation(devices.CONFIGURATION, "") or annotation(
        devices.CONFIGURATION_NPU, ""
    )
    if len(configuration) > LONGEST_CONFIGURATION:
        configuration = f"longer than {LONGEST_CONFIGURATION} characters"
    return PodDevices(
        rank_index=text(devices.RANK_INDEX),
        packed=devices.pack(configuration, pod.status.pod_ip[:LONGEST_NAME].partition("\n")[0]),
        real=shared(text(devices.REAL, 4096)),
        hardware_type=shared(text(devices.HARDWARE_TYPE)),
        super_pod=shared(text(devices.SUPER_POD)),
        without_rank=bool(text(devices.SUPER_POD)) and not text(devices.SUPER_POD_RANK).strip(),
        separated=pod.metadata.labels.get("fault-type", "") == "Separate",
    )
