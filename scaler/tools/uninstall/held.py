"""Pods with our gate, and their release: only our gate is removed, no pod is deleted."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from scaler.kube.api import PODS, KubeApi, Object, PatchType
from scaler.kube.errors import ConflictError, KubeError, NotFoundError
from scaler.names import DELETION_COST, GATE, GROUP_LABEL, HELD_COST, JOB_ID_LABEL, RULE_LABEL
from scaler.tools.common.lists import every
from scaler.tools.uninstall.install import Install

AT_ONCE = 16
"""Requests at the same time."""


class _Gate(msgspec.Struct, frozen=True):
    name: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_gates: tuple[_Gate, ...] = ()


class HeldPod(msgspec.Struct, frozen=True):
    """The fields of a pod that are needed here."""

    metadata: _Meta
    spec: _Spec

    @property
    def gated(self) -> bool:
        return not self.metadata.deletion_timestamp and any(
            gate.name == GATE for gate in self.spec.scheduling_gates
        )

    @property
    def service(self) -> str:
        labels = self.metadata.labels
        rule = labels.get(RULE_LABEL, "-")
        job_id = labels.get(JOB_ID_LABEL, "-")
        return f"{self.metadata.namespace}/{rule}/{job_id} {labels.get(GROUP_LABEL, '-')}"


async def held_pods(api: KubeApi, install: Install) -> list[HeldPod]:
    """Pods that the install would have released, by service, the oldest first. Raises KubeError."""
    found: list[HeldPod] = []
    for namespace in install.governs or (None,):
        pods = every(api, PODS, namespace, field_selector="spec.nodeName=", decode=HeldPod)
        async for pod in pods:
            if pod.gated and install.looks_after(pod.metadata.namespace):
                found.append(pod)
    return sorted(
        found, key=lambda pod: (pod.service, pod.metadata.creation_timestamp, pod.metadata.name)
    )


def _patch(pod: HeldPod, metadata: Object) -> Object:
    """The patch that removes only our gate, and the deletion cost of held pods."""
    if pod.metadata.annotations.get(DELETION_COST) == HELD_COST:
        metadata = {**metadata, "annotations": {DELETION_COST: None}}
    gates = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    return {"metadata": metadata, **gates} if metadata else gates


async def release(api: KubeApi, pods: Sequence[HeldPod]) -> list[tuple[HeldPod, KubeError]]:
    """Release all; returns the pods that failed, with the error. A pod that is gone, or replaced by
    another one of its name, is no failure."""
    failed: list[tuple[HeldPod, KubeError]] = []
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(pod: HeldPod) -> None:
        meta = pod.metadata
        async with limit:
            try:
                patch = _patch(pod, {"uid": meta.uid})
                await api.patch(
                    PODS, meta.namespace, meta.name, patch, patch_type=PatchType.STRATEGIC
                )
            except (NotFoundError, ConflictError):
                return
            except KubeError as error:
                failed.append((pod, error))

    await asyncio.gather(*map(one, pods))
    return failed


def commands(pods: Iterable[HeldPod]) -> Iterator[str]:
    """One kubectl command per pod, below its service and group."""
    service = ""
    for pod in pods:
        if pod.service != service:
            service = pod.service
            yield f"# {service}"
        patch = shlex.quote(msgspec.json.encode(_patch(pod, {})).decode())
        meta = pod.metadata
        yield f"kubectl -n {meta.namespace} patch pod {meta.name} --type=strategic -p {patch}"
