"""The steps of an uninstall. An interruption after any step leaves no pod behind the gate: first
the gate is no longer added, the scaler releases pods until it stops, then pods still held are
released or printed. Each step is repeatable.

Writes with the caller's rights. Deletes our webhook configurations, policies and budgets, and no
pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from scaler.clock import loop_time
from scaler.kube.api import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    LEASES,
    PODS,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, KubeError, NotFoundError, StatusError
from scaler.names import GATE, GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.rules.values import at
from scaler.tools.common.lists import every
from scaler.tools.uninstall.held import HeldPod, commands, held_pods, release
from scaler.tools.uninstall.install import (
    APP_LABEL,
    Install,
    admission_of,
    opted_in,
    still_gating,
)
from scaler.tools.uninstall.remains import budgets

POLL = 1.0
CALM = 3
"""Equal answers in a row that are required: a cluster may have several API servers, each with a
cache."""
UNGATED = 60.0
"""Seconds for all API servers to stop adding the gate."""
STOPPED = 120.0
"""Seconds for the scaler's processes to end."""
ROUNDS = 60
"""Rounds of looking for held pods, at most."""
MARGIN = 2.0
Say = Callable[[str], None]


class StuckError(Exception):
    """A step cannot be completed. The message says what prevents it, and what has been done so
    far."""


class Asks(KubeApi, Protocol):
    """A KubeApi with a dry run of create."""

    async def would_create(
        self, resource: Resource, namespace: str | None, body: Object
    ) -> Object: ...


