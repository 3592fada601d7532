"""The garbage collector: removes what its owners left behind, as an ordinary client of KubeApi.

Works like Kubernetes' own: an object all of whose owners are gone is deleted; foreground deletion waits for the
dependents that block it; orphaning cuts the references. Owners are known by uid, and an owner that nobody has heard of
is asked for by name before anything is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence

from scaler.kube import api
from scaler.kube.api import KubeApi, Object, PatchType, Resource
from scaler.kube.errors import KubeError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.mirror import Mirror
from scaler.sim.apiserver import kinds

WATCHED: tuple[Resource, ...] = (
    api.ASCEND_JOBS, api.POD_GROUPS, api.PODS, api.SERVICES, api.CONFIG_MAPS, api.LEASES, api.DEPLOYMENTS,
    api.REPLICA_SETS, api.STATEFUL_SETS, *kinds.WORKLOADS,
)  # fmt: skip
"""What is collected by default, owners as well as dependents."""

_RETRY_SECONDS = 1.0
_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


class GarbageCollector:
    """Run `run()` as a task; it ends only by cancellation. Errors of the API are retried after a second."""

    def __init__(self, kube: KubeApi, resources: Sequence[Resource] = WATCHED) -> None:
        self._kube = kube
        self._resources = tuple(resources)
        self._mirror = Mirror(kube, *resources, listener=self._see)
        self._items: dict[str, tuple[Resource, Object]] = {}
        self._dependents: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Watches everything and collects; nothing is deleted before all resources have been listed once."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._mirror.run(), name="collector mirror")
            while not self._mirror.synced:
                await self._mirror.wait()
            await self._collect()

    def _see(self, resource: Resource, obj: Object, gone: bool) -> None:
        """Notes one object and marks what it concerns: itself, its owners, and its dependents when it is gone."""
        uid = objects.uid(obj)
        if gone:
            self._items.pop(uid, None)
            for dependent in self._dependents.get(uid, ()):
                self._mark(dependent)
        else:
            self._items[uid] = (resource, obj)
            self._mark(uid)
        for owner in _owners(obj):
            if gone:
                self._dependents[owner["uid"]].pop(uid, None)
            else:
                self._dependents[owner["uid"]][uid] = None
            self._mark(owner["uid"])

    def _mark(self, uid: str) -> None:
        self._dirty[uid] = None
        self._wake.set()

    async def _collect(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            dirty, self._dirty = self._dirty, {}
            for uid in dirty:
                try:
                    await self._judge(uid)
                except KubeError:
                    self._dirty[uid] = None
            if self._dirty:
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()

    async def _judge(self, uid: str) -> None:
        resource, obj = self._items.get(uid, (None, {}))
        if resource is None:
            return
        if objects.terminating(obj):
            await self._finish(resource, obj)
        elif owners := _owners(obj):
            absent = [owner["uid"] for owner in owners if not await self._is_solid(obj, owner)]
            if len(absent) == len(owners):
                await self._delete(resource, obj, "Foreground" if self._in_foreground(obj) else "Background")
            elif absent:
                await self._set_owners(resource, obj, without=absent)

    def _in_foreground(self, obj: Object) -> bool:
        """An owner waits for this object, so that the object waits for what it owns in turn."""
        owners = [self._items[owner["uid"]][1] for owner in _owners(obj) if owner["uid"] in self._items]
        waits = any(_FOREGROUND in _finalizers(owner) for owner in owners)
        return waits and bool(self._dependents.get(objects.uid(obj)))

    async def _is_solid(self, obj: Object, reference: Object) -> bool:
        """Whether an owner is there to stay; one being deleted in the foreground only waits for this object."""
        _, owner = self._items.get(reference["uid"], (None, None))
        if owner is None:
            return await self._exists(obj, reference)
        return not (_FOREGROUND in _finalizers(owner) and objects.terminating(owner))

    async def _exists(self, obj: Object, owner: Object) -> bool:
        """Asks for an owner that no watch has shown; of kinds that are not watched nothing is ever deleted."""
        for resource in self._resources:
            if (resource.api_version, resource.kind) == (owner.get("apiVersion"), owner.get("kind")):
                namespace = objects.namespace(obj) if resource.namespaced else None
                try:
                    found = await self._kube.get(resource, namespace, owner.get("name", ""))
                except NotFoundError:
                    return False
                return bool(objects.uid(found) == owner["uid"])
        return True

    async def _finish(self, resource: Resource, obj: Object) -> None:
        """Carries out the two finalizers that belong to the collector."""
        own, finalizers = objects.uid(obj), _finalizers(obj)
        dependents = [self._items[uid] for uid in self._dependents.get(own, ()) if uid in self._items]
        if _ORPHAN in finalizers:
            for kind, dependent in dependents:
                await self._set_owners(kind, dependent, without=[own])
            await self._set_finalizers(resource, obj, without=_ORPHAN)
        elif _FOREGROUND in finalizers:
            if not any(_blocks(dependent, own) for _, dependent in dependents):
                await self._set_finalizers(resource, obj, without=_FOREGROUND)
            for _, dependent in dependents:
                if not objects.terminating(dependent):
                    self._mark(objects.uid(dependent))

    async def _delete(self, resource: Resource, obj: Object, propagation: str) -> None:
        version = obj["metadata"]["resourceVersion"]
        with contextlib.suppress(NotFoundError):
            await self._kube.delete(
                resource, objects.namespace(obj) or None, objects.name(obj), uid=objects.uid(obj),
                resource_version=version, propagation_policy=propagation,
            )  # fmt: skip

    async def _set_finalizers(self, resource: Resource, obj: Object, *, without: str) -> None:
        left = [name for name in _finalizers(obj) if name != without]
        await self._patch(resource, obj, {"finalizers": left or None})

    async def _set_owners(self, resource: Resource, obj: Object, *, without: Sequence[str]) -> None:
        left = [owner for owner in _owners(obj) if owner["uid"] not in without]
        await self._patch(resource, obj, {"ownerReferences": left or None})

    async def _patch(self, resource: Resource, obj: Object, metadata: Object) -> None:
        exactly = {"uid": objects.uid(obj), "resourceVersion": obj["metadata"]["resourceVersion"]}
        body, where = {"metadata": {**metadata, **exactly}}, (objects.namespace(obj) or None, objects.name(obj))
        with contextlib.suppress(NotFoundError):
            await self._kube.patch(resource, *where, body, patch_type=PatchType.MERGE)


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def _blocks(dependent: Object, owner: str) -> bool:
    return any(ref["uid"] == owner and ref.get("blockOwnerDeletion") for ref in _owners(dependent))
