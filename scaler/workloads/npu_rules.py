"""What MindCluster's scheduler asks of a node for a pod with NPUs, beside what Kubernetes asks.
Pure.

The scheduler (Volcano with MindCluster's plugin) has rules about chips of its own: chips of pods
that need whole cards (Atlas A3), that need the network (distributed jobs), on nodes that are in a
super-pod. For each such set of rules a node offers another number of chips. So each set is a
resource of its own here, which stands beside that of Kubernetes in the request of a pod:

    huawei.com/Ascend910: 16, huawei.com/Ascend910#cards+linked: 16

A node with 16 chips of which 2 and 5 are faulty offers 14 of the first and 12 of the second, as the
cards (2, 3) and (4, 5) are not whole. A node of which the scheduler takes nothing offers 0.

Where the plugin is not at work no request names such a resource."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import NamedTuple

import msgspec

from scaler.decide.nodes import COUNTED_IN, NODE_NAME, PodRequest, PodRequests, Where
from scaler.remembered import Remembered
from scaler.workloads.super_pods import (
    LARGEST_SUPER_POD,
    NODE_NPUS,
    why_no_whole_cards,
    why_not_placed,
)

SCHEDULER = "volcano"
"""The `schedulerName` of pods that the plugin places."""
CONFIGURATION = ("volcano-system", "volcano-scheduler-configmap")
"""Namespace and name of the ConfigMap that names the scheduler's plugins."""
PLUGIN = "volcano-npu"
"""How the name of the plugin begins there; its version and platform follow."""
BASE_DEVICES = "baseDeviceInfos"
"""Annotation of a node with all its chips."""
LABEL = "accelerator"
"""Label of a node that the plugin looks for."""
SP_BLOCK = "sp-block"
POLICY = "huawei.com/schedule_policy"
ACCELERATOR = "accelerator-type"
AFFINITY = "super-pod-affinity"
SUB_HEALTH = "subHealthyStrategy"
RESCHEDULING = "fault-scheduling"

_NPU = re.compile(r"huawei\.com/(?:Ascend[0-9A-Z]+|npu)")
_CHIP = re.compile(r"(.+)-([0-9]+)")
_WHOLE_CARDS = frozenset({"module-a3-16", "chip2-node16", "chip2-node8"})
_SUPER_PODS = frozenset(
    {"chip2-node16-sp", "chip2-node8-sp", "module-a3-16-super-pod", "module-a3-8-super-pod"}
)
_OF_EIGHT = frozenset({"chip2-node8-sp", "module-a3-8-super-pod"})
_KNOWN = frozenset(
    {
        *_WHOLE_CARDS,
        "chip2-node16-sp",
        "chip2-node8-sp",
        *("chip1-node2", "chip4-node4", "chip8-node8", "chip8-node16", "chip4-node8"),
        *("chip4-node16", "chip1-node8", "chip1-node16", "chip8-node8-sp", "chip8-node8-ra64-sp"),
        *("chip1-softShareDev", "multilevel"),
    }
)
"""Values of `schedule_policy` that the plugin knows; others count as absent."""


def is_known_policy(policy: str) -> bool:
    """Whether the plugin knows this value of `huawei.com/schedule_policy`."""
    return policy in _KNOWN


def asks_for_whole_cards(policy: str, accelerator: str) -> bool:
    """Whether a job without `sp-block` asks for nodes of Atlas A3, in whole cards."""
    return policy in _WHOLE_CARDS if policy in _KNOWN else accelerator in _WHOLE_CARDS


CHIPS = "chips"
CARDS = "cards"
SUPER_POD = "super-pod"
LINKED = "linked"
WELL = "well"
DIES = 2
"""Chips of a card of Atlas A3."""