class Leaving:
    """The uninstall of one install."""

    def __init__(self, api: Asks, install: Install, say: Say) -> None:
        self._api = api
        self._install = install
        self._say = say

    async def let_pods_be_made(self) -> None:
        """Delete the objects that add the gate to pods, and wait until no API server adds it.
        Raises StuckError."""
        for resource, one in await admission_of(self._api, self._install):
            name = one["metadata"]["name"]
            try:
                await self._api.delete(resource, None, name, uid=one["metadata"].get("uid", ""))
            except NotFoundError:
                continue
            self._say(f"deleted {resource.kind} {name}")
        gated = await self._wait_until_nothing_is_gated()
        if gated:
            others = ", ".join(await still_gating(self._api)) or "nothing that is seen here"
            raise StuckError(
                f"new pods in {', '.join(gated)} still get the gate, by {others}. Take these"
                " namespaces out of it, then run this again:\n"
                + "\n".join(
                    f"  kubectl label namespace {namespace} mind-cluster/scaling-"
                    for namespace in gated
                )
                + "\nThe scaler still runs and releases pods."
            )

    async def _wait_until_nothing_is_gated(self) -> list[str]:
        """The namespaces in which new pods still get the gate; empty once they do not, `CALM` times
        in a row."""
        end = loop_time() + UNGATED
        calm = 0
        silent = set[str]()
        namespaces = await opted_in(self._api, self._install)
        while namespaces:
            tried = {namespace: await self._is_gated(namespace) for namespace in namespaces}
            silent |= {namespace for namespace, gated in tried.items() if gated is None}
            left = [namespace for namespace, gated in tried.items() if gated]
            calm = 0 if left else calm + 1
            if calm >= CALM or loop_time() > end:
                break
            await asyncio.sleep(POLL)
        for namespace in sorted(silent):
            self._say(
                f"whether new pods in {namespace} get the gate could not be tried: a trial pod is"
                " refused there"
            )
        return left if namespaces else []

    async def _is_gated(self, namespace: str) -> bool | None:
        """None if a trial pod is refused; a webhook that does not answer may be ours."""
        try:
            made = await self._api.would_create(PODS, namespace, _trial())
        except StatusError:
            return None
        except KubeError:
            return True
        return any(gate.get("name") == GATE for gate in made["spec"].get("schedulingGates") or ())

    async def stop(self) -> None:
        """Scale its Deployments to 0, and wait until none of its processes works. Raises
        StuckError."""
        for deployment in self._install.deployments:
            name = deployment["metadata"]["name"]
            if at(deployment, "spec").get("replicas") != 0:
                patch = {"spec": {"replicas": 0}}
                await self._api.patch(
                    DEPLOYMENTS, self._install.namespace, name, patch, patch_type=PatchType.MERGE
                )
                self._say(f"scaled Deployment {self._install.namespace}/{name} to 0")
        end = loop_time() + STOPPED
        idle = _Idle()
        while left := [*await self._pods(), *await self._holders(idle)]:
            if loop_time() > end:
                raise StuckError(
                    f"still at work after {STOPPED:g} s: {', '.join(left)}. Stop that, then run"
                    " this again. Nothing holds new pods any more"
                )
            await asyncio.sleep(POLL)

    async def _pods(self) -> list[str]:
        """Pods of the Deployment; a process on a lost node ends with its Lease."""
        pods = []
        async for one in every(self._api, PODS, self._install.namespace, label_selector=APP_LABEL):
            pods.append(one)
        over = ("Succeeded", "Failed")
        found: list[str] = []
        for pod in pods:
            if (
                "deletionTimestamp" not in pod["metadata"]
                and at(pod, "status").get("phase") not in over
            ):
                found.append(f"pod {pod['metadata']['name']}")
        return found

    async def _holders(self, idle: _Idle) -> list[str]:
        found = []
        for known in self._install.leases:
            try:
                lease = await self._api.get(LEASES, known.namespace, known.lease)
            except NotFoundError:
                continue
            idle.note(lease)
            if idle.is_held(lease, known.duration):
                found.append(
                    f"Lease {known.namespace}/{known.lease}, held by"
                    f" {lease['spec']['holderIdentity']}"
                )
        return found

    async def let_nodes_be_drained(self) -> None:
        """Delete the budgets that refuse evictions of minimums. Without the right they are listed
        as left over."""
        for one in await budgets(self._api, self._install):
            namespace = one["metadata"]["namespace"]
            name = one["metadata"]["name"]
            with suppress(NotFoundError, ForbiddenError):
                await self._api.delete(
                    DISRUPTION_BUDGETS, namespace, name, uid=one["metadata"].get("uid", "")
                )
                self._say(f"deleted PodDisruptionBudget {namespace}/{name}")

    async def release(self) -> list[str]:
        """Release every held pod, until no new one comes. Returns those that could not be released,
        in words."""
        done = set[str]()
        calm = 0
        failed = list[tuple[HeldPod, KubeError]]()
        for _ in range(ROUNDS):
            pods = await held_pods(self._api, self._install)
            calm = 0 if pods else calm + 1
            if calm >= CALM:
                break
            failed = await release(self._api, pods)
            refused = [error for _, error in failed if isinstance(error, StatusError)]
            done |= {pod.metadata.uid for pod in pods} - {pod.metadata.uid for pod, _ in failed}
            if refused and len(refused) == len(pods):
                break
            await asyncio.sleep(POLL)
        self._say(
            f"released {len(done)} pods; whether and where each runs is up to the scheduler now"
        )
        left = await held_pods(self._api, self._install) if calm < CALM else []
        why = {pod.metadata.uid: str(error) for pod, error in failed}
        found: list[str] = []
        for pod in left:
            found.append(f"{_name(pod)} is held: {why.get(pod.metadata.uid, 'it came later')}")
        return found

    async def tell(self) -> list[str]:
        """Print the command that releases each held pod, so that no held pod is forgotten."""
        pods = await held_pods(self._api, self._install)
        self._say(f"{len(pods)} pods are held" + (". To release one:" if pods else ""))
        for line in commands(pods):
            self._say(f"  {line}")
        return []


class _Idle:
    """The Leases that are not renewed: their holder is gone."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Any, float]] = {}

    def note(self, lease: Object) -> None:
        """Note since when the Lease is as it is now."""
        uid = lease["metadata"]["uid"]
        renewed = at(lease, "spec").get("renewTime")
        known = self._seen.get(uid)
        if known is None or known[0] != renewed:
            self._seen[uid] = (renewed, loop_time())

    def is_held(self, lease: Object, duration: float) -> bool:
        """Whether the Lease, which has been noted, has a holder that may be alive."""
        _, since = self._seen[lease["metadata"]["uid"]]
        has_holder = bool(at(lease, "spec").get("holderIdentity"))
        return has_holder and loop_time() < since + duration + MARGIN


def _trial() -> Object:
    """A pod that the strictest namespace accepts, and that names a rule."""
    small = {"cpu": "1m", "memory": "1Mi"}
    container = {
        "name": "trial",
        "image": "none",
        "resources": {"requests": small, "limits": small},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    labels = {RULE_LABEL: "trial", GROUP_LABEL: "trial", JOB_ID_LABEL: "trial"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "scaler-uninstall-trial-", "labels": labels},
        "spec": {"containers": [container], "securityContext": security},
    }


def _name(pod: HeldPod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
