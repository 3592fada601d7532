"""Asks a pool of nodes to grow for a minimum that does not fit: 3b.9b of the contract.

A cluster autoscaler adds nodes for pods that are Pending, and ignores pods with gates. So a minimum
that has had no room for `fit_patience` asks for its room by a ProvisioningRequest, as Kueue does:

    no room for `fit_patience` -> a ProvisioningRequest, a PodTemplate for each kind of pod, and its
    name in an annotation of the held pods -> room, or the service is gone -> it is deleted

Pods that the scaler makes itself come when the room is there. They name the request as well: an
autoscaler keeps the room for them, and adds no node more.

Kubernetes deletes the PodTemplates with their request. No decision reads a request: one that fails,
takes long or cannot be written changes nothing else."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
import structlog

from scaler.clock import loop_time
from scaler.decide.decision import Plan
from scaler.decide.nodes import NODE_NAME, PodRequest, PodRequests, Requirement
from scaler.decide.nodes import PODS as POD_COUNT
from scaler.decide.world import Service, ServiceKey
from scaler.informers.changes import ServiceChanged
from scaler.informers.mode import CurrentMode, ModeInForce
from scaler.informers.pods import PodRecord
from scaler.kube.api import POD_TEMPLATES, PODS, PROVISIONING_REQUESTS, KubeApi, Object, PatchType
from scaler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
)
from scaler.kube.outbox import Outbox
from scaler.kube.writer import Writer
from scaler.names import CONSUMES, MANAGED_BY, MANAGED_BY_LABEL, REQUEST_OF
from scaler.reasons.reasons import Reason
from scaler.rules.values import as_text, at
from scaler.state.cluster import ClusterState

AGAIN = 300.0
"""Seconds until the next try where the right or the definition is missing."""
KEPT = 600.0
"""Seconds for which an autoscaler keeps the room of a request for the pods that name it. Pods that
are made later name nothing: while they are Pending it has to see them."""
IMAGE = "registry.k8s.io/pause:3.10"
"""Of the PodTemplates. No pod is made of them: an autoscaler reads what they request."""
MOST_POD_SETS = 32
"""The largest number of pod sets in one request."""
_WITHOUT_ROOM = (Reason.MINIMUM_DOES_NOT_FIT, Reason.MINIMUM_TOO_LARGE)
_log = structlog.get_logger("capacity_requests")


class Shortfall(msgspec.Struct):
    """A minimum that has no room: the pods that it lacks, the instances that wait, and the loop
    time since when."""

    pods: PodRequests
    waiting: tuple[str, ...]
    since: float


class _Consumer(msgspec.Struct, frozen=True):
    """An instance for which room was asked. `until`: loop time until which its pods name the
    request; math.inf = it was not withdrawn."""

    key: ServiceKey
    request: str
    until: float = math.inf


class CapacityRequests:
    """One per process. `stale`: why the cluster is not seen as it is now, "" while it is; nothing
    is written meanwhile."""

    def __init__(  # noqa: PLR0913 - wiring
        self,
        api: KubeApi,
        writer: Writer,
        state: ClusterState,
        *,
        class_name: str,
        patience: float,
        mode: CurrentMode,
        stale: Callable[[], str],
    ) -> None:
        self._api = api
        self._writer = writer
        self._state = state
        self._class = class_name
        self._patience = patience
        self._mode = mode
        self._stale = stale
        self._outbox: Outbox[ServiceKey] = Outbox(self._update)
        self._short: dict[ServiceKey, Shortfall] = {}
        self._asked: dict[ServiceKey, str] = {}
        """Service -> the name of its request."""
        self._placed: set[ServiceKey] = set()
        """Services with a request that have room since, or are gone."""
        self._made_for: dict[str, _Consumer] = {}
        """Uid of a held instance for which room was asked -> what its pods are to name."""
        self._named: dict[ServiceKey, set[str]] = {}
        """Service -> uids of pods that name its request."""
        self._not_before = 0.0
        """Loop time of the next try, where the right or the definition is missing."""

    async def run(self) -> None:
        """Find the requests of an earlier leader, then write until cancelled. Errors are logged and
        retried, never raised."""
        await self._find_requests()
        await self._outbox.run()

    def saw(self, service: Service, plan: Plan) -> None:
        """What was decided about a service. While jobs of its minimum are missing (an owner makes
        pods anew) nothing changes."""
        key = plan.key
        reasons = {verdict.reason for verdict in plan.verdicts}
        if service.assumed or Reason.MINIMUM_INCOMPLETE in reasons:
            return
        if not plan.unplaced:
            self._short.pop(key, None)
            if key in self._asked:
                self._placed.add(key)
                self._outbox.mark(key)
            return
        self._placed.discard(key)
        waiting = tuple([one.uid for one in plan.verdicts if one.reason in _WITHOUT_ROOM])
        before = self._short.get(key)
        since = before.since if before is not None else loop_time()
        self._short[key] = Shortfall(plan.unplaced, waiting, since)
        self._outbox.mark(key, delay=max(0.0, since + self._patience - loop_time()))

    def on_service(self, change: ServiceChanged) -> None:
        """Mark a service that has a request: it may be gone."""
        if change.service in self._asked:
            self._outbox.mark(change.service)

    def named_by(self, uid: str) -> str:
        """The request that pods made for this instance now are to name; "" = none."""
        consumer = self._made_for.get(uid)
        return consumer.request if consumer is not None and loop_time() < consumer.until else ""

    async def _find_requests(self) -> None:
        selector = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
        try:
            page = await self._api.list(PROVISIONING_REQUESTS, label_selector=selector)
        except KubeError as error:
            _log.warning("requests of before are not known", why=str(error))
            return
        for item in page.items:
            found: Object = item
            metadata = at(found, "metadata")
            service = as_text(at(metadata, "annotations").get(REQUEST_OF)).split("/")
            if len(service) != 3:
                continue
            key = ServiceKey(*service)
            self._asked[key] = as_text(metadata.get("name"))
            if not self._state.has_instances(key):
                self._outbox.mark(key)

    async def _update(self, key: ServiceKey) -> None:
        """Ask, or withdraw what was asked."""
        acts = self._mode.now in (ModeInForce.MAKES, ModeInForce.RELEASES) and not self._stale()
        if not acts:
            return
        if not self._state.has_instances(key):
            self._short.pop(key, None)
            self._placed.add(key)
        short = self._short.get(key)
        now = loop_time()
        if short is None:
            if key in self._placed:  # else nothing was decided about it yet
                await self._withdraw(key)
            return
        due = max(short.since + self._patience, self._not_before)
        if now < due:
            asyncio.get_running_loop().call_at(due, self._outbox.mark, key)
            return
        try:
            await self._ask(key, short)
        except (ForbiddenError, NotFoundError) as error:
            if now >= self._not_before:
                _log.warning("no room can be asked for", service=str(key), why=str(error))
            self._not_before = loop_time() + AGAIN
            asyncio.get_running_loop().call_at(self._not_before, self._outbox.mark, key)

    async def _ask(self, key: ServiceKey, short: Shortfall) -> None:
        name = request_name(key, short.pods)
        if self._asked.get(key, name) != name:
            await self._withdraw(key)
        if key not in self._asked:
            await self._create(key, name, short.pods)
            self._asked[key] = name
        self._made_for |= dict.fromkeys(short.waiting, _Consumer(key, name))
        named = self._named.setdefault(key, set())
        for pod in self._pods_of(short.waiting):
            if pod.gated and pod.uid not in named and await self._name_in(pod, name):
                named.add(pod.uid)

    async def _create(self, key: ServiceKey, name: str, pods: PodRequests) -> None:
        try:
            made = await self._writer.create(
                PROVISIONING_REQUESTS, key.namespace, request(key, name, self._class, pods)
            )
            _log.info("room asked for", service=str(key), request=name)
        except AlreadyExistsError:
            made = await self._writer.get(PROVISIONING_REQUESTS, key.namespace, name)
        for index, (asked, _) in enumerate(pods[:MOST_POD_SETS]):
            with suppress(AlreadyExistsError):
                body = pod_template(f"{name}-{index}", asked, made)
                await self._writer.create(POD_TEMPLATES, key.namespace, body)

    async def _withdraw(self, key: ServiceKey) -> None:
        name = self._asked.pop(key, None)
        self._placed.discard(key)
        self._named.pop(key, None)
        self._let_go(key)
        if name is not None:
            with suppress(NotFoundError):
                await self._writer.delete(PROVISIONING_REQUESTS, key.namespace, name)
            _log.info("request withdrawn", service=str(key), request=name)

    def _let_go(self, key: ServiceKey) -> None:
        """The request of a service is withdrawn: its room is kept for a while. What was withdrawn
        long ago is forgotten."""
        now = loop_time()
        left = {}
        for uid, consumer in self._made_for.items():
            if consumer.key == key:
                left[uid] = msgspec.structs.replace(consumer, until=min(consumer.until, now + KEPT))
            elif now < consumer.until:
                left[uid] = consumer
        self._made_for = left

    def _pods_of(self, uids: Iterable[str]) -> list[PodRecord]:
        found: list[PodRecord] = []
        for uid in uids:
            found += self._state.cache.present_pods(uid)
        return found

    async def _name_in(self, pod: PodRecord, name: str) -> bool:
        """Let the pod name the request; False when the pod is gone."""
        patch: dict[str, Any] = {"uid": pod.uid, "annotations": {CONSUMES: name}}
        try:
            await self._writer.patch(
                PODS, pod.namespace, pod.name, {"metadata": patch}, patch_type=PatchType.MERGE
            )
        except (NotFoundError, ConflictError):
            return False
        return True


# the objects, pure


def request_name(key: ServiceKey, pods: PodRequests) -> str:
    """One name for one service and what it lacks: a request cannot be changed."""
    told = f"{key} {pods!r}"
    return f"scaler-{sha256(told.encode()).hexdigest()[:16]}"


def request(key: ServiceKey, name: str, class_name: str, pods: PodRequests) -> Object:
    """The ProvisioningRequest for these pods."""
    pod_sets = []
    for index, (_, number) in enumerate(pods[:MOST_POD_SETS]):
        pod_sets.append({"podTemplateRef": {"name": f"{name}-{index}"}, "count": number})
    metadata = {
        "name": name,
        "namespace": key.namespace,
        "labels": {MANAGED_BY_LABEL: MANAGED_BY},
        "annotations": {REQUEST_OF: str(ServiceKey(key.namespace, key.rule, key.job_id))},
    }
    spec = {"provisioningClassName": class_name, "podSets": pod_sets}
    return PROVISIONING_REQUESTS.object(metadata, spec=spec)


def pod_template(name: str, asked: PodRequest, owner: Object) -> Object:
    """A pod that requests this, as far as it is read of the real ones; Kubernetes deletes it with
    the request `owner`."""
    where = asked.where
    amounts = {}
    for resource, amount in asked.requests:
        if resource != POD_COUNT:
            amounts[resource] = f"{amount}m" if resource == "cpu" else str(amount)
    container = {
        "name": "server",
        "image": IMAGE,
        "resources": {"requests": amounts, "limits": amounts},
    }
    spec: Object = {"containers": [container], "restartPolicy": "Never"}
    selector = {key: value for key, value in where.selector if key != NODE_NAME}
    if selector:
        spec["nodeSelector"] = selector
    if where.affinity:
        terms = {"nodeSelectorTerms": [_term(term) for term in where.affinity]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    if where.tolerations:
        spec["tolerations"] = [_without_empty(one) for one in where.tolerations]
    metadata = {
        "name": name,
        "labels": {MANAGED_BY_LABEL: MANAGED_BY},
        "ownerReferences": [_reference(owner)],
    }
    return POD_TEMPLATES.object(metadata, template={"spec": spec})


def _term(term: Iterable[Requirement]) -> Object:
    labels: list[Object] = []
    fields: list[Object] = []
    for one in term:
        part = {"key": one.key, "operator": one.operator, "values": list(one.values)}
        if one.key == NODE_NAME:
            fields.append(part)
        else:
            labels.append(part)
    found = {"matchExpressions": labels, "matchFields": fields}
    return {name: parts for name, parts in found.items() if parts}


def _without_empty(one: msgspec.Struct) -> Object:
    return {name: value for name, value in msgspec.to_builtins(one).items() if value}


def _reference(owner: Object) -> Object:
    metadata = at(owner, "metadata")
    return {
        "apiVersion": PROVISIONING_REQUESTS.api_version,
        "kind": PROVISIONING_REQUESTS.kind,
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
    }
