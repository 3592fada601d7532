"""Releases instances whose pods others make, by taking our gate off. Decides nothing.

A pod that would share its PodGroup with other instances first gets one of its own instance
(docs/explanation/holding-by-gates.md). An instance that a crash leaves half released is released by
the next pass."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from scaler.clock import loop_time
from scaler.decide.world import ServiceKey
from scaler.execute.bursts import PATIENCE, Bursts
from scaler.execute.writes import ObjectWriter, all_done
from scaler.informers.pods import Governed, PodRecord
from scaler.kube.api import POD_GROUPS, PODS, PatchType
from scaler.kube.errors import ConflictError, NotFoundError, NotSentError, UnknownOutcomeError
from scaler.kube.writer import Writer
from scaler.names import DELETION_COST, GATE, HELD_COST, POD_GROUP, STARTED_SIZE
from scaler.state.cluster import ClusterState
from scaler.state.instances import VOLCANOS_OWN, starts_with_leader
from scaler.workloads.membership import Membership
from scaler.workloads.podgroups import Gang, own_pod_group, own_pod_group_name, owner_reference

TRIES = 5
"""How often a patch is sent that gets a conflict although the pod has the uid that the patch
names."""
_KEEP_NO_ROOM = [{"op": "add", "path": "/spec/minResources", "value": {}}]


class Gates:
    """Raises errors of the seam: the caller separates refusals from errors that are retried."""

    def __init__(
        self, writer: Writer, writes: ObjectWriter, state: ClusterState, bursts: Bursts
    ) -> None:
        self._writer = writer
        self._writes = writes
        self._state = state
        self._bursts = bursts
        self._cache = state.cache

    async def release(self, key: ServiceKey, uid: str, *, started: int = 0) -> None:
        """Take our gate off all pods of the instance, in one burst; a pod that is gone meanwhile is
        no error. `started`: the size of a training job, which each pod is to say."""
        pods = self._cache.present_pods(uid)
        gated = [pod for pod in pods if pod.gated]
        await self._gather_in_own_group(key, uid, pods)
        if gated:
            async with self._bursts.begun(gated[0].namespace, len(gated)):
                await all_done([self._patch(key, pod, _release(pod, started)) for pod in gated])

    async def _patch(self, key: ServiceKey, pod: PodRecord, patch: dict[str, Any]) -> None:
        """Patch the pod; a pod that is gone is no error. A conflict alone does not mean that it is
        gone: an API server may compare the uid with that of an earlier pod of the same name, which
        only its own cache still has."""
        for _ in range(TRIES):
            try:
                await self._send(key, pod, patch)
                return
            except NotFoundError:
                # gone, or too new for this API server: tried again when the watch shows it
                raise NotSentError(f"pod {pod.name} is not found") from None
            except ConflictError:
                if not await self._is_there(pod):
                    return
        raise NotSentError(f"pod {pod.name}: {TRIES} conflicts in a row")

    async def _send(self, key: ServiceKey, pod: PodRecord, patch: dict[str, Any]) -> None:
        """Send the patch; after an error that comes at once, once more: the instance would be half
        released until the next pass."""
        sent = loop_time()
        try:
            await self._writes.patch(key, PODS, pod, patch, PatchType.STRATEGIC)
        except UnknownOutcomeError as error:
            if error.retry_after or loop_time() - sent > PATIENCE:
                raise
            await self._writes.patch(key, PODS, pod, patch, PatchType.STRATEGIC)

    async def _is_there(self, pod: PodRecord) -> bool:
        with suppress(NotFoundError):
            found = await self._writer.get(PODS, pod.namespace, pod.name)
            return bool(found["metadata"]["uid"] == pod.uid)
        return False

    async def _gather_in_own_group(
        self, key: ServiceKey, uid: str, pods: Sequence[PodRecord]
    ) -> None:
        """Move the unbound pods into the PodGroup of their instance, if they would share one with
        other instances."""
        membership = self._cache.pod_instances.membership.get(uid)
        named = set[str]()
        waiting = list[tuple[PodRecord, Governed]]()
        for pod in pods:
            governed = pod.governed
            if governed is not None and governed.pod_group:
                named.add(governed.pod_group)
            if governed is not None and governed.volcano and not pod.node:
                waiting.append((pod, governed))
        if membership is None or not membership.shares_pod_group or not waiting:
            return
        namespace = pods[0].namespace
        # A PodGroup that only this instance has, with some of its pods already, or a new one.
        own = [name for name in named if self._exists(namespace, name)]
        name = min(own) if own else own_pod_group_name(membership.name, pods[0].uid)
        moving = [pod for pod, governed in waiting if governed.pod_group != name]
        if self._exists(namespace, name):
            await self._join(name, moving)
        else:
            await self._make_group(name, key, membership, pods)
        await all_done(
            [self._patch(key, pod, {"metadata": _named(pod, {POD_GROUP: name})}) for pod in moving]
        )
        # Only after the pods have left: for a pod that names no PodGroup, Volcano creates its own
        # one again and names it in the pod; the watch shows that.
        left = {VOLCANOS_OWN + governed.controller_uid for _, governed in waiting}
        await all_done([self._keep_no_room(namespace, group) for group in sorted(left)])

    async def _keep_no_room(self, namespace: str, name: str) -> None:
        """Let the PodGroup that Volcano made ask for nothing, after its last pod has left: while
        queued, it would reserve room for one pod. The uid of its owner is in its name, so no other
        PodGroup has this name."""
        with suppress(NotFoundError):
            await self._writer.patch(
                POD_GROUPS, namespace, name, _KEEP_NO_ROOM, patch_type=PatchType.JSON
            )

    async def _join(self, name: str, pods: Sequence[PodRecord]) -> None:
        """Add these pods to the owners of the PodGroup: the pods that it was made for may be
        deleted before them."""
        for pod in pods:
            owner = {
                "op": "add",
                "path": "/metadata/ownerReferences/-",
                "value": owner_reference(pod.name, pod.uid),
            }
            try:
                await self._writer.patch(
                    POD_GROUPS, pod.namespace, name, [owner], patch_type=PatchType.JSON
                )
            except NotFoundError as error:
                raise NotSentError(
                    f"PodGroup {name} has gone, which the watch has not shown yet"
                ) from error

    def _exists(self, namespace: str, name: str) -> bool:
        return (
            not name.startswith(VOLCANOS_OWN)
            and self._cache.pod_groups.get(namespace, name) is not None
        )

    async def _make_group(
        self, name: str, key: ServiceKey, membership: Membership, pods: Sequence[PodRecord]
    ) -> None:
        """Create a PodGroup that is owned by the existing pods, and is deleted with the last of
        them."""
        first, *others = pods
        # before the pod is read: the watch may show meanwhile that all pods are gone
        size = self._state.instance(key, membership.instance).expected
        leader_first = starts_with_leader(self._cache, membership.instance)
        pod = await self._writer.get(PODS, first.namespace, first.name)
        rest = tuple((other.name, other.uid) for other in others)
        gang = Gang(membership.name, size, leader_first, rest)
        await self._writes.create(key, POD_GROUPS, own_pod_group(name, pod, gang))


def _named(pod: PodRecord, annotations: dict[str, str | None]) -> dict[str, Any]:
    return {"uid": pod.uid, "annotations": annotations}


def _release(pod: PodRecord, started: int) -> dict[str, Any]:
    """The strategic merge patch: removes our gate and the deletion cost of held pods; other gates
    stay."""
    notes: dict[str, str | None] = {}
    if str(pod.deletion_cost) == HELD_COST:
        notes[DELETION_COST] = None
    if started:
        notes[STARTED_SIZE] = str(started)
    meta = _named(pod, notes) if notes else {"uid": pod.uid}
    return {"metadata": meta, "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