class NpuJob(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What the plugin reads of a job, or of a pod that has no job; "" where it says nothing."""

    block: str = ""
    """Annotation `sp-block`: NPUs of a block of a super-pod."""
    policy: str = ""
    """Annotation `huawei.com/schedule_policy`."""
    is_soft: bool = False
    """Its blocks may be spread over super-pods."""
    sub_health: str = ""
    """Label `subHealthyStrategy`."""
    rescheduling: str = ""
    """Label `fault-scheduling`: how the plugin deletes its pods when something is faulty; without
    it, it deletes none."""


NO_JOB = NpuJob()


def npu_job_of(annotations: Mapping[str, object], labels: Mapping[str, object]) -> NpuJob:
    """Read it from the metadata of a job, or of a pod without one."""
    is_of_mindie = "app" in labels and "jobID" in labels
    found = NpuJob(
        block=_text(annotations.get(SP_BLOCK)),
        policy=_text(annotations.get(POLICY)),
        is_soft=labels.get(AFFINITY) == "soft" and not is_of_mindie,
        sub_health=_text(labels.get(SUB_HEALTH)),
        rescheduling=_text(labels.get(RESCHEDULING)),
    )
    return NO_JOB if found == NO_JOB else found


def _text(value: object) -> str:
    return value[:64] if isinstance(value, str) else ""


class Devices(msgspec.Struct, frozen=True, gc=False):
    """The chips of a node, by name, and what is said of them."""

    all: frozenset[str] = frozenset()
    """Those of its annotation `baseDeviceInfos`."""
    unusable: frozenset[str] = frozenset()
    off_the_network: frozenset[str] = frozenset()
    super_pod: int = -1
    sub_healthy: bool = False
    barred: str = ""
    """Why the node takes no pod with NPUs at all, in words; "" when it does."""


def npu_of(resources: Iterable[str]) -> str:
    """The resource of Kubernetes among these that counts whole NPUs; "" without one."""
    return next((name for name in sorted(resources) if _NPU.fullmatch(name)), "")


def offered(resource: str, amount: int, devices: Devices) -> dict[str, int]:
    """Resource of the plugin -> how many of `amount` chips an empty node does not offer; nothing of
    the resources that it does not have."""
    found = {}
    kinds = (CHIPS, CARDS, SUPER_POD) if devices.super_pod >= 0 else (CHIPS, CARDS)
    for kind, is_linked, is_well in product(kinds, (False, True), (False, True)):
        bad = devices.unusable | (devices.off_the_network if is_linked else frozenset())
        lost = amount if devices.barred or (is_well and devices.sub_healthy) else len(bad)
        if kind is not CHIPS and lost < amount:
            lost = DIES * len({_card(chip) for chip in bad})
        found[_name(resource, kind, linked=is_linked, well=is_well)] = min(lost, amount)
    return found


def _card(chip: str) -> int:
    found = _CHIP.fullmatch(chip)
    return int(found[2]) // DIES if found else -1


def _name(resource: str, kind: str, *, linked: bool, well: bool) -> str:
    flags = [kind, *([LINKED] if linked else []), *([WELL] if well else [])]
    return f"{resource}{COUNTED_IN}{'+'.join(flags)}"


_placed: Remembered[tuple[PodRequests, NpuJob, int], dict[PodRequest, PodRequest]] = Remembered(
    2**23
)


def as_placed(
    pods: PodRequests, job: NpuJob, largest: int = LARGEST_SUPER_POD
) -> Mapping[PodRequest, PodRequest]:
    """Request of a pod -> that request as the plugin sees it. `pods`: all pods of the instance. Of
    a super-pod job all pods with NPUs count as the largest: the plugin chooses all nodes for the
    first of them. `largest`: nodes of the largest super-pod."""
    key = (pods, job, largest)
    known = _placed.get(key)
    return known if known is not None else _placed.keep(key, _as_placed(pods, job, largest))


def why_never_placed(pods: PodRequests, job: NpuJob, largest: int = LARGEST_SUPER_POD) -> str:
    """Why the plugin never starts an instance of these pods, whatever is free; "" when it may.
    `largest`: as at `as_placed`."""
    asked = _asked_by(pods, job)
    if asked is None:
        return ""
    if asked.kind is SUPER_POD:
        return "; ".join(asked.why_not_placed(largest))
    return why_no_whole_cards(asked.npus) if asked.kind is CARDS else ""


def is_seen_together(pods: PodRequests, job: NpuJob) -> bool:
    """Whether the plugin has to see all pods of such an instance at once: for those of a super-pod
    job that it sees in one session it chooses blocks, of whatever size, and writes their ranks."""
    asked = _asked_by(pods, job)
    return asked is not None and asked.kind is SUPER_POD and len(asked.npus) > 1


class _Asked(NamedTuple):
    """A job with NPUs as the plugin sees it."""

    npus: list[int]
    """Of each pod that asks for some."""
    kind: str
    """Of the chips that it counts."""
    block: int | None
    """NPUs of one block; None where that is not readable, or it asks for no blocks."""
    on_node: int
    """NPUs of a node."""

    def why_not_placed(self, largest: int) -> list[str]:
        if self.block is None:
            return []
        return why_not_placed(self.block, self.npus, on_node=self.on_node, largest=largest)

    def nodes_of_block(self, largest: int) -> int:
        """The nodes of one block; 1 where that does not matter, or where the plugin never places
        such a job; 0 where it asks for no blocks."""
        if self.kind is not SUPER_POD:
            return 0
        if self.block is None or self.why_not_placed(largest):
            return 1
        return max(1, self.block // self.on_node)


def _asked_by(pods: PodRequests, job: NpuJob) -> _Asked | None:
    """What such a job asks of the plugin; None where it asks for no NPUs."""
    npus: list[int] = []
    first: PodRequest | None = None
    for request, number in pods:
        if npus_in(request):
            first = first or request
            npus += [npus_in(request)] * min(number, 1_000)
    if first is None:
        return None
    policy = job.policy if job.policy in _KNOWN else ""
    hardware = policy or dict(first.where.selector).get(ACCELERATOR, "")
    on_node = NODE_NPUS // 2 if hardware in _OF_EIGHT else NODE_NPUS
    if hardware in _SUPER_PODS or (job.block and not policy):
        return _Asked(npus, SUPER_POD, _block_of(job, sum(npus)), on_node)
    return _Asked(npus, CARDS if hardware in _WHOLE_CARDS else CHIPS, None, on_node)


def _block_of(job: NpuJob, total: int) -> int | None:
    """The NPUs of one block of a super-pod job: without `sp-block` those of the whole job."""
    if not job.block:
        return total
    return int(job.block) if job.block.isascii() and job.block.isdigit() else None


def _as_placed(pods: PodRequests, job: NpuJob, largest: int) -> dict[PodRequest, PodRequest]:
    asked = _asked_by(pods, job)
    if asked is None:
        return {}
    nodes = asked.nodes_of_block(largest)
    is_distributed = len(asked.npus) > max(1, nodes)
    is_well = job.sub_health not in ("", "ignore")
    found = {}
    for request, _ in pods:
        number = npus_in(request)
        if not number:
            continue
        kind = CHIPS if asked.kind is CARDS and number == 1 else asked.kind
        name = _name(npu_of(dict(request.requests)), kind, linked=is_distributed, well=is_well)
        requests = tuple(sorted([*request.requests, (name, number)]))
        found[request] = PodRequest(requests, request.where)
    if nodes > 1 and not job.is_soft:
        block = _largest(list(found.values()), nodes)
        found = dict.fromkeys(found, block)
    return found


def npus_in(request: PodRequest) -> int:
    """The whole NPUs that such a pod asks for."""
    amounts = dict(request.requests)
    return amounts.get(npu_of(amounts), 0)


def _largest(requests: Collection[PodRequest], nodes: int) -> PodRequest:
    """One request for all these: the largest amount of each resource, and what all ask of the
    node."""
    amounts: dict[str, int] = {}
    for request in requests:
        for name, amount in request.requests:
            amounts[name] = max(amount, amounts.get(name, 0))
    wheres = {request.where for request in requests}
    where = next(iter(wheres)) if len(wheres) == 1 else _first_of(requests)
    is_rounded = len(set(requests)) > 1
    return PodRequest(tuple(sorted(amounts.items())), where, rounded=is_rounded, block=nodes)


def _first_of(requests: Iterable[PodRequest]) -> Where:
    """The constraints of the first pod, which the plugin chooses by. What only one pod says of one
    node says nothing of the others."""
    for request in requests:
        if NODE_NAME not in dict(request.where.selector):
            return request.where
    return Where()
